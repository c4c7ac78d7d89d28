//! Passes that keep the emulator's work and the PTX small.
//!
//! The kernel language records every read of a mutable variable as a `mov`, and every assignment as a computation into
//! a temporary and a `mov` from it. These passes take that apart again. They are no substitute for ptxas: they do
//! what makes the text readable and the emulator fast. Registers are variables, not SSA values, so each pass says how it
//! minds that a register is written again.

mod coalesce;
mod dead;
mod guard;
mod propagate;
mod simplify;

use crate::kernel::Kernel;

/// Rounds after which the passes stop even if they still find something: each round only shrinks the kernel.
const ROUNDS: usize = 4;

/// Rewrites `kernel` to one that does the same with fewer instructions, registers and branches.
///
/// The kernel must be sound (see [`verify`](crate::verify())). It does the same memory accesses in the same order, and every
/// loop goes the same number of rounds.
pub fn optimize(kernel: &mut Kernel) {
    for _ in 0..ROUNDS {
        // Coalescing comes first: a temporary that copies are replaced by is mentioned too often to go.
        let coalesced = coalesce::run(kernel);
        let simplified = simplify::run(kernel);
        let propagated = propagate::run(kernel);
        let removed = dead::run(kernel);
        if !(propagated || simplified || coalesced || removed) {
            break;
        }
    }
    guard::run(kernel);
}
