//! `assert!` and `panic!`, which the host executes.

use std::panic;

use crate::element::Element;
use crate::operation::here;
use crate::recorder;
use crate::value::Reg;

/// A value that `assert!`, `assert_eq!` or `assert_ne!` looks at.
pub struct Asserted<V>(pub V);

/// A value that the host knows.
#[diagnostic::on_unimplemented(
    message = "`assert!` runs when the kernel is built, and this is a device value",
    label = "its value exists only on the device",
    note = "to check it there, use `device_assert(condition, \"message\")`"
)]
pub trait KnownToHost<By> {
    /// The value's type.
    type Value;
}

/// A type that no caller uses. rustc reports [`KnownToHost`]'s message only if the trait has some
/// `impl`.
pub struct Nothing;

#[diagnostic::do_not_recommend]
impl<T> KnownToHost<Nothing> for Reg<T> {
    type Value = T;
}

impl<T: Element> Asserted<Reg<T>> {
    /// There is no such value.
    pub fn value<By>(self) -> <Reg<T> as KnownToHost<By>>::Value
    where
        Reg<T>: KnownToHost<By>,
    {
        unreachable!("the host knows no device value")
    }
}

/// A value that the host asserts something of.
pub trait BuildTimeAsserted {
    /// The value's type.
    type Value;
    /// The value itself.
    fn value<By>(self) -> Self::Value;
}

impl<V> BuildTimeAsserted for Asserted<V> {
    type Value = V;
    fn value<By>(self) -> V {
        self.0
    }
}

/// Comes before a `panic!`: under a device-time condition it is refused, as the host executes it
/// whatever the device decides.
#[track_caller]
pub fn panics(name: &str) {
    let location = here();
    let message = format!(
        "`{name}` runs when the kernel is built, where both branches of a device-time `if` and the body of a \
         device-time loop run: to stop the kernel on the device, use `trap()` or `device_assert`"
    );
    if recorder::with(|recorder| recorder.refuse_under_condition(location, &message)) {
        panic::resume_unwind(Box::new(recorder::Refused));
    }
}
