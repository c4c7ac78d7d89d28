//! Selections for the command line: inputs of which a known part is wanted, and the reference.

use std::cell::RefCell;
use std::rc::Rc;

use rayon::prelude::*;
use warpwright::lang::comparison::Equatable;
use warpwright::prelude::*;
use warpwright::runtime::Device;

use super::single_pass::{Select, Want};
use super::{Predicate, Unused};
use crate::copy;
use crate::operations::Operations;
use crate::prepared::{Ready, capability_of, ptx};
use crate::reference::Random;
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result, Work, compare};
use crate::sample::{ELEMENT_TYPES, Sampled, with_element_type};

/// Selections.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("length", 1_000_003, "elements"),
    OptionSpec::choice("type", ELEMENT_TYPES, "type of the elements"),
    OptionSpec::choice("by", &["value", "flags", "change"], "what decides whether an element is wanted"),
    OptionSpec::number("percent", 50, "how many elements are wanted"),
    OptionSpec::number("seed", 1, "of the input"),
];

/// Wants elements below a bound: so many percent of those that are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Lowest {
    percent: u32,
}

impl<T: Sampled> Predicate<T> for Lowest {
    fn wants(&self, element: Reg<T>) -> Reg<bool> {
        element.lt(T::quantile(f64::from(self.percent) / 100.0))
    }
}

fn percent(options: &Options) -> Result<u32> {
    let percent = options.number("percent");
    if percent > 100 {
        return Err(format!("--percent {percent}: no more than 100 of 100 elements can be wanted").into());
    }
    Ok(percent as u32)
}

/// An input, its flags, and the elements that are wanted.
struct Problem<T> {
    input: Vec<T>,
    flags: Vec<u8>,
    wanted: Vec<T>,
}

impl<T: Sampled> Problem<T> {
    fn new(options: &Options) -> Result<Self> {
        let (seed, length, percent) = (options.number("seed"), options.extent("length"), percent(options)?);
        let mut input = T::draw_many(seed, length);
        let mut random = Random::new(!seed);
        let mut is_chosen = || random.below(100) < u64::from(percent);
        let mut flags = Vec::new();
        let wanted = match options.choice("by") {
            "value" => {
                let bound = T::quantile(f64::from(percent) / 100.0).exact();
                input.par_iter().copied().filter(|element| element.exact() < bound).collect()
            }
            "flags" => {
                flags = input.iter().map(|_| u8::from(is_chosen())).collect();
                input
                    .iter()
                    .zip(&flags)
                    .filter(|(_, flag)| **flag != 0)
                    .map(|(element, _)| *element)
                    .collect()
            }
            _ => {
                for place in 1..length {
                    if !is_chosen() {
                        input[place] = input[place - 1];
                    }
                }
                let mut wanted = input.clone();
                wanted.dedup_by(|a, b| a.exact() == b.exact());
                wanted
            }
        };
        Ok(Self { input, flags, wanted })
    }

    /// Each element and flag read once, each wanted element written once.
    fn work(&self) -> Work {
        let (read, written) = (self.input.len() as f64, self.wanted.len() as f64);
        let bytes = (read + written) * f64::from(T::BYTES) + self.flags.len() as f64;
        Work { operations: read, bytes }
    }
}

fn prepare<T: Sampled + Equatable>(device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
    let (problem, percent) = (Problem::<T>::new(options)?, percent(options)?);
    let input = device.buffer_from(&problem.input)?;
    let flags = device.buffer_from(&problem.flags)?;
    let output = Rc::new(RefCell::new(device.uninitialized::<T>(input.len())?));
    let count = Rc::new(RefCell::new(device.uninitialized::<u64>(1)?));
    let operations = Operations::new(device);
    let (by, work) = (options.choice("by"), problem.work());
    let results = (Rc::clone(&output), Rc::clone(&count));
    Ok(Box::new(Ready {
        launch: move |stream: &_| {
            let (mut output, mut count) = (output.borrow_mut(), count.borrow_mut());
            Ok(match by {
                "value" => {
                    operations.select_if(stream, &input, &mut output, &mut count, Lowest { percent })?
                }
                "flags" => operations.select_flagged(stream, &input, &flags, &mut output, &mut count)?,
                _ => operations.unique(stream, &input, &mut output, &mut count)?,
            })
        },
        verify: move || {
            let (output, count) = &results;
            let wanted = &problem.wanted;
            let found = count.borrow().to_vec()?[0];
            if found != wanted.len() as u64 {
                return Err(format!("{found} elements are selected where {} are wanted", wanted.len()).into());
            }
            let found = output.borrow().read(0..wanted.len())?;
            let elements =
                found.iter().zip(wanted).map(|(found, wanted)| T::compared(*found, wanted.exact(), 0.0));
            Ok(compare(elements, |index| vec![index as usize])?)
        },
        work,
    }))
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "select"
    }

    fn summary(&self) -> &'static str {
        "the wanted elements side by side in their order, and how many they are, in one launch"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let (capability, percent) = (capability_of(target)?, percent(options)?);
        with_element_type!(options.choice("type"), T => match options.choice("by") {
            "value" => ptx(Select::new::<T>(Want::If(Lowest { percent }), capability).run::<T>()?, target),
            "flags" => ptx(Select::new::<T>(Want::<Unused>::Flagged, capability).run::<T>()?, target),
            _ => ptx(Select::new::<T>(Want::<Unused>::Changed, capability).run::<T>()?, target),
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_element_type!(options.choice("type"), T => prepare::<T>(device, options))
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        copy::rival(name, device, || {
            Ok(with_element_type!(options.choice("type"), T => Problem::<T>::new(options)?.work()))
        })
    }
}
