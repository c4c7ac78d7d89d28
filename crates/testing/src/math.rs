//! What the functions of `warpwright_lang::math` are compared with: f64 on the host.

/// A function of one argument.
pub type Reference = fn(f64) -> f64;

/// The functions of one argument, by name; at infinities and NaN too.
pub const REFERENCES: &[(&str, Reference)] = &[
    ("exp", f64::exp),
    ("exp2", f64::exp2),
    ("exp10", exp10),
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
    ("sigmoid", |x| times_sigmoid(1.0, x)),
    ("silu", |x| if x == f64::NEG_INFINITY { -0.0 } else { times_sigmoid(x, x) }),
    ("gelu", |x| if x == f64::NEG_INFINITY { -0.0 } else { gelu(x) }),
    ("gelu_tanh", |x| {
        let slope = 8f64.sqrt() / std::f64::consts::PI.sqrt() * (1.0 + 0.044_715 * x * x);
        if x == f64::NEG_INFINITY { -0.0 } else { times_sigmoid(x, x * slope) }
    }),
    ("softplus", |x| x.max(0.0) + (-x.abs()).exp().ln_1p() + 0.0 * if x.is_nan() { x } else { 0.0 }),
    ("floor", f64::floor),
    ("ceil", f64::ceil),
    ("trunc", f64::trunc),
    ("round", f64::round),
    ("round_ties_even", f64::round_ties_even),
    ("fract", f64::fract),
    ("signum", f64::signum),
    ("to_degrees", f64::to_degrees),
    ("to_radians", f64::to_radians),
    ("tgamma", libm::tgamma),
    ("lgamma", libm::lgamma),
];

/// `10^x` by `e^(x ln(10))`, with what the product loses.
fn exp10(x: f64) -> f64 {
    use std::f64::consts::LN_10;
    const LN_10_LOW: f64 = -2.170_756_223_382_249_4e-16;
    let product = x * LN_10;
    let lost = x.mul_add(LN_10, -product) + x * LN_10_LOW;
    let power = product.exp();
    if power.is_normal() { power * (1.0 + lost) } else { 10f64.powf(x) }
}

/// `x / (1 + e^-z)`.
fn times_sigmoid(x: f64, z: f64) -> f64 {
    if z < 0.0 {
        // In two factors: only the result may be subnormal.
        let root = (z * 0.5).exp();
        return x / (1.0 + root * root) * root * root;
    }
    x / (1.0 + (-z).exp())
}

/// `x` times the integral of the normal distribution up to it.
fn gelu(x: f64) -> f64 {
    let z = -x * std::f64::consts::FRAC_1_SQRT_2;
    let nearly = x * 0.5 * libm::erfc(z);
    if !(-40.0..=-2.0).contains(&x) {
        return nearly;
    }
    // The rounding of z counts: erfc(z) is about e^(-z^2), and z^2 is x^2 / 2.
    let square = x * x * 0.5;
    let (of_z, of_x) = (z.mul_add(z, -square), x.mul_add(x * 0.5, -square));
    nearly * (of_z - of_x).exp()
}

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
    (found - exact).abs() * 2f64.powi(digits - 1) / 2f64.powi(exponent)
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

/// f64 arguments: those of [`arguments`], the same with other low bits, and numbers of all exponents.
pub fn arguments_f64(count: u32) -> Vec<f64> {
    let narrow = arguments(count).into_iter().map(|bits| f64::from(f32::from_bits(bits)));
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let random: Vec<u64> = std::iter::repeat_with(next).take(1024 * count as usize).collect();
    // The numbers of f32 have zeros at their ends; random ones of their exponents have none.
    let filled = narrow.clone().zip(random.iter().cycle()).map(|(x, bits)| {
        if x.is_finite() && x != 0.0 { f64::from_bits(x.to_bits() | bits >> 36) } else { x }
    });
    let wide = random.iter().map(|bits| f64::from_bits(*bits));
    let edges = [f64::MIN_POSITIVE, f64::MAX, 5e-324, 709.78, 709.79, 745.1, 745.2, 1e17, 1e300];
    let edges = edges.into_iter().flat_map(|x: f64| [x, -x]);
    narrow.clone().chain(filled).chain(wide).chain(edges).collect()
}
