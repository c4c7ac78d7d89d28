//! The kernels' entries: a main loop, an epilogue and a kind of batching as one.

use std::hash::Hash;
use std::marker::PhantomData;

use warpwright::lang::parameter::KernelParameter;
use warpwright::prelude::*;

use super::epilogue::{Coordinate, EpilogueInputs, EpilogueOp, Fused, FusedEpilogue, Origin};
use super::mainloop::mma_sync::MmaSyncGemm;
use super::mainloop::wgmma::{CONSUMERS, WgmmaGemm};
use super::problems::{GroupsAlongM, Problems, StridedBatch};
use super::store::{AccumulatorTile, CutStore, RegisterStore, TmaStore};
use crate::gemm::problem::epilogue::NUMBERS;
use crate::gemm::problem::scales::{BlockScaled, Unscaled};
use crate::gemm::problem::types::{GemmOutput, MmaSyncOperand, Operand};

/// Block scales or none, as a kernel's parameters.
pub trait ScaleKind: Copy + Eq + Hash + Send + Sync + 'static {
    /// The parameters.
    type Parameters: KernelParameter<Value = Self::Parameters> + DeviceValue + Copy;

    /// The maps of A's and B's scales.
    fn maps(parameters: Self::Parameters) -> Option<(TensorMap, TensorMap)>;
}

/// No parameters.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub struct NoParameters;

/// The maps of the scales of A and of B.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub struct ScaleMaps {
    a: TensorMap,
    b: TensorMap,
}

impl ScaleKind for Unscaled {
    type Parameters = NoParameters;

    fn maps(_: NoParameters) -> Option<(TensorMap, TensorMap)> {
        None
    }
}

impl ScaleKind for BlockScaled {
    type Parameters = ScaleMaps;

    fn maps(ScaleMaps { a, b }: ScaleMaps) -> Option<(TensorMap, TensorMap)> {
        Some((a, b))
    }
}

/// A kind of batching, as a kernel is built for it.
pub(in crate::gemm) trait BatchKind: Copy + Eq + Hash + Send + Sync + 'static {
    /// The parameters of a launch.
    type Parameters: KernelParameter<Value = Self::Parameters> + DeviceValue + Copy;

    /// The problems of a launch, of which `one` has the operands and extents. `transposed`: the kernel computes C's transpose.
    fn problems(self, one: Problems, parameters: Self::Parameters, transposed: bool) -> Problems;
}

/// A single problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gemm) struct Single;

impl BatchKind for Single {
    type Parameters = NoParameters;

    fn problems(self, one: Problems, _: NoParameters, _: bool) -> Problems {
        one
    }
}

/// Problems of one shape at constant strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gemm) struct Batched {
    /// Whether each has an A, and a B, of its own.
    pub(in crate::gemm) own: (bool, bool),
}

/// The number of problems, and the elements from one C to the next.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(in crate::gemm) struct BatchParameters {
    count: Reg<u32>,
    c_stride: Reg<u64>,
}

impl BatchKind for Batched {
    type Parameters = BatchParameters;

    fn problems(self, one: Problems, parameters: BatchParameters, transposed: bool) -> Problems {
        let (BatchParameters { count, c_stride }, (a, b)) = (parameters, self.own);
        let own = if transposed { (b, a) } else { (a, b) };
        one.in_batch(StridedBatch { count, own, c_stride })
    }
}

/// Groups along m, each with a B of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gemm) struct AlongM {
    /// The most groups.
    pub(in crate::gemm) capacity: u32,
}

/// Where the groups begin, and how many there are.
#[derive(Clone, Copy, DeviceValue)]
pub(in crate::gemm) struct GroupParameters {
    offsets: Global<u32>,
    count: Reg<u32>,
}

impl KernelParameter for GroupParameters {
    type Host = (<&'static Global<u32> as KernelParameter>::Host, u32);
    type Value = Self;

    #[track_caller]
    fn declare(name: &str) -> Self {
        let offsets = <&Global<u32>>::declare(&format!("{name}_offsets"));
        Self { offsets, count: u32::declare(&format!("{name}_count")) }
    }
}

impl BatchKind for AlongM {
    type Parameters = GroupParameters;

    fn problems(self, one: Problems, parameters: GroupParameters, transposed: bool) -> Problems {
        let GroupParameters { offsets, count } = parameters;
        one.in_groups(GroupsAlongM { count, offsets, capacity: self.capacity, transposed })
    }
}

impl WgmmaGemm {
    /// C = A·B, each tile through `epilogue`, stored by TMA: C's contiguous extent is a multiple of 16 bytes. Tiles that reach
    /// into the next group along m are stored from registers, to `elements`.
    #[device]
    pub(in crate::gemm) fn store_tma<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        problems: &Problems,
        (c, elements): (&TensorMap, Option<&Global<C>>),
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: impl Fn(&mut AccumulatorTile),
    ) {
        let store = CutStore { tma: TmaStore::<C>::new(self.tile.1, self.c, CONSUMERS), map: c, c: elements };
        self.compute::<A, B>(problems, workspace, |tile| {
            epilogue(tile);
            store.store(problems, tile);
        });
        bulk_wait_read(0);
    }

    /// C = A·B, each tile through `epilogue`, stored from registers: any C.
    #[device]
    pub(in crate::gemm) fn store_registers<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        problems: &Problems,
        c: &Global<C>,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: impl Fn(&mut AccumulatorTile),
    ) {
        self.compute::<A, B>(problems, workspace, |tile| {
            epilogue(tile);
            let (c, extents) = (problems.elements(c, tile.problem), problems.extents_of(tile.problem));
            RegisterStore { c, extents, layout: self.c }.store(tile);
        });
    }

    /// C = A·B of a single problem, stored by TMA: for kernels of one's own.
    #[device]
    pub fn run_with<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        problems: &Problems,
        c: &TensorMap,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: &impl EpilogueOp,
    ) {
        let apply = |tile: &mut AccumulatorTile| tile.apply(epilogue, problems);
        self.store_tma::<A, B, C>(problems, (c, None), workspace, apply);
    }
}

/// The kernel by `wgmma` with an epilogue, a kind of batching and of block scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gemm) struct WgmmaKernel<E, K, S> {
    pub(in crate::gemm) fused: Fused<WgmmaGemm, E>,
    pub(in crate::gemm) batching: K,
    pub(in crate::gemm) scales: PhantomData<S>,
}

impl<E, K: BatchKind, S: ScaleKind> WgmmaKernel<E, K, S> {
    /// The problems of a launch.
    fn problems(
        &self,
        (a, b): (&TensorMap, &TensorMap),
        extents: (Reg<u32>, Reg<u32>, Reg<u32>),
        scales: S::Parameters,
        batching: K::Parameters,
    ) -> Problems {
        let one = Problems::one(a, b, extents).with_scales(S::maps(scales));
        self.batching.problems(one, batching, self.fused.transposed)
    }

    /// With C stored by TMA.
    #[kernel]
    pub(in crate::gemm) fn tma<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        scales: S::Parameters,
        c_map: &TensorMap,
        c: &mut Global<C>,
        matrix: &Global<C>,
        numbers: [f32; NUMBERS],
        rows: &Global<f32>,
        columns: &Global<f32>,
        more_columns: &Global<f32>,
        parts: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
        batching: K::Parameters,
    ) where
        E: FusedEpilogue<C>,
    {
        let vectors = [rows, columns, more_columns];
        let inputs = EpilogueInputs::new(self.fused.present, numbers, vectors, [matrix, c]);
        let operation = self.fused.operation(inputs);
        let problems = self.problems((a, b), (m, n, k), scales, batching);
        let apply = |tile: &mut AccumulatorTile| tile.apply(&operation, &problems);
        self.fused.gemm.store_tma::<A, B, C>(&problems, (c_map, Some(c)), (parts, arrived), apply);
    }

    /// With C stored from registers.
    #[kernel]
    pub(in crate::gemm) fn registers<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        scales: S::Parameters,
        c: &mut Global<C>,
        matrix: &Global<C>,
        numbers: [f32; NUMBERS],
        rows: &Global<f32>,
        columns: &Global<f32>,
        more_columns: &Global<f32>,
        parts: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
        batching: K::Parameters,
    ) where
        E: FusedEpilogue<C>,
    {
        let vectors = [rows, columns, more_columns];
        let inputs = EpilogueInputs::new(self.fused.present, numbers, vectors, [matrix, c]);
        let operation = self.fused.operation(inputs);
        let problems = self.problems((a, b), (m, n, k), scales, batching);
        let apply = |tile: &mut AccumulatorTile| tile.apply(&operation, &problems);
        self.fused.gemm.store_registers::<A, B, C>(&problems, c, (parts, arrived), apply);
    }
}

impl<E> Fused<MmaSyncGemm, E> {
    /// A single problem.
    #[kernel]
    pub(in crate::gemm) fn single<A: MmaSyncOperand, B: MmaSyncOperand, C: GemmOutput>(
        &self,
        a: &Global<A>,
        b: &Global<B>,
        c: &mut Global<C>,
        matrix: &Global<C>,
        numbers: [f32; NUMBERS],
        rows: &Global<f32>,
        columns: &Global<f32>,
        more_columns: &Global<f32>,
        m: u32,
        n: u32,
        k: u32,
    ) where
        E: FusedEpilogue<C>,
    {
        let vectors = [rows, columns, more_columns];
        let operation = self.operation(EpilogueInputs::new(self.present, numbers, vectors, [matrix, c]));
        self.gemm.compute(a, b, || *c, (m, n, k), &operation);
    }

    /// A batch: the problem of this CTA's row of the grid.
    #[kernel]
    pub(in crate::gemm) fn batch<A: MmaSyncOperand, B: MmaSyncOperand, C: GemmOutput>(
        &self,
        a: &Global<A>,
        b: &Global<B>,
        c: &mut Global<C>,
        matrix: &Global<C>,
        numbers: [f32; NUMBERS],
        rows: &Global<f32>,
        columns: &Global<f32>,
        more_columns: &Global<f32>,
        m: u32,
        n: u32,
        k: u32,
        strides: [u64; 3],
        count: u32,
    ) where
        E: FusedEpilogue<C>,
    {
        let vectors = [rows, columns, more_columns];
        let operation = self.operation(EpilogueInputs::new(self.present, numbers, vectors, [matrix, c]));
        let problem = block_idx().z * grid_dim().y + block_idx().y;
        let [a_start, b_start, c_start] = strides.map(|stride| problem.convert::<u64>() * stride);
        let origin = Origin { row: problem * m, column: problem * n, element: c_start };
        let operation = |value: Reg<f32>, at: Coordinate| {
            operation.apply(value, Coordinate { origin: Some(origin), ..at })
        };
        if problem < count {
            let (a, b, c) = (a.at(a_start), b.at(b_start), c.at(c_start));
            self.gemm.compute(&a, &b, || c, (m, n, k), &operation);
        }
    }

    /// Groups along m: the group of this CTA's row of the grid, and the tile that the CTA's column numbers, if there is one.
    #[kernel]
    pub(in crate::gemm) fn along_m<A: MmaSyncOperand, B: MmaSyncOperand, C: GemmOutput>(
        &self,
        a: &Global<A>,
        b: &Global<B>,
        c: &mut Global<C>,
        matrix: &Global<C>,
        numbers: [f32; NUMBERS],
        rows: &Global<f32>,
        columns: &Global<f32>,
        more_columns: &Global<f32>,
        n: u32,
        k: u32,
        offsets: &Global<u32>,
    ) where
        E: FusedEpilogue<C>,
    {
        let vectors = [rows, columns, more_columns];
        let operation = self.operation(EpilogueInputs::new(self.present, numbers, vectors, [matrix, c]));
        let group = block_idx().y;
        let (begin, end) = (offsets.at(group).load(), offsets.at(group + 1).load());
        let [before, width, depth, number] = [begin, n, k, group].map(|value| value.convert::<u64>());
        let origin = Origin { row: begin, column: group * n, element: before * width };
        let operation = |value: Reg<f32>, at: Coordinate| {
            operation.apply(value, Coordinate { origin: Some(origin), ..at })
        };
        let (a, b) = (a.at(before * depth), b.at(number * width * depth));
        let m = end - begin;
        let tiles = self.gemm.tiles(m, n);
        if block_idx().x < tiles {
            let rows_of_c = || c.at(offsets.at(group).load().convert::<u64>() * width);
            self.gemm.compute(&a, &b, rows_of_c, (m, n, k), &operation);
        }
    }
}
