//! Tuned algorithms: what `warpwright tune` measured to be the fastest, in a file of the user's
//! cache.
//!
//! The file is `gemm.json` in `$WARPWRIGHT_CACHE`, or else in `warpwright` below `$XDG_CACHE_HOME`,
//! `~/.cache` or, on Windows, `%LOCALAPPDATA%`. An entry counts for one device and problem, and for
//! the PTX that was timed: a changed kernel is another.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::Algorithm;
use crate::gemm::problem::batching::{GemmProblem, Problem};
use crate::gemm::problem::scales::Scaling;
use crate::gemm::problem::types::MatrixLayout;

/// What an algorithm is tuned for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    device: String,
    /// (m, n, k).
    shape: (u32, u32, u32),
    batch: u32,
    /// Whether all problems have the same A, and the same B.
    shared: (bool, bool),
    input: String,
    output: String,
    /// Whether A's rows, and B's, are contiguous.
    row_major: (bool, bool),
    /// The scales of A and B.
    scales: Option<String>,
}

/// A tuned algorithm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    key: Key,
    /// An [`Algorithm`]; an entry of another version counts as none.
    #[serde(default)]
    algorithm: Value,
    /// [`hash`] of its PTX.
    #[serde(default)]
    ptx: u64,
    seconds: f64,
}

/// Why tuned algorithms cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The environment names no directory.
    #[error("no cache directory for tuning results: set WARPWRIGHT_CACHE")]
    NoDirectory,
    /// The file cannot be read or written.
    #[error("cannot read or write {}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not what `tune` writes.
    #[error("{} is not what `warpwright tune` writes: delete it", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
}

impl Key {
    /// For a problem on a device of that name.
    pub fn of(device: &str, problem: &GemmProblem) -> Self {
        let GemmProblem { batch, types, .. } = *problem;
        let Problem { m, n, k, a, b } = batch.problem;
        let (own_a, own_b) = batch.own();
        Self {
            device: device.to_owned(),
            shape: (m, n, k),
            batch: batch.count,
            shared: (batch.count > 1 && !own_a, batch.count > 1 && !own_b),
            input: types.inputs(),
            output: types.c.to_string(),
            row_major: (a == MatrixLayout::RowMajor, b == MatrixLayout::RowMajor),
            scales: match types.scaling {
                Scaling::None => None,
                Scaling::Blockwise(a, b) => Some(format!("{a} {b}")),
                Scaling::BlockScaled(factors) => Some(format!("1x{}", factors.block())),
            },
        }
    }
}

/// A hash of a kernel's PTX without its comments and source lines (FNV-1a).
pub(crate) fn hash(ptx: &str) -> u64 {
    let is_code =
        |line: &&str| !["//", ".loc", ".file"].iter().any(|start| line.trim_start().starts_with(start));
    let bytes = ptx.lines().filter(is_code).flat_map(str::bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The file in the user's cache.
pub fn default_file() -> Result<PathBuf, TuneError> {
    let directory = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let shared = || {
        let home = || directory("HOME").map(|home| home.join(".cache"));
        let caches = directory("XDG_CACHE_HOME").or_else(home).or_else(|| directory("LOCALAPPDATA"));
        caches.map(|caches| caches.join("warpwright"))
    };
    let directory = directory("WARPWRIGHT_CACHE").or_else(shared);
    directory.map(|directory| directory.join("gemm.json")).ok_or(TuneError::NoDirectory)
}

/// The algorithm that a file has for a key, if `is_current`: it is legal, and its kernel has the
/// PTX that hashes to that.
///
/// # Errors
/// There is a file, but it cannot be read.
pub(crate) fn find(
    file: &Path,
    key: &Key,
    is_current: impl FnOnce(Algorithm, u64) -> bool,
) -> Result<Option<Algorithm>, TuneError> {
    let Some(entry) = entries(file)?.into_iter().find(|entry| entry.key == *key) else { return Ok(None) };
    let algorithm = serde_json::from_value(entry.algorithm).ok();
    Ok(algorithm.filter(|algorithm| is_current(*algorithm, entry.ptx)))
}

/// Keeps an algorithm in place of the key's earlier one.
///
/// # Errors
/// The file cannot be read or written.
pub fn keep(file: &Path, key: &Key, algorithm: Algorithm, ptx: u64, seconds: f64) -> Result<(), TuneError> {
    let unlike = |source| TuneError::Content { file: file.to_owned(), source };
    let refused = |source| TuneError::File { file: file.to_owned(), source };
    let mut all = entries(file)?;
    all.retain(|entry| entry.key != *key);
    let algorithm = serde_json::to_value(algorithm).map_err(unlike)?;
    all.push(Entry { key: key.clone(), algorithm, ptx, seconds });
    let text = serde_json::to_string_pretty(&all).map_err(unlike)?;
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory).map_err(refused)?;
    }
    // A reader meanwhile finds the old file or the new one, never half of one.
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, file)).map_err(refused)
}

/// All entries of a file; none, if there is no file.
fn entries(file: &Path) -> Result<Vec<Entry>, TuneError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(TuneError::File { file: file.to_owned(), source }),
    };
    serde_json::from_str(&text).map_err(|source| TuneError::Content { file: file.to_owned(), source })
}

/// A file in a directory of its own, which is removed when the directory is dropped.
#[cfg(test)]
pub(crate) fn temporary_file(name: &str) -> (PathBuf, TemporaryDirectory) {
    let directory = env::temp_dir().join(format!("warpwright-{name}-{}", std::process::id()));
    (directory.join("below").join("gemm.json"), TemporaryDirectory(directory))
}

#[cfg(test)]
pub(crate) struct TemporaryDirectory(PathBuf);

#[cfg(test)]
impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // There is none if nothing was kept.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use warpwright::arch::DataType::{Bf16, F16, F32};

    use super::*;
    use crate::gemm::device::mainloop::mma_sync::MmaSyncConfiguration;
    use crate::gemm::problem::batching::Batch;
    use crate::gemm::problem::scales::Granularity::{Block, Row};
    use crate::gemm::problem::types::GemmTypes;

    const FIRST: Algorithm =
        Algorithm::MmaSync(MmaSyncConfiguration { tile: (128, 128), stages: 4, raster: 8 });
    const SECOND: Algorithm =
        Algorithm::MmaSync(MmaSyncConfiguration { tile: (64, 128), stages: 4, raster: 8 });

    #[test]
    fn what_is_kept_is_found_again_and_replaced() {
        let (file, _directory) = temporary_file("tuned");
        let key_of = |device, batch: Batch, a, b, c, scales| {
            Key::of(device, &GemmProblem::new(batch, GemmTypes::new(a, b, c).with(scales)))
        };
        let problem = Problem::new(64, 128, 256);
        let plain = |batch| key_of("a GPU", batch, Bf16, Bf16, F32, None);
        let key = plain(problem.into());
        assert_eq!(entries(&file).expect("no file is no entries"), []);
        keep(&file, &key, FIRST, 1, 2.0).expect("kept");
        let others = [
            key_of("another GPU", problem.into(), Bf16, Bf16, F32, None),
            key_of("a GPU", problem.into(), F16, F16, F32, None),
            key_of("a GPU", problem.into(), Bf16, F16, F32, None),
            key_of("a GPU", problem.into(), Bf16, Bf16, Bf16, None),
            plain(Problem::new(64, 128, 264).into()),
            plain(Problem { b: MatrixLayout::RowMajor, ..problem }.into()),
            plain(Batch::new(problem, 2)),
            plain(Batch::new(problem, 2).sharing_a()),
            key_of("a GPU", problem.into(), Bf16, Bf16, F32, Some((Row, Block))),
            key_of("a GPU", problem.into(), Bf16, F16, F32, Some((Row, Block))),
            key_of("a GPU", problem.into(), Bf16, Bf16, F32, Some((Row, Row))),
            key_of("a GPU", Batch::new(problem, 2), Bf16, Bf16, F32, Some((Row, Row))),
        ];
        for other in &others {
            assert_ne!(*other, key);
            keep(&file, other, FIRST, 1, 1.0).expect("kept");
        }
        keep(&file, &key, SECOND, 7, 1.5).expect("kept");
        assert_eq!(entries(&file).expect("readable").len(), 1 + others.len());
        let found = |is_current: fn(Algorithm, u64) -> bool| find(&file, &key, is_current).expect("readable");
        assert_eq!(found(|algorithm, ptx| (algorithm, ptx) == (SECOND, 7)), Some(SECOND));
        assert_eq!(found(|_, ptx| ptx == 8), None, "its kernel has another text now");
        fs::write(&file, "[{}]").expect("writable");
        let error = entries(&file).expect_err("no entries");
        assert!(matches!(error, TuneError::Content { .. }) && error.to_string().ends_with("delete it"));
    }

    /// Entries of other versions are read, and have no algorithm.
    #[test]
    fn entries_without_an_algorithm_count_as_none() {
        let (file, _directory) = temporary_file("tuned-before");
        let types = GemmTypes::new(Bf16, Bf16, F32);
        let key = Key::of("a GPU", &GemmProblem::new(Problem::new(64, 128, 256), types));
        keep(&file, &key, FIRST, 1, 1.0).expect("kept");
        let mut all: Value = serde_json::from_str(&fs::read_to_string(&file).expect("there")).expect("JSON");
        let entry = all[0].as_object_mut().expect("an entry");
        assert!(entry.remove("algorithm").is_some());
        entry.insert("stages".to_owned(), 4.into());
        fs::write(&file, all.to_string()).expect("writable");
        assert_eq!(find(&file, &key, |_, _| true).expect("readable"), None);
    }

    #[test]
    fn comments_and_source_lines_are_no_text_of_a_kernel() {
        let hashes = ["  add.u32 %r1;", "// a\n .loc 1 2 3\n  add.u32 %r1;", "  add.u32 %r2;"].map(hash);
        assert!(hashes[0] == hashes[1] && hashes[0] != hashes[2]);
    }
}
