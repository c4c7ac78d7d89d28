//! The barriers of a CTA: arrivals, and what arriving threads publish.

use warpwright_events::Actor;

use crate::state::knowledge::Knowledge;

/// Number of generations that are kept; the barriers themselves keep as many.
const GENERATIONS: usize = 4;

/// What arrives at one generation of a barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generation {
    generation: u32,
    published: Knowledge,
    /// Whether it waits for all threads of the CTA; an exit counts as an arrival.
    all: bool,
    /// Whether threads have proceeded from it. Later exits do not belong to it.
    proceeded: bool,
    /// The arrivals: a warp, its lanes, and the instruction.
    arrivals: Vec<(u32, u32, u32)>,
}

/// A barrier with its last generations.
#[derive(Clone, Debug, Default)]
pub(crate) struct BarrierHistory([Generation; GENERATIONS]);

impl BarrierHistory {
    /// Lanes arrive. Returns the lanes of the same warp that arrived at another instruction, and
    /// that instruction.
    pub(crate) fn bring(
        &mut self,
        generation: u32,
        all: bool,
        knowledge: &Knowledge,
        actor: Actor,
    ) -> Option<(u32, u32)> {
        let current = &mut self.0[generation as usize % GENERATIONS];
        if current.generation != generation {
            *current = Generation { generation, ..Generation::default() };
        }
        current.all = all;
        current.published.join(knowledge);
        let own = current.arrivals.iter_mut().filter(|(warp, ..)| *warp == actor.warp);
        let mut elsewhere = None;
        for (_, lanes, pc) in own {
            if *pc == actor.pc {
                *lanes |= actor.lanes;
                return None;
            }
            elsewhere = Some((*lanes, *pc));
        }
        current.arrivals.push((actor.warp, actor.lanes, actor.pc));
        elsewhere
    }

    /// The knowledge of threads that proceed from a generation; `exited` is what the exited threads
    /// knew.
    pub(crate) fn leave(&mut self, generation: u32, exited: &Knowledge) -> Knowledge {
        let current = &mut self.0[generation as usize % GENERATIONS];
        if current.all && !current.proceeded {
            current.published.join(exited);
        }
        current.proceeded = true;
        current.published.clone()
    }
}
