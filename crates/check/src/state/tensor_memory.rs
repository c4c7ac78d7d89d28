//! The tensor memory of a CTA.

use crate::state::mark::Mark;
use crate::state::memory::SharedShadow;
use crate::state::shadow::Granule;

/// The granules of one CTA's tensor memory, and the columns that it has.
#[derive(Debug, Default)]
pub(crate) struct TensorShadow {
    pub(crate) granules: SharedShadow,
    /// The first column, the number of columns, and the allocation.
    pub(crate) held: Vec<(u32, u32, Mark)>,
}

impl TensorShadow {
    pub(crate) fn granule(&mut self, offset: u64) -> &mut Granule {
        self.granules.granule(offset)
    }
}
