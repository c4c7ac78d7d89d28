//! GGUF: metadata, and tensors of plain or quantized numbers.
//!
//! ```text
//! "GGUF", version (u32), tensors (u64), entries (u64)
//! entries    key, type (u32), value
//! tensors    name, axes (u32), extents (u64, the contiguous one first), kind (u32), offset (u64)
//! data       from the next multiple of `general.alignment`
//! ```

mod delta;
mod keys;
mod names;
mod reader;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use serde_json::{Map, Value};

use super::kind::Kind;
use super::safetensors::map;
use super::tensor::{Numbers, Tensor};
use crate::error::{EngineError, Result};
use names::{GATES, GATES_AND_VALUES, ROPE_FACTORS, VALUES, canonical};
use reader::{Entry, Reader};

/// What a file has.
pub(super) struct GgufFile {
    /// The configuration in the form of `config.json`.
    pub(super) config: Value,
    pub(super) metadata: Map<String, Value>,
    /// The tensors by canonical name.
    pub(super) tensors: BTreeMap<String, Tensor>,
}

pub(super) fn open(path: &Path) -> Result<GgufFile> {
    read(path).map_err(|refusal| match refusal {
        Refusal::File(error) => error,
        Refusal::Format(reason) => EngineError::Format { path: path.to_owned(), reason },
    })
}

/// Numbers of the factors of rotary frequencies: half of the columns of a head.
const MOST_FACTORS: usize = 1 << 16;

/// Why a file is not read.
enum Refusal {
    File(EngineError),
    Format(String),
}

impl<R: Into<String>> From<R> for Refusal {
    fn from(reason: R) -> Self {
        Self::Format(reason.into())
    }
}

fn read(path: &Path) -> Result<GgufFile, Refusal> {
    let file = map(path).map_err(Refusal::File)?;
    let header = Reader::new(&file).header()?;
    let metadata = header.metadata;
    if metadata.get("split.count").and_then(Value::as_u64).is_some_and(|count| count > 1) {
        return Err("it is one of several files of a model; join them with llama-gguf-split --merge".into());
    }
    let family = keys::family_of(&metadata)?;
    let mut config = keys::config(&metadata, family)?;
    let layers = config["num_hidden_layers"].as_u64().unwrap_or(0);
    let layers = usize::try_from(layers).unwrap_or(usize::MAX);
    let mut tensors = BTreeMap::new();
    for entry in header.tensors {
        let name = canonical(&entry.name, layers);
        let tensor = tensor(&file, header.data, &entry)?;
        if tensors.insert(name, tensor).is_some() {
            return Err(format!("it has the tensor {} twice", entry.name).into());
        }
    }
    if let Some(factors) = tensors.remove(ROPE_FACTORS) {
        if factors.shape.iter().product::<usize>() > MOST_FACTORS {
            return Err(format!("{ROPE_FACTORS} has more than {MOST_FACTORS} numbers").into());
        }
        let factors = factors.rows::<f32>(0..factors.row_count());
        config["rope_parameters"]["frequency_divisors"] = factors.to_vec().into();
    }
    let vocabulary = tensors.get("embed_tokens.weight").and_then(|tensor| tensor.shape.first().copied());
    config["vocab_size"] = vocabulary.into();
    config["tie_word_embeddings"] = (!tensors.contains_key("lm_head.weight")).into();
    join_experts(&mut tensors);
    if family.has_delta() {
        delta::restore(&mut tensors, &config)?;
    }
    Ok(GgufFile { config, metadata, tensors })
}

/// Joins the gates and the values (experts, intermediate, hidden) of all layers to one tensor each.
fn join_experts(tensors: &mut BTreeMap<String, Tensor>) {
    let layers: Vec<String> =
        tensors.keys().filter_map(|name| name.strip_suffix(GATES)).map(str::to_owned).collect();
    for layer in layers {
        let names = [GATES, VALUES].map(|part| format!("{layer}{part}"));
        let both = [tensors.get(&names[0]), tensors.get(&names[1])];
        let [Some(gates), Some(values)] = both.map(Option::<&Tensor>::cloned) else { continue };
        // Other shapes are refused with those that the model does not use.
        let [experts, turn, hidden] = gates.shape[..] else { continue };
        if gates.shape == values.shape && turn > 0 {
            names.iter().for_each(|name| drop(tensors.remove(name)));
            let numbers = Numbers::InTurns(Arc::new([gates, values]), turn);
            let joined = Tensor::new(vec![experts, turn.saturating_mul(2), hidden], numbers);
            tensors.insert(format!("{layer}{GATES_AND_VALUES}"), joined);
        }
    }
}

/// A tensor of the list.
fn tensor(file: &Arc<Mmap>, data: usize, entry: &Entry) -> Result<Tensor, String> {
    let Entry { name, extents, kind: number, offset } = entry;
    let Some(kind) = Kind::of_ggml(*number) else {
        let all: Vec<&str> = Kind::GGML.iter().map(|(_, _, name)| *name).collect();
        return Err(format!("{name} is of GGML type {number}; the engine reads {}", all.join(", ")));
    };
    let rows = extents.iter().skip(1).try_fold(1usize, |product, extent| product.checked_mul(*extent));
    let of_row = kind.bytes(extents.first().copied().unwrap_or(1));
    let bytes = rows.zip(of_row).and_then(|(rows, of_row)| rows.checked_mul(of_row));
    let start = data.checked_add(*offset);
    let range = start.zip(bytes).and_then(|(start, bytes)| Some(start..start.checked_add(bytes)?));
    let Some(range) = range.filter(|range| range.end <= file.len()) else {
        return Err(format!("{name} ends after the file does, or a row of it inside a block"));
    };
    let numbers = Numbers::Stored { file: file.clone(), range, kind };
    Ok(Tensor::new(extents.iter().rev().copied().collect(), numbers))
}
