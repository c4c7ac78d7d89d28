//! What the command line, the benches and CI need of a kernel: one small trait, and the list of all kernels.
//!
//! A kernel's file implements [`LibraryKernel`] for a unit struct and names it in [`all`]. `prepare` makes the inputs and the
//! output on a device; what it returns can be launched any number of times, and checked. Running, timing and reporting are
//! the same for every kernel and are done elsewhere.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use rayon::prelude::*;
use warpwright::arch::Capability;
use warpwright::runtime::{Device, Function, Launch, LaunchCounts, Stream};

/// The result of a kernel's operations; any error will do, as long as its message is a sentence.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Every kernel of the library, in the order in which a reader best meets them.
pub fn all() -> &'static [&'static dyn LibraryKernel] {
    &[
        &crate::elementwise::CopyLibrary,
        &crate::elementwise::MapLibrary,
        &crate::elementwise::AddLibrary,
        &crate::transpose::Library,
        &crate::reduce::library::ReduceLibrary,
        &crate::reduce::library::ArgMaxLibrary,
        &crate::scan::library::Library,
        &crate::sort::library::Library,
        &crate::histogram::library::Library,
        &crate::select::library::Library,
        &crate::rows::SoftmaxLibrary,
        &crate::rows::LogSoftmaxLibrary,
        &crate::rows::RmsNormLibrary,
        &crate::rows::AddRmsNormLibrary,
        &crate::rows::LayerNormLibrary,
        &crate::rows::CrossEntropyLibrary,
        &crate::sgemm::Library,
        &crate::gemm::library::Library,
    ]
}

/// The kernel of that name.
pub fn named(name: &str) -> Option<&'static dyn LibraryKernel> {
    all().iter().find(|kernel| kernel.name() == name).copied()
}

/// A kernel of the library.
pub trait LibraryKernel: Sync {
    /// The name it is chosen by: `gemm`.
    fn name(&self) -> &'static str;

    /// What it computes, in a line.
    fn summary(&self) -> &'static str;

    /// Its options, which become flags: shapes first.
    fn options(&self) -> &'static [OptionSpec];

    /// Whether GPUs of that capability can run it. All can, unless it says otherwise.
    fn applies_to(&self, _capability: &Capability) -> bool {
        true
    }

    /// The PTX that would be launched for these options, for `.target` `target`.
    ///
    /// # Errors
    /// The options do not go together, or not with the target.
    fn ptx(&self, target: &str, options: &Options) -> Result<String>;

    /// Makes everything a launch needs: inputs from a seed, output memory, the loaded kernel.
    ///
    /// # Errors
    /// The options do not go together, or not with the device; there is not enough memory.
    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>>;

    /// The same work done by another's kernel, to be timed beside this one; `None` if there is no rival of that name.
    fn rival(&self, _name: &str, _device: &Device, _options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        None
    }

    /// A search for the fastest way to launch it with these options, if it has several.
    fn search(&self, _device: &Device, _options: &Options) -> Option<Result<Box<dyn Search>>> {
        None
    }

    /// What the way of a launch with these options is chosen among, which it is and why: several lines. `None` if there is one way.
    fn explain(&self, _device: &Device, _options: &Options) -> Option<Result<String>> {
        None
    }

    /// The steps on the way to its fastest form, if it keeps them.
    fn ladder(&self) -> Option<Ladder> {
        None
    }
}

/// The steps on the way from a kernel's first form to its fastest, in order: values of one of its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// The option that chooses the step.
    pub option: &'static str,
    /// Its values, the first step first.
    pub steps: &'static [&'static str],
    /// Options that are something else than their default here, unless they are given: a type that every step takes.
    pub defaults: &'static [(&'static str, &'static str)],
    /// What a step is measured by.
    pub measure: Measure,
    /// Whose kernel the steps are held against, as [`LibraryKernel::rival`] knows it.
    pub rival: Option<&'static str>,
    /// Options of a launch small enough to be emulated, where instructions and conflicts are counted.
    pub counted: &'static [(&'static str, &'static str)],
}

/// What a kernel's speed is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Arithmetic operations a second.
    Operations,
    /// Arithmetic operations of tensor cores a second.
    MatrixOperations,
    /// Keys a second: what [`Work::operations`] counts where keys are put in order.
    Keys,
    /// Bytes of global memory that must be read or written, a second.
    Bytes,
}

impl Measure {
    /// The unit that figures are told in, and how much of it there is in one a second.
    pub fn unit(self) -> (&'static str, f64) {
        match self {
            Self::Operations => ("GFLOP/s", 1e-9),
            Self::MatrixOperations => ("TFLOP/s", 1e-12),
            Self::Keys => ("Gkey/s", 1e-9),
            Self::Bytes => ("TB/s", 1e-12),
        }
    }
}

/// A way to launch a kernel, to be timed.
pub struct Candidate {
    /// What it is, in a line.
    pub name: String,
    /// A launch of it.
    pub prepared: Box<dyn Prepared>,
}

/// A search for the fastest way to launch a kernel. Candidates count from 0 on, in the order in which they were given.
pub trait Search {
    /// At most so many candidates to begin with, the likeliest first. All can be launched: none breaks a rule of the device.
    fn first(&mut self, most: usize) -> Vec<Candidate>;

    /// Candidates like the fastest one so far.
    fn around(&mut self, fastest: usize) -> Vec<Candidate>;

    /// Keeps the fastest for later launches with the same options on such a device; returns the file it is in.
    ///
    /// # Errors
    /// The file cannot be read or written.
    fn keep(&self, fastest: usize, seconds: f64) -> Result<PathBuf>;
}

/// A kernel with its inputs on a device.
pub trait Prepared {
    /// Launches it once. Every launch computes the same.
    ///
    /// # Errors
    /// The kernel failed.
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts>;

    /// Compares every element of what the last launch left with the reference.
    ///
    /// # Errors
    /// A [`Mismatch`], or the result cannot be read.
    fn verify(&mut self) -> Result<Verified>;

    /// What a launch does at the least, whatever the way it does it.
    fn work(&self) -> Work;

    /// What the kernel takes of an SM, if it tells.
    fn resources(&self) -> Option<Resources> {
        None
    }
}

/// What a kernel takes of an SM, and how much of the SM that fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Threads of a CTA.
    pub threads_per_cta: u32,
    /// Registers of a thread; `None` where no assembler has said.
    pub registers_per_thread: Option<u32>,
    /// Local memory of a thread in bytes: what registers did not hold.
    pub local_bytes: u32,
    /// Shared memory of a CTA in bytes, static and dynamic.
    pub shared_bytes: u32,
    /// CTAs that an SM holds at once, as far as what is known limits them.
    pub ctas_per_sm: u32,
    /// Warps that an SM has room for.
    pub most_warps: u32,
}

impl Resources {
    /// What a launch of a kernel takes.
    ///
    /// # Errors
    /// Not even one CTA fits an SM.
    pub fn of(function: &Function, launch: &Launch) -> Result<Self> {
        let attributes = function.attributes();
        let capability = function.device().properties().capability;
        let registers = attributes.registers_per_thread;
        Ok(Self {
            threads_per_cta: launch.block.0.iter().product(),
            registers_per_thread: (registers > 0).then_some(registers),
            local_bytes: attributes.local_bytes,
            shared_bytes: attributes.shared_bytes + launch.dynamic_shared_bytes,
            ctas_per_sm: function.occupancy(launch)?.ctas_per_sm,
            most_warps: capability.warps_per_sm,
        })
    }

    /// The part of the SM's warps that are there at once.
    pub fn occupancy(&self) -> f64 {
        f64::from(self.ctas_per_sm * self.threads_per_cta.div_ceil(32)) / f64::from(self.most_warps)
    }
}

/// A result that agrees with its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verified {
    /// Elements compared: all there are.
    pub elements: u64,
    /// The largest error, as a part of what was tolerated for its element: 0 is exact and 1 the limit.
    pub worst: f64,
}

/// A result that does not agree with its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// Where the first wrong element is, as its coordinates.
    pub at: Vec<usize>,
    /// What is there.
    pub found: f64,
    /// What the reference says.
    pub expected: f64,
    /// How far apart the two may be.
    pub tolerance: f64,
    /// How many elements are wrong.
    pub wrong: u64,
    /// How many there are.
    pub elements: u64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, found, expected, tolerance, wrong, elements } = self;
        write!(
            f,
            "{wrong} of {elements} elements are wrong; the first is at {at:?}: {found} where {expected} is right (to {tolerance:e})"
        )
    }
}

impl Error for Mismatch {}

/// Compares a result with its reference, element by element. NaN agrees with NaN only.
///
/// `coordinates` tells where an element is, for the message.
///
/// # Errors
/// A [`Mismatch`] if any element is further from its reference than its tolerance.
pub fn compare(
    elements: impl IntoIterator<Item = Element>,
    coordinates: impl Fn(u64) -> Vec<usize>,
) -> std::result::Result<Verified, Mismatch> {
    let mut verified = Verified { elements: 0, worst: 0.0 };
    let mut first: Option<(u64, Element)> = None;
    let mut wrong = 0;
    for element in elements {
        let index = verified.elements;
        verified.elements += 1;
        let part = element.part_of_tolerance();
        if part <= 1.0 {
            verified.worst = verified.worst.max(part);
        } else {
            wrong += 1;
            first.get_or_insert((index, element));
        }
    }
    first.map_or(Ok(verified), |(index, Element { found, expected, tolerance })| {
        Err(Mismatch {
            at: coordinates(index),
            found,
            expected,
            tolerance,
            wrong,
            elements: verified.elements,
        })
    })
}

/// [`compare`]s elements that have one coordinate, by all host threads: `element` says what is at a place.
///
/// # Errors
/// A [`Mismatch`] if there is one.
pub fn compare_at_once(
    length: usize,
    element: impl Fn(usize) -> Element + Sync,
) -> std::result::Result<Verified, Mismatch> {
    const PIECE: usize = 1 << 20;
    let pieces = (0..length.div_ceil(PIECE)).into_par_iter().map(|piece| {
        let first = piece * PIECE;
        let places = first..length.min(first + PIECE);
        compare(places.map(&element), |index| vec![first + index as usize])
    });
    together(pieces.collect::<Vec<_>>())
}

/// What the comparisons of a result's parts come to, each part compared by itself: the first mismatch, and all that is wrong.
///
/// # Errors
/// A [`Mismatch`] if there is one in any part.
pub fn together(
    parts: impl IntoIterator<Item = std::result::Result<Verified, Mismatch>>,
) -> std::result::Result<Verified, Mismatch> {
    let mut all = Verified { elements: 0, worst: 0.0 };
    let mut first: Option<Mismatch> = None;
    let mut wrong = 0;
    for part in parts {
        match part {
            Ok(verified) => {
                all.elements += verified.elements;
                all.worst = all.worst.max(verified.worst);
            }
            Err(mismatch) => {
                all.elements += mismatch.elements;
                wrong += mismatch.wrong;
                first.get_or_insert(mismatch);
            }
        }
    }
    first.map_or(Ok(all), |first| Err(Mismatch { wrong, elements: all.elements, ..first }))
}

/// One element of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Element {
    /// What the kernel computed.
    pub found: f64,
    /// What the reference says.
    pub expected: f64,
    /// How far apart the two may be.
    pub tolerance: f64,
}

impl Element {
    /// The error as a part of the tolerance; more than 1 is wrong.
    fn part_of_tolerance(&self) -> f64 {
        let Self { found, expected, tolerance } = *self;
        if found == expected || (found.is_nan() && expected.is_nan()) {
            return 0.0;
        }
        let part = (found - expected).abs() / tolerance;
        // A NaN or an infinity on one side only is past every tolerance.
        if part.is_finite() { part } else { f64::INFINITY }
    }
}

/// What a launch does at the least.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Arithmetic operations; a multiply-add counts two.
    pub operations: f64,
    /// Bytes of global memory that must be read or written.
    pub bytes: f64,
}

/// One option of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name, which is also its flag's: `m` for `--m`.
    pub name: &'static str,
    /// What it means, in a line.
    pub help: &'static str,
    /// What it can be, and is where it is not given.
    pub kind: OptionKind,
}

/// What an option can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// A number from `least` on.
    Number {
        /// The least it may be: 1 for an extent.
        least: u64,
        /// What it is where it is not given.
        default: u64,
    },
    /// One of some words; the first where it is not given.
    Choice(&'static [&'static str]),
}

impl OptionSpec {
    /// An extent: at least 1.
    pub const fn extent(name: &'static str, default: u64, help: &'static str) -> Self {
        Self { name, help, kind: OptionKind::Number { least: 1, default } }
    }

    /// A number from 0 on, such as a seed.
    pub const fn number(name: &'static str, default: u64, help: &'static str) -> Self {
        Self { name, help, kind: OptionKind::Number { least: 0, default } }
    }

    /// One of some words, of which the first is the default.
    pub const fn choice(name: &'static str, choices: &'static [&'static str], help: &'static str) -> Self {
        Self { name, help, kind: OptionKind::Choice(choices) }
    }

    /// The default as text.
    pub fn default_text(&self) -> String {
        match self.kind {
            OptionKind::Number { default, .. } => default.to_string(),
            OptionKind::Choice(choices) => choices[0].to_owned(),
        }
    }
}

/// The values of a kernel's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    values: Vec<(OptionSpec, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number(u64),
    Choice(&'static str),
}

/// An option's text that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The option.
    pub name: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}: {}", self.name, self.message)
    }
}

impl Error for OptionError {}

impl Options {
    /// The defaults.
    pub fn defaults(specs: &[OptionSpec]) -> Self {
        let value = |spec: &OptionSpec| match spec.kind {
            OptionKind::Number { default, .. } => Value::Number(default),
            OptionKind::Choice(choices) => Value::Choice(choices[0]),
        };
        Self { values: specs.iter().map(|spec| (*spec, value(spec))).collect() }
    }

    /// Sets an option from its text.
    ///
    /// # Errors
    /// There is no such option, or the text is not one of its values.
    pub fn set(&mut self, name: &str, text: &str) -> std::result::Result<(), OptionError> {
        let error = |message| OptionError { name: name.to_owned(), message };
        let known: Vec<_> = self.values.iter().map(|(spec, _)| spec.name).collect();
        let Some((spec, value)) = self.values.iter_mut().find(|(spec, _)| spec.name == name) else {
            return Err(error(format!("there is no such option; there are {}", known.join(", "))));
        };
        *value = match spec.kind {
            OptionKind::Number { least, .. } => {
                let number = text.parse().ok().filter(|number| *number >= least);
                let refuse = || error(format!("`{text}` is not a whole number from {least} on"));
                Value::Number(number.ok_or_else(refuse)?)
            }
            OptionKind::Choice(choices) => {
                let choice = choices.iter().find(|choice| **choice == text);
                Value::Choice(
                    choice.ok_or_else(|| error(format!("`{text}` is not one of {}", choices.join(", "))))?,
                )
            }
        };
        Ok(())
    }

    /// A number.
    ///
    /// # Panics
    /// The kernel has no such option, or it is no number: a mistake of the kernel's own.
    pub fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Number(number) => number,
            Value::Choice(_) => panic!("option {name} is a choice"),
        }
    }

    /// A number that a kernel takes in 32 bits.
    ///
    /// # Errors
    /// It is 2^32 or more.
    ///
    /// # Panics
    /// As [`number`](Self::number).
    pub fn u32(&self, name: &str) -> std::result::Result<u32, OptionError> {
        let number = self.number(name);
        u32::try_from(number).map_err(|_| OptionError {
            name: name.to_owned(),
            message: format!("{number} is not below 2^32"),
        })
    }

    /// A number that a kernel takes in 32 bits, or `own` where it is 0.
    ///
    /// # Errors
    /// As [`u32`](Self::u32).
    pub fn u32_or(&self, name: &str, own: u32) -> std::result::Result<u32, OptionError> {
        Ok(match self.u32(name)? {
            0 => own,
            given => given,
        })
    }

    /// A number that counts things on the host.
    ///
    /// # Panics
    /// As [`number`](Self::number).
    pub fn extent(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).expect("hosts have 64 bits")
    }

    /// A choice.
    ///
    /// # Panics
    /// The kernel has no such option, or it is no choice: a mistake of the kernel's own.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Choice(choice) => choice,
            Value::Number(_) => panic!("option {name} is a number"),
        }
    }

    /// An option's value as text, if there is such an option.
    pub fn text(&self, name: &str) -> Option<String> {
        let (_, value) = self.values.iter().find(|(spec, _)| spec.name == name)?;
        Some(match value {
            Value::Number(number) => number.to_string(),
            Value::Choice(choice) => (*choice).to_owned(),
        })
    }

    fn value(&self, name: &str) -> Value {
        let found = self.values.iter().find(|(spec, _)| spec.name == name);
        found.unwrap_or_else(|| panic!("there is no option {name}")).1
    }
}

impl Options {
    /// All but one, as flags.
    pub fn without(&self, name: &str) -> String {
        let kept = self.values.iter().filter(|(spec, _)| spec.name != name).copied();
        Self { values: kept.collect() }.to_string()
    }
}

impl fmt::Display for Options {
    /// As flags: `--m 128 --input bf16`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (spec, value)) in self.values.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            match value {
                Value::Number(number) => write!(f, "{space}--{} {number}", spec.name)?,
                Value::Choice(choice) => write!(f, "{space}--{} {choice}", spec.name)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[OptionSpec] = &[
        OptionSpec::extent("m", 128, "rows"),
        OptionSpec::choice("input", &["bf16", "f16"], "type of the inputs"),
        OptionSpec::number("seed", 0, "of the inputs"),
    ];

    #[test]
    fn options_are_set_from_text() {
        let mut options = Options::defaults(SPECS);
        assert_eq!(options.to_string(), "--m 128 --input bf16 --seed 0");
        options.set("m", "1").expect("an extent");
        options.set("input", "f16").expect("a choice");
        assert_eq!((options.extent("m"), options.choice("input"), options.number("seed")), (1, "f16", 0));
        let refused =
            |name, text| Options::defaults(SPECS).set(name, text).expect_err("no value").to_string();
        assert_eq!(refused("m", "0"), "--m: `0` is not a whole number from 1 on");
        assert_eq!(refused("m", "x"), "--m: `x` is not a whole number from 1 on");
        assert_eq!(refused("input", "f32"), "--input: `f32` is not one of bf16, f16");
        assert_eq!(refused("n", "1"), "--n: there is no such option; there are m, input, seed");
    }

    #[test]
    fn comparison_sees_every_element() {
        let element = |found, expected| Element { found, expected, tolerance: 0.5 };
        let coordinates = |index: u64| vec![index as usize / 2, index as usize % 2];
        let close = [element(1.0, 1.25), element(f64::NAN, f64::NAN), element(f64::INFINITY, f64::INFINITY)];
        assert_eq!(compare(close, coordinates), Ok(Verified { elements: 3, worst: 0.5 }));
        let wrongs =
            [element(1.0, 1.6), element(f64::NAN, 1.0), element(1.0, f64::NAN), element(f64::INFINITY, 1.0)];
        for wrong in wrongs {
            let mismatch =
                compare([close[0], close[1], close[0], wrong, wrong], coordinates).expect_err("wrong");
            assert_eq!((mismatch.at, mismatch.wrong, mismatch.elements), (vec![1, 1], 2, 5));
        }
        let exact = [Element { found: 1.0, expected: 1.0, tolerance: 0.0 }];
        assert!(compare(exact, coordinates).is_ok());
        assert!(compare([Element { found: 1.5, ..exact[0] }], coordinates).is_err());
    }

    #[test]
    fn every_kernel_of_the_library_can_be_chosen() {
        for kernel in all() {
            if let Some(ladder) = kernel.ladder() {
                let mut options = Options::defaults(kernel.options());
                for step in ladder.steps {
                    options.set(ladder.option, step).expect("a step is a value of the option");
                }
                for (name, value) in ladder.counted {
                    options.set(name, value).expect("a value of an option");
                }
            }
            assert!(!kernel.summary().is_empty() && !kernel.summary().ends_with('.'), "{}", kernel.name());
            assert_eq!(
                named(kernel.name()).map(|found| found.summary()),
                Some(kernel.summary()),
                "unique names"
            );
            let options = Options::defaults(kernel.options());
            for spec in kernel.options() {
                let mut again = options.clone();
                again.set(spec.name, &spec.default_text()).expect("a default is a value");
                assert_eq!(again, options);
                assert!(
                    ![
                        "device",
                        "schedule",
                        "json",
                        "arch",
                        "all",
                        "out",
                        "vs",
                        "batches",
                        "svg",
                        "explain",
                        "candidates",
                        "help"
                    ]
                    .contains(&spec.name),
                    "{}",
                    spec.name
                );
            }
        }
        assert!(named("").is_none());
    }
}
