//! Every lesson computes every element correctly: at shapes that fill tiles, at shapes with one
//! element left over, and under every schedule of asynchronous copies.

use warpwright::runtime::Device;

use crate::SUITE;
use crate::walk::{on_emulators, run, walk_lines};

#[test]
fn elementwise_kernels_are_right_at_every_length() {
    on_emulators(
        &SUITE,
        &[
            "vector-add --length 1",
            "vector-add --length 31",
            "vector-add --length 32",
            "vector-add --length 257",
            "vector-add --length 10007",
            "map2d --m 1 --n 1",
            "map2d --m 33 --n 100",
            "matrix-add --m 1 --n 65",
            "matrix-add --m 50 --n 31",
        ],
    );
}

#[test]
fn demonstrations_compute_what_they_say() {
    on_emulators(
        &SUITE,
        &[
            "divergence --length 1 --ways 1",
            "divergence --length 1023 --ways 5",
            "divergence --length 64 --ways 32",
            "coalescing --length 33 --stride 1",
            "coalescing --length 1000 --stride 7",
            "bank-conflicts --stride 0",
            "bank-conflicts --stride 1",
            "bank-conflicts --stride 32",
            "bank-conflicts --stride 33",
            "mem-walkthrough",
            "hardware-demonstration",
        ],
    );
}

#[test]
fn transposes_are_right_at_every_step() {
    let mut commands = Vec::new();
    for (m, n) in [(0, 5), (1, 1), (32, 32), (33, 31), (100, 257), (1, 300)] {
        for step in ["naive", "shared", "padded", "swizzled"] {
            commands.push(format!("transpose-ladder --m {m} --n {n} --step {step}"));
        }
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    on_emulators(&SUITE, &commands);
}

/// Only on a GPU: the same kernels give the same results there.
#[test]
fn the_gpu_agrees() {
    let Some(device) = warpwright_testing::gpu(Device::named("cuda:0")) else { return };
    for command in [
        "vector-add --length 100007",
        "map2d",
        "matrix-add",
        "transpose-ladder --step padded",
        "divergence",
        "coalescing --stride 3",
        "bank-conflicts --stride 2",
        "mem-walkthrough",
        "hardware-demonstration",
    ] {
        run(&SUITE, &device, command);
    }
}

#[test]
fn every_instruction_is_of_a_line_of_a_lesson() {
    walk_lines(&SUITE);
}
