//! `operations.multiply_grouped(&stream, &mut members)`: products of different extents, each with matrices and an epilogue of its own, in one launch.
//!
//! ```text
//! a table in global memory, a record a product:      maps of A, B and C | m, n, k | where C, scales and bias are | alpha, beta
//! ```
//!
//! The host writes the table and the stream copies it ahead of the launch; a CTA finds its tile's record and reads its maps from there.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::cost;
use super::linear::Linear;
use super::members::{Member, Members, launch_all};
use super::multiply::{Factor, Operands, Product, Way, has_warpgroups, no_warpgroups};
use super::plan::{self, Cost, Shape};
use super::readable::Readable;
use super::warps::Warps;
use super::{Gemm, GemmOutput};
use crate::operations::{Operations, Result, both};

/// A product of a group, its matrices, and what becomes of its sums: of factors as buffers, or as buffers with scales.
pub struct GroupedProduct<'a, A, B, C> {
    /// What is multiplied.
    pub product: Product,
    /// A (m, k).
    pub a: A,
    /// B (k, n).
    pub b: B,
    /// C (m, n), row-major.
    pub c: &'a mut Buffer<C>,
    /// Its epilogue.
    pub linear: Linear<'a>,
}

/// A product of a group for [`Operations::multiply_grouped`].
pub type GroupMember<'a, A, C, B = A> = GroupedProduct<'a, &'a Buffer<A>, &'a Buffer<B>, C>;

impl<'a, A, B, C> GroupedProduct<'a, A, B, C> {
    /// C = A·B.
    pub fn new(product: Product, a: A, b: B, c: &'a mut Buffer<C>) -> Self {
        Self { product, a, b, c, linear: Linear::default() }
    }

    /// C = activation(alpha · rows · (A·B) · columns + bias) + beta · C.
    #[must_use]
    pub fn with(self, linear: Linear<'a>) -> Self {
        Self { linear, ..self }
    }
}

impl<A, B, C> GroupMember<'_, A, C, B> {
    fn member(&mut self) -> Member<'_, A, B, C> {
        let Self { product, a, b, c, linear } = self;
        Member { product: *product, a, b, c, linear: *linear, scales: None }
    }
}

impl Operations {
    /// C = A·B for each member of a group, or what its epilogue makes of that: on Hopper in one launch of all members whose factors lie in
    /// one order and whose epilogues have the same parts; accumulated in f32, C is row-major.
    ///
    /// ```
    /// use warpwright::prelude::*;
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::grouped::GroupMember;
    /// use warpwright_kernels::gemm::linear::Linear;
    /// use warpwright_kernels::gemm::multiply::Product;
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:h200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let ones = |count: usize| device.buffer_from(&vec![bf16::ONE; count]);
    /// let (wide, deep) = (Product::new(8, 48, 16), Product::new(24, 8, 40));
    /// let (a, b) = ([ones(8 * 16)?, ones(24 * 40)?], [ones(16 * 48)?, ones(40 * 8)?]);
    /// let mut c = [device.uninitialized::<f32>(8 * 48)?, device.uninitialized::<f32>(24 * 8)?];
    /// let [first, second] = &mut c;
    /// let half = Linear { alpha: 0.5, ..Linear::default() };
    /// let mut members = [
    ///     GroupMember::new(wide, &a[0], &b[0], first),
    ///     GroupMember::new(deep, &a[1], &b[1], second).with(half),
    /// ];
    /// operations.multiply_grouped(&stream, &mut members)?;
    /// assert_eq!((c[0].to_vec()?, c[1].to_vec()?), (vec![16.0; 8 * 48], vec![20.0; 24 * 8]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer has another length than its product asks for; a member has an epilogue and no depth; the device has no kernel for the types; or it
    /// failed.
    pub fn multiply_grouped<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        members: &mut [GroupMember<'_, A, C, B>],
    ) -> Result<LaunchCounts> {
        let way = self.ways_of_group(members)[0];
        self.multiply_grouped_by(stream, members, way)
    }

    /// The ways to multiply a group, the cheapest first: those of an average member that leave tiles whole; and by `mma.sync`, a launch each,
    /// first where A or B would have to be copied for TMA to read them, and that takes longer.
    pub fn ways_of_group<A: Factor<B>, B, C: Element>(
        &self,
        members: &[GroupMember<'_, A, C, B>],
    ) -> Vec<Way> {
        let properties = self.device().properties();
        let products = members.iter().map(|member| member.product).filter(|product| product.has_work());
        ways_of_group::<A, C>(&products.collect::<Vec<_>>(), properties.capability, properties.sm_count)
    }

    /// Computes each member in that way; by `mma.sync`, a launch each.
    ///
    /// # Errors
    /// As [`multiply_grouped`](Self::multiply_grouped); and if the way is not the device's, or splits tiles.
    pub fn multiply_grouped_by<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        members: &mut [GroupMember<'_, A, C, B>],
        way: Way,
    ) -> Result<LaunchCounts> {
        members.iter_mut().try_for_each(|member| member.member().check())?;
        let (working, idle): (Vec<_>, Vec<_>) =
            members.iter_mut().partition(|member| member.product.has_work());
        let capability = self.device().properties().capability;
        if let (Way::Warpgroups(_), Some(first), false) = (way, working.first(), has_warpgroups(capability)) {
            return Err(no_warpgroups::<A, B>(first.product));
        }
        let mut working = working.into_iter().map(GroupMember::member);
        let counts = match way {
            Way::Warpgroups(configuration) => {
                launch_all(&Members(working.collect()).plan(self, configuration)?, self, stream)
            }
            Way::Warps(_) => working.try_fold(LaunchCounts::default(), |counts, member| {
                let Member { product, a, b, c, linear, .. } = member;
                let operands = Operands { a, b, c, finish: &linear.finish() };
                Ok(both(counts, self.compute(stream, product.into(), way, operands)?))
            }),
        }?;
        idle.into_iter().try_for_each(|member| stream.fill_zero(member.c))?;
        Ok(counts)
    }
}

/// A batch of as many products of their average extents.
pub(super) fn average<T: Element, C: Element>(products: &[Product]) -> Shape {
    let average = |extent: fn(&Product) -> u32| {
        let sum: u64 = products.iter().map(|product| u64::from(extent(product))).sum();
        sum.div_ceil(products.len() as u64) as u32
    };
    Shape {
        m: average(|product| product.m),
        n: average(|product| product.n),
        k: average(|product| product.k),
        batch: products.len() as u32,
        ..products[0].shape::<T, C>()
    }
}

/// The costs of a group with those averages, the cheapest first: of what leaves tiles whole.
pub(super) fn costs_of_group(average: Shape, sms: u32) -> Vec<Cost> {
    plan::costs(average, sms).into_iter().filter(|cost| !cost.configuration.split).collect()
}

/// The ways to multiply products that all have work.
pub(super) fn ways_of_group<T: Element, C: Element>(
    products: &[Product],
    capability: &Capability,
    sms: u32,
) -> Vec<Way> {
    if products.is_empty() || !has_warpgroups(capability) {
        return vec![Way::Warps(Warps::default())];
    }
    let whole = costs_of_group(average::<T, C>(products), sms);
    let by_warps =
        |product: &Product| cost::warps_cycles(&Gemm::for_product(*product), (*product).into(), sms);
    let copies = |product: &Product| Readable::of::<T>((*product).into()).cycles::<T>();
    let copied: f64 = products.iter().map(copies).sum();
    let warpgroups = whole.iter().map(|cost| Way::Warpgroups(cost.configuration));
    let warps: f64 = products.iter().map(by_warps).sum();
    if T::BYTES == 2 && copied > 0.0 && whole.first().is_none_or(|best| warps < best.cycles + copied) {
        return [Way::Warps(Warps::default())].into_iter().chain(warpgroups).collect();
    }
    warpgroups.chain([Way::Warps(Warps::default())]).collect()
}
