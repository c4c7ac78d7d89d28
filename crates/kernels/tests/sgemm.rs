//! SGEMM: every element right at shapes that fill tiles and at shapes that do not, nothing found by
//! the checkers, and what cannot be done refused by its rule.

use warpwright::emulator::Schedule;
use warpwright::runtime::{Buffer, Device};

use warpwright_kernels::operations::Operations;
use warpwright_kernels::sgemm::device::double_buffered::DoubleBuffered;
use warpwright_kernels::sgemm::device::tma::TmaFed;
use warpwright_kernels::sgemm::tiles::Tiles;
use warpwright_kernels::sgemm::{Matrices, Method, Scale};
use warpwright_workloads::workload;

use crate::walk::{emulators, run_product};

fn run(device: &Device, shape: (u32, u32, u32), others: &[(&str, &str)]) {
    run_product(workload("sgemm").expect("it is in the library"), device, shape, others);
}

/// Whether an algorithm can do a shape on a device: TMA has its own needs.
fn can(device: &Device, algorithm: &str, (_, n, k): (u32, u32, u32)) -> bool {
    algorithm != "tma" || device.name() == "emu:h200" && n.is_multiple_of(4) && k.is_multiple_of(4)
}

#[test]
fn every_algorithm_is_right_at_every_shape() {
    let shapes = [
        (1, 1, 1),
        (1, 4, 4),
        (2, 3, 5),
        (31, 33, 17),
        (64, 64, 64),
        (128, 128, 16),
        (129, 132, 20),
        (1, 300, 40),
        (300, 1, 40),
        (5, 8, 516),
        (130, 136, 1),
    ];
    for device in emulators(&[Schedule::Eager]) {
        for algorithm in ["auto", "double-buffered", "tma"] {
            for shape in shapes.into_iter().filter(|shape| can(&device, algorithm, *shape)) {
                run(&device, shape, &[("algorithm", algorithm)]);
            }
        }
    }
}

#[test]
fn every_algorithm_is_right_where_no_extent_is_even() {
    for device in emulators(&[Schedule::Eager]) {
        for algorithm in ["auto", "double-buffered"] {
            run(&device, (333, 517, 129), &[("algorithm", algorithm), ("alpha", "1.5"), ("beta", "-0.5")]);
        }
    }
    let h200 = Device::named("emu:h200").expect("emulators are always there");
    run(&h200, (333, 516, 132), &[("algorithm", "tma"), ("alpha", "1.5"), ("beta", "-0.5")]);
}

#[test]
fn copies_may_come_at_any_time() {
    for device in emulators(&[Schedule::Latest, Schedule::Random(3), Schedule::Random(4)]) {
        for algorithm in ["double-buffered", "tma"] {
            for tile in ["128x128", if algorithm == "tma" { "256x128" } else { "128x256" }, "64x64"] {
                for shape in [(140, 132, 100), (20, 12, 4)] {
                    if can(&device, algorithm, shape) {
                        run(&device, shape, &[("algorithm", algorithm), ("tile", tile)]);
                    }
                }
            }
        }
    }
}

#[test]
fn k_may_be_split_into_any_number_of_parts() {
    for device in emulators(&[Schedule::Random(5)]) {
        for algorithm in ["double-buffered", "tma"] {
            for splits in ["1", "2", "3", "7", "1000"] {
                let shape = (36, 40, 148);
                if can(&device, algorithm, shape) {
                    run(
                        &device,
                        shape,
                        &[("algorithm", algorithm), ("splits", splits), ("alpha", "1.5"), ("beta", "-0.5")],
                    );
                }
            }
        }
    }
    // As planned: few tiles and a long k.
    run(&Device::named("emu:h200").expect("it is there"), (16, 16, 4096), &[]);
}

#[test]
fn nothing_to_add_leaves_what_beta_says() {
    let device = Device::named("emu:h200").expect("it is there");
    let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
    let empty: Buffer<f32> = device.uninitialized(0).expect("nothing fits");
    let mut c = device.buffer_from(&[1.0f32, f32::NAN, 3.0, 4.0, 5.0, 6.0]).expect("it fits");
    let sgemm = |c: &mut Buffer<f32>, beta| {
        let matrices = Matrices { extents: (2, 3, 0), a: &empty, b: &empty, c };
        operations.sgemm(&stream, matrices, Scale { alpha: 1.0, beta }).expect("it runs");
    };
    sgemm(&mut c, 2.0);
    let found = c.to_vec().expect("it is there");
    assert!(found[1].is_nan() && [found[0], found[2], found[5]] == [2.0, 6.0, 12.0], "{found:?}");
    sgemm(&mut c, 0.0);
    assert_eq!(c.to_vec().expect("it is there"), [0.0; 6], "beta = 0 does not read C");
    let (a, mut none) =
        (device.buffer_from(&[1.0f32; 6]).expect("it fits"), device.uninitialized(0).expect("it fits"));
    let matrices = Matrices { extents: (2, 0, 3), a: &a, b: &empty, c: &mut none };
    let counts = operations.sgemm(&stream, matrices, Scale::default()).expect("it does nothing");
    assert_eq!(counts.warp_instructions, 0);
}

#[test]
fn what_cannot_be_done_is_refused_by_its_rule() {
    const TILES: Tiles =
        Tiles { block: (128, 128, 16), warp: (64, 64), steps: (4, 2), thread: (4, 4), stages: 4 };
    let refused = |device: &str, method: Method, (m, n, k): (u32, u32, u32)| {
        let device = Device::named(device).expect("it is there");
        let buffer =
            |rows: u32, columns: u32| device.zeros::<f32>((rows * columns) as usize).expect("it fits");
        let (a, b, mut c) = (buffer(m, k), buffer(k, n), buffer(m, n));
        let matrices = Matrices { extents: (m, n, k), a: &a, b: &b, c: &mut c };
        let stream = device.stream().expect("a stream");
        let outcome = Operations::new(&device).sgemm_by(method, &stream, matrices, Scale::default());
        outcome.expect_err("it is against the rules").to_string()
    };
    let tma = |tiles| Method::TmaFed(TmaFed { tiles, ctas_per_sm: 1, raster: 8 }, 1);
    let copied =
        |tiles| Method::DoubleBuffered(DoubleBuffered { tiles, ctas_per_sm: 1, raster: 8, width: 4 }, 1);
    let cases = [
        (
            refused("emu:h200", tma(TILES), (8, 8, 6)),
            "that are multiples of 4, and at least 4: n is 8, k is 6",
        ),
        (refused("emu:a100", tma(TILES), (8, 8, 8)), "TMA needs sm_90"),
        (
            refused("emu:h200", tma(Tiles { block: (128, 128, 8), ..TILES }), (8, 8, 8)),
            "4 warps take BM = 128 and BK = 16, not BM = 128 and BK = 8",
        ),
        (
            refused("emu:h200", tma(Tiles { stages: 14, ..TILES }), (8, 8, 8)),
            "bytes of shared memory, and a CTA has at most 232448",
        ),
        (refused("emu:h200", copied(Tiles { stages: 1, ..TILES }), (8, 8, 8)), "take at least 2"),
        (
            refused("emu:h200", copied(Tiles { steps: (2, 2), thread: (8, 4), ..TILES }), (8, 8, 8)),
            "these are TM = 8, TN = 4, WM = 64, WSTEPM = 2, BK = 16",
        ),
        (
            refused("emu:h200", copied(Tiles { warp: (64, 60), ..TILES }), (8, 8, 8)),
            "BN = 128 is not a multiple of WN = 60",
        ),
    ];
    for (message, words) in cases {
        assert!(message.starts_with("sgemm: ") && message.contains(words), "{message}");
    }
    let device = Device::named("emu:h200").expect("it is there");
    let (a, mut c) = (device.zeros::<f32>(5).expect("it fits"), device.zeros::<f32>(4).expect("it fits"));
    let matrices = Matrices { extents: (2, 2, 3), a: &a, b: &a, c: &mut c };
    let stream = device.stream().expect("a stream");
    let error =
        Operations::new(&device).sgemm(&stream, matrices, Scale::default()).expect_err("A is too short");
    assert_eq!(error.to_string(), "A: expected a length of 6, found 5");
}

#[test]
fn the_checkers_find_nothing_in_any_algorithm() {
    for device in emulators(&[Schedule::Eager, Schedule::Latest, Schedule::Random(6)]) {
        let checked = device.checked().expect("emulators check");
        for algorithm in ["double-buffered", "tma"] {
            for shape in [(66, 70, 35), (132, 136, 72)] {
                if can(&checked, algorithm, shape) {
                    run(&checked, shape, &[("algorithm", algorithm)]);
                }
            }
        }
    }
}
