//! The status of a published word, which stands below the index of the launch.

/// The word has the aggregate of its tile.
pub(crate) const AGGREGATE: u32 = 1;
/// The word has the aggregate of its tile and all tiles before it.
pub(crate) const PREFIX: u32 = 2;
