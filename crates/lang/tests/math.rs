//! The mathematical functions on the emulator, compared with f64 on the host. `xtask math` compares
//! them for all 2^32 arguments on any device.

use half::{bf16, f16};
use warpwright_lang::Reg;
use warpwright_lang::element::Element;
use warpwright_lang::math::fast;
use warpwright_lang::math::table::{DOUBLE_FUNCTIONS, FUNCTIONS, Function};
use warpwright_lang::value::Value;
use warpwright_testing::math::{arguments, arguments_f64, reference, ulp_error, ulp_error_f32};

use crate::narrow::{check, run};

#[test]
fn functions_of_f32_keep_their_bounds() {
    assert_bounds(&of_every_exponent(4), |_| true);
}

#[test]
#[ignore = "half a minute; `xtask sweep` runs it"]
fn functions_of_f32_keep_their_bounds_for_a_large_sample() {
    assert_bounds(&of_every_exponent(512), |_| true);
}

/// `count` numbers of every exponent and sign, and all special values.
fn of_every_exponent(count: u32) -> Vec<(f32, f32)> {
    let mut arguments = arguments(count);
    arguments.resize(arguments.len().next_multiple_of(256), 0);
    arguments.iter().map(|bits| (f32::from_bits(*bits), 0.0)).collect()
}

/// Compares functions with their references at the first numbers of the pairs.
fn assert_bounds(pairs: &[(f32, f32)], is_tested: impl Fn(&Function<f32>) -> bool) {
    let mut wrong = Vec::new();
    for function in FUNCTIONS.iter().filter(|function| is_tested(function)) {
        let exact = reference(function.name);
        let found = run(pairs, |x, _| (function.record)(x));
        let errors = pairs.iter().zip(found).map(|((x, _), bits)| {
            let found = f32::from_bits(bits as u32);
            (ulp_error_f32(found, exact(f64::from(*x))), *x, found)
        });
        let (error, x, found) = errors.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are arguments");
        if error > function.ulp {
            let expected = exact(f64::from(x));
            wrong.push(format!("{}({x:e}) is {found:e}, not {expected:e}: {error:.2} ulp", function.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn functions_of_f64_keep_their_bounds() {
    check_functions_of_f64(2);
}

#[test]
#[ignore = "half a minute; `xtask sweep` runs it"]
fn functions_of_f64_keep_their_bounds_for_a_large_sample() {
    check_functions_of_f64(512);
}

/// Compares the functions at `count` random numbers of every exponent of f32, and others.
fn check_functions_of_f64(count: u32) {
    let mut arguments = arguments_f64(count);
    arguments.resize(arguments.len().next_multiple_of(256), 0.0);
    let pairs: Vec<(f64, f64)> = arguments.iter().map(|x| (*x, 0.0)).collect();
    let mut wrong = Vec::new();
    for function in DOUBLE_FUNCTIONS {
        let exact = reference(function.name);
        let found = run(&pairs, |x, _| (function.record)(x));
        let errors = pairs.iter().zip(found).map(|((x, _), bits)| {
            let found = f64::from_bits(bits);
            (ulp_error(found, exact(*x), 53, -1022, 1023), *x, found)
        });
        let (error, x, found) = errors.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are arguments");
        if error > function.ulp {
            let expected = exact(x);
            wrong.push(format!("{}({x:e}) is {found:e}, not {expected:e}: {error:.2} ulp", function.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_lists_the_functions() {
    let page = include_str!("../../../docs/math.md");
    let cells = |name: &str, ulp: f64, cuda: Option<f64>| {
        let cuda = cuda.map_or("-".to_owned(), |bound| bound.to_string());
        format!("| `{name}` | {ulp} | {cuda} |\n")
    };
    let single: String = FUNCTIONS.iter().map(|f| cells(f.name, f.ulp, f.cuda)).collect();
    let double: String = DOUBLE_FUNCTIONS.iter().map(|f| cells(f.name, f.ulp, f.cuda)).collect();
    assert!(page.contains(&single), "docs/math.md lacks the table of f32:\n{single}");
    assert!(page.contains(&double), "docs/math.md lacks the table of f64:\n{double}");
}

/// Around the poles of the gamma function and the zeros of its logarithm, both denser than the
/// numbers of any exponent.
#[test]
fn gamma_keeps_its_bounds_near_its_poles_and_zeros() {
    let zeros = [
        -2.457_024_7f64,
        -2.747_682_6,
        -3.143_580_8,
        -3.955_294_3,
        -4.039_361_8,
        -4.991_544_6,
        -5.008_218,
        -5.998_607_2,
        -6.001_385_2,
        -6.999_801_2,
        -7.000_198_4,
    ];
    let points = (-40..=36).map(|n| n as f32).chain(zeros.map(|zero| zero as f32));
    let near = points
        .flat_map(|point| (0..64).map(move |i| f32::from_bits((point.to_bits() + i).saturating_sub(32))));
    let between = (-45 * 32..40 * 32).map(|i| i as f32 / 32.0 + 0.011);
    let mut pairs: Vec<(f32, f32)> = near.chain(between).map(|x| (x, 0.0)).collect();
    pairs.resize(pairs.len().next_multiple_of(256), (1.0, 0.0));
    assert_bounds(&pairs, |function| function.name.ends_with("gamma"));
}

/// Functions of two arguments, with Rust's of f64 and the bound in ulp.
type Binary = (fn(Reg<f32>, Reg<f32>) -> Reg<f32>, fn(f64, f64) -> f64, f64);
type DoubleBinary = (fn(Reg<f64>, Reg<f64>) -> Reg<f64>, fn(f64, f64) -> f64, f64);

const BINARY: &[Binary] = &[
    (|x, y| x.powf(y), f64::powf, 4.5),
    (|y, x| y.atan2(x), f64::atan2, 3.5),
    (|x, y| x.hypot(y), f64::hypot, 3.5),
    (|x, y| x.fdim(y), difference, 0.5),
];

const DOUBLE_BINARY: &[DoubleBinary] = &[
    (|x, y| x.powf(y), f64::powf, 16.0),
    (|y, x| y.atan2(x), f64::atan2, 3.5),
    (|x, y| x.hypot(y), f64::hypot, 3.5),
    (|x, y| x.fdim(y), difference, 0.5),
];

fn difference(x: f64, y: f64) -> f64 {
    if x <= y { 0.0 } else { x - y }
}

/// All pairs of special values, and pairs of moderate ones.
fn pairs_of_arguments() -> Vec<(f32, f32)> {
    let special = [
        0.0,
        f32::from_bits(1),
        f32::MIN_POSITIVE,
        0.3,
        0.5,
        0.999_999_94,
        1.0,
        1.000_000_1,
        2.0,
        3.0,
        7.5,
        1e10,
        16_777_217.0,
        1e38,
        f32::MAX,
        f32::INFINITY,
    ];
    let signed: Vec<f32> = special.into_iter().flat_map(|x| [x, -x]).chain([f32::NAN]).collect();
    let pairs = signed.iter().flat_map(|x| signed.iter().map(|y| (*x, *y)));
    let random = arguments(4).into_iter().map(|bits| bits & 0x7f_ffff);
    let moderate: Vec<f32> =
        random.map(|bits| f32::from_bits(0x3f80_0000 | bits) * 2f32.powi((bits % 13) as i32 - 6)).collect();
    let sign = |x: f32| if x.to_bits() & 1 == 0 { x } else { -x };
    let moderate = moderate.iter().zip(moderate.iter().skip(7)).map(|(x, y)| (*x, sign(*y)));
    let mut pairs: Vec<(f32, f32)> = pairs.chain(moderate).collect();
    pairs.resize(pairs.len().next_multiple_of(256), (1.0, 1.0));
    pairs
}

#[test]
fn functions_of_two_arguments_keep_their_bounds() {
    let pairs = pairs_of_arguments();
    let wide: Vec<(f64, f64)> = pairs.iter().map(|(x, y)| (f64::from(*x), f64::from(*y))).collect();
    let mut wrong = Vec::new();
    for (number, ((function, exact, bound), (double, _, double_bound))) in
        BINARY.iter().zip(DOUBLE_BINARY).enumerate()
    {
        for ((x, y), bits) in wide.iter().zip(run(&pairs, function)) {
            let found = f32::from_bits(bits as u32);
            let error = ulp_error_f32(found, exact(*x, *y));
            if error > *bound {
                wrong.push(format!(
                    "f32 {number}: of {x:e} and {y:e} {found:e}, not {:e}: {error:.2} ulp",
                    exact(*x, *y)
                ));
            }
        }
        for ((x, y), bits) in wide.iter().zip(run(&wide, double)) {
            let found = f64::from_bits(bits);
            let error = ulp_error(found, exact(*x, *y), 53, -1022, 1023);
            if error > *double_bound {
                wrong.push(format!(
                    "f64 {number}: of {x:e} and {y:e} {found:e}, not {:e}: {error:.2} ulp",
                    exact(*x, *y)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An approximation, what it approximates, and its documented absolute error by the argument and the
/// exact result.
type Fast = (fn(Reg<f32>) -> Reg<f32>, fn(f64) -> f64, fn(f64, f64) -> f64);

const FAST: &[(&str, Fast)] = &[
    ("exp2", (fast::exp2, f64::exp2, |_, exact| exact * power(-22))),
    ("exp", (fast::exp, f64::exp, |x, exact| exact * (power(-22) + x.abs() * power(-23)))),
    ("exp10", (fast::exp10, |x| 10f64.powf(x), |x, exact| exact * (power(-22) + x.abs() * power(-21)))),
    ("log2", (fast::log2, f64::log2, of_logarithm)),
    ("ln", (fast::ln, f64::ln, of_logarithm)),
    ("log10", (fast::log10, f64::log10, of_logarithm)),
    ("sin", (fast::sin, f64::sin, of_angle)),
    ("cos", (fast::cos, f64::cos, of_angle)),
    ("tanh", (fast::tanh, f64::tanh, |_, exact| exact.abs() * power(-10))),
    ("recip", (fast::recip, f64::recip, |_, exact| exact.abs() * power(-23))),
    ("sqrt", (fast::sqrt, f64::sqrt, |_, exact| exact * power(-22))),
    ("rsqrt", (fast::rsqrt, |x| 1.0 / x.sqrt(), |_, exact| exact * power(-22))),
    ("sigmoid", (fast::sigmoid, |x| 1.0 / (1.0 + (-x).exp()), |_, _| power(-11))),
    ("silu", (fast::silu, |x| x / (1.0 + (-x).exp()), |x, _| x.abs() * power(-11))),
    ("gelu_tanh", (fast::gelu_tanh, reference_of_gelu_tanh, |x, _| x.abs() * power(-11))),
    (
        "powf(x, 3.3)",
        (
            |x| fast::powf(x, 3.3),
            |x| x.powf(f64::from(3.3f32)),
            |x, exact| exact * power(-22) * (1.0 + 3.3 * x.log2().abs().max(1.0)),
        ),
    ),
    (
        "div(1.7, x)",
        (|x| fast::div(1.7f32.reg(), x), |x| f64::from(1.7f32) / x, |_, exact| exact.abs() * power(-22)),
    ),
];

fn power(exponent: i32) -> f64 {
    2f64.powi(exponent)
}

fn of_logarithm(x: f64, exact: f64) -> f64 {
    power(-22) * if (0.5..=2.0).contains(&x) { 1.0 } else { exact.abs() }
}

/// Unbounded past pi.
fn of_angle(x: f64, _: f64) -> f64 {
    if x.abs() <= std::f64::consts::PI { power(-20) } else { f64::INFINITY }
}

fn reference_of_gelu_tanh(x: f64) -> f64 {
    reference("gelu_tanh")(x)
}

#[test]
fn approximations_have_the_documented_errors() {
    let mut arguments = arguments(8);
    arguments.resize(arguments.len().next_multiple_of(256), 0);
    let pairs: Vec<(f32, f32)> = arguments.iter().map(|bits| (f32::from_bits(*bits), 0.0)).collect();
    let mut wrong = Vec::new();
    for (name, (approximation, exact, error)) in FAST {
        for ((x, _), bits) in pairs.iter().zip(run(&pairs, |x, _| approximation(x))) {
            let (x, found) = (f64::from(*x), f64::from(f32::from_bits(bits as u32)));
            let expected = exact(x);
            // Subnormal arguments and results may count as zero.
            if !(x as f32).is_normal() || !(expected as f32).is_normal() || x.abs() > power(126) {
                continue;
            }
            if (found - expected).abs() > error(x, expected) {
                wrong.push(format!("{name} of {x:e} is {found:e}, not {expected:e}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn remainders_are_exact() {
    let pairs = pairs_of_arguments();
    let quotients = [(f32::MAX, 1e-45), (1e38, 3e-39), (5e-39, 3e-45), (6.0, 3.0), (-7.5, 2.0)];
    let mut pairs: Vec<(f32, f32)> = pairs.into_iter().chain(quotients).collect();
    pairs.resize(pairs.len().next_multiple_of(256), (1.0, 1.0));
    let wide: Vec<(f64, f64)> =
        pairs.iter().map(|(x, y)| (f64::from(*x) / 3.0, f64::from(*y) * 7.0)).collect();
    let halves: Vec<(f16, f16)> = pairs.iter().map(|(x, y)| (f16::from_f32(*x), f16::from_f32(*y))).collect();
    let brains: Vec<(bf16, bf16)> =
        pairs.iter().map(|(x, y)| (bf16::from_f32(*x), bf16::from_f32(*y))).collect();
    check_remainders(&wide, |x, y| x % y, |x| x, f64::from_bits);
    check_remainders(&pairs, |x, y| x % y, f64::from, |bits| f64::from(f32::from_bits(bits as u32)));
    check_remainders(&halves, |x, y| x % y, f64::from, |bits| f64::from(f16::from_bits(bits as u16)));
    check_remainders(&brains, |x, y| x % y, f64::from, |bits| f64::from(bf16::from_bits(bits as u16)));
}

/// Compares remainders with those of f64, which are exact for every type.
fn check_remainders<T: Element>(
    pairs: &[(T, T)],
    remainder: fn(Reg<T>, Reg<T>) -> Reg<T>,
    widen: fn(T) -> f64,
    from_bits: fn(u64) -> f64,
) {
    for ((x, y), found) in pairs.iter().zip(run(pairs, remainder)) {
        let (x, y, found) = (widen(*x), widen(*y), from_bits(found));
        let exact = x % y;
        let is_same = found.to_bits() == exact.to_bits() || found.is_nan() && exact.is_nan();
        assert!(is_same, "{} {x:e} % {y:e} is {found:e}, not {exact:e}", T::NAME);
    }
}

#[test]
fn sixteen_bit_floats_are_tested_and_signed() {
    let halves: Vec<(f16, f16)> =
        (0..=u16::MAX).step_by(8).map(|bits| (f16::from_bits(bits), f16::from_bits(!bits))).collect();
    let brains: Vec<(bf16, bf16)> =
        halves.iter().map(|(x, y)| (bf16::from_bits(x.to_bits()), bf16::from_bits(y.to_bits()))).collect();
    macro_rules! check_type {
        ($pairs:ident: $ty:ty) => {
            check(&$pairs, |x, _| x.is_nan(), |x, _| x.is_nan());
            check(&$pairs, |x, _| x.is_finite(), |x, _| x.is_finite());
            check(&$pairs, |x, _| x.is_infinite(), |x, _| x.is_infinite());
            check(&$pairs, |x, y| x.copysign(y), |x, y| x.copysign(y));
            let numbers: Vec<($ty, $ty)> =
                $pairs.iter().copied().filter(|(x, y)| !x.is_nan() && !y.is_nan()).collect();
            let numbers = &numbers[..numbers.len() / 256 * 256];
            check(numbers, |x, _| x.abs(), |x, _| <$ty>::from_bits(x.to_bits() & 0x7fff));
            check(numbers, |x, y| x.min(y), |x, y| x.min(y));
            check(numbers, |x, y| x.max(y), |x, y| x.max(y));
        };
    }
    check_type!(halves: f16);
    check_type!(brains: bf16);
}

#[test]
fn sixteen_bit_functions_round_once_more() {
    for function in [0usize, 1, 2] {
        let halves: Vec<(f16, f16)> =
            (0..=u16::MAX).step_by(7).map(|bits| (f16::from_bits(bits), f16::ZERO)).collect();
        let halves = &halves[..halves.len() / 256 * 256];
        let exact = [f64::exp, f64::tanh, f64::cbrt][function];
        let found = match function {
            0 => run(halves, |x, _| x.exp()),
            1 => run(halves, |x, _| x.tanh()),
            _ => run(halves, |x, _| x.cbrt()),
        };
        for ((x, _), bits) in halves.iter().zip(found) {
            let error = ulp_error(f16::from_bits(bits as u16).to_f64(), exact(x.to_f64()), 11, -14, 15);
            assert!(error <= 0.51, "{function} of f16 {x}: {error} ulp");
        }
    }
    let brains: Vec<(bf16, bf16)> =
        (0..=u16::MAX).step_by(8).map(|bits| (bf16::from_bits(bits), bf16::ZERO)).collect();
    for ((x, _), bits) in brains.iter().zip(run(&brains, |x, _| x.exp())) {
        let error = ulp_error(bf16::from_bits(bits as u16).to_f64(), x.to_f64().exp(), 8, -126, 127);
        assert!(error <= 0.51, "exp of bf16 {x}: {error} ulp");
    }
}

#[test]
fn integer_powers_are_repeated_products() {
    let pairs: Vec<(f32, f32)> = (0..256).map(|i| (i as f32 * 0.03 - 3.0, 0.0)).collect();
    for exponent in [0, 1, 2, 5, -3] {
        for ((x, _), bits) in pairs.iter().zip(run(&pairs, |x, _| x.powi(exponent))) {
            let error = ulp_error_f32(f32::from_bits(bits as u32), f64::from(*x).powi(exponent));
            assert!(error <= 3.0, "{x} to the {exponent}: {error} ulp");
        }
    }
}
