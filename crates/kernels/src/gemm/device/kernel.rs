//! The entries of kernels that TMA feeds: a main loop, an epilogue and a kind of batching as one.

use warpwright::prelude::*;

use super::epilogue::{EpilogueOp, EpilogueParameters, Fused, FusedEpilogue};
use super::mainloop::tma::TmaGemm;
use super::problems::{GroupsAlongM, Problems, StridedBatch};
use super::store::{AccumulatorTile, TileStore};
use crate::gemm::problem::batching::{Batch, GemmProblem};
use crate::gemm::problem::types::{GemmOutput, Operand};

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
    pub(super) fn run<A: Operand, B: Operand, C: GemmOutput>(
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

/// What a launch computes.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct ProblemParameters {
    /// m, n and k, of groups along m those of all together; and the number of problems or groups.
    pub(super) extents: [Reg<u32>; 4],
    /// Elements from one C of a batch to the next.
    pub(super) c_stride: Reg<u64>,
    /// The first row of each group along m, and the number of all rows.
    pub(super) offsets: Global<u32>,
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

impl<E> WgmmaKernel<E> {
    /// `maps`: of A and B, and of their scales.
    #[kernel]
    pub(crate) fn gemm<A: Operand, B: Operand, C: GemmOutput, const MAPS: usize>(
        &self,
        maps: &TensorMaps<MAPS>,
        c_map: &mut TensorMap,
        c: &mut Global<C>,
        epilogue: EpilogueParameters<C>,
        parts: &mut Global<f32>,
        arrived: &mut Global<u32>,
        problem: ProblemParameters,
    ) where
        E: FusedEpilogue<C>,
    {
        self.0.run::<A, B, C>(&self.0.problems(maps, problem), c_map, c, epilogue, (parts, arrived));
    }
}

/// The `tcgen05` kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tcgen05Kernel<E>(pub(crate) TmaKernel<E>);

impl<E> Tcgen05Kernel<E> {
    /// `maps`: of A and B, and of their scales.
    #[kernel]
    pub(crate) fn gemm<A: Operand, B: Operand, C: GemmOutput, const MAPS: usize>(
        &self,
        maps: &TensorMaps<MAPS>,
        c_map: &mut TensorMap,
        c: &mut Global<C>,
        epilogue: EpilogueParameters<C>,
        parts: &mut Global<f32>,
        arrived: &mut Global<u32>,
        problem: ProblemParameters,
    ) where
        E: FusedEpilogue<C>,
    {
        self.0.run::<A, B, C>(&self.0.problems(maps, problem), c_map, c, epilogue, (parts, arrived));
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
    #[track_caller]
    fn problems<const MAPS: usize>(
        &self,
        maps: &TensorMaps<MAPS>,
        ProblemParameters { extents: [m, n, k, count], c_stride, offsets }: ProblemParameters,
    ) -> Problems {
        let [a, b] = [maps.at(0), maps.at(1)];
        let scales = (MAPS > 2).then(|| (maps.at(2), maps.at(3)));
        let one = Problems::one(&a, &b, (m, n, k)).with_scales(scales).of_own(self.own);
        let (capacity, transposed) = (self.capacity, self.fused.transposed);
        match self.batching {
            Batching::Single => one,
            Batching::Batched => one.in_batch(StridedBatch { count, c_stride }),
            Batching::AlongM => one.in_groups(GroupsAlongM { count, offsets, capacity, transposed }),
        }
    }
}
