//! Memory that a kernel may not write, and numbers that are out of range: each mistake is refused
//! where it is written, and its right twin is built.

use half::bf16;
use warpwright_arch::Capability;
use warpwright_ir::verify;
use warpwright_lang::element::Element;
use warpwright_lang::mbarrier::Mbarriers;
use warpwright_lang::parameter::KernelParameter;
use warpwright_lang::pointer::Global;
use warpwright_lang::registers::{decrease_registers, increase_registers};
use warpwright_lang::role::{roles, warpgroups};
use warpwright_lang::shared::dynamic_shared;
use warpwright_lang::space::GlobalSpace;
use warpwright_lang::special::thread_idx;
use warpwright_lang::tensor::{Fragment, Tensor, TiledCopy, TiledMma, gemm};
use warpwright_lang::value::constant;
use warpwright_lang::warp::ALL_LANES;
use warpwright_lang::{Reg, block, kernel, launch, warp};
use warpwright_layout::{All, Error, Layout, Swizzle};

use crate::agreement::{Row, rows, said};

fn read<T: Element>() -> Global<T> {
    <&Global<T> as KernelParameter>::declare("read")
}

fn written<T: Element>() -> Global<T> {
    <&mut Global<T> as KernelParameter>::declare("written")
}

fn rows_of(pointer: Global<f32>) -> Tensor<f32, GlobalSpace> {
    Tensor::with_layout(pointer, Layout::column_major((8, 8)))
}

/// Stores accumulators through a thread's part of C.
#[track_caller]
fn stored(pointer: Global<f32>) {
    let part = TiledMma::atom("SM80_16x8x16_F32BF16BF16F32_TN").thread(thread_idx().x);
    let tile = Tensor::with_layout(pointer, Layout::row_major((16, 8)));
    let mut sums: Fragment<f32> = part.c_fragment((16, 8));
    sums.clear();
    part.c(&tile).set(0, sums.get(0));
}

/// Stores a fragment by a copy's vectors.
#[track_caller]
fn stored_by_vectors(pointer: Global<f32>) {
    let copy =
        TiledCopy::new::<f32>("UniversalCopy<128>", Layout::row_major((32, 1)), Layout::row_major((1, 4)));
    let copy = copy.thread(thread_idx().x);
    let target = copy.target(&Tensor::with_layout(pointer, Layout::row_major((32, 4))));
    let mut values = Fragment::like(target.layout());
    values.clear();
    copy.store_vectors(&target, &values);
}

/// Reads fragments that nothing has written, or not every path.
#[kernel]
fn reads_unwritten_fragments(n: u32) {
    let mma = TiledMma::atom("SM80_16x8x16_F32BF16BF16F32_TN");
    let part = mma.thread(thread_idx().x);
    let (mut a, b): (Fragment<bf16>, Fragment<bf16>) = (part.a_fragment((16, 16)), part.b_fragment((8, 16)));
    let mut sums: Fragment<f32> = part.c_fragment((16, 8));
    if n < 16 {
        a.clear();
    }
    gemm(&mma, &mut sums, &a.slice((All, All, 0)), &b.slice((All, All, 0)));
    let mut set: Fragment<f32> = part.c_fragment((16, 8));
    set.set(0, 1.0);
    for index in 0..4 {
        let _ = n.convert::<f32>() + set.get(index);
    }
}

#[test]
fn unwritten_fragments_are_named_once() {
    let kernel = reads_unwritten_fragments().expect("it has no mistakes yet");
    let target = Capability::for_target("sm_90a").expect("in the table");
    let mut said = String::new();
    for error in verify(kernel.ir(), target).expect_err("four fragments are not written") {
        assert!(error.location.file.ends_with("limits.rs"), "{error}");
        let message = error.fault.to_string();
        let words =
            message.split(' ').map(|word| if word.contains("limits.rs:") { "<position>" } else { word });
        said.push_str(&format!("{}\n", words.collect::<Vec<_>>().join(" ")));
    }
    insta::assert_snapshot!(said);
}

const WRITES: &[Row] = rows! {
    read::<f32>().store(1.0) => written::<f32>().store(1.0);
    rows_of(read()).set((0, 0), 1.0) => rows_of(written()).set((0, 0), 1.0);
    rows_of(read()).set_vector((0, 0), [constant(1.0); 4]) => rows_of(written()).set_vector((0, 0), [constant(1.0); 4]);
    stored(read()) => stored(written());
    stored_by_vectors(read()) => stored_by_vectors(written());
    written::<f32>().load_read_only() => read::<f32>().load_read_only();
};

fn value() -> Reg<f32> {
    constant(1.0)
}

#[track_caller]
fn sent(thread: u32) {
    launch::threads(64);
    block::broadcast(value(), thread);
}

/// Loads B of an MMA by `ldmatrix` from a tile.
#[track_caller]
fn loaded(atom: &str, tile: Result<Layout, Error>, swizzle: Result<Swizzle, Error>) {
    let mma = TiledMma::new("SM80_16x8x16_F32BF16BF16F32_TN", (1, 1));
    let copy = TiledCopy::into_b::<bf16>(atom, &mma).thread(thread_idx().x);
    let fragment: Fragment<bf16> = mma.thread(thread_idx().x).b_fragment((64, 64));
    let tile = Tensor::swizzled(dynamic_shared(64 * 64), tile, swizzle);
    copy.load_matrix(&copy.retile(&fragment), &copy.source(&tile));
}

const WIDE: Result<Swizzle, Error> = Ok(Swizzle::IDENTITY);

/// Roles with registers of their own, of which the consumer may begin.
#[track_caller]
fn begun(consumer_begins: bool) {
    let [producer, consumer] = roles([warpgroups(1).registers(40), warpgroups(2).registers(232)]);
    producer.begin();
    if consumer_begins {
        consumer.begin();
    }
}

#[track_caller]
fn moved(decrease: bool) {
    launch::threads(256);
    if decrease {
        decrease_registers(24);
    }
    increase_registers(240);
}

const RANGES: &[Row] = rows! {
    begun(false) => begun(true);
    moved(false) => moved(true);
    value().shuffle(32u32) => value().shuffle(31u32);
    value().shuffle_down(40u32) => value().shuffle_down(16u32);
    value().shuffle_xor_masked(32u32, ALL_LANES) => value().shuffle_xor_masked(16u32, ALL_LANES);
    warp::broadcast(value(), 40) => warp::broadcast(value(), 31);
    sent(64) => sent(63);
    read::<u32>().load_vector::<3>() => read::<u32>().load_vector::<4>();
    Mbarriers::new(2).at(2).init(1) => Mbarriers::new(2).at(1).init(1);
    thread_idx().x / 0 => thread_idx().x / 1;
    thread_idx().x % 0 => thread_idx().x % 2;
    loaded("SM75_U32x4_LDSM_N", Layout::column_major((64, 64)), WIDE) => loaded("SM75_U16x8_LDSM_T", Layout::column_major((64, 64)), WIDE);
    loaded("SM75_U16x8_LDSM_T", Layout::row_major((64, 64)), WIDE) => loaded("SM75_U32x4_LDSM_N", Layout::row_major((64, 64)), WIDE);
    loaded("SM75_U32x4_LDSM_N", Layout::row_major((64, 64)), Swizzle::new(3, 2, 3)) => loaded("SM75_U32x4_LDSM_N", Layout::row_major((64, 64)), Swizzle::new(3, 3, 3));
};

#[test]
fn numbers_are_in_range() {
    insta::assert_snapshot!(said("limits.rs", RANGES));
}

#[test]
fn memory_is_written_as_its_parameter_allows() {
    insta::assert_snapshot!(said("limits.rs", WRITES));
}
