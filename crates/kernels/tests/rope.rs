//! The rotary embedding: every element of Q and of the caches against f64.

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rope::{HeadRows, Pairing, RopeBuffers, RopeShape};

use crate::SUITE;
use crate::emulated::hopper;
use crate::walk::run;

/// Heads of a part of a group, of a warp and less; all and none of the columns rotated.
const CASES: &[&str] = &[
    "rope",
    "rope --tokens 0",
    "rope --tokens 1 --type f32 --norm weight --pairing neighbors",
    "rope --tokens 7 --type f16 --head-dim 96 --rotary-dim 96 --norm none",
    "rope --tokens 3 --head-dim 192 --rotary-dim 16 --pairing neighbors --type f16",
    "rope --tokens 3 --head-dim 64 --rotary-dim 0 --query-heads 3 --key-heads 1",
    "rope --tokens 9 --head-dim 128 --rotary-dim 128 --type f32 --query-heads 5 --key-heads 3",
    "rope --tokens 2 --head-dim 8 --rotary-dim 0 --norm weight",
    "rope --tokens 4 --query-heads 0",
    "rope --tokens 5 --query-heads 5 --key-heads 1 --heads 4",
    "rope --tokens 3 --head-dim 20 --rotary-dim 20 --type f16",
    "rope --tokens 4 --head-dim 80 --rotary-dim 10 --pairing neighbors --norm weight --type f32",
    "rope --tokens 2 --head-dim 264 --rotary-dim 32 --norm none",
    "rope --tokens 2 --head-dim 33 --rotary-dim 0",
    "rope --tokens 6 --head-dim 96 --rotary-dim 32 --type f32 --heads 2 --pairing neighbors",
];

#[test]
fn heads_are_right_and_check_clean() {
    for (name, schedule) in [("emu:h200", Schedule::Latest), ("emu:a100", Schedule::Random(5))] {
        let device = Device::with_schedule(name, schedule).and_then(Device::checked).expect("an emulator");
        CASES.iter().for_each(|case| run(&SUITE, &device, case));
    }
}

/// What a call with heads of 64, of which 32 columns are rotated, fails with for a token.
fn failure(position: u32, slot: u32, head_stride: u32) -> String {
    let device = hopper(Schedule::Latest).expect("an emulated device");
    let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
    let shape =
        RopeShape { query_heads: 1, key_heads: 1, head_dim: 64, rotary_dim: 32, pairing: Pairing::Halves };
    let x = device.zeros::<f32>(64).expect("it fits");
    let rows = HeadRows::dense(&x, 1, 64);
    let [mut output, mut key_cache, mut value_cache] =
        [64, 640, 640].map(|length| device.zeros::<f32>(length).expect("it fits"));
    let buffers = RopeBuffers {
        queries: HeadRows { head_stride, ..rows },
        keys: rows,
        values: rows,
        norm: None,
        rotations: &device.zeros(5 * 32).expect("it fits"),
        positions: &device.buffer_from(&[position]).expect("it fits"),
        slots: &device.buffer_from(&[slot]).expect("it fits"),
        output: &mut output,
        key_cache: &mut key_cache,
        value_cache: &mut value_cache,
    };
    let launched = operations.rope(&stream, &shape, buffers).map_err(|error| error.to_string());
    launched.err().unwrap_or_default()
}

#[test]
fn what_is_out_of_range_is_refused() {
    assert_eq!(failure(4, 9, 64), "");
    assert!(failure(5, 9, 64).contains("a position has no cosines and sines"));
    assert!(failure(4, 10, 64).contains("a slot is beyond the cache"));
    // Strides of no whole vectors take the other kernel.
    assert_eq!(failure(4, 9, 65), "");
    assert!(failure(5, 9, 65).contains("a position has no cosines and sines"));
    assert!(failure(4, 10, 65).contains("a slot is beyond the cache"));
}
