//! Operands of 8 or 4 bits with a scale for every 16 or 32 elements along k, which Blackwell's
//! tensor cores apply: MXFP8, MXFP4 and NVFP4.
//!
//! ```text
//! format    element        block   scale          two operands
//! MXFP8     e4m3 or e5m2   32      ue8m0, 2^x     e4m3 and e5m2 may be mixed
//! MXFP4     e2m1           32      ue8m0
//! NVFP4     e2m1           16      e4m3, >= 0     and a scale of the tensor: the epilogue's alpha
//! ```
//!
//! Elements are (rows, k), k contiguous, two of 4 bits a byte, the first in its lower half; rows
//! are padded with zeros to multiples of 32 elements. Scales are in the layout of cuBLASLt
//! (`CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0`, `.._VEC16_UE4M3`): tiles of 128 rows and four
//! blocks are 512 bytes, those of one row of tiles after another.
//!
//! ```text
//! row of a tile      0 32 64 96    1 33 65 97  ..  31 63 95 127
//! bytes              4  4  4  4    4  4  4  4       4  4  4  4      4: the scales of four blocks of a row
//! ```

use warpwright::arch::DataType;
use warpwright::lang::tensor::{BlockScales as MmaScales, SCALE_BYTES};
use warpwright::runtime::Buffer;
use warpwright_harness::OptionValue;

/// Rows have a multiple of this many elements, zeros behind the last: they are multiples of 16
/// bytes.
const ROW: u32 = 32;

/// Rows of a tile of scales, and blocks along k.
pub(crate) const SCALE_TILE: (u32, u32) = (128, 4);

/// The scales of a narrow format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorScales {
    /// A power of two (ue8m0) for 32 elements.
    Vec32Ue8m0,
    /// A positive e4m3 for 16 elements.
    Vec16Ue4m3,
}

impl VectorScales {
    /// Elements along k that share a scale.
    pub fn block(self) -> u32 {
        self.mma().block
    }

    /// The scales as the MMA has them.
    pub(crate) fn mma(self) -> MmaScales {
        match self {
            Self::Vec32Ue8m0 => MmaScales::MX,
            Self::Vec16Ue4m3 => MmaScales::NVFP4,
        }
    }

    /// Tiles of scales along the k of `bytes` bytes of elements of `data_type`.
    pub(crate) fn tiles(self, bytes: u32, data_type: DataType) -> u32 {
        (u64::from(bytes) * 8).div_ceil(u64::from(data_type.bits() * self.block() * SCALE_TILE.1)) as u32
    }
}

/// A format of elements and scales.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, OptionValue)]
pub enum NarrowFormat {
    /// MXFP8 of e4m3.
    #[default]
    #[option(name = "mxfp8")]
    Mxfp8E4m3,
    /// MXFP8 of e5m2.
    #[option(name = "mxfp8-e5m2")]
    Mxfp8E5m2,
    /// MXFP4.
    Mxfp4,
    /// NVFP4.
    Nvfp4,
}

impl NarrowFormat {
    /// The type of the elements.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Mxfp8E4m3 => DataType::E4m3,
            Self::Mxfp8E5m2 => DataType::E5m2,
            Self::Mxfp4 | Self::Nvfp4 => DataType::E2m1,
        }
    }

    /// The name, as messages have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mxfp8E4m3 => "MXFP8",
            Self::Mxfp8E5m2 => "MXFP8 (e5m2)",
            Self::Mxfp4 => "MXFP4",
            Self::Nvfp4 => "NVFP4",
        }
    }

    /// The scales.
    pub fn scales(self) -> VectorScales {
        match self {
            Self::Mxfp8E4m3 | Self::Mxfp8E5m2 | Self::Mxfp4 => VectorScales::Vec32Ue8m0,
            Self::Nvfp4 => VectorScales::Vec16Ue4m3,
        }
    }

    /// Elements of a byte.
    pub fn per_byte(self) -> u32 {
        8 / self.data_type().bits()
    }

    /// Bytes of the elements of a matrix (rows, k).
    pub fn value_bytes(self, (rows, k): (u32, u32)) -> usize {
        rows as usize * self.row_bytes(k) as usize
    }

    /// Bytes of a row.
    pub fn row_bytes(self, k: u32) -> u32 {
        k.next_multiple_of(ROW) / self.per_byte()
    }

    /// Bytes of the scales of a matrix (rows, k), padding included.
    ///
    /// ```
    /// use warpwright_kernels::gemm::problem::narrow::NarrowFormat;
    ///
    /// assert_eq!(NarrowFormat::Mxfp8E4m3.scale_bytes((130, 160)), 2 * 2 * 512);
    /// assert_eq!(NarrowFormat::Nvfp4.scale_bytes((128, 64)), 512);
    /// ```
    pub fn scale_bytes(self, (rows, k): (u32, u32)) -> usize {
        rows.div_ceil(SCALE_TILE.0) as usize * self.scale_tiles(k) as usize * SCALE_BYTES as usize
    }

    /// Tiles of scales along k.
    fn scale_tiles(self, k: u32) -> u32 {
        k.div_ceil(self.scales().block() * SCALE_TILE.1)
    }

    /// The index of the scale of a row and a block along k, in a matrix of that k.
    pub fn scale_index(self, (row, block): (u32, u32), k: u32) -> usize {
        let tiles_above = (row / SCALE_TILE.0) as usize * self.scale_tiles(k) as usize;
        let tile = tiles_above + (block / SCALE_TILE.1) as usize;
        let row = row % SCALE_TILE.0;
        tile * SCALE_BYTES as usize + (row % 32 * 16 + row / 32 * 4 + block % SCALE_TILE.1) as usize
    }

    /// Whether the tensor cores multiply the two.
    pub(crate) fn multiplies(self, other: Self) -> bool {
        let (a, b) = (self.data_type(), other.data_type());
        self.scales() == other.scales() && a.bits() == b.bits()
    }
}

/// An operand of a narrow format on a device.
#[derive(Clone, Copy)]
pub struct Narrow<'a> {
    /// The format.
    pub format: NarrowFormat,
    /// The elements: [`NarrowFormat::value_bytes`].
    pub values: &'a Buffer<u8>,
    /// The scales: [`NarrowFormat::scale_bytes`]. Those of rows and blocks outside the matrix are
    /// finite, such as the zeros that [`quantize`](crate::operations::Operations::quantize) writes.
    pub scales: &'a Buffer<u8>,
}

#[cfg(test)]
mod tests {
    use warpwright::layout::atom::scale_tile;

    use super::*;

    /// Every scale has a byte of its own, within a tile the one of the layout that `tcgen05.cp`
    /// copies.
    #[test]
    fn scales_are_where_the_tensor_cores_read_them() {
        for format in [NarrowFormat::Mxfp8E4m3, NarrowFormat::Mxfp4, NarrowFormat::Nvfp4] {
            let (rows, k) = (259u32, 160);
            let block = format.scales().block();
            let tile = scale_tile(block.into()).expect("a tile");
            let mut seen = vec![false; format.scale_bytes((rows, k))];
            for (row, block_at) in (0..rows).flat_map(|row| (0..k / block).map(move |at| (row, at))) {
                let index = format.scale_index((row, block_at), k);
                assert!(
                    !std::mem::replace(&mut seen[index], true),
                    "{format:?}: row {row}, block {block_at}"
                );
                let within = (i64::from(row % 128), i64::from(block_at % 4 * block));
                let expected = tile.index(&within.into()).expect("inside").known();
                assert_eq!(Some(index as i64 % 512), expected);
            }
        }
    }
}
