//! Polynomials.

use crate::element::Float;
use crate::value::{Reg, Value};

/// `c[0] + c[1] x + c[2] x^2 + ...` by Horner's rule.
#[track_caller]
pub(super) fn polynomial<T: Float>(x: Reg<T>, coefficients: &[T]) -> Reg<T> {
    let (highest, lower) = coefficients.split_last().expect("a polynomial has coefficients");
    let Some((next, lower)) = lower.split_last() else { return highest.reg() };
    let start = x.mul_add(*highest, *next);
    lower.iter().rev().fold(start, |sum, coefficient| sum.mul_add(x, *coefficient))
}

/// Of two polynomials of the same degree, the first where `condition` holds: one evaluation with
/// selected coefficients.
#[track_caller]
pub(super) fn either_polynomial<T: Float>(condition: Reg<bool>, x: Reg<T>, yes: &[T], no: &[T]) -> Reg<T> {
    let mut selected = yes.iter().zip(no).rev().map(|(yes, no)| condition.select(*yes, *no));
    let highest = selected.next().expect("a polynomial has coefficients");
    selected.fold(highest, |sum, coefficient| sum.mul_add(x, coefficient))
}
