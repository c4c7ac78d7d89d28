//! The order of a sort.

use warpwright_harness::OptionValue;

/// The order of a sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, OptionValue)]
pub enum Direction {
    /// The smallest key first.
    #[default]
    Ascending,
    /// The largest key first.
    Descending,
}
