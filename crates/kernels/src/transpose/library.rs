//! The transposes for the command line.

use warpwright::runtime::{Buffer, Device};

use super::reference::{verify, work};
use super::{BlockTranspose, Method, TileTranspose};
use crate::copy;
use crate::number::{HostNumber, Values, with_type};
use crate::operations::Operations;
use crate::prepared::{ptx, with_resources};
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Resources, Result};
use crate::rotation::rotating;
use warpwright::prelude::*;

/// The transposes for the command line.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("m", 1000, "rows of A"),
    OptionSpec::number("n", 776, "columns of A"),
    OptionSpec::choice("type", &["f32", "f16", "bf16", "f64", "u8"], "of the elements"),
    OptionSpec::choice("way", &["best", "swizzled", "blocks"], "how elements get from rows to columns"),
    OptionSpec::extent("side", BlockTranspose::FASTEST.side as u64, "blocks along a side of a tile (blocks)"),
    OptionSpec::extent("blocks", BlockTranspose::FASTEST.blocks as u64, "blocks of one thread (blocks)"),
    OptionSpec::extent(
        "raster",
        BlockTranspose::FASTEST.raster as u64,
        "rows of tiles walked together (blocks)",
    ),
    OptionSpec::number("seed", 1, "of the input"),
];

fn shape(options: &Options) -> Result<(u32, u32)> {
    Ok((options.u32("m")?, options.u32("n")?))
}

fn method<T: HostNumber>(options: &Options) -> Result<Method> {
    Ok(match options.choice("way") {
        "swizzled" => Method::Tile(TileTranspose),
        "blocks" => Method::Blocks(BlockTranspose {
            side: options.u32("side")?,
            blocks: options.u32("blocks")?,
            raster: options.u32("raster")?,
        }),
        _ => Method::fastest::<T>(shape(options)?),
    })
}

fn prepare<T: HostNumber>(device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
    let (m, n) = shape(options)?;
    let elements = m as usize * n as usize;
    let method = method::<T>(options)?;
    let operations = Operations::new(device);
    let resources = resources::<T>(&operations, method)?;
    let prepared = rotating(
        device,
        options.number("seed"),
        work::<T>(elements),
        |seed| {
            let a: Vec<T> = Values::Special.numbers(seed, elements);
            Ok((device.buffer_from(&a)?, device.uninitialized::<T>(elements)?))
        },
        move |stream, (a, b): &mut (Buffer<T>, Buffer<T>)| {
            Ok(operations.transpose_by(method, stream, a, (m, n), b)?)
        },
        move |(a, b)| verify(&a.to_vec()?, (m, n), &b.to_vec()?),
    )?;
    Ok(with_resources(prepared, resources))
}

/// What a method's kernel takes of an SM.
fn resources<T: HostNumber>(operations: &Operations, method: Method) -> Result<Resources> {
    match method {
        Method::Tile(kernel) => {
            let compiled = operations.kernel(kernel, TileTranspose::run::<T>)?;
            Resources::of(compiled.function(), &compiled.shape(1))
        }
        Method::Blocks(kernel) => {
            let compiled = operations.kernel(kernel, BlockTranspose::run::<T>)?;
            Resources::of(compiled.function(), &compiled.shape(1))
        }
    }
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
        "transpose"
    }

    fn summary(&self) -> &'static str {
        "B = Aᵀ: in vectors of 16 bytes, or through a swizzled tile"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        typed!(options, T => match method::<T>(options)? {
            Method::Tile(kernel) => ptx(kernel.run::<T>()?, target),
            Method::Blocks(kernel) => ptx(kernel.run::<T>()?, target),
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        typed!(options, T => prepare::<T>(device, options))
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        copy::rival(name, device, || {
            let (m, n) = shape(options)?;
            typed!(options, T => Ok(work::<T>(m as usize * n as usize)))
        })
    }
}
