//! The GEMM of narrow floats whose blocks have scales, for the command line: quantised inputs, and what the result is held to.

use std::marker::PhantomData;
use std::path::PathBuf;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Device, LaunchCounts, Storable, Stream};

use super::GemmOutput;
use super::batched::Batch;
use super::explain::Reason;
use super::multiply::{Product, has_warpgroups};
use super::multiply_scaled::{Granularities, Narrow, ScaledWay, WayOf, check};
use super::options::{B_INPUT, PLAN, ranked};
use super::quantised::QuantisedSet;
use super::readable::Readable;
use super::scaled_options::{
    A_SCALES, B_SCALES, INPUT, OUTPUT, conclusion, described, granularities, table, with_narrow_types, work,
};
use super::tune::{Searched, WaySearch};
use super::tuned::{self, Key};
use super::verify::parts_of;
use crate::operations::Operations;
use crate::prepared::{PLANNED_SMS, capability_of};
use crate::reference::Rounded;
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Search, Verified, Work};
use crate::rotation::rotating;

/// The GEMM with scales for the command line.
pub(crate) struct Library;

/// What the options ask for.
struct Problem {
    product: Product,
    /// How many of them.
    count: u32,
    granularities: Granularities,
    seed: u64,
    rank: usize,
    /// Whether what a search has found counts.
    uses_tuned: bool,
}

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        Ok(Self {
            product: Product::new(options.u32("m")?, options.u32("n")?, options.u32("k")?),
            count: options.u32("batch")?,
            granularities: granularities(options),
            seed: options.number("seed"),
            rank: options.number("rank") as usize,
            uses_tuned: options.choice("plan") == "tuned",
        })
    }

    /// All of its products.
    fn batch(&self) -> Batch {
        Batch::new(self.product, self.count)
    }

    /// What any way to do it must do.
    fn work<C: Element>(&self) -> Work {
        let (one, count) = (work::<C>(self.product, self.granularities), f64::from(self.count));
        Work { operations: count * one.operations, bytes: count * one.bytes }
    }

    /// All ways on a GPU of so many SMs.
    fn ways<T: Narrow, C: Element>(&self, capability: &Capability, sms: u32) -> Result<Vec<ScaledWay>> {
        check(capability)?;
        Ok(ScaledWay::all(self.batch().shape::<T, C>(), self.granularities, sms))
    }

    /// The way that the options ask for.
    fn way<T: Narrow, C: Element>(&self, capability: &Capability, sms: u32) -> Result<ScaledWay> {
        ranked(&self.ways::<T, C>(capability, sms)?, self.rank)
    }

    /// The way on a device, and why: an option's, or what a search has found there, or the model's.
    fn way_on<A: Narrow, B: Narrow, C: Element>(&self, device: &Device) -> Result<(ScaledWay, Reason)> {
        let properties = device.properties();
        let way = self.way::<A, C>(properties.capability, properties.sm_count)?;
        if self.rank != 0 {
            return Ok((way, Reason::Flag("--rank")));
        }
        if !self.uses_tuned {
            return Ok((way, Reason::Flag("--plan")));
        }
        let (batch, granularities) = (self.batch(), self.granularities);
        if let Ok(file) = tuned::default_file()
            && let Some(found) = tuned::find_scaled::<A, B, C>(&file, properties, batch, granularities)?
        {
            return Ok((found, Reason::Tuned(file)));
        }
        Ok((way, Reason::Model))
    }

    /// A search for the fastest way on a device.
    fn search<A, B, C>(&self, device: &Device) -> Result<Box<dyn Search>>
    where
        A: Narrow + Rounded,
        B: Narrow + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        let (batch, granularities) = (self.batch(), self.granularities);
        check(device.properties().capability)?;
        let searched = SearchedGemm::<A, B, C> {
            operations: Operations::new(device),
            batch,
            granularities,
            work: self.work::<C>(),
            types: PhantomData,
        };
        let make = matrices::<A, B, C>(device, batch, granularities);
        Ok(Box::new(WaySearch::new(device, searched, (self.seed, make))?))
    }

    fn text<A: Narrow, B: Narrow, C: GemmOutput>(&self, target: &str) -> Result<String> {
        let capability = capability_of(target)?;
        let way = self.way::<A, C>(capability, PLANNED_SMS)?;
        Ok(self.batch().ptx::<_, A, B, C>(WayOf(way, self.granularities), Default::default(), capability)?)
    }

    fn explanation<A: Narrow, B: Narrow, C: GemmOutput>(&self, device: &Device) -> Result<String> {
        let properties = device.properties();
        let sms = properties.sm_count;
        let ways = self.ways::<A, C>(properties.capability, sms)?;
        let (chosen, reason) = self.way_on::<A, B, C>(device)?;
        let cost = |way: ScaledWay| way.cost(self.batch().shape::<A, C>(), self.granularities, sms);
        let mut lines = table("", &ways, chosen, cost);
        lines.extend(Readable::of::<A>(self.batch()).describe());
        lines.push(conclusion(chosen, &reason));
        Ok(lines.join("\n"))
    }

    fn prepare<A, B, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        A: Narrow + Rounded,
        B: Narrow + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        let (batch, granularities) = (self.batch(), self.granularities);
        let (way, _) = self.way_on::<A, B, C>(device)?;
        let make = matrices::<A, B, C>(device, batch, granularities);
        let operations = Operations::new(device);
        let launch = move |stream: &Stream, set: &mut QuantisedSet<A, B, C>| {
            launch(&operations, stream, (batch, way), set)
        };
        let verify = move |set: &QuantisedSet<A, B, C>| set.verify(&parts_of(batch));
        rotating(device, self.seed, self.work::<C>(), make, launch, verify)
    }
}

/// Makes the matrices of a batch for a seed.
fn matrices<A: Narrow + Rounded, B: Narrow + Rounded, C: Storable + Rounded>(
    device: &Device,
    batch: Batch,
    granularities: Granularities,
) -> impl Fn(u64) -> Result<QuantisedSet<A, B, C>> + use<A, B, C> {
    let device = device.clone();
    move |seed| QuantisedSet::of(&device, batch, granularities, seed)
}

/// Launches their product in a way.
fn launch<A, B, C>(
    operations: &Operations,
    stream: &Stream,
    (batch, way): (Batch, ScaledWay),
    QuantisedSet { a, b, c }: &mut QuantisedSet<A, B, C>,
) -> Result<LaunchCounts>
where
    A: Narrow + Rounded,
    B: Narrow + Rounded,
    C: GemmOutput + Storable,
{
    Ok(operations.multiply_scaled_batched_by(stream, &batch, way, a.scaled(), b.scaled(), c)?)
}

/// The ways to compute a product.
struct SearchedGemm<A, B, C> {
    operations: Operations,
    batch: Batch,
    granularities: Granularities,
    work: Work,
    types: PhantomData<(A, B, C)>,
}

impl<A, B, C> Searched for SearchedGemm<A, B, C>
where
    A: Narrow + Rounded,
    B: Narrow + Rounded,
    C: GemmOutput + Storable + Rounded,
{
    type Set = QuantisedSet<A, B, C>;
    type Way = ScaledWay;

    fn ways(&self) -> Vec<ScaledWay> {
        let sms = self.operations.device().properties().sm_count;
        ScaledWay::all(self.batch.shape::<A, C>(), self.granularities, sms)
    }

    fn around(&self, way: ScaledWay) -> Vec<ScaledWay> {
        way.around(self.batch.shape::<A, C>(), self.granularities)
    }

    fn name(&self, way: ScaledWay) -> String {
        described(way)
    }

    fn work(&self) -> Work {
        self.work
    }

    fn launch(
        &self,
        stream: &Stream,
        way: ScaledWay,
        set: &mut QuantisedSet<A, B, C>,
    ) -> Result<LaunchCounts> {
        launch(&self.operations, stream, (self.batch, way), set)
    }

    fn verify(&self, set: &QuantisedSet<A, B, C>) -> Result<Verified> {
        set.verify(&parts_of(self.batch))
    }

    fn keep(&self, way: ScaledWay, seconds: f64) -> Result<PathBuf> {
        let device = &self.operations.device().properties().product;
        let key = Key::of_scaled::<A, B, C>(device, self.batch, self.granularities);
        Ok(tuned::keep(&key, way, seconds)?)
    }
}

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("m", 512, "rows of A and C"),
    OptionSpec::extent("n", 512, "columns of B and C"),
    OptionSpec::extent("k", 256, "columns of A and rows of B"),
    OptionSpec::extent("batch", 1, "products of that shape, in one launch"),
    A_SCALES,
    B_SCALES,
    INPUT,
    B_INPUT,
    OUTPUT,
    OptionSpec::number("rank", 0, "which of the ways, from the cheapest on (`--explain` lists them)"),
    PLAN,
    OptionSpec::number("seed", 1, "of the inputs"),
];

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "scaled_gemm"
    }

    fn summary(&self) -> &'static str {
        "C = A·B of 8-bit floats with a scale for each block of 128 of k"
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

    fn search(&self, device: &Device, options: &Options) -> Option<Result<Box<dyn Search>>> {
        let search = || with_narrow_types!(options, Problem::of(options)?, search(device));
        Some(search())
    }

    fn explain(&self, device: &Device, options: &Options) -> Option<Result<String>> {
        let explain = || with_narrow_types!(options, Problem::of(options)?, explanation(device));
        Some(explain())
    }
}
