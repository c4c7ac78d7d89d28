//! Walks over kernels that need no list of their options: extents are known by the names of options, and every choice of a kernel is taken
//! in turn.

use std::collections::BTreeMap;

use warpwright::arch::Capability;
use warpwright::emulator::Schedule;
use warpwright::runtime::{Device, Error};
use warpwright_harness::{DynWorkload, Entry, OptionSpec, Setup};
use warpwright_kernels::operations::OperationError;

/// Where something begins or ends.
pub(crate) const LENGTHS: &[u64] = &[0, 1, 31, 32, 33, 1023, (1 << 20) + 7];

/// Options that are extents, and values for each of them; of a kernel's extents the values are taken together.
pub(crate) type Shapes = &'static [(&'static str, &'static [u64])];

/// Tiny, odd, prime, and larger than a tile.
pub(crate) const SHAPES: Shapes = &[
    ("length", &[1, 33, 1021, 9001]),
    ("m", &[1, 37, 130, 67]),
    ("n", &[1, 67, 61, 264]),
    ("k", &[1, 129, 80, 40]),
    ("rows", &[1, 5, 3, 2]),
    ("columns", &[1, 67, 1021, 5003]),
];

pub(crate) const MANY_SHAPES: Shapes = &[
    ("length", &[0, 2, 31, 32, 255, 257, 1024, 2047, 4099, 16_384, 65_537, 300_007]),
    ("m", &[0, 2, 8, 31, 64, 127, 128, 129, 192, 257, 320, 521]),
    ("n", &[0, 3, 16, 31, 64, 129, 256, 127, 192, 263, 200, 384]),
    ("k", &[0, 5, 16, 33, 64, 65, 128, 192, 512, 72, 7, 257]),
    ("rows", &[0, 2, 4, 7, 16, 33, 3, 3, 2, 2, 1, 2]),
    ("columns", &[2, 31, 64, 65, 512, 100, 2048, 4097, 8192, 16_385, 40_000, 65_537]),
];

/// What went right and what went wrong.
#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) ran: usize,
    pub(crate) failures: Vec<String>,
}

impl Walk {
    /// Launches a kernel on a device that checks, unless it refuses these options.
    pub(crate) fn step(&mut self, workload: &dyn DynWorkload, device: &str, schedule: Schedule) {
        match runs_clean(workload, device, schedule) {
            Ok(ran) => self.ran += usize::from(ran),
            Err(failure) => {
                self.failures.push(format!("{} on {device} at {schedule:?}: {failure}", named(workload)));
            }
        }
    }

    pub(crate) fn finish(self) {
        let Self { ran, failures } = self;
        let (count, shown) = (failures.len(), failures[..failures.len().min(12)].join("\n\n"));
        assert!(ran > 0, "nothing ran");
        assert!(failures.is_empty(), "{count} of {} launches are not clean:\n{shown}", ran + count);
    }
}

/// A workload as the command line has it.
fn named(workload: &dyn DynWorkload) -> String {
    format!("{} {}", workload.name(), workload.flags())
}

/// Whether the kernel takes these options; what is wrong with it, if anything is.
fn runs_clean(workload: &dyn DynWorkload, device: &str, schedule: Schedule) -> Result<bool, String> {
    let device = Device::with_schedule(device, schedule)
        .and_then(Device::checked)
        .expect("emulators are always there");
    if !workload.supports(device.properties().capability) {
        return Ok(false);
    }
    // A kernel refuses options in its own words; what the runtime says of a launch is a failure. To prepare, some launch as well.
    let stream = device.stream().expect("a stream");
    let launched = workload.prepare(&Setup::new(&device)).and_then(|mut prepared| {
        prepared.launch(&stream)?;
        Ok(prepared)
    });
    let mut prepared = match launched {
        Ok(prepared) => prepared,
        Err(error) if error.is::<Error>() || is_of_the_runtime(error.downcast_ref()) => {
            return Err(error.to_string());
        }
        Err(_) => return Ok(false),
    };
    prepared.verify().map_err(|error| error.to_string())?;
    Ok(true)
}

/// Whether an operation's error is what the runtime says of a launch. (What it says of instructions that an architecture lacks is a refusal.)
fn is_of_the_runtime(error: Option<&OperationError>) -> bool {
    match error {
        Some(OperationError::Runtime(error)) => !matches!(error, Error::Verify { .. }),
        error => matches!(error, Some(OperationError::Staging(_))),
    }
}

/// A kernel at one of its shapes.
fn shaped(kernel: &Entry, shapes: Shapes, index: usize) -> Option<Box<dyn DynWorkload>> {
    let mut workload = kernel.workload();
    for (name, extents) in shapes {
        if has(kernel, name) {
            // An extent of 0 is no shape of kernels that want one.
            workload.set(name, &extents[index].to_string()).ok()?;
        }
    }
    Some(workload)
}

/// How many shapes are taken of a kernel: one if it has no extents.
fn shapes_of(kernel: &Entry, shapes: Shapes) -> usize {
    if shapes.iter().any(|(name, _)| has(kernel, name)) { shapes[0].1.len() } else { 1 }
}

/// Every kernel at every shape and schedule.
pub(crate) fn walk_shapes(kernels: &[Entry], shapes: Shapes, devices: &[&str], schedules: &[Schedule]) {
    let mut walk = Walk::default();
    for kernel in kernels {
        let before = (walk.ran, walk.failures.len());
        for index in 0..shapes_of(kernel, shapes) {
            let Some(workload) = shaped(kernel, shapes, index) else { continue };
            for device in devices {
                schedules.iter().for_each(|&at| walk.step(&*workload, device, at));
            }
        }
        assert!((walk.ran, walk.failures.len()) != before, "{} ran at no shape", kernel.name());
    }
    walk.finish();
}

/// Every kernel with every value of each of its choices, at one shape.
pub(crate) fn walk_choices(
    kernels: &[Entry],
    shapes: Shapes,
    index: usize,
    devices: &[&str],
    schedules: &[Schedule],
) {
    let mut walk = Walk::default();
    for kernel in kernels {
        for spec in kernel.workload().specs() {
            for choice in values(&spec) {
                let Some(mut workload) = shaped(kernel, shapes, index) else { continue };
                workload.set(spec.name, &choice).expect("a choice of its own");
                for device in devices {
                    schedules.iter().for_each(|&at| walk.step(&*workload, device, at));
                }
            }
        }
    }
    walk.finish();
}

/// Runs a kernel and compares every element of its result; `false` if it refuses these options.
pub(crate) fn is_right(kernel: &Entry, device: &Device, settings: &[(&str, &str)]) -> bool {
    let mut workload = kernel.workload();
    if settings.iter().any(|(name, value)| workload.set(name, value).is_err()) {
        return false;
    }
    let failed = |error| -> ! { panic!("{} on {}: {error}", named(&*workload), device.name()) };
    let mut prepared = match workload.prepare(&Setup::new(device)) {
        Ok(prepared) => prepared,
        // What a kernel refuses, it refuses in its own words; what the runtime says is a failure.
        Err(error) if error.is::<Error>() => failed(error),
        Err(_) => return false,
    };
    let stream = device.stream().unwrap_or_else(|error| failed(error.into()));
    prepared.launch(&stream).unwrap_or_else(|error| failed(error));
    prepared.verify().unwrap_or_else(|error| failed(error));
    true
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

/// Every kernel over elements at every length.
pub(crate) fn walk_lengths(kernels: &[Entry]) {
    for kernel in kernels.iter().filter(|kernel| has(kernel, "length")) {
        for name in ["emu:a100", "emu:h200"] {
            let right = |length: &&u64| {
                is_right(
                    kernel,
                    &Device::named(name).expect("emulators are always there"),
                    &[("length", &length.to_string())],
                )
            };
            let lengths = LENGTHS.iter().filter(right).count();
            // Some kernels refuse a length of 0; none refuses more.
            assert!(lengths >= LENGTHS.len() - 1, "{} took {lengths} lengths", kernel.name());
        }
    }
}

/// Every choice of every kernel over elements; of a ladder, on its last step, which has all types.
pub(crate) fn walk_elements(kernels: &[Entry]) {
    let device = Device::named("emu:h200").expect("emulators are always there");
    for kernel in kernels.iter().filter(|kernel| has(kernel, "length")) {
        let ladder = kernel.workload().ladder();
        let last = ladder.as_ref().and_then(|ladder| Some((ladder.option, *ladder.steps.last()?)));
        for option in ["type", "by", "kind", "step", "of", "values", "algorithm"] {
            for choice in choices(kernel, option) {
                for length in ["33", "65543"] {
                    let mut settings = vec![("length", length)];
                    settings.extend(last);
                    settings.push((option, choice.as_str()));
                    assert!(is_right(kernel, &device, &settings), "{} refused {settings:?}", kernel.name());
                }
            }
        }
    }
}

/// Runs a kernel with options given as flags, and checks it.
pub(crate) fn run(kernels: &[Entry], device: &Device, command: &str) {
    let mut words = command.split_whitespace();
    let name = words.next().expect("a kernel's name");
    let found = kernels.iter().find(|kernel| kernel.name() == name);
    let mut workload = found.unwrap_or_else(|| panic!("there is no kernel {name}")).workload();
    while let (Some(flag), Some(value)) = (words.next(), words.next()) {
        workload
            .set(flag.trim_start_matches("--"), value)
            .unwrap_or_else(|error| panic!("{command}: {error}"));
    }
    let failed = |error| -> ! { panic!("{command} on {}: {error}", device.name()) };
    let mut prepared = workload.prepare(&Setup::new(device)).unwrap_or_else(|error| failed(error));
    let stream = device.stream().unwrap_or_else(|error| failed(error.into()));
    prepared.launch(&stream).unwrap_or_else(|error| failed(error));
    let verified = prepared.verify().unwrap_or_else(|error| failed(error));
    let is_empty = command.contains(" 0 ") || command.ends_with(" 0");
    assert!(is_empty || verified.elements > 0, "{command}: nothing was compared");
}

/// Runs commands on two emulated GPUs at several schedules of asynchronous copies.
pub(crate) fn on_emulators(kernels: &[Entry], commands: &[&str]) {
    for name in ["emu:a100", "emu:h200"] {
        for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(7)] {
            let device = Device::with_schedule(name, schedule).expect("emulators are always there");
            commands.iter().for_each(|command| run(kernels, &device, command));
        }
    }
}

/// Faults and findings are told at lines of kernels, not at those of the language or the standard library beneath them.
pub(crate) fn walk_lines(kernels: &[Entry]) {
    let (mut seen, mut strange) = (0, BTreeMap::new());
    for kernel in kernels {
        let mut chosen = vec![kernel.workload()];
        for spec in kernel.workload().specs() {
            for value in values(&spec) {
                let mut workload = kernel.workload();
                workload.set(spec.name, &value).expect("it is one of the choices");
                chosen.push(workload);
            }
        }
        for target in ["sm_80", "sm_90a", "sm_100a"] {
            let capability = Capability::for_target(target).expect("it is in the table");
            let device = Device::dry_run(capability).expect("a dry run always starts");
            let stream = device.stream().expect("a stream");
            for workload in &chosen {
                let (launched, launches) = device.log_launches(|| {
                    workload.prepare(&Setup::new(&device)).and_then(|mut prepared| prepared.launch(&stream))
                });
                if launched.is_err() {
                    continue;
                }
                for launch in launches {
                    let files = launch.ptx.lines().filter(|line| line.trim_start().starts_with(".file"));
                    for file in files.filter(|file| {
                        !file.contains("crates/kernels/src/") && !file.contains("crates/lessons/src/")
                    }) {
                        let path = file.rsplit_once(' ').map_or(file, |(_, name)| name);
                        strange.entry(path.to_owned()).or_insert(named(&**workload));
                    }
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 3 * kernels.len(), "{seen} kernels");
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
    let failed = |error| -> ! { panic!("{workload} on {}: {error}", device.name()) };
    let mut prepared = workload.prepare(&Setup::new(device)).unwrap_or_else(|error| failed(error));
    let stream = device.stream().unwrap_or_else(|error| failed(error.into()));
    prepared.launch(&stream).unwrap_or_else(|error| failed(error));
    let verified = prepared.verify().unwrap_or_else(|error| failed(error));
    assert_eq!(verified.elements, u64::from(m) * u64::from(n), "{workload}");
}

/// An A100 and an H200 for each schedule.
pub(crate) fn emulators(schedules: &[Schedule]) -> Vec<Device> {
    let on = |name| schedules.iter().map(move |schedule| Device::with_schedule(name, *schedule));
    on("emu:a100").chain(on("emu:h200")).map(|device| device.expect("emulators are always there")).collect()
}
