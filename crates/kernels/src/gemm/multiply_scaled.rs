//! `operations.multiply_scaled(&stream, product, a, b, &mut c)`: C = A·B of narrow floats whose blocks have scales.

use std::fmt;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, LaunchCounts, Storable, Stream};

use super::blocks::ScaledGemm;
use super::epilogue::as_it_is;
use super::hopper::{self, Consumers};
use super::multiply::{Product, ProductScratch, extents};
use super::plan::{self, Configuration, Cost, SHARED_BYTES, SHARED_MARGIN, Shape};
use super::products::Products;
use super::scales::Granularity;
use super::{GemmOutput, Order, WarpgroupInput};
use crate::operations::{OperationError, Operations, Result, expect_length};

/// A factor whose blocks have scales.
#[derive(Clone, Copy)]
pub struct Scaled<'a, T> {
    /// The elements, with k contiguous.
    pub values: &'a Buffer<T>,
    /// The scales, as [`Granularity::index`] orders them.
    pub scales: &'a Buffer<f32>,
    /// What has a scale of its own.
    pub granularity: Granularity,
}

impl<'a, T> Scaled<'a, T> {
    /// With a scale for 128 of k of each row; of B, of each column.
    pub fn by_row(values: &'a Buffer<T>, scales: &'a Buffer<f32>) -> Self {
        Self { values, scales, granularity: Granularity::Row }
    }

    /// With a scale for 128 of k of 128 rows; of B, of 128 columns.
    pub fn by_block(values: &'a Buffer<T>, scales: &'a Buffer<f32>) -> Self {
        Self { values, scales, granularity: Granularity::Block }
    }
}

/// A type whose blocks have scales: floats of 8 bits.
pub trait Narrow: WarpgroupInput + Storable {
    /// The largest finite value.
    const LARGEST: f32;
}

impl Narrow for e4m3 {
    const LARGEST: f32 = 448.0;
}

impl Narrow for e5m2 {
    const LARGEST: f32 = 57344.0;
}

/// What has a scale: of A, and of B.
pub type Granularities = (Granularity, Granularity);

/// How a product with scales is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaledWay {
    /// Tile, cluster and so on.
    pub configuration: Configuration,
    /// Sets of sums of a consumer.
    pub in_flight: u32,
}

/// Columns of the tiles, all of 128 rows, and sets of sums of a consumer: as many as its registers hold beside the totals.
const TILES: &[(u32, u32)] =
    &[(128, 2), (192, 1), (160, 1), (128, 1), (96, 2), (64, 2), (32, 2), (16, 2), (8, 2)];

impl ScaledWay {
    /// All that make sense for a shape, the cheapest first.
    pub fn all(shape: Shape, granularities: Granularities, sms: u32) -> Vec<Self> {
        let mut ways: Vec<(f64, Self)> = Vec::new();
        for &(columns, in_flight) in TILES {
            for mut configuration in Configuration::of_tiles(&[((128, columns), Consumers::Cooperate)], shape)
            {
                // A slot is one block of k deep.
                configuration.spans = 1;
                let way = Self { configuration, in_flight };
                configuration.stages = way.most_stages(shape, granularities);
                ways.push((Cost::of(configuration, shape, sms).cycles, Self { configuration, in_flight }));
            }
        }
        ways.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        ways.into_iter().map(|(_, way)| way).collect()
    }

    /// Slots that fit into shared memory beside the buffers of the epilogue.
    fn most_stages(self, shape: Shape, granularities: Granularities) -> u32 {
        let kernel = self.kernel(shape, granularities);
        let (rows, columns) = self.configuration.tile;
        let tiles = [kernel.a_scales_tile(), kernel.b_scales_tile()];
        let scales: i64 = tiles.iter().flatten().map(TmaTile::bytes).sum();
        let slot = (rows + columns) * super::scales::BLOCK * shape.input_bytes + scales as u32;
        let buffers = if shape.output_bytes == 2 { 4 * 64 * 64.min(columns) * 2 } else { 0 };
        ((SHARED_BYTES - SHARED_MARGIN - buffers) / slot).min(plan::MOST_STAGES)
    }

    /// The kernel, for operands with k contiguous and a row-major C.
    fn kernel(self, shape: Shape, (a, b): Granularities) -> ScaledGemm {
        let Self { configuration, in_flight } = self;
        let orders = [Order::RowMajor, Order::ColumnMajor, Order::RowMajor];
        let (rows, columns) = if configuration.transposed { (b, a) } else { (a, b) };
        ScaledGemm { gemm: plan::kernel(configuration, shape, orders), rows, columns, in_flight }
    }

    /// The PTX.
    pub(super) fn ptx<T: Narrow, C: GemmOutput>(
        self,
        product: Product,
        granularities: Granularities,
        capability: &'static Capability,
    ) -> Result<String> {
        let kernel = self.kernel(product.shape::<T, C>(), granularities);
        Ok(match product.stores_boxes::<C>() {
            true => runtime::ptx(&kernel.run::<T, C>()?, capability)?,
            false => runtime::ptx(&kernel.run_any::<T, C>()?, capability)?,
        })
    }
}

impl fmt::Display for ScaledWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { configuration, in_flight } = self;
        let sets = if *in_flight == 1 { "set" } else { "sets" };
        write!(f, "{configuration}, {in_flight} {sets} of sums, {} slots", configuration.stages)
    }
}

/// Refuses what the kernel cannot compute.
pub(super) fn check<T: Element>(product: Product, capability: &Capability) -> Result<()> {
    let Product { k, a, b, .. } = product;
    let refuse = |reason: String| Err(OperationError::Shape { what: "multiply_scaled", reason });
    if capability.target != "sm_90a" {
        return refuse(format!(
            "scales of blocks need the tensor cores of sm_90a, and the device is {}",
            capability.target
        ));
    }
    if (a, b) != (Order::RowMajor, Order::ColumnMajor) {
        return refuse("A must be row-major and B column-major, so that k is contiguous in both".to_owned());
    }
    if !(u64::from(k) * u64::from(T::BYTES)).is_multiple_of(16) {
        return refuse(format!("k is {k}: TMA reads rows of whole 16 bytes, so it must be a multiple of 16"));
    }
    Ok(())
}

impl Operations {
    /// C = A·B, where A and B are what their elements and the scales of their blocks multiply to; C is row-major. The sums of 128 of k
    /// are accumulated by the tensor cores, and those in f32.
    ///
    /// ```
    /// use warpwright::prelude::*;
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::multiply::Product;
    /// use warpwright_kernels::gemm::multiply_scaled::Scaled;
    /// use warpwright_kernels::gemm::scales::Granularity;
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:h200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let (m, n, k) = (8, 16, 256);
    /// let a = device.buffer_from(&[e4m3::from_f32(1.0); 8 * 256])?;
    /// let b = device.buffer_from(&[e4m3::from_f32(1.0); 16 * 256])?;
    /// // A's rows are scaled by 1 in the first block of k, and by 2 in the second.
    /// let mut a_scales = vec![1.0f32; Granularity::Row.count((m, k))];
    /// (0..m).for_each(|row| a_scales[Granularity::Row.index((row, 128), (m, k))] = 2.0);
    /// let b_scales = vec![0.5f32; Granularity::Block.count((n, k))];
    /// let (a_scales, b_scales) = (device.buffer_from(&a_scales)?, device.buffer_from(&b_scales)?);
    /// let mut c = device.uninitialized::<f32>(8 * 16)?;
    /// let (a, b) = (Scaled::by_row(&a, &a_scales), Scaled::by_block(&b, &b_scales));
    /// operations.multiply_scaled(&stream, Product::new(m, n, k), a, b, &mut c)?;
    /// assert_eq!(c.to_vec()?, [128.0 * 0.5 + 128.0 * 2.0 * 0.5; 8 * 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer has another length than the product asks for; the orders or k do not suit; the device is no Hopper, or failed.
    pub fn multiply_scaled<T: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        a: Scaled<'_, T>,
        b: Scaled<'_, T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let properties = self.device().properties();
        check::<T>(product, properties.capability)?;
        if product.m == 0 || product.n == 0 || product.k == 0 {
            expect_length("C", product.m as usize * product.n as usize, c.len())?;
            stream.fill_zero(c)?;
            return Ok(LaunchCounts::default());
        }
        let granularities = (a.granularity, b.granularity);
        let way = self.remembered::<(ScaledWay, T, C), _, _>((product, granularities), |_| {
            Ok(ScaledWay::all(product.shape::<T, C>(), granularities, properties.sm_count)[0])
        })?;
        self.multiply_scaled_by(stream, product, *way, a, b, c)
    }

    /// C = A·B in that way; no extent is 0.
    ///
    /// # Errors
    /// As [`multiply_scaled`](Self::multiply_scaled).
    pub fn multiply_scaled_by<T: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        way: ScaledWay,
        a: Scaled<'_, T>,
        b: Scaled<'_, T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        check::<T>(product, self.device().properties().capability)?;
        let Product { m, n, k, .. } = product;
        expect_length("A", m as usize * k as usize, a.values.len())?;
        expect_length("B", k as usize * n as usize, b.values.len())?;
        expect_length("A's scales", a.granularity.count((m, k)), a.scales.len())?;
        expect_length("B's scales", b.granularity.count((n, k)), b.scales.len())?;
        expect_length("C", m as usize * n as usize, c.len())?;
        let key = (product, way, (a.granularity, b.granularity));
        let ready =
            self.remembered::<(T, C), _, _>(key, |key| Ready::<C>::new::<T>(self, product, way, key.2))?;
        let (a, b) = if way.configuration.transposed { (b, a) } else { (a, b) };
        let (m, n) = if way.configuration.transposed { (n, m) } else { (m, n) };
        let map = |operand: Scaled<'_, T>, rows, [values, scales]: &[TmaTile; 2]| -> Result<_> {
            let (blocks, padded) = operand.granularity.extents((rows, k));
            let values = runtime::TensorMap::of_tile(operand.values, extents(rows, k), values)?;
            Ok((values, runtime::TensorMap::of_tile(operand.scales, extents(padded, blocks), scales)?))
        };
        let ((a, a_scales), (b, b_scales)) = (map(a, m, &ready.a)?, map(b, n, &ready.b)?);
        self.with_scratch(stream, |scratch: &mut ProductScratch| {
            let slots = scratch.slots.at_least(self.device(), ready.split_space.0)?;
            let arrived = scratch.arrived.at_least_kept(stream, ready.split_space.1)?;
            let extents = (m, n, k);
            (ready.start)(stream, Launched { a, b, a_scales, b_scales, c, slots, arrived, extents })
        })
    }
}

/// The kernel of a product, and all about its launch that does not depend on the buffers.
struct Ready<C> {
    /// The kernel's own A and B: their tiles, and those of their scales.
    a: [TmaTile; 2],
    b: [TmaTile; 2],
    /// Elements of the workspace, and counters.
    split_space: (usize, usize),
    start: Start<C>,
}

/// Launches a kernel on a stream.
type Start<C> = Box<dyn Fn(&Stream, Launched<'_, C>) -> Result<LaunchCounts> + Send + Sync>;

/// What a launch is given.
struct Launched<'a, C> {
    a: runtime::TensorMap,
    b: runtime::TensorMap,
    a_scales: runtime::TensorMap,
    b_scales: runtime::TensorMap,
    c: &'a mut Buffer<C>,
    slots: &'a mut Buffer<f32>,
    arrived: &'a mut Buffer<u32>,
    /// Of the kernel's own A, B and C.
    extents: (u32, u32, u32),
}

impl<C: GemmOutput + Storable> Ready<C> {
    fn new<T: Narrow>(
        operations: &Operations,
        product: Product,
        way: ScaledWay,
        granularities: Granularities,
    ) -> Result<Self> {
        let shape = product.shape::<T, C>();
        let kernel = way.kernel(shape, granularities);
        let cost = Cost::of(way.configuration, shape, operations.device().properties().sm_count);
        let legal = |tile: Result<TmaTile, warpwright::layout::Error>| {
            tile.map_err(|error| OperationError::Shape { what: "multiply_scaled", reason: error.to_string() })
        };
        Ok(Self {
            a: [legal(kernel.gemm.a_tile::<T>())?, legal(kernel.a_scales_tile())?],
            b: [legal(kernel.gemm.b_tile::<T>())?, legal(kernel.b_scales_tile())?],
            split_space: if way.configuration.split { cost.split_space() } else { (1, 1) },
            start: if product.stores_boxes::<C>() {
                let compiled = operations.kernel(kernel, ScaledGemm::run::<T, C>)?;
                let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
                let tile = legal(kernel.gemm.c_tile::<C>())?;
                Box::new(move |stream, launched| {
                    let Launched { a, b, a_scales, b_scales, c, slots, arrived, extents: (m, n, k) } =
                        launched;
                    let c = runtime::TensorMap::of_tile(c, extents(m, n), &tile)?;
                    let arguments = (&a, &b, &a_scales, &b_scales, &c, slots, arrived, m, n, k);
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                })
            } else {
                let compiled = operations.kernel(kernel, ScaledGemm::run_any::<T, C>)?;
                let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
                Box::new(move |stream, launched| {
                    let Launched { a, b, a_scales, b_scales, c, slots, arrived, extents: (m, n, k) } =
                        launched;
                    let arguments = (&a, &b, &a_scales, &b_scales, c, slots, arrived, m, n, k);
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                })
            },
        })
    }
}

impl ScaledGemm {
    #[kernel]
    fn run<T: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        a_scales: &TensorMap,
        b_scales: &TensorMap,
        c: &TensorMap,
        slots: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
    ) {
        let products = Products::one(a, b, (m, n, k));
        self.store_boxes::<T, C>(&products, (a_scales, b_scales), c, (slots, arrived), &as_it_is());
    }

    #[kernel]
    fn run_any<T: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        a_scales: &TensorMap,
        b_scales: &TensorMap,
        c: &mut Global<C>,
        slots: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
    ) {
        let products = Products::one(a, b, (m, n, k));
        self.store_elements::<T, C>(&products, (a_scales, b_scales), c, (slots, arrived), &as_it_is());
    }
}
