//! Groups of products with nothing in common, for the command line.

use warpwright::prelude::*;
use warpwright::runtime::{Device, Storable, Stream};

use super::GemmOutput;
use super::cublas_in_turn::{cublas_in_turn, sets_of, verify_each};
use super::explain::{Reason, conclusion, table, why_by_warps};
use super::grouped::{self, GroupMember, costs_of_group, ways_of_group};
use super::grouped_kernel;
use super::multiply::{Factor, Product, Way, has_warpgroups};
use super::options::{
    A_ORDER, B_INPUT, B_ORDER, Buffers, INPUT, OUTPUT, order, unlike_types, with_one_type, with_types,
};
use super::readable::Readable;
use crate::operations::Operations;
use crate::reference::{Random, Rounded};
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work};
use crate::rotation::rotating;

/// Products of unlike extents in one launch, for the command line.
pub(crate) struct GroupedLibrary;

/// SMs that PTX without a device is planned for: an H200's.
const PLANNED_SMS: u32 = 132;

/// Elements of which rows of all types are whole 16 bytes.
const ALIGNED: u32 = 16;

/// What the options ask for.
struct Problem {
    products: Vec<Product>,
    seed: u64,
}

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        let extent =
            |name| u32::try_from(options.number(name)).map_err(|_| format!("--{name} must be below 2^32"));
        let (m, n, k, seed) = (extent("m")?, extent("n")?, extent("k")?, options.number("seed"));
        let (a, b) = (order(options, "a"), order(options, "b"));
        let mut random = Random::new(seed);
        // From half of it to all of it.
        let mut below = |most: u32| most - random.below(u64::from(most / 2 + 1)) as u32;
        let mut size = |most: u32| match options.choice("sizes") {
            "random" => below(most).next_multiple_of(ALIGNED).min(most),
            "odd" => below(most),
            _ => most,
        };
        let products = (0..extent("members")?).map(|_| Product { m: size(m), n: size(n), k: size(k), a, b });
        Ok(Self { products: products.collect(), seed })
    }

    /// What any way to do it must do: each element moved once.
    fn work<A, B, C>(&self) -> Work {
        let mut work = Work::default();
        for product in &self.products {
            let [m, n, k] = [product.m, product.n, product.k].map(f64::from);
            work.operations += 2.0 * m * n * k;
            work.bytes +=
                m * k * size_of::<A>() as f64 + k * n * size_of::<B>() as f64 + m * n * size_of::<C>() as f64;
        }
        work
    }

    fn prepare<A, B, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        A: Factor<B> + Rounded,
        B: Factor<A> + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        let (operations, products) = (Operations::new(device), self.products.clone());
        let launch = move |stream: &Stream, sets: &mut Vec<Buffers<A, B, C>>| {
            let members = products.iter().zip(sets);
            let mut members: Vec<_> =
                members.map(|(&product, Buffers { a, b, c })| GroupMember::new(product, a, b, c)).collect();
            Ok(operations.multiply_grouped(stream, &mut members)?)
        };
        let (make, products) = (sets_of(device, self.products.clone()), self.products.clone());
        let verify = move |sets: &Vec<Buffers<A, B, C>>| verify_each(&products, sets);
        rotating(device, self.seed, self.work::<A, B, C>(), make, launch, verify)
    }

    /// The model's table for the average product, what is chosen, and what must be copied.
    fn explanation<A: Factor<B>, B: Factor<A>, C: GemmOutput>(&self, device: &Device) -> Result<String> {
        let properties = device.properties();
        let (capability, sms) = (properties.capability, properties.sm_count);
        let Way::Warpgroups(chosen) = ways_of_group::<A, C>(&self.products, capability, sms)[0] else {
            let why = why_by_warps(has_warpgroups(capability));
            return Ok(format!("by mma.sync, a launch for each product: {why}"));
        };
        let (count, average) = (self.products.len(), grouped::average::<A, C>(&self.products));
        let of =
            format!(" for {count} products of {} x {} x {}, the average", average.m, average.n, average.k);
        let mut lines = table(&of, &costs_of_group(average, sms), chosen);
        let is_copied = |product: &&Product| !Readable::of::<A>((**product).into()).as_it_is();
        let copied = self.products.iter().filter(is_copied).count();
        if copied > 0 {
            lines.push(format!("factors of {copied} of the {count} products are copied first: TMA cannot read them as they are"));
        }
        lines.push(conclusion(chosen, &Reason::ModelAlone));
        Ok(lines.join("\n"))
    }

    fn cublas<T, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        T: Storable + Rounded,
        C: Storable + Rounded,
    {
        cublas_in_turn::<T, C>(device, self.products.clone(), self.seed, self.work::<T, T, C>())
    }

    fn text<A: Factor<B>, B: Factor<A>, C: GemmOutput>(&self, target: &str) -> Result<String> {
        let capability = crate::prepared::capability_of(target)?;
        Ok(match ways_of_group::<A, C>(&self.products, capability, PLANNED_SMS)[0] {
            Way::Warps(warps) => {
                A::warps_ptx::<C>((self.products[0].into(), warps), Default::default(), capability)?
            }
            Way::Warpgroups(configuration) => {
                grouped_kernel::ptx::<A, B, C>(&self.products, configuration, capability)?
            }
        })
    }
}

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("members", 8, "products"),
    OptionSpec::extent("m", 512, "rows of the highest A and C"),
    OptionSpec::extent("n", 512, "columns of the widest B and C"),
    OptionSpec::extent("k", 256, "columns of the widest A and rows of the highest B"),
    OptionSpec::choice(
        "sizes",
        &["random", "odd", "alike"],
        "extents down to half of those, in steps of 16 or of 1; or all alike",
    ),
    A_ORDER,
    B_ORDER,
    INPUT,
    B_INPUT,
    OUTPUT,
    OptionSpec::number("seed", 1, "of the inputs, and of the sizes"),
];

impl LibraryKernel for GroupedLibrary {
    fn name(&self) -> &'static str {
        "gemm-grouped"
    }

    fn summary(&self) -> &'static str {
        "products of unlike extents, each with matrices of its own, in one launch"
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
