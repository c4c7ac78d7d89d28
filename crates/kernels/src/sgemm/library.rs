//! SGEMM for the command line.

use warpwright::runtime::cublas::{CublasProduct, Order, ProductShape};
use warpwright::runtime::{Device, LaunchCounts};

use super::plan::{self, COPIED, FED};
use super::reference::{Problem, Set};
use super::{Method, Scale};
use crate::operations::Operations;
use crate::prepared::{PLANNED_SMS, capability_of, ptx, with_resources};
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Resources, Result};

/// SGEMM for the command line.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("m", 512, "rows of A and C"),
    OptionSpec::number("n", 512, "columns of B and C"),
    OptionSpec::number("k", 256, "columns of A and rows of B"),
    OptionSpec::choice("algorithm", &["best", "double-buffered", "tma"], "how slices of A and B are copied"),
    OptionSpec::choice("tile", &["planned", "128x128", "256x128", "128x256", "64x64"], "tile of C of a CTA"),
    OptionSpec::number("splits", 0, "parts of k that are multiplied apart; 0: as planned"),
    OptionSpec::choice(
        "scale",
        &["plain", "scaled"],
        "C = A·B, or C = 1.5 A·B - 0.5 C, which copies C anew before each launch",
    ),
    OptionSpec::number("seed", 1, "of the inputs"),
];

fn problem(options: &Options) -> Result<Problem> {
    let scale = match options.choice("scale") {
        "plain" => Scale::default(),
        _ => Scale { alpha: 1.5, beta: -0.5 },
    };
    let extents = (options.u32("m")?, options.u32("n")?, options.u32("k")?);
    Ok(Problem { extents, scale, seed: options.number("seed") })
}

/// The kernel that the options choose, on a GPU of that size, with a TMA that reads A and B or without.
fn method(problem: &Problem, options: &Options, sms: u32, tma: bool) -> Result<Method> {
    let (_, n, _) = problem.extents;
    let algorithm = options.choice("algorithm");
    let fed = algorithm == "tma" || algorithm == "best" && tma;
    let configurations = if fed { FED } else { COPIED };
    let ((_, tiles, ctas_per_sm), planned) = match options.choice("tile") {
        "planned" => plan::choose(sms, configurations, problem.extents),
        tile => {
            let found = configurations.iter().find(|(name, ..)| *name == tile);
            (*found.ok_or_else(|| format!("--tile {tile} is no tile of this algorithm"))?, 1)
        }
    };
    let splits = options.u32_or("splits", planned)?;
    Ok(match fed {
        true => Method::TmaFed(plan::tma_fed(tiles, ctas_per_sm), splits),
        false => Method::DoubleBuffered(plan::double_buffered(tiles, ctas_per_sm, n), splits),
    })
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "sgemm"
    }

    fn summary(&self) -> &'static str {
        "C = A·B in f32 without tensor cores"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let problem = problem(options)?;
        let tma = plan::tma_reads(capability_of(target)?, problem.extents);
        match method(&problem, options, PLANNED_SMS, tma)? {
            Method::DoubleBuffered(kernel, _) => ptx(kernel.run()?, target),
            Method::TmaFed(kernel, _) => ptx(kernel.run()?, target),
        }
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let problem = problem(options)?;
        let properties = device.properties();
        let tma = plan::tma_reads(properties.capability, problem.extents);
        let method = method(&problem, options, properties.sm_count, tma)?;
        let operations = Operations::new(device);
        let ready = operations.sgemm_kernel(method, problem.extents)?;
        let (function, launch) = ready.launch_of();
        let resources = Resources::of(function, &launch)?;
        let prepared = problem.prepare(device, move |stream, matrices, scale| {
            Ok(operations.sgemm_by(method, stream, matrices, scale)?)
        })?;
        Ok(with_resources(prepared, resources))
    }

    /// cuBLAS multiplies in f32 too: its compute type is `CUBLAS_COMPUTE_32F`, which takes no TF32.
    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        let prepare = || {
            let problem = problem(options)?;
            if problem.scale != Scale::default() {
                return Err("the rival computes A·B alone: time it with --scale plain".into());
            }
            let (m, n, k) = problem.sizes();
            let shape = ProductShape { m, n, k, a: Order::RowMajor, b: Order::RowMajor, batch: 1 };
            let mut first = Set::new(device, &problem, problem.seed)?;
            let product = CublasProduct::new(&device.stream()?, shape, &first.a, &first.b, &mut first.c)?;
            drop(first);
            problem.prepare(device, move |stream, matrices, _| {
                product.launch(stream, matrices.a, matrices.b, matrices.c)?;
                Ok(LaunchCounts::default())
            })
        };
        (name == "cublas").then(prepare)
    }
}
