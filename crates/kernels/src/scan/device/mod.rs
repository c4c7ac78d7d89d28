//! The kernel, and the parts it shares with selection and sorting.

pub mod look_back;
pub mod single_pass;
pub(crate) mod tile_pipeline;
pub mod warp;
