//! What the operations of a pass launch, move and compute.

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
