//! `operations.multiply_batched(&stream, &batch, &a, &b, &mut c)`: many products of one shape in one launch.
//!
//! ```text
//! 3 products of 2 x 2 tiles, one schedule:   0 2 | 4 6 |  8 10        a tensor map has a third axis, which counts the matrices; a tile's
//!                                            1 3 | 5 7 |  9 11        coordinates are (k, row, product)
//! ```

use warpwright::arch::Capability;
use warpwright::layout::Error;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, LaunchCounts, Storable, Stream};

use super::epilogue::{Epilogue, Origin, Place};
use super::hopper::{self, HopperGemm};
use super::linear::{Fused, Linear, Parts, Terms};
use super::multiply::{Factor, Operands, Product, ProductScratch, Way, extents, no_warpgroups, refused};
use super::plan::{self, Configuration, Shape};
use super::products::{BatchAxis, Products};
use super::{Gemm, GemmInput, GemmOutput, WarpgroupInput};
use crate::operations::{OperationError, Operations, Result, expect_length};

/// Products of one shape, whose matrices lie one after another.
///
/// ```
/// use warpwright::prelude::*;
/// use warpwright::runtime::Device;
/// use warpwright_kernels::gemm::batched::Batch;
/// use warpwright_kernels::gemm::multiply::Product;
/// use warpwright_kernels::operations::Operations;
///
/// let device = Device::named("emu:h200")?;
/// let (operations, stream) = (Operations::new(&device), device.stream()?);
/// // Three products with one B: 16 x 8 of ones, twos and threes times 8 x 24 of halves.
/// let a: Vec<_> = [1.0, 2.0, 3.0].iter().flat_map(|&value| [bf16::from_f32(value); 16 * 8]).collect();
/// let a = device.buffer_from(&a)?;
/// let b = device.buffer_from(&[bf16::from_f32(0.5); 8 * 24])?;
/// let mut c = device.uninitialized::<f32>(3 * 16 * 24)?;
/// let batch = Batch::new(Product::new(16, 24, 8), 3).sharing_b();
/// operations.multiply_batched(&stream, &batch, &a, &b, &mut c)?;
/// assert_eq!(c.to_vec()?.chunks(16 * 24).map(|c| c[0]).collect::<Vec<_>>(), [4.0, 8.0, 12.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    /// What each is; a matrix has no gaps in itself.
    pub product: Product,
    /// How many.
    pub count: u32,
    /// Elements from one A to the next; 0 where all have the same.
    pub a_stride: u64,
    /// Elements from one B to the next; 0 where all have the same.
    pub b_stride: u64,
    /// Elements from one C to the next.
    pub c_stride: u64,
}

impl From<Product> for Batch {
    fn from(product: Product) -> Self {
        Self::new(product, 1)
    }
}

impl Batch {
    /// `count` of them, without gaps between the matrices.
    pub fn new(product: Product, count: u32) -> Self {
        let [m, n, k] = [product.m, product.n, product.k].map(u64::from);
        Self { product, count, a_stride: m * k, b_stride: k * n, c_stride: m * n }
    }

    /// The elements of A, B and C, gaps included.
    pub(super) fn lengths(self) -> [usize; 3] {
        let [m, n, k] = [self.product.m, self.product.n, self.product.k].map(u64::from);
        let length = |stride: u64, matrix: u64| match self.count {
            0 => 0,
            count => (u64::from(count - 1) * stride + matrix) as usize,
        };
        [length(self.a_stride, m * k), length(self.b_stride, k * n), length(self.c_stride, m * n)]
    }

    /// All with the same A.
    pub fn sharing_a(self) -> Self {
        Self { a_stride: 0, ..self }
    }

    /// All with the same B: the weights of a layer, say.
    pub fn sharing_b(self) -> Self {
        Self { b_stride: 0, ..self }
    }

    pub(super) fn shape<T: Element, C: Element>(self) -> Shape {
        Shape { batch: self.count, ..self.product.shape::<T, C>() }
    }

    /// Whether each product has an A, and a B, of its own.
    fn own(self) -> (bool, bool) {
        (self.count > 1 && self.a_stride != 0, self.count > 1 && self.b_stride != 0)
    }

    /// Whether warpgroups can multiply it: each product, and TMA steps from matrix to matrix by whole 16 bytes.
    pub(super) fn takes_warpgroups<T: Element>(self, capability: &Capability) -> bool {
        let strides = [self.a_stride, self.b_stride];
        let steps = strides.iter().all(|stride| (stride * u64::from(T::BYTES)).is_multiple_of(16));
        self.product.takes_warpgroups::<T>(capability) && (steps || self.count == 1) && self.count != 0
    }

    /// Whether TMA can store C.
    fn stores_boxes<C: Element>(self) -> bool {
        self.product.stores_boxes::<C>() && (self.c_stride * u64::from(C::BYTES)).is_multiple_of(16)
    }

    /// Refuses buffers that are too short, or, where there are no gaps, too long; and Cs that overlap.
    fn expect_lengths<T: Storable, C: Storable>(&self, [a, b]: [&Buffer<T>; 2], c: &Buffer<C>) -> Result<()> {
        let packed = Self::new(self.product, self.count);
        if self.c_stride < packed.c_stride && self.count > 1 {
            return Err(refused(format!(
                "the batch's Cs of {} elements are {} apart, so they overlap",
                packed.c_stride, self.c_stride
            )));
        }
        let needed = self.lengths();
        for (what, needed, has_gaps, given) in [
            ("A", needed[0], self.a_stride != packed.a_stride, a.len()),
            ("B", needed[1], self.b_stride != packed.b_stride, b.len()),
            ("C", needed[2], self.c_stride != packed.c_stride, c.len()),
        ] {
            // After the last matrix there may be a gap, too.
            if !has_gaps || given < needed {
                expect_length(what, needed, given)?;
            }
        }
        Ok(())
    }

    /// The kernel of a configuration for warpgroups.
    fn kernel<T: Element, C: Element>(self, configuration: Configuration, linear: &Linear<'_>) -> Batched {
        let parts = Parts::of(linear, configuration.transposed);
        let own = self.own();
        let own = if configuration.transposed { (own.1, own.0) } else { own };
        Batched { fused: Fused { gemm: self.product.kernel::<T, C>(configuration), parts }, own }
    }

    /// The PTX of a configuration.
    pub(super) fn ptx<T: WarpgroupInput, C: GemmOutput>(
        self,
        configuration: Configuration,
        capability: &'static Capability,
    ) -> Result<String> {
        let kernel = self.kernel::<T, C>(configuration, &Linear::default());
        Ok(match self.stores_boxes::<C>() {
            true => runtime::ptx(&Batched::run::<T, C>(&kernel)?, capability)?,
            false => runtime::ptx(&Batched::run_any::<T, C>(&kernel)?, capability)?,
        })
    }
}

impl Operations {
    /// C = A·B for each product of a batch, in one launch; accumulated in f32, C is row-major.
    ///
    /// # Errors
    /// As [`multiply`](Self::multiply); or the Cs overlap.
    pub fn multiply_batched<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        if batch.product.k == 0 && batch.count != 0 {
            batch.expect_lengths([a, b], c)?;
            if batch.c_stride != Batch::new(batch.product, batch.count).c_stride {
                return Err(refused("k is 0, and between the Cs are gaps: fill them with zeros".to_owned()));
            }
            stream.fill_zero(c)?;
            return Ok(LaunchCounts::default());
        }
        self.linear_batched(stream, batch, &Linear::default(), a, b, c)
    }

    /// [`linear`](Self::linear) for each product of a batch, in one launch: each has row scales, column scales and a bias of its own, those of all
    /// without gaps in one vector each.
    ///
    /// # Errors
    /// As [`linear`](Self::linear); or the Cs overlap.
    pub fn linear_batched<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        linear: &Linear<'_>,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let properties = self.device().properties();
        linear.check(batch.product, batch.count)?;
        let way = self.remembered::<(T, C), _, _>(*batch, |batch| {
            Ok(super::multiply::ways::<T, C>(*batch, properties.capability, properties.sm_count)[0])
        })?;
        self.compute_batched(stream, batch, *way, Operands { a, b, c, linear })
    }

    /// C = A·B for each product of a batch, in that way.
    ///
    /// # Errors
    /// As [`multiply_batched`](Self::multiply_batched); and if the way does not suit the product.
    pub fn multiply_batched_by<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        way: Way,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        self.compute_batched(stream, batch, way, Operands { a, b, c, linear: &Linear::default() })
    }

    fn compute_batched<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        way: Way,
        operands: Operands<'_, T, C>,
    ) -> Result<LaunchCounts> {
        batch.expect_lengths([operands.a, operands.b], operands.c)?;
        if batch.count == 0 || operands.c.is_empty() {
            return Ok(LaunchCounts::default());
        }
        match way {
            Way::Warps => T::by_warps(self, stream, *batch, operands),
            Way::Warpgroups(_) if !batch.takes_warpgroups::<T>(self.device().properties().capability) => {
                if batch.count == 1 {
                    return self.compute(stream, batch.product, way, operands);
                }
                Err(no_warpgroups::<T>(batch.product))
            }
            Way::Warpgroups(configuration) => {
                let kernel = batch.kernel::<T, C>(configuration, operands.linear);
                let ready = self.remembered::<(T, C), _, _>((*batch, configuration, kernel), |_| {
                    Ready::<C>::new::<T>(self, *batch, configuration, kernel)
                })?;
                ready.launch(self, stream, operands)
            }
        }
    }
}

/// How many products there are, and the elements from one C to the next.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
struct Repetition {
    count: Reg<u32>,
    c_stride: Reg<u64>,
}

/// The GEMM for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Batched {
    fused: Fused<HopperGemm>,
    /// Whether each product has an A, and a B, of its own.
    own: (bool, bool),
}

impl Batched {
    /// The products of the launch.
    #[device]
    fn products(
        &self,
        (a, b): (&TensorMap, &TensorMap),
        extents: (Reg<u32>, Reg<u32>, Reg<u32>),
        Repetition { count, c_stride }: Repetition,
    ) -> Products {
        Products::one(a, b, extents).in_batch(BatchAxis { count, own: self.own, c_stride })
    }

    #[kernel]
    fn run<T: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        c: &TensorMap,
        residual: &Global<C>,
        factors: [f32; 2],
        row_scales: &Global<f32>,
        column_scales: &Global<f32>,
        bias: &Global<f32>,
        slots: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
        repetition: Repetition,
    ) {
        let terms = Terms::new(factors, [row_scales, column_scales, bias], residual);
        let epilogue = self.fused.parts.epilogue(terms);
        let products = self.products((a, b), (m, n, k), repetition);
        self.fused.gemm.store_boxes::<T, C>(&products, c, (slots, arrived), &epilogue);
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
        repetition: Repetition,
    ) {
        let terms = Terms::new(factors, [row_scales, column_scales, bias], c);
        let epilogue = self.fused.parts.epilogue(terms);
        let products = self.products((a, b), (m, n, k), repetition);
        self.fused.gemm.store_elements::<T, C>(&products, c, (slots, arrived), &epilogue);
    }
}

impl Fused<Gemm> {
    /// The product of this CTA's row of the grid, with matrices so far apart.
    #[kernel]
    pub(super) fn run_batch<T: GemmInput, C: GemmOutput>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
        c: &mut Global<C>,
        factors: [f32; 2],
        row_scales: &Global<f32>,
        column_scales: &Global<f32>,
        bias: &Global<f32>,
        m: u32,
        n: u32,
        k: u32,
        strides: [u64; 3],
    ) {
        let terms = Terms::new(factors, [row_scales, column_scales, bias], c);
        let epilogue = self.parts.epilogue(terms);
        let product = block_idx().y;
        let [a_start, b_start, c_start] = strides.map(|stride| product.convert::<u64>() * stride);
        let origin = Origin { row: product * m, column: product * n, element: c_start };
        let epilogue = |sum: Reg<f32>, at: Place| epilogue.apply(sum, Place { origin: Some(origin), ..at });
        self.gemm.compute(&a.at(a_start), &b.at(b_start), &c.at(c_start), (m, n, k), &epilogue);
    }
}

/// The kernel of a batch, and all about its launch that does not depend on the buffers.
struct Ready<C> {
    /// The kernel's own A and B: those of the product, or of its transpose.
    factors: [Mapping; 2],
    transposed: bool,
    /// Elements of the workspace, and counters.
    split_space: (usize, usize),
    start: Start<C>,
}

/// How the matrices of a factor lie, and the tile of them that is loaded.
pub(super) struct Mapping {
    pub(super) extents: (u64, u64),
    /// How many, and elements from one to the next; `None` of one that all share.
    pub(super) matrices: Option<(u64, u64)>,
    pub(super) tile: TmaTile,
}

impl Mapping {
    pub(super) fn of<T: Storable>(&self, buffer: &Buffer<T>) -> Result<runtime::TensorMap> {
        Ok(match self.matrices {
            Some(matrices) => runtime::TensorMap::of_tiles(buffer, self.extents, matrices, &self.tile)?,
            None => runtime::TensorMap::of_tile(buffer, self.extents, &self.tile)?,
        })
    }
}

/// Launches a kernel.
type Start<C> = Box<dyn Fn(&Stream, Launched<'_, C>) -> Result<LaunchCounts> + Send + Sync>;

/// What a launch is given.
struct Launched<'a, C> {
    factors: [runtime::TensorMap; 2],
    c: &'a mut Buffer<C>,
    slots: &'a mut Buffer<f32>,
    arrived: &'a mut Buffer<u32>,
    /// The factors, the row scales, the column scales and the bias of an epilogue.
    linear: ([f32; 2], [&'a Buffer<f32>; 3]),
}

impl<C: GemmOutput + Storable> Ready<C> {
    fn new<T: Factor>(
        operations: &Operations,
        batch: Batch,
        configuration: Configuration,
        kernel: Batched,
    ) -> Result<Self> {
        let cost =
            plan::Cost::of(configuration, batch.shape::<T, C>(), operations.device().properties().sm_count);
        let Product { m, n, k, .. } = batch.product;
        let (transposed, count) = (configuration.transposed, batch.count);
        let mapping = |extents, own: bool, stride: u64, tile: Result<TmaTile, Error>| {
            let tile = tile.map_err(|error| refused(error.to_string()))?;
            let matrices = own.then_some((count.into(), stride));
            Ok::<_, OperationError>(Mapping { extents, matrices, tile })
        };
        let (m, n) = if transposed { (n, m) } else { (m, n) };
        let strides = (batch.a_stride, batch.b_stride);
        let strides = if transposed { (strides.1, strides.0) } else { strides };
        let own = kernel.own;
        let gemm = kernel.fused.gemm;
        let repetition = (count, batch.c_stride);
        Ok(Self {
            factors: [
                mapping(extents(m, k), own.0, strides.0, gemm.a_tile::<T>())?,
                mapping(extents(n, k), own.1, strides.1, gemm.b_tile::<T>())?,
            ],
            transposed,
            split_space: if configuration.split { cost.split_space() } else { (1, 1) },
            start: if batch.stores_boxes::<C>() {
                let compiled = operations.kernel(kernel, Batched::run::<T, C>)?;
                let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
                let mapping = mapping(extents(m, n), true, batch.c_stride, gemm.c_tile::<C>())?;
                Box::new(move |stream, Launched { factors: [a, b], c, slots, arrived, linear }| {
                    let map = mapping.of(c)?;
                    let (factors, [rows, columns, bias]) = linear;
                    let arguments = (
                        &a, &b, &map, &*c, factors, rows, columns, bias, slots, arrived, m, n, k, repetition,
                    );
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                })
            } else {
                let compiled = operations.kernel(kernel, Batched::run_any::<T, C>)?;
                let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
                Box::new(move |stream, Launched { factors: [a, b], c, slots, arrived, linear }| {
                    let (factors, [rows, columns, bias]) = linear;
                    let arguments =
                        (&a, &b, c, factors, rows, columns, bias, slots, arrived, m, n, k, repetition);
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                })
            },
        })
    }

    fn launch<T: Factor>(
        &self,
        operations: &Operations,
        stream: &Stream,
        Operands { a, b, c, linear }: Operands<'_, T, C>,
    ) -> Result<LaunchCounts> {
        let (a, b) = if self.transposed { (b, a) } else { (a, b) };
        let factors = [self.factors[0].of(a)?, self.factors[1].of(b)?];
        operations.with_scratch(stream, |scratch: &mut ProductScratch| {
            let slots = scratch.slots.at_least(operations.device(), self.split_space.0)?;
            let arrived = scratch.arrived.at_least_kept(stream, self.split_space.1)?;
            let nothing = &*scratch.nothing.at_least(operations.device(), 1)?;
            let linear = (linear.factors(), linear.vectors(nothing));
            (self.start)(stream, Launched { factors, c, slots, arrived, linear })
        })
    }
}
