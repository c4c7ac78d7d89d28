//! The tokenizer that the metadata of a GGUF file describes.

use serde_json::{Value, json};

use super::{TokenizerError, byte_level};

/// What the keys `tokenizer.ggml.*` of a GGUF file say.
#[derive(Clone, Debug, Default)]
pub struct GgufVocabulary {
    /// `tokenizer.ggml.model`: `gpt2` is byte-level BPE.
    pub model: String,
    /// `tokenizer.ggml.pre`: how text is split before merging.
    pub pre: String,
    /// `tokenizer.ggml.tokens`.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.token_type`: 3 is a control token, 4 one that the author added.
    pub token_types: Vec<i32>,
    /// `tokenizer.ggml.merges`.
    pub merges: Vec<String>,
}

impl GgufVocabulary {
    /// A token for each byte, for models without a tokenizer.
    pub fn bytes() -> GgufVocabulary {
        GgufVocabulary {
            model: "gpt2".to_owned(),
            pre: "gpt-2".to_owned(),
            tokens: (0..=255).map(|byte| byte_level::character(byte).into()).collect(),
            ..GgufVocabulary::default()
        }
    }
}

const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Qwen 2 and 3, by its regular expression.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen 3.5: letters take their marks along.
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Llama 3: up to three digits.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The same tokenizer as a `tokenizer.json`.
pub(super) fn tokenizer_json(vocabulary: &GgufVocabulary) -> Result<Value, TokenizerError> {
    if vocabulary.model != "gpt2" {
        return Err(TokenizerError::Kind(format!("tokenizer.ggml.model is `{}`", vocabulary.model)));
    }
    let (normalizer, split) = match vocabulary.pre.as_str() {
        "smollm" => (Value::Null, json!({ "type": "Digits", "individual_digits": true })),
        "default" | "gpt-2" => (Value::Null, Value::Null),
        "qwen2" => (json!({ "type": "NFC" }), expression(QWEN2)),
        "qwen35" => (json!({ "type": "NFC" }), expression(QWEN35)),
        "llama-bpe" | "llama3" => (Value::Null, expression(LLAMA3)),
        other => return Err(TokenizerError::PreTokenizer(other.to_owned())),
    };
    // GPT-2's own expression splits what no other has split.
    let uses_regex = split.get("pattern").is_none();
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": uses_regex,
    });
    let steps: Vec<Value> = [split, byte_level.clone()].into_iter().filter(|step| !step.is_null()).collect();
    let kind = |id: usize| vocabulary.token_types.get(id).copied().unwrap_or(1);
    let added: Vec<Value> = (vocabulary.tokens.iter().enumerate())
        .filter(|(id, _)| matches!(kind(*id), CONTROL | USER_DEFINED))
        .map(|(id, content)| {
            json!({
                "id": id, "content": content, "special": kind(id) == CONTROL, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false,
            })
        })
        .collect();
    let ids: serde_json::Map<String, Value> =
        vocabulary.tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    Ok(json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": steps },
        "post_processor": null,
        "decoder": byte_level,
        "model": { "type": "BPE", "vocab": ids, "merges": vocabulary.merges },
    }))
}

fn expression(regex: &str) -> Value {
    json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false })
}
