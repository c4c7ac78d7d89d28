//! Why a GEMM is refused.

use warpwright::layout;

/// Why a GEMM is refused. Buffers of wrong lengths are an
/// [`OperationError`](crate::operations::OperationError) of their own.
#[derive(Debug, thiserror::Error)]
pub enum GemmError {
    /// The device has no kernel for the types.
    #[error(
        "{types} operands need wgmma (sm_90a) or tcgen05 (sm_100a, sm_103a), and the device is {target}: use bf16 or f16 operands"
    )]
    NoTmaInstruction {
        /// The types of A and B.
        types: String,
        /// The device's architecture.
        target: &'static str,
    },
    /// The device has no kernel for block scales.
    #[error(
        "block scales need wgmma (sm_90a), and the device is {target}: scale the operands before the GEMM"
    )]
    NoBlockScales {
        /// The device's architecture.
        target: &'static str,
    },
    /// An algorithm was named that cannot compute the problem.
    #[error("{algorithm} cannot compute this problem: {reason}")]
    Algorithm {
        /// The algorithm.
        algorithm: String,
        /// The rule it breaks.
        reason: String,
    },
    /// A tile has no layout in shared memory.
    #[error(transparent)]
    Tile(#[from] layout::Error),
    /// The matrices C of a batch overlap.
    #[error(
        "C matrices of {elements} elements are {stride} apart and overlap: set a C stride of at least {elements}"
    )]
    OverlappingC {
        /// Elements of one C.
        elements: u64,
        /// Elements from one C to the next.
        stride: u64,
    },
    /// An epilogue has no accumulators.
    #[error("k is 0, so the epilogue has no accumulators: pass k of at least 1")]
    NoDepth,
    /// Zeros would be written into the gaps between the matrices C.
    #[error("k is 0 and the C matrices have gaps: fill them with zeros instead")]
    NoDepthWithGaps,
    /// Offsets of groups along m that are none, or too many.
    #[error("{offsets} offsets: n groups along m have n + 1 offsets, and n is 0 to {max_groups}")]
    Offsets {
        /// The number of offsets.
        offsets: usize,
        /// The most groups of one launch.
        max_groups: usize,
    },
    /// Groups along m with a column-major A.
    #[error("groups along m need a row-major A: use `layouts(MatrixLayout::RowMajor, ..)`")]
    ColumnMajorGroups,
    /// A batch or groups along m as a member of a group.
    #[error("a member of a group is a single problem: pass batches and groups along m to `operations.gemm`")]
    SeveralInMember,
}
