//! What is said of mistakes that the device or the launch decides: the messages in full.

use half::f16;
use warpwright_lang::block::{self, sync_threads};
use warpwright_lang::pointer::Global;
use warpwright_lang::special::thread_idx;
use warpwright_lang::tensor::TmaTile;
use warpwright_lang::tensor_map::TensorMap;
use warpwright_lang::{Kernel, kernel, launch, matrix, shared::shared_array, warp};
use warpwright_layout::atom::Major;
use warpwright_runtime::Device;

fn device(name: &str) -> Device {
    Device::named(name).expect("the emulator always starts")
}

/// The minimum of three floats is of sm_100; so is a vector of 32 bytes.
#[kernel]
fn of_blackwell(x: &mut Global<f32>, halves: &mut Global<f16>) {
    launch::threads(32);
    let i = thread_idx().x;
    x[i] = x[i].min3(0.0, 1.0);
    for part in 0..2u32 {
        let vector = halves.at(i * 32 + part * 16).load_vector::<16>();
        halves.at(i * 32 + part * 16).store_vector(vector);
    }
}

/// `stmatrix` and `elect` are of sm_90.
#[kernel]
fn of_hopper(x: &mut Global<u32>) {
    launch::threads(32);
    let tile = shared_array::<f16>(64 * 4);
    for i in 0..4u32 {
        matrix::stmatrix(tile.at(i * 64 + thread_idx().x % 8 * 8), [x[i]]);
    }
    let leads = warp::elect(warp::ALL_LANES);
    x[0] = leads.select(1u32, 0u32);
}

fn refused<Args>(kernel: &Kernel<Args>, name: &str) -> String {
    device(name).compile(kernel).expect_err("it lacks them").to_string()
}

#[test]
fn what_the_architecture_lacks_is_named_as_the_author_wrote_it() {
    let found = [
        refused(&of_blackwell().expect("no target"), "emu:h200"),
        refused(&of_hopper().expect("no target"), "emu:a100"),
    ];
    insta::assert_snapshot!(found.join("\n\n"));
}

/// Loads a box of a tensor of three axes.
#[kernel]
fn loads(image: &TensorMap) {
    launch::threads(1);
    let boxes = TmaTile::dense::<f16>((8, 64), Major::K).expect("legal").requirement();
    image.boxes(boxes.of_rank(3));
}

#[test]
fn tensor_maps_are_refused_by_the_name_of_their_parameter() {
    let device = device("emu:h200");
    let kernel = device.compile(&loads().expect("it has no mistakes")).expect("it compiles");
    let image = device.zeros::<f16>(2 * 64 * 64).expect("it fits");
    let extents: [&[u64]; 4] = [&[64, 64], &[2, 2, 64, 64], &[3, 64, 64], &[2, 64, 63]];
    let found = extents.map(|extents| {
        let refused = kernel.tensor_map("image", &image, extents).expect_err("it does not fit");
        format!("{extents:?}: {refused}")
    });
    insta::assert_snapshot!(found.join("\n"));
}

/// Half of the block leaves before the reduction.
#[kernel]
fn reduces_in_half_of_the_block(y: &mut Global<f32>, half: u32) {
    launch::threads(128);
    let thread = thread_idx().x;
    if thread < half {
        y[thread] = block::reduce_sum(thread as f32);
    }
}

/// The last thread writes past its array, into the memory of the reduction.
#[kernel]
fn writes_what_a_collective_reads(y: &mut Global<f32>, half: u32) {
    launch::threads(64);
    let thread = thread_idx().x;
    let held = shared_array::<f32>(64);
    let total = block::reduce_sum(thread as f32);
    held[thread + 1] = total;
    sync_threads();
    y[thread] = total + half.convert::<f32>();
}

#[test]
fn block_collectives_are_named_in_findings() {
    let device = device("emu:h200").checked().expect("emulated");
    let stream = device.stream().expect("a stream");
    let found = [reduces_in_half_of_the_block(), writes_what_a_collective_reads()].map(|kernel| {
        let kernel = device.compile(&kernel.expect("it has no mistakes")).expect("it compiles");
        let mut y = device.zeros::<f32>(128).expect("it fits");
        kernel.launch(&stream, 1, (&mut y, 64)).expect_err("it is wrong").to_string()
    });
    insta::assert_snapshot!(found.join("\n\n"));
}
