//! The elementwise kernels as workloads.

use std::ops;

use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::Buffer;
use warpwright_harness::{
    HostNumber, Ladder, Measure, Options, Prepared, Refused, Result, Setup, Values, Work, Workload,
    data_types, exactly,
};

use warpwright_kernels::elementwise;
use warpwright_kernels::elementwise::{Copy, Map, Walk, Zip};

data_types! {
    /// Types of elements.
    pub(crate) enum ElementType by with_element { f32, f16, bf16, f64, u8, i8, u32, i32 }
}

/// Options of every elementwise kernel.
#[derive(Clone, Debug, Options)]
pub(crate) struct Elementwise {
    /// Number of elements.
    #[option(default = 1 << 20)]
    length: u64,
    /// Data type of the elements.
    #[option(name = "type")]
    element: ElementType,
    /// Bits that one instruction of a thread moves: 8, 16, 32, 64 or 128.
    #[option(default = 128, min = 8, max = 128, search = [128, 64, 32, 16, 8])]
    bits: u32,
    /// Threads per CTA.
    #[option(min = 1, max = 1024, search = [128, 256, 512, 1024])]
    threads: Option<u32>,
    /// Vectors in flight per thread.
    #[option(min = 1, max = 64, search = [1, 2, 4, 8])]
    steps: Option<u32>,
    /// Distribution of the inputs.
    values: Values,
}

impl Elementwise {
    fn walk(&self) -> Result<Walk> {
        let Walk { threads, steps, .. } = Walk::FASTEST;
        let walk = Walk {
            threads: self.threads.unwrap_or(threads),
            bits: self.bits,
            steps: self.steps.unwrap_or(steps),
        };
        match walk.bits.is_power_of_two() && walk.threads > 0 && walk.steps > 0 {
            true => Ok(walk),
            false => Err(Refused::new(format!(
                "a vector has 8, 16, 32, 64 or 128 bits, and threads and steps are at least 1, not {walk:?}"
            ))
            .into()),
        }
    }

    /// The work of a kernel with `inputs` inputs of type `T`.
    fn work_of<T>(&self, inputs: u32) -> Work {
        let elements = self.length as f64;
        let bytes = elements * f64::from(inputs + 1) * size_of::<T>() as f64;
        Work { operations: f64::from(inputs - 1) * elements, bytes }
    }

    fn work(&self, inputs: u32) -> Work {
        with_element!(self.element, T => self.work_of::<T>(inputs))
    }

    /// A kernel with one input.
    fn unary<T: HostNumber>(
        &self,
        setup: &Setup,
        kernel: Kernel<(In<T>, Out<T>, u64)>,
        reference: impl Fn(T) -> f64 + Sync + 'static,
    ) -> Result<Box<dyn Prepared>> {
        let (walk, length) = (self.walk()?, self.length);
        let grid = elementwise::grid::<T>(walk, length)?;
        let compiled = setup.device().compile(&kernel)?;
        let buffers = setup.buffers(self.work_of::<T>(1), |seed| {
            let count = length as usize;
            Ok((setup.values::<T>(self.values, seed, count)?, setup.output::<T>(count)?))
        })?;
        Ok(buffers
            .launch(move |stream, (from, to)| match length {
                0 => Ok(Default::default()),
                _ => Ok(compiled.launch(stream, grid, (from, to, length))?),
            })
            .verify(move |(from, to)| {
                let from = from.to_vec()?;
                exactly(&to.to_vec()?, |index| reference(from[index]))
            }))
    }

    /// The kernel that adds two inputs.
    fn sum<T: HostNumber + Number>(&self, setup: &Setup) -> Result<Box<dyn Prepared>>
    where
        Reg<T>: ops::Add<Output = Reg<T>>,
    {
        let (walk, length) = (self.walk()?, self.length);
        let grid = elementwise::grid::<T>(walk, length)?;
        let compiled = setup.device().compile(&Zip { walk, function: sum::<T> }.run::<T>()?)?;
        let buffers = setup.buffers(self.work_of::<T>(2), |seed| {
            let count = length as usize;
            let input = |seed| setup.values::<T>(self.values, seed, count);
            Ok((input(seed)?, input(!seed)?, setup.output::<T>(count)?))
        })?;
        Ok(buffers
            .launch(move |stream, (a, b, to): &mut (Buffer<T>, Buffer<T>, Buffer<T>)| match length {
                0 => Ok(Default::default()),
                _ => Ok(compiled.launch(stream, grid, (a, b, to, length))?),
            })
            .verify(move |(a, b, to)| {
                let (a, b) = (a.to_vec()?, b.to_vec()?);
                exactly(&to.to_vec()?, |index| a[index].sum(b[index]).exact())
            }))
    }
}

/// The square; for integers the product wraps.
fn square<T: Number>(x: Reg<T>) -> Reg<T>
where
    Reg<T>: ops::Mul<Output = Reg<T>>,
{
    x * x
}

fn sum<T: Number>(a: Reg<T>, b: Reg<T>) -> Reg<T>
where
    Reg<T>: ops::Add<Output = Reg<T>>,
{
    a + b
}

/// Copies elements in vectors of 8 to 128 bits.
#[derive(Clone, Debug, Options)]
pub(crate) struct CopyWorkload {
    /// Shared options.
    #[option(flatten)]
    elementwise: Elementwise,
}

impl Workload for CopyWorkload {
    const NAME: &'static str = "copy";

    fn work(&self) -> Work {
        self.elementwise.work(1)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let walk = self.elementwise.walk()?;
        with_element!(self.elementwise.element, T => {
            self.elementwise.unary(setup, Copy { walk }.run::<T>()?, T::exact)
        })
    }

    fn ladder() -> Option<Ladder> {
        Some(Ladder {
            option: "bits",
            steps: vec!["8", "16", "32", "64", "128"],
            // An access is no narrower than an element.
            defaults: &[("type", "u8")],
            measure: Measure::Bytes,
            baseline: Some("copy"),
            counted_on: "emu:h200",
            counted: &[("length", "65536")],
        })
    }
}

/// Squares each element: the kernel applies any Rust closure over device values.
#[derive(Clone, Debug, Options)]
pub(crate) struct MapWorkload {
    /// Shared options.
    #[option(flatten)]
    elementwise: Elementwise,
}

impl Workload for MapWorkload {
    const NAME: &'static str = "map";

    fn work(&self) -> Work {
        self.elementwise.work(1)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let walk = self.elementwise.walk()?;
        with_element!(self.elementwise.element, T => {
            self.elementwise.unary(setup, Map { walk, function: square::<T> }.run::<T>()?, |x: T| x.product(x).exact())
        })
    }
}

/// Adds two vectors elementwise.
#[derive(Clone, Debug, Options)]
pub(crate) struct AddWorkload {
    /// Shared options.
    #[option(flatten)]
    elementwise: Elementwise,
}

impl Workload for AddWorkload {
    const NAME: &'static str = "add";

    fn work(&self) -> Work {
        self.elementwise.work(2)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_element!(self.elementwise.element, T => self.elementwise.sum::<T>(setup))
    }
}
