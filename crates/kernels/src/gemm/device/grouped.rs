//! The kernels of problems with unlike extents: all but the main loop is read from a table.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::epilogue::Fused;
use super::kernel::ScaleKind;
use super::mainloop::wgmma::WgmmaGemm;
use super::problems::{ProblemTable, Problems};
use super::store::AccumulatorTile;
use crate::gemm::problem::epilogue::LinearParts;
use crate::gemm::problem::types::{GemmOutput, Operand};

/// The kernel for problems of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gemm) struct GroupedKernel<S> {
    pub(in crate::gemm) fused: Fused<WgmmaGemm, LinearParts>,
    /// The most problems.
    pub(in crate::gemm) capacity: u32,
    pub(in crate::gemm) scales: PhantomData<S>,
}

impl<S: ScaleKind> GroupedKernel<S> {
    fn table(&self, records: &Global<u8>, count: Reg<u32>) -> ProblemTable {
        let is_scaled = self.fused.gemm.scales.is_some();
        ProblemTable { records: *records, count, capacity: self.capacity, is_scaled }
    }

    /// Applies the epilogue operation of a tile's problem.
    #[device]
    fn apply<C: GemmOutput>(&self, table: &ProblemTable, problems: &Problems, tile: &mut AccumulatorTile) {
        if let Some(problem) = tile.problem {
            let inputs = table.inputs::<C>(problem, self.fused.present);
            tile.apply(&self.fused.operation(inputs), problems);
        }
    }

    /// With every C stored by TMA. The maps of C are in the table, and no tile is split, so that there is no workspace.
    #[kernel]
    pub(in crate::gemm) fn tma<A: Operand, B: Operand, C: GemmOutput>(&self, table: &Global<u8>, count: u32) {
        let records = self.table(table, count);
        let problems = Problems::of_table(records);
        let (c, workspace) = (TensorMap::in_global(*table), (&table.cast(), &table.cast()));
        let apply = |tile: &mut AccumulatorTile| self.apply::<C>(&records, &problems, tile);
        self.fused.gemm.store_tma::<A, B, C>(&problems, (&c, None), workspace, apply);
    }

    /// With every C stored from registers.
    #[kernel]
    pub(in crate::gemm) fn registers<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        table: &Global<u8>,
        count: u32,
    ) {
        let records = self.table(table, count);
        let problems = Problems::of_table(records);
        let workspace = (&table.cast(), &table.cast());
        let apply = |tile: &mut AccumulatorTile| self.apply::<C>(&records, &problems, tile);
        self.fused.gemm.store_registers::<A, B, C>(&problems, &table.cast(), workspace, apply);
    }
}
