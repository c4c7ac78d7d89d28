//! `operations.multiply(&stream, product, &a, &b, &mut c)`: C = A·B by the kernel that suits the shape, the types and the device.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, LaunchCounts, Storable, Stream, TileMaps};

use super::batched::Batch;
use super::experts::{self, Experts};
use super::hopper::{self, HopperGemm};
use super::linear::{Fused, Linear, Parts};
use super::plan::{self, Configuration, Shape};
use super::readable::{FactorCopy, Readable};
use super::{Gemm, GemmInput, GemmOutput, Order, THREADS, WarpgroupInput};
use crate::operations::{OperationError, Operations, Result, Scratch, expect_length};

/// What is multiplied: C (m, n) = A (m, k) · B (k, n), each without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Rows of A and C.
    pub m: u32,
    /// Columns of B and C.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// How A lies.
    pub a: Order,
    /// How B lies.
    pub b: Order,
}

impl Product {
    /// The product of row-major A (m, k) and column-major B (k, n): both have k contiguous, as tensor cores like it best.
    pub fn new(m: u32, n: u32, k: u32) -> Self {
        Self { m, n, k, a: Order::RowMajor, b: Order::ColumnMajor }
    }

    pub(super) fn shape<T: Element, C: Element>(self) -> Shape {
        let Self { m, n, k, .. } = self;
        Shape { m, n, k, batch: 1, input_bytes: T::BYTES, output_bytes: C::BYTES }
    }

    /// The Hopper kernel of a configuration.
    pub(super) fn kernel<T: Element, C: Element>(self, configuration: Configuration) -> HopperGemm {
        plan::kernel(configuration, self.shape::<T, C>(), [self.a, self.b, Order::RowMajor])
    }

    /// Whether TMA can store C.
    pub(super) fn stores_boxes<C: Element>(self) -> bool {
        C::BYTES == 2 && (u64::from(self.n) * u64::from(C::BYTES)).is_multiple_of(16)
    }

    /// The PTX of a configuration.
    pub(super) fn ptx<T: WarpgroupInput, C: GemmOutput>(
        self,
        configuration: Configuration,
        capability: &'static Capability,
    ) -> Result<String> {
        let parts = Parts::of(&Linear::default(), configuration.transposed);
        let gemm = Readable::of::<T>(self).product.kernel::<T, C>(configuration);
        let fused = Fused { gemm, parts };
        Ok(match self.stores_boxes::<C>() {
            true => runtime::ptx(&Fused::<HopperGemm>::run::<T, C>(&fused)?, capability)?,
            false => runtime::ptx(&Fused::<HopperGemm>::run_any::<T, C>(&fused)?, capability)?,
        })
    }

    /// Whether warpgroups can multiply it, if need be copies of A and B.
    fn takes_warpgroups_copied(self, capability: &Capability) -> bool {
        let is_empty = self.m == 0 || self.n == 0 || self.k == 0;
        capability.target == "sm_90a" && !is_empty
    }

    /// Whether warpgroups can multiply it as it is.
    pub(super) fn takes_warpgroups<T: Element>(self, capability: &Capability) -> bool {
        self.takes_warpgroups_copied(capability) && Readable::of::<T>(self).as_it_is()
    }
}

/// The way a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By `cp.async` and `mma.sync`: any GPU, any shape.
    Warps,
    /// By TMA and `wgmma`, on Hopper, in this configuration.
    Warpgroups(Configuration),
}

/// The ways to compute a product, or a batch, on a device, the cheapest first: on Hopper by warpgroups, unless A or B would have to be copied
/// for TMA to read it, and multiplying the few there are by `mma.sync` takes less time.
pub fn ways<T: WarpgroupInput, C: Element>(
    batch: impl Into<Batch>,
    capability: &Capability,
    sms: u32,
) -> Vec<Way> {
    let batch = batch.into();
    let product = batch.product;
    let is_readable = batch.takes_warpgroups::<T>(capability);
    let is_copied = !is_readable && batch.count == 1 && product.takes_warpgroups_copied(capability);
    if !(is_readable || is_copied) {
        return vec![Way::Warps];
    }
    let costs = plan::costs(batch.shape::<T, C>(), sms);
    let warpgroups = costs.iter().map(|cost| Way::Warpgroups(cost.configuration));
    let copied = costs[0].cycles + Readable::of::<T>(product).cycles::<T>();
    if is_copied && T::BYTES == 2 && plan::warps_cycles(&Gemm::for_product(product), product, sms) < copied {
        return [Way::Warps].into_iter().chain(warpgroups).collect();
    }
    warpgroups.chain([Way::Warps]).collect()
}

/// Why warpgroups cannot compute a product.
pub(super) fn no_warpgroups<T: Element>(product: Product) -> OperationError {
    let Product { m, n, k, .. } = product;
    refused(format!(
        "{} of {m} x {n} x {k} by wgmma needs sm_90a; a batch also needs rows and strides of A and B of whole 16 bytes, and k contiguous \
         but for 16-bit types",
        T::NAME
    ))
}

/// A type that [`Operations::multiply`] multiplies.
pub trait Factor: WarpgroupInput + Storable {
    /// Multiplies by `mma.sync`, where there is a kernel of it for this type.
    ///
    /// # Errors
    /// There is none; or the launch's.
    fn by_warps<C: GemmOutput + Storable>(
        operations: &Operations,
        stream: &Stream,
        batch: Batch,
        operands: Operands<'_, Self, C>,
    ) -> Result<LaunchCounts>;

    /// Multiplies groups of rows by `mma.sync`.
    ///
    /// # Errors
    /// As [`by_warps`](Self::by_warps).
    fn experts_by_warps<C: GemmOutput + Storable>(
        operations: &Operations,
        stream: &Stream,
        experts: &Experts<'_>,
        operands: Operands<'_, Self, C>,
    ) -> Result<LaunchCounts>;

    /// The kernel that multiplies by `mma.sync`.
    ///
    /// # Errors
    /// There is none for this type.
    fn warps_ptx<C: GemmOutput>(batch: Batch, capability: &'static Capability) -> Result<String>;
}

/// The buffers of a product, and its epilogue.
pub struct Operands<'a, T, C> {
    pub(super) a: &'a Buffer<T>,
    pub(super) b: &'a Buffer<T>,
    pub(super) c: &'a mut Buffer<C>,
    /// What becomes of the sums.
    pub(super) linear: &'a Linear<'a>,
}

/// Why a product cannot be computed.
pub(super) fn refused(reason: String) -> OperationError {
    OperationError::Shape { what: "multiply", reason }
}

impl<T: GemmInput + WarpgroupInput + Storable> Factor for T {
    fn by_warps<C: GemmOutput + Storable>(
        operations: &Operations,
        stream: &Stream,
        batch: Batch,
        operands: Operands<'_, T, C>,
    ) -> Result<LaunchCounts> {
        let Product { m, n, k, .. } = batch.product;
        let kernel = Gemm::for_batch(batch);
        let Operands { a, b, c, linear } = operands;
        let fused = Fused { gemm: kernel, parts: Parts::of(linear, false) };
        let tiles = kernel.grid(m, n);
        operations.with_scratch(stream, |scratch: &mut ProductScratch| {
            let [rows, columns, bias] = linear.vectors(scratch.nothing.at_least(operations.device(), 1)?);
            if batch.count == 1 {
                let compiled = operations.kernel(fused, Fused::<Gemm>::run::<T, C>)?;
                let arguments = (a, b, c, linear.factors(), rows, columns, bias, m, n, k);
                return Ok(compiled.launch(stream, tiles, THREADS, arguments)?);
            }
            let compiled = operations.kernel(fused, Fused::<Gemm>::run_batch::<T, C>)?;
            let strides = [batch.a_stride, batch.b_stride, batch.c_stride];
            let arguments = (a, b, c, linear.factors(), rows, columns, bias, m, n, k, strides);
            Ok(compiled.launch(stream, (tiles, batch.count), THREADS, arguments)?)
        })
    }

    fn experts_by_warps<C: GemmOutput + Storable>(
        operations: &Operations,
        stream: &Stream,
        experts: &Experts<'_>,
        operands: Operands<'_, T, C>,
    ) -> Result<LaunchCounts> {
        experts::by_warps(operations, stream, experts, operands)
    }

    fn warps_ptx<C: GemmOutput>(batch: Batch, capability: &'static Capability) -> Result<String> {
        let gemm = Gemm::for_batch(batch);
        if batch.count == 1 {
            return Ok(runtime::ptx(&gemm.run::<T, C>()?, capability)?);
        }
        let fused = Fused { gemm, parts: Parts::of(&Linear::default(), false) };
        Ok(runtime::ptx(&fused.run_batch::<T, C>()?, capability)?)
    }
}

/// Types that only warpgroups multiply.
macro_rules! warpgroups_only {
    ($($ty:ident)*) => {
        $(impl Factor for $ty {
            fn by_warps<C: GemmOutput + Storable>(
                _: &Operations,
                _: &Stream,
                batch: Batch,
                _: Operands<'_, Self, C>,
            ) -> Result<LaunchCounts> {
                Err(no_warpgroups::<Self>(batch.product))
            }

            fn experts_by_warps<C: GemmOutput + Storable>(
                _: &Operations,
                _: &Stream,
                experts: &Experts<'_>,
                operands: Operands<'_, Self, C>,
            ) -> Result<LaunchCounts> {
                Err(no_warpgroups::<Self>(experts.product(experts.rows(operands.a))))
            }

            fn warps_ptx<C: GemmOutput>(batch: Batch, _: &'static Capability) -> Result<String> {
                Err(no_warpgroups::<Self>(batch.product))
            }
        })*
    };
}

warpgroups_only! { tf32 e4m3 e5m2 }

/// Sums of split tiles, how many of them have come, and what stands for a vector that an epilogue does not read.
#[derive(Default)]
pub(super) struct ProductScratch {
    pub(super) slots: Scratch<f32>,
    pub(super) arrived: Scratch<u32>,
    pub(super) nothing: Scratch<f32>,
}

impl Operations {
    /// C = A·B, accumulated in f32; C is row-major.
    ///
    /// # Errors
    /// A buffer has another length than the product asks for; the device has no kernel for the types; or it failed.
    pub fn multiply<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let way = self.way::<T, C>(product)?;
        self.multiply_by(stream, product, way, a, b, c)
    }

    /// The cheapest way to compute a product.
    pub(super) fn way<T: WarpgroupInput, C: Element>(&self, product: Product) -> Result<Way> {
        let properties = self.device().properties();
        let way = self.remembered::<(T, C), _, _>(product, |&product| {
            Ok(ways::<T, C>(product, properties.capability, properties.sm_count)[0])
        })?;
        Ok(*way)
    }

    /// C = A·B in that way.
    ///
    /// # Errors
    /// As [`multiply`](Self::multiply); and if the way does not suit the product.
    pub fn multiply_by<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        way: Way,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        if product.k == 0 {
            expect_length("C", product.m as usize * product.n as usize, c.len())?;
            stream.fill_zero(c)?;
            return Ok(LaunchCounts::default());
        }
        self.compute(stream, product, way, Operands { a, b, c, linear: &Linear::default() })
    }

    /// Computes a product of some depth in that way.
    pub(super) fn compute<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        way: Way,
        operands: Operands<'_, T, C>,
    ) -> Result<LaunchCounts> {
        let [m, n, k] = [product.m, product.n, product.k].map(|extent| extent as usize);
        expect_length("A", m * k, operands.a.len())?;
        expect_length("B", k * n, operands.b.len())?;
        expect_length("C", m * n, operands.c.len())?;
        if operands.c.is_empty() {
            return Ok(LaunchCounts::default());
        }
        match way {
            Way::Warps => T::by_warps(self, stream, product.into(), operands),
            Way::Warpgroups(_) if !product.takes_warpgroups_copied(self.device().properties().capability) => {
                Err(no_warpgroups::<T>(product))
            }
            Way::Warpgroups(configuration) => {
                let parts = Parts::of(operands.linear, configuration.transposed);
                let ready = self.remembered::<(T, C), _, _>((product, configuration, parts), |_| {
                    Ready::<T, C>::new(self, product, configuration, parts)
                })?;
                let Operands { a, b, c, linear } = operands;
                self.with_readable(stream, ready.readable, [a, b], |[a, b]| {
                    ready.launch(self, stream, Operands { a, b, c, linear })
                })
            }
        }
    }
}

/// The Hopper kernel of a product, and all about its launch that does not depend on the buffers.
struct Ready<T, C> {
    /// What becomes of A and B before.
    readable: Readable,
    /// Whether the kernel's own A, B and C are those of the product's transpose.
    transposed: bool,
    a_maps: TileMaps<T>,
    b_maps: TileMaps<T>,
    /// Elements of the workspace, and counters.
    split_space: (usize, usize),
    start: Start<C>,
}

/// Launches a kernel: on a stream, with the maps of A and B, C itself, and where the parts of tiles meet.
type Start<C> = Box<dyn Fn(&Stream, Launched<'_, C>) -> Result<LaunchCounts> + Send + Sync>;

/// What a launch is given.
struct Launched<'a, C> {
    a: runtime::TensorMap,
    b: runtime::TensorMap,
    c: &'a mut Buffer<C>,
    slots: &'a mut Buffer<f32>,
    arrived: &'a mut Buffer<u32>,
    /// The factors, the row scales, the column scales and the bias of an epilogue.
    linear: ([f32; 2], [&'a Buffer<f32>; 3]),
}

/// The maps of operands (rows, columns), in boxes of a tile.
fn maps<T: Storable>(
    rows: u32,
    columns: u32,
    tile: Result<TmaTile, warpwright::layout::Error>,
) -> Result<TileMaps<T>> {
    let tile = tile.map_err(|error| refused(error.to_string()))?;
    Ok(TileMaps::new((rows.into(), columns.into()), &tile)?)
}

impl<T: Factor, C: GemmOutput + Storable> Ready<T, C> {
    fn new(
        operations: &Operations,
        product: Product,
        configuration: Configuration,
        parts: Parts,
    ) -> Result<Self> {
        let readable = Readable::of::<T>(product);
        let kernel = readable.product.kernel::<T, C>(configuration);
        let fused = Fused { gemm: kernel, parts };
        let shape = product.shape::<T, C>();
        let cost = plan::Cost::of(configuration, shape, operations.device().properties().sm_count);
        let Product { m, n, k, .. } = product;
        let transposed = configuration.transposed;
        let (m, n) = if transposed { (n, m) } else { (m, n) };
        let [a_copy, b_copy] = readable.copies;
        let (a_copy, b_copy) = if transposed { (b_copy, a_copy) } else { (a_copy, b_copy) };
        let pitched = |maps: TileMaps<T>, copy: Option<FactorCopy>| match copy {
            Some(copy) => maps.pitched(copy.pitch.into()),
            None => maps,
        };
        Ok(Self {
            readable,
            transposed,
            a_maps: pitched(maps(m, k, kernel.a_tile::<T>())?, a_copy),
            b_maps: pitched(maps(n, k, kernel.b_tile::<T>())?, b_copy),
            split_space: if configuration.split { cost.split_space() } else { (1, 1) },
            start: if product.stores_boxes::<C>() {
                let compiled = operations.kernel(fused, Fused::<HopperGemm>::run::<T, C>)?;
                let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
                let maps = maps::<C>(m, n, kernel.c_tile::<C>())?;
                Box::new(move |stream, Launched { a, b, c, slots, arrived, linear }| {
                    let map = maps.of(c)?;
                    let (factors, [rows, columns, bias]) = linear;
                    let arguments =
                        (&a, &b, &map, &*c, factors, rows, columns, bias, slots, arrived, m, n, k);
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                })
            } else {
                let compiled = operations.kernel(fused, Fused::<HopperGemm>::run_any::<T, C>)?;
                let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
                Box::new(move |stream, Launched { a, b, c, slots, arrived, linear }| {
                    let (factors, [rows, columns, bias]) = linear;
                    let arguments = (&a, &b, c, factors, rows, columns, bias, slots, arrived, m, n, k);
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                })
            },
        })
    }

    fn launch(
        &self,
        operations: &Operations,
        stream: &Stream,
        Operands { a, b, c, linear }: Operands<'_, T, C>,
    ) -> Result<LaunchCounts> {
        let (a, b) = if self.transposed { (b, a) } else { (a, b) };
        let (a, b) = (self.a_maps.of(a)?, self.b_maps.of(b)?);
        operations.with_scratch(stream, |scratch: &mut ProductScratch| {
            let slots = scratch.slots.at_least(operations.device(), self.split_space.0)?;
            let arrived = scratch.arrived.at_least_kept(stream, self.split_space.1)?;
            let nothing = &*scratch.nothing.at_least(operations.device(), 1)?;
            let linear = (linear.factors(), linear.vectors(nothing));
            (self.start)(stream, Launched { a, b, c, slots, arrived, linear })
        })
    }
}

/// The extents of a matrix, as a tensor map counts them.
pub(super) fn extents(mn: u32, k: u32) -> (u64, u64) {
    (mn.into(), k.into())
}
