//! A kernel as it is described once, and the form in which programs choose it by name.

use std::fmt;

use serde_json::Value as Json;
use warpwright::arch::Capability;

use crate::copy;
use crate::error::Result;
use crate::options::{OptionError, OptionSpec, Options};
use crate::prepared::Prepared;
use crate::search::{GridSearch, Search};
use crate::setup::Setup;
use crate::work::Work;

/// A kernel with its options, buffers, launch and reference.
///
/// The struct's fields are the options ([`Options`]); an instance is one choice of them.
pub trait Workload: Options + Send + Sync {
    /// The name that chooses it: `softmax`.
    const NAME: &'static str;

    /// Whether GPUs of a compute capability can run it.
    fn supports(_capability: &Capability) -> bool {
        true
    }

    /// The least that a launch must do.
    fn work(&self) -> Work;

    /// Makes the buffers and compiles the kernel: everything that a launch needs.
    ///
    /// # Errors
    /// The options contradict each other or exceed the device, or the device is out of memory.
    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>>;

    /// The same work by another library's kernel, to be timed beside this one; `None` if `name` is
    /// not known. The copy by the driver, `copy`, is known for every workload.
    fn baseline(&self, _name: &str, _setup: &Setup) -> Option<Result<Box<dyn Prepared>>> {
        None
    }

    /// The search for the fastest configuration. By default it tries the values of
    /// `#[option(search = [..])]`.
    fn search(&self, setup: &Setup) -> Option<Result<Box<dyn Search>>> {
        GridSearch::new(self, setup).map(|search| Ok(Box::new(search) as Box<dyn Search>))
    }

    /// The candidates of the heuristic for these options, the one it takes and why; `None` if there
    /// is only one.
    fn explain(&self, _setup: &Setup) -> Option<Result<String>> {
        None
    }

    /// The steps from the first form of the kernel to the fastest, if it keeps them.
    fn ladder() -> Option<Ladder> {
        None
    }
}

/// The steps from a kernel's first form to its fastest: values of one of its options, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// The option that chooses the step.
    pub option: &'static str,
    /// Its values, the first step first.
    pub steps: Vec<&'static str>,
    /// Values of other options where the user gives none.
    pub defaults: &'static [(&'static str, &'static str)],
    /// The unit of a step's speed.
    pub measure: Measure,
    /// The baseline the steps are compared with: [`Workload::baseline`].
    pub baseline: Option<&'static str>,
    /// The emulated device on which instructions and bank conflicts are counted.
    pub counted_on: &'static str,
    /// Options of a launch that is small enough to be emulated there.
    pub counted: &'static [(&'static str, &'static str)],
}

/// What a kernel's speed is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Arithmetic operations per second.
    Operations,
    /// Arithmetic operations of tensor cores per second.
    MatrixOperations,
    /// Sorted keys per second: [`Work::operations`] of a sort.
    Keys,
    /// Bytes of global memory per second.
    Bytes,
}

impl Measure {
    /// The unit of the figures, and the factor from one per second to it.
    pub fn unit(self) -> (&'static str, f64) {
        match self {
            Self::Operations => ("GFLOP/s", 1e-9),
            Self::MatrixOperations => ("TFLOP/s", 1e-12),
            Self::Keys => ("Gkey/s", 1e-9),
            Self::Bytes => ("TB/s", 1e-12),
        }
    }

    /// A figure in the unit, with as many digits as a measurement has.
    pub fn format(self, figure: f64) -> String {
        let digits = if figure < 100.0 { 2 } else { 0 };
        format!("{figure:.digits$}")
    }
}

/// A workload and its options, behind one type: what a program that chooses workloads by name works
/// with.
pub trait DynWorkload: Send + Sync {
    /// [`Workload::NAME`].
    fn name(&self) -> &'static str;
    /// What it computes: [`Options::ABOUT`].
    fn about(&self) -> &'static str;
    /// [`Options::specs`].
    fn specs(&self) -> Vec<OptionSpec>;
    /// [`Options::set`].
    ///
    /// # Errors
    /// No option has this name, or the text is not one of its values.
    fn set(&mut self, name: &str, text: &str) -> std::result::Result<(), OptionError>;
    /// [`Options::get`].
    fn get(&self, name: &str) -> Option<Json>;
    /// [`Options::text`].
    fn text(&self, name: &str) -> Option<String>;
    /// [`Options::flags`].
    fn flags(&self) -> String;
    /// [`Options::flags_without`].
    fn flags_without(&self, name: &str) -> String;
    /// [`Options::to_json`].
    fn to_json(&self) -> Json;
    /// A copy.
    fn boxed(&self) -> Box<dyn DynWorkload>;
    /// [`Workload::supports`].
    fn supports(&self, capability: &Capability) -> bool;
    /// [`Workload::work`].
    fn work(&self) -> Work;
    /// [`Workload::prepare`].
    ///
    /// # Errors
    /// The options contradict each other or exceed the device, or the device is out of memory.
    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>>;
    /// [`Workload::baseline`].
    fn baseline(&self, name: &str, setup: &Setup) -> Option<Result<Box<dyn Prepared>>>;
    /// [`Workload::search`].
    fn search(&self, setup: &Setup) -> Option<Result<Box<dyn Search>>>;
    /// [`Workload::explain`].
    fn explain(&self, setup: &Setup) -> Option<Result<String>>;
    /// [`Workload::ladder`].
    fn ladder(&self) -> Option<Ladder>;
}

impl fmt::Display for dyn DynWorkload + '_ {
    /// As the command line has it: `softmax --rows 64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.flags())
    }
}

impl Clone for Box<dyn DynWorkload> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl<W: Workload> DynWorkload for W {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn about(&self) -> &'static str {
        W::ABOUT
    }

    fn specs(&self) -> Vec<OptionSpec> {
        W::specs()
    }

    fn set(&mut self, name: &str, text: &str) -> std::result::Result<(), OptionError> {
        Options::set(self, name, text)
    }

    fn get(&self, name: &str) -> Option<Json> {
        Options::get(self, name)
    }

    fn text(&self, name: &str) -> Option<String> {
        Options::text(self, name)
    }

    fn flags(&self) -> String {
        Options::flags(self)
    }

    fn flags_without(&self, name: &str) -> String {
        Options::flags_without(self, name)
    }

    fn to_json(&self) -> Json {
        Options::to_json(self)
    }

    fn boxed(&self) -> Box<dyn DynWorkload> {
        Box::new(self.clone())
    }

    fn supports(&self, capability: &Capability) -> bool {
        W::supports(capability)
    }

    fn work(&self) -> Work {
        Workload::work(self)
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        setup.check_memory(Workload::work(self))?;
        Workload::prepare(self, setup)
    }

    fn baseline(&self, name: &str, setup: &Setup) -> Option<Result<Box<dyn Prepared>>> {
        Workload::baseline(self, name, setup)
            .or_else(|| (name == "copy").then(|| copy::prepare(setup, Workload::work(self))))
    }

    fn search(&self, setup: &Setup) -> Option<Result<Box<dyn Search>>> {
        match setup.check_memory(Workload::work(self)) {
            Ok(()) => Workload::search(self, setup),
            Err(error) => Some(Err(error)),
        }
    }

    fn explain(&self, setup: &Setup) -> Option<Result<String>> {
        Workload::explain(self, setup)
    }

    fn ladder(&self) -> Option<Ladder> {
        W::ladder()
    }
}

/// An entry of a crate's list of workloads:
///
/// ```
/// # use warpwright_harness::*;
/// # /// Does nothing.
/// # #[derive(Clone, Debug, Options)]
/// # struct Softmax {}
/// # impl Workload for Softmax {
/// #     const NAME: &'static str = "softmax";
/// #     fn work(&self) -> Work { Work::default() }
/// #     fn prepare(&self, _: &Setup) -> Result<Box<dyn Prepared>> { Err("nothing".into()) }
/// # }
/// pub const WORKLOADS: &[Entry] = &[Entry::of::<Softmax>()];
/// # assert_eq!(WORKLOADS[0].name(), "softmax");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    name: &'static str,
    workload: fn() -> Box<dyn DynWorkload>,
}

impl Entry {
    /// The entry of a workload.
    pub const fn of<W: Workload>() -> Self {
        Self::new(W::NAME, || Box::new(W::default()))
    }

    /// An entry of that name, whose workload `workload` makes.
    pub const fn new(name: &'static str, workload: fn() -> Box<dyn DynWorkload>) -> Self {
        Self { name, workload }
    }

    /// The name of the workload.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The workload with its defaults.
    pub fn workload(&self) -> Box<dyn DynWorkload> {
        (self.workload)()
    }
}
