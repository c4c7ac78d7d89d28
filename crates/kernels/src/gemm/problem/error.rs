//! Why a GEMM is refused.

use warpwright::layout;

/// Why a GEMM is refused. Buffers of wrong lengths are an
/// [`OperationError`](crate::operations::OperationError) of their own.
#[derive(Debug, thiserror::Error)]
pub enum GemmError {
    /// The device has no kernel for the types.
    #[error(
        "{types} operands need wgmma (sm_90a) or tcgen05 (sm_100a, sm_103a), 8-bit floats sm_89 or later, and the device is {target}: use bf16 or f16 operands"
    )]
    NoTmaInstruction {
        /// The types of A and B.
        types: String,
        /// The device's architecture.
        target: &'static str,
    },
    /// The device has no kernel for blockwise scales.
    #[error(
        "blockwise scales need the 8-bit floats of sm_89 and later, and the device is {target}: scale the operands before the GEMM"
    )]
    NoBlockwiseScales {
        /// The device's architecture.
        target: &'static str,
    },
    /// The device has no kernel for block-scaled operands.
    #[error(
        "MXFP8, MXFP6, MXFP4 and NVFP4 need tcgen05 (sm_100a, sm_103a) or mma.sync with scales (sm_120a), and the device is {target}: use 8-bit operands without scales, or with blockwise scales"
    )]
    NoBlockScaled {
        /// The device's architecture.
        target: &'static str,
    },
    /// A batch of block-scaled operands with gaps.
    #[error(
        "MXFP8, MXFP6, MXFP4 and NVFP4 operands of a batch have no gaps: remove `strides`, or share one operand"
    )]
    BlockScaledStrides,
    /// Block-scaled operands whose k is not contiguous.
    #[error("MXFP8, MXFP6, MXFP4 and NVFP4 need a contiguous k: use a row-major A and a column-major B")]
    BlockScaledLayouts,
    /// Block-scaled operands of groups, whose scales are not at multiples of 128 rows.
    #[error(
        "MXFP8, MXFP6, MXFP4 and NVFP4 have no groups along m, and no groups of unlike problems: use a batch, or a GEMM for each"
    )]
    BlockScaledGroups,
    /// Formats that do not multiply each other.
    #[error("{a} and {b} operands do not multiply: use MXFP8 or MXFP6 for both, or the same 4-bit format")]
    BlockScaledFormats {
        /// The format of A.
        a: &'static str,
        /// The format of B.
        b: &'static str,
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
    /// Columns that are no whole pairs of gates and values.
    #[error("a gated GEMM has {n} columns, but {of} at a time are gates and values: pad n to a multiple")]
    GatedColumns {
        /// Columns of A·B.
        n: u32,
        /// Columns of gates and their values.
        of: u32,
    },
    /// C, or a matrix with its layout, in the epilogue of a gated GEMM.
    #[error(
        "a gated GEMM stores half as many columns as its epilogue has: remove beta, and add in a kernel of its own"
    )]
    GatedSum,
    /// Several gated problems.
    #[error(
        "a gated GEMM is a single problem of operands without 1x16 and 1x32 scales: launch one for each problem, or gate in a kernel of its own"
    )]
    GatedBatch,
    /// A batch or groups along m as a member of a group.
    #[error("a member of a group is a single problem: pass batches and groups along m to `operations.gemm`")]
    SeveralInMember,
}
