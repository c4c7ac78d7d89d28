//! The kernels of [`Experts`]: groups of rows that the device counts, each times a matrix of its own.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, LaunchCounts, Storable, Stream, TileMaps};

use super::batched::Batch;
use super::epilogue::{Epilogue, Origin, Place};
use super::experts::Experts;
use super::hopper::{self, HopperGemm};
use super::linear::{Fused, Linear, Parts, Terms};
use super::multiply::{Factor, Operands, Product, Way, extents, legal, ways};
use super::plan::{Configuration, Cost, Shape};
use super::products::{Products, RowGroups};
use super::readable::{Factors, Readable};
use super::ready::{Launched, Workspace, launch};
use super::store::{BoxStore, ElementStore};
use super::{Gemm, GemmInput, GemmOutput, THREADS, WarpgroupInput};
use crate::operations::{Operations, Result};

/// The GEMM for groups of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ExpertsGemm {
    fused: Fused<HopperGemm>,
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

impl ExpertsGemm {
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
            RowGroups { count, offsets: *offsets, most: self.most, transposed: self.fused.parts.transposed };
        Products::one(a, b, extents).in_groups(groups)
    }

    #[kernel]
    fn run<T: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        boxes: &TensorMap,
        c: &mut Global<C>,
        factors: [f32; 2],
        row_scales: &Global<f32>,
        column_scales: &Global<f32>,
        bias: &Global<f32>,
        slots: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
        offsets: &Global<u32>,
        count: u32,
    ) {
        let terms = Terms::new(factors, [row_scales, column_scales, bias], c);
        let epilogue = self.fused.parts.epilogue(terms);
        let products = self.products((a, b), (m, n, k), offsets, count);
        self.fused.gemm.store_rows::<T, C>(&products, (boxes, c), (slots, arrived), &epilogue);
    }

    #[kernel]
    fn run_any<T: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        c: &mut Global<C>,
        factors: [f32; 2],
        row_scales: &Global<f32>,
        column_scales: &Global<f32>,
        bias: &Global<f32>,
        slots: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
        offsets: &Global<u32>,
        count: u32,
    ) {
        let terms = Terms::new(factors, [row_scales, column_scales, bias], c);
        let epilogue = self.fused.parts.epilogue(terms);
        let products = self.products((a, b), (m, n, k), offsets, count);
        self.fused.gemm.store_elements::<T, C>(&products, c, (slots, arrived), &epilogue);
    }
}

impl Fused<Gemm> {
    /// The group of this CTA's row of the grid: the tile of it that the CTA's column numbers, if it has so many.
    #[kernel]
    fn run_rows<T: GemmInput, C: GemmOutput>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
        c: &mut Global<C>,
        factors: [f32; 2],
        row_scales: &Global<f32>,
        column_scales: &Global<f32>,
        bias: &Global<f32>,
        n: u32,
        k: u32,
        offsets: &Global<u32>,
    ) {
        let terms = Terms::new(factors, [row_scales, column_scales, bias], c);
        let epilogue = self.parts.epilogue(terms);
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
    start: Start<C>,
}

/// Launches a kernel for groups that begin at those offsets.
type Start<C> = Box<dyn Fn(&Stream, Launched<'_, C>, &Buffer<u32>) -> Result<LaunchCounts> + Send + Sync>;

impl<T: Factor, C: GemmOutput + Storable> Ready<T, C> {
    pub(super) fn new(
        operations: &Operations,
        experts: &Experts<'_>,
        rows: u32,
        configuration: Configuration,
        parts: Parts,
    ) -> Result<Self> {
        let Configuration { transposed, split, .. } = configuration;
        let readable = Readable::of::<T>(experts.batch(rows));
        let gemm = readable.batch.product.kernel::<T, C>(configuration);
        let (count, most) = (experts.count(), experts.count().next_power_of_two());
        let kernel = ExpertsGemm { fused: Fused { gemm, parts }, most };
        let sms = operations.device().properties().sm_count;
        let cost = most_tiles::<T, C>(configuration, experts, rows, sms);
        let product = experts.product(rows);
        let Product { m, n, k, .. } = product;
        let (m, n) = if transposed { (n, m) } else { (m, n) };
        let start: Start<C> = if product.stores_boxes::<C>() {
            let compiled = operations.kernel(kernel, ExpertsGemm::run::<T, C>)?;
            let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
            let boxes = TileMaps::<C>::new(extents(m, n), &legal(gemm.c_tile::<C>())?)?;
            Box::new(
                move |stream, Launched { maps: [a, b], c, slots, arrived, factors, vectors }, offsets| {
                    let ([rows, columns, bias], map) = (vectors, boxes.of(c)?);
                    let arguments = (
                        &a, &b, &map, c, factors, rows, columns, bias, slots, arrived, m, n, k, offsets,
                        count,
                    );
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                },
            )
        } else {
            let compiled = operations.kernel(kernel, ExpertsGemm::run_any::<T, C>)?;
            let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
            Box::new(
                move |stream, Launched { maps: [a, b], c, slots, arrived, factors, vectors }, offsets| {
                    let [rows, columns, bias] = vectors;
                    let arguments =
                        (&a, &b, c, factors, rows, columns, bias, slots, arrived, m, n, k, offsets, count);
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                },
            )
        };
        Ok(Self {
            factors: Factors::new(readable, (false, true), &gemm, transposed)?,
            split_space: if split { cost.split_space() } else { (1, 1) },
            start,
        })
    }

    pub(super) fn launch(
        &self,
        operations: &Operations,
        stream: &Stream,
        offsets: &Buffer<u32>,
        operands: Operands<'_, T, C>,
    ) -> Result<LaunchCounts> {
        launch((operations, stream), (&self.factors, self.split_space), operands, |launched| {
            (self.start)(stream, launched, offsets)
        })
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
    let parts = Parts::of(&Linear::default(), configuration.transposed);
    let gemm = Readable::of::<T>(groups).batch.product.kernel::<T, C>(configuration);
    let kernel = ExpertsGemm { fused: Fused { gemm, parts }, most: count.next_power_of_two() };
    Ok(match groups.product.stores_boxes::<C>() {
        true => runtime::ptx(&ExpertsGemm::run::<T, C>(&kernel)?, capability)?,
        false => runtime::ptx(&ExpertsGemm::run_any::<T, C>(&kernel)?, capability)?,
    })
}

/// The kernel by `mma.sync` for groups of such products.
fn warps_kernel(product: Product, linear: &Linear<'_>) -> Fused<Gemm> {
    let gemm = Gemm { exact: false, ..Gemm::for_product(product) };
    Fused { gemm, parts: Parts::of(linear, false) }
}

/// The PTX of it.
pub(super) fn warps_ptx<T: GemmInput, C: GemmOutput>(
    product: Product,
    capability: &'static Capability,
) -> Result<String> {
    Ok(runtime::ptx(&warps_kernel(product, &Linear::default()).run_rows::<T, C>()?, capability)?)
}

/// By `mma.sync`.
pub(super) fn by_warps<T: Factor + GemmInput, C: GemmOutput + Storable>(
    operations: &Operations,
    stream: &Stream,
    experts: &Experts<'_>,
    Operands { a, b, c, linear }: Operands<'_, T, C>,
) -> Result<LaunchCounts> {
    let Experts { offsets, n, k, .. } = *experts;
    let rows = experts.rows(a);
    let fused = warps_kernel(experts.product(rows), linear);
    // Any group may have all rows.
    let grid = (fused.gemm.grid(rows, n), experts.count());
    let compiled = operations.kernel(fused, Fused::<Gemm>::run_rows::<T, C>)?;
    operations.with_scratch(stream, |workspace: &mut Workspace| {
        let [rows, columns, bias] = linear.vectors(workspace.nothing(operations)?);
        let arguments = (a, b, c, linear.factors(), rows, columns, bias, n, k, offsets);
        Ok(compiled.launch(stream, grid, THREADS, arguments)?)
    })
}
