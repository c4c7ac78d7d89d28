//! The ladder of reductions for the command line: sums of f32.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::runtime::Device;
use warpwright_kernels::monoid::Sum;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::prepared::{Ready, ptx, with_resources};
use warpwright_kernels::reduce::reference::check_sum;
use warpwright_kernels::registry::{
    Ladder, LibraryKernel, Measure, OptionSpec, Options, Prepared, Resources, Result, compare,
};
use warpwright_kernels::sample::{Sampled, each_read_once};

use super::stepwise::{Step, Stepwise};
use crate::product::product;

/// The ladder of reductions.
pub(crate) struct Library;

const STEPS: &[&str] = &["interleaved", "sequential", "shuffles", "grid-stride", "single-pass"];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("length", 1_000_003, "elements"),
    OptionSpec::choice("step", STEPS, "step of the ladder"),
    OptionSpec::choice("threads", &["256", "512", "1024"], "threads of a CTA, of the steps before the last"),
    OptionSpec::number("seed", 1, "of the input"),
];

/// The step, unless it is the library's kernel.
fn stepwise(options: &Options) -> Result<Option<Stepwise<Sum>>> {
    let step = match options.choice("step") {
        "interleaved" => Step::Interleaved,
        "sequential" => Step::Sequential,
        "shuffles" => Step::Shuffles,
        "grid-stride" => Step::GridStride,
        _ => return Ok(None),
    };
    Ok(Some(Stepwise { monoid: Sum, step, threads: options.choice("threads").parse()? }))
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "reduce-ladder"
    }

    fn summary(&self) -> &'static str {
        "the sum of all elements, from a tree in shared memory to one launch at the speed of memory"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        if let Some(reduction) = stepwise(options)? {
            return ptx(reduction.run::<f32>()?, target);
        }
        let (kernel, options) = product("reduce", options, &[])?;
        kernel.ptx(target, &options)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let Some(reduction) = stepwise(options)? else {
            let (kernel, options) = product("reduce", options, &[])?;
            return kernel.prepare(device, &options);
        };
        let input = f32::draw_many(options.number("seed"), options.extent("length"));
        let input_there = device.buffer_from(&input)?;
        let output = Rc::new(RefCell::new(device.uninitialized::<f32>(1)?));
        let operations = Operations::new(device);
        let kernel = operations.kernel(reduction, Stepwise::<Sum>::run::<f32>)?;
        let resources = Resources::of(kernel.function(), &kernel.shape(1))?;
        let steps = reduction.rounding_steps::<f32>(&operations, input.len() as u64)?;
        let result = Rc::clone(&output);
        let ready = Ready {
            launch: move |stream: &_| {
                Ok(reduction.reduce(&operations, stream, &input_there, &mut output.borrow_mut())?)
            },
            verify: move || {
                let found = check_sum(result.borrow().to_vec()?[0], &input, steps);
                Ok(compare([found], |index| vec![index as usize])?)
            },
            work: each_read_once::<f32>(options),
        };
        Ok(with_resources(Box::new(ready), resources))
    }

    fn ladder(&self) -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            steps: STEPS,
            defaults: &[],
            measure: Measure::Bytes,
            rival: Some("copy"),
            counted: &[("length", "65536")],
        })
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        match product("reduce", options, &[]) {
            Ok((kernel, options)) => kernel.rival(name, device, &options),
            Err(error) => Some(Err(error)),
        }
    }
}
