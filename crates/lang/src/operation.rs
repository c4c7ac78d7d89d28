//! Recording one instruction: the step between an operation of the language and the recorder.

use std::borrow::Cow;
use std::cell::Cell;
use std::panic;

use warpwright_ir::{Instruction, Location, Operand};

use crate::element::Element;
use crate::recorder;
use crate::reg::Reg;

thread_local! {
    /// The author's position while closures of an operation run: `#[track_caller]` does not reach
    /// into them.
    static AUTHOR: Cell<Option<Location>> = const { Cell::new(None) };
}

/// The author's position, as `#[track_caller]` hands it down.
#[track_caller]
pub(crate) fn here() -> Location {
    match AUTHOR.get() {
        Some(author) => author,
        None => Location::from(panic::Location::caller()),
    }
}

/// Runs an operation made of closures, whose instructions all belong to the author's position.
#[track_caller]
pub(crate) fn on_behalf_of_author<R>(operation: impl FnOnce() -> R) -> R {
    /// Puts the outer position back, also when the operation panics.
    struct Restore(Option<Location>);
    impl Drop for Restore {
        fn drop(&mut self) {
            AUTHOR.set(self.0);
        }
    }
    let location = here();
    let _restore = Restore(AUTHOR.replace(Some(location)));
    operation()
}

/// A fresh register, not yet written.
#[track_caller]
pub(crate) fn fresh<T: Element>() -> Reg<T> {
    Reg::from_register(recorder::with(|recorder| recorder.fresh(T::CLASS)))
}

/// Records an instruction that writes one fresh register.
#[track_caller]
pub(crate) fn compute<T: Element, const N: usize>(
    opcode: impl Into<Cow<'static, str>>,
    sources: [Operand; N],
) -> Reg<T> {
    let destination = fresh::<T>();
    compute_into(destination, opcode, sources);
    destination
}

/// Records an instruction that writes `destination`.
#[track_caller]
pub(crate) fn compute_into<T: Element, const N: usize>(
    destination: Reg<T>,
    opcode: impl Into<Cow<'static, str>>,
    sources: [Operand; N],
) {
    let mut operands = Vec::with_capacity(N + 1);
    operands.push(destination.operand());
    operands.extend(sources);
    record(opcode, 1, operands);
}

/// Records an instruction that writes no register.
#[track_caller]
pub(crate) fn perform<const N: usize>(opcode: impl Into<Cow<'static, str>>, operands: [Operand; N]) {
    record(opcode, 0, operands.into());
}

/// Records an instruction whose first `destinations` operands are written.
#[track_caller]
pub(crate) fn record(opcode: impl Into<Cow<'static, str>>, destinations: usize, operands: Vec<Operand>) {
    record_opcode(opcode.into(), destinations, operands);
}

#[track_caller]
fn record_opcode(opcode: Cow<'static, str>, destinations: usize, operands: Vec<Operand>) {
    let location = here();
    recorder::with(|recorder| recorder.emit(opcode, destinations, operands, location));
}

/// Records an instruction that only threads for which `condition` holds execute.
#[track_caller]
pub(crate) fn record_if(
    condition: Reg<bool>,
    opcode: impl Into<Cow<'static, str>>,
    destinations: usize,
    operands: Vec<Operand>,
) {
    let guarded = Instruction {
        guard: Some((condition.register(), true)),
        opcode: opcode.into(),
        destinations,
        operands,
        location: here(),
    };
    recorder::with(|recorder| recorder.emit_instruction(guarded));
}

/// Records a mistake at the author's position.
#[track_caller]
pub(crate) fn refuse(message: impl Into<String>) {
    let location = here();
    recorder::with(|recorder| recorder.error(location, message));
}
