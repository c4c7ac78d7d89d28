//! GGUF: metadata, and tensors of plain or quantized numbers.
//!
//! ```text
//! "GGUF", version (u32), tensors (u64), entries (u64)
//! entries    key, type (u32), value
//! tensors    name, axes (u32), extents (u64, the contiguous one first), kind (u32), offset (u64)
//! data       from the next multiple of `general.alignment`
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::safetensors::map;
use super::tensor::{Kind, Numbers, Tensor};
use super::{Checkpoint, Tensors};
use crate::error::{EngineError, Result};

/// The configuration in the form of `config.json`, the metadata, and the tensors by canonical name.
pub(super) fn open(path: &Path) -> Result<Checkpoint> {
    let format = |reason: String| EngineError::Format { path: path.to_owned(), reason };
    let file = map(path)?;
    let mut reader = Reader { bytes: &file, at: 0 };
    let header = reader
        .header()
        .ok_or_else(|| format("it is no GGUF file of version 2 or 3, or it is cut off".to_owned()))?;
    let mut tensors = BTreeMap::new();
    for Entry { name, mut extents, kind, offset } in header.tensors {
        let Some(kind) = kind_of(kind) else {
            return Err(format(format!(
                "{name} is of GGML type {kind}; the engine reads F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K and Q6_K"
            )));
        };
        let Some(canonical) = canonical(&name) else { continue };
        let elements = extents.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent));
        let bytes = elements.and_then(|elements| kind.bytes(elements));
        let start = header.data.checked_add(offset);
        let range = start.zip(bytes).and_then(|(start, bytes)| Some(start..start.checked_add(bytes)?));
        let Some(range) = range.filter(|range| range.end <= file.len()) else {
            return Err(format(format!("{name} ends after the file does, or inside a block")));
        };
        extents.reverse();
        let numbers = Numbers::Stored { file: file.clone(), range, kind };
        tensors.insert(canonical, Tensor::new(extents, numbers));
    }
    let config = config(&header.metadata, &tensors).map_err(format)?;
    Ok(Checkpoint { config, metadata: header.metadata, tensors: Tensors::Stored(tensors) })
}

/// The kinds by GGML's numbers.
fn kind_of(number: u32) -> Option<Kind> {
    Some(match number {
        0 => Kind::F32,
        1 => Kind::F16,
        2 => Kind::Q4_0,
        3 => Kind::Q4_1,
        8 => Kind::Q8_0,
        12 => Kind::Q4K,
        14 => Kind::Q6K,
        30 => Kind::Bf16,
        _ => return None,
    })
}

/// The canonical name; `None` for what the engine computes itself.
fn canonical(name: &str) -> Option<String> {
    const GLOBAL: [(&str, &str); 3] = [
        ("token_embd.weight", "embed_tokens.weight"),
        ("output_norm.weight", "norm.weight"),
        ("output.weight", "lm_head.weight"),
    ];
    const OF_LAYER: [(&str, &str); 11] = [
        ("attn_norm", "input_layernorm"),
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_output", "self_attn.o_proj"),
        ("attn_q_norm", "self_attn.q_norm"),
        ("attn_k_norm", "self_attn.k_norm"),
        ("ffn_norm", "post_attention_layernorm"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
    ];
    if name == "rope_freqs.weight" {
        return None;
    }
    if let Some((_, canonical)) = GLOBAL.iter().find(|(gguf, _)| *gguf == name) {
        return Some((*canonical).to_owned());
    }
    let of_layer =
        name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).and_then(|(layer, rest)| {
            let (part, suffix) = rest.rsplit_once('.')?;
            let (_, canonical) = OF_LAYER.iter().find(|(gguf, _)| *gguf == part)?;
            Some(format!("layers.{layer}.{canonical}.{suffix}"))
        });
    // An unknown name stays, to be reported as one that the model does not use.
    Some(of_layer.unwrap_or_else(|| name.to_owned()))
}

/// `config.json` of the metadata.
fn config(metadata: &Map<String, Value>, tensors: &BTreeMap<String, Tensor>) -> Result<Value, String> {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let model_type = match architecture {
        "llama" | "qwen3" => architecture,
        other => {
            return Err(format!(
                "it is a model of the architecture {other:?}; the engine reads llama and qwen3 from GGUF"
            ));
        }
    };
    let of = |key: &str| metadata.get(&format!("{architecture}.{key}")).cloned();
    let vocabulary = tensors.get("embed_tokens.weight").and_then(|tensor| tensor.shape.first().copied());
    let mut config = json!({
        "model_type": model_type,
        "vocab_size": vocabulary,
        "tie_word_embeddings": !tensors.contains_key("lm_head.weight"),
        // Rows of Q and K are stored in the order of neighboring pairs.
        "rope_interleaved": architecture == "llama",
        "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id"),
    });
    let keys = [
        ("hidden_size", "embedding_length"),
        ("num_hidden_layers", "block_count"),
        ("intermediate_size", "feed_forward_length"),
        ("num_attention_heads", "attention.head_count"),
        ("num_key_value_heads", "attention.head_count_kv"),
        ("head_dim", "attention.key_length"),
        ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
        ("rope_theta", "rope.freq_base"),
        ("max_position_embeddings", "context_length"),
    ];
    for (name, key) in keys {
        if let Some(value) = of(key) {
            config[name] = value;
        }
    }
    if let Some(kind) = of("rope.scaling.type").filter(|kind| kind != "none") {
        return Err(format!("it scales rotary frequencies by {kind}; use the safetensors of the model"));
    }
    Ok(config)
}

/// The part of a file before the data.
struct Header {
    metadata: Map<String, Value>,
    tensors: Vec<Entry>,
    data: usize,
}

struct Entry {
    name: String,
    extents: Vec<usize>,
    kind: u32,
    offset: usize,
}

/// Reads from the bytes of a file. `None` past its end, and for what is not GGUF.
struct Reader<'l> {
    bytes: &'l [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(N)?)?;
        self.at += N;
        bytes.try_into().ok()
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(self.take()?)).ok()
    }

    fn string(&mut self) -> Option<String> {
        let length = self.long()?;
        let bytes = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// A value of metadata, by the number of its type.
    fn value(&mut self, kind: u32) -> Option<Value> {
        Some(match kind {
            0 => self.take::<1>()?[0].into(),
            1 => self.take::<1>()?[0].cast_signed().into(),
            2 => u16::from_le_bytes(self.take()?).into(),
            3 => i16::from_le_bytes(self.take()?).into(),
            4 => self.word()?.into(),
            5 => self.word()?.cast_signed().into(),
            6 => f32::from_le_bytes(self.take()?).into(),
            7 => (self.take::<1>()?[0] != 0).into(),
            8 => self.string()?.into(),
            9 => {
                let (kind, length) = (self.word()?, self.long()?);
                // Each element has a byte or more.
                if length > self.bytes.len() {
                    return None;
                }
                (0..length).map(|_| self.value(kind)).collect::<Option<Vec<_>>>()?.into()
            }
            10 => u64::from_le_bytes(self.take()?).into(),
            11 => i64::from_le_bytes(self.take()?).into(),
            12 => f64::from_le_bytes(self.take()?).into(),
            _ => return None,
        })
    }

    fn header(&mut self) -> Option<Header> {
        if self.take()? != *b"GGUF" || !matches!(self.word()?, 2 | 3) {
            return None;
        }
        let (tensors, entries) = (self.long()?, self.long()?);
        let mut metadata = Map::new();
        for _ in 0..entries {
            let (key, kind) = (self.string()?, self.word()?);
            metadata.insert(key, self.value(kind)?);
        }
        let tensors = (0..tensors).map(|_| self.entry()).collect::<Option<Vec<_>>>()?;
        let alignment =
            metadata.get("general.alignment").and_then(Value::as_u64).unwrap_or(32).max(1) as usize;
        Some(Header { metadata, tensors, data: self.at.next_multiple_of(alignment) })
    }

    fn entry(&mut self) -> Option<Entry> {
        let (name, axes) = (self.string()?, self.word()?);
        let extents = (0..axes).map(|_| self.long()).collect::<Option<Vec<_>>>()?;
        Some(Entry { name, extents, kind: self.word()?, offset: self.long()? })
    }
}
