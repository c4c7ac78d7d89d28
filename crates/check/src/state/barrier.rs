//! The barriers of a CTA: arrivals, and what arriving threads publish.

use warpwright_events::Actor;

use crate::state::knowledge::Knowledge;

/// How many generations of a barrier are remembered: as many as the barriers themselves do.
const GENERATIONS: usize = 4;

/// What arrives at one generation of a barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathering {
    generation: u32,
    brought: Knowledge,
    /// Whether it waits for all threads of the CTA; threads that have exited count by their exits.
    all: bool,
    /// Whether threads have proceeded from it. Later exits do not belong to it.
    left: bool,
    /// The arrivals: a warp, its lanes, and the instruction.
    places: Vec<(u32, u32, u32)>,
}

/// A barrier with its last generations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gatherings([Gathering; GENERATIONS]);

impl Gatherings {
    /// Lanes arrive. Returns the lanes of the same warp that arrived at another instruction, and
    /// that instruction.
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

    /// What threads know that proceed from a generation; `exited` is what the exited threads knew.
    pub(crate) fn leave(&mut self, generation: u32, exited: &Knowledge) -> Knowledge {
        let gathering = &mut self.0[generation as usize % GENERATIONS];
        if gathering.all && !gathering.left {
            gathering.brought.join(exited);
        }
        gathering.left = true;
        gathering.brought.clone()
    }
}
