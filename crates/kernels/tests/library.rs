//! Every kernel of the library, every element right: at shapes that fill tiles, at shapes that
//! leave one element over, and at every schedule of asynchronous copies.

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_harness::Setup;

use crate::SUITE;
use crate::walk::{on_emulators, run, walk_lines};
use warpwright_testing::one_in;

#[test]
fn vectors_of_every_width_move_every_type() {
    let mut commands = Vec::new();
    for length in [0, 1, 31, 33, 1023, 32_768, 40_007] {
        for bits in [8, 16, 32, 64, 128] {
            commands.push(format!("copy --type u8 --bits {bits} --length {length} --threads 64"));
        }
        for ty in ["f32", "f16", "bf16", "f64", "u8", "i8", "u32", "i32"] {
            commands.push(format!("map --type {ty} --length {length} --values special"));
            commands.push(format!("add --type {ty} --length {length} --values special"));
        }
        commands.push(format!("copy --type f64 --bits 8 --length {length} --threads 32 --steps 1"));
    }
    let commands: Vec<&str> = one_in(2, commands.iter().map(String::as_str)).collect();
    on_emulators(&SUITE, &commands);
}

/// Rows of every strategy: part of a warp, a warp, a CTA, several CTAs; whole vectors and not,
/// whole steps and not.
const ROW_SHAPES: &[(u32, u32)] = &[
    (0, 64),
    (1, 1),
    (5, 31),
    (33, 33),
    (3, 64),
    (37, 100),
    (9, 512),
    (4, 1023),
    (2, 4096),
    (3, 5000),
    (2, 40_000),
    (2, 20_002),
];

fn on_rows(kernel: &str, options: &[&str]) {
    let mut commands = Vec::new();
    for (rows, columns) in ROW_SHAPES {
        for options in options {
            commands.push(format!("{kernel} --rows {rows} --columns {columns} {options}"));
        }
    }
    let device = Device::with_schedule("emu:h200", Schedule::Random(7)).expect("emulators are always there");
    commands.iter().for_each(|command| run(&SUITE, &device, command));
    // The longest rows need a cluster, or where there are none, two passes.
    let longest = commands.last().expect("there are shapes");
    on_emulators(&SUITE, &[longest]);
}

#[test]
fn softmaxes_are_right_for_rows_of_every_length() {
    let options = ["", "--input f32 --output f32", "--input f16 --output f32 --values special"];
    on_rows("softmax", &options);
    on_rows("log-softmax", &options);
    on_rows("cross-entropy", &["", "--input f16", "--input f32 --values special"]);
}

#[test]
fn norms_are_right_for_rows_of_every_length() {
    let options = ["", "--input f32 --output f32", "--input f16 --output bf16 --values special"];
    on_rows("rms-norm", &options);
    on_rows("rms-norm", &["--gain weight --input f32 --output f16"]);
    on_rows("add-rms-norm", &["", "--input f32 --values special", "--input f16 --gain weight"]);
    on_rows("layer-norm", &options);
    on_rows("layer-norm", &["--input f32 --output f32 --values offset", "--values offset"]);
}

#[test]
fn transposes_are_right_by_every_method() {
    let mut commands = Vec::new();
    for (m, n) in [(0, 5), (1, 1), (32, 32), (33, 31), (100, 257), (1, 300)] {
        for algorithm in ["auto", "swizzled"] {
            commands.push(format!("transpose --m {m} --n {n} --algorithm {algorithm}"));
        }
    }
    for ty in ["f32", "f16", "bf16", "f64", "u8"] {
        for (m, n) in [(16, 16), (272, 144), (304, 272)] {
            commands.push(format!("transpose --m {m} --n {n} --type {ty} --algorithm blocks --raster 2"));
        }
        commands
            .push(format!("transpose --m 208 --n 272 --type {ty} --algorithm blocks --side 8 --blocks 2"));
        commands.push(format!("transpose --m 45 --n 70 --type {ty}"));
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    on_emulators(&SUITE, &commands);
}

#[test]
fn gemms_are_right_at_every_shape() {
    on_emulators(
        &SUITE,
        &[
            "gemm --m 1 --n 1 --k 1",
            "gemm --m 128 --n 128 --k 32",
            "gemm --m 256 --n 128 --k 96 --output bf16",
            "gemm --m 129 --n 127 --k 33",
            "gemm --m 333 --n 517 --k 129",
            "gemm --m 4096 --n 1 --k 64",
            "gemm --m 1 --n 300 --k 200",
            "gemm --m 60 --n 70 --k 4",
        ],
    );
}

#[test]
fn gemms_are_right_in_every_order_and_type() {
    let mut commands = Vec::new();
    for a in ["row", "column"] {
        for b in ["row", "column"] {
            // A contiguous extent that is a multiple of 8, 4, 2 and 1 takes each width of copy.
            for (m, n, k) in [(136, 144, 40), (132, 140, 36), (130, 138, 34), (131, 137, 35)] {
                commands
                    .push(format!("gemm --m {m} --n {n} --k {k} --a {a} --b {b} --input f16 --output f16"));
            }
        }
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let device = Device::with_schedule("emu:a100", Schedule::Latest).expect("emulators are always there");
    commands.iter().for_each(|command| run(&SUITE, &device, command));
}

/// Only where a GPU is: the same kernels give the same answers there.
#[test]
fn the_gpu_agrees() {
    let Some(device) = warpwright_testing::gpu(Device::named("cuda:0")) else { return };
    for command in [
        "transpose --algorithm swizzled",
        "transpose --m 1000 --n 1001",
        "transpose --m 1000 --n 1008 --type u8",
        "copy --length 100007 --type u8",
        "add --length 100007 --values special",
        "softmax --rows 100 --columns 262144",
        "softmax --rows 1000 --columns 1000 --values special",
        "log-softmax --rows 33 --columns 20002",
        "cross-entropy --rows 333 --columns 32000",
        "rms-norm --rows 333 --columns 4096",
        "add-rms-norm --rows 333 --columns 5120",
        "layer-norm --rows 333 --columns 777 --values offset",
        "delta-rule-decode --key-heads 16 --value-heads 32 --sequences 5",
        "delta-rule-decode --key-heads 16 --value-heads 32 --sequences 5 --state bf16",
        "delta-rule-decode --key-heads 16 --value-heads 32 --sequences 2 --in-place true",
        "delta-rule-decode --key-heads 16 --value-heads 32 --sequences 2 --tokens 3",
        "delta-rule --key-heads 4 --value-heads 8 --sequences 3 --tokens 1000",
        "delta-rule --key-heads 4 --value-heads 8 --sequences 3 --tokens 1000 --consumers 2",
        "delta-rule --key-heads 4 --value-heads 8 --sequences 3 --tokens 1000 --precision f32 --consumers 1",
        "delta-rule --key-heads 4 --value-heads 8 --sequences 3 --tokens 1000 --precision f32 --consumers 2",
        "gemm --m 333 --n 517 --k 129",
        "gemm --m 1000 --n 1001 --k 999 --a column --b row --output bf16",
        "gemm --m 2048 --n 1024 --k 512 --input f16",
    ] {
        run(&SUITE, &device, command);
    }
}

#[test]
fn every_instruction_is_of_a_line_of_a_kernel() {
    walk_lines(&SUITE);
}

/// A search has candidates, also where some values exceed shared memory, and each launches.
#[test]
fn searches_have_candidates() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let device = Device::named("emu:h200")?;
    let setup = Setup::new(&device);
    for name in ["attention", "attention-gradients", "decode-attention", "delta-rule", "weight-only-gemv"] {
        let mut workload = SUITE.named(name).workload();
        if name.starts_with("attention") {
            workload.set("queries", "130")?;
        }
        let mut search = workload.search(&setup).expect("options list values")?;
        let candidates = search.first(2);
        assert!(!candidates.is_empty(), "{name}");
        for mut candidate in candidates {
            candidate.prepared.launch(&device.stream()?)?;
            candidate.prepared.verify().map_err(|error| format!("{name} {}: {error}", candidate.name))?;
        }
    }
    Ok(())
}
