//! The ladder of SGEMM for the command line.

use warpwright::runtime::Device;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::prepared::{ptx, with_resources};
use warpwright_kernels::registry::{
    Ladder, LibraryKernel, Measure, OptionSpec, Options, Prepared, Resources, Result,
};
use warpwright_kernels::sgemm::Scale;
use warpwright_kernels::sgemm::plan;
use warpwright_kernels::sgemm::reference::Problem;

use super::Step;
use super::coalesced::Coalesced;
use super::naive::Naive;
use super::shared::SharedBlock;
use super::thread_tile::ThreadTile;
use super::vectorised::Vectorised;
use super::warp_tile::WarpTile;
use crate::product::product;

/// The ladder of SGEMM.
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
    OptionSpec::choice("step", STEPS, "step of the ladder"),
    OptionSpec::choice(
        "tile",
        &["planned", "128x128", "256x128", "128x256", "64x64"],
        "tile of C of a CTA (double-buffered, tma)",
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

fn problem(options: &Options) -> Result<Problem> {
    let scale = match options.choice("scale") {
        "plain" => Scale::default(),
        _ => Scale { alpha: 1.5, beta: -0.5 },
    };
    let extents = (options.u32("m")?, options.u32("n")?, options.u32("k")?);
    Ok(Problem { extents, scale, seed: options.number("seed") })
}

/// The step, unless it is one of the library's kernels.
fn step(options: &Options, (_, n, k): (u32, u32, u32)) -> Option<Step> {
    let widths = (plan::width(k), plan::width(n));
    Some(match options.choice("step") {
        "naive" => Step::Naive,
        "coalesced" => Step::Coalesced,
        "shared" => Step::Shared,
        "column" => Step::ThreadTile(ThreadTile::COLUMN),
        "thread-tile" => Step::ThreadTile(ThreadTile::SQUARE),
        "coalesced-copies" => Step::ThreadTile(ThreadTile::COALESCED),
        "vectorised" => Step::Vectorised(Vectorised { tiles: Vectorised::TILES, widths }),
        "warp-tile" => Step::WarpTile(WarpTile { tiles: WarpTile::TILES, widths }),
        _ => return None,
    })
}

/// The library's kernel for the options.
fn of_library(options: &Options) -> Result<(&'static dyn LibraryKernel, Options)> {
    product("sgemm", options, &[("algorithm", options.choice("step"))])
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "sgemm-ladder"
    }

    fn summary(&self) -> &'static str {
        "C = A·B in f32 without tensor cores, from a thread an element to all that an SM can multiply"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        match step(options, problem(options)?.extents) {
            Some(Step::Naive) => ptx(Naive.run()?, target),
            Some(Step::Coalesced) => ptx(Coalesced.run()?, target),
            Some(Step::Shared) => ptx(SharedBlock.run()?, target),
            Some(Step::ThreadTile(kernel)) => ptx(kernel.run()?, target),
            Some(Step::Vectorised(kernel)) => ptx(kernel.run()?, target),
            Some(Step::WarpTile(kernel)) => ptx(kernel.run()?, target),
            None => {
                let (kernel, options) = of_library(options)?;
                kernel.ptx(target, &options)
            }
        }
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let problem = problem(options)?;
        let Some(step) = step(options, problem.extents) else {
            let (kernel, options) = of_library(options)?;
            return kernel.prepare(device, &options);
        };
        let operations = Operations::new(device);
        let kernel = step.kernel(&operations)?;
        let resources = Resources::of(kernel.function(), &kernel.shape(1))?;
        let prepared = problem.prepare(device, move |stream, matrices, scale| {
            Ok(step.launch(&operations, stream, matrices, scale)?)
        })?;
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

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        match product("sgemm", options, &[]) {
            Ok((kernel, options)) => kernel.rival(name, device, &options),
            Err(error) => Some(Err(error)),
        }
    }
}
