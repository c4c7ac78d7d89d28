//! Command lines: verbs, kernels, flags and values in any order; and kernels with the options that
//! were read, launched on a device that executes nothing.

use std::ffi::OsString;

use warpwright_arch::CAPABILITIES;
use warpwright_cli::inputs;
use warpwright_harness::{Entry, Form, OptionSpec, Random, Setup};
use warpwright_runtime::Device;

use super::Target;
use super::mutate::{edge, mutate, number, once_in, one};

/// Of this many cases, one is a kernel whose launches are made.
const STAGED: u64 = 500;
/// The first word of such a case.
const LAUNCH: &str = "launch";

const VERBS: [&str; 15] = [
    "devices",
    "kernels",
    "run",
    "bench",
    "ladder",
    "tune",
    "ptx",
    "exec",
    "check",
    "report",
    "roofline",
    "layout",
    "occupancy",
    "completions",
    "man",
];
const FLAGS: [&str; 35] = [
    "--json",
    "--device",
    "--schedule",
    "--limit",
    "--explain",
    "--vs",
    "--batches",
    "--rest",
    "--unchecked",
    "--svg",
    "--html",
    "--lines",
    "--regs",
    "--threads",
    "--smem",
    "--arch",
    "--out",
    "--all",
    "--annotate",
    "--candidates",
    "--seeds",
    "--bits",
    "--together",
    "--plain",
    "--seed",
    "--help",
    "--version",
    "-h",
    "-V",
    "--",
    "-",
    "--only",
    "--checked",
    "emulator",
    "list",
];
const VALUES: [&str; 20] = [
    "auto",
    "cuda:0",
    "emu:h200",
    "emu:",
    "emu:b200",
    "eager",
    "latest",
    "random:1",
    "random:-1",
    "cublas",
    "copy",
    "sm_90a",
    "sm_80,sm_90",
    "/dev/null",
    ".",
    "",
    " ",
    "(4,8):(1,4)",
    "--m=3",
    "\u{1f600}",
];

pub(super) struct CommandLines {
    lines: inputs::CommandLines,
    kernels: Vec<&'static Entry>,
    /// All words, for changes.
    words: Vec<String>,
}

impl CommandLines {
    pub(super) fn new() -> Self {
        let kernels: Vec<_> =
            warpwright_workloads::WORKLOADS.iter().chain(warpwright_lessons::WORKLOADS).collect();
        let words = VERBS.iter().chain(&FLAGS).chain(&VALUES).map(|word| (*word).to_owned()).collect();
        Self { lines: inputs::CommandLines::default(), kernels, words }
    }

    /// A kernel and some of its options, a word a line.
    fn kernel(&self, random: &mut Random) -> Vec<String> {
        let entry = one(random, &self.kernels);
        let mut words = vec![entry.name().to_owned()];
        let specs = entry.workload().specs();
        for _ in 0..random.below(5) {
            let Some(spec) = (!specs.is_empty()).then(|| one(random, &specs)) else { break };
            words.push(format!("--{}", spec.name));
            if spec.form != Form::Flag {
                words.push(value(random, spec));
            }
        }
        words
    }
}

fn value(random: &mut Random, spec: &OptionSpec) -> String {
    match (spec.choices().as_slice(), random.below(8)) {
        (_, 0) => edge(random).to_owned(),
        (_, 1) => (*one(random, &VALUES)).to_owned(),
        ([], _) => number(random),
        (choices, _) => (*one(random, choices)).to_owned(),
    }
}

impl Target for CommandLines {
    fn make(&self, random: &mut Random) -> String {
        if once_in(random, STAGED) {
            let mut words = vec![LAUNCH.to_owned()];
            words.extend(self.kernel(random));
            return words.join("\n");
        }
        let mut words = vec!["warpwright".to_owned(), (*one(random, &VERBS)).to_owned()];
        for _ in 0..random.below(3) {
            words.push((*one(random, &FLAGS)).to_owned());
            if once_in(random, 2) {
                words.push((*one(random, &VALUES)).to_owned());
            }
        }
        words.extend(self.kernel(random));
        let text = words.join("\n");
        if once_in(random, 3) { mutate(random, &text, &self.words) } else { text }
    }

    fn read(&mut self, case: &str) -> Result<(), String> {
        let words: Vec<&str> = case.split('\n').collect();
        match words.as_slice() {
            [LAUNCH, name, options @ ..] => {
                let entry = self.kernels.iter().find(|entry| entry.name() == *name);
                entry.map_or(Ok(()), |entry| launch(entry, options))
            }
            words => {
                let words: Vec<OsString> = words.iter().map(OsString::from).collect();
                self.lines.read(&words)
            }
        }
    }
}

/// Sets the options that can be set, and makes the launches on each device that allows them.
fn launch(entry: &Entry, options: &[&str]) -> Result<(), String> {
    let mut workload = entry.workload();
    let mut words = options.iter().map(|word| word.trim_start_matches("--"));
    while let Some(name) = words.next() {
        let Some(spec) = workload.specs().into_iter().find(|spec| spec.name == name) else { continue };
        let value = if spec.form == Form::Flag { Some("true") } else { words.next() };
        if let Some(value) = value {
            workload.set(name, value).map_err(|error| error.to_string())?;
        }
    }
    let _ = (workload.work(), workload.flags(), workload.to_json());
    for capability in CAPABILITIES.iter().filter(|capability| workload.supports(capability)) {
        let device = Device::dry_run(capability).map_err(|error| error.to_string())?;
        let stream = device.stream().map_err(|error| error.to_string())?;
        let mut prepared = workload.prepare(&Setup::new(&device)).map_err(|error| error.to_string())?;
        prepared.launch(&stream).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use warpwright_testing::one_in;

    use super::super::limits::{Limits, PATIENT};
    use super::*;

    /// The share of the options that `cargo test` takes; the sweep takes all.
    const SHARE: usize = 24;

    /// An option that sizes anything must not decide how much memory the host takes before the
    /// device has refused it.
    #[test]
    fn the_largest_value_of_an_option_is_refused_or_costs_little() {
        let CommandLines { kernels, .. } = CommandLines::new();
        let sized = kernels.iter().flat_map(|entry| {
            let specs = entry.workload().specs().into_iter().filter(|spec| spec.form == Form::Integer);
            specs.map(move |spec| (entry, spec))
        });
        let cases = one_in(SHARE, sized.collect::<Vec<_>>());
        let limits = Limits::watch(0, 1, PATIENT);
        for (number, (entry, spec)) in cases.enumerate() {
            let flag = format!("--{}", spec.name);
            for value in [u32::MAX.into(), spec.range.1.map_or(u64::MAX, |most| most as u64)] {
                let launched =
                    limits.during(0, number as u64, || launch(entry, &[&flag, &value.to_string()]));
                // Within a case, the message of a panic is kept for the fuzzer's report.
                limits.leave(0);
                assert!(launched.is_ok(), "{} {flag} {value}: {launched:?}", entry.name());
            }
        }
    }

    /// Odd values reach what a device that executes nothing does not: the inputs and the reference.
    #[test]
    fn small_odd_values_are_refused_or_compute_what_the_reference_does() {
        let CommandLines { kernels, .. } = CommandLines::new();
        let h200 = Device::named("emu:h200").expect("it is in the table");
        let capability = h200.properties().capability;
        let cases = kernels.iter().flat_map(|entry| {
            let specs = entry.workload().specs().into_iter().filter(|spec| spec.form == Form::Integer);
            specs.flat_map(move |spec| [0, 1, 3, 7, 17, 63, 127].map(|value| (entry, spec.name, value)))
        });
        for (entry, option, value) in one_in(SHARE, cases.collect::<Vec<_>>()) {
            let mut workload = entry.workload();
            let is_set = workload.set(option, &value.to_string()).is_ok() && workload.supports(capability);
            let work = workload.work();
            if !is_set || work.operations > 1e7 || work.bytes > 1e6 {
                continue;
            }
            let Ok(mut prepared) = workload.prepare(&Setup::new(&h200)) else { continue };
            let stream = h200.stream().expect("the emulator has streams");
            if prepared.launch(&stream).is_ok() {
                let verified = prepared.verify();
                assert!(verified.is_ok(), "{} --{option} {value}: {verified:?}", entry.name());
            }
        }
    }

    #[test]
    fn a_histogram_of_many_bins_makes_no_edges_where_nothing_runs() {
        let CommandLines { kernels, .. } = CommandLines::new();
        let histogram = kernels.iter().find(|entry| entry.name() == "histogram").expect("it is listed");
        let limits = Limits::watch(20_261_122, 1, PATIENT);
        let launched = limits.during(0, 1_330_553, || launch(histogram, &["--bins", "4294967295"]));
        limits.leave(0);
        assert_eq!(launched, Ok(Ok(())));
    }
}
