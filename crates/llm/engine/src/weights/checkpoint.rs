//! A model's files: its configuration and its tensors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value};

use super::gguf::{self, GgufFile};
use super::random::Generator;
use super::safetensors;
use super::tensor::{Numbers, Tensor};
use crate::config::set_state_type;
use crate::data_type::StateType;
use crate::error::{EngineError, Result};

/// A model's files: its configuration and its tensors. Their bytes are mapped, not read.
///
/// Names are those of transformers without the prefix `model.` or `model.language_model.`. Tensors of the
/// vision tower are left out.
#[derive(Debug)]
pub struct Checkpoint {
    /// The configuration in the form of `config.json`.
    pub(crate) config: Value,
    metadata: Map<String, Value>,
    tensors: Tensors,
    /// Tensors that were loaded.
    loaded: AtomicUsize,
}

#[derive(Debug)]
enum Tensors {
    Stored(BTreeMap<String, Tensor>),
    /// Any tensor exists, with numbers that its name and the seed give.
    Random(u64),
}

impl Checkpoint {
    /// A `.gguf` file, or a folder with `config.json` and safetensors, or with one `.gguf` file.
    ///
    /// # Errors
    /// A file is missing or not of its format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        expect_regular_files(path)?;
        match gguf_of(path)? {
            Some(file) => Self::of_gguf(&file),
            None => {
                let (config, tensors) = (read_config(path)?, safetensors::open(path)?);
                Ok(Self::new(config, Map::new(), Tensors::Stored(tensors)))
            }
        }
    }

    /// The model of the same path for its shapes alone: a folder with `config.json` needs no weights, and has random
    /// ones.
    ///
    /// # Errors
    /// A file is missing or not of its format.
    pub fn shapes(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        expect_regular_files(path)?;
        match gguf_of(path)? {
            Some(file) => Self::of_gguf(&file),
            None => Self::random(path, 0),
        }
    }

    fn of_gguf(file: &Path) -> Result<Self> {
        let GgufFile { config, metadata, tensors } = gguf::open(file)?;
        Ok(Self::new(config, metadata, Tensors::Stored(tensors)))
    }

    fn new(config: Value, metadata: Map<String, Value>, tensors: Tensors) -> Self {
        Self { config, metadata, tensors, loaded: AtomicUsize::new(0) }
    }

    /// The configuration of a folder, with random weights.
    ///
    /// # Errors
    /// `config.json` is missing or no JSON.
    pub fn random(path: impl AsRef<Path>, seed: u64) -> Result<Self> {
        expect_regular_files(path.as_ref())?;
        let config = read_config(path.as_ref())?;
        Ok(Self::new(config, Map::new(), Tensors::Random(seed)))
    }

    /// With states of the gated delta rule of that type; models without them ignore it.
    #[must_use]
    pub fn with_states(mut self, state: StateType) -> Self {
        set_state_type(&mut self.config, state);
        self
    }

    /// The metadata of a GGUF file by key. Empty for other files.
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.metadata
    }

    /// The numbers of a tensor in f32; `None` if there is none of that name. With random weights, every name has
    /// some, for the shape.
    pub fn numbers(&self, name: &str, shape: &[usize]) -> Option<Vec<f32>> {
        let tensor = self.tensor(name, shape)?;
        Some(tensor.rows::<f32>(0..tensor.row_count()).into_owned())
    }

    /// The tensor of that name. With random weights, every name has one, of the shape that is expected.
    pub(crate) fn tensor(&self, name: &str, expected: &[usize]) -> Option<Tensor> {
        match &self.tensors {
            Tensors::Stored(tensors) => tensors.get(name).cloned(),
            Tensors::Random(seed) => {
                let generator = Generator::new(name, expected, *seed);
                Some(Tensor::new(expected.to_vec(), Numbers::Random(generator)))
            }
        }
    }

    /// The tensor of that name for a device, which counts as loaded.
    pub(crate) fn load(&self, name: &str, expected: &[usize]) -> Option<Tensor> {
        self.loaded.fetch_add(1, Ordering::Relaxed);
        self.tensor(name, expected)
    }

    /// The tensors that models have loaded so far, 1 for all that are stored; `None` with random weights.
    pub fn loaded(&self) -> Option<f64> {
        let stored = Some(self.names().count()).filter(|stored| *stored > 0)?;
        Some(self.loaded.load(Ordering::Relaxed) as f64 / stored as f64)
    }

    /// The names of stored tensors.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let stored = match &self.tensors {
            Tensors::Stored(tensors) => Some(tensors),
            Tensors::Random(_) => None,
        };
        stored.into_iter().flat_map(|tensors| tensors.keys().map(String::as_str))
    }
}

/// Refuses pipes, sockets and devices, whose reading may never end, in the place of any file of a checkpoint.
fn expect_regular_files(path: &Path) -> Result<()> {
    let file = |source| EngineError::File { path: path.to_owned(), source };
    let files: Vec<PathBuf> = match path.is_dir() {
        true => std::fs::read_dir(path).map_err(file)?.flatten().map(|entry| entry.path()).collect(),
        false => vec![path.to_owned()],
    };
    let is_special =
        |path: &&PathBuf| std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    match files.iter().find(is_special) {
        Some(special) => Err(EngineError::Format {
            path: special.clone(),
            reason: "it is a pipe, a socket or a device; a checkpoint has regular files only".to_owned(),
        }),
        None => Ok(()),
    }
}

fn read_config(folder: &Path) -> Result<Value> {
    let path = folder.join("config.json");
    let text = std::fs::read(&path).map_err(|source| EngineError::File { path: path.clone(), source })?;
    serde_json::from_slice(&text)
        .map_err(|error| EngineError::Format { path, reason: format!("it is no JSON: {error}") })
}

/// The file itself, or the only `.gguf` file of a folder without safetensors. None of a folder with `config.json` and no
/// such file.
fn gguf_of(path: &Path) -> Result<Option<PathBuf>> {
    if !path.is_dir() {
        return Ok(Some(path.to_owned()));
    }
    let has_config = path.join("config.json").exists();
    if has_config && safetensors::are_in(path) {
        return Ok(None);
    }
    let file = |source| EngineError::File { path: path.to_owned(), source };
    let entries = std::fs::read_dir(path).map_err(file)?;
    let is_gguf = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "gguf");
    let files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_gguf).collect();
    match files.as_slice() {
        [file] => Ok(Some(file.clone())),
        [] if has_config => Ok(None),
        files => Err(EngineError::Format {
            path: path.to_owned(),
            reason: format!(
                "the folder has {} .gguf files and no config.json with safetensors; name one .gguf file or another folder",
                files.len()
            ),
        }),
    }
}
