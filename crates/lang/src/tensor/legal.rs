//! Results of the layout algebra; an error becomes a build error at the author's line.

use warpwright_layout::{Error, Int};

use crate::operation::refuse;

/// The value of a layout operation. An error becomes a build error at the author's line, and
/// `otherwise` is returned instead.
#[track_caller]
pub(super) fn legal<T>(result: Result<T, Error>, otherwise: impl FnOnce() -> T) -> T {
    // No closure: it would stand between the author and `refuse`.
    match result {
        Ok(value) => value,
        Err(error) => {
            refuse(error.to_string());
            otherwise()
        }
    }
}

/// [`legal`], with the name of the operation in the message.
#[track_caller]
pub(super) fn legal_in<T>(operation: &str, result: Result<T, Error>, otherwise: impl FnOnce() -> T) -> T {
    match result {
        Ok(value) => value,
        Err(error) => {
            refuse(format!("`{operation}`: {error}"));
            otherwise()
        }
    }
}

/// A size that must be known when the kernel is built.
#[track_caller]
pub(super) fn known(size: Result<Int, Error>, what: &'static str) -> i64 {
    legal(size.and_then(|size| size.require(what, "the kernel is unrolled over it")), || 0)
}
