//! Groups of products with nothing in common, for the command line.

use warpwright::prelude::*;
use warpwright::runtime::{Device, Storable, Stream};

use super::GemmOutput;
use super::cublas_in_turn::{buffers_of, cublas_in_turn, verify_buffers};
use super::explain::{Reason, conclusion, table, why_by_warps};
use super::grouped::{GroupMember, costs_of_group, ways_of_group};
use super::grouped_kernel;
use super::multiply::{Factor, Way, has_warpgroups};
use super::options::{
    A_ORDER, B_INPUT, B_ORDER, Buffers, INPUT, OUTPUT, order, unlike_types, with_one_type, with_types,
};
use super::uneven::{COLUMNS, DEPTH, MEMBERS, ROWS, SEED, SIZES, Uneven};
use crate::operations::Operations;
use crate::prepared::{PLANNED_SMS, capability_of};
use crate::reference::Rounded;
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work};
use crate::rotation::rotating;

/// Products of unlike extents in one launch, for the command line.
pub(crate) struct GroupedLibrary;

/// What the options ask for.
struct Problem(Uneven);

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        Ok(Self(Uneven::of(options, (order(options, "a"), order(options, "b")))?))
    }

    /// What any way to do it must do: each element moved once.
    fn work<A, B, C>(&self) -> Work {
        self.0.work(|product| {
            let [m, n, k] = [product.m, product.n, product.k].map(f64::from);
            let factors = m * k * size_of::<A>() as f64 + k * n * size_of::<B>() as f64;
            Work { operations: 2.0 * m * n * k, bytes: factors + m * n * size_of::<C>() as f64 }
        })
    }

    fn prepare<A, B, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        A: Factor<B> + Rounded,
        B: Factor<A> + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        let (operations, products) = (Operations::new(device), self.0.products.clone());
        let launch = move |stream: &Stream, sets: &mut Vec<Buffers<A, B, C>>| {
            let members = products.iter().zip(sets);
            let mut members: Vec<_> =
                members.map(|(&product, Buffers { a, b, c })| GroupMember::new(product, a, b, c)).collect();
            Ok(operations.multiply_grouped(stream, &mut members)?)
        };
        let (make, products) = (buffers_of(device, self.0.products.clone()), self.0.products.clone());
        let verify = move |sets: &Vec<Buffers<A, B, C>>| verify_buffers(&products, sets);
        rotating(device, self.0.seed, self.work::<A, B, C>(), make, launch, verify)
    }

    /// The model's table for the average product, what is chosen, and what must be copied.
    fn explanation<A: Factor<B>, B: Factor<A>, C: GemmOutput>(&self, device: &Device) -> Result<String> {
        let properties = device.properties();
        let (capability, sms) = (properties.capability, properties.sm_count);
        let Way::Warpgroups(chosen) = ways_of_group::<A, C>(&self.0.products, capability, sms)[0] else {
            let why = why_by_warps(has_warpgroups(capability));
            return Ok(format!("by mma.sync, a launch for each product: {why}"));
        };
        let (average, of) = self.0.average::<A, C>();
        let mut lines = table(&of, &costs_of_group(average, sms), chosen);
        lines.extend(self.0.describe_copies::<A>());
        lines.push(conclusion(chosen, &Reason::ModelAlone));
        Ok(lines.join("\n"))
    }

    fn cublas<T, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        T: Storable + Rounded,
        C: Storable + Rounded,
    {
        cublas_in_turn::<T, C>(device, self.0.products.clone(), self.0.seed, self.work::<T, T, C>())
    }

    fn text<A: Factor<B>, B: Factor<A>, C: GemmOutput>(&self, target: &str) -> Result<String> {
        let capability = capability_of(target)?;
        Ok(match ways_of_group::<A, C>(&self.0.products, capability, PLANNED_SMS)[0] {
            Way::Warps(warps) => {
                A::warps_ptx::<C>((self.0.products[0].into(), warps), Default::default(), capability)?
            }
            Way::Warpgroups(configuration) => {
                grouped_kernel::ptx::<_, A, B, C>(&self.0.products, configuration, capability)?
            }
        })
    }
}

const OPTIONS: &[OptionSpec] =
    &[MEMBERS, ROWS, COLUMNS, DEPTH, SIZES, A_ORDER, B_ORDER, INPUT, B_INPUT, OUTPUT, SEED];

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
