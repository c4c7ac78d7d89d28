//! Scales of operands. A scale of a tensor is the epilogue's alpha; scales of rows and columns are
//! its vectors. Blockwise scales multiply an operand's elements: one `f32` for 128 of k of a row
//! (1x128), or of 128 rows (128x128). Block-scaled operands are in [`block_scaled`](super::block_scaled).
//!
//! ```text
//! an operand (rows, k) of e4m3            its scales, (blocks of k, rows or blocks of rows): rows are contiguous
//!         k 0..128  128..256  256..
//! row 0   [  s00  ][  s10  ][ s20 ]       k 0..128     s00 s01 s02 ..   padded to a multiple of 4: TMA reads rows
//! row 1   [  s01  ][  s11  ][ s21 ]       k 128..256   s10 s11 s12 ..   of multiples of 16 bytes
//! ```
//!
//! In that layout the scales that a tile needs for a block of k are contiguous in memory.

use std::fmt;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use warpwright::lang::tensor::BlockScales as MmaScales;
use warpwright::runtime::Buffer;

/// How A and B are scaled, in CUTLASS's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scaling {
    /// By the epilogue alone.
    #[default]
    None,
    /// Blockwise: each operand has an `f32` for 128 of k of a row, or of 128 rows. The main loop
    /// promotes the accumulators of 128 of k.
    Blockwise(Granularity, Granularity),
    /// Block-scaled: the tensor cores apply a scale of 8 bits to 16 or 32 elements.
    BlockScaled(ScaleFactors),
}

impl Scaling {
    /// The granularities of blockwise scales.
    pub fn granularities(self) -> Option<Granularities> {
        if let Self::Blockwise(a, b) = self { Some((a, b)) } else { None }
    }

    /// The scales of block-scaled operands.
    pub(crate) fn factors(self) -> Option<ScaleFactors> {
        if let Self::BlockScaled(factors) = self { Some(factors) } else { None }
    }

    /// The scaling of the problem whose C is the transpose.
    pub(crate) fn transposed(self) -> Self {
        if let Self::Blockwise(a, b) = self { Self::Blockwise(b, a) } else { self }
    }
}

impl From<Option<Granularities>> for Scaling {
    fn from(granularities: Option<Granularities>) -> Self {
        granularities.map_or(Self::None, |(a, b)| Self::Blockwise(a, b))
    }
}

/// Rows of a tile of block-scaled scales, and blocks along k.
pub(crate) const SCALE_TILE: (u32, u32) = (128, 4);

/// The scales of a block-scaled format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleFactors {
    /// A power of two (ue8m0) for 32 elements.
    Vec32Ue8m0,
    /// A positive e4m3 for 16 elements.
    Vec16Ue4m3,
}

impl ScaleFactors {
    /// Elements along k that share a scale.
    pub fn block(self) -> u32 {
        self.mma().block
    }

    /// Tiles of scales along k.
    pub(crate) fn tiles(self, k: u32) -> u32 {
        k.div_ceil(self.block() * SCALE_TILE.1)
    }

    /// The scales as the MMA has them.
    pub(crate) fn mma(self) -> MmaScales {
        match self {
            Self::Vec32Ue8m0 => MmaScales::MX,
            Self::Vec16Ue4m3 => MmaScales::NVFP4,
        }
    }
}

/// The extent of a block along k, and of a block of rows: DeepSeek-V3's choice.
pub const BLOCK: u32 = 128;

/// The block of an operand's elements that share a scale. The columns of B count as its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Granularity {
    /// One row and 128 elements along k (1x128): activations, quantized while a model runs.
    #[strum(serialize = "1x128")]
    Row,
    /// 128 rows and 128 elements along k (128x128): weights.
    #[default]
    #[strum(serialize = "128x128")]
    Block,
}

/// The granularities of A's and B's scales.
pub type Granularities = (Granularity, Granularity);

/// Scales in 16 bytes: TMA reads rows of multiples of 16 bytes, from multiples of 16 bytes on.
pub(crate) const SCALES_PER_16_BYTES: u32 = 4;

impl Granularity {
    /// Rows that share a scale.
    pub fn rows(self) -> u32 {
        match self {
            Self::Row => 1,
            Self::Block => BLOCK,
        }
    }

    /// The extents of the scales of an operand (rows, k): blocks of k, and for each the scales of
    /// all rows, padded.
    pub fn extents(self, (rows, k): (u32, u32)) -> (u32, u32) {
        (k.div_ceil(BLOCK), rows.div_ceil(self.rows()).next_multiple_of(SCALES_PER_16_BYTES))
    }

    /// The number of scales of an operand (rows, k), padding included.
    ///
    /// ```
    /// use warpwright_kernels::gemm::problem::scales::Granularity;
    ///
    /// assert_eq!(Granularity::Row.count((30, 256)), 2 * 32);
    /// assert_eq!(Granularity::Block.count((1024, 256)), 2 * 8);
    /// ```
    pub fn count(self, operand: (u32, u32)) -> usize {
        let (blocks, padded) = self.extents(operand);
        blocks as usize * padded as usize
    }

    /// The index of the scale of element (row, column along k) of an operand (rows, k).
    pub fn index(self, (row, column): (u32, u32), operand: (u32, u32)) -> usize {
        (column / BLOCK) as usize * self.extents(operand).1 as usize + (row / self.rows()) as usize
    }
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{BLOCK}", self.rows())
    }
}

/// The blockwise scales of an operand on a device.
#[derive(Clone, Copy)]
pub struct BlockwiseScales<'a> {
    /// The scales, in the layout of [`Granularity::index`].
    pub scales: &'a Buffer<f32>,
    /// The elements that share a scale.
    pub granularity: Granularity,
}

/// An operand with blockwise scales, as [`Operations::gemm`](crate::operations::Operations::gemm) takes
/// it.
#[derive(Clone, Copy)]
pub struct Scaled<'a, T> {
    /// The elements.
    pub values: &'a Buffer<T>,
    /// Their scales.
    pub scales: BlockwiseScales<'a>,
}

impl<'a, T> Scaled<'a, T> {
    /// An operand with scales of that granularity.
    pub fn new(values: &'a Buffer<T>, scales: &'a Buffer<f32>, granularity: Granularity) -> Self {
        Self { values, scales: BlockwiseScales { scales, granularity } }
    }

    /// With a scale for 128 of k of each row; of B, of each column.
    pub fn by_row(values: &'a Buffer<T>, scales: &'a Buffer<f32>) -> Self {
        Self::new(values, scales, Granularity::Row)
    }

    /// With a scale for 128 of k of 128 rows; of B, of 128 columns.
    pub fn by_block(values: &'a Buffer<T>, scales: &'a Buffer<f32>) -> Self {
        Self::new(values, scales, Granularity::Block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element has a scale, those of one block the same and no others', and the padding is
    /// nobody's.
    #[test]
    fn blocks_share_their_scales_and_nothing_else() {
        for granularity in [Granularity::Row, Granularity::Block] {
            let operand = (259, 400);
            let mut owners = vec![None; granularity.count(operand)];
            for (row, column) in
                (0..operand.0).flat_map(|row| (0..operand.1).map(move |column| (row, column)))
            {
                let block = (row / granularity.rows(), column / BLOCK);
                let owner = &mut owners[granularity.index((row, column), operand)];
                assert_eq!(*owner.get_or_insert(block), block);
            }
            let unused = owners.iter().filter(|owner| owner.is_none()).count();
            let (blocks, padded) = granularity.extents(operand);
            assert_eq!(unused as u32, blocks * (padded - operand.0.div_ceil(granularity.rows())));
            assert!(padded * 4 % 16 == 0);
        }
    }
}
