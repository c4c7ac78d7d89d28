//! Every kernel of the library, every element right: at shapes that fill tiles, at shapes that leave one element over, and
//! at every schedule of asynchronous copies.

use std::collections::BTreeMap;

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_kernels::registry::{self, OptionKind, Options};

/// Runs a kernel with options given as flags, and checks it.
fn run(device: &Device, command: &str) {
    let mut words = command.split_whitespace();
    let name = words.next().expect("a kernel's name");
    let kernel = registry::named(name).unwrap_or_else(|| panic!("there is no kernel {name}"));
    let mut options = Options::defaults(kernel.options());
    while let (Some(flag), Some(value)) = (words.next(), words.next()) {
        options
            .set(flag.trim_start_matches("--"), value)
            .unwrap_or_else(|error| panic!("{command}: {error}"));
    }
    let failed = |error| -> ! { panic!("{command} on {}: {error}", device.name()) };
    let mut prepared = kernel.prepare(device, &options).unwrap_or_else(|error| failed(error));
    let stream = device.stream().unwrap_or_else(|error| failed(error.into()));
    prepared.launch(&stream).unwrap_or_else(|error| failed(error));
    let verified = prepared.verify().unwrap_or_else(|error| failed(error));
    let is_empty = command.contains(" 0 ") || command.ends_with(" 0");
    assert!(is_empty || verified.elements > 0, "{command}: nothing was compared");
}

fn on_emulators(commands: &[&str]) {
    for name in ["emu:a100", "emu:h200"] {
        for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(7)] {
            let device = Device::with_schedule(name, schedule).expect("emulators are always there");
            commands.iter().for_each(|command| run(&device, command));
        }
    }
}

#[test]
fn elementwise_kernels_are_right_at_every_length() {
    on_emulators(&[
        "vector-add --length 1",
        "vector-add --length 31",
        "vector-add --length 32",
        "vector-add --length 257",
        "vector-add --length 10007",
        "map2d --m 1 --n 1",
        "map2d --m 33 --n 100",
        "matrix-add --m 1 --n 65",
        "matrix-add --m 50 --n 31",
    ]);
}

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
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    on_emulators(&commands);
}

/// Rows of every strategy: part of a warp, a warp, a CTA, several CTAs; whole vectors and not, whole steps and not.
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
    commands.iter().for_each(|command| run(&device, command));
    // The longest rows need a cluster, or where there are none, two passes.
    let longest = commands.last().expect("there are shapes");
    on_emulators(&[longest]);
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
fn demonstrations_compute_what_they_say() {
    on_emulators(&[
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
    ]);
}

#[test]
fn transposes_are_right_in_every_way() {
    let mut commands = Vec::new();
    for (m, n) in [(0, 5), (1, 1), (32, 32), (33, 31), (100, 257), (1, 300)] {
        for way in ["best", "naive", "shared", "padded", "swizzled"] {
            commands.push(format!("transpose --m {m} --n {n} --way {way}"));
        }
    }
    for ty in ["f32", "f16", "bf16", "f64", "u8"] {
        for (m, n) in [(16, 16), (272, 144), (304, 272)] {
            commands.push(format!("transpose --m {m} --n {n} --type {ty} --way blocks --raster 2"));
        }
        commands.push(format!("transpose --m 208 --n 272 --type {ty} --way blocks --side 8 --blocks 2"));
        commands.push(format!("transpose --m 45 --n 70 --type {ty}"));
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    on_emulators(&commands);
}

#[test]
fn gemms_are_right_at_every_shape() {
    on_emulators(&[
        "gemm --m 1 --n 1 --k 1",
        "gemm --m 128 --n 128 --k 32",
        "gemm --m 256 --n 128 --k 96 --output bf16",
        "gemm --m 129 --n 127 --k 33",
        "gemm --m 333 --n 517 --k 129",
        "gemm --m 4096 --n 1 --k 64",
        "gemm --m 1 --n 300 --k 200",
        "gemm --m 60 --n 70 --k 4",
    ]);
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
    commands.iter().for_each(|command| run(&device, command));
}

/// Only where a GPU is: the same kernels give the same answers there.
#[test]
fn the_gpu_agrees() {
    let Some(device) = warpwright_testing::gpu(Device::named("cuda:0")) else { return };
    for command in [
        "vector-add --length 100007",
        "map2d",
        "matrix-add",
        "transpose --way padded",
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
        "divergence",
        "coalescing --stride 3",
        "bank-conflicts --stride 2",
        "mem-walkthrough",
        "hardware-demonstration",
        "gemm --m 333 --n 517 --k 129",
        "gemm --m 1000 --n 1001 --k 999 --a column --b row --output bf16",
        "gemm --m 2048 --n 1024 --k 512 --input f16",
    ] {
        run(&device, command);
    }
}

/// Faults and findings are told at lines of kernels, not at those of the language or the standard library beneath them.
#[test]
fn every_instruction_is_of_a_line_of_a_kernel() {
    let (mut seen, mut strange) = (0, BTreeMap::new());
    for kernel in registry::all() {
        let mut asked = vec![Options::defaults(kernel.options())];
        for option in kernel.options() {
            let OptionKind::Choice(names) = option.kind else { continue };
            for name in names {
                let mut options = Options::defaults(kernel.options());
                options.set(option.name, name).expect("it is one of the choices");
                asked.push(options);
            }
        }
        for target in ["sm_80", "sm_90a", "sm_100a"] {
            for options in &asked {
                let Ok(text) = kernel.ptx(target, options) else { continue };
                let files = text.lines().filter(|line| line.trim_start().starts_with(".file"));
                for file in files.filter(|file| !file.contains("crates/kernels/src/")) {
                    let place = file.rsplit_once(' ').map_or(file, |(_, name)| name);
                    strange.entry(place.to_owned()).or_insert(format!("{} {options}", kernel.name()));
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 3 * registry::all().len(), "{seen} kernels");
    assert!(strange.is_empty(), "{strange:#?}");
}
