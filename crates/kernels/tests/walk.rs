//! Walks over workloads that need no list of their options: extents are known by their names, and
//! every choice of a workload is taken in turn.

use std::collections::BTreeMap;
use std::error::Error;

use warpwright::arch::Capability;
use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_harness::{DynWorkload, Entry, OptionErrorKind, OptionSpec, Refused, Setup, Verified};
use warpwright_kernels::gemm::problem::error::GemmError;
use warpwright_kernels::operations::OperationError;
use warpwright_testing::{in_threads, one_in};

/// Lengths at which something begins or ends.
pub(crate) const LENGTHS: &[u64] = &[0, 1, 31, 32, 33, 1023, (1 << 20) + 7];

/// Options that are extents, and values for each of them. The values at one index are a shape.
pub(crate) type Shapes = &'static [(&'static str, &'static [u64])];

/// Tiny, odd, prime, and larger than a tile.
pub(crate) const SHAPES: Shapes = &[
    ("length", &[1, 33, 1021, 9001]),
    ("m", &[1, 37, 130, 67]),
    ("n", &[1, 67, 61, 264]),
    ("k", &[1, 129, 80, 160]),
    ("rows", &[1, 5, 3, 2]),
    ("columns", &[1, 67, 1021, 5003]),
    ("queries", &[1, 37, 130, 67]),
    ("keys", &[1, 61, 33, 264]),
];

pub(crate) const MANY_SHAPES: Shapes = &[
    ("length", &[0, 2, 31, 32, 255, 257, 1024, 2047, 4099, 16_384, 65_537, 300_007]),
    ("m", &[0, 2, 8, 31, 64, 127, 128, 129, 192, 257, 320, 521]),
    ("n", &[0, 3, 16, 31, 64, 129, 256, 127, 192, 263, 200, 384]),
    ("k", &[0, 5, 16, 33, 64, 65, 128, 192, 512, 72, 7, 257]),
    ("rows", &[0, 2, 4, 7, 16, 33, 3, 3, 2, 2, 1, 2]),
    ("columns", &[2, 31, 64, 65, 512, 100, 2048, 4097, 8192, 16_385, 40_000, 65_537]),
    ("queries", &[0, 2, 17, 63, 64, 65, 127, 128, 129, 200, 257, 31]),
    ("keys", &[3, 1, 129, 127, 128, 16, 1, 257, 300, 128, 63, 511]),
];

/// The workloads of a crate, and what they refuse.
pub(crate) struct Suite {
    pub(crate) kernels: &'static [Entry],
    /// Every refusal of the walks. Any other is a failure, and so is a kernel that runs regardless.
    pub(crate) refusals: &'static [Refusal],
    /// Whether an error is a rule of the problem; all other errors are failures.
    pub(crate) is_refusal: fn(&(dyn Error + Send + Sync + 'static)) -> bool,
}

/// Kernels, the options that they refuse on a device, and a part of the message.
pub(crate) type Refusal = (&'static [&'static str], fn(&dyn DynWorkload, &Device) -> bool, &'static str);

/// An option as text; empty if the workload does not have it.
pub(crate) fn text(workload: &dyn DynWorkload, option: &str) -> String {
    workload.text(option).unwrap_or_default()
}

/// An extent of a workload.
pub(crate) fn extent(workload: &dyn DynWorkload, option: &str) -> u64 {
    text(workload, option).parse().expect("an extent")
}

/// Whether these extents are multiples of `divisor`.
pub(crate) fn are_multiples(workload: &dyn DynWorkload, extents: &[&str], divisor: u64) -> bool {
    extents.iter().all(|option| extent(workload, option).is_multiple_of(divisor))
}

/// Whether an error is a rule of the problem that the library states.
pub(crate) fn is_library_refusal(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    use OperationError::{Empty, Gemm, Length, Shape};
    let of_operation = error.downcast_ref::<OperationError>();
    matches!(of_operation, Some(Length { .. } | Shape { .. } | Empty { .. } | Gemm(_)))
        || error.is::<GemmError>()
        || error.is::<Refused>()
}

impl Suite {
    /// The workload of that name.
    pub(crate) fn named(&self, name: &str) -> &'static Entry {
        let found = self.kernels.iter().find(|kernel| kernel.name() == name);
        found.unwrap_or_else(|| panic!("no workload {name}"))
    }

    /// Runs a workload and compares every element of its result. `false` if the table says that it
    /// refuses.
    pub(crate) fn attempt(&self, workload: &dyn DynWorkload, device: &Device) -> Result<bool, String> {
        if !workload.supports(device.properties().capability) {
            return Ok(false);
        }
        let applies =
            |(names, refuses, _): &&Refusal| names.contains(&workload.name()) && refuses(workload, device);
        match (verified(workload, device), self.refusals.iter().find(applies)) {
            (Ok(_), None) => Ok(true),
            (Ok(_), Some((.., message))) => Err(format!("it runs, but should refuse: {message}")),
            (Err(error), Some((.., message)))
                if (self.is_refusal)(&*error) && error.to_string().contains(message) =>
            {
                Ok(false)
            }
            (Err(error), _) => Err(error.to_string()),
        }
    }

    /// Runs a kernel with these options, and panics unless every element of its result is right.
    pub(crate) fn expect_right(&self, kernel: &Entry, device: &Device, settings: &[(&str, &str)]) {
        let workload = with(kernel, settings);
        assert_eq!(self.attempt(&*workload, device), Ok(true), "{workload} on {}", device.name());
    }
}

/// A kernel with these options.
pub(crate) fn with(kernel: &Entry, settings: &[(&str, &str)]) -> Box<dyn DynWorkload> {
    let mut workload = kernel.workload();
    for (name, value) in settings {
        workload.set(name, value).unwrap_or_else(|error| panic!("{workload}: {error}"));
    }
    workload
}

/// Runs a workload and compares every element of its result. Every other run is of a graph, by the
/// length of its command. A GEMM of unlike products copies their table from the host, and cannot be
/// captured.
fn verified(workload: &dyn DynWorkload, device: &Device) -> warpwright_harness::Result<Verified> {
    let mut prepared = workload.prepare(&Setup::new(device))?;
    let stream = device.stream()?;
    if workload.to_string().len().is_multiple_of(2) && text(workload, "grouping") != "unlike" {
        stream.capture(|stream| prepared.launch(stream))?.launch(&stream)?;
    } else {
        prepared.launch(&stream)?;
    }
    prepared.verify()
}

/// What ran, and what went wrong.
pub(crate) struct Walk {
    suite: &'static Suite,
    ran: usize,
    failures: Vec<String>,
}

impl Walk {
    pub(crate) fn new(suite: &'static Suite) -> Self {
        Self { suite, ran: 0, failures: Vec::new() }
    }

    /// Launches a kernel on a device that checks.
    pub(crate) fn step(&mut self, workload: &dyn DynWorkload, device: &str, schedule: Schedule) {
        let checked = Device::with_schedule(device, schedule).and_then(Device::checked);
        self.step_on(workload, &checked.expect("an emulated device"), schedule);
    }

    /// Launches a kernel on a device with this schedule.
    pub(crate) fn step_on(&mut self, workload: &dyn DynWorkload, device: &Device, schedule: Schedule) {
        match self.suite.attempt(workload, device) {
            Ok(ran) => self.ran += usize::from(ran),
            Err(failure) => {
                self.failures.push(format!("{workload} on {} at {schedule:?}: {failure}", device.name()));
            }
        }
    }

    /// Launches kernels on those of these devices that have them, at every schedule.
    fn steps(
        &mut self,
        workloads: impl Iterator<Item = Box<dyn DynWorkload>>,
        devices: &[&str],
        schedules: &[Schedule],
    ) {
        for workload in workloads {
            for device in devices_of(&*workload, devices) {
                schedules.iter().for_each(|&at| self.step(&*workload, device, at));
            }
        }
    }

    /// The number of launches, all of which must be clean.
    pub(crate) fn finish(self) -> usize {
        let Self { ran, failures, .. } = self;
        let (count, shown) = (failures.len(), failures[..failures.len().min(12)].join("\n\n"));
        assert!(ran > 0, "nothing ran");
        assert!(failures.is_empty(), "{count} of {} launches are not clean:\n{shown}", ran + count);
        ran
    }
}

/// A kernel at one of its shapes; `None` where an extent is 0 and the kernel takes 1 at least.
fn shaped(kernel: &Entry, shapes: Shapes, index: usize) -> Option<Box<dyn DynWorkload>> {
    let mut workload = kernel.workload();
    for (name, extents) in shapes.iter().filter(|(name, _)| has(kernel, name)) {
        match workload.set(name, &extents[index].to_string()) {
            Ok(()) => {}
            Err(error) if extents[index] == 0 && error.kind == OptionErrorKind::Value => return None,
            Err(error) => panic!("{workload}: {error}"),
        }
    }
    Some(workload)
}

/// How many shapes are taken of a kernel: one if it has no extents.
fn shapes_of(kernel: &Entry, shapes: Shapes) -> usize {
    if shapes.iter().any(|(name, _)| has(kernel, name)) { shapes[0].1.len() } else { 1 }
}

/// The devices of these that a kernel runs on; an emulated B200 if it is none of them.
fn devices_of<'a>(workload: &dyn DynWorkload, devices: &[&'a str]) -> Vec<&'a str> {
    let runs_on = |name: &&str| {
        let device = Device::named(name).expect("an emulated device");
        workload.supports(device.properties().capability)
    };
    let supported: Vec<_> = devices.iter().copied().filter(runs_on).collect();
    if supported.is_empty() { vec!["emu:b200"] } else { supported }
}

/// Every kernel at its shapes and at every schedule; one in `share` of these cases, or all in a sweep.
pub(crate) fn walk_shapes(
    suite: &'static Suite,
    share: usize,
    shapes: Shapes,
    devices: &[&str],
    schedules: &[Schedule],
) {
    let mut walk = Walk::new(suite);
    for kernel in suite.kernels {
        let before = (walk.ran, walk.failures.len());
        let mut cases = Vec::new();
        for index in 0..shapes_of(kernel, shapes) {
            let Some(workload) = shaped(kernel, shapes, index) else { continue };
            for device in devices_of(&*workload, devices) {
                cases.extend(schedules.iter().map(|&schedule| (workload.clone(), device, schedule)));
            }
        }
        one_in(share, cases).for_each(|(workload, device, schedule)| walk.step(&*workload, device, schedule));
        assert!((walk.ran, walk.failures.len()) != before, "{} ran at no shape", kernel.name());
    }
    walk.finish();
}

/// Every kernel with each value of its choices, at one shape; one in `share` of them, or all in a
/// sweep.
pub(crate) fn walk_choices(
    suite: &'static Suite,
    share: usize,
    (shapes, index): (Shapes, usize),
    devices: &[&str],
    schedules: &[Schedule],
) {
    let mut walk = Walk::new(suite);
    walk.steps(one_in(share, choices_of_all(suite, shapes, index)), devices, schedules);
    walk.finish();
}

/// Every kernel with each value of its choices, at one shape.
pub(crate) fn choices_of_all(suite: &Suite, shapes: Shapes, index: usize) -> Vec<Box<dyn DynWorkload>> {
    let mut cases = Vec::new();
    for kernel in suite.kernels {
        for spec in kernel.workload().specs() {
            for choice in values(&spec) {
                let Some(mut workload) = shaped(kernel, shapes, index) else { continue };
                workload.set(spec.name, &choice).expect("a choice of its own");
                cases.push(workload);
            }
        }
    }
    cases
}

/// Every kernel with each value of its choices, at one shape after another: all shapes with all choices
/// would take hours.
pub(crate) fn walk_choices_at_shapes_in_turn(
    suite: &'static Suite,
    shapes: Shapes,
    devices: &[&str],
    schedules: &[Schedule],
) {
    let count = shapes[0].1.len();
    in_threads(0..count, |index| {
        let mut walk = Walk::new(suite);
        let of_shape = choices_of_all(suite, shapes, index).into_iter().skip(index).step_by(count);
        walk.steps(of_shape, devices, schedules);
        println!("shape {index}: {} launches are clean", walk.finish());
    });
}

/// Whether a kernel has an option.
pub(crate) fn has(kernel: &Entry, option: &str) -> bool {
    kernel.workload().get(option).is_some()
}

/// The values of an option that are few: its words, or those of a number that is always given.
fn values(spec: &OptionSpec) -> Vec<String> {
    let words: Vec<String> = spec.choices().into_iter().map(str::to_owned).collect();
    if words.is_empty() && !spec.is_automatic { spec.search.clone() } else { words }
}

/// The few values of a kernel's option.
pub(crate) fn choices(kernel: &Entry, option: &str) -> Vec<String> {
    kernel.workload().specs().iter().find(|spec| spec.name == option).map(values).unwrap_or_default()
}

/// Every kernel over elements at every length, on one of two devices in turn, or on both in a sweep.
pub(crate) fn walk_lengths(suite: &'static Suite) {
    let devices = ["emu:a100", "emu:h200"].map(|name| Device::named(name).expect("an emulated device"));
    for kernel in suite.kernels.iter().filter(|kernel| has(kernel, "length")) {
        let cases = devices.iter().flat_map(|device| (0..LENGTHS.len()).map(move |index| (device, index)));
        for (device, index) in one_in(3, cases) {
            if let Some(workload) = shaped(kernel, &[("length", LENGTHS)], index) {
                assert_eq!(suite.attempt(&*workload, device), Ok(true), "{workload} on {}", device.name());
            }
        }
    }
}

/// Every choice of every kernel over elements; of a ladder, on its last step, which has all types.
pub(crate) fn walk_elements(suite: &'static Suite) {
    let device = Device::named("emu:h200").expect("an emulated device");
    for kernel in suite.kernels.iter().filter(|kernel| has(kernel, "length")) {
        let ladder = kernel.workload().ladder();
        let last = ladder.as_ref().and_then(|ladder| Some((ladder.option, *ladder.steps.last()?)));
        let mut cases = Vec::new();
        for option in ["type", "by", "kind", "step", "of", "values", "algorithm"] {
            for (number, choice) in choices(kernel, option).into_iter().enumerate() {
                let lengths = if number % 2 == 0 { ["33", "65543"] } else { ["65543", "33"] };
                cases.extend(lengths.map(|length| (option, choice.clone(), length)));
            }
        }
        // Each choice at one of the lengths; at both in a sweep.
        for (option, choice, length) in one_in(3, cases) {
            let mut settings = vec![("length", length)];
            settings.extend(last);
            settings.push((option, choice.as_str()));
            suite.expect_right(kernel, &device, &settings);
        }
    }
}

/// Runs a kernel with options given as flags, and checks it.
pub(crate) fn run(suite: &Suite, device: &Device, command: &str) {
    let mut words = command.split_whitespace();
    let mut workload = suite.named(words.next().expect("a kernel's name")).workload();
    while let (Some(flag), Some(value)) = (words.next(), words.next()) {
        workload
            .set(flag.trim_start_matches("--"), value)
            .unwrap_or_else(|error| panic!("{command}: {error}"));
    }
    let verified = expect_verified(&*workload, device);
    let is_empty = command.contains(" 0 ") || command.ends_with(" 0");
    assert!(is_empty || verified.elements > 0, "{command}: nothing was compared");
}

fn expect_verified(workload: &dyn DynWorkload, device: &Device) -> Verified {
    verified(workload, device).unwrap_or_else(|error| panic!("{workload} on {}: {error}", device.name()))
}

/// Runs commands on two emulated GPUs at several schedules of asynchronous copies.
pub(crate) fn on_emulators(suite: &Suite, commands: &[&str]) {
    for device in emulators(&[Schedule::Eager, Schedule::Latest, Schedule::Random(7)]) {
        commands.iter().for_each(|command| run(suite, &device, command));
    }
}

/// Faults and findings are reported at lines of kernels, not at those of the language or the
/// standard library below them.
pub(crate) fn walk_lines(suite: &Suite) {
    let (mut seen, mut strange) = (0, BTreeMap::new());
    for kernel in suite.kernels {
        let mut chosen = vec![kernel.workload()];
        for spec in kernel.workload().specs() {
            for value in one_in(3, values(&spec)) {
                let mut workload = kernel.workload();
                workload.set(spec.name, &value).expect("it is one of the choices");
                chosen.push(workload);
            }
        }
        for target in ["sm_80", "sm_90a", "sm_100a"] {
            let capability = Capability::for_target(target).expect("it is in the table");
            let device = Device::dry_run(capability).expect("a dry run always starts");
            let stream = device.stream().expect("a stream");
            for workload in chosen.iter().filter(|workload| workload.supports(capability)) {
                let (launched, launches) = device.log_launches(|| {
                    workload.prepare(&Setup::new(&device)).and_then(|mut prepared| prepared.launch(&stream))
                });
                match launched {
                    Ok(_) => {}
                    Err(error) if (suite.is_refusal)(&*error) => continue,
                    Err(error) => panic!("{workload} for {target}: {error}"),
                }
                for launch in launches {
                    let files = launch.ptx.lines().filter(|line| line.trim_start().starts_with(".file"));
                    let folders =
                        ["kernels", "workloads", "lessons"].map(|name| format!("crates/{name}/src/"));
                    for file in files.filter(|file| !folders.iter().any(|folder| file.contains(folder))) {
                        let path = file.rsplit_once(' ').map_or(file, |(_, name)| name);
                        strange.entry(path.to_owned()).or_insert(workload.to_string());
                    }
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 3 * suite.kernels.len(), "{seen} kernels");
    assert!(strange.is_empty(), "{strange:#?}");
}

/// Runs a product of a shape with further options, and checks that every element is right.
pub(crate) fn run_product(
    mut workload: Box<dyn DynWorkload>,
    device: &Device,
    (m, n, k): (u32, u32, u32),
    others: &[(&str, &str)],
) {
    for (name, extent) in [("m", m), ("n", n), ("k", k)] {
        workload.set(name, &extent.to_string()).expect("an extent");
    }
    for (name, value) in others {
        workload.set(name, value).expect("a value");
    }
    let verified = expect_verified(&*workload, device);
    assert_eq!(verified.elements, u64::from(m) * u64::from(n), "{workload}");
}

/// An A100 and an H200 for each schedule.
pub(crate) fn emulators(schedules: &[Schedule]) -> Vec<Device> {
    let on = |name| schedules.iter().map(move |schedule| Device::with_schedule(name, *schedule));
    on("emu:a100").chain(on("emu:h200")).map(|device| device.expect("an emulated device")).collect()
}
