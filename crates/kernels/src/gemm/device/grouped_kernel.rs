//! The entry of the kernel for problems of unlike extents.

use warpwright::prelude::*;

use super::epilogue::Fused;
use super::mainloop::tma::TmaGemm;
use super::problems::{ProblemTable, Problems};
use super::store::AccumulatorTile;
use crate::gemm::problem::epilogue::LinearParts;
use crate::gemm::problem::scales::Scaling;
use crate::gemm::problem::types::{GemmOutput, Operand};

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
        let is_scaled = self.fused.gemm.types.scaling != Scaling::None;
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
