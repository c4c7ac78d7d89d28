//! What a fault is, and how its twins are tried.

use std::collections::BTreeSet;
use std::ops::Range;

use warpwright::arch::Arch;
use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::{Device, Error, Extents, Finding, Label, Schedule, SourceFiles, render_causes};

use crate::faults::reports;

/// Which of a kernel's two texts is staged.
#[derive(Clone, Copy)]
pub(crate) struct Twin {
    /// Whether the fault is put right.
    pub(crate) mended: bool,
}

impl Twin {
    /// A number that is wrong in the broken kernel.
    pub(crate) fn number(self, broken: u32, mended: u32) -> u32 {
        if self.mended { mended } else { broken }
    }
}

/// What staging a kernel gives.
pub(crate) type Staged<A> = Result<Kernel<A>, StagingErrors>;

/// A kernel with something wrong in it.
pub(crate) struct Fault {
    /// The name of the kernel's function.
    pub(crate) name: &'static str,
    /// The rows of the catalog.
    pub(crate) rows: &'static [u32],
    /// The code of the finding.
    pub(crate) code: &'static str,
    /// What is found instead where the schedule lets other things happen first.
    pub(crate) otherwise: Option<&'static str>,
    /// The GPU that is emulated.
    pub(crate) gpu: &'static str,
    /// The file that the kernel is in.
    pub(crate) file: &'static str,
    /// Stages a twin, runs it, and asserts that the result is right if it ran to its end.
    pub(crate) run: fn(&Device, Twin) -> Result<(), Error>,
}

/// The kernels of a module: `name: rows, code, how a twin is run;`, on an H200 if no other GPU is
/// named. Each becomes a test.
macro_rules! faults {
    (@code) => { None };
    (@code $code:literal) => { Some($code) };
    (on $gpu:literal; $($name:ident: $rows:expr, $code:literal $(or $otherwise:literal)?, $run:expr;)*) => {
        pub(crate) const FAULTS: &[crate::faults::fault::Fault] = &[$(crate::faults::fault::Fault {
            name: stringify!($name),
            rows: &$rows,
            code: $code,
            gpu: $gpu,
            file: file!(),
            otherwise: crate::faults::fault::faults!(@code $($otherwise)?),
            run: |device, twin| $run(device, twin.$name()),
        }),*];

        $(
            #[test]
            fn $name() {
                FAULTS.iter().find(|fault| fault.name == stringify!($name)).expect("it is listed").check();
            }
        )*
    };
    ($($all:tt)*) => { crate::faults::fault::faults! { on "h200"; $($all)* } };
}
pub(crate) use faults;

const SCHEDULES: [Schedule; 6] = [
    Schedule::Eager,
    Schedule::Latest,
    Schedule::Random(1),
    Schedule::Random(2),
    Schedule::Random(3),
    Schedule::Random(4),
];

/// An emulated GPU under a schedule, with every checker on. On one thread of the host, which CTA
/// comes last is always the same.
fn checked(gpu: &str, schedule: Schedule) -> Device {
    let arch = Arch::named(gpu).expect("it is known");
    let device = Device::emulated_on_one_thread(arch, schedule).expect("the emulator always starts");
    device.checked().expect("an emulator checks")
}

impl Fault {
    /// Both twins, at every schedule.
    pub(crate) fn check(&self) {
        for schedule in SCHEDULES {
            if let Err(error) = (self.run)(&checked(self.gpu, schedule), Twin { mended: true }) {
                panic!("the mended `{}` at {schedule:?}:\n{error}", self.name);
            }
        }
        let kernel = KernelText::of(self.file, self.name);
        let (mut told, mut told_otherwise) = (None, None);
        for schedule in SCHEDULES {
            let findings = match (self.run)(&checked(self.gpu, schedule), Twin { mended: false }) {
                Err(error @ (Error::Findings { .. } | Error::Fault { .. })) => error.findings(),
                Err(error) => panic!("the broken `{}` at {schedule:?}:\n{error}", self.name),
                Ok(()) => panic!("nothing is wrong with the broken `{}` at {schedule:?}", self.name),
            };
            let is_found = |code: &str, marks: &[u32]| {
                findings.iter().any(|finding| finding.kind.code() == code && kernel.places(finding) == marks)
            };
            let shown = kernel.shown(&findings);
            if is_found(self.code, &kernel.marked) {
                told.get_or_insert(shown);
            } else if self.otherwise.is_some_and(|code| is_found(code, &kernel.marked_otherwise)) {
                told_otherwise.get_or_insert(shown);
            } else {
                panic!(
                    "no `{}` at {:?} of `{}` at {schedule:?}, but:\n{shown}",
                    self.code, kernel.marked, self.name
                );
            }
        }
        let told = told.expect("what was to be found is, at some schedule");
        reports::expect(self.file, self.name, &told);
        if self.otherwise.is_some() {
            let told = told_otherwise.expect("what is found otherwise is, at some schedule");
            reports::expect(self.file, &format!("{}_otherwise", self.name), &told);
        }
    }
}

/// The lines of a function that are marked, in its file.
pub(crate) fn marked_lines(file: &'static str, name: &str) -> Vec<u32> {
    KernelText::of(file, name).marked
}

fn read(file: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../").to_owned() + file;
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text of a kernel in its file, from its documentation to its closing brace.
struct KernelText {
    file: &'static str,
    text: String,
    /// The lines in the file, from 1.
    lines: Range<u32>,
    /// The lines marked (1), (2), ..., in the file, in their order.
    marked: Vec<u32>,
    /// Those marked (a), (b), ...
    marked_otherwise: Vec<u32>,
}

impl KernelText {
    fn of(file: &'static str, name: &str) -> Self {
        let text = read(file);
        let lines: Vec<&str> = text.lines().collect();
        let head = format!("fn {name}(");
        let signature =
            lines.iter().position(|line| line.contains(&head)).expect("the kernel is in its file");
        let is_above = |line: &&&str| line.trim_start().starts_with("///") || line.trim() == "#[kernel]";
        let start = signature - lines[..signature].iter().rev().take_while(is_above).count();
        let end =
            signature + lines[signature..].iter().position(|line| *line == "    }").expect("it ends") + 1;
        let body = &lines[start..end];
        let lines_of = |marks: &[&str]| -> Vec<u32> {
            let line_is_marked = |line: &str| {
                line.split_once("// ").is_some_and(|(_, note)| marks.iter().any(|mark| note.contains(mark)))
            };
            let marked = body.iter().zip(start as u32 + 1..).filter(|(line, _)| line_is_marked(line));
            marked.map(|(_, number)| number).collect()
        };
        let (marked, marked_otherwise) = (lines_of(&["(1)", "(2)", "(3)"]), lines_of(&["(a)", "(b)"]));
        assert!(!marked.is_empty(), "`{name}` has no line marked (1)");
        let text =
            body.iter().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
        Self { file, text, lines: start as u32 + 1..end as u32 + 1, marked, marked_otherwise }
    }

    /// The lines of kernels in the file that a finding points at, in their order.
    fn places(&self, finding: &Finding) -> Vec<u32> {
        let line = |label: &Label| label.source.as_ref().map_or(0, |source| source.line);
        // Lines of the host are no instructions.
        let labels = finding.labels.iter().filter(|label| !label.ptx_text.is_empty());
        let lines: BTreeSet<u32> = labels.map(line).collect();
        lines.into_iter().collect()
    }

    /// The lines around a line of the file up to the next blank ones, and how many come before
    /// them.
    fn paragraph(&self, line: u32) -> (u32, String) {
        let text = read(self.file);
        let lines: Vec<&str> = text.lines().collect();
        let is_blank = |line: &&str| line.trim().is_empty();
        let (before, after) = lines.split_at(line as usize - 1);
        let start = before.iter().rposition(is_blank).map_or(0, |blank| blank + 1);
        let end = after.iter().position(is_blank).map_or(lines.len(), |blank| before.len() + blank);
        (start as u32, lines[start..end].iter().map(|line| format!("{line}\n")).collect())
    }

    /// The findings as they are shown, as if the kernel were a file of its own: so its place in the
    /// real one does not matter. So is a function that it calls.
    fn shown(&self, findings: &[Finding]) -> String {
        const ALONE: &str = "kernel.rs";
        const CALLED: &str = "called.rs";
        let mut files = SourceFiles::here().with(ALONE, self.text.clone());
        let mut findings = findings.to_vec();
        for finding in &mut findings {
            for label in finding.labels.iter_mut().chain(&mut finding.memory) {
                let Some(source) = label.source.as_mut().filter(|source| source.file == self.file) else {
                    continue;
                };
                if self.lines.contains(&source.line) {
                    source.file = ALONE.to_owned();
                    source.line = source.line - self.lines.start + 1;
                    source.column = source.column.saturating_sub(4);
                } else {
                    let (start, text) = self.paragraph(source.line);
                    source.file = CALLED.to_owned();
                    source.line -= start;
                    files = files.with(CALLED, text);
                }
            }
            for note in &mut finding.notes {
                for line in self.lines.clone() {
                    let (far, near) = (format!("{}:{line}:", self.file), line - self.lines.start + 1);
                    *note = note.replace(&far, &format!("{ALONE}:{near}:"));
                }
                // Lines of a function that it calls.
                let far = format!("{}:", self.file);
                while let Some((before, after)) = note.split_once(&far) {
                    let (line, rest) = after.split_once(':').expect("a line and a column");
                    let line: u32 = line.parse().expect("a line");
                    *note = format!("{before}{CALLED}:{}:{rest}", line - self.paragraph(line).0);
                }
            }
        }
        let shown = render_causes(&findings, &mut files, false);
        shown.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n\n")
    }
}

/// A kernel from one array to another.
pub(crate) type FromArrayToArray = Staged<(In<u32>, Out<u32>)>;

/// What the input of [`run`] holds.
pub(crate) fn input(i: u32) -> u32 {
    i * 37 % 1009
}

/// How a kernel from one array to another is run: CTAs, threads, and what it should compute.
pub(crate) fn run(
    grid: impl Into<Extents>,
    threads: u32,
    expected: impl Fn(u32) -> u32,
) -> impl FnOnce(&Device, FromArrayToArray) -> Result<(), Error> {
    let grid = grid.into();
    move |device, kernel| {
        let kernel = device.compile(&kernel.expect("it is staged"))?;
        let count = threads * grid.0.iter().product::<u32>();
        let given = device.buffer_from(&(0..count).map(input).collect::<Vec<_>>())?;
        let mut output = device.zeros::<u32>(count as usize)?;
        let stream = device.stream()?;
        kernel.launch(&stream, kernel.shape(grid).block(threads), (&given, &mut output))?;
        assert_eq!(output.to_vec()?, (0..count).map(expected).collect::<Vec<_>>());
        Ok(())
    }
}
