//! The leaf of every shape and stride: a static integer or a device value.

use crate::Error;
use std::fmt;
use std::ops::{Add, Div, Mul, Rem, Sub};
use std::sync::Arc;

/// An integer: static, known when the kernel is built, or an expression over device values.
///
/// Arithmetic on static integers is evaluated immediately. Arithmetic on device values builds an
/// [`Expression`], simplified under the assumption that indices do not overflow.
///
/// The named methods ([`plus`](Int::plus), [`times`](Int::times), ...) report overflow and division
/// by zero as errors. The operators `+ - * / %` panic on both, as those of Rust integers do.
///
/// ```
/// use warpwright_layout::Int;
/// let m = Int::device(0, "m");
/// assert_eq!(Int::from(6) * 7, Int::from(42));
/// assert_eq!((m.clone() * 1).to_string(), "m");
/// assert_eq!((m.clone() * 4 + 2).to_string(), "4*m+2");
/// assert_eq!((m * 8) % 4, Int::from(0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Int {
    /// Known when the kernel is built.
    Known(i64),
    /// Known only on the device.
    Device(Arc<Expression>),
}

/// The expression of a device integer.
///
/// Division and remainder are of non-negative numbers: layouts divide only coordinates and extents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expression {
    /// A device value, opaque to this crate.
    Variable(Variable),
    /// An arithmetic operation, at least one of whose operands is a device value.
    Operation(Operator, Int, Int),
}

/// A device value: its owner's handle (`id`), its name in messages, and a known divisor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variable {
    /// The creator's handle for the value.
    pub id: u64,
    /// The name that messages and printed layouts show.
    pub name: Arc<str>,
    /// A known divisor of the value; 1 if none is known.
    pub multiple_of: i64,
}

/// The operators of device arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `a + b`
    Add,
    /// `a - b`
    Subtract,
    /// `a * b`
    Multiply,
    /// `a / b`, rounded down
    Divide,
    /// `a % b`
    Remainder,
    /// The smaller of the two
    Minimum,
}

impl Int {
    /// Zero, known.
    pub const ZERO: Int = Int::Known(0);
    /// One, known.
    pub const ONE: Int = Int::Known(1);

    /// A device value called `name` in messages; `id` is the creator's handle for it.
    pub fn device(id: u64, name: impl Into<Arc<str>>) -> Int {
        Int::device_multiple_of(id, name, 1)
    }

    /// A device value that is a multiple of `multiple_of`, such as an aligned leading dimension.
    /// Operations use the divisor to decide divisibility.
    pub fn device_multiple_of(id: u64, name: impl Into<Arc<str>>, multiple_of: i64) -> Int {
        let variable = Variable { id, name: name.into(), multiple_of: multiple_of.max(1) };
        Int::Device(Arc::new(Expression::Variable(variable)))
    }

    /// The value, when it is known at build time.
    pub fn known(&self) -> Option<i64> {
        match self {
            Int::Known(value) => Some(*value),
            Int::Device(_) => None,
        }
    }

    /// True for the known integer `value`.
    pub fn is(&self, value: i64) -> bool {
        self.known() == Some(value)
    }

    /// The value, or an error that names the leaf that `operation` needs and the reason.
    pub fn require(&self, operation: &'static str, reason: &str) -> Result<i64, Error> {
        self.known().ok_or_else(|| Error::needs_known(operation, self, reason))
    }

    /// The largest number known to divide this integer (0 divides only 0).
    ///
    /// ```
    /// use warpwright_layout::Int;
    /// let k = Int::device_multiple_of(0, "k", 8);
    /// assert_eq!((k * 4 + 16).known_divisor(), 16);
    /// ```
    pub fn known_divisor(&self) -> i64 {
        match self {
            Int::Known(value) => value.unsigned_abs().min(i64::MAX as u64) as i64,
            Int::Device(expression) => match &**expression {
                Expression::Variable(variable) => variable.multiple_of,
                Expression::Operation(operator, left, right) => {
                    let (left, right) = (left.known_divisor(), right.known_divisor());
                    match operator {
                        Operator::Multiply => left.checked_mul(right).unwrap_or(left.max(right)),
                        Operator::Divide => 1,
                        _ => gcd(left, right),
                    }
                }
            },
        }
    }

    /// Whether `divisor` is known to divide this integer; `None` when that cannot be decided.
    pub fn divisible_by(&self, divisor: &Int) -> Option<bool> {
        match (self, divisor) {
            (Int::Known(a), Int::Known(b)) => Some(*b != 0 && a.checked_rem(*b).is_none_or(|rest| rest == 0)),
            _ if divisor.is(1) || self.is(0) || self == divisor => Some(true),
            (Int::Device(_), Int::Known(b)) if *b > 0 && self.known_divisor() % b == 0 => Some(true),
            (Int::Device(expression), _) => match &**expression {
                Expression::Operation(Operator::Multiply, left, right)
                    if left == divisor || right == divisor =>
                {
                    Some(true)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// `self + other`; an error if known integers overflow.
    pub fn plus(&self, other: &Int) -> Result<Int, Error> {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => a.checked_add(*b).map(Int::Known).ok_or(Error::Overflow),
            (Int::Known(0), other) => Ok(other.clone()),
            (value, Int::Known(0)) => Ok(value.clone()),
            (Int::Known(_), Int::Device(_)) => other.plus(self),
            (Int::Device(expression), Int::Known(b)) => match &**expression {
                Expression::Operation(Operator::Add, left, Int::Known(a)) => {
                    left.plus(&Int::Known(a.checked_add(*b).ok_or(Error::Overflow)?))
                }
                _ => Ok(Int::operation(Operator::Add, self, other)),
            },
            _ => Ok(Int::operation(Operator::Add, self, other)),
        }
    }

    /// `self - other`; an error if known integers overflow.
    pub fn minus(&self, other: &Int) -> Result<Int, Error> {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => a.checked_sub(*b).map(Int::Known).ok_or(Error::Overflow),
            (Int::Device(_), Int::Known(b)) => {
                self.plus(&Int::Known(b.checked_neg().ok_or(Error::Overflow)?))
            }
            (a, b) if a == b => Ok(Int::ZERO),
            _ => Ok(Int::operation(Operator::Subtract, self, other)),
        }
    }

    /// `self * other`; an error if known integers overflow.
    pub fn times(&self, other: &Int) -> Result<Int, Error> {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => a.checked_mul(*b).map(Int::Known).ok_or(Error::Overflow),
            (Int::Known(0), _) | (_, Int::Known(0)) => Ok(Int::ZERO),
            (Int::Known(1), other) => Ok(other.clone()),
            (value, Int::Known(1)) => Ok(value.clone()),
            (Int::Device(_), Int::Known(_)) => other.times(self),
            (Int::Known(a), Int::Device(expression)) => match &**expression {
                Expression::Operation(Operator::Multiply, Int::Known(b), right) => {
                    Int::Known(a.checked_mul(*b).ok_or(Error::Overflow)?).times(right)
                }
                _ => Ok(Int::operation(Operator::Multiply, self, other)),
            },
            (Int::Device(left), Int::Device(right)) => match (&**left, &**right) {
                (Expression::Operation(Operator::Multiply, factor @ Int::Known(_), rest), _) => {
                    factor.times(&rest.times(other)?)
                }
                (_, Expression::Operation(Operator::Multiply, factor @ Int::Known(_), rest)) => {
                    factor.times(&self.times(rest)?)
                }
                _ => Ok(Int::operation(Operator::Multiply, self, other)),
            },
        }
    }

    /// `self / other`, rounded towards minus infinity; an error if `other` is zero.
    pub fn divided_by(&self, other: &Int) -> Result<Int, Error> {
        match (self, other) {
            (_, Int::Known(0)) => Err(Error::DivisionByZero),
            (Int::Known(a), Int::Known(b)) => floor_divide(*a, *b).map(Int::Known).ok_or(Error::Overflow),
            (Int::Known(0), _) => Ok(Int::ZERO),
            (value, Int::Known(1)) => Ok(value.clone()),
            (a, b) if a == b => Ok(Int::ONE),
            (Int::Device(expression), _) => match (&**expression, other) {
                (Expression::Operation(Operator::Multiply, Int::Known(a), right), Int::Known(b))
                    if *b > 0 && a % b == 0 =>
                {
                    Int::Known(a / b).times(right)
                }
                (Expression::Operation(Operator::Multiply, left, right), _) if left == other => {
                    Ok(right.clone())
                }
                (Expression::Operation(Operator::Multiply, left, right), _) if right == other => {
                    Ok(left.clone())
                }
                (Expression::Operation(Operator::Divide, left, Int::Known(a)), Int::Known(b)) => {
                    left.divided_by(&Int::Known(a.checked_mul(*b).ok_or(Error::Overflow)?))
                }
                _ => Ok(Int::operation(Operator::Divide, self, other)),
            },
            _ => Ok(Int::operation(Operator::Divide, self, other)),
        }
    }

    /// `self % other`, with the sign of `other`; an error if `other` is zero.
    pub fn modulo(&self, other: &Int) -> Result<Int, Error> {
        match (self, other) {
            (_, Int::Known(0)) => Err(Error::DivisionByZero),
            (Int::Known(a), Int::Known(b)) => {
                let quotient = floor_divide(*a, *b).ok_or(Error::Overflow)?;
                Ok(Int::Known(a - quotient * b))
            }
            _ if self.divisible_by(other) == Some(true) => Ok(Int::ZERO),
            _ => Ok(Int::operation(Operator::Remainder, self, other)),
        }
    }

    /// `self / other`, rounded up, for a positive `other`.
    ///
    /// ```
    /// use warpwright_layout::Int;
    /// assert_eq!(Int::from(10).ceil_divided_by(&Int::from(4)).unwrap(), Int::from(3));
    /// assert_eq!(Int::device(0, "m").ceil_divided_by(&Int::from(128)).unwrap().to_string(), "(m+127)/128");
    /// ```
    pub fn ceil_divided_by(&self, other: &Int) -> Result<Int, Error> {
        if self.divisible_by(other) == Some(true) {
            return self.divided_by(other);
        }
        self.plus(&other.minus(&Int::ONE)?)?.divided_by(other)
    }

    /// The smaller of the two.
    pub fn minimum(&self, other: &Int) -> Int {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => Int::Known(*a.min(b)),
            (a, b) if a == b => a.clone(),
            _ => Int::operation(Operator::Minimum, self, other),
        }
    }

    /// Evaluates the expression bottom-up over another type: lowers it to instructions, or
    /// substitutes values for variables.
    ///
    /// ```
    /// use warpwright_layout::{Int, Operator};
    /// let size = Int::device(7, "n") * 4 + 2;
    /// let value = size.fold(
    ///     &mut |known| known,
    ///     &mut |variable| { assert_eq!(variable.id, 7); 10 },
    ///     &mut |operator, a, b| match operator {
    ///         Operator::Add => a + b,
    ///         Operator::Multiply => a * b,
    ///         _ => unreachable!(),
    ///     },
    /// );
    /// assert_eq!(value, 42);
    /// ```
    pub fn fold<T>(
        &self,
        known: &mut impl FnMut(i64) -> T,
        variable: &mut impl FnMut(&Variable) -> T,
        operation: &mut impl FnMut(Operator, T, T) -> T,
    ) -> T {
        match self {
            Int::Known(value) => known(*value),
            Int::Device(expression) => match &**expression {
                Expression::Variable(leaf) => variable(leaf),
                Expression::Operation(operator, left, right) => {
                    let left = left.fold(known, variable, operation);
                    let right = right.fold(known, variable, operation);
                    operation(*operator, left, right)
                }
            },
        }
    }

    /// The value once every variable has one; `None` on overflow, division by zero, or a variable
    /// without a value.
    pub fn evaluate(&self, value_of: &mut impl FnMut(&Variable) -> Option<i64>) -> Option<i64> {
        self.fold(&mut Some, &mut |variable| value_of(variable), &mut |operator, a, b| {
            let (a, b) = (a?, b?);
            match operator {
                Operator::Add => a.checked_add(b),
                Operator::Subtract => a.checked_sub(b),
                Operator::Multiply => a.checked_mul(b),
                Operator::Divide => floor_divide(a, b),
                Operator::Remainder => Some(a - floor_divide(a, b)? * b),
                Operator::Minimum => Some(a.min(b)),
            }
        })
    }

    fn operation(operator: Operator, left: &Int, right: &Int) -> Int {
        Int::Device(Arc::new(Expression::Operation(operator, left.clone(), right.clone())))
    }

    fn write_operand(&self, f: &mut fmt::Formatter<'_>, parenthesise: &[Operator]) -> fmt::Result {
        match self {
            Int::Device(expression) => match &**expression {
                Expression::Operation(operator, ..) if parenthesise.contains(operator) => {
                    write!(f, "({self})")
                }
                _ => write!(f, "{self}"),
            },
            Int::Known(_) => write!(f, "{self}"),
        }
    }
}

/// `a / b` rounded towards minus infinity; `None` on overflow or a zero divisor.
pub(crate) fn floor_divide(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// The greatest common divisor; `gcd(0, n)` is `n`.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl fmt::Display for Int {
    /// `128` by default; `{:#}` marks static integers as CuTe does (`_128`). Device values print
    /// their name in both forms.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Operator::*;
        match self {
            Int::Known(value) if f.alternate() => write!(f, "_{value}"),
            Int::Known(value) => write!(f, "{value}"),
            Int::Device(expression) => match &**expression {
                Expression::Variable(variable) => f.write_str(&variable.name),
                Expression::Operation(Minimum, left, right) => write!(f, "min({left:},{right:})"),
                Expression::Operation(Add, left, Int::Known(negative)) if *negative < 0 => {
                    write!(f, "{left:}{negative}")
                }
                Expression::Operation(operator, left, right) => {
                    let (symbol, left_needs, right_needs): (_, &[Operator], &[Operator]) = match operator {
                        Add => ("+", &[], &[]),
                        Subtract => ("-", &[], &[Add, Subtract]),
                        Multiply => ("*", &[Add, Subtract], &[Add, Subtract, Divide, Remainder]),
                        Divide => ("/", &[Add, Subtract], &[Add, Subtract, Multiply, Divide, Remainder]),
                        _ => ("%", &[Add, Subtract], &[Add, Subtract, Multiply, Divide, Remainder]),
                    };
                    left.write_operand(f, left_needs)?;
                    f.write_str(symbol)?;
                    right.write_operand(f, right_needs)
                }
            },
        }
    }
}

impl PartialEq<i64> for Int {
    fn eq(&self, other: &i64) -> bool {
        self.is(*other)
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Int {
            fn from(value: $integer) -> Int {
                Int::Known(i64::from(value))
            }
        }
    )*};
}
from_integer!(i8, i16, i32, i64, u8, u16, u32);

impl From<usize> for Int {
    fn from(value: usize) -> Int {
        Int::Known(i64::try_from(value).expect("an extent is below 2^63"))
    }
}

impl From<&Int> for Int {
    fn from(value: &Int) -> Int {
        value.clone()
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $checked:ident, $what:literal) => {
        impl<T: Into<Int>> $trait<T> for Int {
            type Output = Int;
            fn $method(self, other: T) -> Int {
                self.$checked(&other.into()).expect($what)
            }
        }
        impl<T: Into<Int>> $trait<T> for &Int {
            type Output = Int;
            fn $method(self, other: T) -> Int {
                self.$checked(&other.into()).expect($what)
            }
        }
    };
}
operator!(Add, add, plus, "attempt to add with overflow");
operator!(Sub, sub, minus, "attempt to subtract with overflow");
operator!(Mul, mul, times, "attempt to multiply with overflow");
operator!(Div, div, divided_by, "attempt to divide by zero");
operator!(Rem, rem, modulo, "attempt to calculate the remainder with a divisor of zero");

#[cfg(test)]
mod tests {
    use super::*;

    fn n() -> Int {
        Int::device(0, "n")
    }

    #[test]
    fn known_arithmetic_rounds_down() {
        assert_eq!(Int::from(-7) / 2, Int::from(-4));
        assert_eq!(Int::from(-7) % 2, Int::from(1));
        assert_eq!(Int::from(7) % -2, Int::from(-1));
    }

    #[test]
    fn overflow_and_zero_division_are_errors() {
        assert_eq!(Int::from(i64::MAX).plus(&Int::ONE), Err(Error::Overflow));
        assert_eq!(Int::from(i64::MIN).divided_by(&Int::from(-1)), Err(Error::Overflow));
        assert_eq!(Int::from(1).modulo(&Int::ZERO), Err(Error::DivisionByZero));
        assert_eq!(n().divided_by(&Int::ZERO), Err(Error::DivisionByZero));
    }

    #[test]
    fn device_expressions_simplify() {
        assert_eq!(n() * Int::ZERO, Int::ZERO);
        assert_eq!(n() * 4 * 2, n() * 8);
        assert_eq!((n() * 8) / 4, n() * 2);
        assert_eq!((n() * 8) % 4, Int::ZERO);
        assert_eq!(n() + 3 + 4, n() + 7);
        assert_eq!(n() / 4 / 8, n() / 32);
        assert_eq!(n() - n(), Int::ZERO);
        assert_eq!(n() + 3 - 3, n());
    }

    #[test]
    fn printing_keeps_precedence() {
        assert_eq!(((n() + 1) * (n() % 4)).to_string(), "(n+1)*(n%4)");
        assert_eq!((n() * 2 / 3).to_string(), "2*n/3");
        assert_eq!((n() / (n() * 2)).to_string(), "n/(2*n)");
        assert_eq!((n() - 1).to_string(), "n-1");
        assert_eq!(format!("{:#}", Int::from(4)), "_4");
        assert_eq!(format!("{:#}", n()), "n");
    }

    /// Every simplification is the identity: the simplified expression and plain arithmetic agree.
    #[test]
    fn simplification_preserves_value() {
        let constants = [1i64, 2, 3, 4, 8, 12];
        for value in 0..40 {
            let at = |i: &Int| i.evaluate(&mut |_| Some(value)).unwrap();
            for a in constants {
                for b in constants {
                    assert_eq!(at(&((n() * a) / b)), (value * a) / b);
                    assert_eq!(at(&((n() * a) % b)), (value * a) % b);
                    assert_eq!(at(&((n() / a) / b)), (value / a) / b);
                    assert_eq!(at(&((n() + a) - b)), value + a - b);
                    assert_eq!(at(&((n() * a) * b)), value * a * b);
                    assert_eq!(at(&n().ceil_divided_by(&Int::from(a)).unwrap()), (value + a - 1) / a);
                }
            }
        }
    }
}
