//! Plans of the `mma.sync` kernel, whose threads copy the operands.

use warpwright::arch::DataType::E4m3;
use warpwright::runtime::Stream;

use super::launch::{Arguments, Plan, Start, passed};
use super::maps::{Copied, OperandCopies};
use crate::gemm::device::epilogue::{Fused, FusedEpilogue};
use crate::gemm::device::kernel::Batching;
use crate::gemm::device::mainloop::mma_sync::MmaSyncGemm;
use crate::gemm::device::mma_sync_kernel::MmaSyncKernel;
use crate::gemm::device::staging::StagedBatch;
use crate::gemm::device::unpack::UnpackedOperand;
use crate::gemm::problem::batching::{Batch, GemmProblem, Problem};
use crate::gemm::problem::scales::{Granularity, SCALE_TILE, Scaling};
use crate::gemm::problem::types::{GemmOutput, GemmTypes, with_mma_sync_operands};
use crate::operations::{Operations, Result};

impl Plan {
    /// The plan of the `mma.sync` kernel.
    pub(super) fn of_mma_sync<C: GemmOutput, E: FusedEpilogue<C>>(
        operations: &Operations,
        problem: &GemmProblem,
        fused: Fused<MmaSyncGemm, E>,
    ) -> Result<Self> {
        let (batch, copies) = read_by_threads(problem);
        let Batch { problem: Problem { m, n, k, .. }, count, a_stride, b_stride, c_stride } = batch;
        // A group along m may have all rows. The problems fill the grid's second axis; if they are too
        // many, the third.
        let (tiles, layers) = (fused.gemm.grid(m, n), count.div_ceil(MAX_GRID_ROWS));
        let grid = [tiles, count.div_ceil(layers), layers];
        let kernel = MmaSyncKernel { fused, batching: Batching::of(problem) };
        let own = if problem.along_m { (false, true) } else { batch.own() };
        let granularities = problem.types.scaling.granularities().unzip();
        let (a_pitch, a_scales) = scale_strides(problem.types.scaling, granularities.0, (m, k), own.0);
        let (b_pitch, b_scales) = scale_strides(problem.types.scaling, granularities.1, (n, k), own.1);
        // Block-scaled operands are bytes.
        let types = match problem.types.scaling {
            Scaling::BlockScaled(_) => GemmTypes::new(E4m3, E4m3, problem.types.c),
            _ => problem.types,
        };
        let (ptx, start) = with_mma_sync_operands!(types, A, B => {
            let compiled = operations.kernel(kernel, MmaSyncKernel::<E>::gemm::<A, B, C>)?;
            let ptx = compiled.function().ptx().clone();
            let start = move |stream: &Stream, launch: Arguments<'_>| {
                let Arguments { operands: [a, b], scales: [of_a, of_b], c, problem, nothing, .. } = launch;
                let a = (a.cast::<A>(), of_a.cast::<u32>(), a_pitch, [a_stride, a_scales]);
                let b = (b.cast::<B>(), of_b.cast::<u32>(), b_pitch, [b_stride, b_scales]);
                let arguments = (a, b, c.cast_mut::<C>(), passed::<C>(launch.epilogue, nothing), problem);
                Ok(compiled.launch(stream, grid, arguments)?)
            };
            (ptx, Box::new(start) as Box<Start>)
        });
        let (maps, problem) = ([None, None], ([m, n, k, count], c_stride));
        Ok(Self { ptx, transposed: false, copies, maps, c_maps: None, workspace: (1, 1), problem, start })
    }
}

/// CTAs of a grid along its second and third axis. (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability".)
const MAX_GRID_ROWS: u32 = 65_535;

/// The batch as the `mma.sync` kernel reads it, whose strides count what memory has, and the copies that it
/// needs: of operands of 8 bits whose k is not contiguous or whose rows do not begin at multiples of 16
/// bytes, and of block-scaled ones of 6 bits.
fn read_by_threads(problem: &GemmProblem) -> (Batch, OperandCopies) {
    let GemmProblem { batch, types, .. } = *problem;
    let Problem { m, n, k, .. } = batch.problem;
    match types.scaling {
        Scaling::BlockScaled(_) => {
            let [(a_count, a_stride), (b_count, b_stride)] = batch.matrices();
            let a = UnpackedOperand::of(types.a, (m, k), a_count);
            let b = UnpackedOperand::of(types.b, (n, k), b_count);
            let stride = |copy: &Option<_>, stride: u64, rows: u32| match copy {
                Some(_) if stride != 0 => u64::from(rows) * u64::from(k),
                _ => stride / u64::from(types.packing()),
            };
            let (a_stride, b_stride) = (stride(&a, a_stride, m), stride(&b, b_stride, n));
            let copies = OperandCopies([a.map(Copied::Unpacked), b.map(Copied::Unpacked)]);
            (Batch { a_stride, b_stride, ..batch }, copies)
        }
        _ if types.input_bytes() == 1 => {
            let StagedBatch { batch, copies } = StagedBatch::of(problem);
            (batch, OperandCopies::staged(copies, types))
        }
        _ => (batch, OperandCopies([None; 2])),
    }
}

/// The pitch of the scales of an operand (rows, k), and from those of one problem to the next: of
/// blockwise ones from one block of k to the next, of block-scaled operands of tiles of words from one row of
/// tiles to the next.
fn scale_strides(
    scaling: Scaling,
    granularity: Option<Granularity>,
    (rows, k): (u32, u32),
    own: bool,
) -> (u32, u64) {
    let (pitch, scales) = match (scaling.factors(), granularity) {
        (Some(factors), _) => (factors.tiles(k), rows.next_multiple_of(SCALE_TILE.0)),
        (None, Some(granularity)) => {
            let (blocks, pitch) = granularity.extents((rows, k));
            (pitch, blocks)
        }
        (None, None) => (0, 0),
    };
    (pitch, if own { u64::from(pitch) * u64::from(scales) } else { 0 })
}
