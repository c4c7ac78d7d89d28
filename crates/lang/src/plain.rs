//! What device values cannot do outside of `#[device]` functions: `impl`s that never apply.
//!
//! rustc names the unmet bound. The name of the trait and its documentation give the cause.

use std::cmp::Ordering;
use std::fmt;

use crate::value::Reg;

/// Comparing device values needs `#[device]`, or `#[kernel]`, on the function around it. With the
/// attribute `==`, `<`, `if`, loops and assignments on device values are recorded.
#[diagnostic::on_unimplemented(
    message = "device values are compared in a function with the attribute `#[device]`",
    label = "this function has neither `#[device]` nor `#[kernel]`"
)]
pub trait TheFunctionNeedsTheDeviceAttribute {}

impl<T, R> PartialEq<R> for Reg<T>
where
    Self: TheFunctionNeedsTheDeviceAttribute,
{
    fn eq(&self, _: &R) -> bool {
        unreachable!("no device value is compared by the host")
    }
}

impl<T, R> PartialOrd<R> for Reg<T>
where
    Self: TheFunctionNeedsTheDeviceAttribute,
{
    fn partial_cmp(&self, _: &R) -> Option<Ordering> {
        unreachable!("no device value is compared by the host")
    }
}

/// The host cannot print a device value, which exists only on the device. The device prints it:
/// `printf!("x is %u\n", x)`.
#[diagnostic::on_unimplemented(
    message = "the host cannot print a `{Self}`: it exists only on the device",
    label = "print it on the device: `printf!(\"x is %u\\n\", x)`"
)]
pub trait DeviceValuesArePrintedByPrintf {}

// The compiler shows the head of each in its message: in one line.
#[rustfmt::skip]
impl<T> fmt::Display for Reg<T> where Self: DeviceValuesArePrintedByPrintf {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        unreachable!("no device value is printed by the host")
    }
}

#[rustfmt::skip]
impl<T> fmt::Debug for Reg<T> where Self: DeviceValuesArePrintedByPrintf {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        unreachable!("no device value is printed by the host")
    }
}
