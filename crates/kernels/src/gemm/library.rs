//! [`Gemm`](super::Gemm) for the command line: options, inputs, and ways.

use std::marker::PhantomData;
use std::path::PathBuf;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::cublas::{CublasProduct, ProductShape};
use warpwright::runtime::{Device, LaunchCounts, Storable, Stream};

use super::asked::{ACTIVATION, ALPHA, Asked, BETA, BIAS, FinishedSet};
use super::batched::Batch;
use super::explain::{Reason, conclusion, table, why_by_warps};
use super::multiply::{Factor, Product, Way, has_warpgroups};
use super::options::{
    A_ORDER, B_INPUT, B_ORDER, Buffers, INPUT, OUTPUT, PLAN, cublas_order, matrices, order, ranked,
    unlike_types, with_one_type, with_types,
};
use super::plan;
use super::readable::Readable;
use super::tune::{self, Searched, WaySearch};
use super::tuned::{self, Key};
use super::verify::verify;
use super::{GemmOutput, WarpgroupInput, multiply};
use crate::operations::Operations;
use crate::prepared::{PLANNED_SMS, capability_of};
use crate::reference::Rounded;
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Search, Verified, Work};
use crate::rotation::rotating;

/// The tensor-core GEMM for the command line.
pub(crate) struct Library;

/// What the options ask for.
struct Problem {
    product: Product,
    /// How many of them.
    count: u32,
    asked: Asked,
    seed: u64,
    instruction: &'static str,
    rank: usize,
    /// Whether what a search has found counts.
    uses_tuned: bool,
}

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        let (m, n, k) = (options.u32("m")?, options.u32("n")?, options.u32("k")?);
        Ok(Self {
            product: Product { m, n, k, a: order(options, "a"), b: order(options, "b") },
            count: options.u32("batch")?,
            asked: Asked::of(options),
            seed: options.number("seed"),
            instruction: options.choice("instruction"),
            rank: options.number("rank") as usize,
            uses_tuned: options.choice("plan") == "tuned",
        })
    }

    /// All of its products.
    fn batch(&self) -> Batch {
        Batch::new(self.product, self.count)
    }

    /// What any way to do it must do: each element of A, B and C moved once.
    fn work<A, B, C>(&self) -> Work {
        let [a, b, c] = self.batch().lengths();
        let elements = |count: usize, bytes: usize| (count * bytes) as f64;
        let bytes = elements(a, size_of::<A>()) + elements(b, size_of::<B>()) + elements(c, size_of::<C>());
        Work { operations: 2.0 * c as f64 * f64::from(self.product.k), bytes }
    }

    /// The way that the options ask for: the plan's, where they leave it open.
    fn way<A: WarpgroupInput, B: Element, C: Element>(
        &self,
        capability: &Capability,
        sms: u32,
    ) -> Result<Way> {
        let mut ways = multiply::ways::<A, C>(self.batch(), capability, sms);
        ways.retain(|way| self.allows(*way));
        if ways.is_empty() {
            return Err(multiply::no_warpgroups::<A, B>(self.product).into());
        }
        ranked(&ways, self.rank)
    }

    /// Whether the options leave that way open.
    fn allows(&self, way: Way) -> bool {
        match self.instruction {
            "mma" => matches!(way, Way::Warps(_)),
            "wgmma" => matches!(way, Way::Warpgroups(_)),
            _ => true,
        }
    }

    /// The way on a device, and why: an option's, or what a search has found there, or the model's.
    fn way_on<A: WarpgroupInput, B: Element, C: Element>(&self, device: &Device) -> Result<(Way, Reason)> {
        let properties = device.properties();
        let way = self.way::<A, B, C>(properties.capability, properties.sm_count)?;
        if self.rank != 0 {
            return Ok((way, Reason::Flag("--rank")));
        }
        if !self.uses_tuned {
            return Ok((way, Reason::Flag("--plan")));
        }
        if let Ok(file) = tuned::default_file()
            && let Some(found) = tuned::find::<A, B, C>(&file, properties, self.batch())?
            && self.allows(found)
        {
            return Ok((found, Reason::Tuned(file)));
        }
        Ok((way, if self.instruction == "mma" { Reason::Flag("--instruction") } else { Reason::Model }))
    }

    /// The model's table, and which way was chosen and why.
    fn explanation<A: Factor<B>, B: Factor<A>, C: GemmOutput>(&self, device: &Device) -> Result<String> {
        let properties = device.properties();
        let (way, reason) = self.way_on::<A, B, C>(device)?;
        let Way::Warpgroups(chosen) = way else {
            let why = match reason {
                Reason::Model => why_by_warps(has_warpgroups(properties.capability)).to_owned(),
                _ => reason.to_string(),
            };
            return Ok(format!("{way}: {why}"));
        };
        let costs = plan::costs(self.batch().shape::<A, C>(), properties.sm_count);
        let mut lines = table("", &costs, chosen);
        lines.extend(Readable::of::<A>(self.batch()).describe());
        lines.push(conclusion(chosen, &reason));
        Ok(lines.join("\n"))
    }

    /// A search for the fastest way on a device.
    fn search<A, B, C>(&self, device: &Device) -> Result<Box<dyn Search>>
    where
        A: Factor<B> + Rounded,
        B: Factor<A> + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        self.asked.expect_none("a search")?;
        if self.instruction != "best" {
            return Err("a search tries every instruction: leave out --instruction".into());
        }
        let searched = SearchedGemm::<A, B, C> {
            operations: Operations::new(device),
            batch: self.batch(),
            work: self.work::<A, B, C>(),
            types: PhantomData,
        };
        if searched.ways().is_empty() {
            return Err(multiply::no_warpgroups::<A, B>(self.product).into());
        }
        let make = matrices::<A, B, C>(device, self.batch());
        Ok(Box::new(WaySearch::new(device, searched, (self.seed, make))?))
    }

    fn text<A: Factor<B>, B: Factor<A>, C: GemmOutput>(&self, target: &str) -> Result<String> {
        let capability = capability_of(target)?;
        match self.way::<A, B, C>(capability, PLANNED_SMS)? {
            Way::Warps(warps) => {
                Ok(A::warps_ptx::<C>((self.batch(), warps), self.asked.staged(), capability)?)
            }
            Way::Warpgroups(configuration) => {
                Ok(self.batch().ptx::<_, A, B, C>(configuration, self.asked.staged(), capability)?)
            }
        }
    }

    fn prepare<A, B, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        A: Factor<B> + Rounded,
        B: Factor<A> + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        let (batch, asked) = (self.batch(), self.asked);
        let (way, _) = self.way_on::<A, B, C>(device)?;
        let operations = Operations::new(device);
        let launch = move |stream: &Stream, set: &mut FinishedSet<A, B, C>| {
            asked.launch(&operations, stream, (batch, way), set)
        };
        let verify = move |set: &FinishedSet<A, B, C>| asked.verify(batch, set);
        let (make, work) = (asked.sets::<A, B, C>(device, batch), self.work::<A, B, C>());
        rotating(device, self.seed, work, make, launch, verify)
    }

    /// The same product by cuBLAS, on the same factors, held to the same tolerance.
    fn cublas<T, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        T: Storable + Rounded,
        C: Storable + Rounded,
    {
        self.asked.expect_none("the comparison with cuBLAS")?;
        let Product { m, n, k, a, b } = self.product;
        let [m, n, k] = [m, n, k].map(|extent| extent as usize);
        let (a, b) = (cublas_order(a), cublas_order(b));
        let shape = ProductShape { m, n, k, a, b, batch: self.count as usize };
        let make = matrices::<T, T, C>(device, self.batch());
        let stream = device.stream()?;
        let Buffers { a, b, mut c } = make(self.seed)?;
        let product = CublasProduct::new(&stream, shape, &a, &b, &mut c)?;
        let launch = move |stream: &Stream, Buffers { a, b, c }: &mut Buffers<T, T, C>| {
            product.launch(stream, a, b, c)?;
            Ok(LaunchCounts::default())
        };
        let batch = self.batch();
        let verify = move |set: &Buffers<T, T, C>| verify(batch, set);
        rotating(device, self.seed, self.work::<T, T, C>(), make, launch, verify)
    }
}

/// The ways to compute a batch.
struct SearchedGemm<A, B, C> {
    operations: Operations,
    batch: Batch,
    work: Work,
    types: PhantomData<(A, B, C)>,
}

impl<A, B, C> Searched for SearchedGemm<A, B, C>
where
    A: Factor<B> + Rounded,
    B: Factor<A> + Rounded,
    C: GemmOutput + Storable + Rounded,
{
    type Set = Buffers<A, B, C>;
    type Way = Way;

    fn ways(&self) -> Vec<Way> {
        let properties = self.operations.device().properties();
        tune::legal_ways::<A, C>(self.batch, properties.capability, properties.sm_count)
    }

    fn around(&self, way: Way) -> Vec<Way> {
        let capability = self.operations.device().properties().capability;
        tune::ways_around(way, self.batch.shape::<A, C>(), capability)
    }

    fn name(&self, way: Way) -> String {
        way.to_string()
    }

    fn work(&self) -> Work {
        self.work
    }

    fn launch(
        &self,
        stream: &Stream,
        way: Way,
        Buffers { a, b, c }: &mut Buffers<A, B, C>,
    ) -> Result<LaunchCounts> {
        Ok(self.operations.multiply_batched_by(stream, &self.batch, way, a, b, c)?)
    }

    fn verify(&self, set: &Buffers<A, B, C>) -> Result<Verified> {
        verify(self.batch, set)
    }

    fn keep(&self, way: Way, seconds: f64) -> Result<PathBuf> {
        let key = Key::of::<A, B, C>(&self.operations.device().properties().product, self.batch);
        Ok(tuned::keep(&key, way, seconds)?)
    }
}

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("m", 512, "rows of A and C"),
    OptionSpec::extent("n", 512, "columns of B and C"),
    OptionSpec::extent("k", 256, "columns of A and rows of B"),
    OptionSpec::extent("batch", 1, "products of that shape, in one launch"),
    A_ORDER,
    B_ORDER,
    INPUT,
    B_INPUT,
    OUTPUT,
    ALPHA,
    BETA,
    BIAS,
    ACTIVATION,
    OptionSpec::choice("instruction", &["best", "mma", "wgmma"], "which tensor-core instruction multiplies"),
    OptionSpec::number("rank", 0, "which of the plan's ways, from the cheapest on (`--explain` lists them)"),
    PLAN,
    OptionSpec::number("seed", 1, "of the inputs"),
];

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn summary(&self) -> &'static str {
        "C = A·B on tensor cores: any shape, either order of A and B, floats of 16, 8 or 32 (tf32) bits, an epilogue"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let problem = Problem::of(options)?;
        with_types!(options, problem.text(target))
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let problem = Problem::of(options)?;
        with_types!(options, problem.prepare(device))
    }

    fn search(&self, device: &Device, options: &Options) -> Option<Result<Box<dyn Search>>> {
        let search = || {
            let problem = Problem::of(options)?;
            with_types!(options, problem.search(device))
        };
        Some(search())
    }

    fn explain(&self, device: &Device, options: &Options) -> Option<Result<String>> {
        let explain = || {
            let problem = Problem::of(options)?;
            with_types!(options, problem.explanation(device))
        };
        Some(explain())
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        let prepare = || {
            let problem = Problem::of(options)?;
            with_one_type!(options, problem.cublas(device))
        };
        (name == "cublas").then(prepare)
    }
}
