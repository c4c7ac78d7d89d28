//! Registers that warps hand to each other (PTX ISA, "setmaxnreg").
//!
//! A CTA starts with as many registers as its kernel may use in every thread. A warp that lowers its limit leaves the rest
//! in the CTA's pool, and one that raises it waits until the pool has enough.

use crate::fault::FaultKind;
use crate::launch::LaunchContext;
use crate::memory::Trouble;
use crate::registers::LANES;

/// Warps of a warpgroup.
const WARPS: usize = 4;
/// The most registers a thread may be compiled for (CUDA C++ Programming Guide, "Compute Capabilities").
const MOST_COMPILED: u32 = 255;
/// Registers are handed out by this many a thread.
const GRANULE: u32 = 8;

/// What the warps of a CTA hold.
#[derive(Clone, Debug)]
pub(crate) struct RegisterBudget {
    /// Registers of a thread at the start; `None` if neither the kernel's registers nor its threads are bounded: the
    /// device then ignores `setmaxnreg`.
    initial: Option<u32>,
    /// Registers of a thread, by warp.
    held: Vec<u32>,
    /// Registers of the CTA that no warp holds.
    free: u32,
    /// What the warps of each warpgroup have asked for, in order, and how far each warp is.
    asked: Vec<(Vec<u32>, [usize; WARPS])>,
}

impl RegisterBudget {
    pub(crate) fn new(launch: &LaunchContext<'_>, warps: usize) -> Self {
        let bounds = &launch.kernel.bounds;
        let by_threads = bounds.required_block.map(|[x, y, z]| x * y * z).or(bounds.most_threads);
        let fitting = by_threads.map(|threads| {
            let ctas = bounds.least_ctas_per_sm.unwrap_or(1).max(1);
            let fitting = launch.arch.capability.registers_per_sm / (threads.max(1).saturating_mul(ctas));
            (fitting / GRANULE * GRANULE).min(MOST_COMPILED)
        });
        let initial = bounds.most_registers.or(fitting);
        Self {
            initial,
            held: vec![initial.unwrap_or(0); warps],
            free: 0,
            asked: vec![(Vec::new(), [0; WARPS]); warps.div_ceil(WARPS)],
        }
    }

    /// Forgets everything, for another CTA of the same launch.
    pub(crate) fn reset(&mut self) {
        self.held.fill(self.initial.unwrap_or(0));
        self.free = 0;
        self.asked.fill((Vec::new(), [0; WARPS]));
    }

    /// Registers that no warp holds.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Registers that a warp lacks to have `count` a thread.
    pub(crate) fn lacking(&self, warp: u32, count: u32) -> u32 {
        let more = count.saturating_sub(self.held[warp as usize]) * LANES as u32;
        more.saturating_sub(self.free)
    }

    /// A warp asks for another number of registers a thread. Whether it has them now.
    pub(crate) fn ask(&mut self, warp: u32, count: u32, raises: bool) -> Result<bool, Box<Trouble>> {
        let (group, member) = (warp as usize / WARPS, warp as usize % WARPS);
        let (asked, progress) = &mut self.asked[group];
        if let Some(&other) = asked.get(progress[member])
            && other != count
        {
            return Err(Trouble::new(
                FaultKind::IllegalInstruction,
                u32::MAX,
                format!(
                    "This warp asks for {count} registers where another warp of its warpgroup asked for {other}: all four \
                     must ask for the same."
                ),
            ));
        }
        if self.initial.is_some() {
            let held = self.held[warp as usize];
            if (raises && count < held) || (!raises && count > held) {
                let (word, way) = if raises { (".inc", "fewer") } else { (".dec", "more") };
                return Err(Trouble::new(
                    FaultKind::IllegalInstruction,
                    u32::MAX,
                    format!(
                        "`setmaxnreg{word}` asks for {count} registers, {way} than the {held} that the warp has."
                    ),
                ));
            }
            let more = count.saturating_sub(held) * LANES as u32;
            if more > self.free {
                return Ok(false);
            }
            self.free = self.free - more + held.saturating_sub(count) * LANES as u32;
            self.held[warp as usize] = count;
        }
        let (asked, progress) = &mut self.asked[group];
        if asked.len() == progress[member] {
            asked.push(count);
        }
        progress[member] += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(warps: usize, initial: u32) -> RegisterBudget {
        RegisterBudget {
            initial: Some(initial),
            held: vec![initial; warps],
            free: 0,
            asked: vec![(Vec::new(), [0; WARPS]); warps.div_ceil(WARPS)],
        }
    }

    #[test]
    fn what_one_warpgroup_leaves_others_may_take() {
        // 168 registers in 3 warpgroups: two take 72 more when one has left 144.
        let mut budget = budget(12, 168);
        assert!(!budget.ask(4, 240, true).unwrap());
        assert_eq!(budget.lacking(4, 240), 72 * 32);
        for warp in 0..4 {
            assert!(budget.ask(warp, 24, false).unwrap());
        }
        for warp in 4..12 {
            assert!(budget.ask(warp, 240, true).unwrap());
        }
        assert_eq!(budget.free(), 0);
        budget.reset();
        assert!(!budget.ask(4, 240, true).unwrap());
    }

    #[test]
    fn warps_of_a_warpgroup_ask_for_the_same_and_in_the_right_direction() {
        let mut budget = budget(8, 128);
        assert!(budget.ask(0, 64, false).unwrap());
        assert!(budget.ask(1, 72, false).is_err());
        assert!(budget.ask(4, 136, false).is_err());
        assert!(budget.ask(4, 120, true).is_err());
    }
}
