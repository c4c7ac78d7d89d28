//! Passes that make PTX small and emulation fast.
//!
//! The kernel language records every read of a mutable variable as a `mov`, and every assignment as
//! a computation into a temporary and a `mov` from it. These passes remove those copies. They do
//! not replace ptxas: they make the text readable and emulation fast. Registers are variables, not
//! SSA values, so each pass accounts for later writes of a register.

mod coalesce;
mod dead;
mod guard;
mod propagate;
mod simplify;

use crate::kernel::Kernel;

/// Rounds after which the passes stop even if they still find something: each round only shrinks
/// the kernel.
const ROUNDS: usize = 4;

/// Rewrites `kernel` to one that does the same with fewer instructions, registers and branches.
///
/// The kernel must be sound (see [`verify`](crate::verify())). It does the same memory accesses in
/// the same order, and every loop runs the same number of iterations.
pub fn optimize(kernel: &mut Kernel) {
    for _ in 0..ROUNDS {
        // Coalescing comes first: a temporary that copies are replaced by is mentioned too often to
        // go.
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
