//! Inclusive and exclusive scans.

use warpwright_harness::OptionValue;

/// Whether a result includes its own element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, OptionValue)]
pub enum ScanKind {
    /// The result includes the element.
    #[default]
    Inclusive,
    /// The result covers the elements before it.
    Exclusive,
}
