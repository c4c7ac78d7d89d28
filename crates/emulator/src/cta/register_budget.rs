//! Registers that warps exchange through the CTA's pool (PTX ISA, "setmaxnreg").
//!
//! A CTA starts with the registers of its kernel for every thread. A warp that lowers its limit
//! returns the difference to the CTA's pool, and a warp that raises it waits until the pool has
//! enough.
//!
//! PTX has all four warps of a warpgroup request the same number. From sm_100a on, each warp may
//! request its own: roles of CUTLASS's attention are warps of one warpgroup, of which some keep 32
//! registers and one 24.

use warpwright_arch::limits::SETMAXNREG_STEP;
use warpwright_events::{FaultKind, LANES};

use crate::kernel::image::LaunchBounds;
use crate::launch::context::LaunchContext;
use crate::launch::failure::Failure;

/// Warps of a warpgroup.
const WARPS: usize = 4;
/// Partitions of an SM, each with a quarter of its registers, that warps are distributed over.
const PARTITIONS: u32 = 4;

/// The registers of a CTA's warps.
#[derive(Clone, Debug)]
pub(crate) struct RegisterBudget {
    /// Registers per thread at the start; `None` if the kernel's directives do not determine them:
    /// `setmaxnreg` is ignored then.
    initial: Option<u32>,
    /// Whether the warps of a warpgroup must request the same.
    by_warpgroup: bool,
    /// Registers per thread, by warp.
    held: Vec<u32>,
    /// Registers of the CTA that no warp holds.
    free: u32,
    /// The requests of each warpgroup's warps, in order, and the progress of each warp.
    asked: Vec<(Vec<u32>, [usize; WARPS])>,
}

/// Registers per thread at the start, if a kernel's directives determine them.
///
/// They do so by `.maxnreg`, or by the threads of `.maxntid` or `.reqntid` together with
/// `.minnctapersm`, never by the threads alone; the kernel's largest request bounds them (measured
/// with ptxas 13.0: the registers it reports as used, and its remark C7508).
fn initial(bounds: &LaunchBounds, registers_per_sm: u32) -> Option<u32> {
    let threads = bounds.required_block.map(|[x, y, z]| x * y * z).or(bounds.most_threads);
    let fitting = threads.zip(bounds.least_ctas_per_sm).map(|(threads, ctas)| {
        let warps = threads.div_ceil(LANES as u32).saturating_mul(ctas).div_ceil(PARTITIONS).max(1);
        let of_warp = registers_per_sm / PARTITIONS / warps;
        of_warp / LANES as u32 / SETMAXNREG_STEP * SETMAXNREG_STEP
    });
    let requested = bounds.most_requested_registers.unwrap_or(u32::MAX);
    bounds.most_registers.or(fitting).map(|initial| initial.min(requested))
}

impl RegisterBudget {
    pub(crate) fn new(launch: &LaunchContext<'_>, warps: usize) -> Self {
        let initial = initial(&launch.kernel.bounds, launch.arch.capability.registers_per_sm);
        Self {
            initial,
            by_warpgroup: launch.arch.capability.compute_capability < (10, 0),
            held: vec![initial.unwrap_or(0); warps],
            free: 0,
            asked: vec![(Vec::new(), [0; WARPS]); warps.div_ceil(WARPS)],
        }
    }

    /// Resets the state, for another CTA of the same launch.
    pub(crate) fn reset(&mut self) {
        self.held.fill(self.initial.unwrap_or(0));
        self.free = 0;
        self.asked.fill((Vec::new(), [0; WARPS]));
    }

    /// Registers that no warp holds.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Registers that a warp lacks for `count` per thread.
    pub(crate) fn lacking(&self, warp: u32, count: u32) -> u32 {
        let more = count.saturating_sub(self.held[warp as usize]) * LANES as u32;
        more.saturating_sub(self.free)
    }

    /// A warp requests another number of registers per thread. Returns whether it has them now.
    pub(crate) fn ask(&mut self, warp: u32, count: u32, raises: bool) -> Result<bool, Box<Failure>> {
        let (group, member) = (warp as usize / WARPS, warp as usize % WARPS);
        let (asked, progress) = &mut self.asked[group];
        if self.by_warpgroup
            && let Some(&other) = asked.get(progress[member])
            && other != count
        {
            return Err(Failure::new(
                FaultKind::IllegalInstruction,
                u32::MAX,
                format!(
                    "This warp requests {count} registers, and another warp of its warpgroup {other}: all four must request the same number."
                ),
            ));
        }
        if self.initial.is_some() {
            let held = self.held[warp as usize];
            if (raises && count < held) || (!raises && count > held) {
                let (word, way) = if raises { (".inc", "fewer") } else { (".dec", "more") };
                return Err(Failure::new(
                    FaultKind::IllegalInstruction,
                    u32::MAX,
                    format!(
                        "`setmaxnreg{word}` requests {count} registers, {way} than the {held} that the warp has."
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

    /// The report of ptxas 13.0 for kernels that request at most 240 registers.
    #[test]
    fn kernels_start_with_what_ptxas_gives_them() {
        let measured = [
            (128, [240, 240, 168, 128]),
            (192, [240, 168, 96, 80]),
            (224, [240, 128, 80, 72]),
            (256, [240, 128, 80, 64]),
            (288, [168, 96, 72, 56]),
            (320, [168, 96, 64, 48]),
            (384, [168, 80, 56, 40]),
            (512, [128, 64, 40, 32]),
        ];
        let most_requested_registers = Some(240);
        for (threads, registers) in measured {
            for (ctas, registers) in (1..).zip(registers) {
                let (most_threads, least_ctas_per_sm) = (Some(threads), Some(ctas));
                let bounds = LaunchBounds {
                    most_threads,
                    least_ctas_per_sm,
                    most_requested_registers,
                    ..Default::default()
                };
                assert_eq!(initial(&bounds, 1 << 16), Some(registers), "{ctas} CTAs of {threads}");
                assert_eq!(initial(&LaunchBounds { least_ctas_per_sm: None, ..bounds }, 1 << 16), None);
            }
        }
        let of = |most_registers| {
            initial(&LaunchBounds { most_registers, most_requested_registers, ..Default::default() }, 1 << 16)
        };
        assert_eq!((of(Some(100)), of(Some(255)), of(None)), (Some(100), Some(240), None));
    }

    fn budget(warps: usize, initial: u32) -> RegisterBudget {
        RegisterBudget {
            initial: Some(initial),
            by_warpgroup: true,
            held: vec![initial; warps],
            free: 0,
            asked: vec![(Vec::new(), [0; WARPS]); warps.div_ceil(WARPS)],
        }
    }

    #[test]
    fn what_one_warpgroup_leaves_others_may_take() {
        // 168 registers in 3 warpgroups: two take 72 more after one has released 144.
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
