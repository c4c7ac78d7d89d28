//! Mistakes found while a kernel is staged.

use warpwright_ir::Location;

/// A mistake found while a kernel was staged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location_text}: {message}", location_text = display_location(.location))]
pub struct StagingError {
    /// Where the author wrote it.
    pub location: Location,
    /// A sentence: what is wrong and what to do.
    pub message: String,
    /// Further positions that explain it, each with its remark.
    pub notes: Vec<(Location, String)>,
}

fn display_location(location: &Location) -> String {
    format!("{}:{}:{}", location.file, location.line, location.column)
}
