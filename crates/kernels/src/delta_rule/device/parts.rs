//! Operands of products in one part or two: numbers rounded to bf16, and what that lost.
//!
//! x = h + l with h = bf16(x) and l = bf16(x - h), which is off by 2^-18 of x at most. A product of two such
//! numbers is h h' + h l' + l h'; l l' is left out, which is 2^-18 of it at most. Keys, queries and values are
//! bf16, and their only part is exact.

use warpwright::prelude::*;

use super::chunk::pair;
use crate::delta_rule::problem::Precision;
use crate::rows::RowElement;

/// What rounding lost of two numbers, rounded to bf16 itself.
#[track_caller]
pub(super) fn lost(numbers: [Reg<f32>; 2], rounded: Reg<u32>) -> Reg<u32> {
    let rounded = bf16::widen(rounded);
    pair(numbers[0] - rounded[0], numbers[1] - rounded[1])
}

/// Pairs of numbers in [`Precision::parts`]: rounded to bf16, then what that lost.
#[track_caller]
pub(super) fn parts<const N: usize>(precision: Precision, pairs: [[Reg<f32>; 2]; N]) -> Vec<[Reg<u32>; N]> {
    let rounded = pairs.map(|[low, high]| pair(low, high));
    match precision {
        Precision::Bf16 => vec![rounded],
        Precision::F32 => vec![rounded, std::array::from_fn(|at| lost(pairs[at], rounded[at]))],
    }
}

/// An accumulator (m, n) as operand A (m, k) with k = n: a thread has the same elements of both, in
/// the same order.
#[track_caller]
pub(super) fn round(to: &mut Fragment<bf16>, from: &Fragment<f32>) {
    for i in (0..from.len()).step_by(2) {
        to.set_word(i, pair(from.get(i), from.get(i + 1)));
    }
}

/// The same in parts, of an accumulator's elements by their index.
#[track_caller]
pub(super) fn split(to: &mut [Fragment<bf16>], from: impl Fn(u32) -> Reg<f32>) {
    for i in (0..to[0].len()).step_by(2) {
        let numbers = [from(i), from(i + 1)];
        let rounded = pair(numbers[0], numbers[1]);
        to[0].set_word(i, rounded);
        if let Some(to) = to.get_mut(1) {
            to.set_word(i, lost(numbers, rounded));
        }
    }
}

/// `sums` += a b of operands in parts, but for the product of two losses.
#[track_caller]
pub(super) fn multiply_parts(
    mma: &TiledMma,
    sums: &mut Fragment<f32>,
    a: &[Fragment<bf16>],
    b: &[MatrixOperand],
    stage: Reg<u32>,
) {
    let pairs = (0..a.len()).flat_map(|i| b.iter().take(a.len() - i).map(move |b| (&a[i], b)));
    for (a, b) in pairs {
        multiply(mma, sums, a, &b.slice((All, All, stage)), Accumulate::Yes);
    }
}
