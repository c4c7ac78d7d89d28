//! SGEMM for the command line: its steps, the f64 reference, and the tolerance they are held to.

use rayon::prelude::*;
use warpwright::runtime::cublas::{CublasProduct, Order, ProductShape};
use warpwright::runtime::{Buffer, Device, LaunchCounts, Stream};

use super::plan::{self, COPIED, FED};
use super::thread_tile::ThreadTile;
use super::vectorised::Vectorised;
use super::warp_tile::WarpTile;
use super::{Matrices, Method, Scale};
use crate::number::Values;
use crate::operations::Operations;
use crate::prepared::{PLANNED_SMS, capability_of, ptx, with_resources};
use crate::reference::{Rounded, Strided, product};
use crate::registry::{
    self, Ladder, LibraryKernel, Measure, OptionSpec, Options, Prepared, Resources, Result, Verified, Work,
    compare,
};
use crate::rotation::rotating;

/// SGEMM for the command line.
pub(crate) struct Library;

/// The steps, the first one first.
const STEPS: &[&str] = &[
    "naive",
    "coalesced",
    "shared",
    "column",
    "thread-tile",
    "coalesced-copies",
    "vectorised",
    "warp-tile",
    "double-buffered",
    "tma",
];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("m", 512, "rows of A and C"),
    OptionSpec::number("n", 512, "columns of B and C"),
    OptionSpec::number("k", 256, "columns of A and rows of B"),
    OptionSpec::choice(
        "step",
        &[
            "best",
            "naive",
            "coalesced",
            "shared",
            "column",
            "thread-tile",
            "coalesced-copies",
            "vectorised",
            "warp-tile",
            "double-buffered",
            "tma",
        ],
        "how far on the way",
    ),
    OptionSpec::choice(
        "tile",
        &["planned", "128x128", "256x128", "128x256", "64x64"],
        "tile of C a CTA (double-buffered, tma)",
    ),
    OptionSpec::number(
        "splits",
        0,
        "parts of k that are multiplied apart (double-buffered, tma); 0: as planned",
    ),
    OptionSpec::choice(
        "scale",
        &["plain", "scaled"],
        "C = A·B, or C = 1.5 A·B - 0.5 C, which copies C anew before each launch",
    ),
    OptionSpec::number("seed", 1, "of the inputs"),
];

/// What the options ask for.
#[derive(Clone, Copy)]
struct Problem {
    extents: (u32, u32, u32),
    scale: Scale,
    seed: u64,
}

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        let scale = match options.choice("scale") {
            "plain" => Scale::default(),
            _ => Scale { alpha: 1.5, beta: -0.5 },
        };
        let extents = (options.u32("m")?, options.u32("n")?, options.u32("k")?);
        Ok(Self { extents, scale, seed: options.number("seed") })
    }

    fn sizes(&self) -> (usize, usize, usize) {
        let (m, n, k) = self.extents;
        (m as usize, n as usize, k as usize)
    }

    /// A, B and what C holds before; the same for the same seed.
    fn inputs(&self, seed: u64) -> [Vec<f32>; 3] {
        let (m, n, k) = self.sizes();
        let values =
            |which: u64, count| Values::Normal.numbers(seed.wrapping_mul(3).wrapping_add(which), count);
        let before = if self.scale.beta == 0.0 { vec![f32::NAN; m * n] } else { values(2, m * n) };
        [values(0, m * k), values(1, k * n), before]
    }

    /// What any way to do it must do: each element of A, B and C moved once.
    fn work(&self) -> Work {
        let (m, n, k) = self.sizes();
        let written = if self.scale.beta == 0.0 { m * n } else { 2 * m * n };
        Work {
            operations: 2.0 * m as f64 * n as f64 * k as f64,
            bytes: 4.0 * (m * k + k * n + written) as f64,
        }
    }

    /// The kernel that the options choose, on a GPU of that size, with a TMA that reads A and B or without.
    fn method(&self, options: &Options, sms: u32, tma: bool) -> Result<Method> {
        let (_, n, k) = self.extents;
        let widths = (plan::width(k), plan::width(n));
        let step = options.choice("step");
        let fed = step == "tma" || step == "best" && tma;
        let configurations = if fed { FED } else { COPIED };
        let ((_, tiles, ctas_per_sm), planned) = match options.choice("tile") {
            "planned" => plan::choose(sms, configurations, self.extents),
            tile => {
                let found = configurations.iter().find(|(name, ..)| *name == tile);
                (*found.ok_or_else(|| format!("--tile {tile} is no tile of this step"))?, 1)
            }
        };
        let splits = options.u32_or("splits", planned)?;
        Ok(match step {
            "naive" => Method::Naive,
            "coalesced" => Method::Coalesced,
            "shared" => Method::Shared,
            "column" => Method::ThreadTile(ThreadTile::COLUMN),
            "thread-tile" => Method::ThreadTile(ThreadTile::SQUARE),
            "coalesced-copies" => Method::ThreadTile(ThreadTile::COALESCED),
            "vectorised" => Method::Vectorised(Vectorised { tiles: Vectorised::TILES, widths }),
            "warp-tile" => Method::WarpTile(WarpTile { tiles: WarpTile::TILES, widths }),
            _ if fed => Method::TmaFed(plan::tma_fed(tiles, ctas_per_sm), splits),
            _ => Method::DoubleBuffered(plan::double_buffered(tiles, ctas_per_sm, n), splits),
        })
    }

    fn method_on(&self, options: &Options, device: &Device) -> Result<Method> {
        let properties = device.properties();
        self.method(options, properties.sm_count, plan::tma_reads(properties.capability, self.extents))
    }
}

/// A, B, C, and what C holds before each launch.
struct Set {
    a: Buffer<f32>,
    b: Buffer<f32>,
    c: Buffer<f32>,
    before: Option<Buffer<f32>>,
    host: [Vec<f32>; 3],
}

impl Set {
    fn new(device: &Device, problem: &Problem, seed: u64) -> Result<Self> {
        let host = problem.inputs(seed);
        let before = (problem.scale.beta != 0.0).then(|| device.buffer_from(&host[2])).transpose()?;
        Ok(Self {
            a: device.buffer_from(&host[0])?,
            b: device.buffer_from(&host[1])?,
            c: device.buffer_from(&host[2])?,
            before,
            host,
        })
    }
}

/// Holds every element to the f64 product.
///
/// A sum of k products in f32 errs by at most k u Σ|a b|, with u = 2^-24; and unless its roundings conspire, by less than 8 √k u Σ|a b| (Higham and Mary, "A new
/// approach to probabilistic rounding error analysis", 2019, with λ = 8). Σ|a b| is at most |row of A| |column of B|. Alpha and beta add three roundings.
fn verify(problem: &Problem, [a, b, before]: &[Vec<f32>; 3], found: &[f32]) -> Result<Verified> {
    let (m, n, k) = problem.sizes();
    if found.is_empty() {
        return Ok(Verified { elements: 0, worst: 0.0 });
    }
    let exact = |values: &[f32]| -> Vec<f64> { values.par_iter().map(|value| f64::from(*value)).collect() };
    let (a, b) = (exact(a), exact(b));
    let row_norms: Vec<f64> = (0..m)
        .into_par_iter()
        .map(|row| a[row * k..][..k].iter().map(|x| x * x).sum::<f64>().sqrt())
        .collect();
    let mut column_norms = vec![0.0; n];
    for row in b.chunks(n) {
        row.iter().zip(&mut column_norms).for_each(|(x, norm)| *norm += x * x);
    }
    column_norms.iter_mut().for_each(|norm| *norm = norm.sqrt());
    let roundings = (k as f64).min(8.0 * (k as f64).sqrt());
    let Scale { alpha, beta } = problem.scale;
    let (alpha, beta) = (f64::from(alpha), f64::from(beta));
    // Each thread multiplies some rows by all of B.
    const ROWS: usize = 256;
    let blocks = found.par_chunks(ROWS * n).enumerate().map(|(block, found)| {
        let (first, rows) = (block * ROWS, found.len() / n);
        let a = Strided { values: &a[first * k..(first + rows) * k], row_stride: k, column_stride: 1 };
        let sums = product((rows, n, k), a, Strided { values: &b, row_stride: n, column_stride: 1 });
        let elements = found.iter().zip(&sums).enumerate().map(|(index, (found, sum))| {
            let (row, column) = (first + index / n, index % n);
            let before = if beta == 0.0 { 0.0 } else { beta * f64::from(before[row * n + column]) };
            let magnitude = (alpha * row_norms[row] * column_norms[column]).abs();
            let tolerance = f32::ROUNDING * (roundings * magnitude + 3.0 * (magnitude + before.abs()));
            registry::Element {
                found: f64::from(*found),
                expected: alpha * sum + before,
                tolerance: tolerance + f64::from(f32::MIN_POSITIVE),
            }
        });
        compare(elements, |index| vec![first + index as usize / n, index as usize % n])
    });
    let mut all = Verified { elements: 0, worst: 0.0 };
    for verified in blocks.collect::<Vec<_>>() {
        let verified = verified?;
        all.elements += verified.elements;
        all.worst = all.worst.max(verified.worst);
    }
    Ok(all)
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "sgemm"
    }

    fn summary(&self) -> &'static str {
        "C = A·B in f32 without tensor cores, from a thread an element to all that an SM can multiply"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let problem = Problem::of(options)?;
        let capability = capability_of(target)?;
        let tma = plan::tma_reads(capability, problem.extents);
        match problem.method(options, PLANNED_SMS, tma)? {
            Method::Naive => ptx(super::naive::Naive.run()?, target),
            Method::Coalesced => ptx(super::coalesced::Coalesced.run()?, target),
            Method::Shared => ptx(super::shared::SharedBlock.run()?, target),
            Method::ThreadTile(kernel) => ptx(kernel.run()?, target),
            Method::Vectorised(kernel) => ptx(kernel.run()?, target),
            Method::WarpTile(kernel) => ptx(kernel.run()?, target),
            Method::DoubleBuffered(kernel, _) => ptx(kernel.run()?, target),
            Method::TmaFed(kernel, _) => ptx(kernel.run()?, target),
        }
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let problem = Problem::of(options)?;
        let method = problem.method_on(options, device)?;
        let operations = Operations::new(device);
        let ready = operations.sgemm_kernel(method, problem.extents)?;
        let (function, launch) = ready.launch_of();
        let resources = Resources::of(function, &launch)?;
        let make = device.clone();
        let prepared = rotating(
            device,
            problem.seed,
            problem.work(),
            move |seed| Set::new(&make, &problem, seed),
            move |stream: &Stream, set: &mut Set| {
                if let Some(before) = &set.before {
                    stream.copy(&mut set.c, before)?;
                }
                let matrices = Matrices { extents: problem.extents, a: &set.a, b: &set.b, c: &mut set.c };
                Ok(operations.sgemm_by(method, stream, matrices, problem.scale)?)
            },
            move |set: &Set| verify(&problem, &set.host, &set.c.to_vec()?),
        )?;
        Ok(with_resources(prepared, resources))
    }

    fn ladder(&self) -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            steps: STEPS,
            defaults: &[],
            measure: Measure::Operations,
            rival: Some("cublas"),
            counted: &[("m", "256"), ("n", "256"), ("k", "64"), ("tile", "128x128")],
        })
    }

    /// cuBLAS multiplies in f32 too: its compute type is `CUBLAS_COMPUTE_32F`, which takes no TF32.
    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        let prepare = || {
            let problem = Problem::of(options)?;
            if problem.scale != Scale::default() {
                return Err("the rival computes A·B alone: time it with --scale plain".into());
            }
            let (m, n, k) = problem.sizes();
            let shape = ProductShape { m, n, k, a: Order::RowMajor, b: Order::RowMajor, batch: 1 };
            let mut first = Set::new(device, &problem, problem.seed)?;
            let stream = device.stream()?;
            let product = CublasProduct::new(&stream, shape, &first.a, &first.b, &mut first.c)?;
            drop(first);
            let make = device.clone();
            rotating(
                device,
                problem.seed,
                problem.work(),
                move |seed| Set::new(&make, &problem, seed),
                move |stream: &Stream, set: &mut Set| {
                    product.launch(stream, &set.a, &set.b, &mut set.c)?;
                    Ok(LaunchCounts::default())
                },
                move |set: &Set| verify(&problem, &set.host, &set.c.to_vec()?),
            )
        };
        (name == "cublas").then(prepare)
    }
}
