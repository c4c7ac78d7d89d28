//! Tensor maps of a problem's matrices as kernels by TMA read them, and staged copies of the
//! operands that TMA cannot read.

use warpwright::arch::DataType;
use warpwright::layout;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream, TensorMap, TileMaps};

use super::config::Configuration;
use crate::gemm::device::kernel::Batching;
use crate::gemm::device::mainloop::promotion::TileScales;
use crate::gemm::device::mainloop::tma::{Preload, TmaGemm};
use crate::gemm::device::mainloop::vector_scales::{TILE_WORDS, scales_of_stage};
use crate::gemm::device::staging::{OperandCopy, StagedBatch};
use crate::gemm::problem::batching::{Batch, GemmProblem, Problem};
use crate::gemm::problem::error::GemmError;
use crate::gemm::problem::narrow::{SCALE_TILE, VectorScaling};
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

    /// The tensor maps of the scales.
    pub(crate) fn scale_maps(&self) -> Result<Option<[TileMaps<u8>; 2]>> {
        if let Some(scaling) = self.gemm.vector_scales {
            return self.vector_scale_maps(scaling).map(Some);
        }
        let Batch { problem: Problem { m, n, k, .. }, count, .. } = self.staged.batch;
        let maps = |scales: TileScales, rows: u32, own: bool, tile: u32| -> Result<TileMaps<u8>> {
            let (blocks, padded) = scales.granularity.extents((rows, k));
            let stride = u64::from(blocks) * u64::from(padded);
            let matrices = own.then_some((count, stride));
            Ok(tile_maps::<f32>((padded, blocks), matrices, scales.tile(tile))?.bytes())
        };
        let TmaGemm { tile, scales, .. } = self.gemm;
        let Some(scales) = scales else { return Ok(None) };
        Ok(Some([maps(scales.a, m, self.own.0, tile.0)?, maps(scales.b, n, self.own.1, tile.1)?]))
    }

    /// The tensor maps of scales of 16 or 32 elements: rows of tiles of scales.
    fn vector_scale_maps(&self, scaling: VectorScaling) -> Result<[TileMaps<u8>; 2]> {
        let Batch { problem: Problem { m, n, k, .. }, count, .. } = self.staged.batch;
        let tile = self.gemm.tile;
        let maps = |rows: u32, own: bool, tile_rows: u32| -> Result<TileMaps<u8>> {
            let extents = (rows.div_ceil(SCALE_TILE.0), scaling.tiles(k) * TILE_WORDS);
            let matrices = own.then_some((count, u64::from(extents.0) * u64::from(extents.1)));
            let of_stage = scales_of_stage(scaling, tile_rows, tile.2);
            Ok(tile_maps::<u64>(extents, matrices, of_stage)?.bytes())
        };
        Ok([maps(m, self.own.0, tile.0)?, maps(n, self.own.1, tile.1)?])
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

/// The maps of the scales of the kernel's A and B.
pub(crate) fn scale_maps(
    maps: &Option<[TileMaps<u8>; 2]>,
    scales: Option<[&Buffer<u8>; 2]>,
    transposed: bool,
) -> Result<Option<[TensorMap; 2]>> {
    let (Some([a_maps, b_maps]), Some([a, b])) = (maps, scales) else { return Ok(None) };
    let (a, b) = if transposed { (b, a) } else { (a, b) };
    Ok(Some([a_maps.of(a)?, b_maps.of(b)?]))
}

/// An operand as a kernel reads it: its tensor maps, and its copy if TMA cannot read it.
struct ReadOperand {
    data_type: DataType,
    copy: Option<OperandCopy>,
    maps: TileMaps<u8>,
}

impl ReadOperand {
    /// The map of an operand, or of its copy in `scratch`.
    fn map(
        &self,
        operations: &Operations,
        stream: &Stream,
        operand: &Buffer<u8>,
        scratch: &mut Scratch<u8>,
    ) -> Result<(TensorMap, LaunchCounts)> {
        let (read, counts) = copied(self.copy, self.data_type, operations, stream, operand, scratch)?;
        Ok((self.maps.of(read)?, counts))
    }
}

/// The operand, or its copy in `scratch`.
pub(crate) fn copied<'b>(
    copy: Option<OperandCopy>,
    data_type: DataType,
    operations: &Operations,
    stream: &Stream,
    operand: &'b Buffer<u8>,
    scratch: &'b mut Scratch<u8>,
) -> Result<(&'b Buffer<u8>, LaunchCounts)> {
    let Some(copy) = copy else { return Ok((operand, LaunchCounts::default())) };
    let bytes = copy.length() * data_type.bits() as usize / 8;
    let copied = scratch.at_least(operations.device(), bytes)?;
    let counts = with_operand!(data_type, T => {
        copy.launch::<T>(operations, stream, operand.cast(), copied.cast_mut())
    })?;
    Ok((copied, counts))
}

/// Maps with the row pitch of the copy.
fn pitched<T: Storable>(maps: TileMaps<T>, copy: Option<OperandCopy>) -> TileMaps<u8> {
    match copy {
        Some(copy) => maps.pitched(copy.pitch.into()).bytes(),
        None => maps.bytes(),
    }
}

/// Both operands as a kernel reads them.
pub(crate) struct OperandMaps([ReadOperand; 2]);

/// The copies of A and of B.
pub(crate) type CopyScratch = [Scratch<u8>; 2];

impl OperandMaps {
    pub(crate) fn new(reading: &Reading) -> Result<Self> {
        let Reading { staged: StagedBatch { batch, copies: [a_copy, b_copy] }, types, own, gemm } = *reading;
        let Problem { m, n, k, .. } = batch.problem;
        let [a_matrices, b_matrices] = batch.matrices();
        let (a_matrices, b_matrices) = (own.0.then_some(a_matrices), own.1.then_some(b_matrices));
        if let Some(scaling) = gemm.vector_scales {
            let of = |data_type, rows, matrices, tile| -> Result<ReadOperand> {
                let maps = tile_maps::<u8>((rows, scaling.row(k, data_type)), matrices, tile)?;
                Ok(ReadOperand { data_type, copy: None, maps })
            };
            let a = of(types.a, m, a_matrices, gemm.a_tile::<u8>())?;
            return Ok(Self([a, of(types.b, n, b_matrices, gemm.b_tile::<u8>())?]));
        }
        let a = with_operand!(types.a, T => pitched(tile_maps::<T>((m, k), a_matrices, gemm.a_tile::<T>())?, a_copy));
        let b = with_operand!(types.b, T => pitched(tile_maps::<T>((n, k), b_matrices, gemm.b_tile::<T>())?, b_copy));
        let a = ReadOperand { data_type: types.a, copy: a_copy, maps: a };
        let b = ReadOperand { data_type: types.b, copy: b_copy, maps: b };
        Ok(Self([a, b]))
    }

    /// Calls `launch` with the maps of A and B, after the copies.
    pub(crate) fn mapped(
        &self,
        operations: &Operations,
        stream: &Stream,
        operands: [&Buffer<u8>; 2],
        launch: impl FnOnce(&[TensorMap; 2]) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        if self.0.iter().all(|operand| operand.copy.is_none()) {
            let (maps, _) = self.maps(operations, stream, operands, &mut CopyScratch::default())?;
            return launch(&maps);
        }
        operations.with_scratch(stream, |scratch: &mut CopyScratch| {
            let (maps, counts) = self.maps(operations, stream, operands, scratch)?;
            Ok(both(counts, launch(&maps)?))
        })
    }

    /// The maps of A and B; copies are made in `scratch`.
    pub(crate) fn maps(
        &self,
        operations: &Operations,
        stream: &Stream,
        [a, b]: [&Buffer<u8>; 2],
        [a_scratch, b_scratch]: &mut CopyScratch,
    ) -> Result<([TensorMap; 2], LaunchCounts)> {
        let (a, a_counts) = self.0[0].map(operations, stream, a, a_scratch)?;
        let (b, b_counts) = self.0[1].map(operations, stream, b, b_scratch)?;
        Ok(([a, b], both(a_counts, b_counts)))
    }
}
