//! What goes wrong with a workload.

use std::error::Error;
use std::fmt;

/// The result of preparing, launching or verifying a workload. Any error will do if its message is
/// a sentence.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A rule that the options of a workload break on their own or on the device.
///
/// [`Workload::prepare`](crate::Workload::prepare) returns it, or a library's own typed error, so that a refusal is not taken
/// for a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(String);

impl Refused {
    /// The refusal for that reason, a sentence without its full stop.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Refused {}
