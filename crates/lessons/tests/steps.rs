//! The lessons on the way to the fast reductions and scans: right at every length and schedule, and
//! as costly as the theory says.

use warpwright::emulator::Schedule;
use warpwright::layout::{Access, Layout};
use warpwright::runtime::{Device, Storable};
use warpwright_kernels::monoid::{InPlace, Max, Min, Sum};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::scan::ScanKind::{self, Exclusive, Inclusive};
use warpwright_lessons::reduce::stepwise::{Step, Stepwise};
use warpwright_lessons::scan::segmented::{Method, Segmented};

const LENGTHS: &[usize] = &[0, 1, 31, 32, 33, 255, 256, 257, 1023, 70_001];
const STEPS: [Step; 4] = [Step::Interleaved, Step::Sequential, Step::Shuffles, Step::GridStride];
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
        for step in STEPS {
            for length in LENGTHS {
                let elements = scattered(*length);
                let input = operations.device().buffer_from(&elements).expect("memory");
                let mut output = operations.device().uninitialized::<u32>(1).expect("memory");
                let mut reduced = |threads| {
                    let lesson = Stepwise { monoid: Sum, step, threads };
                    lesson
                        .reduce(operations, &stream, &input, &mut output)
                        .unwrap_or_else(|error| panic!("{error}"));
                    output.to_vec().expect("a copy to the host")[0]
                };
                let expected = elements.iter().sum::<u32>();
                assert_eq!((reduced(256), reduced(1024)), (expected, expected), "{step:?} of {length}");
            }
        }
    });
}

/// The scan of `elements` in sections.
fn scanned<T: Storable, M: InPlace<T>>(
    operations: &Operations,
    elements: &[T],
    scan: Segmented<M>,
) -> Vec<T> {
    let stream = operations.device().stream().expect("a stream");
    let input = operations.device().buffer_from(elements).expect("memory");
    let mut output = operations.device().uninitialized::<T>(elements.len()).expect("memory");
    let outcome = scan.scan(operations, &stream, &input, &mut output);
    outcome.unwrap_or_else(|error| panic!("{:?}: {error}", scan.method));
    output.to_vec().expect("a copy to the host")
}

/// The scan on the host.
fn expected<T: Copy>(elements: &[T], kind: ScanKind, identity: T, combine: impl Fn(T, T) -> T) -> Vec<T> {
    let mut state = identity;
    let result = |element: &T| {
        let before = state;
        state = combine(state, *element);
        if kind == Inclusive { state } else { before }
    };
    elements.iter().map(result).collect()
}

#[test]
fn every_method_scans_a_section() {
    on_emulators(|operations| {
        for method in METHODS {
            for length in LENGTHS {
                let elements = scattered(*length);
                for kind in [Inclusive, Exclusive] {
                    let found =
                        scanned(operations, &elements, Segmented { monoid: Sum, kind, method, threads: 256 });
                    assert!(
                        found == expected(&elements, kind, 0, u32::wrapping_add),
                        "{method:?} of {length}"
                    );
                }
            }
        }
    });
}

#[test]
fn sections_of_every_size_and_type() {
    let operations = Operations::new(&Device::named("emu:h200").expect("emulators are always there"));
    macro_rules! check {
        ($($ty:ty),*) => {$(
            let elements: Vec<$ty> = (0..20_011).map(|index| (index * 7919 % 2003) as $ty).collect();
            for method in METHODS {
                for threads in [32, 64, 128, 512, 1024] {
                    let sum = Segmented { monoid: Sum, kind: Exclusive, method, threads };
                    if sum.check::<$ty>().is_err() {
                        assert!((method, threads) == (Method::Coarsened, 1024) && <$ty>::BITS == 64);
                        continue;
                    }
                    let found = scanned(&operations, &elements, sum);
                    let sums = expected(&elements, Exclusive, 0, <$ty>::wrapping_add);
                    assert!(found == sums, "{method:?} by {threads}");
                    let least = Segmented { monoid: Min, kind: Inclusive, method, threads };
                    let found = scanned(&operations, &elements, least);
                    let least = expected(&elements, Inclusive, <$ty>::MAX, |a, b| a.min(b));
                    assert!(found == least, "{method:?} by {threads}");
                }
            }
        )*};
    }
    check!(i32, u64);
}

#[test]
fn floats_with_special_values() {
    let operations = Operations::new(&Device::named("emu:h200").expect("emulators are always there"));
    let mut elements = vec![-1.0f32; 3000];
    (elements[700], elements[2000]) = (f32::INFINITY, f32::NAN);
    for method in METHODS {
        let scan = Segmented { monoid: Max, kind: Inclusive, method, threads: 128 };
        let found = scanned(&operations, &elements, scan);
        assert!(found[..700].iter().all(|value| *value == -1.0), "{method:?}");
        assert!(found[700..2000].iter().all(|value| *value == f32::INFINITY), "{method:?}");
        assert!(found[2000..].iter().all(|value| value.is_nan()), "{method:?}");
    }
}

#[test]
fn sums_of_negative_zeros_are_negative_zero() {
    let operations = Operations::new(&Device::named("emu:h200").expect("emulators are always there"));
    let stream = operations.device().stream().expect("a stream");
    let mut zeros = vec![-0.0f32; 3001];
    for method in METHODS {
        for kind in [Inclusive, Exclusive] {
            let found = scanned(&operations, &zeros, Segmented { monoid: Sum, kind, method, threads: 64 });
            assert!(found.iter().all(|sum| sum.to_bits() == (-0.0f32).to_bits()), "{method:?} {kind:?}");
        }
    }
    for step in STEPS {
        let reduction = Stepwise { monoid: Sum, step, threads: 64 };
        let mut output = operations.device().uninitialized::<f32>(1).expect("memory");
        for (last, sum) in [(-0.0f32, -0.0f32), (0.0, 0.0)] {
            zeros[3000] = last;
            let input = operations.device().buffer_from(&zeros).expect("memory");
            reduction.reduce(&operations, &stream, &input, &mut output).expect("it runs");
            assert_eq!(output.to_vec().expect("a copy to the host")[0].to_bits(), sum.to_bits(), "{step:?}");
        }
    }
}

/// Orders in which roundings add up: large before small, signs that cancel, and magnitudes that
/// rise and fall.
const ADVERSARIAL: [fn(usize) -> f32; 4] = [
    |index| if index == 0 { 16_777_216.0 } else { 1.0 },
    |index| if index % 2 == 0 { 1e8 + index as f32 } else { -1e8 },
    |index| 1.0 / (index as f32 + 1.0),
    |index| if index % 1000 == 999 { -499_499.5 } else { (index % 1000) as f32 + 0.1 },
];

#[test]
fn sums_of_adversarial_orders_stay_within_their_bounds() {
    let operations = Operations::new(&Device::named("emu:h200").expect("emulators are always there"));
    let stream = operations.device().stream().expect("a stream");
    let rounding = 2f64.powi(-24);
    for (order, element) in ADVERSARIAL.iter().enumerate() {
        for length in [1, 33, 1023, 70_001] {
            let elements: Vec<f32> = (0..length).map(element).collect();
            let mut so_far = (0.0, 0.0);
            let sums: Vec<(f64, f64)> = elements
                .iter()
                .map(|element| {
                    so_far = (so_far.0 + f64::from(*element), so_far.1 + f64::from(element.abs()));
                    so_far
                })
                .collect();
            for method in METHODS {
                let scan = Segmented { monoid: Sum, kind: Inclusive, method, threads: 256 };
                let steps = scan.rounding_steps(length as u64) as f64;
                let found = scanned(&operations, &elements, scan);
                let within = |(found, (sum, magnitude)): (&f32, &(f64, f64))| {
                    (f64::from(*found) - sum).abs() <= steps * rounding * magnitude
                };
                assert!(found.iter().zip(&sums).all(within), "order {order} of {length} by {method:?}");
            }
            let (sum, magnitude) = sums[length - 1];
            let input = operations.device().buffer_from(&elements).expect("memory");
            let mut output = operations.device().uninitialized::<f32>(1).expect("memory");
            for step in STEPS {
                let reduction = Stepwise { monoid: Sum, step, threads: 256 };
                let steps = reduction.rounding_steps::<f32>(&operations, length as u64).expect("it builds");
                reduction.reduce(&operations, &stream, &input, &mut output).expect("it runs");
                let error = (f64::from(output.to_vec().expect("a copy to the host")[0]) - sum).abs();
                assert!(
                    error <= steps as f64 * rounding * magnitude,
                    "order {order} of {length} by {step:?}"
                );
            }
        }
    }
}

/// What all launches of 32 threads take to one result: more launches than with larger CTAs.
#[test]
fn the_smallest_ctas_reduce_what_takes_many_launches() {
    let operations = Operations::new(&Device::named("emu:h200").expect("emulators are always there"));
    let stream = operations.device().stream().expect("a stream");
    let elements = scattered((1 << 20) + 7);
    let input = operations.device().buffer_from(&elements).expect("memory");
    let mut output = operations.device().uninitialized::<u32>(1).expect("memory");
    for step in STEPS {
        let reduction = Stepwise { monoid: Sum, step, threads: 32 };
        reduction.reduce(&operations, &stream, &input, &mut output).expect("it runs");
        assert_eq!(output.to_vec().expect("a copy to the host"), [elements.iter().sum::<u32>()], "{step:?}");
    }
}

/// Passes over shared memory for one access of a warp whose lane t touches element
/// `first + apart * t` of a section.
fn passes(lanes: i64, first: i64, apart: i64, section: &Layout) -> i64 {
    let threads = Layout::new((lanes, 1), (apart, 0)).expect("lanes of one element");
    let access = Access::new(threads, 32).expect("words").from(first);
    access.conflicts(&section.clone().into()).expect("it is inside").wavefronts
}

/// Where the right ends of a tree's pairs lie: neighboring lanes at neighboring pairs meet as the
/// closed form says, and padding after every 32 words does not keep apart the 32 that a warp's tree
/// down takes them to.
#[test]
fn trees_conflict_as_the_closed_form_says() {
    let length = 2048i64;
    let plain = Layout::new(length, 1).expect("a section");
    let padded = Layout::new((32, length / 32), (1, 33)).expect("a section");
    for log in 0..11 {
        let stride = 1 << log;
        let lanes = 32.min(length / (2 * stride));
        // Lanes whose words are `apart` banks apart (a power of two) share 32 / apart banks.
        let meeting = |apart: i64| (lanes * apart.min(32) / 32).max(1);
        let up = passes(lanes, 2 * stride - 1, 2 * stride, &plain);
        assert_eq!(up, meeting(2 * stride), "stride {stride}");
        let up = passes(lanes, 2 * stride - 1, 2 * stride, &padded);
        let kept_apart = if stride < 32 { 1 } else { meeting(2 * stride / 32) };
        assert_eq!(up, kept_apart, "stride {stride}, padded");
        if stride <= 8 {
            let down = passes(lanes, 3 * stride - 1, 2 * stride, &padded);
            assert_eq!(
                down, 2,
                "stride {stride}: of 32 right ends of the tree down, the first and the last meet"
            );
        }
    }
}

/// Where each lane has a 32nd of the section, a word after each keeps all lanes apart that are at
/// the same place of theirs, in a section of any size; and neighbors in memory, too.
#[test]
fn lanes_with_their_own_runs_never_conflict() {
    for log in 6..12 {
        let length = 1i64 << log;
        let run = length / 32;
        let pitch = run.max(32);
        let padded = Layout::new((pitch, length / pitch), (1, pitch + 1)).expect("a section");
        for place in 0..run {
            assert_eq!(passes(32, place, run, &padded), 1, "place {place} of {length}");
        }
        for row in 0..length / 32 {
            assert_eq!(passes(32, 32 * row, 1, &padded), 1, "row {row} of {length}");
        }
    }
}
