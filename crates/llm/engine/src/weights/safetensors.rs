//! safetensors: one file, or the shards that an index names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};

use super::kind::Kind;
use super::tensor::{Numbers, Tensor};
use crate::error::{EngineError, Result};

/// The tensors of a folder, by canonical name.
pub(super) fn open(folder: &Path) -> Result<BTreeMap<String, Tensor>> {
    let mut tensors = BTreeMap::new();
    for file in files(folder)? {
        add(&folder.join(file), &mut tensors)?;
    }
    Ok(tensors)
}

const INDEX: &str = "model.safetensors.index.json";
const ONLY: &str = "model.safetensors";

/// Whether a folder has a checkpoint of safetensors.
pub(super) fn are_in(folder: &Path) -> bool {
    [INDEX, ONLY].iter().any(|name| folder.join(name).exists())
}

/// The files that the index names, or the only one.
fn files(folder: &Path) -> Result<BTreeSet<String>> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let path = folder.join(INDEX);
    if !path.exists() {
        return Ok(BTreeSet::from([ONLY.to_owned()]));
    }
    let text = std::fs::read(&path).map_err(|source| EngineError::File { path: path.clone(), source })?;
    let format = |reason| EngineError::Format { path: path.clone(), reason };
    let index: Index = serde_json::from_slice(&text)
        .map_err(|error| format(format!("it is no index of shards: {error}")))?;
    let files: BTreeSet<String> = index.weight_map.into_values().collect();
    match files.iter().find(|file| Path::new(file).file_name().is_none_or(|name| name != file.as_str())) {
        Some(file) => Err(format(format!("it names the shard {file:?}, which is no file of the folder"))),
        None => Ok(files),
    }
}

/// Maps a file.
pub(super) fn map(path: &Path) -> Result<Arc<Mmap>> {
    let file = |source| EngineError::File { path: path.to_owned(), source };
    let opened = File::open(path).map_err(file)?;
    // SAFETY: as every reader of mapped weights, it relies on nobody changing the file meanwhile.
    let mapped = unsafe { Mmap::map(&opened) }.map_err(file)?;
    Ok(Arc::new(mapped))
}

fn add(path: &Path, tensors: &mut BTreeMap<String, Tensor>) -> Result<()> {
    let format = |reason: String| EngineError::Format { path: path.to_owned(), reason };
    let file = map(path)?;
    let parsed = SafeTensors::deserialize(&file)
        .map_err(|error| format(format!("it is no safetensors file: {error}")))?;
    for (name, view) in parsed.iter() {
        let Some(canonical) = canonical(name) else { continue };
        let kind = match view.dtype() {
            Dtype::F32 => Kind::F32,
            Dtype::F16 => Kind::F16,
            Dtype::BF16 => Kind::Bf16,
            other => {
                return Err(format(format!("{name} is of {other:?}; the engine reads F32, F16 and BF16")));
            }
        };
        let start = view.data().as_ptr().addr() - file.as_ptr().addr();
        let range = start..start + view.data().len();
        let numbers = Numbers::Stored { file: file.clone(), range, kind };
        let tensor = Tensor::new(view.shape().to_vec(), numbers);
        if tensors.insert(canonical.to_owned(), tensor).is_some() {
            return Err(format(format!("{name} is stored twice")));
        }
    }
    Ok(())
}

/// The name without the model's prefix; `None` for tensors of other parts.
fn canonical(name: &str) -> Option<&str> {
    const OTHER_PARTS: [&str; 2] = ["model.visual.", "visual."];
    if OTHER_PARTS.iter().any(|part| name.starts_with(part)) || name.ends_with("rotary_emb.inv_freq") {
        return None;
    }
    let prefixes = ["model.language_model.", "language_model.model.", "model."];
    Some(prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name))
}
