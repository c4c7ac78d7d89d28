//! PTX that other compilers wrote (the corpus), run by `warpwright exec` on the emulator, gives
//! what NumPy gave.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use warpwright_testing::corpus::Case;

/// A launch of one text under one schedule.
struct Run<'a> {
    case: &'a Case,
    ptx: PathBuf,
    device: &'static str,
    schedule: &'static str,
}

/// Every launch. One that the emulator's own tests can run, they run for every text and schedule,
/// under the checkers: here its first text at one schedule shows that the command reads it. One
/// that needs the runtime is run for every text, and under several schedules where they matter.
fn runs(cases: &[Case]) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    for case in cases {
        let texts = case.texts();
        let count = if case.needs_runtime() { texts.len() } else { 1 };
        for ptx in texts.into_iter().take(count) {
            let text = fs::read_to_string(&ptx).expect("the text");
            let schedules: &[&str] = if case.needs_runtime() && Case::is_asynchronous(&text) {
                &["eager", "latest", "random:1"]
            } else {
                &["latest"]
            };
            runs.extend(schedules.iter().map(|schedule| Run {
                case,
                ptx: ptx.clone(),
                device: if text.contains(".target sm_100") { "emu:b200" } else { "emu:h200" },
                schedule,
            }));
        }
    }
    runs
}

impl Run<'_> {
    fn name(&self) -> String {
        let file = self.ptx.file_name().expect("a name").to_string_lossy();
        format!("{} of {file} under {}", self.case.name, self.schedule)
    }

    /// What went wrong, if anything.
    fn complaint(&self, directory: &Path) -> Option<String> {
        let done = Command::new(env!("CARGO_BIN_EXE_warpwright"))
            .arg("exec")
            .arg(self.case.write_launch(&self.ptx, directory))
            .args(["--device", self.device, "--schedule", self.schedule])
            .env_remove("WARPWRIGHT_DEVICE")
            .output()
            .expect("the command starts");
        if !done.status.success() {
            return Some(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        self.case.difference(directory)
    }
}

#[test]
fn programs_of_other_compilers_give_what_numpy_gives() {
    let cases = Case::all();
    let runs = runs(&cases);
    assert!(runs.len() > 175, "the corpus has {} runs", runs.len());
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(String::new());
    let root = std::env::temp_dir().join(format!("warpwright-compiled-{}", std::process::id()));
    thread::scope(|scope| {
        for worker in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (runs, next, complaints) = (&runs, &next, &complaints);
            let directory = root.join(worker.to_string());
            fs::create_dir_all(&directory).expect("temporary files can be made");
            scope.spawn(move || {
                while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(complaint) = run.complaint(&directory) {
                        let mut all = complaints.lock().expect("no other worker panicked");
                        writeln!(all, "{}: {complaint}", run.name()).expect("strings take text");
                    }
                }
            });
        }
    });
    fs::remove_dir_all(&root).expect("its own files");
    let complaints = complaints.into_inner().expect("no worker panicked");
    assert!(complaints.is_empty(), "{complaints}");
}
