//! Factors that TMA or `wgmma` cannot take, and the copies of them that they can.
//!
//! TMA reads matrices that begin, and whose rows begin, at multiples of 16 bytes, and `wgmma` wants k contiguous in factors of other than 16
//! bits. (PTX ISA, "Tensor Memory Access" and "wgmma.mma_async".) A factor that is not so is copied first: with a gap after each row,
//! or transposed. The matrices of a batch are copied by one launch.
//!
//! ```text
//! bf16, rows of 5:                aaaaabbb bbcccccd dddd       tf32, k down the columns:    a d g
//! padded, a row in 16 bytes:      aaaaa... bbbbb... ccccc...   transposed and padded:       a b c .
//!                                                              (rows of 3, of 16 bytes)     d e f .
//! ```
//!
//! The gaps are never read: the tensor map has the matrix's own extents and the copy's pitch, and TMA fills what a box has
//! beyond the extents with zeros. So the copies leave the gaps as they are. Buffers begin at multiples of 256 bytes on every device; only
//! rows can be out of step.

use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, LaunchCounts, Storable, Stream, TileMaps};

use super::batched::Batch;
use super::cost;
use super::factor_copy::FactorCopy;
use super::hopper::HopperGemm;
use super::multiply::{Product, extents, legal};
use super::plan::Configuration;
use super::{Order, WarpgroupInput};
use crate::operations::{Operations, Result, Scratch, both};

/// How a batch is made readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Readable {
    /// The batch of what TMA reads: k is contiguous in what was transposed, and the strides are those of the copies.
    pub(super) batch: Batch,
    /// The copies of all A and of all B; `None` of what can be read as it is.
    copies: [Option<FactorCopy>; 2],
}

impl Readable {
    /// What `T`'s batch is read as.
    pub(super) fn of<T: Element>(batch: Batch) -> Self {
        let Product { m, n, k, a, b } = batch.product;
        // A factor with `extent` rows or columns besides k, and whether k is contiguous.
        let copy = |extent: u32, k_contiguous: bool, matrices: (u32, u64)| match k_contiguous {
            true => FactorCopy::of((extent, k), matrices, false, T::BYTES),
            false => FactorCopy::of((k, extent), matrices, T::BYTES != 2, T::BYTES),
        };
        let [a_matrices, b_matrices] = batch.matrices();
        let copies =
            [copy(m, a == Order::RowMajor, a_matrices), copy(n, b == Order::ColumnMajor, b_matrices)];
        let transposes = copies.map(|copy| copy.is_some_and(|copy| copy.transposes));
        // A factor that all share still has no stride.
        let stride = |copy: Option<FactorCopy>, stride: u64| match copy {
            Some(copy) if copy.matrices > 1 => copy.matrix(),
            _ => stride,
        };
        let product = Product {
            a: if transposes[0] { Order::RowMajor } else { a },
            b: if transposes[1] { Order::ColumnMajor } else { b },
            ..batch.product
        };
        let (a_stride, b_stride) = (stride(copies[0], batch.a_stride), stride(copies[1], batch.b_stride));
        Self { batch: Batch { product, a_stride, b_stride, ..batch }, copies }
    }

    /// The Hopper kernel of a configuration that reads it: where that computes C's transpose, this is the batch of the transposes.
    pub(super) fn kernel<T: Element, C: Element>(self, configuration: Configuration) -> HopperGemm {
        let product = self.batch.product;
        if configuration.transposed { product.transposed() } else { product }.kernel::<T, C>(configuration)
    }

    /// Whether nothing is copied.
    pub(super) fn as_it_is(self) -> bool {
        self.copies == [None; 2]
    }

    /// Cycles that the copies take.
    pub(super) fn cycles<T: Element>(self) -> f64 {
        self.copies.into_iter().flatten().map(|copy| cost::copy_cycles(copy.bytes(T::BYTES))).sum()
    }

    /// What is copied, a line each.
    pub(super) fn describe(self) -> Vec<String> {
        let named = ["A", "B"].into_iter().zip(self.copies);
        named.filter_map(|(factor, copy)| Some(copy?.describe(factor))).collect()
    }
}

/// A factor, as a kernel reads it: its copy, if it must have one, and the tensor maps.
struct ReadFactor<T> {
    copy: Option<FactorCopy>,
    maps: TileMaps<T>,
}

impl<T: Storable> ReadFactor<T> {
    /// The factor of `extent` rows or columns besides k, which TMA loads in boxes of a tile; `matrices` of one of which each product has
    /// its own, how many and elements from one to the next: then the maps have a third axis.
    fn new(
        (extent, k): (u32, u32),
        matrices: Option<(u32, u64)>,
        copy: Option<FactorCopy>,
        tile: Result<TmaTile, warpwright::layout::Error>,
    ) -> Result<Self> {
        let (matrix, tile) = (extents(extent, k), legal(tile)?);
        let maps = match matrices {
            Some((count, stride)) => TileMaps::of_many(matrix, (count.into(), stride), &tile)?,
            None => TileMaps::new(matrix, &tile)?,
        };
        let maps = match copy {
            Some(copy) => maps.pitched(copy.pitch.into()),
            None => maps,
        };
        Ok(Self { copy, maps })
    }

    /// The map of a factor, or of the copy that is made of it in `scratch`.
    ///
    /// # Errors
    /// The map's or the copy's.
    fn map(
        &self,
        operations: &Operations,
        stream: &Stream,
        factor: &Buffer<T>,
        scratch: &mut Scratch<T>,
    ) -> Result<(runtime::TensorMap, LaunchCounts)> {
        let Some(copy) = self.copy else { return Ok((self.maps.of(factor)?, LaunchCounts::default())) };
        let copied = scratch.at_least(operations.device(), copy.length())?;
        let counts = copy.launch(operations, stream, factor, copied)?;
        Ok((self.maps.of(copied)?, counts))
    }
}

/// Both factors of a batch, as a kernel reads them.
pub(super) struct Factors<A, B> {
    a: ReadFactor<A>,
    b: ReadFactor<B>,
}

/// The copies of A and of B.
pub(super) struct CopyScratch<A, B>(Scratch<A>, Scratch<B>);

impl<A, B> Default for CopyScratch<A, B> {
    fn default() -> Self {
        Self(Scratch::default(), Scratch::default())
    }
}

impl<A: WarpgroupInput + Storable, B: WarpgroupInput + Storable> Factors<A, B> {
    /// For a kernel of what is read; where products have an A, or a B, of their own, its maps have a third axis.
    ///
    /// # Errors
    /// No tensor map has the kernel's tiles.
    pub(super) fn new(
        Readable { batch, copies: [a_copy, b_copy] }: Readable,
        own: (bool, bool),
        kernel: &HopperGemm,
    ) -> Result<Self> {
        let Product { m, n, k, .. } = batch.product;
        let [a_matrices, b_matrices] = batch.matrices();
        Ok(Self {
            a: ReadFactor::new((m, k), own.0.then_some(a_matrices), a_copy, kernel.a_tile::<A>())?,
            b: ReadFactor::new((n, k), own.1.then_some(b_matrices), b_copy, kernel.b_tile::<B>())?,
        })
    }

    /// Calls `launch` with the maps of A and B, once what is copied has been.
    ///
    /// # Errors
    /// A map's, a copy's or `launch`'s.
    pub(super) fn mapped(
        &self,
        operations: &Operations,
        stream: &Stream,
        factors: (&Buffer<A>, &Buffer<B>),
        launch: impl FnOnce([runtime::TensorMap; 2]) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        if self.a.copy.is_none() && self.b.copy.is_none() {
            let (maps, _) = self.maps(operations, stream, factors, &mut CopyScratch::default())?;
            return launch(maps);
        }
        operations.with_scratch(stream, |scratch: &mut CopyScratch<A, B>| {
            let (maps, counts) = self.maps(operations, stream, factors, scratch)?;
            Ok(both(counts, launch(maps)?))
        })
    }

    /// The maps of A and B; copies are made in `scratch`, where there must be some.
    ///
    /// # Errors
    /// A map's or a copy's.
    pub(super) fn maps(
        &self,
        operations: &Operations,
        stream: &Stream,
        (a, b): (&Buffer<A>, &Buffer<B>),
        CopyScratch(a_scratch, b_scratch): &mut CopyScratch<A, B>,
    ) -> Result<([runtime::TensorMap; 2], LaunchCounts)> {
        let (a, a_counts) = self.a.map(operations, stream, a, a_scratch)?;
        let (b, b_counts) = self.b.map(operations, stream, b, b_scratch)?;
        Ok(([a, b], both(a_counts, b_counts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_read_is_copied() {
        let both = [Order::RowMajor, Order::ColumnMajor];
        for (m, n, k) in [(1, 1, 1), (8, 16, 24), (33, 65, 17), (64, 48, 7), (16, 4, 32)] {
            for (a, b) in [(both[0], both[0]), (both[0], both[1]), (both[1], both[0]), (both[1], both[1])] {
                let product = Product { m, n, k, a, b };
                let aligned = |run: u32, bytes: u32| (run * bytes).is_multiple_of(16);
                let a_run = if a == Order::RowMajor { k } else { m };
                let b_run = if b == Order::ColumnMajor { k } else { n };
                let halves = Readable::of::<bf16>(product.into());
                assert_eq!(halves.batch.product, product);
                assert_eq!(halves.copies.map(|copy| copy.is_none()), [aligned(a_run, 2), aligned(b_run, 2)]);
                let words = Readable::of::<tf32>(product.into());
                assert_eq!(
                    (words.batch.product.a, words.batch.product.b),
                    (Order::RowMajor, Order::ColumnMajor)
                );
                let as_they_are =
                    [a == Order::RowMajor && aligned(k, 4), b == Order::ColumnMajor && aligned(k, 4)];
                assert_eq!(words.copies.map(|copy| copy.is_none()), as_they_are);
                for copy in halves.copies.into_iter().flatten() {
                    assert!(aligned(copy.pitch, 2) && copy.pitch - copy.run < 8 && !copy.transposes);
                }
                for copy in words.copies.into_iter().flatten() {
                    assert!(aligned(copy.pitch, 4) && copy.pitch - k < 4);
                }
            }
        }
    }
}
