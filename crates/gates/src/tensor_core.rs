//! D = A·B + C of 4 x 4 x 4 with f16 operands and f32 accumulators, with the rounding that was measured on an H200.
//!
//! The four products and C are aligned to the largest exponent among them, cut off 25 bits below it, added exactly, and
//! the sum is cut to f32.

use crate::float::{Format, Parts};
use crate::netlist::{Bus, Netlist, Wire};

/// Rows, columns and depth.
pub const SIDE: usize = 4;

/// Bits kept below the largest exponent.
const FRACTION: usize = 25;
/// Bits of an exponent here, as a two's complement number.
const EXPONENT: usize = 10;
/// What is added to all exponents, so that the smallest of f32, -126, is not negative; terms are aligned to -133 at least.
const OFFSET: u64 = 133;
/// Bits of an aligned term: two before the binary point, since a product is below 4.
const TERM: usize = FRACTION + 2;
/// Bits of a sum of five terms, with a sign.
const SUM: usize = TERM + 4;

/// A term of the sum before it is aligned.
struct Term {
    sign: Wire,
    /// The exponent plus [`OFFSET`]; 0 for zero, which aligns nothing.
    exponent: Bus,
    /// Binary point below bit `FRACTION`.
    value: Bus,
}

/// One element of D: `a` and `b` have four f16 each, `c` is an f32.
pub fn dot(list: &mut Netlist, a: &[Bus; SIDE], b: &[Bus; SIDE], c: &[Wire]) -> Bus {
    let left: [Parts; SIDE] = std::array::from_fn(|k| Format::F16.parts(list, &a[k]));
    let right: [Parts; SIDE] = std::array::from_fn(|k| Format::F16.parts(list, &b[k]));
    let addend = Format::F32.parts(list, c);
    let mut terms: Vec<Term> =
        left.iter().zip(&right).map(|(left, right)| product(list, left, right)).collect();
    terms.push(accumulator(list, &addend));
    let largest = terms[1..].iter().fold(terms[0].exponent.clone(), |largest, term| {
        let (_, is_larger) = list.subtract(&largest, &term.exponent);
        list.choose_bus(is_larger, &largest, &term.exponent)
    });
    let mut columns: Vec<Bus> = vec![Bus::new(); SUM];
    for term in &terms {
        let (distance, _) = list.subtract(&largest, &term.exponent);
        let (aligned, _) = list.shift_right(&term.value, &distance);
        // A negative term is inverted, and 1 is added at its lowest bit.
        let signed = list.xor_each(&Netlist::resized(&aligned, SUM), term.sign);
        columns.iter_mut().zip(signed).for_each(|(column, bit)| column.push(bit));
        columns[0].push(term.sign);
    }
    let sum = list.add_columns(columns);
    let cut = cut(list, &sum, &largest);
    with_specials(list, &left, &right, &addend, &cut)
}

fn product(list: &mut Netlist, left: &Parts, right: &Parts) -> Term {
    let sign = list.xor(left.sign, right.sign);
    let exponent = |part: &Parts| Netlist::resized(&part.exponent, EXPONENT);
    let sum = list.sum(&exponent(left), &exponent(right));
    let offset = OFFSET - 2 * Format::F16.bias();
    let sum = list.sum(&sum, &Netlist::constant(offset, EXPONENT));
    let product = list.multiply(&left.significand, &right.significand);
    let is_zero = list.or(left.is_zero, right.is_zero);
    let is_value = list.not(is_zero);
    let below = FRACTION - 2 * Format::F16.fraction_bits;
    let value: Bus = [Netlist::constant(0, below), product].concat();
    Term { sign, exponent: list.and_each(&sum, is_value), value: Netlist::resized(&value, TERM) }
}

fn accumulator(list: &mut Netlist, c: &Parts) -> Term {
    let offset = OFFSET - Format::F32.bias();
    let exponent = Netlist::resized(&c.exponent, EXPONENT);
    let exponent = list.sum(&exponent, &Netlist::constant(offset, EXPONENT));
    let is_value = list.not(c.is_zero);
    let below = Netlist::constant(0, FRACTION - Format::F32.fraction_bits);
    let value: Bus = [below, c.significand.clone()].concat();
    Term { sign: c.sign, exponent: list.and_each(&exponent, is_value), value: Netlist::resized(&value, TERM) }
}

/// The sum as an f32, cut toward zero: the magnitude, then normalized.
fn cut(list: &mut Netlist, sum: &[Wire], largest: &[Wire]) -> Bus {
    let sign = sum[SUM - 1];
    let inverted = list.xor_each(sum, sign);
    let magnitude = list.lookahead(&inverted, &Netlist::constant(0, SUM), sign);
    let (normal, zeros) = list.normalize(&magnitude[..SUM - 1]);
    // The highest bit of the magnitude has the weight 2^(SUM - 2 - FRACTION) of the largest exponent.
    let above = (SUM - 2 - FRACTION) as u64 + Format::F32.bias();
    let exponent = list.sum(largest, &Netlist::constant(above, EXPONENT));
    let (exponent, _) = list.subtract(&exponent, &Netlist::constant(OFFSET, EXPONENT));
    let (exponent, _) = list.subtract(&exponent, &Netlist::resized(&zeros, EXPONENT));
    // What is below the fraction is dropped before rounding to nearest could see it. A subnormal moves right, and drops more.
    let one = Netlist::constant(1, EXPONENT);
    let (missing, _) = list.subtract(&one, &exponent);
    let not_negative = list.not(missing[EXPONENT - 1]);
    let amount = list.and_each(&missing[..5], not_negative);
    let is_far = list.any(&missing[5..EXPONENT - 1]);
    let is_far = list.and(is_far, not_negative);
    let amount: Bus = amount.iter().map(|bit| list.or(*bit, is_far)).collect();
    let (normal, _) = list.shift_right(&normal, &amount);
    let fraction = &normal[normal.len() - 1 - Format::F32.fraction_bits..normal.len() - 1];
    let is_normal = normal[normal.len() - 1];
    let field = list.and_each(&exponent[..Format::F32.exponent_bits], is_normal);
    let magnitude: Bus = fraction.iter().copied().chain(field).collect();
    // Too large: the field is 255 or more.
    let is_positive = list.not(exponent[EXPONENT - 1]);
    let is_top = list.all(&exponent[..8]);
    let is_above = list.any(&exponent[8..EXPONENT - 1]);
    let overflows = list.or(is_top, is_above);
    let overflows = list.and(overflows, is_positive);
    let overflows = list.and(overflows, is_normal);
    // A sum that is cut to zero has no sign.
    let is_value = list.any(&magnitude);
    let sign = list.and(sign, is_value);
    Format::F32.special(list, sign, overflows, &magnitude)
}

/// Infinities and NaN among the operands decide the result.
fn with_specials(
    list: &mut Netlist,
    left: &[Parts; SIDE],
    right: &[Parts; SIDE],
    c: &Parts,
    cut: &[Wire],
) -> Bus {
    let (mut is_nan, mut plus, mut minus) = (c.is_nan, Netlist::ZERO, Netlist::ZERO);
    let mut infinite = vec![(c.sign, c.is_infinite)];
    for (left, right) in left.iter().zip(right) {
        let is_infinite = list.or(left.is_infinite, right.is_infinite);
        let is_zero = list.or(left.is_zero, right.is_zero);
        let is_invalid = list.and(is_infinite, is_zero);
        let of_operands = list.or(left.is_nan, right.is_nan);
        let of_product = list.or(of_operands, is_invalid);
        is_nan = list.or(is_nan, of_product);
        infinite.push((list.xor(left.sign, right.sign), is_infinite));
    }
    for (sign, is_infinite) in infinite {
        let is_plus = list.not(sign);
        let (of_plus, of_minus) = (list.and(is_plus, is_infinite), list.and(sign, is_infinite));
        (plus, minus) = (list.or(plus, of_plus), list.or(minus, of_minus));
    }
    let is_infinite = list.or(plus, minus);
    let both = list.and(plus, minus);
    let is_nan = list.or(is_nan, both);
    let sign = list.choose(is_infinite, minus, cut[31]);
    let result = Format::F32.special(list, sign, is_infinite, &cut[..31]);
    Format::F32.or_nan(list, is_nan, &result)
}

/// The whole core: inputs `a00` to `a33`, `b00` to `b33` of f16, `c00` to `c33` of f32; outputs `d00` to `d33`.
pub fn build(list: &mut Netlist) {
    let places = || (0..SIDE * SIDE).map(|place| (place / SIDE, place % SIDE));
    let matrix = |list: &mut Netlist, name: &str, width: usize| -> Vec<Bus> {
        places().map(|(row, column)| list.input(&format!("{name}{row}{column}"), width)).collect()
    };
    let (a, b) = (matrix(list, "a", 16), matrix(list, "b", 16));
    let c = matrix(list, "c", 32);
    for (row, column) in places() {
        let left = std::array::from_fn(|k| a[row * SIDE + k].clone());
        let right = std::array::from_fn(|k| b[k * SIDE + column].clone());
        let d = dot(list, &left, &right, &c[row * SIDE + column]);
        list.output(&format!("d{row}{column}"), d);
    }
}
