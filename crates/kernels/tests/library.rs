//! Every kernel of the library, every element right: at shapes that fill tiles, at shapes that leave one element over, and
//! at every schedule of asynchronous copies.

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_kernels::registry::{self, Options};

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
    assert!(verified.elements > 0, "{command}: nothing was compared");
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
fn transposes_are_right_with_either_cure() {
    on_emulators(&[
        "transpose --m 1 --n 1",
        "transpose --m 32 --n 32 --cure padded",
        "transpose --m 33 --n 31 --cure padded",
        "transpose --m 33 --n 31 --cure swizzled",
        "transpose --m 100 --n 257 --cure swizzled",
    ]);
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
    let Ok(device) = Device::named("cuda:0") else {
        assert!(std::env::var_os("WARPWRIGHT_REQUIRE_GPU").is_none(), "a GPU is required, and none opens");
        eprintln!("no GPU here: nothing to compare with");
        return;
    };
    for command in [
        "vector-add --length 100007",
        "map2d",
        "matrix-add",
        "transpose --cure padded",
        "transpose --m 1000 --n 1001",
        "gemm --m 333 --n 517 --k 129",
        "gemm --m 1000 --n 1001 --k 999 --a column --b row --output bf16",
        "gemm --m 2048 --n 1024 --k 512 --input f16",
    ] {
        run(&device, command);
    }
}
