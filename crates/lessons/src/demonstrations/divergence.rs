//! What a warp whose lanes go different ways costs.
//!
//! A warp has one instruction at a time. Where its lanes take w ways, it goes each of them in turn, with the other lanes off:
//! w times as many instructions for the same work, and 1/w of the lanes at work.

use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;

use super::exactly;
use warpwright_kernels::number::Values;
use warpwright_kernels::prepared::{Ready, ptx};
use warpwright_kernels::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work};

/// Lane l goes way l % ways; each way is a chain of multiply-adds of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Divergence {
    /// Ways: 1 to 32.
    pub ways: u32,
}

/// Threads of a CTA.
const THREADS: u32 = 256;
/// Multiply-adds of each way.
pub(super) const STEPS: u32 = 64;

impl Divergence {
    /// What a way multiplies by.
    fn factor(way: u32) -> f32 {
        0.5 + way as f32 / 64.0
    }

    /// Input and output have `length` elements.
    #[kernel]
    pub fn run(&self, input: &Global<f32>, output: &mut Global<f32>, length: u32) {
        launch::threads(THREADS);
        let i = block_idx().x * THREADS + thread_idx().x;
        if i < length {
            let mut x = input[i];
            for way in 0..self.ways {
                if i % self.ways == way {
                    for _ in 0..STEPS {
                        x = x.mul_add(Self::factor(way), 1.0);
                    }
                }
            }
            output[i] = x;
        }
    }
}

/// [`Divergence`] for the command line.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("length", 1 << 20, "elements"),
    OptionSpec::extent("ways", 2, "that the lanes of a warp go: 1 to 32"),
    OptionSpec::number("seed", 1, "of the input"),
];

fn kernel(options: &Options) -> Result<Divergence> {
    let ways = options.u32("ways")?;
    if ways > 32 {
        return Err(format!("a warp has 32 lanes, which cannot go {ways} ways").into());
    }
    Ok(Divergence { ways })
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "divergence"
    }

    fn summary(&self) -> &'static str {
        "lanes of a warp go different ways, one after another"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        ptx(kernel(options)?.run()?, target)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let (kernel, length) = (kernel(options)?, options.u32("length")?);
        let input: Vec<f32> = Values::Normal.numbers(options.number("seed"), length as usize);
        let input_there = device.buffer_from(&input)?;
        let output = Rc::new(device.uninitialized::<f32>(length as usize)?);
        let compiled = device.compile(&kernel.run()?)?;
        let result = Rc::clone(&output);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                let shape = compiled.shape(length.div_ceil(THREADS));
                Ok(compiled.function().launch(stream, shape, (&input_there, &*output, length))?)
            },
            verify: move || {
                exactly(&result.to_vec()?, |index| {
                    let factor = Divergence::factor(index as u32 % kernel.ways);
                    f64::from((0..STEPS).fold(input[index], |x, _| x.mul_add(factor, 1.0)))
                })
            },
            work: Work {
                operations: 2.0 * f64::from(STEPS) * f64::from(length),
                bytes: 8.0 * f64::from(length),
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warp executes each way's chain once, whatever lanes are in it; every lane executes one chain.
    #[test]
    fn the_emulator_counts_each_way_once_a_warp() {
        let device = Device::named("emu:h200").expect("emulators are always there");
        let stream = device.stream().expect("a stream");
        let counted = |ways: u64| {
            let mut options = Options::defaults(OPTIONS);
            options.set("length", "256").expect("a length");
            options.set("ways", &ways.to_string()).expect("ways");
            let mut prepared = Library.prepare(&device, &options).expect("prepared");
            let counts = prepared.launch(&stream).expect("launched");
            prepared.verify().expect("right");
            counts
        };
        let (warps, steps) = (u64::from(THREADS / 32), u64::from(STEPS));
        let straight = counted(1);
        for ways in [2, 3, 4, 8, 16, 32] {
            let counts = counted(ways);
            let more = counts.warp_instructions - straight.warp_instructions;
            // A way more is its chain, and a few instructions to choose it.
            let chains = warps * (ways - 1) * steps;
            assert!((chains..chains + warps * ways * 8).contains(&more), "{ways} ways: {more}");
            let lanes = counts.lane_operations - straight.lane_operations;
            assert!(lanes < 32 * warps * ways * 8, "{ways} ways: no lane does the work of two: {lanes}");
        }
    }
}
