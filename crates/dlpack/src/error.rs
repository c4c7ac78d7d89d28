//! Why an operation was refused, or failed.

use warpwright::runtime;
use warpwright_kernels::operations::OperationError;

/// Why an operation was refused, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument is nothing that the operation takes.
    #[error("{operation}: {parameter} {reason}")]
    Argument {
        /// The operation.
        operation: &'static str,
        /// Its parameter.
        parameter: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// Arguments that do not belong together.
    #[error("{operation}: {reason}")]
    Arguments {
        /// The operation.
        operation: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The operation was refused, or failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The device was refused, or failed.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}
