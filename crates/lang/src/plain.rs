//! What device values cannot do outside of `#[device]` functions: `impl`s that never apply.
//!
//! rustc names the unmet bound. The name of the trait and its documentation give the cause.

use std::cmp::Ordering;
use std::fmt;

use crate::value::Reg;

/// Comparing device values needs `#[device]`, or `#[kernel]`, on the function around it. With the
/// attribute `==`, `<`, `if`, loops and assignments on device values are recorded.
pub trait ComparedWithoutDeviceAttribute {}

impl<T, R> PartialEq<R> for Reg<T>
where
    Self: ComparedWithoutDeviceAttribute,
{
    fn eq(&self, _: &R) -> bool {
        unreachable!("no device value is compared by the host")
    }
}

impl<T, R> PartialOrd<R> for Reg<T>
where
    Self: ComparedWithoutDeviceAttribute,
{
    fn partial_cmp(&self, _: &R) -> Option<Ordering> {
        unreachable!("no device value is compared by the host")
    }
}

/// The host cannot print a device value, which exists only on the device. The device prints it:
/// `printf!("x is %u\n", x)`.
pub trait PrintedWithoutPrintf {}

// The compiler shows the head of each in its message: in one line.
#[rustfmt::skip]
impl<T> fmt::Display for Reg<T> where Self: PrintedWithoutPrintf {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        unreachable!("no device value is printed by the host")
    }
}

#[rustfmt::skip]
impl<T> fmt::Debug for Reg<T> where Self: PrintedWithoutPrintf {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        unreachable!("no device value is printed by the host")
    }
}
