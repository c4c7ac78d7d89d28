//! [`Experts`] for the command line.

use warpwright::prelude::*;
use warpwright::runtime::{Device, Storable, Stream};

use super::GemmOutput;
use super::cublas_in_turn::cublas_in_turn;
use super::experts::{Experts, alike, planned};
use super::explain::{Reason, conclusion, table, why_by_warps};
use super::multiply::{Factor, Product, Way, has_warpgroups, ways};
use super::options::{B_INPUT, Buffers, INPUT, OUTPUT, factor, unlike_types, with_one_type, with_types};
use super::plan;
use super::readable::Readable;
use super::routed::{COLUMNS, DEPTH, EXPERTS, ROUTING, ROWS, Routed, SEED};
use super::verify::verify_parts;
use crate::operations::Operations;
use crate::prepared::{PLANNED_SMS, capability_of};
use crate::reference::Rounded;
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work};
use crate::rotation::rotating;

/// Groups of rows, each times a matrix of its own, for the command line.
pub(crate) struct ExpertsLibrary;

/// What the options ask for.
struct Problem(Routed);

impl Problem {
    /// What any way to do it must do.
    fn work<A, B, C>(&self) -> Work {
        let Routed { n, k, .. } = self.0;
        let (rows, read, n, k) = (self.0.rows() as f64, f64::from(self.0.read()), f64::from(n), f64::from(k));
        let bytes = rows * k * size_of::<A>() as f64
            + read * n * k * size_of::<B>() as f64
            + rows * n * size_of::<C>() as f64;
        Work { operations: 2.0 * rows * n * k, bytes }
    }

    /// The sets of matrices, C poisoned, by their seeds.
    fn buffers<A, B, C>(&self, device: &Device) -> impl Fn(u64) -> Result<Buffers<A, B, C>>
    where
        A: Storable + Rounded,
        B: Storable + Rounded,
        C: Storable + Rounded,
    {
        let Routed { n, k, .. } = self.0;
        let (device, rows, n, k) = (device.clone(), self.0.rows(), n as usize, k as usize);
        let count = self.0.count() as usize;
        move |seed| {
            let c = device.buffer_from(&vec![C::round(f32::NAN); rows * n])?;
            let a = factor(&device, 2 * seed, rows * k)?;
            Ok(Buffers { a, b: factor(&device, 2 * seed + 1, count * n * k)?, c })
        }
    }

    fn prepare<A, B, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        A: Factor<B> + Rounded,
        B: Factor<A> + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        let operations = Operations::new(device);
        let (offsets, n, k) = (device.buffer_from(&self.0.offsets())?, self.0.n, self.0.k);
        let launch = move |stream: &Stream, Buffers { a, b, c }: &mut Buffers<A, B, C>| {
            Ok(operations.multiply_experts(stream, &Experts::new(&offsets, n, k), a, b, c)?)
        };
        let parts = self.0.parts();
        let verify = move |set: &Buffers<A, B, C>| verify_parts(&parts, set);
        rotating(device, self.0.seed, self.work::<A, B, C>(), self.buffers(device), launch, verify)
    }

    /// The model's table for groups of equal sizes, what is chosen, and what must be copied.
    fn explanation<A: Factor<B>, B: Factor<A>, C: GemmOutput>(&self, device: &Device) -> Result<String> {
        let (operations, properties) = (Operations::new(device), device.properties());
        let offsets = device.buffer_from(&self.0.offsets())?;
        let (experts, rows) = (Experts::new(&offsets, self.0.n, self.0.k), alike(self.0.rows() as u32));
        let Way::Warpgroups(chosen) = operations.ways_of_experts::<A, C>(&experts, rows)[0] else {
            return Ok(format!("by mma.sync: {}", why_by_warps(has_warpgroups(properties.capability))));
        };
        let average = experts.average(rows);
        let Product { m, n, k, .. } = average.product;
        let of =
            format!(" for {} groups of {m} x {n} x {k}, equal ones of about so many rows", average.count);
        let costs = plan::costs(average.shape::<A, C>(), properties.sm_count);
        let mut lines = table(&of, &costs, chosen);
        lines.extend(Readable::of::<A>(experts.batch(rows)).describe());
        lines.push(conclusion(chosen, &Reason::ModelAlone));
        Ok(lines.join("\n"))
    }

    /// cuBLASLt's products, one launch after another.
    fn cublas<T, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        T: Storable + Rounded,
        C: Storable + Rounded,
    {
        let products = self.0.products().filter(|product| product.m > 0).collect();
        cublas_in_turn::<T, C>(device, products, self.0.seed, self.work::<T, T, C>())
    }

    fn text<A: Factor<B>, B: Factor<A>, C: GemmOutput>(&self, target: &str) -> Result<String> {
        let capability = capability_of(target)?;
        let average = self.0.average();
        Ok(match ways::<A, C>(average, capability, PLANNED_SMS)[0] {
            Way::Warps(_) => A::experts_warps_ptx::<C>(average.product, capability)?,
            Way::Warpgroups(way) => {
                planned(self.0.groups(), way).ptx::<A, B, C>(Default::default(), capability)?
            }
        })
    }
}

const OPTIONS: &[OptionSpec] = &[EXPERTS, ROWS, COLUMNS, DEPTH, ROUTING, INPUT, B_INPUT, OUTPUT, SEED];

impl LibraryKernel for ExpertsLibrary {
    fn name(&self) -> &'static str {
        "gemm-experts"
    }

    fn summary(&self) -> &'static str {
        "groups of rows, each times a matrix of its own, in one launch: the layers of a mixture of experts"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let problem = Problem(Routed::of(options)?);
        with_types!(options, problem.text(target))
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let problem = Problem(Routed::of(options)?);
        with_types!(options, problem.prepare(device))
    }

    fn explain(&self, device: &Device, options: &Options) -> Option<Result<String>> {
        let explain = || {
            let problem = Problem(Routed::of(options)?);
            with_types!(options, problem.explanation(device))
        };
        Some(explain())
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        let prepare = || {
            let problem = Problem(Routed::of(options)?);
            with_one_type!(options, problem.cublas(device))
        };
        (name == "cublas").then(prepare)
    }
}
