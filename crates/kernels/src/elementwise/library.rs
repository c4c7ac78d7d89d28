//! The elementwise kernels for the command line.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device};

use super::{Copy, Map, Walk, Zip};
use crate::copy;
use crate::number::{HostNumber, Values, with_type};
use crate::prepared::{ptx, with_resources};
use crate::registry::{
    self, Ladder, LibraryKernel, Measure, OptionSpec, Options, Prepared, Resources, Result, Verified, Work,
    compare_at_once,
};
use crate::rotation::rotating;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("length", 1 << 20, "elements"),
    OptionSpec::choice("type", &["f32", "f16", "bf16", "f64", "u8", "i8", "u32", "i32"], "of the elements"),
    OptionSpec::choice("bits", &["128", "64", "32", "16", "8"], "moved by one instruction of a thread"),
    OptionSpec::number("threads", 0, "of a CTA, 0 for what is fastest"),
    OptionSpec::number("steps", 0, "vectors that a thread has on their way at once, 0 for what is fastest"),
    OptionSpec::choice("values", Values::WORDS, "what the inputs are like"),
    OptionSpec::number("seed", 1, "of the inputs"),
];

/// Calls `$body` with the type that the options name.
macro_rules! typed {
    ($options:expr, $ty:ident => $body:expr) => {
        with_type!(
            $options.choice("type"),
            ["f32" f32, "f16" f16, "bf16" bf16, "f64" f64, "u8" u8, "i8" i8, "u32" u32, "i32" i32],
            $ty => $body
        )
    };
}

impl Walk {
    /// This walk, with what the options say.
    fn with(self, options: &Options) -> Result<Self> {
        Ok(Self {
            threads: options.u32_or("threads", self.threads)?,
            bits: options.choice("bits").parse()?,
            steps: options.u32_or("steps", self.steps)?,
        })
    }
}

/// What a launch moves.
fn work<T>(length: u64, buffers: u64) -> Work {
    let elements = length as f64;
    Work {
        operations: (buffers - 2) as f64 * elements,
        bytes: elements * (buffers * size_of::<T>() as u64) as f64,
    }
}

/// The driver's copy of as many bytes, for that name.
fn rival(name: &str, device: &Device, options: &Options, buffers: u64) -> Option<Result<Box<dyn Prepared>>> {
    copy::rival(name, device, || typed!(options, T => Ok(work::<T>(options.number("length"), buffers))))
}

/// Every element exactly as the reference says of its place.
fn verify<T: HostNumber>(found: &Buffer<T>, expected: impl Fn(usize) -> f64 + Sync) -> Result<Verified> {
    let found = found.to_vec()?;
    Ok(compare_at_once(found.len(), |place| registry::Element {
        found: found[place].value(),
        expected: expected(place),
        tolerance: 0.0,
    })?)
}

/// What [`MapLibrary`] does to each element: its square. For integers the product wraps.
fn square<T: Number>(x: Reg<T>) -> Reg<T>
where
    Reg<T>: std::ops::Mul<Output = Reg<T>>,
{
    x * x
}

fn sum<T: Number>(a: Reg<T>, b: Reg<T>) -> Reg<T>
where
    Reg<T>: std::ops::Add<Output = Reg<T>>,
{
    a + b
}

/// An elementwise kernel with one input, for the command line.
fn prepare_unary<T: HostNumber, K: 'static>(
    device: &Device,
    options: &Options,
    kernel: Kernel<K>,
    reference: impl Fn(T) -> f64 + Sync + 'static,
) -> Result<Box<dyn Prepared>> {
    let length = options.number("length");
    let walk = Walk::FASTEST.with(options)?;
    let grid = walk.grid::<T>(length)?;
    let compiled = device.compile(&kernel)?;
    let resources = Resources::of(compiled.function(), &compiled.shape(grid))?;
    let values = Values::named(options.choice("values"));
    let make = |seed| {
        let from: Vec<T> = values.numbers(seed, usize::try_from(length)?);
        Ok((device.buffer_from(&from)?, device.uninitialized::<T>(from.len())?))
    };
    let prepared = rotating(
        device,
        options.number("seed"),
        work::<T>(length, 2),
        make,
        move |stream, (from, to): &mut (Buffer<T>, Buffer<T>)| {
            Ok(if length == 0 {
                Default::default()
            } else {
                compiled.function().launch(stream, compiled.shape(grid), (&*from, to, length))?
            })
        },
        move |(from, to)| {
            let from = from.to_vec()?;
            verify(to, |place| reference(from[place]))
        },
    )?;
    Ok(with_resources(prepared, resources))
}

/// [`Copy`] for the command line.
pub(crate) struct CopyLibrary;

impl LibraryKernel for CopyLibrary {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn summary(&self) -> &'static str {
        "to = from, in vectors of 8 to 128 bits"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let walk = Walk::FASTEST.with(options)?;
        typed!(options, T => ptx(Copy { walk }.run::<T>()?, target))
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let walk = Walk::FASTEST.with(options)?;
        typed!(options, T => prepare_unary(device, options, Copy { walk }.run::<T>()?, T::value))
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        rival(name, device, options, 2)
    }

    fn ladder(&self) -> Option<Ladder> {
        Some(Ladder {
            option: "bits",
            steps: &["8", "16", "32", "64", "128"],
            // An access is no narrower than an element.
            defaults: &[("type", "u8")],
            measure: Measure::Bytes,
            rival: Some("copy"),
            counted: &[("length", "65536")],
        })
    }
}

/// [`Map`] for the command line.
pub(crate) struct MapLibrary;

impl LibraryKernel for MapLibrary {
    fn name(&self) -> &'static str {
        "map"
    }

    fn summary(&self) -> &'static str {
        "to = from * from, elementwise: the kernel takes any Rust closure over device values"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let walk = Walk::FASTEST.with(options)?;
        typed!(options, T => ptx(Map { walk, function: square::<T> }.run::<T>()?, target))
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let walk = Walk::FASTEST.with(options)?;
        typed!(options, T => {
            let reference = |x: T| x.product(x).value();
            prepare_unary(device, options, Map { walk, function: square::<T> }.run::<T>()?, reference)
        })
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        rival(name, device, options, 2)
    }
}

/// [`Zip`] for the command line.
pub(crate) struct AddLibrary;

impl AddLibrary {
    fn prepare<T: HostNumber + Number>(device: &Device, options: &Options) -> Result<Box<dyn Prepared>>
    where
        Reg<T>: std::ops::Add<Output = Reg<T>>,
    {
        let (length, walk) = (options.number("length"), Walk::FASTEST.with(options)?);
        let grid = walk.grid::<T>(length)?;
        let compiled = device.compile(&Zip { walk, function: sum::<T> }.run::<T>()?)?;
        let values = Values::named(options.choice("values"));
        let make = |seed: u64| {
            let count = usize::try_from(length)?;
            let inputs: [Vec<T>; 2] = [values.numbers(seed, count), values.numbers(!seed, count)];
            let [a, b] = inputs.map(|input| device.buffer_from(&input));
            Ok((a?, b?, device.uninitialized::<T>(count)?))
        };
        rotating(
            device,
            options.number("seed"),
            work::<T>(length, 3),
            make,
            move |stream, (a, b, to): &mut (Buffer<T>, Buffer<T>, Buffer<T>)| {
                Ok(if length == 0 {
                    Default::default()
                } else {
                    let launch = compiled.shape(grid);
                    compiled.function().launch(stream, launch, (&*a, &*b, to, length))?
                })
            },
            move |(a, b, to)| {
                let (a, b) = (a.to_vec()?, b.to_vec()?);
                verify(to, |place| a[place].sum(b[place]).value())
            },
        )
    }
}

impl LibraryKernel for AddLibrary {
    fn name(&self) -> &'static str {
        "add"
    }

    fn summary(&self) -> &'static str {
        "to = a + b, elementwise, in vectors of 8 to 128 bits"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let walk = Walk::FASTEST.with(options)?;
        typed!(options, T => ptx(Zip { walk, function: sum::<T> }.run::<T>()?, target))
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        typed!(options, T => Self::prepare::<T>(device, options))
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        rival(name, device, options, 3)
    }
}
