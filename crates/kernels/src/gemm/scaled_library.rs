//! The GEMM of narrow floats whose blocks have scales, for the command line: quantised inputs, and what the result is held to.

use std::marker::PhantomData;
use std::path::PathBuf;

use rayon::prelude::*;
use warpwright::arch::Capability;
use warpwright::lang::element::{e4m3, e5m2};
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, LaunchCounts, Storable, Stream};

use super::GemmOutput;
use super::explain::Reason;
use super::multiply::Product;
use super::multiply_scaled::{Granularities, Narrow, Scaled, ScaledWay, check};
use super::options::PLAN;
use super::quantised::Quantised;
use super::readable::Readable;
use super::scaled_kernel;
use super::scales::{BLOCK, Granularity};
use super::tune::{Searched, WaySearch};
use super::tuned::{self, Key};
use super::verify::reference;
use crate::operations::Operations;
use crate::reference::Rounded;
use crate::registry::{
    self, LibraryKernel, OptionSpec, Options, Prepared, Result, Search, Verified, Work, compare,
};
use crate::rotation::rotating;

/// The GEMM with scales for the command line.
pub(crate) struct Library;

/// SMs that PTX without a device is planned for: an H200's.
const PLANNED_SMS: u32 = 132;

/// Lines of the table of ways that are shown.
const SHOWN: usize = 12;

/// What the options ask for.
struct Problem {
    product: Product,
    granularities: Granularities,
    seed: u64,
    rank: usize,
    /// Whether what a search has found counts.
    uses_tuned: bool,
}

/// The matrices of one product.
struct Buffers<A, B, C> {
    a: Quantised<A>,
    b: Quantised<B>,
    c: Buffer<C>,
}

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        let extent =
            |name| u32::try_from(options.number(name)).map_err(|_| format!("--{name} must be below 2^32"));
        let granularity = |name| match options.choice(name) {
            "row" => Granularity::Row,
            _ => Granularity::Block,
        };
        Ok(Self {
            product: Product::new(extent("m")?, extent("n")?, extent("k")?),
            granularities: (granularity("a-scales"), granularity("b-scales")),
            seed: options.number("seed"),
            rank: options.number("rank") as usize,
            uses_tuned: options.choice("plan") == "tuned",
        })
    }

    /// What any way to do it must do: each element and scale moved once.
    fn work<T: Element, C: Element>(&self) -> Work {
        let Product { m, n, k, .. } = self.product;
        let (a, b) = self.granularities;
        let elements = |rows: u32, columns: u32| f64::from(rows) * f64::from(columns);
        let scales = 4.0 * (a.count((m, k)) + b.count((n, k))) as f64;
        let factors = f64::from(T::BYTES) * (elements(m, k) + elements(n, k));
        Work {
            operations: 2.0 * elements(m, n) * f64::from(k),
            bytes: factors + scales + f64::from(C::BYTES) * elements(m, n),
        }
    }

    /// All ways on a GPU of so many SMs.
    fn ways<T: Narrow, C: Element>(&self, capability: &Capability, sms: u32) -> Result<Vec<ScaledWay>> {
        check(capability)?;
        Ok(ScaledWay::all(self.product.shape::<T, C>(), self.granularities, sms))
    }

    /// The way that the options ask for.
    fn way<T: Narrow, C: Element>(&self, capability: &Capability, sms: u32) -> Result<ScaledWay> {
        let ways = self.ways::<T, C>(capability, sms)?;
        ways.get(self.rank).copied().ok_or_else(|| {
            format!("--rank {}: there are {} ways, from rank 0 on", self.rank, ways.len()).into()
        })
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
        let (product, granularities) = (self.product, self.granularities);
        if let Ok(file) = tuned::default_file()
            && let Some(found) = tuned::find_scaled::<A, B, C>(&file, properties, product, granularities)?
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
        let Self { product, granularities, .. } = *self;
        check(device.properties().capability)?;
        let searched = SearchedGemm::<A, B, C> {
            operations: Operations::new(device),
            product,
            granularities,
            work: self.work::<A, C>(),
            types: PhantomData,
        };
        let make = matrices::<A, B, C>(device, product, granularities);
        Ok(Box::new(WaySearch::new(device, searched, (self.seed, make))?))
    }

    fn text<A: Narrow, B: Narrow, C: GemmOutput>(&self, target: &str) -> Result<String> {
        let capability = crate::prepared::capability_of(target)?;
        let way = self.way::<A, C>(capability, PLANNED_SMS)?;
        Ok(scaled_kernel::ptx::<A, B, C>(self.product, way, self.granularities, capability)?)
    }

    fn explanation<A: Narrow, B: Narrow, C: GemmOutput>(&self, device: &Device) -> Result<String> {
        let properties = device.properties();
        let sms = properties.sm_count;
        let ways = self.ways::<A, C>(properties.capability, sms)?;
        let (chosen, reason) = self.way_on::<A, B, C>(device)?;
        let mut lines = vec![format!("rank  of {} ways, by the model", ways.len())];
        let shown = ways.iter().enumerate().filter(|(rank, way)| *rank < SHOWN || **way == chosen);
        lines.extend(shown.map(|(rank, way)| {
            let mark = if *way == chosen { "->" } else { "" };
            let cost = way.cost(self.product.shape::<A, C>(), self.granularities, sms);
            format!("{mark:>2}{rank:>3} {cost}, {}", way.describe_sums())
        }));
        lines.extend(Readable::of::<A>(self.product.into()).describe());
        lines.push(format!("{chosen}, raster {}: {reason}", chosen.configuration.raster));
        Ok(lines.join("\n"))
    }

    fn prepare<A, B, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        A: Narrow + Rounded,
        B: Narrow + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        let Self { product, granularities, .. } = *self;
        let (way, _) = self.way_on::<A, B, C>(device)?;
        let make = matrices::<A, B, C>(device, product, granularities);
        let operations = Operations::new(device);
        let launch = move |stream: &Stream, set: &mut Buffers<A, B, C>| {
            set.launch(&operations, stream, (product, granularities), way)
        };
        let verify = move |set: &Buffers<A, B, C>| verify(product, granularities, set);
        rotating(device, self.seed, self.work::<A, C>(), make, launch, verify)
    }
}

/// Makes A, B and C, which is poisoned, for a seed.
fn matrices<A: Narrow + Rounded, B: Narrow + Rounded, C: Storable + Rounded>(
    device: &Device,
    Product { m, n, k, .. }: Product,
    granularities: Granularities,
) -> impl Fn(u64) -> Result<Buffers<A, B, C>> + use<A, B, C> {
    let device = device.clone();
    move |seed| {
        Ok(Buffers {
            a: Quantised::new(&device, granularities.0, (m, k), 2 * seed)?,
            b: Quantised::new(&device, granularities.1, (n, k), 2 * seed + 1)?,
            c: device.buffer_from(&vec![C::round(f32::NAN); m as usize * n as usize])?,
        })
    }
}

impl<A: Narrow, B: Narrow, C: GemmOutput + Storable> Buffers<A, B, C> {
    /// Launches their product in a way.
    fn launch(
        &mut self,
        operations: &Operations,
        stream: &Stream,
        (product, granularities): (Product, Granularities),
        way: ScaledWay,
    ) -> Result<LaunchCounts> {
        let Self { a, b, c } = self;
        let a = Scaled { values: &a.values, scales: &a.scales, granularity: granularities.0 };
        let b = Scaled { values: &b.values, scales: &b.scales, granularity: granularities.1 };
        Ok(operations.multiply_scaled_by(stream, product, way, a, b, c)?)
    }
}

/// The ways to compute a product.
struct SearchedGemm<A, B, C> {
    operations: Operations,
    product: Product,
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
    type Set = Buffers<A, B, C>;
    type Way = ScaledWay;

    fn ways(&self) -> Vec<ScaledWay> {
        let sms = self.operations.device().properties().sm_count;
        ScaledWay::all(self.product.shape::<A, C>(), self.granularities, sms)
    }

    fn around(&self, way: ScaledWay) -> Vec<ScaledWay> {
        way.around(self.product.shape::<A, C>(), self.granularities)
    }

    fn name(&self, way: ScaledWay) -> String {
        format!("{way}, raster {}", way.configuration.raster)
    }

    fn work(&self) -> Work {
        self.work
    }

    fn launch(&self, stream: &Stream, way: ScaledWay, set: &mut Buffers<A, B, C>) -> Result<LaunchCounts> {
        set.launch(&self.operations, stream, (self.product, self.granularities), way)
    }

    fn verify(&self, set: &Buffers<A, B, C>) -> Result<Verified> {
        verify(self.product, self.granularities, set)
    }

    fn keep(&self, way: ScaledWay, seconds: f64) -> Result<PathBuf> {
        let device = &self.operations.device().properties().product;
        let key = Key::of_scaled::<A, B, C>(device, self.product, self.granularities);
        Ok(tuned::keep(&key, way, seconds)?)
    }
}

/// Holds every element to the product of what the factors stand for: one rounding to C's type, and the error of the sums inside of
/// blocks, which the tensor cores keep to 13 bits of their size (measured on an H200), four steps a block.
///
/// The size of a block's sums is taken as four times their standard deviation, and that of all blocks as if their errors had one sign.
fn verify<A: Narrow + Rounded, B: Narrow + Rounded, C: Rounded + Storable>(
    product: Product,
    granularities: Granularities,
    set: &Buffers<A, B, C>,
) -> Result<Verified> {
    let Product { m, n, k, .. } = product;
    let (a, b) = (set.a.meant(granularities.0, (m, k))?, set.b.meant(granularities.1, (n, k))?);
    let expected = reference(&set.c.device(), product, &a, &b)?;
    let squares =
        |values: Vec<f32>| -> Vec<f32> { values.into_par_iter().map(|value| value * value).collect() };
    let variances = reference(&set.c.device(), product, &squares(a), &squares(b))?;
    // Blocks whose deviations add up to one that is the root of the number of blocks smaller than their sum.
    let blocks = f64::from(k.div_ceil(BLOCK));
    let accumulation = 4.0 * 4.0 * blocks.sqrt() / 8192.0;
    let found = set.c.to_vec()?;
    let elements = found.iter().zip(expected.iter().zip(variances)).map(|(found, (expected, variance))| {
        let tolerance =
            C::ROUNDING * expected.abs() * 1.01 + accumulation * variance.sqrt() + f64::MIN_POSITIVE;
        registry::Element { found: found.exact(), expected: *expected, tolerance }
    });
    let columns = n as usize;
    Ok(compare(elements, |index| vec![index as usize / columns, index as usize % columns])?)
}

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("m", 512, "rows of A and C"),
    OptionSpec::extent("n", 512, "columns of B and C"),
    OptionSpec::extent("k", 256, "columns of A and rows of B"),
    OptionSpec::choice(
        "a-scales",
        &["row", "block"],
        "what has a scale of A: 128 of k of a row or of 128 rows",
    ),
    OptionSpec::choice(
        "b-scales",
        &["block", "row"],
        "what has a scale of B: 128 of k of 128 columns or of one",
    ),
    OptionSpec::choice("input", &["e4m3", "e5m2"], "type of A"),
    OptionSpec::choice("b-input", &["same", "e4m3", "e5m2"], "type of B, if it is not A's"),
    OptionSpec::choice("output", &["bf16", "f16", "f32"], "type of C"),
    OptionSpec::number("rank", 0, "which of the ways, from the cheapest on (`--explain` lists them)"),
    PLAN,
    OptionSpec::number("seed", 1, "of the inputs"),
];

/// Calls a method of a problem with the types that the options name.
macro_rules! with_types {
    ($options:expr, $method:ident($argument:expr)) => {{
        let problem = Problem::of($options)?;
        macro_rules! with_output {
            ($a:ident, $b:ident) => {
                match $options.choice("output") {
                    "bf16" => problem.$method::<$a, $b, bf16>($argument),
                    "f16" => problem.$method::<$a, $b, f16>($argument),
                    _ => problem.$method::<$a, $b, f32>($argument),
                }
            };
        }
        match ($options.choice("input"), $options.choice("b-input")) {
            ("e4m3", "same" | "e4m3") => with_output!(e4m3, e4m3),
            ("e4m3", _) => with_output!(e4m3, e5m2),
            (_, "e4m3") => with_output!(e5m2, e4m3),
            _ => with_output!(e5m2, e5m2),
        }
    }};
}

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
        capability.target == "sm_90a"
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        with_types!(options, text(target))
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_types!(options, prepare(device))
    }

    fn search(&self, device: &Device, options: &Options) -> Option<Result<Box<dyn Search>>> {
        let search = || with_types!(options, search(device));
        Some(search())
    }

    fn explain(&self, device: &Device, options: &Options) -> Option<Result<String>> {
        let explain = || with_types!(options, explanation(device));
        Some(explain())
    }
}
