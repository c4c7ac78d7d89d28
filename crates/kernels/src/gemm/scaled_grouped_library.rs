//! Groups of products of unlike extents whose blocks have scales, for the command line.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Storable, Stream};

use super::explain::Reason;
use super::grouped_kernel;
use super::multiply::{Product, has_warpgroups, types};
use super::multiply_scaled::{Granularities, Narrow, ScaledWay, WayOf, check};
use super::options::B_INPUT;
use super::quantised::QuantisedSet;
use super::scaled_grouped::ScaledMember;
use super::scaled_options::{
    A_SCALES, B_SCALES, INPUT, OUTPUT, conclusion, granularities, table, with_narrow_types, work,
};
use super::uneven::{COLUMNS, DEPTH, MEMBERS, ROWS, SEED, SIZES, Uneven, sets_of, verify_each};
use super::verify::parts_of;
use super::{GemmOutput, Order};
use crate::operations::Operations;
use crate::prepared::{PLANNED_SMS, capability_of};
use crate::reference::Rounded;
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result};
use crate::rotation::rotating;

/// Products of unlike extents with scales in one launch, for the command line.
pub(crate) struct ScaledGroupedLibrary;

/// What the options ask for.
struct Problem {
    uneven: Uneven,
    granularities: Granularities,
}

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        let uneven = Uneven::of(options, (Order::RowMajor, Order::ColumnMajor))?;
        Ok(Self { uneven, granularities: granularities(options) })
    }

    /// The ways on a GPU of so many SMs.
    fn ways<T: Narrow, C: Element>(&self, capability: &Capability, sms: u32) -> Result<Vec<ScaledWay>> {
        check(capability)?;
        Ok(ScaledWay::of_group::<T, C>(&self.uneven.products, self.granularities, sms))
    }

    fn prepare<A, B, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        A: Narrow + Rounded,
        B: Narrow + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        check(device.properties().capability)?;
        let (operations, products) = (Operations::new(device), self.uneven.products.clone());
        let launch = move |stream: &Stream, sets: &mut Vec<QuantisedSet<A, B, C>>| {
            let member = |(&product, set)| {
                let QuantisedSet { a, b, c }: &mut QuantisedSet<A, B, C> = set;
                ScaledMember::new(product, a.scaled(), b.scaled(), c)
            };
            let mut members: Vec<_> = products.iter().zip(sets).map(member).collect();
            Ok(operations.multiply_scaled_grouped(stream, &mut members)?)
        };
        let (granularities, at) = (self.granularities, device.clone());
        let make = sets_of(self.uneven.products.clone(), move |product: Product, seed| {
            QuantisedSet::of(&at, product.into(), granularities, seed)
        });
        let products = self.uneven.products.clone();
        let verify = move |sets: &Vec<QuantisedSet<A, B, C>>| {
            verify_each(&products, sets, |product, set| set.verify(&parts_of(product.into())))
        };
        let work = self.uneven.work(|product| work::<C>(product, granularities));
        rotating(device, self.uneven.seed, work, make, launch, verify)
    }

    /// The model's table for the average product, what is chosen, and what must be copied.
    fn explanation<A: Narrow, B: Narrow, C: GemmOutput>(&self, device: &Device) -> Result<String> {
        let properties = device.properties();
        let ways = self.ways::<A, C>(properties.capability, properties.sm_count)?;
        let (average, of) = self.uneven.average::<A, C>();
        let cost = |way: ScaledWay| way.cost(average, self.granularities, properties.sm_count);
        let mut lines = table(&format!("{of}, of {}", types::<A, B>()), &ways, ways[0], cost);
        lines.extend(self.uneven.describe_copies::<A>());
        lines.push(conclusion(ways[0], &Reason::ModelAlone));
        Ok(lines.join("\n"))
    }

    fn text<A: Narrow, B: Narrow, C: GemmOutput>(&self, target: &str) -> Result<String> {
        let capability = capability_of(target)?;
        let way = WayOf(self.ways::<A, C>(capability, PLANNED_SMS)?[0], self.granularities);
        Ok(grouped_kernel::ptx::<_, A, B, C>(&self.uneven.products, way, capability)?)
    }
}

const OPTIONS: &[OptionSpec] =
    &[MEMBERS, ROWS, COLUMNS, DEPTH, SIZES, A_SCALES, B_SCALES, INPUT, B_INPUT, OUTPUT, SEED];

impl LibraryKernel for ScaledGroupedLibrary {
    fn name(&self) -> &'static str {
        "scaled_gemm-grouped"
    }

    fn summary(&self) -> &'static str {
        "products of unlike extents of 8-bit floats with scales, each with matrices of its own, in one launch"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn applies_to(&self, capability: &Capability) -> bool {
        has_warpgroups(capability)
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        with_narrow_types!(options, Problem::of(options)?, text(target))
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_narrow_types!(options, Problem::of(options)?, prepare(device))
    }

    fn explain(&self, device: &Device, options: &Options) -> Option<Result<String>> {
        let explain = || with_narrow_types!(options, Problem::of(options)?, explanation(device));
        Some(explain())
    }
}
