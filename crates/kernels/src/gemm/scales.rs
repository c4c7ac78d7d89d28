//! Scales of blocks: what an operand of narrow floats is multiplied by, one `f32` for 128 of k of a row or of 128 rows.
//!
//! ```text
//! an operand (rows, k) of e4m3            its scales, (blocks of k, rows or blocks of rows): rows are contiguous
//!         k 0..128  128..256  256..
//! row 0   [  s00  ][  s10  ][ s20 ]       k 0..128     s00 s01 s02 ..   padded to a multiple of 4: TMA reads rows of whole 16 bytes
//! row 1   [  s01  ][  s11  ][ s21 ]       k 128..256   s10 s11 s12 ..
//! ```
//!
//! In that order the scales that a tile needs of a block of k are one run of memory, whatever they are for.

use warpwright::lang::tensor::MappedMatrix;
use warpwright::layout::Error;
use warpwright::prelude::*;
use warpwright::runtime::TileMaps;

use super::multiply::{extents, legal};
use crate::operations::OperationError;

/// How deep a block of k is, and how high a block of rows: `DeepSeek`-V3's choice.
pub const BLOCK: u32 = 128;

/// What has a scale of its own. The columns of B count as its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// 128 of k of one row: what is quantised while a model runs.
    Row,
    /// 128 of k of 128 rows: weights.
    Block,
}

/// Scales in 16 bytes: TMA reads rows that are a multiple of them, from a multiple of them on.
const PIECE: u32 = 4;

/// Scales of a slot are at least so many: tiles in shared memory are multiples of 128 bytes.
const LEAST_ENTRIES: u32 = 32;

impl Granularity {
    /// Rows that share a scale.
    pub fn rows(self) -> u32 {
        match self {
            Self::Row => 1,
            Self::Block => BLOCK,
        }
    }

    /// The extents of the scales of an operand (rows, k): blocks of k, and for each the scales of all rows, with their padding.
    pub fn extents(self, (rows, k): (u32, u32)) -> (u32, u32) {
        (k.div_ceil(BLOCK), rows.div_ceil(self.rows()).next_multiple_of(PIECE))
    }

    /// How many scales an operand (rows, k) has, padding included.
    ///
    /// ```
    /// use warpwright_kernels::gemm::scales::Granularity;
    ///
    /// assert_eq!(Granularity::Row.count((30, 256)), 2 * 32);
    /// assert_eq!(Granularity::Block.count((1024, 256)), 2 * 8);
    /// ```
    pub fn count(self, operand: (u32, u32)) -> usize {
        let (blocks, padded) = self.extents(operand);
        blocks as usize * padded as usize
    }

    /// Where the scale of element (row, column along k) of an operand (rows, k) is among its scales.
    pub fn index(self, (row, column): (u32, u32), operand: (u32, u32)) -> usize {
        (column / BLOCK) as usize * self.extents(operand).1 as usize + (row / self.rows()) as usize
    }
}

/// The scales of an operand's tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileScales {
    /// What has a scale of its own.
    pub granularity: Granularity,
    /// Whether tiles begin at any row of the operand, as those of groups of rows do.
    pub begin_anywhere: bool,
}

impl TileScales {
    /// Of tiles that begin at multiples of 8 rows.
    pub fn of(granularity: Granularity) -> Self {
        Self { granularity, begin_anywhere: false }
    }

    /// Of tiles that begin anywhere.
    pub fn anywhere(granularity: Granularity) -> Self {
        Self { granularity, begin_anywhere: true }
    }

    /// The scales of a tile of so many rows in a stage.
    ///
    /// # Errors
    /// The tile has more than 256 rows.
    pub(super) fn tile(self, rows: u32) -> Result<TmaTile, Error> {
        // Of blocks there are fewer than the least, those before the tile's first in its 16 bytes included.
        let entries = match self.granularity {
            Granularity::Row if self.begin_anywhere => rows + PIECE - 1,
            Granularity::Row => rows,
            Granularity::Block => 1,
        };
        TmaTile::dense::<f32>((entries.next_multiple_of(LEAST_ENTRIES), 1), Major::Mn)
    }

    /// The scales of an operand (rows, k), or of several that lie one after another, in boxes of tiles of so many rows.
    pub(super) fn maps(
        self,
        operand: (u32, u32),
        several: Option<u32>,
        tile: u32,
    ) -> Result<TileMaps<f32>, OperationError> {
        let (blocks, padded) = self.granularity.extents(operand);
        let (matrix, tile) = (extents(padded, blocks), legal(self.tile(tile))?);
        let stride = u64::from(blocks) * u64::from(padded);
        Ok(match several {
            Some(count) => TileMaps::of_many(matrix, (count.into(), stride), &tile)?,
            None => TileMaps::new(matrix, &tile)?,
        })
    }
}

/// The scales of an operand's tiles, in the stages of a pipeline.
pub(super) struct StagedScales {
    scales: TileScales,
    tiles: StagedOperand<f32>,
    /// Rows of a tile.
    rows: u32,
}

/// The rows of a tile whose scales are read.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct ScaledRows {
    /// Rows of the operand before the product's.
    before: Option<Reg<u32>>,
    /// The first scale in a stage.
    first: Reg<u32>,
}

impl StagedScales {
    /// For tiles of so many rows.
    #[track_caller]
    pub(super) fn new(scales: TileScales, rows: u32, stages: &mut PipelineStages) -> Self {
        Self { scales, tiles: stages.operand(scales.tile(rows)), rows }
    }

    /// Those of the tile that begins at row `row` of a product, which has so many rows of the operand before it.
    #[track_caller]
    pub(super) fn rows(&self, before: Option<Reg<u32>>, row: Reg<u32>) -> ScaledRows {
        let row = before.map_or(row, |before| before + row);
        ScaledRows { before, first: row / (PIECE * self.scales.granularity.rows()) * PIECE }
    }

    /// The load of what a tile needs for a block of k.
    #[track_caller]
    pub(super) fn load(&self, map: MappedMatrix, rows: ScaledRows, block: Reg<u32>) -> TileLoad {
        self.tiles.load(map, (rows.first, block), None)
    }

    /// How many neighbouring rows, from the tile's first or a multiple of this after it on, have the same scale for certain; 8 at least
    /// are read together.
    pub(super) fn run(&self) -> u32 {
        match self.scales {
            TileScales { granularity: Granularity::Row, .. } | TileScales { begin_anywhere: true, .. } => 8,
            // The largest power of two that divides the tile's rows, and so where each tile begins.
            TileScales { granularity: Granularity::Block, .. } => {
                (1 << self.rows.trailing_zeros()).min(BLOCK)
            }
        }
    }

    /// The scales in a stage of an even row of the product and the next.
    #[track_caller]
    pub(super) fn pair(&self, stage: Stage, rows: ScaledRows, row: Reg<u32>) -> [Reg<f32>; 2] {
        match self.scales {
            TileScales { begin_anywhere: true, .. } => {
                [row, row + 1u32].map(|row| self.get(stage, rows, row))
            }
            TileScales { granularity: Granularity::Row, .. } => {
                self.tiles.tensor().get_vector((row - rows.first, 0, stage))
            }
            TileScales { granularity: Granularity::Block, .. } => [self.get(stage, rows, row); 2],
        }
    }

    /// The scale in a stage of a row of the product.
    #[track_caller]
    pub(super) fn get(&self, stage: Stage, rows: ScaledRows, row: Reg<u32>) -> Reg<f32> {
        let row = rows.before.map_or(row, |before| before + row);
        let entry = row / self.scales.granularity.rows() - rows.first;
        self.tiles.tensor().get((entry, 0, stage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element has a scale, those of one block of rows and k the same and no others', and the padding is nobody's.
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
