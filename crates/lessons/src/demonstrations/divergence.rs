//! The cost of divergence in a warp.
//!
//! A warp executes one instruction at a time. If its lanes take w branches, it executes the
//! branches one after another, each with the other lanes inactive: w times as many instructions for
//! the same work, with 1/w of the lanes active.
//!
//! If the warps take the branches, and all lanes of a warp the same one, no instruction is executed twice.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::prelude::*;
use warpwright_harness::{Options, Prepared, Result, Setup, Values, Work, Workload, exactly};

/// Who takes the branches in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum By {
    /// Lane l takes branch l % w.
    #[default]
    Lane,
    /// All lanes of warp u take branch u % w.
    Warp,
}

impl By {
    /// The branch of thread `i` of the grid.
    fn branch(self, i: u32, ways: u32) -> u32 {
        match self {
            By::Lane => i % ways,
            By::Warp => i / WARP % ways,
        }
    }
}

/// Each branch is a chain of multiply-adds of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Divergence {
    /// Number of branches: 1 to 32.
    pub ways: u32,
    /// Who takes them in turn.
    pub by: By,
}

/// Threads per CTA.
const THREADS: u32 = 256;
/// Lanes of a warp.
const WARP: u32 = 32;
/// Multiply-adds per branch.
pub(super) const STEPS: u32 = 64;

impl Divergence {
    /// The multiplier of a branch.
    fn factor(way: u32) -> f32 {
        0.5 + way as f32 / 64.0
    }

    /// Input and output have `length` elements.
    #[kernel]
    pub fn run(&self, input: &Global<f32>, output: &mut Global<f32>, length: u32) {
        launch::threads(THREADS);
        let i = block_idx().x * THREADS + thread_idx().x;
        if i < length {
            // ANCHOR: branches
            let group = match self.by {
                By::Lane => i,
                By::Warp => i / WARP,
            };
            let mut x = input[i];
            for way in 0..self.ways {
                if group % self.ways == way {
                    for _ in 0..STEPS {
                        x = x.mul_add(Self::factor(way), 1.0);
                    }
                }
            }
            output[i] = x;
            // ANCHOR_END: branches
        }
    }
}

/// Sends lanes of a warp along different branches, which execute one after another.
#[derive(Clone, Debug, Options)]
pub(crate) struct DivergenceWorkload {
    /// Number of elements.
    #[option(default = 1 << 20, min = 1)]
    length: u32,
    /// Branches that the lanes of a warp take.
    #[option(default = 2, min = 1, max = 32)]
    ways: u32,
    /// Who takes the branches in turn.
    by: By,
}

impl Workload for DivergenceWorkload {
    const NAME: &'static str = "divergence";

    fn work(&self) -> Work {
        let elements = f64::from(self.length);
        Work { operations: 2.0 * f64::from(STEPS) * elements, bytes: 8.0 * elements }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (length, ways, by) = (self.length, self.ways, self.by);
        let kernel = setup.device().compile(&Divergence { ways, by }.run()?)?;
        let buffers = setup.buffers(self.work(), |seed| {
            let input = setup.values::<f32>(Values::Normal, seed, length as usize)?;
            Ok((input, setup.output::<f32>(length as usize)?))
        })?;
        Ok(buffers
            .launch(move |stream, (input, output)| {
                Ok(kernel.launch(stream, length.div_ceil(THREADS), (input, output, length))?)
            })
            .verify(move |(input, output)| {
                let input = input.to_vec()?;
                exactly(&output.to_vec()?, |index| {
                    let factor = Divergence::factor(by.branch(index as u32, ways));
                    f64::from((0..STEPS).fold(input[index], |x, _| x.mul_add(factor, 1.0)))
                })
            }))
    }
}

#[cfg(test)]
mod tests {
    use warpwright::runtime::Device;

    use super::*;

    /// A warp executes each branch's chain once, whatever lanes take it; every lane executes one
    /// chain.
    #[test]
    fn the_emulator_counts_each_way_once_a_warp() {
        let device = Device::named("emu:h200").expect("emulators are always there");
        let stream = device.stream().expect("a stream");
        let counted = |ways: u64, by: By| {
            let workload = DivergenceWorkload { length: 256, ways: ways as u32, by };
            let mut prepared = workload.prepare(&Setup::new(&device)).expect("prepared");
            let counts = prepared.launch(&stream).expect("launched");
            prepared.verify().expect("right");
            counts
        };
        let (warps, steps) = (u64::from(THREADS / 32), u64::from(STEPS));
        let straight = counted(1, By::Lane);
        for ways in [2, 3, 4, 8, 16, 32] {
            let counts = counted(ways, By::Lane);
            let more = counts.warp_instructions - straight.warp_instructions;
            // Each additional branch costs its chain, and a few instructions to select it.
            let chains = warps * (ways - 1) * steps;
            assert!((chains..chains + warps * ways * 8).contains(&more), "{ways} ways: {more}");
            let lanes = counts.lane_operations - straight.lane_operations;
            assert!(lanes < 32 * warps * ways * 8, "{ways} ways: no lane executes two chains: {lanes}");
            // By warps no chain is executed twice.
            let more = counted(ways, By::Warp).warp_instructions - straight.warp_instructions;
            assert!(more < warps * (ways + 1) * 8, "{ways} ways by warp: {more}");
        }
    }
}
