//! Block-scaled operands: 8, 6 or 4 bits with a scale for every 16 or 32 elements along k, which
//! Blackwell's tensor cores apply: MXFP8, MXFP6, MXFP4 and NVFP4.
//!
//! ```text
//! format    element        block   scale          two operands
//! MXFP8     e4m3 or e5m2   32      ue8m0, 2^x     any of MXFP8 and MXFP6
//! MXFP6     e2m3 or e3m2   32      ue8m0          any of MXFP8 and MXFP6
//! MXFP4     e2m1           32      ue8m0
//! NVFP4     e2m1           16      e4m3, >= 0     and a scale of the tensor: the epilogue's alpha
//! ```
//!
//! Elements are (rows, k), k contiguous, without gaps between them, the first in the lowest bits of
//! the first byte. Rows are padded with zeros to multiples of 32 elements, those of 6 bits to
//! multiples of 128, which TMA unpacks at once. Scales are in the layout of cuBLASLt
//! (`CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0`, `.._VEC16_UE4M3`): tiles of 128 rows and four
//! blocks are 512 bytes, those of one row of tiles after another.
//!
//! ```text
//! row of a tile      0 32 64 96    1 33 65 97  ..  31 63 95 127
//! bytes              4  4  4  4    4  4  4  4       4  4  4  4      4: the scales of four blocks of a row
//! ```

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::arch::DataType;
use warpwright::lang::tensor::SCALE_BYTES;
use warpwright::runtime::Buffer;

use super::error::GemmError;
use super::operands::{OperandArgument, OperandBuffer, OperandScales};
use super::scales::{SCALE_TILE, ScaleFactors, Scaling};

/// Rows have a multiple of this many elements, zeros behind the last: they are multiples of 16
/// bytes.
const ROW: u32 = 32;

/// The same of elements of 6 bits: TMA unpacks 128 at once.
const UNPACKED_ROW: u32 = 128;

/// The k that is multiplied of rows of `k` elements: the zeros behind the last are elements, too.
pub(crate) fn padded_k(k: u32) -> u32 {
    k.next_multiple_of(ROW)
}

/// Elements of a row of `k` elements in memory, its padding included.
pub(crate) fn row_elements(k: u32, data_type: DataType) -> u32 {
    k.next_multiple_of(if data_type.bits() == 6 { UNPACKED_ROW } else { ROW })
}

/// A format of elements and scales.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum BlockScaledFormat {
    /// MXFP8 of e4m3.
    #[default]
    #[strum(serialize = "mxfp8")]
    Mxfp8E4m3,
    /// MXFP8 of e5m2.
    #[strum(serialize = "mxfp8-e5m2")]
    Mxfp8E5m2,
    /// MXFP6 of e2m3.
    #[strum(serialize = "mxfp6")]
    Mxfp6E2m3,
    /// MXFP6 of e3m2.
    #[strum(serialize = "mxfp6-e3m2")]
    Mxfp6E3m2,
    /// MXFP4.
    Mxfp4,
    /// NVFP4.
    Nvfp4,
}

impl BlockScaledFormat {
    /// The type of the elements.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Mxfp8E4m3 => DataType::E4m3,
            Self::Mxfp8E5m2 => DataType::E5m2,
            Self::Mxfp6E2m3 => DataType::E2m3,
            Self::Mxfp6E3m2 => DataType::E3m2,
            Self::Mxfp4 | Self::Nvfp4 => DataType::E2m1,
        }
    }

    /// The name, as messages have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mxfp8E4m3 => "MXFP8",
            Self::Mxfp8E5m2 => "MXFP8 (e5m2)",
            Self::Mxfp6E2m3 => "MXFP6",
            Self::Mxfp6E3m2 => "MXFP6 (e3m2)",
            Self::Mxfp4 => "MXFP4",
            Self::Nvfp4 => "NVFP4",
        }
    }

    /// The scales.
    pub fn scales(self) -> ScaleFactors {
        match self {
            Self::Nvfp4 => ScaleFactors::Vec16Ue4m3,
            _ => ScaleFactors::Vec32Ue8m0,
        }
    }

    /// Bytes of the elements of a matrix (rows, k).
    pub fn value_bytes(self, (rows, k): (u32, u32)) -> usize {
        rows as usize * self.row_bytes(k) as usize
    }

    /// Elements of a row, its padding included.
    pub fn row_elements(self, k: u32) -> u32 {
        row_elements(k, self.data_type())
    }

    /// Bytes of a row.
    pub fn row_bytes(self, k: u32) -> u32 {
        self.row_elements(k) / 8 * self.data_type().bits()
    }

    /// Bytes of the scales of a matrix (rows, k), padding included.
    ///
    /// ```
    /// use warpwright_kernels::gemm::problem::block_scaled::BlockScaledFormat;
    ///
    /// assert_eq!(BlockScaledFormat::Mxfp8E4m3.scale_bytes((130, 160)), 2 * 2 * 512);
    /// assert_eq!(BlockScaledFormat::Nvfp4.scale_bytes((128, 64)), 512);
    /// ```
    pub fn scale_bytes(self, (rows, k): (u32, u32)) -> usize {
        rows.div_ceil(SCALE_TILE.0) as usize * self.scales().tiles(k) as usize * SCALE_BYTES as usize
    }

    /// The index of the scale of a row and a block along k, in a matrix of that k.
    pub fn scale_index(self, (row, block): (u32, u32), k: u32) -> usize {
        let tiles_above = (row / SCALE_TILE.0) as usize * self.scales().tiles(k) as usize;
        let tile = tiles_above + (block / SCALE_TILE.1) as usize;
        let row = row % SCALE_TILE.0;
        tile * SCALE_BYTES as usize + (row % 32 * 16 + row / 32 * 4 + block % SCALE_TILE.1) as usize
    }

    /// How the tensor cores scale an A of this format and a B of another, if they multiply the two.
    pub(crate) fn scaling(self, b: Self) -> Result<Scaling, GemmError> {
        let is_packed = |format: Self| format.data_type().bits() == 4;
        if self.scales() != b.scales() || is_packed(self) != is_packed(b) {
            return Err(GemmError::BlockScaledFormats { a: self.name(), b: b.name() });
        }
        Ok(Scaling::BlockScaled(self.scales()))
    }
}

/// A block-scaled operand on a device, as [`Operations::gemm`](crate::operations::Operations::gemm)
/// takes it.
#[derive(Clone, Copy)]
pub struct BlockScaled<'a> {
    /// The format.
    pub format: BlockScaledFormat,
    /// The elements: [`BlockScaledFormat::value_bytes`].
    pub values: &'a Buffer<u8>,
    /// The scales: [`BlockScaledFormat::scale_bytes`]. Those of rows and blocks outside the matrix are
    /// finite, such as the zeros that [`quantize`](crate::operations::Operations::quantize) writes.
    pub scales: &'a Buffer<u8>,
}

impl OperandArgument for BlockScaled<'_> {
    type Element = u8;
    type Scales = BlockScaledFormat;

    fn operand(&self) -> OperandBuffer<'_> {
        let scales = OperandScales::BlockScaled(self.format);
        let data_type = self.format.data_type();
        OperandBuffer { data_type, values: self.values, scales: Some((scales, self.scales)) }
    }
}

#[cfg(test)]
mod tests {
    use warpwright::layout::atom::scale_tile;

    use super::*;

    /// Every scale has a byte of its own, within a tile the one of the layout that `tcgen05.cp`
    /// copies.
    #[test]
    fn scales_are_where_the_tensor_cores_read_them() {
        for format in [
            BlockScaledFormat::Mxfp8E4m3,
            BlockScaledFormat::Mxfp6E2m3,
            BlockScaledFormat::Mxfp4,
            BlockScaledFormat::Nvfp4,
        ] {
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
