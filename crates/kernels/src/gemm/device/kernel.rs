//! The kernels' entries: a main loop, an epilogue and a kind of batching as one.

use warpwright::prelude::*;

use super::epilogue::{Coordinate, EpilogueOp, EpilogueParameters, Fused, FusedEpilogue, Origin};
use super::mainloop::mma_sync::{MmaSyncGemm, OperandScales};
use super::mainloop::mma_sync_promotion::GlobalScales;
use super::mainloop::tma::TmaGemm;
use super::problems::{GroupsAlongM, ProblemTable, Problems, StridedBatch};
use super::store::{AccumulatorTile, TileStore};
use crate::gemm::problem::batching::{Batch, GemmProblem};
use crate::gemm::problem::epilogue::LinearParts;
use crate::gemm::problem::types::{GemmOutput, MmaSyncOperand, Operand};

/// A kind of batching, as a kernel is built for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Batching {
    /// A single problem.
    Single,
    /// Problems of one shape at constant strides.
    Batched,
    /// Groups along m, each with a B of its own.
    AlongM,
}

impl Batching {
    pub(crate) fn of(problem: &GemmProblem) -> Self {
        match problem {
            GemmProblem { along_m: true, .. } => Self::AlongM,
            GemmProblem { batch: Batch { count: 1, .. }, .. } => Self::Single,
            _ => Self::Batched,
        }
    }
}

impl TmaGemm {
    /// C = A·B, each tile through `epilogue`. `c_map` is C's map if TMA stores C: its contiguous
    /// extent is a multiple of 16 bytes. Threads store otherwise, and tiles that reach into the
    /// next group along m, to `c`.
    #[device]
    fn run<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        problems: &Problems,
        c_map: Option<&TensorMap>,
        c: Option<&Global<C>>,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: &dyn Fn(&mut AccumulatorTile),
    ) {
        let store = match (c_map, c) {
            (Some(map), c) => TileStore::Tma { tma: Box::new(self.store::<C>()), map, c },
            (None, Some(c)) => TileStore::Registers { c, layout: self.c },
            (None, None) => unreachable!("C has a tensor map or an address"),
        };
        self.compute::<A, B>(problems, workspace, &|tile| {
            epilogue(tile);
            match self.gate {
                None => store.store(problems, tile),
                Some(activation) => store.store(problems, &tile.gated::<C>(activation, self.c)),
            }
        });
        if c_map.is_some() {
            bulk_wait_read(0);
        }
    }

    /// C = A·B of a single problem, stored by TMA: for kernels of one's own.
    #[device]
    pub fn run_with<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        problems: &Problems,
        c: &TensorMap,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: &dyn EpilogueOp,
    ) {
        let apply = |tile: &mut AccumulatorTile| tile.apply(epilogue, problems);
        self.run::<A, B, C>(problems, Some(c), None, workspace, &apply);
    }
}

/// The tensor maps of A and B, or of their block scales.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct OperandMapParameters {
    a: TensorMap,
    b: TensorMap,
}

/// What a launch computes.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct ProblemParameters {
    /// m, n and k, of groups along m those of all together; and the number of problems or groups.
    extents: [Reg<u32>; 4],
    /// Elements from one C of a batch to the next.
    c_stride: Reg<u64>,
    /// The first row of each group along m, and the number of all rows.
    offsets: Global<u32>,
}

/// A kernel of CTAs that TMA feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TmaKernel<E> {
    pub(crate) fused: Fused<TmaGemm, E>,
    pub(crate) batching: Batching,
    /// Whether each problem has an A, and a B, of its own.
    pub(crate) own: (bool, bool),
    /// The most groups along m.
    pub(crate) capacity: u32,
    /// Whether TMA stores C.
    pub(crate) tma_store: bool,
}

/// The `wgmma` kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WgmmaKernel<E>(pub(crate) TmaKernel<E>);

/// The `tcgen05` kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tcgen05Kernel<E>(pub(crate) TmaKernel<E>);

impl<E> Tcgen05Kernel<E> {
    #[kernel]
    pub(crate) fn gemm<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        operands: OperandMapParameters,
        c_map: &mut TensorMap,
        c: &mut Global<C>,
        epilogue: EpilogueParameters<C>,
        parts: &mut Global<f32>,
        arrived: &mut Global<u32>,
        problem: ProblemParameters,
    ) where
        E: FusedEpilogue<C>,
    {
        let problems = self.0.problems(operands, None, problem);
        self.0.run::<A, B, C>(&problems, c_map, c, epilogue, (parts, arrived));
    }

    /// With block scales; of narrow operands, whose elements are bytes, with scales of 16 or 32
    /// elements.
    #[kernel]
    pub(crate) fn scaled_gemm<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        operands: OperandMapParameters,
        scales: OperandMapParameters,
        c_map: &mut TensorMap,
        c: &mut Global<C>,
        epilogue: EpilogueParameters<C>,
        parts: &mut Global<f32>,
        arrived: &mut Global<u32>,
        problem: ProblemParameters,
    ) where
        E: FusedEpilogue<C>,
    {
        let problems = self.0.problems(operands, Some(scales), problem);
        self.0.run::<A, B, C>(&problems, c_map, c, epilogue, (parts, arrived));
    }
}

impl<E> WgmmaKernel<E> {
    /// Without block scales.
    #[kernel]
    pub(crate) fn gemm<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        operands: OperandMapParameters,
        c_map: &mut TensorMap,
        c: &mut Global<C>,
        epilogue: EpilogueParameters<C>,
        parts: &mut Global<f32>,
        arrived: &mut Global<u32>,
        problem: ProblemParameters,
    ) where
        E: FusedEpilogue<C>,
    {
        let problems = self.0.problems(operands, None, problem);
        self.0.run::<A, B, C>(&problems, c_map, c, epilogue, (parts, arrived));
    }

    /// With block scales.
    #[kernel]
    pub(crate) fn scaled_gemm<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        operands: OperandMapParameters,
        scales: OperandMapParameters,
        c_map: &mut TensorMap,
        c: &mut Global<C>,
        epilogue: EpilogueParameters<C>,
        parts: &mut Global<f32>,
        arrived: &mut Global<u32>,
        problem: ProblemParameters,
    ) where
        E: FusedEpilogue<C>,
    {
        let problems = self.0.problems(operands, Some(scales), problem);
        self.0.run::<A, B, C>(&problems, c_map, c, epilogue, (parts, arrived));
    }
}

impl<E> TmaKernel<E> {
    #[device]
    fn run<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        problems: &Problems,
        c_map: &TensorMap,
        c: &Global<C>,
        epilogue: EpilogueParameters<C>,
        workspace: (&Global<f32>, &Global<u32>),
    ) where
        E: FusedEpilogue<C>,
    {
        let operation = self.fused.operation(epilogue, *c);
        let apply = |tile: &mut AccumulatorTile| tile.apply(&operation, problems);
        let c_map = self.tma_store.then_some(c_map);
        self.fused.gemm.run::<A, B, C>(problems, c_map, Some(c), workspace, &apply);
    }

    /// The problems of a launch.
    fn problems(
        &self,
        OperandMapParameters { a, b }: OperandMapParameters,
        scales: Option<OperandMapParameters>,
        parameters: ProblemParameters,
    ) -> Problems {
        let ProblemParameters { extents: [m, n, k, count], c_stride, offsets } = parameters;
        let scales = scales.map(|scales| (scales.a, scales.b));
        let one = Problems::one(&a, &b, (m, n, k)).with_scales(scales).of_own(self.own);
        let (capacity, transposed) = (self.capacity, self.fused.transposed);
        match self.batching {
            Batching::Single => one,
            Batching::Batched => one.in_batch(StridedBatch { count, c_stride }),
            Batching::AlongM => one.in_groups(GroupsAlongM { count, offsets, capacity, transposed }),
        }
    }
}

/// The kernel for problems of unlike extents: all but the main loop is read from a table.
/// No tile is split, so that there is no workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupedKernel {
    pub(crate) fused: Fused<TmaGemm, LinearParts>,
    /// The most problems.
    pub(crate) capacity: u32,
    /// Whether TMA stores every C.
    pub(crate) tma_store: bool,
}

impl GroupedKernel {
    #[kernel]
    pub(crate) fn gemm<A: Operand, B: Operand, C: GemmOutput>(&self, table: &Global<u8>, count: u32) {
        let is_scaled = self.fused.gemm.scales.is_some();
        let records = ProblemTable { records: *table, count, capacity: self.capacity, is_scaled };
        let problems = Problems::of_table(records);
        let apply = |tile: &mut AccumulatorTile| {
            if let Some(problem) = tile.problem {
                let (parameters, c) = records.epilogue::<C>(problem);
                tile.apply(&self.fused.operation(parameters, c), &problems);
            }
        };
        // The table has the maps of C, and its addresses.
        let (map, c, workspace) =
            (TensorMap::in_global(*table), table.cast(), (&table.cast(), &table.cast()));
        let c_map = self.tma_store.then_some(&map);
        self.fused.gemm.run::<A, B, C>(&problems, c_map, Some(&c), workspace, &apply);
    }
}

/// The `mma.sync` kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MmaSyncKernel<E> {
    pub(crate) fused: Fused<MmaSyncGemm, E>,
    pub(crate) batching: Batching,
}

impl<E> MmaSyncKernel<E> {
    /// The CTA's problem is that of its row of the grid, and its tile the one that its column
    /// numbers, if there is one.
    #[kernel]
    pub(crate) fn gemm<T: MmaSyncOperand, C: GemmOutput>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
        c: &mut Global<C>,
        epilogue: EpilogueParameters<C>,
        problem: ProblemParameters,
        a_stride: u64,
        b_stride: u64,
    ) where
        E: FusedEpilogue<C>,
    {
        let operation = self.fused.operation(epilogue, *c);
        let ProblemParameters { extents: [m, n, k, count], c_stride, offsets } = problem;
        let gemm = self.fused.gemm;
        match self.batching {
            Batching::Single => gemm.compute(a, b, &|| *c, (m, n, k), &operation),
            Batching::Batched => {
                let problem = block_idx().z * grid_dim().y + block_idx().y;
                let [a_start, b_start, c_start] =
                    [a_stride, b_stride, c_stride].map(|stride| problem.convert::<u64>() * stride);
                let origin = Origin { row: problem * m, column: problem * n, element: c_start };
                if problem < count {
                    let (a, b, c) = (a.at(a_start), b.at(b_start), c.at(c_start));
                    gemm.compute(&a, &b, &|| c, (m, n, k), &at_origin(&operation, origin));
                }
            }
            Batching::AlongM => {
                let group = block_idx().y;
                let (begin, end) = (offsets.at(group).load(), offsets.at(group + 1).load());
                let [before, width, depth, number] = [begin, n, k, group].map(|value| value.convert::<u64>());
                let origin = Origin { row: begin, column: group * n, element: before * width };
                let (a, b) = (a.at(before * depth), b.at(number * width * depth));
                let m = end - begin;
                let tiles = gemm.tiles(m, n);
                if block_idx().x < tiles {
                    let rows_of_c = || c.at(offsets.at(group).load().convert::<u64>() * width);
                    gemm.compute(&a, &b, &rows_of_c, (m, n, k), &at_origin(&operation, origin));
                }
            }
        }
    }
}

/// The scales of narrow operands, and the elements from those of one problem to the next.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct ScaleParameters {
    a: Global<u32>,
    b: Global<u32>,
    strides: [Reg<u64>; 2],
}

impl<E> MmaSyncKernel<E> {
    /// Of narrow operands with scales of 16 or 32 elements: pairs of their bytes.
    #[kernel]
    pub(crate) fn scaled_gemm<C: GemmOutput>(
        &self,
        a: &Global<bf16>,
        b: &Global<bf16>,
        scales: ScaleParameters,
        c: &mut Global<C>,
        epilogue: EpilogueParameters<C>,
        problem: ProblemParameters,
        a_stride: u64,
        b_stride: u64,
    ) where
        E: FusedEpilogue<C>,
    {
        let operation = self.fused.operation(epilogue, *c);
        let ProblemParameters { extents: [m, n, k, count], c_stride, .. } = problem;
        let ScaleParameters { a: a_scales, b: b_scales, strides: [a_scale_stride, b_scale_stride] } = scales;
        let gemm = self.fused.gemm;
        if self.batching == Batching::Single {
            let scales = OperandScales::Vectors([a_scales, b_scales]);
            gemm.compute_scaled(a, b, scales, &|| *c, (m, n, k), &operation);
        } else {
            let problem = block_idx().z * grid_dim().y + block_idx().y;
            let start = |stride: Reg<u64>| problem.convert::<u64>() * stride;
            let origin = Origin { row: problem * m, column: problem * n, element: start(c_stride) };
            if problem < count {
                let (a, b, c) = (a.at(start(a_stride)), b.at(start(b_stride)), c.at(origin.element));
                let scales = [a_scales.at(start(a_scale_stride)), b_scales.at(start(b_scale_stride))];
                let operation = at_origin(&operation, origin);
                let scales = OperandScales::Vectors(scales);
                gemm.compute_scaled(&a, &b, scales, &|| c, (m, n, k), &operation);
            }
        }
    }
}

/// The block scales of operands of 8 bits: those of a block of k follow those of the one before at
/// a pitch, and those of one problem those of the one before at a stride.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct BlockScaleParameters {
    a: Global<f32>,
    b: Global<f32>,
    pitches: [Reg<u32>; 2],
    strides: [Reg<u64>; 2],
}

impl<E> MmaSyncKernel<E> {
    /// Of operands of 8 bits, whose rows have `bytes` bytes and whose k counts pairs.
    #[kernel]
    pub(crate) fn byte_gemm<C: GemmOutput>(
        &self,
        a: &Global<bf16>,
        b: &Global<bf16>,
        scales: BlockScaleParameters,
        c: &mut Global<C>,
        epilogue: EpilogueParameters<C>,
        problem: ProblemParameters,
        bytes: u32,
        a_stride: u64,
        b_stride: u64,
    ) where
        E: FusedEpilogue<C>,
    {
        let operation = self.fused.operation(epilogue, *c);
        let ProblemParameters { extents: [m, n, k, count], c_stride, offsets } = problem;
        let gemm = self.fused.gemm;
        let scales_of = |before: Reg<u32>, [a_start, b_start]: [Reg<u64>; 2]| {
            let BlockScaleParameters { a, b, pitches: [a_pitch, b_pitch], .. } = scales;
            let of_a = GlobalScales { scales: a.at(a_start), pitch: a_pitch, before };
            let of_b = GlobalScales { scales: b.at(b_start), pitch: b_pitch, before: constant(0u32) };
            OperandScales::Blocks([of_a, of_b], bytes)
        };
        let of_number = |number: Reg<u32>| scales.strides.map(|stride| number.convert::<u64>() * stride);
        match self.batching {
            Batching::Single => {
                let scales = scales_of(constant(0u32), [constant(0u64); 2]);
                gemm.compute_scaled(a, b, scales, &|| *c, (m, n, k), &operation);
            }
            Batching::Batched => {
                let problem = block_idx().z * grid_dim().y + block_idx().y;
                let start = |stride: Reg<u64>| problem.convert::<u64>() * stride;
                let origin = Origin { row: problem * m, column: problem * n, element: start(c_stride) };
                if problem < count {
                    let (a, b, c) = (a.at(start(a_stride)), b.at(start(b_stride)), c.at(origin.element));
                    let scales = scales_of(constant(0u32), of_number(problem));
                    let operation = at_origin(&operation, origin);
                    gemm.compute_scaled(&a, &b, scales, &|| c, (m, n, k), &operation);
                }
            }
            Batching::AlongM => {
                let group = block_idx().y;
                let (begin, end) = (offsets.at(group).load(), offsets.at(group + 1).load());
                let [before, width, depth] = [begin, n, k].map(|value| value.convert::<u64>());
                let origin = Origin { row: begin, column: group * n, element: before * width };
                let (a, b) = (a.at(before * depth), b.at(group.convert::<u64>() * b_stride));
                let m = end - begin;
                if block_idx().x < gemm.tiles(m, n) {
                    let rows_of_c = || c.at(offsets.at(group).load().convert::<u64>() * width);
                    let scales = scales_of(begin, of_number(group));
                    let operation = at_origin(&operation, origin);
                    gemm.compute_scaled(&a, &b, scales, &rows_of_c, (m, n, k), &operation);
                }
            }
        }
    }
}

/// An operation for a problem that begins at `origin` in what all share.
fn at_origin<'o>(operation: &'o dyn EpilogueOp, origin: Origin) -> impl EpilogueOp + 'o {
    move |value: Reg<f32>, at: Coordinate| operation.apply(value, Coordinate { origin: Some(origin), ..at })
}
