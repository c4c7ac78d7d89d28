//! Operands of 8, 6 or 4 bits with a scale for every 16 or 32 elements along k, which Blackwell's
//! tensor cores apply: MXFP8, MXFP6, MXFP4 and NVFP4.
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
use warpwright::lang::tensor::{BlockScales as MmaScales, SCALE_BYTES, TmaTile};
use warpwright::layout::Error;
use warpwright::layout::atom::Major;
use warpwright::runtime::Buffer;

/// Rows have a multiple of this many elements, zeros behind the last: they are multiples of 16
/// bytes.
const ROW: u32 = 32;

/// The same of elements of 6 bits: TMA unpacks 128 at once.
const UNPACKED_ROW: u32 = 128;

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
}

/// How the tensor cores multiply two narrow operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VectorScaling {
    /// The type of A's elements.
    pub a: DataType,
    /// The type of B's elements.
    pub b: DataType,
    /// The scales of both.
    pub scales: VectorScales,
}

impl VectorScaling {
    /// Whether shared memory has two elements in a byte: those of 4 bits. Of 6 bits, it has one.
    fn is_packed(self) -> bool {
        (self.a, self.b) == (DataType::E2m1, DataType::E2m1)
    }

    /// Bytes of shared memory along k that a tile of scales is for.
    pub(crate) fn bytes_of_tile(self) -> u32 {
        let elements = self.scales.block() * SCALE_TILE.1;
        if self.is_packed() { elements / 2 } else { elements }
    }

    /// Tiles of scales along a k of `bytes` bytes of shared memory.
    pub(crate) fn tiles(self, bytes: u32) -> u32 {
        bytes.div_ceil(self.bytes_of_tile())
    }

    /// The extent along k of a row in global memory, for a k of `bytes` bytes of shared memory.
    pub(crate) fn row(self, bytes: u32, data_type: DataType) -> u32 {
        if self.is_packed() { bytes } else { padded_row(bytes, data_type) }
    }

    /// The tile of an operand, whose extent along k is in bytes.
    ///
    /// # Errors
    /// As [`TmaTile::new`].
    pub(crate) fn tile(self, shape: (u32, u32), data_type: DataType) -> Result<TmaTile, Error> {
        match data_type.bits() {
            0..8 if !self.is_packed() => TmaTile::unpacked(shape, data_type),
            _ => TmaTile::new::<u8>(shape, Major::K),
        }
    }
}

/// Elements of a row of `k` elements with its padding.
fn padded_row(k: u32, data_type: DataType) -> u32 {
    k.next_multiple_of(if data_type.bits() == 6 { UNPACKED_ROW } else { ROW })
}

/// A format of elements and scales.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum NarrowFormat {
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

impl NarrowFormat {
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
    pub fn scales(self) -> VectorScales {
        match self {
            Self::Nvfp4 => VectorScales::Vec16Ue4m3,
            _ => VectorScales::Vec32Ue8m0,
        }
    }

    /// Bytes of the elements of a matrix (rows, k).
    pub fn value_bytes(self, (rows, k): (u32, u32)) -> usize {
        rows as usize * self.row_bytes(k) as usize
    }

    /// Elements of a row, its padding included.
    pub fn row_elements(self, k: u32) -> u32 {
        padded_row(k, self.data_type())
    }

    /// Bytes of a row.
    pub fn row_bytes(self, k: u32) -> u32 {
        self.row_elements(k) / 8 * self.data_type().bits()
    }

    /// The extent of a row in tensor maps, where two elements of 4 bits are a byte.
    pub(crate) fn row_extent(self, k: u32) -> u32 {
        let elements = self.row_elements(k);
        if self.data_type().bits() == 4 { elements / 2 } else { elements }
    }

    /// Bytes of shared memory of a row that the tensor cores read.
    pub(crate) fn staged_bytes(self, k: u32) -> u32 {
        let elements = k.next_multiple_of(ROW);
        if self.data_type().bits() == 4 { elements / 2 } else { elements }
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
        self.scales() == other.scales() && (a.bits() == 4) == (b.bits() == 4)
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
        for format in
            [NarrowFormat::Mxfp8E4m3, NarrowFormat::Mxfp6E2m3, NarrowFormat::Mxfp4, NarrowFormat::Nvfp4]
        {
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
