//! What the operations of a pass launch, move and compute.

use super::Pass;
use crate::number::Number;

/// An operation of a pass.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    pub(crate) operation: String,
    /// Launches of the pass up to the end of the operation.
    pub(crate) launches: usize,
    /// Bytes that it has to read and write.
    pub(crate) bytes: u64,
    /// Additions and multiplications.
    pub(crate) flops: u64,
}

impl<T: Number> Pass<'_, T> {
    /// Notes what was launched since the last note, if notes are kept.
    pub(super) fn note(&mut self, operation: &str, bytes: usize, flops: u64) {
        let launches = || self.operations.device().logged_launches();
        if let Some(costs) = &mut self.costs {
            let operation = operation.to_owned();
            costs.push(Cost { operation, launches: launches(), bytes: bytes as u64, flops });
        }
    }

    /// Notes the drawing of tokens from logits.
    pub(crate) fn note_sampling(&mut self, bytes_of_logits: usize) {
        self.note("sampling", bytes_of_logits, 0);
    }
}
