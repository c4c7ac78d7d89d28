//! The remainder of a division of floats.

use super::functions::evaluate;
use crate::arithmetic::remainder_into;
use crate::element::{DeviceFloat, DeviceInteger, Remainder, bf16, f16};
use crate::staging::{Bounds, Iterate};
use crate::value::{Reg, Value};

/// A float `significand * 2^exponent`, but for a constant in the exponent.
struct Parts<B: DeviceInteger> {
    significand: Reg<B>,
    exponent: Reg<u32>,
}

/// The parts of a finite number that is not negative, with `digits` binary digits.
#[track_caller]
fn parts<B: DeviceInteger>(bits: Reg<B>, digits: u32) -> Parts<B> {
    let implicit = B::from_f64(2f64.powi(digits as i32 - 1));
    let exponent = (bits >> (digits - 1)).convert::<u32>();
    let is_normal = exponent.ne(0);
    let significand = (bits & (implicit.reg() - B::ONE)) | is_normal.select(implicit, B::ZERO);
    // A subnormal number has the exponent of the smallest normal ones.
    Parts { significand, exponent: exponent.max(1) }
}

/// `x - y * trunc(x / y)`, which is a float: no step rounds. `B` is the integer of the same width.
#[track_caller]
fn remainder<T: DeviceFloat, B: DeviceInteger>(x: Reg<T>, y: Reg<T>, digits: u32) -> Reg<T> {
    let (a, b) = (x.abs(), y.abs());
    let divides = a.ge(b);
    let dividend = parts::<B>(a.bit_cast(), digits);
    let divisor = parts::<B>(b.bit_cast(), digits);
    // A long division of the significands, by as many digits at once as an integer has left.
    let spare = 8 * T::BYTES - digits;
    let distance = divides.select(dividend.exponent - divisor.exponent, 0);
    let rest = (dividend.significand << (distance % spare)) % divisor.significand;
    let mut steps = 0.until(distance / spare).rounds();
    while steps.next().is_some() {
        remainder_into(rest, (rest << spare).operand(), divisor.significand.operand());
    }
    steps.finish();
    // Both products are exact. The scale is a normal number.
    let scale = (divisor.exponent.convert::<B>() << (digits - 1)).bit_cast::<T>();
    let result = rest.convert::<T>() * T::from_f64(0.5f64.powi(digits as i32 - 1)) * scale;
    let result = divides.select(result, a).copysign(x);
    let is_defined = x.is_finite() & b.gt(T::ZERO);
    is_defined.select(result, T::from_f64(f64::NAN))
}

macro_rules! remainders {
    ($($ty:ty: |$x:ident, $y:ident| $result:expr;)*) => {
        $(impl Remainder for $ty {
            #[track_caller]
            fn remainder($x: Reg<Self>, divisor: impl Value<Self>) -> Reg<Self> {
                let $y = divisor.reg();
                evaluate(|| $result)
            }
        })*
    };
}

remainders! {
    f32: |x, y| remainder::<f32, u32>(x, y, f32::MANTISSA_DIGITS);
    f64: |x, y| remainder::<f64, u64>(x, y, f64::MANTISSA_DIGITS);
    f16: |x, y| remainder::<f32, u32>(x.convert(), y.convert(), f32::MANTISSA_DIGITS).convert();
    bf16: |x, y| remainder::<f32, u32>(x.convert(), y.convert(), f32::MANTISSA_DIGITS).convert();
}
