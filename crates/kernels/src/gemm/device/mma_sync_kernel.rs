//! The entry of the `mma.sync` kernel: the main loop, an epilogue and a kind of batching as one.

use warpwright::prelude::*;

use super::epilogue::{Coordinate, EpilogueOp, EpilogueParameters, Fused, FusedEpilogue, Origin};
use super::kernel::{Batching, ProblemParameters};
use super::mainloop::mma_sync::{MmaSyncGemm, MmaSyncOperand};
use crate::gemm::problem::types::{GemmOutput, Operand};

/// The `mma.sync` kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MmaSyncKernel<E> {
    pub(crate) fused: Fused<MmaSyncGemm, E>,
    pub(crate) batching: Batching,
}

/// An operand that threads copy, and its scales.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct OperandParameters<T: Element> {
    values: Global<T>,
    scales: Global<u32>,
    /// Scales from one block of k to the next, or of tiles of them from one row of tiles to the next.
    pitch: Reg<u32>,
    /// Elements in memory, and scales, from those of one problem to those of the next.
    strides: [Reg<u64>; 2],
}

#[device]
impl<T: Element> OperandParameters<T> {
    /// The operand of the first problem, with the rows of all problems.
    fn first(&self) -> MmaSyncOperand<T> {
        MmaSyncOperand { values: self.values, scales: self.scales, pitch: self.pitch, before: None }
    }

    /// The operand of a problem.
    fn of(&self, problem: Reg<u32>) -> MmaSyncOperand<T> {
        let [values, scales] = self.strides.map(|stride| problem.convert::<u64>() * stride);
        MmaSyncOperand { values: self.values.at(values), scales: self.scales.at(scales), ..self.first() }
    }
}

impl<E> MmaSyncKernel<E> {
    /// The CTA's problem is that of its row of the grid, and its tile the one that its column
    /// numbers, if there is one.
    #[kernel]
    pub(crate) fn gemm<A: Operand, B: Operand, C: GemmOutput>(
        &self,
        a: OperandParameters<A>,
        b: OperandParameters<B>,
        c: &mut Global<C>,
        epilogue: EpilogueParameters<C>,
        problem: ProblemParameters,
    ) where
        E: FusedEpilogue<C>,
    {
        let operation = self.fused.operation(epilogue, *c);
        let ProblemParameters { extents: [m, n, k, count], c_stride, offsets } = problem;
        let gemm = self.fused.gemm;
        match self.batching {
            Batching::Single => gemm.multiply(&a.first(), &b.first(), &|| *c, (m, n, k), &operation),
            Batching::Batched => {
                let problem = block_idx().z * grid_dim().y + block_idx().y;
                let element = problem.convert::<u64>() * c_stride;
                let operation =
                    at_origin(&operation, Origin { row: problem * m, column: problem * n, element });
                if problem < count {
                    let c = c.at(element);
                    gemm.multiply(&a.of(problem), &b.of(problem), &|| c, (m, n, k), &operation);
                }
            }
            Batching::AlongM => {
                let group = block_idx().y;
                let (begin, end) = (offsets.at(group).load(), offsets.at(group + 1).load());
                let first = |row: Reg<u32>, width: Reg<u32>| row.convert::<u64>() * width.convert::<u64>();
                let origin = Origin { row: begin, column: group * n, element: first(begin, n) };
                let a = a.first().rows_from(begin, gemm.pitch(k));
                let m = end - begin;
                if block_idx().x < gemm.tiles(m, n) {
                    let rows_of_c = || c.at(first(offsets.at(group).load(), n));
                    gemm.multiply(&a, &b.of(group), &rows_of_c, (m, n, k), &at_origin(&operation, origin));
                }
            }
        }
    }
}

/// An operation for a problem that begins at `origin` in what all share.
fn at_origin<'o>(operation: &'o dyn EpilogueOp, origin: Origin) -> impl EpilogueOp + 'o {
    move |value: Reg<f32>, at: Coordinate| operation.apply(value, Coordinate { origin: Some(origin), ..at })
}
