//! Function bodies, and `return`.

use warpwright_ir::{Label, Location, Statement};

use super::region::region;
use crate::device_value::{DeviceValue, Yields, registers, yielded};
use crate::operation::here;
use crate::recorder::{self, RegionId};

/// The body of a `#[device]` function or closure that returns early.
pub struct Function<V> {
    region: RegionId,
    label: Label,
    location: Location,
    /// The values of the returns under device-time conditions.
    returned: Option<V>,
    open: bool,
}

impl<V> Function<V> {
    /// Enters the body.
    #[track_caller]
    pub fn enter() -> Self {
        let location = here();
        recorder::with(|recorder| {
            let label = recorder.open_block(location);
            Self { region: recorder.region(), label, location, returned: None, open: true }
        })
    }

    /// Whether a `return` here is Rust's own.
    #[track_caller]
    pub fn returns_now(&self) -> bool {
        recorder::with(|recorder| recorder.may_leave_at_build_time(self.region))
    }

    #[track_caller]
    fn leave(&self) {
        let location = here();
        recorder::with(|recorder| recorder.leave(Some(self.label), Statement::Break(self.label, location)));
    }

    fn close(&mut self) {
        if self.open {
            self.open = false;
            recorder::with(|recorder| {
                if recorder.is_open_now(self.region) {
                    recorder.close_block();
                }
            });
        }
    }

    #[track_caller]
    fn nothing_returned(&self) -> ! {
        panic!("no path through the function at {} returns a value", self.location.line)
    }
}

/// The value of a `return`.
pub struct Returned<V>(pub V);

impl<V: DeviceValue> Returned<V> {
    /// Records the `return`.
    #[track_caller]
    pub fn record(self, frame: &mut Function<V>) {
        frame.note(self.0);
        frame.leave();
    }
}

/// The build-time value of a `return`.
pub trait BuildTimeReturned<V> {
    /// Refuses the `return`.
    fn record(self, frame: &mut Function<V>);
}

impl<V> BuildTimeReturned<V> for Returned<V> {
    #[track_caller]
    fn record(self, frame: &mut Function<V>) {
        let location = here();
        recorder::with(|recorder| {
            recorder.refuse_to_leave(
                frame.region,
                location,
                "this returns a build-time value on a device-time condition: return a device value, or \
                 decide at build time",
            );
        });
        frame.returned = Some(self.0);
    }
}

/// What a kernel returns: nothing.
#[diagnostic::on_unimplemented(
    message = "a kernel returns nothing, and this returns a `{Self}`",
    label = "a kernel writes its results through `&mut Global<T>` parameters"
)]
pub trait Nothing {}

impl Nothing for () {}

impl<V> Returned<V> {
    /// Records the `return` of a kernel.
    #[track_caller]
    pub fn record_in_kernel(self)
    where
        V: Nothing,
    {
        let location = here();
        recorder::with(|recorder| recorder.leave(None, Statement::Return(location)));
    }
}

impl<V: DeviceValue> Function<V> {
    /// A returned value: a literal becomes one of the function's type.
    #[track_caller]
    pub fn value<R: Yields<V>>(&self, value: R) -> V {
        yielded(value, here())
    }

    #[track_caller]
    fn note(&mut self, mut value: V) {
        let location = here();
        value.settle();
        match &mut self.returned {
            Some(returned) => {
                let same = returned.same_shape(&value);
                let results = registers(returned);
                recorder::with(|recorder| {
                    if !same {
                        recorder.error(location, "the returned values differ in what is known at build time");
                    }
                    for (result, now) in results.into_iter().zip(registers(&mut value)) {
                        recorder.assign(result, now, location);
                    }
                });
            }
            None => {
                let region = self.region;
                recorder::with(|recorder| {
                    value.visit_registers(&mut |register| {
                        *register = recorder.result_of(region, *register, location);
                    });
                });
                self.returned = Some(value);
            }
        }
    }

    /// Leaves the body; the function's value.
    #[track_caller]
    pub fn finish(mut self, value: Option<V>) -> V {
        match value {
            Some(value) if self.returned.is_none() => {
                self.close();
                return value;
            }
            Some(value) => self.note(value),
            None => {}
        }
        self.close();
        let Some(value) = self.returned.take() else { self.nothing_returned() };
        value
    }
}

impl<V> Drop for Function<V> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.close();
        }
    }
}

/// A body that returns a build-time value.
pub trait BuildTimeFunction<V>: Sized {
    /// A returned value.
    fn value(&self, value: V) -> V;
    /// Leaves the body; the function's value.
    fn finish(self, value: Option<V>) -> V;
}

impl<V> BuildTimeFunction<V> for Function<V> {
    fn value(&self, value: V) -> V {
        value
    }

    #[track_caller]
    fn finish(mut self, value: Option<V>) -> V {
        self.close();
        let Some(value) = value.or(self.returned.take()) else { self.nothing_returned() };
        value
    }
}

/// The body of a `#[kernel]` function.
pub struct KernelFrame {
    region: RegionId,
}

impl KernelFrame {
    /// Enters the body.
    #[track_caller]
    pub fn enter() -> Self {
        Self { region: region() }
    }

    /// Whether a `return` here is Rust's own.
    #[track_caller]
    pub fn returns_now(&self) -> bool {
        recorder::with(|recorder| recorder.may_leave_at_build_time(self.region))
    }
}
