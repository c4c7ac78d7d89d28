//! What a line costs: how many clocks it keeps the units of one SM busy, taken one by one.
//!
//! An estimate that sorts lines, no time: nothing waits for anything in it. Rates of an SM (CUDA
//! C++ Programming Guide, "Throughput of Native Arithmetic Instructions", and `arch`): four warps
//! issue in a clock; 64 lanes of integers and conversions, 16 of special functions; one pass of
//! shared memory; 64 bytes between L2 and an SM, that is two sectors.

use warpwright_arch::Arch;
use warpwright_runtime::{LineCounts, Unit};

/// What is kept busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pipe {
    Issue,
    CudaCores,
    Special,
    TensorCores,
    Shared,
    Global,
    Atomics,
}

impl Pipe {
    pub(super) fn name(self) -> &'static str {
        match self {
            Pipe::Issue => "issue slots",
            Pipe::CudaCores => "CUDA cores",
            Pipe::Special => "special function units",
            Pipe::TensorCores => "tensor cores",
            Pipe::Shared => "shared memory",
            Pipe::Global => "global memory",
            Pipe::Atomics => "atomics of one address",
        }
    }
}

const PIPES: usize = 7;

/// The clocks of each unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pipes: [(Pipe, f64); PIPES],
}

impl Cost {
    pub(super) fn of(line: &LineCounts, arch: &Arch) -> Self {
        let issued = |units: &[Unit]| {
            units.iter().map(|unit| line.issued.get(unit).copied().unwrap_or(0) as f64).sum::<f64>()
        };
        let lanes = |per_clock: u32| 32.0 / f64::from(per_clock.max(1));
        let cores = issued(&[Unit::F32, Unit::F16]) * lanes(arch.f32_per_sm_clock)
            + issued(&[Unit::F64]) * lanes(arch.f64_per_sm_clock)
            + issued(&[Unit::Integer, Unit::Conversion]) * lanes(64);
        let tensor: f64 = line
            .operations
            .iter()
            .filter(|(unit, _)| unit.is_tensor())
            .map(|(unit, operations)| *operations as f64 / (2.0 * f64::from(unit.tensor_rate(arch).max(1))))
            .sum();
        let counts = &line.counts;
        let sectors = counts.global().sectors + counts.copies.sectors;
        Self {
            pipes: [
                (Pipe::Issue, counts.executions as f64 / 4.0),
                (Pipe::CudaCores, cores),
                (Pipe::Special, issued(&[Unit::Special]) * lanes(16)),
                (Pipe::TensorCores, tensor),
                (Pipe::Shared, counts.shared.wavefronts as f64),
                (Pipe::Global, sectors as f64 / 2.0 + counts.local.sectors as f64 / 4.0),
                (Pipe::Atomics, counts.atomic_conflicts as f64),
            ],
        }
    }

    fn most(&self) -> (Pipe, f64) {
        let most = |a: (Pipe, f64), b: (Pipe, f64)| if b.1 > a.1 { b } else { a };
        self.pipes.into_iter().reduce(most).expect("there are units")
    }

    /// The clocks of the busiest unit.
    pub(super) fn clocks(&self) -> f64 {
        self.most().1
    }

    /// The busiest unit.
    pub(super) fn busiest(&self) -> Pipe {
        self.most().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_unit_is_what_a_line_costs() {
        let h200 = Arch::named("h200").expect("in the table");
        let mut line = LineCounts::default();
        line.counts.executions = 100;
        line.issued.insert(Unit::F32, 100);
        let cost = Cost::of(&line, h200);
        assert_eq!((cost.busiest(), cost.clocks()), (Pipe::Issue, 25.0));
        line.counts.shared.wavefronts = 3200;
        let cost = Cost::of(&line, h200);
        assert_eq!((cost.busiest(), cost.clocks()), (Pipe::Shared, 3200.0));
        line.operations.insert(Unit::TensorBf16, 2 * 2048 * 5000);
        assert_eq!(Cost::of(&line, h200).clocks(), 5000.0);
    }
}
