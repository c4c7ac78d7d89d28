//! What the lessons refuse.

/// A shape or a type that a lesson's kernel cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LessonError {
    /// TMA reads and writes rows that begin at multiples of 16 bytes. (CUDA driver API,
    /// `cuTensorMapEncodeTiled`: `globalStrides`.)
    #[error(
        "rows of {matrix} are {extent} elements of {element_bytes} bytes, and the tensor memory accelerator takes rows that begin at \
         multiples of 16 bytes: make --{option} a multiple of {}", 16 / element_bytes
    )]
    RowsOf16Bytes {
        /// The matrix.
        matrix: &'static str,
        /// The option that sets its contiguous extent.
        option: &'static str,
        /// That extent.
        extent: u32,
        /// Bytes of an element.
        element_bytes: u32,
    },
    /// `stmatrix` stores pairs of 16-bit elements.
    #[error(
        "step {step} writes C by stmatrix, which stores 16-bit elements: choose --output bf16, or a step before tma-store"
    )]
    StoresPairs {
        /// The step.
        step: String,
    },
    /// The launch numbers tiles with 31 bits.
    #[error("C has {tiles} tiles of {} x {}, and a grid at most 2147483647 CTAs: make --m or --n smaller", tile.0, tile.1)]
    TooManyTiles {
        /// Tiles of C.
        tiles: u64,
        /// The tile.
        tile: (u32, u32),
    },
}
