//! The kernels of [`Experts`]: groups of rows that the device counts, each times a matrix of its own.

use std::sync::Arc;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, LaunchCounts, Storable, Stream, TileMaps};

use super::batched::Batch;
use super::epilogue::{Epilogue, Origin, Place};
use super::experts::Experts;
use super::finish::{Finish, FusedEpilogue, NUMBERS};
use super::fused::Fused;
use super::hopper::{self, HopperGemm};
use super::linear::Linear;
use super::multiply::{Factor, Operands, Product, Way, extents, legal, no_matrix, ways};
use super::plan::{Configuration, Cost, Shape};
use super::products::{Products, RowGroups};
use super::readable::{Factors, Readable};
use super::ready::{Launched, Workspace, launch};
use super::store::{BoxStore, ElementStore};
use super::warps::Warps;
use super::{Gemm, GemmInput, GemmOutput, THREADS, WarpgroupInput};
use crate::operations::{Operations, Result};

/// The GEMM for groups of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ExpertsGemm<E> {
    fused: Fused<HopperGemm, E>,
    /// There is room for so many groups.
    most: u32,
}

impl HopperGemm {
    /// C = A·B for groups of rows, each sum through an epilogue: stored by TMA where a tile is all its group's, and from registers where it
    /// reaches into the next.
    #[device]
    fn store_rows<T: WarpgroupInput, C: GemmOutput>(
        &self,
        products: &Products,
        (boxes, elements): (&TensorMap, &Global<C>),
        workspace: (&Global<f32>, &Global<u32>),
        epilogue: &impl Epilogue,
    ) {
        let way = BoxStore::<C>::new(self.tile.1, self.c, hopper::CONSUMERS);
        self.compute::<T>(products, workspace, |tile| {
            tile.apply(epilogue, products);
            let (c, extents) = (products.elements(elements, tile.product), products.extents_of(tile.product));
            let is_cut = products.reaches_into_next(tile);
            if is_cut {
                ElementStore { c, extents, order: self.c }.store(tile);
            } else {
                way.store(products.boxes(boxes, tile.product), tile);
            }
        });
        bulk_wait_read(0);
    }
}

impl<E> ExpertsGemm<E> {
    /// The products of the launch.
    #[device]
    fn products(
        &self,
        (a, b): (&TensorMap, &TensorMap),
        extents: (Reg<u32>, Reg<u32>, Reg<u32>),
        offsets: &Global<u32>,
        count: Reg<u32>,
    ) -> Products {
        let groups =
            RowGroups { count, offsets: *offsets, most: self.most, transposed: self.fused.transposed };
        Products::one(a, b, extents).in_groups(groups)
    }

    #[kernel]
    fn run<T: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
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
        offsets: &Global<u32>,
        count: u32,
    ) where
        E: FusedEpilogue<C>,
    {
        let epilogue = self.fused.finish(numbers, [rows, columns, more_columns], [matrix, c]);
        let products = self.products((a, b), (m, n, k), offsets, count);
        self.fused.gemm.store_rows::<T, C>(&products, (boxes, c), (slots, arrived), &epilogue);
    }

    #[kernel]
    fn run_any<T: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
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
        offsets: &Global<u32>,
        count: u32,
    ) where
        E: FusedEpilogue<C>,
    {
        let epilogue = self.fused.finish(numbers, [rows, columns, more_columns], [matrix, c]);
        let products = self.products((a, b), (m, n, k), offsets, count);
        self.fused.gemm.store_elements::<T, C>(&products, c, (slots, arrived), &epilogue);
    }
}

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

/// The kernel of groups of rows, and all about its launch that does not depend on where the matrices are.
pub(super) struct Ready<T, C> {
    factors: Factors<T>,
    /// Sums of split tiles, and counters.
    split_space: (usize, usize),
    /// What stands for a matrix that the epilogue is not given.
    no_matrix: Arc<Buffer<C>>,
    start: Start<C>,
}

/// Launches a kernel for groups that begin at those offsets.
type Start<C> = Box<dyn Fn(&Stream, Launched<'_, C>, &Buffer<u32>) -> Result<LaunchCounts> + Send + Sync>;

impl<T: Factor, C: GemmOutput + Storable> Ready<T, C> {
    pub(super) fn new<E: FusedEpilogue<C>>(
        operations: &Operations,
        experts: &Experts<'_>,
        rows: u32,
        configuration: Configuration,
        finish: &Finish<'_, C, E>,
    ) -> Result<Self> {
        let Configuration { transposed, split, .. } = configuration;
        let readable = Readable::of::<T>(experts.batch(rows));
        let gemm = readable.batch.product.kernel::<T, C>(configuration);
        let (count, most) = (experts.count(), experts.count().next_power_of_two());
        let kernel = ExpertsGemm { fused: finish.fused(gemm, transposed), most };
        let sms = operations.device().properties().sm_count;
        let cost = most_tiles::<T, C>(configuration, experts, rows, sms);
        let product = experts.product(rows);
        let Product { m, n, k, .. } = product;
        let (m, n) = if transposed { (n, m) } else { (m, n) };
        let start: Start<C> = if product.stores_boxes::<C>() {
            let compiled = operations.kernel(kernel, ExpertsGemm::<E>::run::<T, C>)?;
            let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
            let boxes = TileMaps::<C>::new(extents(m, n), &legal(gemm.c_tile::<C>())?)?;
            Box::new(move |stream, given, offsets| {
                let Launched { maps: [a, b], c, slots, arrived, numbers, vectors, matrix } = given;
                let ([rows, columns, more], map) = (vectors, boxes.of(c)?);
                let arguments = (
                    &a, &b, &map, c, matrix, numbers, rows, columns, more, slots, arrived, m, n, k, offsets,
                    count,
                );
                Ok(compiled.launch_as(stream, shape, arguments)?)
            })
        } else {
            let compiled = operations.kernel(kernel, ExpertsGemm::<E>::run_any::<T, C>)?;
            let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
            Box::new(move |stream, given, offsets| {
                let Launched { maps: [a, b], c, slots, arrived, numbers, vectors, matrix } = given;
                let [rows, columns, more] = vectors;
                let arguments = (
                    &a, &b, c, matrix, numbers, rows, columns, more, slots, arrived, m, n, k, offsets, count,
                );
                Ok(compiled.launch_as(stream, shape, arguments)?)
            })
        };
        Ok(Self {
            factors: Factors::new(readable, (false, true), &gemm, transposed)?,
            split_space: if split { cost.split_space() } else { (1, 1) },
            no_matrix: no_matrix(operations)?,
            start,
        })
    }

    pub(super) fn launch<E>(
        &self,
        operations: &Operations,
        stream: &Stream,
        offsets: &Buffer<u32>,
        operands: Operands<'_, T, C, E>,
    ) -> Result<LaunchCounts> {
        let parts = (&self.factors, self.split_space, &*self.no_matrix);
        launch((operations, stream), parts, operands, |launched| (self.start)(stream, launched, offsets))
    }
}

/// The cost of a launch with as many tiles as there can be: one of each group is not full.
fn most_tiles<T: Element, C: Element>(
    configuration: Configuration,
    experts: &Experts<'_>,
    rows: u32,
    sms: u32,
) -> Cost {
    let (tile, cluster) = (configuration.tile, configuration.cluster);
    let high = if configuration.transposed { tile.1 * cluster.1 } else { tile.0 * cluster.0 };
    let tiles_of_rows = rows / high + experts.groups_of(rows);
    // A batch of products of one row of tiles each has as many.
    let shape = Shape { batch: tiles_of_rows, ..experts.product(1).shape::<T, C>() };
    Cost::of(configuration, shape, sms)
}

/// The PTX for so many groups of rows, B (n, k), as the plan for an H200 has it.
pub(super) fn ptx<T: Factor, C: GemmOutput>(
    (count, n, k): (u32, u32, u32),
    rows: u32,
    capability: &'static Capability,
) -> Result<String> {
    const H200_SMS: u32 = 132;
    let groups = Batch::new(Product::new(rows.div_ceil(count), n, k), count);
    let Way::Warpgroups(configuration) = ways::<T, C>(groups, capability, H200_SMS)[0] else {
        return T::experts_warps_ptx::<C>(groups.product, capability);
    };
    let gemm = Readable::of::<T>(groups).batch.product.kernel::<T, C>(configuration);
    let fused = Linear::default().finish::<C>().fused(gemm, configuration.transposed);
    let kernel = ExpertsGemm { fused, most: count.next_power_of_two() };
    Ok(match groups.product.stores_boxes::<C>() {
        true => runtime::ptx(&ExpertsGemm::<_>::run::<T, C>(&kernel)?, capability)?,
        false => runtime::ptx(&ExpertsGemm::<_>::run_any::<T, C>(&kernel)?, capability)?,
    })
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
    Operands { a, b, c, finish }: Operands<'_, T, C, E>,
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
        Ok(compiled.launch(stream, grid, THREADS, arguments)?)
    })
}
