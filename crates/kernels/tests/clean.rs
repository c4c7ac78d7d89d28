//! The checkers find nothing in the library: every kernel, at shapes that fill no tile, at every schedule.
//!
//! The walk over the registry needs no list of kernels: shapes are told by the names of options, and every choice of a kernel is
//! taken in turn. `cargo test -p warpwright-kernels --test it clean -- --ignored` takes many more shapes, seeds and architectures.

use warpwright::emulator::Schedule;
use warpwright::runtime::{Device, Error};
use warpwright_kernels::operations::OperationError;
use warpwright_kernels::registry::{self, LibraryKernel, OptionKind, Options};

/// Options that are extents, and values for each of them; of a kernel's extents the values are taken together.
type Shapes = &'static [(&'static str, &'static [u64])];

/// Tiny, odd, prime, and larger than a tile.
const SHAPES: Shapes = &[
    ("length", &[1, 33, 1021, 9001]),
    ("m", &[1, 37, 130, 67]),
    ("n", &[1, 67, 61, 264]),
    ("k", &[1, 129, 80, 40]),
    ("rows", &[1, 5, 3, 2]),
    ("columns", &[1, 67, 1021, 5003]),
];

const MANY_SHAPES: Shapes = &[
    ("length", &[0, 2, 31, 32, 255, 257, 1024, 2047, 4099, 16_384, 65_537, 300_007]),
    ("m", &[0, 2, 8, 31, 64, 127, 128, 129, 192, 257, 320, 521]),
    ("n", &[0, 3, 16, 31, 64, 129, 256, 127, 192, 263, 200, 384]),
    ("k", &[0, 5, 16, 33, 64, 65, 128, 192, 512, 72, 7, 257]),
    ("rows", &[0, 2, 4, 7, 16, 33, 3, 3, 2, 2, 1, 2]),
    ("columns", &[2, 31, 64, 65, 512, 100, 2048, 4097, 8192, 16_385, 40_000, 65_537]),
];

/// What went right and what went wrong.
#[derive(Default)]
struct Walk {
    ran: usize,
    failures: Vec<String>,
}

impl Walk {
    /// Launches a kernel on a device that checks, unless it refuses these options.
    fn step(&mut self, kernel: &dyn LibraryKernel, options: &Options, device: &str, schedule: Schedule) {
        match runs_clean(kernel, options, device, schedule) {
            Ok(ran) => self.ran += usize::from(ran),
            Err(failure) => {
                self.failures
                    .push(format!("{} {options} on {device} at {schedule:?}: {failure}", kernel.name()));
            }
        }
    }

    fn finish(self) {
        let Self { ran, failures } = self;
        let (count, shown) = (failures.len(), failures[..failures.len().min(12)].join("\n\n"));
        assert!(ran > 0, "nothing ran");
        assert!(failures.is_empty(), "{count} of {} launches are not clean:\n{shown}", ran + count);
    }
}

/// Whether the kernel takes these options; what is wrong with it, if anything is.
fn runs_clean(
    kernel: &dyn LibraryKernel,
    options: &Options,
    device: &str,
    schedule: Schedule,
) -> Result<bool, String> {
    let device = Device::with_schedule(device, schedule)
        .and_then(Device::checked)
        .expect("emulators are always there");
    if !kernel.applies_to(device.properties().capability) {
        return Ok(false);
    }
    // A kernel refuses options in its own words; what the runtime says of a launch is a failure. To prepare, some launch as well.
    let stream = device.stream().expect("a stream");
    let launched = kernel.prepare(&device, options).and_then(|mut prepared| {
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

/// A kernel's options at one of its shapes.
fn shaped(kernel: &dyn LibraryKernel, shapes: Shapes, index: usize) -> Option<Options> {
    let mut options = Options::defaults(kernel.options());
    for (name, extents) in shapes {
        if kernel.options().iter().any(|spec| spec.name == *name) {
            // An extent of 0 is no shape of kernels that want one.
            options.set(name, &extents[index].to_string()).ok()?;
        }
    }
    Some(options)
}

/// How many shapes are taken of a kernel: one if it has no extents.
fn shapes_of(kernel: &dyn LibraryKernel, shapes: Shapes) -> usize {
    let has_extent = kernel.options().iter().any(|spec| shapes.iter().any(|(name, _)| *name == spec.name));
    if has_extent { shapes[0].1.len() } else { 1 }
}

/// Every kernel at every shape and schedule.
fn walk_shapes(shapes: Shapes, devices: &[&str], schedules: &[Schedule]) {
    let mut walk = Walk::default();
    for kernel in registry::all() {
        let before = (walk.ran, walk.failures.len());
        for index in 0..shapes_of(*kernel, shapes) {
            let Some(options) = shaped(*kernel, shapes, index) else { continue };
            for device in devices {
                schedules.iter().for_each(|&at| walk.step(*kernel, &options, device, at));
            }
        }
        assert!((walk.ran, walk.failures.len()) != before, "{} ran at no shape", kernel.name());
    }
    walk.finish();
}

/// Every kernel with every value of each of its choices, at one shape.
fn walk_choices(shapes: Shapes, index: usize, devices: &[&str], schedules: &[Schedule]) {
    let mut walk = Walk::default();
    for kernel in registry::all() {
        for spec in kernel.options() {
            let OptionKind::Choice(choices) = spec.kind else { continue };
            for choice in choices {
                let Some(mut options) = shaped(*kernel, shapes, index) else { continue };
                options.set(spec.name, choice).expect("a choice of its own");
                for device in devices {
                    schedules.iter().for_each(|&at| walk.step(*kernel, &options, device, at));
                }
            }
        }
    }
    walk.finish();
}

#[test]
fn every_kernel_checks_clean_at_every_schedule() {
    walk_shapes(SHAPES, &["emu:h200"], &[Schedule::Eager, Schedule::Latest, Schedule::Random(3)]);
}

#[test]
fn every_choice_checks_clean() {
    walk_choices(SHAPES, 1, &["emu:h200"], &[Schedule::Random(5)]);
    walk_choices(SHAPES, 3, &["emu:a100"], &[Schedule::Latest]);
}

/// Clusters that go from row to row, at every schedule of copies and of messages between CTAs.
#[test]
fn rows_in_rings_check_clean() {
    let mut walk = Walk::default();
    for kernel in registry::all() {
        let has = |name| kernel.options().iter().any(|spec| spec.name == name);
        for (turnover, stages) in
            [("stay", "0"), ("ring", "1"), ("ring", "2"), ("stagger", "3"), ("stagger", "4")]
        {
            if !has("turnover") {
                continue;
            }
            let mut options = Options::defaults(kernel.options());
            let settings =
                [("rows", "13"), ("columns", "1032"), ("threads", "64"), ("ctas", "3"), ("clusters", "2")];
            for (name, value) in settings.iter().chain(&[("turnover", turnover), ("stages", stages)]) {
                options.set(name, value).expect("an option of rows");
            }
            for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(23), Schedule::Random(24)] {
                walk.step(*kernel, &options, "emu:h200", schedule);
            }
        }
    }
    assert_eq!(walk.ran + walk.failures.len(), 6 * 5 * 4, "a kernel refused");
    walk.finish();
}

/// Rows that the whole grid shares, and words between its CTAs in global memory: enough rows for each place to be used again.
#[test]
fn spread_rows_check_clean() {
    let mut walk = Walk::default();
    for kernel in registry::all() {
        if !kernel.options().iter().any(|spec| spec.name == "turnover") {
            continue;
        }
        for (threads, rows) in [("32", "37"), ("64", "71"), ("512", "13")] {
            let mut options = Options::defaults(kernel.options());
            let settings = [
                ("columns", "4000"),
                ("ctas", "32"),
                ("turnover", "spread"),
                ("threads", threads),
                ("rows", rows),
            ];
            for (name, value) in settings {
                options.set(name, value).expect("an option of rows");
            }
            for schedule in [Schedule::Latest, Schedule::Random(29)] {
                walk.step(*kernel, &options, "emu:h200", schedule);
            }
        }
    }
    assert_eq!(walk.ran + walk.failures.len(), 6 * 3 * 2, "a kernel refused");
    walk.finish();
}

#[test]
#[ignore = "minutes long: many shapes, seeds and architectures"]
fn every_kernel_checks_clean_at_many_shapes() {
    let seeds = (11..15).map(Schedule::Random);
    let schedules: Vec<_> = [Schedule::Eager, Schedule::Latest].into_iter().chain(seeds).collect();
    walk_shapes(MANY_SHAPES, &["emu:a100", "emu:h200"], &schedules);
}

#[test]
#[ignore = "minutes long: every choice at many shapes"]
fn every_choice_checks_clean_at_many_shapes() {
    for index in 0..MANY_SHAPES[0].1.len() {
        walk_choices(
            MANY_SHAPES,
            index,
            &["emu:a100", "emu:h200"],
            &[Schedule::Latest, Schedule::Random(17)],
        );
    }
}
