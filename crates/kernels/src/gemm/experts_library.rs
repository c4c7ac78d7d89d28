//! [`Experts`] for the command line.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Storable, Stream};

use super::GemmOutput;
use super::cublas_in_turn::cublas_in_turn;
use super::experts::{Experts, alike};
use super::experts_kernel;
use super::explain::{Reason, conclusion, table, why_by_warps};
use super::multiply::{Factor, Product, Way, has_warpgroups};
use super::options::{Buffers, INPUT, OUTPUT, with_types};
use super::plan;
use super::readable::Readable;
use super::verify::{Part, verify_parts};
use crate::operations::Operations;
use crate::reference::{Random, Rounded, normal};
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work};
use crate::rotation::rotating;

/// Groups of rows, each times a matrix of its own, for the command line.
pub(crate) struct ExpertsLibrary;

/// What the options ask for.
struct Problem {
    /// Rows of each group.
    sizes: Vec<u32>,
    n: u32,
    k: u32,
    seed: u64,
}

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        let extent =
            |name| u32::try_from(options.number(name)).map_err(|_| format!("--{name} must be below 2^32"));
        let (rows, count, seed) = (extent("rows")?, extent("experts")?, options.number("seed"));
        let mut sizes = vec![0; count as usize];
        let mut random = Random::new(seed);
        for row in 0..rows {
            let expert = match options.choice("routing") {
                "random" => random.below(count.into()) as usize,
                "even" => (row % count) as usize,
                _ => 0,
            };
            sizes[expert] += 1;
        }
        Ok(Self { sizes, n: extent("n")?, k: extent("k")?, seed })
    }

    /// The first row of each group, and the number of all.
    fn offsets(&self) -> Vec<u32> {
        let sums = self.sizes.iter().scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        });
        std::iter::once(0).chain(sums).collect()
    }

    fn rows(&self) -> usize {
        self.sizes.iter().map(|&size| size as usize).sum()
    }

    /// The product of each group.
    fn products(&self) -> impl Iterator<Item = Product> {
        self.sizes.iter().map(|&size| Product::new(size, self.n, self.k))
    }

    /// The products, and where their rows and matrices begin.
    fn parts(&self) -> Vec<Part> {
        let (mut row, depth, matrix) = (0, self.k as usize, self.n as usize * self.k as usize);
        let part = |(group, product): (usize, Product)| {
            let part = Part { product, a: row * depth, b: group * matrix };
            row += product.m as usize;
            part
        };
        self.products().enumerate().map(part).collect()
    }

    /// What any way to do it must do: the matrix of a group of no rows need not be read.
    fn work<T, C>(&self) -> Work {
        let (rows, n, k) = (self.rows() as f64, f64::from(self.n), f64::from(self.k));
        let read = self.sizes.iter().filter(|&&size| size > 0).count() as f64;
        let bytes = (rows * k + read * n * k) * size_of::<T>() as f64 + rows * n * size_of::<C>() as f64;
        Work { operations: 2.0 * rows * n * k, bytes }
    }

    /// The sets of matrices, C poisoned, by their seeds.
    fn buffers<T, C>(&self, device: &Device) -> impl Fn(u64) -> Result<Buffers<T, C>>
    where
        T: Storable + Rounded,
        C: Storable + Rounded,
    {
        let (device, rows, n, k) = (device.clone(), self.rows(), self.n as usize, self.k as usize);
        let count = self.sizes.len();
        move |seed| {
            let factor = |seed: u64, count: usize| -> Result<Buffer<T>> {
                let values: Vec<T> = normal(seed, count, T::round);
                Ok(device.buffer_from(&values)?)
            };
            let c = device.buffer_from(&vec![C::round(f32::NAN); rows * n])?;
            Ok(Buffers { a: factor(2 * seed, rows * k)?, b: factor(2 * seed + 1, count * n * k)?, c })
        }
    }

    fn prepare<T, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        T: Factor + Rounded,
        C: GemmOutput + Storable + Rounded,
    {
        let operations = Operations::new(device);
        let (offsets, n, k) = (device.buffer_from(&self.offsets())?, self.n, self.k);
        let launch = move |stream: &Stream, Buffers { a, b, c }: &mut Buffers<T, C>| {
            Ok(operations.multiply_experts(stream, &Experts::new(&offsets, n, k), a, b, c)?)
        };
        let parts = self.parts();
        let verify = move |set: &Buffers<T, C>| verify_parts(&parts, set);
        rotating(device, self.seed, self.work::<T, C>(), self.buffers(device), launch, verify)
    }

    /// The model's table for groups of equal sizes, what is chosen, and what must be copied.
    fn explanation<T: Factor, C: GemmOutput>(&self, device: &Device) -> Result<String> {
        let (operations, properties) = (Operations::new(device), device.properties());
        let offsets = device.buffer_from(&self.offsets())?;
        let (experts, rows) = (Experts::new(&offsets, self.n, self.k), alike(self.rows() as u32));
        let Way::Warpgroups(chosen) = operations.ways_of_experts::<T, C>(&experts, rows)[0] else {
            return Ok(format!("by mma.sync: {}", why_by_warps(has_warpgroups(properties.capability))));
        };
        let average = experts.average(rows);
        let Product { m, n, k, .. } = average.product;
        let of =
            format!(" for {} groups of {m} x {n} x {k}, equal ones of about so many rows", average.count);
        let costs = plan::costs(average.shape::<T, C>(), properties.sm_count);
        let mut lines = table(&of, &costs, chosen);
        lines.extend(Readable::of::<T>(experts.batch(rows)).describe());
        lines.push(conclusion(chosen, &Reason::ModelAlone));
        Ok(lines.join("\n"))
    }

    /// cuBLASLt's products, one launch after another.
    fn cublas<T, C>(&self, device: &Device) -> Result<Box<dyn Prepared>>
    where
        T: Storable + Rounded,
        C: Storable + Rounded,
    {
        let products = self.products().filter(|product| product.m > 0).collect();
        cublas_in_turn::<T, C>(device, products, self.seed, self.work::<T, C>())
    }

    fn text<T: Factor, C: GemmOutput>(&self, target: &str) -> Result<String> {
        let capability = crate::prepared::capability_of(target)?;
        let (count, rows) = (self.sizes.len() as u32, self.rows() as u32);
        Ok(experts_kernel::ptx::<T, C>((count, self.n, self.k), rows, capability)?)
    }
}

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("experts", 8, "groups of rows, and matrices B"),
    OptionSpec::extent("rows", 512, "rows of A and C, of all groups together"),
    OptionSpec::extent("n", 512, "columns of each B and of C"),
    OptionSpec::extent("k", 256, "columns of A and rows of each B"),
    OptionSpec::choice("routing", &["random", "even", "first"], "to which group each row goes"),
    INPUT,
    OUTPUT,
    OptionSpec::number("seed", 1, "of the inputs, and of the routing"),
];

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
            with_types!(options, problem.cublas(device))
        };
        (name == "cublas").then(prepare)
    }
}
