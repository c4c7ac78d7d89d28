//! The scales of block-scaled MMAs.

use crate::{Error, Layout};

/// The scales of 128 rows of A (or columns of B) and four blocks along k, one byte each: (row,
/// element along k) to a byte of 512. Elements of a block have one scale.
///
/// In shared memory the bytes are contiguous. `tcgen05.cp.32x128b.warpx4` copies each 16 of them to
/// a row of tensor memory: byte `b` is in row `b / 16`, and in byte `b % 4` of column `b % 16 / 4`.
/// (PTX ISA, "Scale Factor A/B Layouts"; cuBLAS, "1D block scaling factors layout"; CuTe:
/// `Sm1xxBlockScaledBasicChunk`.)
///
/// ```
/// let nvfp4 = warpwright_layout::atom::scale_tile(16)?;
/// assert_eq!(nvfp4.to_string(), "((32,4),(16,4)):((16,4),(0,1))");
/// assert_eq!(nvfp4.index(&(33, 17).into())?.known(), Some(16 + 4 + 1));
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
///
/// # Errors
/// If `block`, the elements of a block, is not positive.
pub fn scale_tile(block: i64) -> Result<Layout, Error> {
    if block < 1 {
        return Err(Error::bad_argument("the elements of a block", block, "16 or 32"));
    }
    Layout::new(((32, 4), (block, 4)), ((16, 4), (0, 1)))
}
