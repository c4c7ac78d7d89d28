//! What the GEMMs by warpgroups have in common: the kernels that put a tile's sums through an epilogue and store them, for one product
//! or several.

use std::hash::Hash;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime;

use super::finish::{FusedEpilogue, NUMBERS};
use super::fused::Fused;
use super::hopper::{CONSUMERS, HopperGemm};
use super::kinds::{Kind, Scales};
use super::products::Products;
use super::store::{BoxStore, ElementStore, Finished};
use super::{GemmOutput, WarpgroupInput};
use crate::operations::Result;

/// A GEMM by warpgroups.
pub(super) trait WarpgroupGemm: Copy + Eq + Hash + Send + Sync + 'static {
    /// What a kernel is given beside A and B.
    type Scales: Scales;

    /// Its tiles, cluster, ring and order of the walk.
    fn frame(&self) -> &HopperGemm;

    /// Computes this CTA's tiles, and hands each to `finish`. Where tiles are split, their parts meet in `workspace`.
    fn compute<A: WarpgroupInput, B: WarpgroupInput>(
        &self,
        products: &Products,
        scales: Self::Scales,
        workspace: (&Global<f32>, &Global<u32>),
        finish: impl Fn(&mut Finished),
    );

    /// C = A·B, stored by TMA, which C's contiguous extent must be a multiple of 16 bytes for; and from registers, where the rows of a tile reach
    /// into the next product's. Each tile goes through `epilogue` first.
    #[device]
    fn into_boxes<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        (products, scales): (&Products, Self::Scales),
        (boxes, elements): (&TensorMap, Option<&Global<C>>),
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: impl Fn(&mut Finished),
    ) {
        let HopperGemm { tile: (_, columns, _), c: order, .. } = *self.frame();
        let way = BoxStore::<C>::new(columns, order, CONSUMERS);
        let store = |tile: &Finished| way.store(products.boxes(boxes, tile.product), tile);
        self.compute::<A, B>(products, scales, workspace, |tile| {
            epilogue(tile);
            match products.reaches_into_next(tile).zip(elements) {
                None => store(tile),
                Some((is_cut, elements)) => {
                    let (c, extents) =
                        (products.elements(elements, tile.product), products.extents_of(tile.product));
                    if is_cut {
                        ElementStore { c, extents, order }.store(tile);
                    } else {
                        store(tile);
                    }
                }
            }
        });
        bulk_wait_read(0);
    }

    /// C = A·B, stored from registers: any C. Each tile goes through `epilogue` first.
    #[device]
    fn into_elements<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        (products, scales): (&Products, Self::Scales),
        elements: &Global<C>,
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: impl Fn(&mut Finished),
    ) {
        let order = self.frame().c;
        self.compute::<A, B>(products, scales, workspace, |tile| {
            epilogue(tile);
            let (c, extents) = (products.elements(elements, tile.product), products.extents_of(tile.product));
            ElementStore { c, extents, order }.store(tile);
        });
    }
}

/// The kernel of a GEMM, an epilogue and a kind of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FusedKernel<G, E, K> {
    pub(super) fused: Fused<G, E>,
    pub(super) kind: K,
}

impl<G: WarpgroupGemm, E, K: Kind> FusedKernel<G, E, K> {
    /// The kernel's PTX; whether it stores boxes.
    pub(super) fn ptx<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        stores_boxes: bool,
        capability: &'static Capability,
    ) -> Result<String>
    where
        E: FusedEpilogue<C>,
    {
        Ok(match stores_boxes {
            true => runtime::ptx(&self.run::<A, B, C>()?, capability)?,
            false => runtime::ptx(&self.run_any::<A, B, C>()?, capability)?,
        })
    }

    #[kernel]
    pub(super) fn run<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        scales: G::Scales,
        boxes: &TensorMap,
        c: &mut Global<C>,
        matrix: &Global<C>,
        numbers: [f32; NUMBERS],
        rows: &Global<f32>,
        columns: &Global<f32>,
        more_columns: &Global<f32>,
        slots: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
        told: K::Told,
    ) where
        E: FusedEpilogue<C>,
    {
        let epilogue = self.fused.finish(numbers, [rows, columns, more_columns], [matrix, c]);
        let products = self.kind.products(Products::one(a, b, (m, n, k)), told, self.fused.transposed);
        let (gemm, through) = (&self.fused.gemm, |tile: &mut Finished| tile.apply(&epilogue, &products));
        gemm.into_boxes::<A, B, C>((&products, scales), (boxes, Some(c)), (slots, arrived), through);
    }

    #[kernel]
    pub(super) fn run_any<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        scales: G::Scales,
        c: &mut Global<C>,
        matrix: &Global<C>,
        numbers: [f32; NUMBERS],
        rows: &Global<f32>,
        columns: &Global<f32>,
        more_columns: &Global<f32>,
        slots: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
        told: K::Told,
    ) where
        E: FusedEpilogue<C>,
    {
        let epilogue = self.fused.finish(numbers, [rows, columns, more_columns], [matrix, c]);
        let products = self.kind.products(Products::one(a, b, (m, n, k)), told, self.fused.transposed);
        let (gemm, through) = (&self.fused.gemm, |tile: &mut Finished| tile.apply(&epilogue, &products));
        gemm.into_elements::<A, B, C>((&products, scales), c, (slots, arrived), through);
    }
}
