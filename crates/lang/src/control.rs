//! Stopping, waiting, printing and assertions.

use warpwright_ir::{Operand, RegisterClass, Statement};

use crate::element::{Element, Kind};
use crate::operation::{compute, here, on_behalf_of_author, perform, refuse};
use crate::recorder;
use crate::value::{Reg, Value};

/// Ends the kernel with an error.
#[track_caller]
pub fn trap() {
    perform("trap", []);
}

/// Stops in the debugger, if there is one.
#[track_caller]
pub fn breakpoint() {
    perform("brkpt", []);
}

/// Ends this thread.
#[track_caller]
pub fn exit() {
    perform("exit", []);
}

/// Counts the performance event `number`, 0 to 15, which profilers read.
#[track_caller]
pub fn performance_event(number: u32) {
    if number > 15 {
        refuse(format!("the performance events are numbered 0 to 15; this one is {number}"));
    }
    perform("pmevent", [Operand::Integer(number.into())]);
}

/// Suspends the thread for about `nanoseconds`, at most a millisecond.
#[track_caller]
pub fn nanosleep(nanoseconds: impl Value<u32>) {
    perform("nanosleep.u32", [nanoseconds.operand()]);
}

/// Repeats `test` until it is true: a minimal polling loop. `test` is called once, to record it.
///
/// ```
/// use warpwright_lang::access::{Access, Ordering, Scope};
/// use warpwright_lang::pointer::Global;
/// use warpwright_lang::{control::wait_until, kernel};
///
/// #[kernel]
/// fn wait_for_flag(flag: &Global<u32>) {
///     let acquire = Access::new().ordered(Ordering::Acquire(Scope::Device));
///     wait_until(|| flag.load_with(acquire) == 1);
/// }
/// assert!(wait_for_flag().is_ok());
/// ```
#[track_caller]
pub fn wait_until(test: impl FnOnce() -> Reg<bool>) {
    let location = here();
    let label = recorder::with(|recorder| {
        let region = recorder.reserve_region(location);
        recorder.open_loop(region, true, location)
    });
    let ends = on_behalf_of_author(test);
    recorder::with(|recorder| {
        recorder.open_then(ends.register(), location);
        recorder.leave(Some(label), Statement::Break(label, location));
        recorder.close_if();
        recorder.close_loop();
    });
}

/// Stops the kernel with `message` at this line unless `condition` holds.
///
/// It is C's `assert` in device code: a GPU's driver prints the message, the line, the block and the thread
/// to standard error, and the launch returns an error; the emulator's error says the same.
#[track_caller]
pub fn device_assert(condition: impl Value<bool>, message: &str) {
    let location = here();
    let condition = condition.reg().register();
    let message = message.to_owned();
    recorder::with(|recorder| recorder.push(Statement::Assert { condition, message, location }));
}

/// A value that [`print()`] accepts, promoted as in C.
pub trait Printable {
    /// The register of the promoted value, and whether it prints as a double.
    #[track_caller]
    fn promoted(&self) -> (warpwright_ir::Register, bool);
}

impl<T: Element> Printable for Reg<T> {
    #[track_caller]
    fn promoted(&self) -> (warpwright_ir::Register, bool) {
        match (T::KIND, T::CLASS) {
            (Kind::Boolean, _) => (Reg::<bool>::from_register(self.register()).to_u32().register(), false),
            (Kind::Float, _) if T::BYTES == 8 => (self.register(), true),
            (Kind::Float, _) => {
                let single = match T::PTX {
                    "f16" | "bf16" => crate::arithmetic::widen_half(T::PTX, Reg::operand(*self)),
                    _ => Reg::from_register(self.register()),
                };
                (compute::<f64, 1>("cvt.f64.f32", [single.operand()]).register(), true)
            }
            (kind, RegisterClass::B16) => {
                let word = if kind == Kind::Signed { "cvt.s32.s16" } else { "cvt.u32.u16" };
                (compute::<u32, 1>(word, [Reg::operand(*self)]).register(), false)
            }
            _ => (self.register(), false),
        }
    }
}

/// Prints from the device, as C's `printf`: `print("row %u is %f\n", &[&row, &value])`.
#[track_caller]
pub fn print(format: &str, arguments: &[&dyn Printable]) {
    let location = here();
    let promote = || arguments.iter().map(|argument| argument.promoted()).collect();
    let arguments = on_behalf_of_author(promote);
    let format = format.to_owned();
    recorder::with(|recorder| recorder.push(Statement::Print { format, arguments, location }));
}

/// Prints from the device, as C's `printf`: `printf!("row %u is %f\n", row, value)`.
#[macro_export]
macro_rules! printf {
    ($format:expr $(, $argument:expr)* $(,)?) => {
        $crate::control::print($format, &[$(&$argument),*])
    };
}
