//! What device values cannot do outside of `#[device]` functions: `impl`s that never apply.
//!
//! rustc reports the unmet bound. For the message to be that of the bound's trait, the trait is one
//! of the element type: a bound of the device value itself is reported as one of `PartialEq` or
//! `Display`.

use std::cmp::Ordering;
use std::fmt;

use crate::value::Reg;

/// Operands that compare: in plain functions, no device value and `R`.
#[diagnostic::on_unimplemented(
    message = "device values are compared in `#[device]` functions, and this is a plain function",
    label = "add `#[device]` to the function around this",
    note = "the arguments of macros are not rewritten: in a `#[kernel]` or `#[device]` function, compare before the macro"
)]
pub trait Compared<R: ?Sized> {}

/// A device value in a plain function.
pub struct InPlainFunctions<V>(V);

/// Elements whose device values the host prints: none.
#[diagnostic::on_unimplemented(
    message = "`println!` and `format!` do not exist on the device, and this is a `Reg<{Self}>`",
    label = "its value exists only on the device: print it by `printf!(\"%u\\n\", x)`",
    note = "they print what is known when the kernel is built"
)]
pub trait PrintedByTheHost {}

/// A type that no caller uses.
pub enum Nothing {}

/// Another type that no caller uses. While the right side of a comparison is unknown, two `impl`s
/// keep the operator applicable; with none, rustc reports the operator and not the bound.
pub enum Nobody {}

#[diagnostic::do_not_recommend]
impl<V> Compared<Nothing> for InPlainFunctions<V> {}
#[diagnostic::do_not_recommend]
impl<V> Compared<Nobody> for InPlainFunctions<V> {}
#[diagnostic::do_not_recommend]
impl PrintedByTheHost for Nothing {}

impl<T, R> PartialEq<R> for Reg<T>
where
    InPlainFunctions<Self>: Compared<R>,
{
    fn eq(&self, _: &R) -> bool {
        unreachable!("no device value is compared by the host")
    }
}

impl<T, R> PartialOrd<R> for Reg<T>
where
    InPlainFunctions<Self>: Compared<R>,
{
    fn partial_cmp(&self, _: &R) -> Option<Ordering> {
        unreachable!("no device value is compared by the host")
    }
}

impl<T: PrintedByTheHost> fmt::Display for Reg<T> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        unreachable!("no device value is printed by the host")
    }
}

impl<T: PrintedByTheHost> fmt::Debug for Reg<T> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        unreachable!("no device value is printed by the host")
    }
}
