//! `operations.multiply_batched(&stream, &batch, &a, &b, &mut c)`: many products of one shape in one launch.
//!
//! ```text
//! 3 products of 2 x 2 tiles, one schedule:   0 2 | 4 6 |  8 10        a tensor map has a third axis, which counts the matrices; a tile's
//!                                            1 3 | 5 7 |  9 11        coordinates are (k, row, product)
//! ```

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::epilogue::{Epilogue, Origin, Place};
use super::finish::{FusedEpilogue, Kinds, NUMBERS};
use super::fused::Fused;
use super::kinds::{Alike, Kind, One};
use super::linear::{Linear, Parts};
use super::multiply::{Factor, Operands, Product, Way, has_warpgroups, no_warpgroups, refused};
use super::plan::{Configuration, Shape};
use super::ready::{OnHost, Planned, WarpgroupWay};
use super::{Gemm, GemmInput, GemmOutput, WarpgroupInput};
use crate::operations::{Operations, Result, expect_length};

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

    /// The batch whose Cs are the transposes of this one's.
    pub(super) fn transposed(self) -> Self {
        let Self { product, a_stride, b_stride, .. } = self;
        Self { product: product.transposed(), a_stride: b_stride, b_stride: a_stride, ..self }
    }

    pub(super) fn shape<T: Element, C: Element>(self) -> Shape {
        Shape { batch: self.count, ..self.product.shape::<T, C>() }
    }

    /// How many different A, and B, there are, and elements from one to the next.
    pub(super) fn matrices(self) -> [(u32, u64); 2] {
        [self.a_stride, self.b_stride].map(|stride| (if stride == 0 { 1 } else { self.count }, stride))
    }

    /// Whether each product has an A, and a B, of its own.
    pub(super) fn own(self) -> (bool, bool) {
        let [a, b] = self.matrices().map(|(count, _)| count > 1);
        (a, b)
    }

    /// Whether there is nothing to multiply.
    pub(super) fn is_empty(self) -> bool {
        self.count == 0 || !self.product.has_work()
    }

    /// Whether TMA can store C.
    pub(super) fn stores_boxes<C: Element>(self) -> bool {
        let steps = (self.c_stride * u64::from(C::BYTES)).is_multiple_of(16);
        self.product.stores_boxes::<C>() && (steps || self.count == 1)
    }

    /// Refuses buffers that are too short, or, where there are no gaps, too long; and Cs that overlap.
    pub(super) fn expect_lengths<A: Storable, B: Storable, C: Storable>(
        &self,
        (a, b): (&Buffer<A>, &Buffer<B>),
        c: &Buffer<C>,
    ) -> Result<()> {
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

    /// What is computed in a way: of several products; of one, [`One`] is planned.
    pub(super) fn planned<W>(self, way: W) -> Planned<W, Alike> {
        Planned { kind: Alike { own: self.own() }, batch: self, way }
    }

    /// The PTX of a way, with those parts of an epilogue.
    pub(super) fn ptx<W: WarpgroupWay, A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        self,
        way: W,
        staged: (Parts, Kinds),
        capability: &'static Capability,
    ) -> Result<String> {
        match self.count {
            1 => Planned { kind: One, batch: self, way }.ptx::<A, B, C>(staged, capability),
            _ => self.planned(way).ptx::<A, B, C>(staged, capability),
        }
    }
}

impl Operations {
    /// C = A·B for each product of a batch, in one launch; accumulated in f32, C is row-major.
    ///
    /// # Errors
    /// As [`multiply`](Self::multiply); or the Cs overlap.
    pub fn multiply_batched<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        if batch.product.k == 0 && batch.count != 0 {
            batch.expect_lengths((a, b), c)?;
            return self.multiply_nothing(stream, batch, c);
        }
        self.linear_batched(stream, batch, &Linear::default(), a, b, c)
    }

    /// [`linear`](Self::linear) for each product of a batch, in one launch: each has row scales, column scales and a bias of its own, those of all
    /// without gaps in one vector each.
    ///
    /// # Errors
    /// As [`linear`](Self::linear); or the Cs overlap.
    pub fn linear_batched<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        linear: &Linear<'_>,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        linear.check(batch.product, batch.count)?;
        let way = self.way::<A, B, C>(*batch)?;
        self.compute(stream, *batch, way, Operands { a, b, c, finish: &linear.finish() })
    }

    /// C = A·B for each product of a batch, in that way.
    ///
    /// # Errors
    /// As [`multiply_batched`](Self::multiply_batched); and if the way does not suit the product.
    pub fn multiply_batched_by<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        way: Way,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        self.compute(stream, *batch, way, Operands { a, b, c, finish: &Linear::default().finish() })
    }

    /// C = 0 for each product of a batch of no depth.
    pub(super) fn multiply_nothing<C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let packed = Batch::new(batch.product, batch.count);
        if batch.c_stride != packed.c_stride {
            return Err(refused("k is 0, and between the Cs are gaps: fill them with zeros".to_owned()));
        }
        expect_length("C", packed.lengths()[2], c.len())?;
        stream.fill_zero(c)?;
        Ok(LaunchCounts::default())
    }

    /// Computes a batch in that way.
    pub(super) fn compute<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable, E: FusedEpilogue<C>>(
        &self,
        stream: &Stream,
        batch: Batch,
        way: Way,
        operands: Operands<'_, A, B, C, E>,
    ) -> Result<LaunchCounts> {
        batch.expect_lengths((operands.a, operands.b), operands.c)?;
        if batch.count == 0 || operands.c.is_empty() {
            return Ok(LaunchCounts::default());
        }
        match (way, batch.count) {
            (Way::Warps(warps), _) => A::by_warps(self, stream, (batch, warps), operands),
            (Way::Warpgroups(_), _) if !has_warpgroups(self.device().properties().capability) => {
                Err(no_warpgroups::<A, B>(batch.product))
            }
            (Way::Warpgroups(way), 1) => {
                self.by_plain_warpgroups(stream, Planned { kind: One, batch, way }, operands, &())
            }
            (Way::Warpgroups(way), count) => {
                self.by_plain_warpgroups(stream, batch.planned(way), operands, &(count, batch.c_stride))
            }
        }
    }

    /// Computes what is planned of factors that have no scales.
    pub(super) fn by_plain_warpgroups<K, A, B, C, E>(
        &self,
        stream: &Stream,
        planned: Planned<Configuration, K>,
        operands: Operands<'_, A, B, C, E>,
        told: &OnHost<'_, K::Told>,
    ) -> Result<LaunchCounts>
    where
        K: Kind,
        A: Factor<B>,
        B: Factor<A>,
        C: GemmOutput + Storable,
        E: FusedEpilogue<C>,
    {
        match planned.way.transposed {
            false => self.by_warpgroups(stream, planned, operands, &(), told),
            true => self.by_warpgroups(stream, planned, operands.transposed(), &(), told),
        }
    }
}

impl<E> Fused<Gemm, E> {
    /// The product of this CTA's row of the grid, if there are so many, with matrices so far apart.
    #[kernel]
    pub(super) fn run_batch<T: GemmInput, C: GemmOutput>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
        c: &mut Global<C>,
        matrix: &Global<C>,
        numbers: [f32; NUMBERS],
        rows: &Global<f32>,
        columns: &Global<f32>,
        more_columns: &Global<f32>,
        m: u32,
        n: u32,
        k: u32,
        strides: [u64; 3],
        count: u32,
    ) where
        E: FusedEpilogue<C>,
    {
        let epilogue = self.finish(numbers, [rows, columns, more_columns], [matrix, c]);
        let product = block_idx().z * grid_dim().y + block_idx().y;
        let [a_start, b_start, c_start] = strides.map(|stride| product.convert::<u64>() * stride);
        let origin = Origin { row: product * m, column: product * n, element: c_start };
        let epilogue = |sum: Reg<f32>, at: Place| epilogue.apply(sum, Place { origin: Some(origin), ..at });
        if product < count {
            self.gemm.compute(&a.at(a_start), &b.at(b_start), &c.at(c_start), (m, n, k), &epilogue);
        }
    }
}
