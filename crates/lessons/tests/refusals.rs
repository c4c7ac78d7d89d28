//! Unsupported configurations and mismatched buffers are refused with a sentence that says what is
//! valid.

use warpwright::prelude::*;
use warpwright_kernels::monoid::{Monoid, Sum};
use warpwright_kernels::scan::ScanKind;
use warpwright_kernels::sort::Direction::Ascending;
use warpwright_lessons::reduce::stepwise::{Step, Stepwise};
use warpwright_lessons::scan::segmented::{Method as SectionMethod, Segmented};
use warpwright_lessons::sort::bitonic::{self, Bitonic};
use warpwright_lessons::sort::merge::{self, Merge};

use crate::refused::{Bench, Outcome, Refusal, expect_refusals, refusals, sorted_by};

fn by_bitonic(bench: &Bench, threads: u32) -> Outcome {
    let sort = Bitonic { direction: Ascending, threads };
    sorted_by(bench, |b, keys, sorted| bitonic::keys(&b.operations, &b.stream, keys, sorted, sort))
}

fn by_merging(bench: &Bench, threads: u32, items: u32) -> Outcome {
    let sort = Merge { direction: Ascending, threads, items };
    sorted_by(bench, |b, keys, sorted| merge::keys(&b.operations, &b.stream, keys, sorted, sort))
}

fn in_launches(bench: &Bench, threads: u32) -> Outcome {
    let reduction = Stepwise { monoid: Sum, step: Step::Interleaved, threads };
    reduction.reduce(&bench.operations, &bench.stream, &bench.f32(10), &mut bench.f32(1))
}

fn in_sections(bench: &Bench, method: SectionMethod, threads: u32) -> Outcome {
    let scan = Segmented { monoid: Sum, kind: ScanKind::Inclusive, method, threads };
    scan.scan(&bench.operations, &bench.stream, &bench.of::<f64>(10), &mut bench.of(10))
}

/// The later of two elements: its order matters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Last;

impl Monoid<u32> for Last {
    type State = Reg<u32>;
    type Output = u32;
    const COMMUTES: bool = false;

    fn identity(&self) -> Reg<u32> {
        constant(0)
    }

    fn lift(&self, element: Reg<u32>, _index: Reg<u64>) -> Reg<u32> {
        element
    }

    fn combine(&self, earlier: Reg<u32>, later: Reg<u32>) -> Reg<u32> {
        later.eq(0).select(earlier, later)
    }

    fn lower(&self, state: Reg<u32>) -> Reg<u32> {
        state
    }
}

/// Configurations of kernels, and lengths of buffers.
const CONFIGURATIONS: &[Refusal] = refusals! {
    bitonic, |b| by_bitonic(b, 0)
        => "a bitonic sort: its CTAs have 0 threads; give them a power of two from 32 to 1024";
    bitonic, |b| by_bitonic(b, 96)
        => "a bitonic sort: its CTAs have 96 threads; give them a power of two from 32 to 1024";
    bitonic, |b| by_bitonic(b, 2048)
        => "a bitonic sort: its CTAs have 2048 threads; give them a power of two from 32 to 1024";
    bitonic, |b| by_bitonic(b, 1024)
        => "a bitonic sort: its CTAs take 65536 bytes of shared memory, and have 49152; give them fewer threads or elements";
    bitonic, |b| {
        let sort = Bitonic::new::<f32>(Ascending);
        bitonic::keys(&b.operations, &b.stream, &b.f32(10), &mut b.f32(9), sort)
    } => "the output of a sort: expected a length of 10, found 9";
    bitonic, |b| {
        let (input, mut output) = ((b.f32(10), b.f32(10)), (b.f32(10), b.f32(9)));
        let output = (&mut output.0, &mut output.1);
        bitonic::pairs(&b.operations, &b.stream, (&input.0, &input.1), output, Bitonic::new::<f32>(Ascending))
    } => "the buffer of sorted values: expected a length of 10, found 9";
    merge, |b| by_merging(b, 32, 15)
        => "a merge sort: its CTAs have 32 threads; give them a power of two from 64 to 1024";
    merge, |b| by_merging(b, 256, 0) => "a merge sort: its threads have no keys; give each at least one";
    merge, |b| by_merging(b, 1024, 15)
        => "a merge sort: its CTAs take 61456 bytes of shared memory, and have 49152; give them fewer threads or elements";
    merge, |b| by_merging(b, 1024, u32::MAX)
        => "a merge sort: its CTAs take 17592186040336 bytes of shared memory, and have 49152; give them fewer threads or elements";
    merge, |b| {
        let sort = Merge::new::<f32>(Ascending);
        merge::keys(&b.operations, &b.stream, &b.f32(10), &mut b.f32(9), sort)
    } => "the output of a sort: expected a length of 10, found 9";
    merge, |b| {
        let (input, mut output) = ((b.f32(10), b.f32(9)), (b.f32(10), b.f32(10)));
        let output = (&mut output.0, &mut output.1);
        merge::pairs(&b.operations, &b.stream, (&input.0, &input.1), output, Merge::new::<f32>(Ascending))
    } => "the buffer of values to sort: expected a length of 10, found 9";
    stepwise, |b| in_launches(b, 16)
        => "a reduction in several launches: its CTAs have 16 threads; give them a power of two from 32 to 1024";
    stepwise, |b| in_launches(b, 96)
        => "a reduction in several launches: its CTAs have 96 threads; give them a power of two from 32 to 1024";
    stepwise, |b| {
        let reduction = Stepwise { monoid: Sum, step: Step::Shuffles, threads: 256 };
        reduction.reduce(&b.operations, &b.stream, &b.f32(10), &mut b.f32(0))
    } => "the result of a reduction: expected a length of 1, found 0";
    stepwise, |b| {
        let reduction = Stepwise { monoid: Last, step: Step::GridStride, threads: 256 };
        reduction.reduce(&b.operations, &b.stream, &b.of(10), &mut b.of(1))
    } => "a reduction that does not commute: this step combines elements out of order; take Step::Shuffles";
    segmented, |b| in_sections(b, SectionMethod::Warp, 0)
        => "a scan in sections: its CTAs have 0 threads; give them a power of two from 32 to 1024";
    segmented, |b| in_sections(b, SectionMethod::KoggeStone, 288)
        => "a scan in sections: its CTAs have 288 threads; give them a power of two from 32 to 1024";
    segmented, |b| in_sections(b, SectionMethod::Coarsened, 1024)
        => "a scan in sections: its CTAs take 67584 bytes of shared memory, and have 49152; give them fewer threads or elements";
    segmented, |b| {
        let scan = Segmented { monoid: Sum, kind: ScanKind::Exclusive, method: SectionMethod::Warp, threads: 64 };
        scan.scan(&b.operations, &b.stream, &b.f32(10), &mut b.f32(9))
    } => "the output of a scan: expected a length of 10, found 9";
};

#[test]
fn every_configuration_refuses_what_its_kernel_cannot_do() {
    expect_refusals(CONFIGURATIONS);
}
