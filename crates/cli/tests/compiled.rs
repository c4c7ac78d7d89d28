//! PTX that other compilers wrote (`crates/ptx/tests/compiled`), run by `warpwright exec` on the emulator, gives what NumPy gave.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use half::{bf16, f16};
use serde_json::Value;

/// A launch of one text under one schedule.
struct Run {
    case: PathBuf,
    ptx: String,
    device: &'static str,
    schedule: &'static str,
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx/tests/compiled")
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every launch for every text it applies to. Where copies are asynchronous the schedule matters: those run under several.
fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for entry in fs::read_dir(corpus().join("cases")).expect("the corpus") {
        let case = entry.expect("an entry").path();
        let launch = json(&case.join("LAUNCH.json"));
        let also = json(&case.join("EXPECTED.json"))["also"].clone();
        let texts = also.as_array().expect("a list of texts");
        for ptx in std::iter::once(&launch["ptx"]).chain(texts) {
            let ptx = ptx.as_str().expect("a path").to_owned();
            let text = fs::read_to_string(case.join(&ptx)).expect("the text");
            let schedules: &[&str] = if text.contains("cp.async") || text.contains("tcgen05") {
                &["eager", "latest", "random:1"]
            } else {
                &["latest"]
            };
            runs.extend(schedules.iter().map(|schedule| Run {
                case: case.clone(),
                ptx: ptx.clone(),
                device: if text.contains(".target sm_100") { "emu:b200" } else { "emu:h200" },
                schedule,
            }));
        }
    }
    runs
}

/// The elements' bytes of a NumPy file.
fn array(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[10 + header..].to_vec()
}

/// An element's bytes as a number.
type Read = fn(&[u8]) -> f64;

/// The size of an element, and how to read one as a float if it is one.
fn element(dtype: &str) -> (usize, Option<Read>) {
    match dtype {
        "f64" => (8, Some(|b| f64::from_le_bytes(b.try_into().expect("8 bytes")))),
        "f32" => (4, Some(|b| f32::from_le_bytes(b.try_into().expect("4 bytes")).into())),
        "f16" => (2, Some(|b| f16::from_le_bytes(b.try_into().expect("2 bytes")).into())),
        "bf16" => (2, Some(|b| bf16::from_le_bytes(b.try_into().expect("2 bytes")).into())),
        "u64" | "s64" => (8, None),
        "u32" | "s32" => (4, None),
        "u16" | "s16" => (2, None),
        "u8" | "s8" | "e4m3" | "e5m2" => (1, None),
        other => panic!("the corpus has no dtype {other}"),
    }
}

/// Where a saved buffer is not what it must be.
fn difference(saved: &[u8], expected: &[u8], expectation: &Value) -> Option<String> {
    let dtype = expectation["dtype"].as_str().expect("a dtype");
    let bound = |name: &str| expectation[name].as_f64().expect("a tolerance");
    let (rtol, atol) = (bound("rtol"), bound("atol"));
    let (size, float) = element(dtype);
    if saved.len() != expected.len() {
        return Some(format!("{} bytes, not {}", saved.len(), expected.len()));
    }
    let pairs = saved.chunks_exact(size).zip(expected.chunks_exact(size));
    let wrong = pairs.enumerate().find(|(_, (got, want))| match float {
        None => got != want,
        Some(read) => {
            let (got, want) = (read(got), read(want));
            let equal = got == want || (got.is_nan() && want.is_nan());
            // NaN on one side compares as false, and so as wrong.
            !(equal || (got - want).abs() <= atol + rtol * want.abs())
        }
    });
    wrong.map(|(index, (got, want))| match float {
        Some(read) => format!("element {index} is {}, not {}", read(got), read(want)),
        None => format!("element {index} is {got:02x?}, not {want:02x?}"),
    })
}

impl Run {
    fn name(&self) -> String {
        let file = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
        format!("{} of {} under {}", file(&self.case), file(Path::new(&self.ptx)), self.schedule)
    }

    /// What went wrong, if anything.
    fn complaint(&self, directory: &Path) -> Option<String> {
        let mut launch = json(&self.case.join("LAUNCH.json"));
        let ptx = fs::canonicalize(self.case.join(&self.ptx)).expect("the text");
        launch["ptx"] = Value::from(ptx.to_str().expect("a path in UTF-8"));
        for argument in launch["args"].as_array_mut().expect("a list") {
            if let Some(given) = argument.pointer_mut("/buffer/init/npy") {
                let path = self.case.join(given.as_str().expect("a path"));
                *given = Value::from(path.to_str().expect("a path in UTF-8"));
            }
        }
        let file = directory.join("LAUNCH.json");
        fs::write(&file, launch.to_string()).expect("writable");
        let done = Command::new(env!("CARGO_BIN_EXE_warpwright"))
            .arg("exec")
            .arg(&file)
            .args(["--device", self.device, "--schedule", self.schedule])
            .env_remove("WARPWRIGHT_DEVICE")
            .output()
            .expect("the command starts");
        if !done.status.success() {
            return Some(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        let expectations = json(&self.case.join("EXPECTED.json"));
        let buffers = expectations["buffers"].as_object().expect("the saved buffers");
        buffers.iter().find_map(|(saved, expectation)| {
            let expected = array(&self.case.join(expectation["equals"].as_str().expect("a path")));
            difference(&array(&directory.join(saved)), &expected, expectation)
                .map(|difference| format!("{saved}: {difference}"))
        })
    }
}

#[test]
fn programs_of_other_compilers_give_what_numpy_gives() {
    let runs = runs();
    assert!(runs.len() > 200, "the corpus has {} runs", runs.len());
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
