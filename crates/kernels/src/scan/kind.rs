//! Inclusive and exclusive scans.

use warpwright_harness::OptionValue;

/// Whether a result includes its own element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, OptionValue)]
pub enum ScanKind {
    /// It does.
    #[default]
    Inclusive,
    /// It covers the elements before.
    Exclusive,
}
