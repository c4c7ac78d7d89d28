//! Reductions for the command line: inputs, references, and the tolerance they are held to.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::arch::Capability;
use warpwright::runtime::Device;

use super::reference::{check_extreme, check_index, check_sum};
use super::single_pass::{self, SinglePass};
use crate::monoid::{ArgMax, ArgMin, Max, Min, Monoid, Sum};
use crate::operations::Operations;
use crate::prepared::{Ready, capability_of, ptx, with_resources};
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Resources, Result, compare};
use crate::sample::{ELEMENT_TYPES, Sampled, each_read_once, with_element_type};
use crate::{copy, registry};

/// Reductions to one value.
pub(crate) struct ReduceLibrary;

/// Reductions to an index.
pub(crate) struct ArgMaxLibrary;

const LENGTH: OptionSpec = OptionSpec::number("length", 1_000_003, "elements");
const TYPE: OptionSpec = OptionSpec::choice("type", ELEMENT_TYPES, "type of the elements");
const CTAS_PER_SM: OptionSpec =
    OptionSpec::number("ctas-per-sm", 0, "CTAs of the one launch for each SM, 0 for as many as fit");
const UNROLL: OptionSpec =
    OptionSpec::number("unroll", 0, "vectors of a thread in a tile of the one launch, 0 for what is fastest");
const STAGES: OptionSpec = OptionSpec::number(
    "stages",
    0,
    "tiles in shared memory of the one launch on sm_90, 0 for what is fastest",
);
const SEED: OptionSpec = OptionSpec::number("seed", 1, "of the input");

const REDUCE_OPTIONS: &[OptionSpec] = &[
    LENGTH,
    TYPE,
    OptionSpec::choice("by", &["sum", "min", "max"], "what combines two elements"),
    CTAS_PER_SM,
    UNROLL,
    STAGES,
    SEED,
];

const ARG_MAX_OPTIONS: &[OptionSpec] = &[
    LENGTH,
    TYPE,
    OptionSpec::choice("of", &["max", "min"], "which element is looked for"),
    CTAS_PER_SM,
    UNROLL,
    STAGES,
    SEED,
];

/// The reduction in one launch that the options ask for.
fn single_pass_of<M>(monoid: M, options: &Options, capability: &Capability) -> Result<SinglePass<M>> {
    let fastest = SinglePass::new(monoid, capability);
    let stages = options.u32_or("stages", fastest.stages)?;
    if stages > 0 && fastest.stages == 0 {
        return Err("tiles come to shared memory by bulk copies, which are of sm_90".into());
    }
    let ctas_per_sm = options.u32_or("ctas-per-sm", fastest.ctas_per_sm)?;
    Ok(SinglePass { ctas_per_sm, unroll: options.u32_or("unroll", fastest.unroll)?, stages, ..fastest })
}

/// Prepares the reduction of random elements, whose result `check` compares with what it should be.
fn prepare<T: Sampled, M: Monoid<T>>(
    device: &Device,
    options: &Options,
    monoid: M,
    check: impl Fn(M::Output, &[T]) -> registry::Element + 'static,
) -> Result<Box<dyn Prepared>> {
    let input = T::draw_many(options.number("seed"), options.extent("length"));
    let input_there = device.buffer_from(&input)?;
    let output = Rc::new(RefCell::new(device.uninitialized::<M::Output>(1)?));
    let operations = Operations::new(device);
    let single_pass = single_pass_of(monoid, options, device.properties().capability)?;
    let kernel = operations.kernel(single_pass, SinglePass::<M>::run::<T>)?;
    let resources = Resources::of(kernel.function(), &kernel.shape(1))?;
    let result = Rc::clone(&output);
    let ready = Ready {
        launch: move |stream: &_| {
            Ok(single_pass::launch(&operations, stream, &input_there, &mut output.borrow_mut(), single_pass)?)
        },
        verify: move || {
            let found = result.borrow().to_vec()?[0];
            Ok(compare([check(found, &input)], |index| vec![index as usize])?)
        },
        work: each_read_once::<T>(options),
    };
    Ok(with_resources(Box::new(ready), resources))
}

impl LibraryKernel for ReduceLibrary {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn summary(&self) -> &'static str {
        "all elements combined into one: sum, smallest or largest, in one launch"
    }

    fn options(&self) -> &'static [OptionSpec] {
        REDUCE_OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let capability = capability_of(target)?;
        with_element_type!(options.choice("type"), T => match options.choice("by") {
            "sum" => ptx(single_pass_of(Sum, options, capability)?.run::<T>()?, target),
            "min" => ptx(single_pass_of(Min, options, capability)?.run::<T>()?, target),
            _ => ptx(single_pass_of(Max, options, capability)?.run::<T>()?, target),
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_element_type!(options.choice("type"), T => match options.choice("by") {
            "sum" => {
                let (operations, length) = (Operations::new(device), options.number("length"));
                let reduction = single_pass_of(Sum, options, device.properties().capability)?;
                let grid = single_pass::grid_of::<T, Sum>(&operations, &reduction, length)?;
                let steps = reduction.rounding_steps::<T>(length, grid);
                prepare::<T, _>(device, options, Sum, move |found, input| check_sum::<T>(found, input, steps))
            }
            "min" => prepare::<T, _>(device, options, Min, |found, input| {
                check_extreme::<T>(found, input, |a, b| a < b, <T as crate::monoid::Searchable>::MOST)
            }),
            _ => prepare::<T, _>(device, options, Max, |found, input| {
                check_extreme::<T>(found, input, |a, b| a > b, <T as crate::monoid::Searchable>::LEAST)
            }),
        })
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        copy::rival(name, device, || {
            Ok(with_element_type!(options.choice("type"), T => each_read_once::<T>(options)))
        })
    }
}

impl LibraryKernel for ArgMaxLibrary {
    fn name(&self) -> &'static str {
        "argmax"
    }

    fn summary(&self) -> &'static str {
        "the index of the first largest (or smallest) element, in one launch"
    }

    fn options(&self) -> &'static [OptionSpec] {
        ARG_MAX_OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let capability = capability_of(target)?;
        with_element_type!(options.choice("type"), T => match options.choice("of") {
            "max" => ptx(single_pass_of(ArgMax, options, capability)?.run::<T>()?, target),
            _ => ptx(single_pass_of(ArgMin, options, capability)?.run::<T>()?, target),
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_element_type!(options.choice("type"), T => match options.choice("of") {
            "max" => prepare::<T, _>(device, options, ArgMax, |found, input| {
                check_index::<T>(found, input, |a, b| a > b)
            }),
            _ => prepare::<T, _>(device, options, ArgMin, |found, input| {
                check_index::<T>(found, input, |a, b| a < b)
            }),
        })
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        copy::rival(name, device, || {
            Ok(with_element_type!(options.choice("type"), T => each_read_once::<T>(options)))
        })
    }
}
