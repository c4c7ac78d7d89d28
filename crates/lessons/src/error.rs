//! Problems that the lessons refuse.

/// A shape or a data type that a lesson's kernel does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LessonError {
    /// TMA requires row strides that are multiples of 16 bytes (CUDA driver API,
    /// `cuTensorMapEncodeTiled`: `globalStrides`).
    #[error(
        "rows of {matrix} are {extent} elements of {element_bytes} bytes, and TMA needs row strides that \
         are multiples of 16 bytes: make --{option} a multiple of {}", 16 / element_bytes
    )]
    RowsOf16Bytes {
        /// The matrix.
        matrix: &'static str,
        /// The option that sets its contiguous extent.
        option: &'static str,
        /// Its value.
        extent: u32,
        /// Bytes per element.
        element_bytes: u32,
    },
    /// `stmatrix` stores pairs of 16-bit elements.
    #[error(
        "step {step} stores C with stmatrix, which needs 16-bit elements: use --output bf16, or a step \
         before tma-store"
    )]
    StoresPairs {
        /// The step.
        step: String,
    },
    /// The kernels number tiles with 31 bits.
    #[error("C has {tiles} tiles of {} x {}, and a grid has at most 2147483647 CTAs: make --m or --n smaller", tile.0, tile.1)]
    TooManyTiles {
        /// Number of tiles of C.
        tiles: u64,
        /// Extents of a tile.
        tile: (u32, u32),
    },
    /// A step of the Blackwell ladder takes extents that are multiples of its vectors.
    #[error("step {step} {reason}: make --{option} a multiple of {multiple}; {extent} is not one")]
    NotMultiple {
        /// The step.
        step: String,
        /// What the kernel does with the extent.
        reason: &'static str,
        /// The option that sets the extent.
        option: &'static str,
        /// What it must be a multiple of.
        multiple: u32,
        /// Its value.
        extent: u32,
    },
}
