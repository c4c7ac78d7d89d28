//! The kernels of [`multiply_scaled`](super::multiply_scaled), and their launches.

use std::sync::Arc;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, LaunchCounts, Storable, Stream, TileMaps};

use super::blocks::ScaledGemm;
use super::finish::{Finish, FusedEpilogue, NUMBERS};
use super::fused::Fused;
use super::hopper;
use super::linear::{Linear, Parts};
use super::multiply::{Product, extents, legal, no_matrix};
use super::multiply_scaled::{Granularities, Narrow, Scaled, ScaledWay};
use super::products::Products;
use super::readable::{ReadFactor, Readable};
use super::ready::Workspace;
use super::scales::Granularity;
use super::{GemmOutput, WarpgroupInput};
use crate::operations::{Operations, Result, Scratch, both};

/// The buffers of a product as the kernel takes them: where it computes C's transpose, its A is the product's B.
pub(super) struct KernelOperands<'a, A, B, C> {
    pub(super) a: Scaled<'a, A>,
    pub(super) b: Scaled<'a, B>,
    pub(super) c: &'a mut Buffer<C>,
    pub(super) finish: &'a Finish<'a, C, Parts>,
}

/// The kernel of a product, and all about its launch that does not depend on the buffers.
pub(super) struct Ready<A, B, C> {
    a: ReadFactor<A>,
    b: ReadFactor<B>,
    a_scales: TileMaps<f32>,
    b_scales: TileMaps<f32>,
    /// Sums of split tiles, and counters.
    split_space: (usize, usize),
    /// What stands for a matrix that the epilogue is not given.
    no_matrix: Arc<Buffer<C>>,
    start: Start<C>,
}

/// Launches a kernel on a stream.
type Start<C> = Box<dyn Fn(&Stream, Launched<'_, C>) -> Result<LaunchCounts> + Send + Sync>;

/// What a launch is given.
struct Launched<'a, C> {
    /// The maps of A, B and their scales.
    maps: [runtime::TensorMap; 4],
    c: &'a mut Buffer<C>,
    slots: &'a mut Buffer<f32>,
    arrived: &'a mut Buffer<u32>,
    /// The numbers of an epilogue, and those of the rows and columns.
    numbers: [f32; NUMBERS],
    vectors: [&'a Buffer<f32>; 3],
    matrix: &'a Buffer<C>,
}

/// The copies of the kernel's A and B.
struct CopyScratch<A, B>(Scratch<A>, Scratch<B>);

impl<A, B> Default for CopyScratch<A, B> {
    fn default() -> Self {
        Self(Scratch::default(), Scratch::default())
    }
}

impl<A: Narrow, B: Narrow, C: GemmOutput + Storable> Ready<A, B, C> {
    /// Of a product, for the granularities of the kernel's own A and B.
    pub(super) fn new(
        operations: &Operations,
        product: Product,
        way: ScaledWay,
        (a, b): Granularities,
        finish: &Finish<'_, C, Parts>,
    ) -> Result<Self> {
        let transposed = way.configuration.transposed;
        let shape = product.shape::<A, C>();
        let granularities = if transposed { (b, a) } else { (a, b) };
        let gemm = way.kernel(shape, granularities);
        let cost = way.cost(shape, granularities, operations.device().properties().sm_count);
        let own = if transposed { product.transposed() } else { product };
        let Product { m, n, k, .. } = own;
        let (a_tile, b_tile) = (gemm.gemm.a_tile::<A>(), gemm.gemm.b_tile::<B>());
        let (read_a, read_b) = Readable::of::<A>(own.into()).factors((false, false), a_tile, b_tile)?;
        let scales = |granularity: Granularity, rows: u32, tile| -> Result<TileMaps<f32>> {
            let (blocks, padded) = granularity.extents((rows, k));
            Ok(TileMaps::new(extents(padded, blocks), &legal(tile)?)?)
        };
        let kernel = finish.fused(gemm, transposed);
        let start: Start<C> = if product.stores_boxes::<C>() {
            let compiled = operations.kernel(kernel, Fused::<ScaledGemm, Parts>::run::<A, B, C>)?;
            let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
            let boxes = TileMaps::<C>::new(extents(m, n), &legal(gemm.gemm.c_tile::<C>())?)?;
            Box::new(move |stream, given| {
                let Launched {
                    maps: [a, b, a_scales, b_scales],
                    c,
                    slots,
                    arrived,
                    numbers,
                    vectors,
                    matrix,
                } = given;
                let ([rows, columns, more], map) = (vectors, boxes.of(c)?);
                let arguments = (
                    &a, &b, &a_scales, &b_scales, &map, &*c, matrix, numbers, rows, columns, more, slots,
                    arrived, m, n, k,
                );
                Ok(compiled.launch_as(stream, shape, arguments)?)
            })
        } else {
            let compiled = operations.kernel(kernel, Fused::<ScaledGemm, Parts>::run_any::<A, B, C>)?;
            let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
            Box::new(move |stream, given| {
                let Launched {
                    maps: [a, b, a_scales, b_scales],
                    c,
                    slots,
                    arrived,
                    numbers,
                    vectors,
                    matrix,
                } = given;
                let [rows, columns, more] = vectors;
                let arguments = (
                    &a, &b, &a_scales, &b_scales, c, matrix, numbers, rows, columns, more, slots, arrived, m,
                    n, k,
                );
                Ok(compiled.launch_as(stream, shape, arguments)?)
            })
        };
        Ok(Self {
            a: read_a,
            b: read_b,
            a_scales: scales(a, m, gemm.a_scales_tile())?,
            b_scales: scales(b, n, gemm.b_scales_tile())?,
            split_space: if way.configuration.split { cost.split_space() } else { (1, 1) },
            no_matrix: no_matrix(operations)?,
            start,
        })
    }

    pub(super) fn launch(
        &self,
        operations: &Operations,
        stream: &Stream,
        KernelOperands { a, b, c, finish }: KernelOperands<'_, A, B, C>,
    ) -> Result<LaunchCounts> {
        operations.with_scratch(stream, |CopyScratch(a_scratch, b_scratch): &mut CopyScratch<A, B>| {
            let (a_map, a_counts) = self.a.map(operations, stream, a.values, a_scratch)?;
            let (b_map, b_counts) = self.b.map(operations, stream, b.values, b_scratch)?;
            let maps = [a_map, b_map, self.a_scales.of(a.scales)?, self.b_scales.of(b.scales)?];
            let counts = operations.with_scratch(stream, |workspace: &mut Workspace| {
                let (slots, arrived, nothing) = workspace.of_size(operations, stream, self.split_space)?;
                let (numbers, vectors) = (finish.numbers, finish.vectors(nothing));
                let matrix = finish.matrix.unwrap_or(&self.no_matrix);
                (self.start)(stream, Launched { maps, c, slots, arrived, numbers, vectors, matrix })
            })?;
            Ok(both(both(a_counts, b_counts), counts))
        })
    }
}

/// The PTX of a product in that way.
pub(super) fn ptx<A: Narrow, B: Narrow, C: GemmOutput>(
    product: Product,
    way: ScaledWay,
    granularities: Granularities,
    capability: &'static Capability,
) -> Result<String> {
    fn of<A: Narrow, B: Narrow, C: GemmOutput>(
        kernel: Fused<ScaledGemm, Parts>,
        stores_boxes: bool,
        capability: &'static Capability,
    ) -> Result<String> {
        Ok(match stores_boxes {
            true => runtime::ptx(&kernel.run::<A, B, C>()?, capability)?,
            false => runtime::ptx(&kernel.run_any::<A, B, C>()?, capability)?,
        })
    }
    let gemm = way.kernel(product.shape::<A, C>(), granularities);
    let kernel = Linear::default().finish::<C>().fused(gemm, way.configuration.transposed);
    let stores_boxes = product.stores_boxes::<C>();
    match way.configuration.transposed {
        false => of::<A, B, C>(kernel, stores_boxes, capability),
        true => of::<B, A, C>(kernel, stores_boxes, capability),
    }
}

impl<E> Fused<ScaledGemm, E> {
    #[kernel]
    fn run<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        a_scales: &TensorMap,
        b_scales: &TensorMap,
        boxes: &TensorMap,
        c: &Global<C>,
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
    ) where
        E: FusedEpilogue<C>,
    {
        let epilogue = self.finish(numbers, [rows, columns, more_columns], [matrix, c]);
        let products = Products::one(a, b, (m, n, k));
        self.gemm.store_boxes::<A, B, C>(&products, (a_scales, b_scales), boxes, (slots, arrived), &epilogue);
    }

    #[kernel]
    fn run_any<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        a_scales: &TensorMap,
        b_scales: &TensorMap,
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
    ) where
        E: FusedEpilogue<C>,
    {
        let epilogue = self.finish(numbers, [rows, columns, more_columns], [matrix, c]);
        let products = Products::one(a, b, (m, n, k));
        self.gemm.store_elements::<A, B, C>(&products, (a_scales, b_scales), c, (slots, arrived), &epilogue);
    }
}
