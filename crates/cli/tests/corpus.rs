//! The PTX corpus (`crates/ptx/tests/compiled`): its launches, and whether what one of them saved is what NumPy gives.

use std::fs;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use serde_json::Value;

/// A launch of the corpus: its folder, the texts that it applies to, and what it must give.
pub(crate) struct Case {
    pub(crate) name: String,
    folder: PathBuf,
    pub(crate) launch: Value,
    expected: Value,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx/tests/compiled")
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Case {
    /// All of them, by name.
    pub(crate) fn all() -> Vec<Self> {
        let folders = fs::read_dir(root().join("cases")).expect("the corpus");
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

    /// The paths of the texts that the launch applies to.
    pub(crate) fn texts(&self) -> Vec<PathBuf> {
        let also = self.expected["also"].as_array().expect("a list of texts");
        let texts = std::iter::once(&self.launch["ptx"]).chain(also);
        texts.map(|text| self.folder.join(text.as_str().expect("a path"))).collect()
    }

    /// Writes the launch of a text into a directory; the path of its file.
    pub(crate) fn write_launch(&self, ptx: &Path, directory: &Path) -> PathBuf {
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
    pub(crate) fn difference(&self, directory: &Path) -> Option<String> {
        let buffers = self.expected["buffers"].as_object().expect("the saved buffers");
        buffers.iter().find_map(|(saved, expectation)| {
            let expected = array(&self.folder.join(expectation["equals"].as_str().expect("a path")));
            difference(&array(&directory.join(saved)), &expected, expectation)
                .map(|difference| format!("{saved}: {difference}"))
        })
    }
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
