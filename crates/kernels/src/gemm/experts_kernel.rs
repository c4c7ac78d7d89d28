//! The kernel of [`Experts`] by `mma.sync`: groups of rows that the device counts, each times a matrix of its own.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, LaunchCounts, Storable, Stream};

use super::epilogue::{Epilogue, Origin, Place};
use super::experts::Experts;
use super::finish::{Finish, FusedEpilogue, NUMBERS};
use super::fused::Fused;
use super::linear::Linear;
use super::multiply::{Factor, Operands, Product, no_matrix};
use super::ready::Workspace;
use super::warps::Warps;
use super::{Gemm, GemmInput, GemmOutput};
use crate::operations::{Operations, Result};

impl<E> Fused<Gemm, E> {
    /// The group of this CTA's row of the grid: the tile of it that the CTA's column numbers, if it has so many.
    #[kernel]
    fn run_rows<T: GemmInput, C: GemmOutput>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
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
        let epilogue = self.finish(numbers, [rows, columns, more_columns], [matrix, c]);
        let group = block_idx().y;
        let (begin, end) = (offsets.at(group).load(), offsets.at(group + 1).load());
        let [before, width, depth, number] = [begin, n, k, group].map(|value| value.convert::<u64>());
        let origin = Origin { row: begin, column: group * n, element: before * width };
        let epilogue = |sum: Reg<f32>, at: Place| epilogue.apply(sum, Place { origin: Some(origin), ..at });
        let (a, b) = (a.at(before * depth), b.at(number * width * depth));
        let m = end - begin;
        let tiles = self.gemm.tiles(m, n);
        if block_idx().x < tiles {
            let rows_of_c = || c.at(offsets.at(group).load().convert::<u64>() * width);
            self.gemm.compute_into(&a, &b, rows_of_c, (m, n, k), &epilogue);
        }
    }
}

/// The kernel by `mma.sync` for groups of such products.
fn warps_kernel<C, E: FusedEpilogue<C>>(
    product: Product,
    warps: Warps,
    finish: &Finish<'_, C, E>,
) -> Fused<Gemm, E> {
    finish.fused(Gemm { exact: false, ..Gemm::for_batch(product.into(), warps) }, false)
}

/// The PTX of it.
pub(super) fn warps_ptx<T: GemmInput, C: GemmOutput>(
    product: Product,
    capability: &'static Capability,
) -> Result<String> {
    Ok(runtime::ptx(
        &warps_kernel::<C, _>(product, Warps::default(), &Linear::default().finish()).run_rows::<T, C>()?,
        capability,
    )?)
}

/// By `mma.sync`.
pub(super) fn by_warps<T: Factor + GemmInput, C: GemmOutput + Storable, E: FusedEpilogue<C>>(
    operations: &Operations,
    stream: &Stream,
    (experts, warps): (&Experts<'_>, Warps),
    Operands { a, b, c, finish }: Operands<'_, T, T, C, E>,
) -> Result<LaunchCounts> {
    let Experts { offsets, n, k, .. } = *experts;
    let rows = experts.rows(a);
    let fused = warps_kernel(experts.product(rows), warps, finish);
    // Any group may have all rows.
    let grid = (fused.gemm.grid(rows, n), experts.count());
    let compiled = operations.kernel(fused, Fused::<Gemm, E>::run_rows::<T, C>)?;
    let nothing = no_matrix(operations)?;
    let matrix = finish.matrix.unwrap_or(&nothing);
    operations.with_scratch(stream, |workspace: &mut Workspace| {
        let [rows, columns, more] = finish.vectors(workspace.nothing(operations)?);
        let arguments = (a, b, c, matrix, finish.numbers, rows, columns, more, n, k, offsets);
        Ok(compiled.launch(stream, grid, arguments)?)
    })
}
