//! The PTX corpus: programs that NVRTC and Triton compiled, with launches, inputs, and the results
//! of NumPy.
//!
//! `corpus/make.py` makes the files from `corpus/sources` and `corpus/programs`; `corpus.tar.gz`
//! holds them:
//!
//! | file | contents |
//! |---|---|
//! | `ptx/SOURCE.VARIANT.ptx` | a compiler's text of one source for one target and one set of options |
//! | `cases/PROGRAM/LAUNCH.json` | a launch as `warpwright exec` reads it |
//! | `cases/PROGRAM/EXPECTED.json` | for each saved buffer: the file it equals, its type, the tolerance; other texts for the launch |
//! | `cases/PROGRAM/*.npy` | inputs and expected outputs |

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use half::{bf16, f16};
use serde_json::Value;

use crate::archive as archives;

/// A launch of the corpus: its folder, the texts that it applies to, and what it must give.
pub struct Case {
    /// The name of the program.
    pub name: String,
    /// The folder of the case.
    pub folder: PathBuf,
    /// `LAUNCH.json`.
    pub launch: Value,
    /// `EXPECTED.json`.
    pub expected: Value,
}

/// The folders in the archive.
pub const FOLDERS: [&str; 2] = ["cases", "ptx"];

/// The path of the archive.
pub fn archive() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus.tar.gz")
}

/// A folder with the files of the archive. The first test program that needs it extracts it, beside
/// the test programs.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        fs::read(archive()).expect("the archive is readable").hash(&mut hasher);
        let program = std::env::current_exe().expect("a program knows its path");
        let beside = program.parent().expect("a program lies in a folder");
        let folder = beside.join(format!("corpus-{:016x}", hasher.finish()));
        if !folder.is_dir() {
            let partial = beside.join(format!("corpus-{}", std::process::id()));
            archives::extract(&archive(), &partial).expect("the archive can be extracted");
            // Another program may have been quicker; the files are the same.
            if fs::rename(&partial, &folder).is_err() {
                fs::remove_dir_all(&partial).expect("the partial folder can be removed");
            }
        }
        folder
    })
}

/// The path and the text of each PTX file, by name.
pub fn texts() -> Vec<(PathBuf, String)> {
    let files = fs::read_dir(folder().join("ptx")).expect("the corpus has texts");
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let read =
        |path: PathBuf| fs::read_to_string(&path).map(|text| (path, text)).expect("a text is readable");
    paths.into_iter().map(read).collect()
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Case {
    /// All of them, by name.
    pub fn all() -> Vec<Self> {
        let folders = fs::read_dir(folder().join("cases")).expect("the corpus has cases");
        let mut cases: Vec<Self> = folders.map(|folder| Self::of(folder.expect("an entry").path())).collect();
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        cases
    }

    fn of(folder: PathBuf) -> Self {
        Self {
            name: folder.file_name().expect("a name").to_string_lossy().into_owned(),
            launch: json(&folder.join("LAUNCH.json")),
            expected: json(&folder.join("EXPECTED.json")),
            folder,
        }
    }

    /// Whether arguments of the launch hold tensor maps, which the runtime encodes: without it the
    /// launch cannot be run.
    pub fn needs_runtime(&self) -> bool {
        let has_maps = |argument: &Value| !argument["tensor_map"].is_null() || !argument["struct"].is_null();
        self.launch["args"].as_array().is_some_and(|arguments| arguments.iter().any(has_maps))
    }

    /// Whether a text's copies or multiplies are asynchronous, so that schedules matter to it.
    pub fn is_asynchronous(text: &str) -> bool {
        text.contains("cp.async") || text.contains("tcgen05")
    }

    /// The paths of the texts that the launch applies to.
    pub fn texts(&self) -> Vec<PathBuf> {
        let also = self.expected["also"].as_array().expect("a list of texts");
        let texts = std::iter::once(&self.launch["ptx"]).chain(also);
        texts.map(|text| self.folder.join(text.as_str().expect("a path"))).collect()
    }

    /// Writes the launch of a text into a directory; the path of its file.
    pub fn write_launch(&self, ptx: &Path, directory: &Path) -> PathBuf {
        let mut launch = self.launch.clone();
        let ptx = fs::canonicalize(ptx).expect("the text");
        launch["ptx"] = Value::from(ptx.to_str().expect("a path in UTF-8"));
        for argument in launch["args"].as_array_mut().expect("a list") {
            if let Some(given) = argument.pointer_mut("/buffer/init/npy") {
                let path = self.folder.join(given.as_str().expect("a path"));
                *given = Value::from(path.to_str().expect("a path in UTF-8"));
            }
        }
        let file = directory.join("LAUNCH.json");
        fs::write(&file, launch.to_string()).expect("writable");
        file
    }

    /// Where what a launch saved in a directory is not what it must be.
    pub fn difference(&self, directory: &Path) -> Option<String> {
        let buffers = self.expected["buffers"].as_object().expect("the saved buffers");
        buffers.iter().find_map(|(saved, expectation)| {
            let expected = array(&self.folder.join(expectation["equals"].as_str().expect("a path")));
            difference(&array(&directory.join(saved)), &expected, expectation)
                .map(|difference| format!("{saved}: {difference}"))
        })
    }
}

/// The elements' bytes of a NumPy file.
pub fn array(path: &Path) -> Vec<u8> {
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

/// Where a saved buffer is not what `EXPECTED.json` expects: integers and bytes are equal, floats
/// within the tolerance.
pub fn difference(saved: &[u8], expected: &[u8], expectation: &Value) -> Option<String> {
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
