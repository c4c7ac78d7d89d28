//! `operations.multiply_experts(&stream, &experts, &a, &b, &mut c)`: rows of A, each group of them times a B of its own, in one launch.
//!
//! ```text
//! a mixture of experts:      offsets   A (rows, k)      B (experts, n, k)        C (rows, n)
//!                               0      +-------+        +---+                    +-------+
//!                                      | ..... |   ·    | 0 |          ->        | ..... |
//!                               5      +-------+        +---+                    +-------+
//!                               5                       | 1 |   no rows: no tiles
//!                                      | ..... |        +---+
//!                                      | ..... |   ·    | 2 |          ->
//!                              12      +-------+        +---+
//! ```
//!
//! The offsets lie on the device, where a router wrote them; the host need not know them. A tile that reaches past its group's last row loads the next
//! group's too, and stores only its own.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, LaunchCounts, Storable, Stream};

use super::batched::Mapping;
use super::epilogue::{Epilogue, Origin, Place};
use super::hopper::{self, HopperGemm};
use super::linear::{Fused, Linear, Parts, Terms};
use super::multiply::{Factor, Operands, Product, ProductScratch, Way, extents, no_warpgroups, refused};
use super::plan::{self, Configuration, Cost, Shape};
use super::products::{Products, RowGroups};
use super::store::{BoxStore, ElementStore};
use super::{Gemm, GemmInput, GemmOutput, Order, THREADS, WarpgroupInput};
use crate::operations::{Operations, Result, expect_length};

/// Groups of rows, each times a matrix of its own.
///
/// ```
/// use warpwright::prelude::*;
/// use warpwright::runtime::Device;
/// use warpwright_kernels::gemm::experts::Experts;
/// use warpwright_kernels::operations::Operations;
///
/// let device = Device::named("emu:h200")?;
/// let (operations, stream) = (Operations::new(&device), device.stream()?);
/// // Rows 0 to 4 go to expert 0, none to expert 1, rows 5 to 11 to expert 2.
/// let offsets = device.buffer_from(&[0u32, 5, 5, 12])?;
/// let a = device.buffer_from(&[bf16::ONE; 12 * 16])?;
/// let b: Vec<_> = [1.0, 2.0, 3.0].iter().flat_map(|&value| [bf16::from_f32(value); 24 * 16]).collect();
/// let b = device.buffer_from(&b)?;
/// let mut c = device.uninitialized::<f32>(12 * 24)?;
/// operations.multiply_experts(&stream, &Experts::new(&offsets, 24, 16), &a, &b, &mut c)?;
/// let c: Vec<f32> = c.to_vec()?.chunks(24).map(|row| row[0]).collect();
/// assert_eq!(c, [[16.0; 5].as_slice(), &[48.0; 7]].concat());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Experts<'a> {
    /// The first row of each group, and behind them the number of all rows: they never go down. They may be what a kernel before writes.
    pub offsets: &'a Buffer<u32>,
    /// Columns of each B, and of C.
    pub n: u32,
    /// Columns of A, rows of each B.
    pub k: u32,
    /// How each B lies.
    pub b: Order,
}

/// Groups that a kernel has room for.
const MOST_GROUPS: u32 = 512;

impl<'a> Experts<'a> {
    /// A (rows, k) in groups, each times a column-major B (k, n): (n, k), row-major, as layers keep their weights.
    pub fn new(offsets: &'a Buffer<u32>, n: u32, k: u32) -> Self {
        Self { offsets, n, k, b: Order::ColumnMajor }
    }

    /// How many groups there are, known to the host.
    fn count(&self) -> u32 {
        self.offsets.len().saturating_sub(1) as u32
    }

    /// Rows of A.
    pub(super) fn rows<T: Storable>(&self, a: &Buffer<T>) -> u32 {
        (a.len() / self.k as usize) as u32
    }

    /// All rows times one B.
    pub(super) fn product(&self, rows: u32) -> Product {
        Product { m: rows, n: self.n, k: self.k, a: Order::RowMajor, b: self.b }
    }

    /// What it is like on average, by which the configuration is chosen: groups of equal size.
    fn shape<T: Element, C: Element>(&self, rows: u32) -> Shape {
        let groups = self.count().min(rows).max(1);
        Shape { batch: groups, ..self.product(rows.div_ceil(groups)).shape::<T, C>() }
    }

    /// Refuses what no kernel takes; how many rows there are.
    fn check<T: Storable, C: Storable>(
        &self,
        linear: &Linear<'_>,
        [a, b]: [&Buffer<T>; 2],
        c: &Buffer<C>,
    ) -> Result<u32> {
        let Self { offsets, n, k, .. } = self;
        if offsets.is_empty() || offsets.len() - 1 > MOST_GROUPS as usize {
            return Err(refused(format!(
                "{} offsets: n groups of rows have n + 1, the last of which is the number of rows, and there may be {MOST_GROUPS} groups",
                offsets.len()
            )));
        }
        if *k == 0 {
            return Err(refused("k is 0: there is nothing to multiply".to_owned()));
        }
        let rows = a.len() / *k as usize;
        let count = self.count() as usize;
        let all_rows = u32::try_from(rows).map_err(|_| refused(format!("{rows} rows are more than 2^32")))?;
        expect_length("A", rows * *k as usize, a.len())?;
        expect_length("B", count * *n as usize * *k as usize, b.len())?;
        expect_length("C", rows * *n as usize, c.len())?;
        let vectors = [
            ("the row scales", linear.row_scales, rows),
            ("the column scales", linear.column_scales, count * *n as usize),
            ("the bias", linear.bias, count * *n as usize),
        ];
        for (what, vector, length) in vectors {
            if let Some(vector) = vector {
                expect_length(what, length, vector.len())?;
            }
        }
        Ok(all_rows)
    }
}

impl Operations {
    /// C = A·B for each group of rows, in one launch; accumulated in f32, A and C are row-major.
    ///
    /// # Errors
    /// A buffer has another length than the groups ask for, there are more than 512, or k is 0; the device has no kernel for the types; or it failed.
    pub fn multiply_experts<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        self.linear_experts(stream, experts, &Linear::default(), a, b, c)
    }

    /// [`linear`](Self::linear) for each group of rows, in one launch: each has column scales and a bias of its own, those of all one after another.
    ///
    /// # Errors
    /// As [`multiply_experts`](Self::multiply_experts); or a vector has another length than C's rows, or all groups' columns.
    pub fn linear_experts<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        linear: &Linear<'_>,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let rows = experts.check(linear, [a, b], c)?;
        let way = self.way_of_experts::<T, C>(experts, rows);
        self.experts_by(stream, experts, way, Operands { a, b, c, linear })
    }

    /// C = A·B for each group of rows, in that way.
    ///
    /// # Errors
    /// As [`multiply_experts`](Self::multiply_experts); and if the way does not suit the product.
    pub fn multiply_experts_by<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        way: Way,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let linear = &Linear::default();
        experts.check(linear, [a, b], c)?;
        self.experts_by(stream, experts, way, Operands { a, b, c, linear })
    }

    /// The ways to multiply groups that have so many rows together, the cheapest first.
    pub fn ways_of_experts<T: Factor, C: Element>(&self, experts: &Experts<'_>, rows: u32) -> Vec<Way> {
        let properties = self.device().properties();
        if !experts.product(rows).takes_warpgroups::<T>(properties.capability) {
            return vec![Way::Warps];
        }
        let costs = plan::costs(experts.shape::<T, C>(rows), properties.sm_count);
        costs.iter().map(|cost| Way::Warpgroups(cost.configuration)).chain([Way::Warps]).collect()
    }

    /// The cheapest way; numbers of rows that are alike have the same, so that few are kept.
    fn way_of_experts<T: Factor, C: Element>(&self, experts: &Experts<'_>, rows: u32) -> Way {
        let alike = rows.checked_next_power_of_two().unwrap_or(rows);
        let key = (experts.count(), experts.product(alike));
        let way =
            self.remembered::<(T, C), _, _>(key, |_| Ok(self.ways_of_experts::<T, C>(experts, alike)[0]));
        way.map_or(Way::Warps, |way| *way)
    }

    fn experts_by<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        way: Way,
        operands: Operands<'_, T, C>,
    ) -> Result<LaunchCounts> {
        if operands.c.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let product = experts.product(experts.rows(operands.a));
        match way {
            Way::Warps => T::experts_by_warps(self, stream, experts, operands),
            Way::Warpgroups(_) if !product.takes_warpgroups::<T>(self.device().properties().capability) => {
                Err(no_warpgroups::<T>(product))
            }
            Way::Warpgroups(configuration) => {
                let parts = Parts::of(operands.linear, configuration.transposed);
                // All but the number of rows.
                let key = (Product { m: 0, ..product }, experts.count(), configuration, parts);
                let ready = self.remembered::<(T, C), _, _>(key, |_| {
                    Ready::<C>::new::<T>(self, experts, configuration, parts)
                })?;
                ready.launch(self, stream, experts, operands)
            }
        }
    }
}

/// The GEMM for groups of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Grouped {
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

impl Grouped {
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
        let (a, b, c) = (a.at(before * depth), b.at(number * width * depth), c.at(before * width));
        let m = end - begin;
        let tiles = self.gemm.tiles(m, n);
        if block_idx().x < tiles {
            self.gemm.compute(&a, &b, &c, (m, n, k), &epilogue);
        }
    }
}

/// The PTX for so many groups of rows, B (n, k), as the plan for an H200 has it.
pub(super) fn ptx<T: Factor + GemmInput, C: GemmOutput>(
    (count, n, k): (u32, u32, u32),
    rows: u32,
    capability: &'static Capability,
) -> Result<String> {
    const H200_SMS: u32 = 132;
    let average = Product::new(rows.div_ceil(count), n, k);
    if !average.takes_warpgroups::<T>(capability) {
        let gemm = Gemm { exact: false, ..Gemm::for_product(average) };
        let fused = Fused { gemm, parts: Parts::of(&Linear::default(), false) };
        return Ok(runtime::ptx(&fused.run_rows::<T, C>()?, capability)?);
    }
    let shape = Shape { batch: count, ..average.shape::<T, C>() };
    let configuration = plan::costs(shape, H200_SMS)[0].configuration;
    let parts = Parts::of(&Linear::default(), configuration.transposed);
    let fused = Fused { gemm: average.kernel::<T, C>(configuration), parts };
    let kernel = Grouped { fused, most: count.next_power_of_two() };
    Ok(match average.stores_boxes::<C>() {
        true => runtime::ptx(&Grouped::run::<T, C>(&kernel)?, capability)?,
        false => runtime::ptx(&Grouped::run_any::<T, C>(&kernel)?, capability)?,
    })
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
    let gemm = Gemm { exact: false, ..Gemm::for_product(experts.product(rows)) };
    // Any group may have all rows.
    let grid = (gemm.grid(rows, n), experts.count());
    let compiled = operations
        .kernel(Fused { gemm, parts: Parts::of(linear, false) }, Fused::<Gemm>::run_rows::<T, C>)?;
    operations.with_scratch(stream, |scratch: &mut ProductScratch| {
        let [rows, columns, bias] = linear.vectors(scratch.nothing.at_least(operations.device(), 1)?);
        let arguments = (a, b, c, linear.factors(), rows, columns, bias, n, k, offsets);
        Ok(compiled.launch(stream, grid, THREADS, arguments)?)
    })
}

/// The kernel of groups of rows, and all about its launch that depends neither on the buffers nor on how many rows there are.
struct Ready<C> {
    configuration: Configuration,
    a_tile: TmaTile,
    b_tile: TmaTile,
    start: Start<C>,
}

/// Launches a kernel of so many CTAs.
type Start<C> = Box<dyn Fn(&Stream, u32, Launched<'_, C>) -> Result<LaunchCounts> + Send + Sync>;

/// What a launch is given.
struct Launched<'a, C> {
    factors: [runtime::TensorMap; 2],
    c: &'a mut Buffer<C>,
    /// Of the kernel's own matrices.
    extents: (u32, u32, u32),
    offsets: &'a Buffer<u32>,
    slots: &'a mut Buffer<f32>,
    arrived: &'a mut Buffer<u32>,
    /// The factors, the row scales, the column scales and the bias of an epilogue.
    linear: ([f32; 2], [&'a Buffer<f32>; 3]),
}

impl<C: GemmOutput + Storable> Ready<C> {
    fn new<T: Factor>(
        operations: &Operations,
        experts: &Experts<'_>,
        configuration: Configuration,
        parts: Parts,
    ) -> Result<Self> {
        let product = experts.product(1);
        let gemm = product.kernel::<T, C>(configuration);
        let (count, most) = (experts.count(), experts.count().next_power_of_two());
        let kernel = Grouped { fused: Fused { gemm, parts }, most };
        let legal = |tile: Result<TmaTile, warpwright::layout::Error>| {
            tile.map_err(|error| refused(error.to_string()))
        };
        Ok(Self {
            configuration,
            a_tile: legal(gemm.a_tile::<T>())?,
            b_tile: legal(gemm.b_tile::<T>())?,
            start: if product.stores_boxes::<C>() {
                let compiled = operations.kernel(kernel, Grouped::run::<T, C>)?;
                let tile = legal(gemm.c_tile::<C>())?;
                Box::new(
                    move |stream,
                          ctas,
                          Launched {
                              factors: [a, b],
                              c,
                              extents: (m, n, k),
                              offsets,
                              slots,
                              arrived,
                              linear,
                          }| {
                        let map = runtime::TensorMap::of_tile(c, extents(m, n), &tile)?;
                        let shape = compiled.shape(ctas, hopper::THREADS).overlapping();
                        let (factors, [rows, columns, bias]) = linear;
                        let arguments = (
                            &a, &b, &map, c, factors, rows, columns, bias, slots, arrived, m, n, k, offsets,
                            count,
                        );
                        Ok(compiled.launch_as(stream, shape, arguments)?)
                    },
                )
            } else {
                let compiled = operations.kernel(kernel, Grouped::run_any::<T, C>)?;
                Box::new(
                    move |stream,
                          ctas,
                          Launched {
                              factors: [a, b],
                              c,
                              extents: (m, n, k),
                              offsets,
                              slots,
                              arrived,
                              linear,
                          }| {
                        let shape = compiled.shape(ctas, hopper::THREADS).overlapping();
                        let (factors, [rows, columns, bias]) = linear;
                        let arguments = (
                            &a, &b, c, factors, rows, columns, bias, slots, arrived, m, n, k, offsets, count,
                        );
                        Ok(compiled.launch_as(stream, shape, arguments)?)
                    },
                )
            },
        })
    }

    fn launch<T: Factor>(
        &self,
        operations: &Operations,
        stream: &Stream,
        experts: &Experts<'_>,
        Operands { a, b, c, linear }: Operands<'_, T, C>,
    ) -> Result<LaunchCounts> {
        let Experts { offsets, n, k, .. } = *experts;
        let rows = experts.rows(a);
        let Configuration { transposed, split, .. } = self.configuration;
        let cost =
            most_tiles::<T, C>(self.configuration, experts, rows, operations.device().properties().sm_count);
        let matrices = Some((experts.count().into(), u64::from(n) * u64::from(k)));
        let (rows_tile, b_tile) =
            if transposed { (self.b_tile, self.a_tile) } else { (self.a_tile, self.b_tile) };
        let a = runtime::TensorMap::of_tile(a, extents(rows, k), &rows_tile)?;
        let b = Mapping { extents: extents(n, k), matrices, tile: b_tile }.of(b)?;
        let factors = if transposed { [b, a] } else { [a, b] };
        let extents = if transposed { (n, rows, k) } else { (rows, n, k) };
        let space = if split { cost.split_space() } else { (1, 1) };
        operations.with_scratch(stream, |scratch: &mut ProductScratch| {
            let slots = scratch.slots.at_least(operations.device(), space.0)?;
            let arrived = scratch.arrived.at_least_kept(stream, space.1)?;
            let nothing = &*scratch.nothing.at_least(operations.device(), 1)?;
            let linear = (linear.factors(), linear.vectors(nothing));
            (self.start)(stream, cost.ctas, Launched { factors, c, extents, offsets, slots, arrived, linear })
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
    let groups = experts.count().min(rows).max(1);
    let (tile, cluster) = (configuration.tile, configuration.cluster);
    let high = if configuration.transposed { tile.1 * cluster.1 } else { tile.0 * cluster.0 };
    let tiles_of_rows = rows / high + groups;
    // A batch of products of one row of tiles each has as many.
    let shape = Shape { batch: tiles_of_rows, ..experts.product(1).shape::<T, C>() };
    Cost::of(configuration, shape, sms)
}
