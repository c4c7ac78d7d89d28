//! A GEMM of any kind and what becomes of its sums, as one; and the kernel of a single product by `mma.sync`.

use warpwright::prelude::*;

use super::epilogue::{Epilogue, Place};
use super::finish::{FusedEpilogue, Kinds, NUMBERS, Terms};
use super::{Gemm, GemmInput, GemmOutput};

/// A GEMM with an epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fused<G, E> {
    pub(super) gemm: G,
    pub(super) epilogue: E,
    /// What the epilogue is given.
    pub(super) kinds: Kinds,
    /// Whether the kernel computes C's transpose.
    pub(super) transposed: bool,
}

impl<G, E> Fused<G, E> {
    /// The epilogue for the kernel's own places, from a kernel's parameters: the numbers; those of rows and columns; the matrix, and C.
    pub(super) fn finish<C: GemmOutput>(
        &self,
        numbers: [Reg<f32>; NUMBERS],
        vectors: [&Global<f32>; 3],
        matrices: [&Global<C>; 2],
    ) -> impl Epilogue
    where
        E: FusedEpilogue<C>,
    {
        self.finish_by(Terms::new(self.kinds, numbers, vectors, matrices))
    }

    /// The epilogue for the kernel's own places.
    pub(super) fn finish_by<C: GemmOutput>(&self, given: Terms<C>) -> impl Epilogue
    where
        E: FusedEpilogue<C>,
    {
        let (epilogue, transposed) = (self.epilogue.epilogue(given), self.transposed);
        move |sum: Reg<f32>, at: Place| epilogue.apply(sum, if transposed { at.transposed() } else { at })
    }
}

impl<E> Fused<Gemm, E> {
    #[kernel]
    pub(super) fn run<T: GemmInput, C: GemmOutput>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
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
        let epilogue = self.finish(numbers, [rows, columns, more_columns], [matrix, c]);
        self.gemm.compute(a, b, c, (m, n, k), &epilogue);
    }
}
