//! Memory that a kernel may not write, and numbers that are out of range: each mistake is refused
//! where it is written, and its right twin is built.

use half::bf16;
use warpwright_arch::Capability;
use warpwright_ir::verify;
use warpwright_lang::element::Element;
use warpwright_lang::kernel;
use warpwright_lang::parameter::KernelParameter;
use warpwright_lang::pointer::Global;
use warpwright_lang::space::GlobalSpace;
use warpwright_lang::special::thread_idx;
use warpwright_lang::tensor::{Fragment, Tensor, TiledCopy, TiledMma, gemm};
use warpwright_lang::value::constant;
use warpwright_layout::{All, Layout};

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

#[test]
fn memory_is_written_as_its_parameter_allows() {
    insta::assert_snapshot!(said("limits.rs", WRITES));
}
