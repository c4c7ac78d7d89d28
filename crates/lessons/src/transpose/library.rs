//! The ladder of transposes for the command line.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device};
use warpwright_kernels::number::{HostNumber, Values};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::prepared::{ptx, with_resources};
use warpwright_kernels::registry::{
    Ladder, LibraryKernel, Measure, OptionSpec, Options, Prepared, Resources, Result,
};
use warpwright_kernels::rotation::rotating;
use warpwright_kernels::transpose::reference::{verify, work};
use warpwright_kernels::transpose::{BlockTranspose, tile};
use warpwright_kernels::with_type;

use super::tile::{Step, TileLesson};
use crate::product::product;

/// The ladder of transposes.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("m", 1000, "rows of A"),
    OptionSpec::number("n", 776, "columns of A"),
    OptionSpec::choice("type", &["f32", "f16", "bf16", "f64", "u8"], "of the elements"),
    OptionSpec::choice(
        "step",
        &["naive", "shared", "padded", "swizzled", "blocks"],
        "how elements get from rows to columns",
    ),
    OptionSpec::extent("side", BlockTranspose::FASTEST.side as u64, "blocks along a side of a tile (blocks)"),
    OptionSpec::extent("blocks", BlockTranspose::FASTEST.blocks as u64, "blocks of one thread (blocks)"),
    OptionSpec::extent(
        "raster",
        BlockTranspose::FASTEST.raster as u64,
        "rows of tiles walked together (blocks)",
    ),
    OptionSpec::number("seed", 1, "of the input"),
];

/// The step, unless it is one of the library's kernels.
fn lesson(options: &Options) -> Option<TileLesson> {
    let step = match options.choice("step") {
        "naive" => Step::Naive,
        "shared" => Step::Shared,
        "padded" => Step::Padded,
        _ => return None,
    };
    Some(TileLesson { step })
}

/// The library's kernel for the options.
fn of_library(options: &Options) -> Result<(&'static dyn LibraryKernel, Options)> {
    product("transpose", options, &[("way", options.choice("step"))])
}

fn prepare<T: HostNumber>(
    device: &Device,
    options: &Options,
    lesson: TileLesson,
) -> Result<Box<dyn Prepared>> {
    let (m, n) = (options.u32("m")?, options.u32("n")?);
    let elements = m as usize * n as usize;
    let operations = Operations::new(device);
    let kernel = operations.kernel(lesson, TileLesson::run::<T>)?;
    let resources = Resources::of(kernel.function(), &kernel.shape(1))?;
    let grid = operations.grid("transpose", tile::grid(m, n))?;
    let prepared = rotating(
        device,
        options.number("seed"),
        work::<T>(elements),
        |seed| {
            let a: Vec<T> = Values::Special.numbers(seed, elements);
            Ok((device.buffer_from(&a)?, device.uninitialized::<T>(elements)?))
        },
        move |stream, (a, b): &mut (Buffer<T>, Buffer<T>)| match grid {
            0 => Ok(Default::default()),
            grid => Ok(kernel.launch(stream, grid, (&*a, b, m, n))?),
        },
        move |(a, b)| verify(&a.to_vec()?, (m, n), &b.to_vec()?),
    )?;
    Ok(with_resources(prepared, resources))
}

/// Calls `$body` with the type that the options name.
macro_rules! typed {
    ($options:expr, $ty:ident => $body:expr) => {
        with_type!(
            $options.choice("type"),
            ["f32" f32, "f16" f16, "bf16" bf16, "f64" f64, "u8" u8],
            $ty => $body
        )
    };
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "transpose-ladder"
    }

    fn summary(&self) -> &'static str {
        "B = Aᵀ: naive, through shared memory, padded, swizzled, and in vectors of 16 bytes"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let Some(lesson) = lesson(options) else {
            let (kernel, options) = of_library(options)?;
            return kernel.ptx(target, &options);
        };
        typed!(options, T => ptx(lesson.run::<T>()?, target))
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let Some(lesson) = lesson(options) else {
            let (kernel, options) = of_library(options)?;
            return kernel.prepare(device, &options);
        };
        typed!(options, T => prepare::<T>(device, options, lesson))
    }

    fn ladder(&self) -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            steps: &["naive", "shared", "padded", "swizzled", "blocks"],
            defaults: &[],
            measure: Measure::Bytes,
            rival: Some("copy"),
            counted: &[("m", "256"), ("n", "256")],
        })
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        match product("transpose", options, &[]) {
            Ok((kernel, options)) => kernel.rival(name, device, &options),
            Err(error) => Some(Err(error)),
        }
    }
}
