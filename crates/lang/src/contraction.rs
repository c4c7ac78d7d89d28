//! Contraction of floating-point expressions: `a * b + c` as one fused multiply-add.
//!
//! A product of two floats that only one sum or difference uses is contracted with it, as nvcc does
//! by default: one instruction, one rounding. The result is usually closer to the exact one, but it
//! may differ from Rust's on the host: `a * a - b * b` need not be 0 where `a` equals `b`.
//! [`strict`] forbids it for an expression, [`forbid_contraction`] for the rest of the kernel.

use crate::recorder;

/// Whether products and sums recorded now may be contracted.
#[track_caller]
pub(crate) fn contracts() -> bool {
    recorder::with(|recorder| recorder.contracts)
}

/// The value of `expression`, of which every operation is rounded as written:
/// `strict(|| a * b + c)`.
#[track_caller]
pub fn strict<R>(expression: impl FnOnce() -> R) -> R {
    let before = recorder::with(|recorder| std::mem::replace(&mut recorder.contracts, false));
    let value = expression();
    recorder::with(|recorder| recorder.contracts = before);
    value
}

/// From here on every operation of the kernel is rounded as written: nvcc's `-fmad=false`.
#[track_caller]
pub fn forbid_contraction() {
    recorder::with(|recorder| recorder.contracts = false);
}
