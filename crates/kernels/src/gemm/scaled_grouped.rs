//! `operations.multiply_scaled_grouped(&stream, &mut members)`: products of different extents, of narrow floats whose blocks have scales, in
//! one launch.
//!
//! ```text
//! a record a product:    maps of A, B and C | m, n, k | where C, scales of the epilogue and bias are | alpha, beta | maps of A's and B's scales
//! ```

use warpwright::prelude::*;
use warpwright::runtime::{LaunchCounts, Storable, Stream};

use super::GemmOutput;
use super::grouped::{GroupedProduct, average};
use super::members::{Member, Members, alike, launch_all};
use super::multiply::Product;
use super::multiply_scaled::{Granularities, Narrow, Scaled, ScaledWay, WayOf, check};
use crate::operations::{Operations, Result};

/// A product of a group whose blocks have scales, for [`Operations::multiply_scaled_grouped`].
pub type ScaledMember<'a, A, B, C> = GroupedProduct<'a, Scaled<'a, A>, Scaled<'a, B>, C>;

impl<A, B, C> ScaledMember<'_, A, B, C> {
    fn granularities(&self) -> Granularities {
        (self.a.granularity, self.b.granularity)
    }

    fn member(&mut self) -> Member<'_, A, B, C> {
        let Self { product, a, b, c, linear } = self;
        let scales = Some([a.scales, b.scales]);
        Member { product: *product, a: a.values, b: b.values, c, linear: *linear, scales }
    }
}

impl<A: Narrow, B: Narrow, C: GemmOutput + Storable> ScaledMember<'_, A, B, C> {
    /// Refuses buffers of other lengths than the product asks for, and epilogues of no sums.
    fn check(&mut self) -> Result<()> {
        self.member().check()?;
        let Product { m, n, k, .. } = self.product;
        self.a.expect_scales("A's scales", (m, k), 1)?;
        self.b.expect_scales("B's scales", (n, k), 1)
    }
}

impl ScaledWay {
    /// The ways to multiply a group, the cheapest first: those of an average product of all that have something to multiply, that leave tiles
    /// whole. Where no product has, there are none.
    pub fn of_group<T: Element, C: Element>(
        products: &[Product],
        granularities: Granularities,
        sms: u32,
    ) -> Vec<Self> {
        let working: Vec<Product> = products.iter().copied().filter(|product| product.has_work()).collect();
        if working.is_empty() {
            return Vec::new();
        }
        let all = Self::all(average::<T, C>(&working), granularities, sms);
        all.into_iter().filter(|way| !way.configuration.split).collect()
    }
}

impl Operations {
    /// [`multiply_scaled`](Self::multiply_scaled) or [`linear_scaled`](Self::linear_scaled) for each member of a group: in one launch of all
    /// whose scales are for the same, whose factors lie in one order and whose epilogues have the same parts.
    ///
    /// ```
    /// use warpwright::prelude::*;
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::multiply::Product;
    /// use warpwright_kernels::gemm::multiply_scaled::Scaled;
    /// use warpwright_kernels::gemm::scaled_grouped::ScaledMember;
    /// use warpwright_kernels::gemm::scales::Granularity;
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:h200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let ones = |count: usize| device.buffer_from(&vec![e4m3::from_f32(1.0); count]);
    /// let (wide, deep) = (Product::new(8, 48, 128), Product::new(24, 8, 256));
    /// let (a, b) = ([ones(8 * 128)?, ones(24 * 256)?], [ones(48 * 128)?, ones(8 * 256)?]);
    /// let row_scales = |product: Product| vec![0.5f32; Granularity::Row.count((product.m, product.k))];
    /// let block_scales = |product: Product| vec![2.0f32; Granularity::Block.count((product.n, product.k))];
    /// let a_scales = [device.buffer_from(&row_scales(wide))?, device.buffer_from(&row_scales(deep))?];
    /// let b_scales = [device.buffer_from(&block_scales(wide))?, device.buffer_from(&block_scales(deep))?];
    /// let mut c = [device.uninitialized::<f32>(8 * 48)?, device.uninitialized::<f32>(24 * 8)?];
    /// let [first, second] = &mut c;
    /// let a = [0, 1].map(|member| Scaled::by_row(&a[member], &a_scales[member]));
    /// let b = [0, 1].map(|member| Scaled::by_block(&b[member], &b_scales[member]));
    /// let mut members =
    ///     [ScaledMember::new(wide, a[0], b[0], first), ScaledMember::new(deep, a[1], b[1], second)];
    /// operations.multiply_scaled_grouped(&stream, &mut members)?;
    /// assert_eq!((c[0].to_vec()?, c[1].to_vec()?), (vec![128.0; 8 * 48], vec![256.0; 24 * 8]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer has another length than its product asks for; a member has an epilogue and no depth; the device is no Hopper, or failed.
    pub fn multiply_scaled_grouped<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        members: &mut [ScaledMember<'_, A, B, C>],
    ) -> Result<LaunchCounts> {
        let sms = self.device().properties().sm_count;
        self.scaled_grouped(stream, members, |products, granularities| {
            ScaledWay::of_group::<A, C>(products, granularities, sms)[0]
        })
    }

    /// Computes each member in that way.
    ///
    /// # Errors
    /// As [`multiply_scaled_grouped`](Self::multiply_scaled_grouped); and if the way splits tiles.
    pub fn multiply_scaled_grouped_by<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        members: &mut [ScaledMember<'_, A, B, C>],
        way: ScaledWay,
    ) -> Result<LaunchCounts> {
        self.scaled_grouped(stream, members, |_, _| way)
    }

    /// Computes the members, those whose scales are for the same in the way that is asked for.
    fn scaled_grouped<A: Narrow, B: Narrow, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        members: &mut [ScaledMember<'_, A, B, C>],
        way: impl Fn(&[Product], Granularities) -> ScaledWay,
    ) -> Result<LaunchCounts> {
        check(self.device().properties().capability)?;
        members.iter_mut().try_for_each(ScaledMember::check)?;
        let (working, idle): (Vec<_>, Vec<_>) =
            members.iter_mut().partition(|member| member.product.has_work());
        // What cannot be planned of any granularity is refused before the first launch.
        let mut launches = Vec::new();
        for (granularities, alike) in alike(working, |member| member.granularities()) {
            let products: Vec<Product> = alike.iter().map(|member| member.product).collect();
            let way = WayOf(way(&products, granularities), granularities);
            let members = Members(alike.into_iter().map(ScaledMember::member).collect());
            launches.extend(members.plan(self, way)?);
        }
        let counts = launch_all(&launches, self, stream)?;
        idle.into_iter().try_for_each(|member| stream.fill_zero(member.c))?;
        Ok(counts)
    }
}
