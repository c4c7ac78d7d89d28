//! [`Experts`] whose blocks have scales, for the command line.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Storable, Stream};

use super::GemmOutput;
use super::batched::Batch;
use super::experts::{Experts, alike, planned};
use super::explain::Reason;
use super::multiply::{Product, has_warpgroups, types};
use super::multiply_scaled::{Granularities, Narrow, ScaledWay, WayOf, check};
use super::options::B_INPUT;
use super::plan::Shape;
use super::quantised::QuantisedSet;
use super::readable::Readable;
use super::routed::{COLUMNS, DEPTH, EXPERTS, ROUTING, ROWS, Routed, SEED};
use super::scaled_options::{
    A_SCALES, B_SCALES, INPUT, OUTPUT, conclusion, granularities, table, with_narrow_types,
};
use crate::operations::Operations;
use crate::prepared::{PLANNED_SMS, capability_of};
use crate::reference::Rounded;
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work};
use crate::rotation::rotating;

/// Groups of rows with scales, each times a matrix of its own, for the command line.
pub(crate) struct ScaledExpertsLibrary;

/// What the options ask for.
struct Problem {
    routed: Routed,
    granularities: Granularities,
}

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        Ok(Self { routed: Routed::of(options)?, granularities: granularities(options) })
    }

    /// What any way to do it must do: each element and scale moved once.
    fn work<C: Element>(&self) -> Work {
        let (Routed { n, k, .. }, (a, b)) = (&self.routed, self.granularities);
        let (rows, read) = (self.routed.rows() as u32, f64::from(self.routed.read()));
        let elements = |rows: u32, columns: u32| f64::from(rows) * f64::from(columns);
        let factors = elements(rows, *k) + read * elements(*n, *k);
        let scales = 4.0 * (a.count((rows, *k)) as f64 + read * b.count((*n, *k)) as f64);
        Work {
            operations: 2.0 * elements(rows, *n) * f64::from(*k),
            bytes: factors + scales + f64::from(C::BYTES) * elements(rows, *n),
        }
    }

    /// The shape that the way is chosen for, on average.
    fn shape<T: Element, C: Element>(&self) -> Shape {
        self.routed.average().shape::<T, C>()
    }

    fn prepare<A, B, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        A: Narrow + Rounded,
        B: Narrow + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        check(device.properties().capability)?;
        let Routed { n, k, seed, .. } = self.routed;
        let (rows, count, granularities) = (self.routed.rows(), self.routed.count(), self.granularities);
        let (operations, offsets) = (Operations::new(device), device.buffer_from(&self.routed.offsets())?);
        let launch = move |stream: &Stream, QuantisedSet { a, b, c }: &mut QuantisedSet<A, B, C>| {
            let experts = Experts::new(&offsets, n, k);
            Ok(operations.multiply_scaled_experts(stream, &experts, a.scaled(), b.scaled(), c)?)
        };
        let (parts, device) = (self.routed.parts(), device.clone());
        let verify = move |set: &QuantisedSet<A, B, C>| set.verify(&parts);
        let of_seed = {
            let device = device.clone();
            move |seed| {
                let (a, b) = (((rows as u32, k), 1), ((n, k), count));
                QuantisedSet::<A, B, C>::new(&device, granularities, a, b, rows * n as usize, seed)
            }
        };
        rotating(&device, seed, self.work::<C>(), of_seed, launch, verify)
    }

    /// The model's table for groups of equal sizes, what is chosen, and what must be copied.
    fn explanation<A: Narrow, B: Narrow, C: GemmOutput>(&self, device: &Device) -> Result<String> {
        let properties = device.properties();
        check(properties.capability)?;
        let offsets = device.buffer_from(&self.routed.offsets())?;
        let experts = Experts::new(&offsets, self.routed.n, self.routed.k);
        let average = experts.average(alike(self.routed.rows() as u32));
        let (shape, sms) = (average.shape::<A, C>(), properties.sm_count);
        let ways = ScaledWay::all(shape, self.granularities, sms);
        let cost = |way: ScaledWay| way.cost(shape, self.granularities, sms);
        let Batch { product: Product { m, .. }, count, .. } = average;
        let types = types::<A, B>();
        let of = format!(" for {count} groups of {m} rows, equal ones of about so many rows of {types}");
        let mut lines = table(&of, &ways, ways[0], cost);
        lines.extend(Readable::of::<A>(self.routed.groups()).describe());
        lines.push(conclusion(ways[0], &Reason::ModelAlone));
        Ok(lines.join("\n"))
    }

    fn text<A: Narrow, B: Narrow, C: GemmOutput>(&self, target: &str) -> Result<String> {
        let capability = capability_of(target)?;
        check(capability)?;
        let way = ScaledWay::all(self.shape::<A, C>(), self.granularities, PLANNED_SMS)[0];
        let planned = planned(self.routed.groups(), WayOf(way, self.granularities));
        Ok(planned.ptx::<A, B, C>(Default::default(), capability)?)
    }
}

const OPTIONS: &[OptionSpec] =
    &[EXPERTS, ROWS, COLUMNS, DEPTH, ROUTING, A_SCALES, B_SCALES, INPUT, B_INPUT, OUTPUT, SEED];

impl LibraryKernel for ScaledExpertsLibrary {
    fn name(&self) -> &'static str {
        "scaled_gemm-experts"
    }

    fn summary(&self) -> &'static str {
        "groups of rows of 8-bit floats with scales, each times a matrix of its own, in one launch"
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
