//! What has been brought to the barriers of a CTA.

use warpwright_events::Actor;

use crate::state::knowledge::Knowledge;

/// How many generations of a barrier are remembered: as many as the barriers themselves do.
const GENERATIONS: usize = 4;

/// What has been brought to one generation of a barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathering {
    generation: u32,
    brought: Knowledge,
    /// Whether it waits for all threads of the CTA, of those that have exited for their exits.
    all: bool,
    /// Whether threads have gone on from it. Exits since then are no part of it.
    left: bool,
    /// Who has arrived: a warp, its lanes, and from where.
    places: Vec<(u32, u32, u32)>,
}

/// A barrier: what was brought to its last generations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gatherings([Gathering; GENERATIONS]);

impl Gatherings {
    /// Lanes arrive. If others of their warp have done so from elsewhere in the program: who, and from where.
    pub(crate) fn bring(
        &mut self,
        generation: u32,
        all: bool,
        knowledge: &Knowledge,
        actor: Actor,
    ) -> Option<(u32, u32)> {
        let gathering = &mut self.0[generation as usize % GENERATIONS];
        if gathering.generation != generation {
            *gathering = Gathering { generation, ..Gathering::default() };
        }
        gathering.all = all;
        gathering.brought.join(knowledge);
        let own = gathering.places.iter_mut().filter(|(warp, ..)| *warp == actor.warp);
        let mut elsewhere = None;
        for (_, lanes, pc) in own {
            if *pc == actor.pc {
                *lanes |= actor.lanes;
                return None;
            }
            elsewhere = Some((*lanes, *pc));
        }
        gathering.places.push((actor.warp, actor.lanes, actor.pc));
        elsewhere
    }

    /// What threads know that go on from a generation; `exited` is what threads knew that have exited.
    pub(crate) fn leave(&mut self, generation: u32, exited: &Knowledge) -> Knowledge {
        let gathering = &mut self.0[generation as usize % GENERATIONS];
        if gathering.all && !gathering.left {
            gathering.brought.join(exited);
        }
        gathering.left = true;
        gathering.brought.clone()
    }
}
