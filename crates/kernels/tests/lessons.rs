//! The lessons on the way to the fast reductions and scans: right at every length and schedule, and as costly as the theory says.

use warpwright::emulator::Schedule;
use warpwright::layout::{Access, Layout};
use warpwright::runtime::Device;
use warpwright_kernels::monoid::{Max, Sum};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_kernels::reduce::stepwise::{Step, Stepwise};
use warpwright_kernels::scan::segmented::{Method, Segmented};

const LENGTHS: &[usize] = &[0, 1, 31, 32, 33, 255, 256, 257, 1023, 70_001];
const METHODS: [Method; 7] = [
    Method::KoggeStone,
    Method::BrentKung { padded: false },
    Method::BrentKung { padded: true },
    Method::Blelloch { padded: false },
    Method::Blelloch { padded: true },
    Method::Warp,
    Method::Coarsened,
];

fn on_emulators(check: impl Fn(&Operations)) {
    for (name, schedule) in
        [("emu:h200", Schedule::Eager), ("emu:a100", Schedule::Latest), ("emu:h200", Schedule::Random(4))]
    {
        check(&Operations::new(&Device::with_schedule(name, schedule).expect("emulators are always there")));
    }
}

fn scattered(length: usize) -> Vec<u32> {
    (0..length as u32).map(|index| index.wrapping_mul(7919) % 2003).collect()
}

#[test]
fn every_step_of_the_reduction() {
    on_emulators(|operations| {
        let stream = operations.device().stream().expect("a stream");
        for step in [Step::Interleaved, Step::Sequential, Step::Shuffles, Step::GridStride] {
            for length in LENGTHS {
                let elements = scattered(*length);
                let input = operations.device().buffer_from(&elements).expect("room");
                let mut output = operations.device().uninitialized::<u32>(1).expect("room");
                let mut reduced = |threads| {
                    let lesson = Stepwise { monoid: Sum, step, threads };
                    lesson
                        .reduce(operations, &stream, &input, &mut output)
                        .unwrap_or_else(|error| panic!("{error}"));
                    output.to_vec().expect("readable")[0]
                };
                let expected = elements.iter().sum::<u32>();
                assert_eq!((reduced(256), reduced(1024)), (expected, expected), "{step:?} of {length}");
            }
        }
    });
}

#[test]
fn every_way_to_scan_a_section() {
    on_emulators(|operations| {
        let stream = operations.device().stream().expect("a stream");
        for method in METHODS {
            for length in LENGTHS {
                let elements = scattered(*length);
                let input = operations.device().buffer_from(&elements).expect("room");
                let mut output = operations.device().uninitialized::<u32>(*length).expect("room");
                let scan = Segmented { monoid: Sum, method, threads: 256 };
                scan.inclusive_scan(operations, &stream, &input, &mut output)
                    .unwrap_or_else(|error| panic!("{method:?}: {error}"));
                let mut sum = 0;
                let sums = elements.iter().map(|element| {
                    sum += element;
                    sum
                });
                assert!(
                    output.to_vec().expect("readable") == sums.collect::<Vec<_>>(),
                    "{method:?} of {length}"
                );
            }
        }
    });
}

#[test]
fn floats_with_special_values() {
    let operations = Operations::new(&Device::named("emu:h200").expect("emulators are always there"));
    let stream = operations.device().stream().expect("a stream");
    let mut elements = vec![-1.0f32; 3000];
    (elements[700], elements[2000]) = (f32::INFINITY, f32::NAN);
    let input = operations.device().buffer_from(&elements).expect("room");
    for method in METHODS {
        let mut output = operations.device().uninitialized::<f32>(3000).expect("room");
        let scan = Segmented { monoid: Max, method, threads: 128 };
        scan.inclusive_scan(&operations, &stream, &input, &mut output).expect("it runs");
        let found = output.to_vec().expect("readable");
        assert!(found[..700].iter().all(|value| *value == -1.0), "{method:?}");
        assert!(found[700..2000].iter().all(|value| *value == f32::INFINITY), "{method:?}");
        assert!(found[2000..].iter().all(|value| value.is_nan()), "{method:?}");
    }
}

#[test]
fn lengths_that_differ_are_refused() {
    let operations = Operations::new(&Device::named("emu:h200").expect("emulators are always there"));
    let stream = operations.device().stream().expect("a stream");
    let input = operations.device().zeros::<u32>(3).expect("room");
    let mut output = operations.device().zeros::<u32>(2).expect("room");
    let scan = Segmented { monoid: Sum, method: Method::Warp, threads: 128 };
    let error = scan.inclusive_scan(&operations, &stream, &input, &mut output).expect_err("it differs");
    assert!(matches!(error, OperationError::Length { expected: 3, given: 2, .. }), "{error}");
}

/// Passes over shared memory for one access of a warp whose lane t touches element `2 * stride * (t + 1) - 1` of a section, one lane for
/// each such element below `length`.
fn passes(stride: i64, length: i64, padded: bool) -> i64 {
    let lanes = 32.min(length / (2 * stride));
    let threads = Layout::new((lanes, 1), (2 * stride, 0)).expect("lanes of one element");
    let access = Access::new(threads, 32).expect("words").from(2 * stride - 1);
    let section = match padded {
        false => Layout::new(length, 1),
        true => Layout::new((32, length / 32), (1, 33)),
    };
    access.conflicts(&section.expect("a section").into()).expect("it is inside").wavefronts
}

#[test]
fn trees_meet_in_banks_as_the_closed_form_says_and_padding_cures_it() {
    let length = 2048i64;
    for log in 0..11 {
        let stride = 1 << log;
        let lanes = 32.min(length / (2 * stride));
        // Lanes whose words are `apart` banks apart (a power of two) share 32 / apart banks.
        let meeting = |apart: i64| (lanes * apart.min(32) / 32).max(1);
        assert_eq!(passes(stride, length, false), meeting(2 * stride), "stride {stride}");
        // Padding moves element i on by i / 32 words. That spreads strides below 32 over all banks; words farther apart come to be
        // 2 * stride / 32 banks apart, and two of the few lanes that are left may still meet.
        let padded = if stride < 32 { 1 } else { meeting(2 * stride / 32) };
        assert_eq!(passes(stride, length, true), padded, "stride {stride}, padded");
        assert!(padded <= 2);
    }
}
