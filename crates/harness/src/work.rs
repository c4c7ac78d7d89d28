//! What a launch must do.

/// The least that a launch must do, whatever the algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Arithmetic operations; a multiply-add counts as two.
    pub operations: f64,
    /// Bytes of global memory read or written.
    pub bytes: f64,
}
