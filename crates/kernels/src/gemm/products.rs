//! The products that one launch computes, and what a tile must know of its own: the extents, the factors, the place in C.
//!
//! Which kind they are of is known when the kernel is built: one product costs nothing for what several need.

use warpwright::lang::tensor::MappedMatrix;
use warpwright::prelude::*;

use super::epilogue::Origin;

/// The products of a launch.
#[derive(Clone, Copy)]
pub struct Products {
    /// The maps of A and B.
    maps: (TensorMap, TensorMap),
    /// (m, n, k).
    extents: (Reg<u32>, Reg<u32>, Reg<u32>),
    batch: Option<BatchAxis>,
}

/// Products of one shape, whose matrices lie one after another.
#[derive(Clone, Copy)]
pub struct BatchAxis {
    /// How many.
    pub count: Reg<u32>,
    /// Whether each has an A, and a B, of its own: the third axis of their maps.
    pub own: (bool, bool),
    /// Elements from one C to the next.
    pub c_stride: Reg<u64>,
}

#[device]
impl Products {
    /// A single one: C (m, n) = A (m, k) · B (k, n).
    pub fn one(a: &TensorMap, b: &TensorMap, extents: (Reg<u32>, Reg<u32>, Reg<u32>)) -> Self {
        Self { maps: (*a, *b), extents, batch: None }
    }

    /// Several of that shape.
    pub fn in_batch(self, batch: BatchAxis) -> Self {
        Self { batch: Some(batch), ..self }
    }

    /// Fetches the maps.
    pub(super) fn prefetch(&self) {
        self.maps.0.prefetch();
        self.maps.1.prefetch();
    }

    /// How many there are; `None` of a single one.
    pub(super) fn count(&self) -> Option<Reg<u32>> {
        self.batch.map(|batch| batch.count)
    }

    /// Rows and columns of a product's C, and its depth.
    pub(super) fn shape_of(&self, _: Option<Reg<u32>>) -> (Reg<u32>, Reg<u32>, Reg<u32>) {
        self.extents
    }

    /// Rows and columns of a product's C.
    pub(super) fn extents_of(&self, product: Option<Reg<u32>>) -> (Reg<u32>, Reg<u32>) {
        let (m, n, _) = self.shape_of(product);
        (m, n)
    }

    /// A and B of a product.
    pub(super) fn factors(&self, product: Option<Reg<u32>>) -> (MappedMatrix, MappedMatrix) {
        let own = self.batch.map_or((false, false), |batch| batch.own);
        let factor = |map: &TensorMap, own: bool| {
            let factor = MappedMatrix::from(map);
            product.filter(|_| own).map_or(factor, |product| factor.numbered(product))
        };
        (factor(&self.maps.0, own.0), factor(&self.maps.1, own.1))
    }

    /// C of a product, as TMA writes it.
    pub(super) fn boxes(&self, c: &TensorMap, product: Option<Reg<u32>>) -> MappedMatrix {
        let all = MappedMatrix::from(c);
        product.map_or(all, |product| all.numbered(product))
    }

    /// C of a product, as threads write it.
    pub(super) fn elements<C: Element>(&self, c: &Global<C>, product: Option<Reg<u32>>) -> Global<C> {
        self.origin(product).map_or(*c, |origin| c.at(origin.element))
    }

    /// Where a product begins in what all share.
    pub(super) fn origin(&self, product: Option<Reg<u32>>) -> Option<Origin> {
        let (product, batch) = product.zip(self.batch)?;
        let (m, n, _) = self.extents;
        let element = product.convert::<u64>() * batch.c_stride;
        Some(Origin { row: product * m, column: product * n, element })
    }
}
