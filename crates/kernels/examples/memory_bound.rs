//! How fast the memory-bound kernels are, as JSON lines: bytes that a kernel must read and write, over the median of batches between two events.
//!
//! Inputs are made on the device, different for each set of buffers; sets take turns, so that no launch finds in L2 what the last one touched.

use std::error::Error;

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Storable, Stream};
use warpwright_kernels::elementwise::{Copy, Walk};
use warpwright_kernels::monoid::{ArgMax, Monoid, Sum};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::{
    AddRmsNorm, CrossEntropy, Form, Gain, LayerNorm, Plan, RmsNorm, Softmax, Traffic,
};
use warpwright_kernels::select::Predicate;
use warpwright_kernels::{reduce, scan};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Words of a hash of their place: bf16 pairs, or f32, of ordinary size.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Fill {
    keep: u32,
    set: u32,
}

impl Fill {
    #[kernel]
    fn run<T: Storable>(&self, buffer: &mut Global<T>, length: u64, seed: u32) {
        launch::threads(256);
        let start = block_idx().x.convert::<u64>() * 256 + thread_idx().x.convert::<u64>();
        let step = grid_dim().x.convert::<u64>() * 256;
        for index in (start..length).step_by(step) {
            let mut word = index.convert::<u32>() ^ seed;
            word = (word ^ (word >> 16u32)) * 0x7feb_352du32;
            word = (word ^ (word >> 15u32)) * 0x846c_a68bu32;
            word = word ^ (word >> 16u32);
            buffer.cast::<u32>().at(index).store((word & self.keep) | self.set);
        }
    }
}

struct Bench {
    operations: Operations,
    stream: Stream,
    only: Option<String>,
    batches: usize,
}

impl Bench {
    fn filled<T: Storable>(&self, length: usize, seed: u32) -> Result<Buffer<T>> {
        let words = length * size_of::<T>() / 4;
        let kernel = if size_of::<T>() == 4 {
            Fill { keep: 0x807f_ffff, set: 0x3e80_0000 }
        } else {
            Fill { keep: 0x80ff_80ff, set: 0x3f00_3f00 }
        };
        let mut buffer = self.operations.device().uninitialized::<T>(length)?;
        let fill = self.operations.kernel(kernel, Fill::run::<T>)?;
        fill.launch(&self.stream, 1056, 256, (&mut buffer, words as u64, seed))?;
        Ok(buffer)
    }

    fn time(
        &self,
        name: &str,
        options: &str,
        bytes: f64,
        mut launch: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        if self.only.as_ref().is_some_and(|only| !only.split(',').any(|only| name.starts_with(only))) {
            return Ok(());
        }
        let batch = |launch: &mut dyn FnMut(usize) -> Result<()>, count: usize| -> Result<f64> {
            let start = self.stream.record()?;
            for turn in 0..count {
                launch(turn)?;
            }
            let end = self.stream.record()?;
            end.synchronize()?;
            Ok(end.since(&start)?.as_secs_f64() / count as f64)
        };
        batch(&mut launch, 1)?;
        let one = batch(&mut launch, 2)?;
        let count = ((0.004 / one).ceil() as usize).clamp(2, 400);
        batch(&mut launch, count)?;
        let mut seconds = (0..self.batches).map(|_| batch(&mut launch, count)).collect::<Result<Vec<_>>>()?;
        seconds.sort_by(f64::total_cmp);
        let rate = |seconds: f64| bytes / seconds / 1e9;
        println!(
            "{{\"kernel\": \"{name}\", \"options\": \"{options}\", \"microseconds\": {:.2}, \"gigabytes_per_second\": {:.1}, \"best\": {:.1}, \"worst\": {:.1}}}",
            seconds[seconds.len() / 2] * 1e6,
            rate(seconds[seconds.len() / 2]),
            rate(seconds[0]),
            rate(seconds[seconds.len() - 1])
        );
        Ok(())
    }

    fn reductions<M: Monoid<f32>>(&self, name: &str, monoid: M, input: &Buffer<f32>) -> Result<()> {
        let device = self.operations.device();
        let mut output = device.uninitialized::<M::Output>(1)?;
        let mut partials = device.uninitialized::<u64>(1 << 16)?;
        let mut arrived = device.zeros::<u32>(1)?;
        let length = input.len() as u64;
        let shapes: &[[u32; 4]] = &[[256, 8, 3, 1], [256, 8, 6, 1], [256, 8, 0, 1]];
        for &[threads, unroll, stages, overlaps] in shapes {
            let configuration = reduce::single_pass::SinglePass {
                monoid,
                threads,
                unroll,
                stages,
                ctas_per_sm: 0,
                overlaps: overlaps > 0,
            };
            let kernel =
                self.operations.kernel(configuration, reduce::single_pass::SinglePass::<M>::run::<f32>)?;
            let shape = kernel.shape(1, threads);
            let resident = kernel.function().occupancy(&shape)?.ctas_per_sm * device.properties().sm_count;
            let grid = configuration.grid::<f32>(length, resident);
            let shape = kernel.shape(grid, threads);
            let shape = if overlaps > 0 { shape.overlapping() } else { shape };
            let options =
                format!("threads {threads} unroll {unroll} stages {stages} overlaps {overlaps} grid {grid}");
            self.time(name, &options, length as f64 * 4.0, |_| {
                kernel.launch_as(
                    &self.stream,
                    shape,
                    (input, &mut output, &mut partials, &mut arrived, length),
                )?;
                Ok(())
            })?;
        }
        Ok(())
    }

    fn scans(&self, length: usize) -> Result<()> {
        let device = self.operations.device();
        let input = self.filled::<f32>(length, 7)?;
        let mut output = device.uninitialized::<f32>(length)?;
        let mut counter = device.zeros::<u64>(1)?;
        let mut words = device.zeros::<u64>(length / 1024)?;
        let mut records = device.uninitialized::<u64>(1024)?;
        let capability = device.properties().capability;
        // The configuration that `scan` takes, and what one thing less or more in it costs.
        let shapes: &[[u32; 6]] = &[
            [256, 7, 4, 2, 2, 9],
            [256, 7, 3, 1, 2, 9],
            [256, 5, 4, 2, 2, 9],
            [512, 7, 3, 1, 1, 5],
            [512, 5, 5, 2, 1, 5],
            [512, 5, 5, 3, 1, 5],
        ];
        for &[threads, vectors, stages, lag, blocks_per_sm, windows] in shapes {
            let configuration = scan::single_pass::SinglePass {
                threads,
                vectors,
                stages,
                lag,
                blocks_per_sm,
                windows,
                ..scan::single_pass::SinglePass::new::<f32>(Sum, scan::ScanKind::Inclusive, capability)
            };
            counter.fill_zero()?;
            words.fill_zero()?;
            let kernel =
                self.operations.kernel(configuration, scan::single_pass::SinglePass::<Sum>::run::<f32>)?;
            let resident = kernel.function().occupancy(&kernel.shape(1, configuration.block()))?.ctas_per_sm
                * device.properties().sm_count;
            let options = format!(
                "threads {threads} vectors {vectors} stages {stages} lag {lag} blocks_per_sm {blocks_per_sm} windows {windows} grid {resident}"
            );
            self.time("scan", &options, length as f64 * 8.0, |_| {
                kernel.launch(
                    &self.stream,
                    resident,
                    configuration.block(),
                    (&input, &mut output, &mut counter, &mut words, &mut records, length as u64),
                )?;
                Ok(())
            })?;
        }
        self.time("copy", "driver, as many bytes as the scan", length as f64 * 8.0, |_| {
            self.stream.copy(&mut output, &input)?;
            Ok(())
        })?;
        Ok(())
    }

    /// Copies by every width of access, and what reads once and writes less: selections and histograms.
    fn streams(&self, length: usize) -> Result<()> {
        let device = self.operations.device();
        let (bytes, mut copied) =
            (self.filled::<u8>(4 * length, 9)?, device.uninitialized::<u8>(4 * length)?);
        for bits in [8, 16, 32, 64, 128] {
            let walk = Walk { bits, ..Walk::ONE_INPUT };
            let kernel = self.operations.kernel(Copy { walk }, Copy::run::<u8>)?;
            let grid = walk.grid::<u8>(bytes.len() as u64)?;
            self.time("copy", &format!("u8, {bits} bits"), 8.0 * length as f64, |_| {
                kernel.launch(&self.stream, grid, walk.threads, (&bytes, &mut copied, bytes.len() as u64))?;
                Ok(())
            })?;
        }
        drop((bytes, copied));
        let numbers = self.filled::<f32>(length, 10)?;
        let mut kept = device.uninitialized::<f32>(length)?;
        let mut count = device.zeros::<u64>(1)?;
        self.time("select", "f32 above 0: half of them", 6.0 * length as f64, |_| {
            self.operations.select_if(&self.stream, &numbers, &mut kept, &mut count, Positive)?;
            Ok(())
        })?;
        let mut counts = device.zeros::<u64>(256)?;
        self.time("histogram", "f32, 256 even bins", 4.0 * length as f64, |_| {
            self.operations.histogram_even(&self.stream, &numbers, (-0.5, 0.5), &mut counts)?;
            Ok(())
        })
    }

    fn rows(&self, rows: u32, columns: u32) -> Result<()> {
        let device = self.operations.device();
        let capability = device.properties().capability;
        let length = rows as usize * columns as usize;
        let sets = (200_000_000 / (2 * length)).clamp(1, 4);
        let many = |seed: u32| {
            (0..sets).map(|set| self.filled::<bf16>(length, seed + set as u32)).collect::<Result<Vec<_>>>()
        };
        let (xs, rs, mut ys, mut ss) = (many(1)?, many(11)?, many(21)?, many(31)?);
        let (w, b) = (self.filled::<bf16>(columns as usize, 5)?, self.filled::<bf16>(columns as usize, 6)?);
        let targets = device
            .buffer_from(&(0..i64::from(rows)).map(|row| row % i64::from(columns)).collect::<Vec<_>>())?;
        let mut losses = device.uninitialized::<f32>(rows as usize)?;
        let matrix = length as f64 * 2.0;
        macro_rules! bench {
            ($name:literal, $matrices:literal, $plan:expr, |$chosen:ident| $kernel:expr, $stage:expr, |$turn:ident| $arguments:expr) => {
                let $chosen: Plan = $plan;
                let kernel = self.operations.kernel($kernel, $stage)?;
                let shape = $chosen.shape(&kernel, rows)?;
                let options = format!(
                    "rows {rows} columns {columns} threads {} ctas {} grid {}",
                    $chosen.threads, $chosen.ctas, shape.grid.0[0]
                );
                self.time($name, &options, $matrices * matrix, |turn| {
                    let $turn = turn % sets;
                    kernel.launch_as(&self.stream, shape, $arguments)?;
                    Ok(())
                })?;
            };
        }
        let planned = |traffic| Plan::new::<bf16>(columns, traffic, capability);
        bench!(
            "softmax",
            2.0,
            planned(Traffic::SOFTMAX),
            |plan| Softmax { plan, form: Form::Probabilities },
            Softmax::run::<bf16, bf16>,
            |turn| (&xs[turn], &mut ys[turn], rows)
        );
        bench!(
            "rms-norm",
            2.0,
            planned(Traffic::RMS_NORM),
            |plan| RmsNorm { plan, gain: Gain::ZeroCentred },
            RmsNorm::run::<bf16, bf16>,
            |turn| (&xs[turn], &w, &mut ys[turn], rows, 1e-6)
        );
        bench!(
            "layer-norm",
            2.0,
            planned(Traffic::LAYER_NORM),
            |plan| LayerNorm { plan },
            LayerNorm::run::<bf16, bf16>,
            |turn| (&xs[turn], &w, &b, &mut ys[turn], rows, 1e-6)
        );
        bench!(
            "add-rms-norm",
            4.0,
            planned(Traffic::ADD_RMS_NORM),
            |plan| AddRmsNorm { plan, gain: Gain::ZeroCentred },
            AddRmsNorm::run::<bf16>,
            |turn| (&xs[turn], &rs[turn], &w, &mut ss[turn], &mut ys[turn], rows, 1e-6)
        );
        bench!(
            "cross-entropy",
            1.0,
            planned(Traffic::CROSS_ENTROPY),
            |plan| CrossEntropy { plan },
            CrossEntropy::run::<bf16>,
            |turn| (&xs[turn], &targets, &mut losses, rows)
        );
        self.time("copy", &format!("driver, {rows} x {columns}"), 2.0 * matrix, |turn| {
            self.stream.copy(&mut ys[turn % sets], &xs[turn % sets])?;
            Ok(())
        })?;
        Ok(())
    }
}

/// Wants what is above 0.
#[derive(Clone, std::marker::Copy, PartialEq, Eq, Hash)]
struct Positive;

impl Predicate<f32> for Positive {
    fn wants(&self, element: Reg<f32>) -> Reg<bool> {
        element.gt(0f32)
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let device = Device::named(&arguments.next().unwrap_or_else(|| "emu:h200".to_owned()))?;
    let is_small = device.properties().is_emulated;
    let only = arguments.next();
    let batches = arguments.next().map_or(Ok(9), |batches| batches.parse())?;
    let bench = Bench { operations: Operations::new(&device), stream: device.stream()?, only, batches };
    let scale = |length: usize| if is_small { length >> 10 } else { length };
    bench.streams(scale(1 << 28))?;
    bench.scans(scale(1 << 28))?;
    let rows = |rows: u32| if is_small { rows.min(64) } else { rows };
    for (count, columns) in [(8192, 4096), (4096, 16_384), (2048, 65_536), (1024, 262_144)] {
        bench.rows(rows(count), columns)?;
    }
    let input = bench.filled::<f32>(scale(1 << 30), 3)?;
    bench.reductions("sum", Sum, &input)?;
    bench.reductions("argmax", ArgMax, &input)?;
    Ok(())
}
