//! `operations.multiply_scaled_batched(..)` and `multiply_scaled_experts(..)`: several products in one launch, of narrow floats whose blocks have
//! scales.
//!
//! ```text
//! scales of a batch, and of the experts' B:      those of one product (blocks of k, rows), then those of the next: the maps' third axis
//! scales of the experts' A:                      (blocks of k, all rows); a group begins at any of them
//!
//! 4 scales in 16 bytes      | 0 1 2 3 | 4 5 6 7 | 8 9 ..        TMA reads from a multiple of 16 bytes on: the tile of the group that
//! a group's first row                     ^                     begins at row 6 is loaded from scale 4 on, and its consumers skip two
//! ```

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::GemmOutput;
use super::batched::Batch;
use super::experts::{Experts, alike};
use super::kinds::One;
use super::linear::Linear;
use super::multiply::Product;
use super::multiply_scaled::{Granularities, Narrow, Scaled, ScaledWay, WayOf, check, fastest};
use super::ready::Planned;
use super::tuned;
use crate::operations::{Operations, Result, expect_length};

impl<T: Storable> Scaled<'_, T> {
    /// Refuses scales of another length than so many operands (rows, k) have.
    pub(super) fn expect_scales(&self, what: &'static str, operand: (u32, u32), count: u32) -> Result<()> {
        expect_length(what, count as usize * self.granularity.count(operand), self.scales.len())
    }
}

impl Operations {
    /// [`multiply_scaled`](Self::multiply_scaled) for each product of a batch, in one launch. The scales of all A lie one after another without
    /// gaps, and those of all B; of a factor that all share there are one factor's.
    ///
    /// ```
    /// use warpwright::prelude::*;
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::batched::Batch;
    /// use warpwright_kernels::gemm::multiply::Product;
    /// use warpwright_kernels::gemm::multiply_scaled::Scaled;
    /// use warpwright_kernels::gemm::scales::Granularity;
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:h200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// // Two products with one B: 8 x 128 of ones, scaled by 2 and by 3, times 128 x 16 of ones.
    /// let a = device.buffer_from(&[e4m3::from_f32(1.0); 2 * 8 * 128])?;
    /// let b = device.buffer_from(&[e4m3::from_f32(1.0); 16 * 128])?;
    /// let scales = |scale: f32| vec![scale; Granularity::Row.count((8, 128))];
    /// let a_scales = device.buffer_from(&[scales(2.0), scales(3.0)].concat())?;
    /// let b_scales = device.buffer_from(&vec![1.0; Granularity::Block.count((16, 128))])?;
    /// let mut c = device.uninitialized::<f32>(2 * 8 * 16)?;
    /// let (a, b) = (Scaled::by_row(&a, &a_scales), Scaled::by_block(&b, &b_scales));
    /// let batch = Batch::new(Product::new(8, 16, 128), 2).sharing_b();
    /// operations.multiply_scaled_batched(&stream, &batch, a, b, &mut c)?;
    /// assert_eq!(c.to_vec()?.chunks(8 * 16).map(|c| c[0]).collect::<Vec<_>>(), [256.0, 384.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`multiply_scaled`](Self::multiply_scaled); or the Cs overlap.
    pub fn multiply_scaled_batched<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        a: Scaled<'_, A>,
        b: Scaled<'_, B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        if batch.product.k == 0 {
            check(self.device().properties().capability)?;
            return self.multiply_nothing(stream, batch, c);
        }
        self.linear_scaled_batched(stream, batch, &Linear::default(), a, b, c)
    }

    /// [`linear_scaled`](Self::linear_scaled) for each product of a batch, in one launch: each has row scales, column scales and a bias of its
    /// own, those of all without gaps in one vector each.
    ///
    /// # Errors
    /// As [`linear_scaled`](Self::linear_scaled); or the Cs overlap.
    pub fn linear_scaled_batched<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        linear: &Linear<'_>,
        a: Scaled<'_, A>,
        b: Scaled<'_, B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        linear.check(batch.product, batch.count)?;
        let granularities = (a.granularity, b.granularity);
        let way = self.remembered::<(ScaledWay, A, B, C), _, _>((*batch, granularities), |_| {
            // Where there is nothing to compute, nothing is launched in any way.
            let Batch { product, count, .. } = *batch;
            let product = Product { m: product.m.max(1), n: product.n.max(1), ..product };
            let some = Batch { product, count: count.max(1), ..*batch };
            let (file, properties) = (tuned::default_file().ok(), self.device().properties());
            Ok(fastest::<A, B, C>(some, granularities, properties, file.as_deref()))
        })?;
        self.compute_scaled(stream, *batch, *way, linear, (a, b), c)
    }

    /// C = A·B for each product of a batch, in that way.
    ///
    /// # Errors
    /// As [`linear_scaled_batched`](Self::linear_scaled_batched).
    pub fn multiply_scaled_batched_by<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: &Batch,
        way: ScaledWay,
        a: Scaled<'_, A>,
        b: Scaled<'_, B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let linear = Linear::default();
        linear.check(batch.product, batch.count)?;
        self.compute_scaled(stream, *batch, way, &linear, (a, b), c)
    }

    fn compute_scaled<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        batch: Batch,
        way: ScaledWay,
        linear: &Linear<'_>,
        (a, b): (Scaled<'_, A>, Scaled<'_, B>),
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        check(self.device().properties().capability)?;
        batch.expect_lengths((a.values, b.values), c)?;
        let Product { m, n, k, .. } = batch.product;
        let [(a_count, _), (b_count, _)] = batch.matrices();
        a.expect_scales("A's scales", (m, k), a_count)?;
        b.expect_scales("B's scales", (n, k), b_count)?;
        if batch.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let way = WayOf(way, (a.granularity, b.granularity));
        match batch.count {
            1 => {
                let planned = Planned { kind: One, batch, way };
                self.by_scaled_warpgroups(stream, planned, (linear, c), (a, b), &())
            }
            count => {
                let told = (count, batch.c_stride);
                self.by_scaled_warpgroups(stream, batch.planned(way), (linear, c), (a, b), &told)
            }
        }
    }

    /// [`multiply_experts`](Self::multiply_experts) of factors whose blocks have scales, in one launch: the forward product of a mixture of experts.
    /// The scales of A are those of all its rows; of the Bs, the scales of each lie after those of the one before, without gaps.
    ///
    /// ```
    /// use warpwright::prelude::*;
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::experts::Experts;
    /// use warpwright_kernels::gemm::multiply_scaled::Scaled;
    /// use warpwright_kernels::gemm::scales::Granularity;
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:h200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// // Rows 0 to 4 go to expert 0, none to expert 1, rows 5 to 11 to expert 2.
    /// let offsets = device.buffer_from(&[0u32, 5, 5, 12])?;
    /// let (rows, n, k) = (12, 24, 128);
    /// let a = device.buffer_from(&[e4m3::from_f32(1.0); 12 * 128])?;
    /// let b = device.buffer_from(&[e4m3::from_f32(0.5); 3 * 24 * 128])?;
    /// let a_scales = device.buffer_from(&vec![2.0; Granularity::Row.count((rows, k))])?;
    /// let b_scales = [1.0, 2.0, 3.0].map(|scale| vec![scale; Granularity::Block.count((n, k))]);
    /// let b_scales = device.buffer_from(&b_scales.concat())?;
    /// let mut c = device.uninitialized::<f32>(12 * 24)?;
    /// let (a, b) = (Scaled::by_row(&a, &a_scales), Scaled::by_block(&b, &b_scales));
    /// operations.multiply_scaled_experts(&stream, &Experts::new(&offsets, n, k), a, b, &mut c)?;
    /// let c: Vec<f32> = c.to_vec()?.chunks(24).map(|row| row[0]).collect();
    /// assert_eq!(c, [[128.0; 5].as_slice(), &[384.0; 7]].concat());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`multiply_experts`](Self::multiply_experts); the scales have another length than the groups ask for; or the device is no Hopper.
    pub fn multiply_scaled_experts<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        a: Scaled<'_, A>,
        b: Scaled<'_, B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        self.linear_scaled_experts(stream, experts, &Linear::default(), a, b, c)
    }

    /// [`linear_experts`](Self::linear_experts) of factors whose blocks have scales.
    ///
    /// # Errors
    /// As [`multiply_scaled_experts`](Self::multiply_scaled_experts); or a vector has another length than C's rows, or all groups' columns.
    pub fn linear_scaled_experts<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        linear: &Linear<'_>,
        a: Scaled<'_, A>,
        b: Scaled<'_, B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let rows = experts.check(linear, (a.values, b.values), c)?;
        let (granularities, alike) = ((a.granularity, b.granularity), alike(rows));
        let key = (experts.count(), experts.product(alike), granularities);
        let way = self.remembered::<(ScaledWay, A, C), _, _>(key, |_| {
            Ok(self.scaled_ways_of_experts::<A, C>(experts, alike.max(1), granularities)[0])
        })?;
        self.scaled_experts_by(stream, experts, *way, (linear, c), (a, b))
    }

    /// C = A·B for each group of rows, in that way.
    ///
    /// # Errors
    /// As [`multiply_scaled_experts`](Self::multiply_scaled_experts).
    pub fn multiply_scaled_experts_by<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        way: ScaledWay,
        a: Scaled<'_, A>,
        b: Scaled<'_, B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let linear = Linear::default();
        experts.check(&linear, (a.values, b.values), c)?;
        self.scaled_experts_by(stream, experts, way, (&linear, c), (a, b))
    }

    /// The ways to multiply groups that have so many rows together, of factors of those granularities, the cheapest first.
    pub fn scaled_ways_of_experts<T: Narrow, C: Element>(
        &self,
        experts: &Experts<'_>,
        rows: u32,
        granularities: Granularities,
    ) -> Vec<ScaledWay> {
        let shape = experts.average(rows).shape::<T, C>();
        ScaledWay::all(shape, granularities, self.device().properties().sm_count)
    }

    fn scaled_experts_by<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        experts: &Experts<'_>,
        way: ScaledWay,
        (linear, c): (&Linear<'_>, &mut Buffer<C>),
        (a, b): (Scaled<'_, A>, Scaled<'_, B>),
    ) -> Result<LaunchCounts> {
        check(self.device().properties().capability)?;
        let (rows, count) = (experts.rows(a.values), experts.count());
        a.expect_scales("A's scales", (rows, experts.k), 1)?;
        b.expect_scales("B's scales", (experts.n, experts.k), count)?;
        if c.is_empty() || count == 0 {
            return Ok(LaunchCounts::default());
        }
        let way = WayOf(way, (a.granularity, b.granularity));
        let told = (experts.offsets, count);
        self.by_scaled_warpgroups(stream, experts.planned(rows, way), (linear, c), (a, b), &told)
    }
}
