//! How long the algebra takes on the layouts of a GEMM.

use criterion::Criterion;
use std::hint::black_box;
use warpwright_layout::atom::{CopyAtom, MmaAtom, Operand};
use warpwright_layout::expression::evaluate_plain;
use warpwright_layout::{All, ComposedLayout, Int, Layout, Swizzle, TiledCopy, TiledMma};

fn algebra(criterion: &mut Criterion) {
    let tile: Layout = "((8,16),(64,2)):((64,512),(1,8192))".parse().unwrap();
    let values: Layout = "((4,8,4),(2,2,2)):((2,1,16),(1,8,8))".parse().unwrap();
    let fragment: Layout = "((4,8,4),(2,2,16)):((128,1,16),(64,8,512))".parse().unwrap();
    criterion
        .bench_function("compose", |b| b.iter(|| black_box(&tile).compose(black_box((64, 16))).unwrap()));
    criterion.bench_function("compose, thread-value", |b| {
        b.iter(|| {
            black_box(&fragment).compose(Layout::column_major(fragment.shape().clone()).unwrap()).unwrap()
        })
    });
    criterion.bench_function("complement", |b| b.iter(|| black_box(&fragment).complement(16_384).unwrap()));
    criterion
        .bench_function("zipped_divide", |b| b.iter(|| black_box(&tile).zipped_divide((64, 16)).unwrap()));
    criterion.bench_function("right_inverse", |b| b.iter(|| black_box(&fragment).right_inverse().unwrap()));
    criterion.bench_function("left_inverse", |b| b.iter(|| black_box(&fragment).left_inverse().unwrap()));
    criterion.bench_function("coalesce", |b| b.iter(|| black_box(&values).coalesce().unwrap()));
}

/// All the layouts of "The Global GEMM": tiles, copies and fragments of one thread.
fn gemm(criterion: &mut Criterion) {
    let dimension = |id, name| Int::device(id, name);
    criterion.bench_function("every layout of a GEMM", |b| {
        b.iter(|| {
            let (m, n, k) = (dimension(0, "m"), dimension(1, "n"), dimension(2, "k"));
            let (block, thread) = (dimension(3, "bx"), dimension(4, "tid"));
            let a = ComposedLayout::from(Layout::new((m.clone(), k.clone()), (k, 1)).unwrap());
            let c = ComposedLayout::from(Layout::new((m, n.clone()), (n, 1)).unwrap());
            let tiles = a.local_tile((128, 32), &(block.clone(), All).into()).unwrap();
            let shared = Layout::row_major((128, 32)).unwrap().swizzled(Swizzle::new(2, 3, 3).unwrap());
            let atom = CopyAtom::named("SM80_CP_ASYNC_CACHEGLOBAL<128>", 16).unwrap();
            let copy = TiledCopy::new(
                atom,
                &Layout::row_major((32, 4)).unwrap(),
                &Layout::row_major((1, 8)).unwrap(),
            )
            .unwrap();
            let source = copy.partition_source(&tiles, thread.clone()).unwrap();
            let target = copy.partition_target(&shared, thread.clone()).unwrap();
            let mma = MmaAtom::named("SM80_16x8x16_F32F16F16F32_TN").unwrap();
            let mma = TiledMma::new(mma, &Layout::column_major((2, 2, 1)).unwrap()).unwrap();
            let fragment = mma.partition(Operand::A, &shared, thread.clone()).unwrap();
            let result = c.local_tile((128, 128), &(block, 0).into()).unwrap();
            let accumulator = mma.partition(Operand::C, &result, thread).unwrap();
            black_box((source, target, fragment, accumulator))
        })
    });
    criterion.bench_function("one line of the language", |b| {
        b.iter(|| {
            evaluate_plain(black_box("logical_divide((4,2,3):(2,1,8), composition(8:1, 4:2))")).unwrap()
        })
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    algebra(&mut criterion);
    gemm(&mut criterion);
    criterion.final_summary();
}
