//! Tensor maps of a problem's matrices as kernels by TMA read them, and staged copies of the
//! operands that TMA cannot read.

use warpwright::arch::DataType;
use warpwright::layout;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream, TensorMap, TileMaps};

use super::config::Configuration;
use crate::gemm::device::kernel::Batching;
use crate::gemm::device::mainloop::block_scaled::{TILE_WORDS, scales_of_stage};
use crate::gemm::device::mainloop::blockwise::TileScales;
use crate::gemm::device::mainloop::tma::{Preload, TmaGemm};
use crate::gemm::device::staging::{OperandCopy, StagedBatch};
use crate::gemm::device::unpack::UnpackedOperand;
use crate::gemm::problem::batching::{Batch, GemmProblem, Problem};
use crate::gemm::problem::block_scaled::row_elements;
use crate::gemm::problem::error::GemmError;
use crate::gemm::problem::scales::SCALE_TILE;
use crate::gemm::problem::types::{GemmTypes, MatrixLayout, with_operand, with_output};
use crate::operations::{Operations, Result, Scratch, both};

/// A problem as a kernel by TMA reads it: if it computes C's transpose, its A is the problem's
/// B.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    /// The kernel's own batch.
    pub(crate) staged: StagedBatch,
    /// The types of the kernel's own A and B.
    pub(crate) types: GemmTypes,
    /// Whether there is an A, and a B, for each problem.
    pub(crate) own: (bool, bool),
    pub(crate) gemm: TmaGemm,
}

impl Reading {
    pub(crate) fn new(problem: &GemmProblem, configuration: Configuration) -> Self {
        let GemmProblem { batch, types, .. } = *problem;
        let own = match Batching::of(problem) {
            Batching::AlongM => (false, true),
            Batching::Single => (false, false),
            Batching::Batched => batch.own(),
        };
        let (batch, types, own) = match configuration.transposed {
            true => (batch.transposed(), types.transposed(), (own.1, own.0)),
            false => (batch, types, own),
        };
        let staged = StagedBatch::new(batch, types.input_bytes());
        let is_copied = staged.copies[usize::from(!configuration.transposed)].is_some();
        let is_single = Batching::of(problem) == Batching::Single;
        let preloads_b =
            problem.preloads_b && is_single && !is_copied && configuration.schedule.group().is_none();
        let preload = match configuration.transposed {
            true => Preload::A,
            false => Preload::B,
        };
        let gemm = TmaGemm {
            preload: preloads_b.then_some(preload),
            ..configuration.gemm(staged.batch.problem, problem)
        };
        Self { staged, types, own, gemm }
    }

    /// The tensor maps of A and B.
    pub(crate) fn operand_maps(&self) -> Result<[TileMaps<u8>; 2]> {
        let Self { staged: StagedBatch { batch, copies: [a_copy, b_copy] }, types, own, gemm } = self;
        let Problem { m, n, k, .. } = batch.problem;
        let [a_matrices, b_matrices] = batch.matrices();
        let (a_matrices, b_matrices) = (own.0.then_some(a_matrices), own.1.then_some(b_matrices));
        if types.scaling.factors().is_some() {
            // Of bytes.
            let of = |data_type, rows, matrices: Option<(u32, u64)>, tile| {
                let packing = types.packing();
                let matrices = matrices.map(|(count, stride)| (count, stride / u64::from(packing)));
                tile_maps::<u8>((rows, row_elements(k, data_type) / packing), matrices, tile)
            };
            let a = of(types.a, m, a_matrices, gemm.a_tile::<u8>())?;
            return Ok([a, of(types.b, n, b_matrices, gemm.b_tile::<u8>())?]);
        }
        Ok([
            with_operand!(types.a, T => pitched(tile_maps::<T>((m, k), a_matrices, gemm.a_tile::<T>())?, *a_copy)),
            with_operand!(types.b, T => pitched(tile_maps::<T>((n, k), b_matrices, gemm.b_tile::<T>())?, *b_copy)),
        ])
    }

    /// The tensor maps of their scales: of blockwise ones, and of block-scaled operands rows of tiles of
    /// scales.
    pub(crate) fn scale_maps(&self) -> Result<Option<[TileMaps<u8>; 2]>> {
        let (Batch { problem: Problem { m, n, k, .. }, count, .. }, tile) =
            (self.staged.batch, self.gemm.tile);
        let matrices = |own: bool, extents: (u32, u32)| {
            own.then_some((count, u64::from(extents.0) * u64::from(extents.1)))
        };
        if let Some(factors) = self.types.scaling.factors() {
            let maps = |rows: u32, own: bool, tile_rows: u32| -> Result<TileMaps<u8>> {
                let extents = (rows.div_ceil(SCALE_TILE.0), factors.tiles(k) * TILE_WORDS);
                let of_stage = scales_of_stage(factors, tile_rows, tile.2);
                Ok(tile_maps::<u64>(extents, matrices(own, extents), of_stage)?.bytes())
            };
            return Ok(Some([maps(m, self.own.0, tile.0)?, maps(n, self.own.1, tile.1)?]));
        }
        let maps = |scales: TileScales, rows: u32, own: bool, tile: u32| -> Result<TileMaps<u8>> {
            let (blocks, padded) = scales.granularity.extents((rows, k));
            Ok(tile_maps::<f32>((padded, blocks), matrices(own, (blocks, padded)), scales.tile(tile))?
                .bytes())
        };
        let Some([a, b]) = self.gemm.tile_scales() else { return Ok(None) };
        Ok(Some([maps(a, m, self.own.0, tile.0)?, maps(b, n, self.own.1, tile.1)?]))
    }

    /// The tensor maps of C; `count` of them have one map, with C's stride.
    pub(crate) fn c_maps(&self, matrices: Option<(u32, u64)>) -> Result<TileMaps<u8>> {
        let Problem { m, n, .. } = self.staged.batch.problem;
        let (m, n) = match (self.gemm.gate, self.gemm.c) {
            (None, _) => (m, n),
            (Some(_), MatrixLayout::RowMajor) => (m, n / 2),
            (Some(_), MatrixLayout::ColumnMajor) => (m / 2, n),
        };
        with_output!(self.types.c, C => Ok(tile_maps::<C>((m, n), matrices, self.gemm.c_tile::<C>())?.bytes()))
    }
}

/// The tensor maps of matrices (mn, k); `matrices`: how many each map has as its third axis, and
/// the elements from one to the next.
fn tile_maps<T: Storable>(
    (mn, k): (u32, u32),
    matrices: Option<(u32, u64)>,
    tile: Result<TmaTile, layout::Error>,
) -> Result<TileMaps<T>> {
    let (matrix, tile) = ((mn.into(), k.into()), tile.map_err(GemmError::from)?);
    let maps = TileMaps::new(matrix, &tile)?;
    Ok(match matrices {
        Some((count, stride)) => maps.batched(count.into(), stride),
        None => maps,
    })
}

/// Maps with the row pitch of the copy.
fn pitched<T: Storable>(maps: TileMaps<T>, copy: Option<OperandCopy>) -> TileMaps<u8> {
    match copy {
        Some(copy) => maps.pitched(copy.pitch.into()).bytes(),
        None => maps.bytes(),
    }
}

/// The maps of two buffers.
pub(crate) fn mapped(
    maps: &Option<[TileMaps<u8>; 2]>,
    [a, b]: [&Buffer<u8>; 2],
) -> Result<Option<[TensorMap; 2]>> {
    let Some([a_maps, b_maps]) = maps else { return Ok(None) };
    Ok(Some([a_maps.of(a)?, b_maps.of(b)?]))
}

/// The copies of operands that a kernel cannot read in place.
#[derive(Clone, Copy)]
pub(crate) enum Copied {
    /// With gaps between the rows, or transposed.
    Staged(OperandCopy, DataType),
    /// With a byte for each 6 bits.
    Unpacked(UnpackedOperand),
}

/// The copies of A and of B.
#[derive(Clone, Copy)]
pub(crate) struct OperandCopies(pub(crate) [Option<Copied>; 2]);

/// Where they are.
pub(crate) type CopyScratch = [Scratch<u8>; 2];

impl OperandCopies {
    /// The staged ones of operands of those types.
    pub(crate) fn staged([a, b]: [Option<OperandCopy>; 2], types: GemmTypes) -> Self {
        Self([a.map(|copy| Copied::Staged(copy, types.a)), b.map(|copy| Copied::Staged(copy, types.b))])
    }

    /// Calls `launch` with A and B as the kernel reads them, after the copies.
    pub(crate) fn with(
        &self,
        operations: &Operations,
        stream: &Stream,
        operands: [&Buffer<u8>; 2],
        launch: impl FnOnce([&Buffer<u8>; 2]) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        if self.0.iter().all(Option::is_none) {
            return launch(operands);
        }
        operations.with_scratch(stream, |scratch: &mut CopyScratch| {
            let (operands, counts) = self.made(operations, stream, operands, scratch)?;
            Ok(both(counts, launch(operands)?))
        })
    }

    /// A and B as the kernel reads them; copies are made in `scratch`.
    pub(crate) fn made<'b>(
        &self,
        operations: &Operations,
        stream: &Stream,
        [a, b]: [&'b Buffer<u8>; 2],
        [a_scratch, b_scratch]: &'b mut CopyScratch,
    ) -> Result<([&'b Buffer<u8>; 2], LaunchCounts)> {
        let of = |copy: Option<Copied>, operand: &'b Buffer<u8>, scratch: &'b mut Scratch<u8>| match copy {
            None => Ok((operand, LaunchCounts::default())),
            Some(Copied::Unpacked(copy)) => copy.launch(operations, stream, operand, scratch),
            Some(Copied::Staged(copy, data_type)) => {
                let bytes = copy.length() * data_type.bits() as usize / 8;
                let copied = scratch.at_least(operations.device(), bytes)?;
                let counts = with_operand!(data_type, T => {
                    copy.launch::<T>(operations, stream, operand.cast(), copied.cast_mut())
                })?;
                Ok((&*copied, counts))
            }
        };
        let (a, a_counts) = of(self.0[0], a, a_scratch)?;
        let (b, b_counts) = of(self.0[1], b, b_scratch)?;
        Ok(([a, b], both(a_counts, b_counts)))
    }
}
