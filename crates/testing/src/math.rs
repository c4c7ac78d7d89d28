//! What the functions of `warpwright_lang::math` are compared with: f64 on the host.

/// A function of one argument.
pub type Reference = fn(f64) -> f64;

/// The functions of one argument, by name; at infinities and NaN too.
pub const REFERENCES: &[(&str, Reference)] = &[
    ("exp", f64::exp),
    ("exp2", f64::exp2),
    ("exp10", libm::exp10),
    ("exp_m1", f64::exp_m1),
    ("ln", f64::ln),
    ("log2", f64::log2),
    ("log10", f64::log10),
    ("ln_1p", f64::ln_1p),
    ("sqrt", f64::sqrt),
    ("rsqrt", |x| 1.0 / x.sqrt()),
    ("cbrt", f64::cbrt),
    ("recip", f64::recip),
    ("sin", f64::sin),
    ("cos", f64::cos),
    ("tan", f64::tan),
    ("asin", f64::asin),
    ("acos", f64::acos),
    ("atan", f64::atan),
    ("sinh", f64::sinh),
    ("cosh", f64::cosh),
    ("tanh", f64::tanh),
    ("asinh", libm::asinh),
    ("acosh", |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }),
    ("atanh", libm::atanh),
    ("erf", libm::erf),
    ("erfc", libm::erfc),
    ("sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
    ("silu", |x| if x == f64::NEG_INFINITY { -0.0 } else { x / (1.0 + (-x).exp()) }),
    ("gelu", |x| {
        if x == f64::NEG_INFINITY { -0.0 } else { x * 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) }
    }),
    ("gelu_tanh", |x| {
        let slope = 8f64.sqrt() / std::f64::consts::PI.sqrt() * (1.0 + 0.044_715 * x * x);
        if x == f64::NEG_INFINITY { -0.0 } else { x / (1.0 + (-x * slope).exp()) }
    }),
    ("softplus", |x| x.max(0.0) + (-x.abs()).exp().ln_1p() + 0.0 * if x.is_nan() { x } else { 0.0 }),
    ("floor", f64::floor),
    ("ceil", f64::ceil),
    ("trunc", f64::trunc),
    ("round", f64::round),
    ("round_ties_even", f64::round_ties_even),
];

/// The reference of the function `name`.
///
/// # Panics
/// If there is none.
pub fn reference(name: &str) -> Reference {
    REFERENCES
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("`{name}` has no reference"))
        .1
}

/// The error of `found` in units in the last place of `exact`, among floats of `digits` binary
/// digits whose normal numbers begin at `2^lowest`; infinite for a wrong sign, infinity or NaN.
pub fn ulp_error(found: f64, exact: f64, digits: i32, lowest: i32, highest: i32) -> f64 {
    if found.is_nan() || exact.is_nan() {
        return if found.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if found.is_sign_negative() != exact.is_sign_negative() {
        return f64::INFINITY;
    }
    // Infinity is the number after the largest.
    let overflow = 2f64.powi(highest + 1);
    let (found, exact) = (found.abs().min(overflow), exact.abs());
    if exact >= overflow {
        let largest = overflow - 2f64.powi(highest + 1 - digits);
        return if found == overflow {
            0.0
        } else {
            (overflow - found.min(largest)) / 2f64.powi(highest + 1 - digits)
        };
    }
    let exponent = ((exact.to_bits() >> 52) as i32 - 1023).max(lowest);
    (found - exact).abs() / 2f64.powi(exponent + 1 - digits)
}

/// [`ulp_error`] among f32.
pub fn ulp_error_f32(found: f32, exact: f64) -> f64 {
    ulp_error(f64::from(found), exact, 24, -126, 127)
}

/// f32 arguments, as bits: all special values, and of every exponent and sign `count` numbers: the
/// first, the last, and others from a fixed seed.
pub fn arguments(count: u32) -> Vec<u32> {
    let mut state = 0x9e37_79b9u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state & 0x7f_ffff
    };
    let specials = [
        0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0, 88.72284, 88.72283, 103.97, 104.0, 0.55, 0.99999994,
        1.0000001,
    ];
    let specials = specials.into_iter().flat_map(|x: f32| [x.to_bits(), (-x).to_bits()]);
    let mut arguments: Vec<u32> = specials.chain([f32::NAN.to_bits(), 0x7f80_0000, 0xff80_0000]).collect();
    for exponent in 0..510u32 {
        let begin = (exponent % 255) << 23 | (exponent / 255) << 31;
        arguments.extend([begin, begin | 1, begin | 0x7f_ffff]);
        arguments
            .extend(std::iter::repeat_with(&mut next).take(count as usize).map(|fraction| begin | fraction));
    }
    arguments
}
