//! The tokenizer that the metadata of a GGUF file describes.

use serde_json::{Map, Value, json};
use warpwright_llm_step::Token;

use super::sentence_piece::{self, SPACE, SentencePiece};
use super::{Inner, TAGS, Tokenizer, TokenizerError, byte_level, library, pre_tokenizers};

/// What the keys `tokenizer.ggml.*` of a GGUF file say.
#[derive(Clone, Debug, Default)]
pub struct GgufVocabulary {
    /// `model`: `gpt2` is byte-level BPE, `llama` is SentencePiece's.
    pub model: String,
    /// `pre`: how text is split before merging.
    pub pre: String,
    /// `tokens`.
    pub tokens: Vec<String>,
    /// `token_type`: 1 is a part of text, 2 the unknown one, 3 a control token, 4 one that the author added, 6 a byte.
    pub token_types: Vec<i32>,
    /// `merges`.
    pub merges: Vec<String>,
    /// `scores`.
    pub scores: Vec<f32>,
    /// `bos_token_id` and `eos_token_id`: the first token of a text and the last one.
    pub bos: Option<Token>,
    /// The last one.
    pub eos: Option<Token>,
    /// `eot_token_id` and `eom_token_id`: further tokens that end an answer.
    pub ends: Vec<Token>,
    /// `unknown_token_id`.
    pub unknown: Option<Token>,
    /// `add_bos_token`.
    pub add_bos: Option<bool>,
    /// `add_eos_token`.
    pub add_eos: Option<bool>,
    /// `add_space_prefix`.
    pub add_space_prefix: Option<bool>,
}

const TEXT: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

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

    /// From the metadata of a file.
    pub fn from_metadata(metadata: &Map<String, Value>) -> GgufVocabulary {
        let of = |key: &str| metadata.get(&format!("tokenizer.ggml.{key}"));
        let text = |key: &str| of(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |key: &str| of(key).and_then(Value::as_array).into_iter().flatten();
        let texts = |key: &str| list(key).map(|item| item.as_str().unwrap_or_default().to_owned()).collect();
        let token = |key: &str| of(key).and_then(Value::as_u64).and_then(|id| Token::try_from(id).ok());
        let flag = |key: &str| of(key).and_then(Value::as_bool);
        GgufVocabulary {
            model: text("model"),
            pre: text("pre"),
            tokens: texts("tokens"),
            token_types: list("token_type").map(|kind| kind.as_i64().unwrap_or(1) as i32).collect(),
            merges: texts("merges"),
            scores: list("scores").map(|score| score.as_f64().unwrap_or(0.0) as f32).collect(),
            bos: token("bos_token_id"),
            eos: token("eos_token_id"),
            ends: ["eot_token_id", "eom_token_id"].into_iter().filter_map(token).collect(),
            unknown: token("unknown_token_id"),
            add_bos: flag("add_bos_token"),
            add_eos: flag("add_eos_token"),
            add_space_prefix: flag("add_space_prefix"),
        }
    }

    fn kind(&self, id: usize) -> i32 {
        self.token_types.get(id).copied().unwrap_or(TEXT)
    }

    /// The tokens that are found in a text before it is merged.
    fn special(&self) -> impl Iterator<Item = Token> {
        (0..self.tokens.len())
            .filter(|id| matches!(self.kind(*id), UNKNOWN | CONTROL | USER_DEFINED))
            .map(|id| id as Token)
    }

    /// The token that is added at one end of a text, if there is one.
    fn added(&self, is_added: bool, token: Option<Token>, what: &str) -> Result<Vec<Token>, TokenizerError> {
        match token.filter(|token| (*token as usize) < self.tokens.len()) {
            _ if !is_added => Ok(Vec::new()),
            Some(token) => Ok(vec![token]),
            None => Err(TokenizerError::Kind(format!("it adds the {what} token and has none"))),
        }
    }
}

impl Tokenizer {
    /// The first part of text in a file's vocabulary that is another one here: the tokenizer is another model's.
    pub fn differs_from(&self, vocabulary: &GgufVocabulary) -> Option<Token> {
        let bytes = |token: &str| match vocabulary.model.as_str() {
            "gpt2" => byte_level::bytes(token),
            "llama" => match sentence_piece::byte(token) {
                Some(byte) => Some(vec![byte]),
                None => Some(token.replace(SPACE, " ").into_bytes()),
            },
            _ => None,
        };
        let differs = |id: &usize| {
            let expected = bytes(&vocabulary.tokens[*id]).filter(|_| vocabulary.kind(*id) == TEXT);
            let own = self.bytes(*id as Token);
            // Files are padded to the model's vocabulary.
            expected.is_some_and(|expected| !own.is_empty() && own != expected)
        };
        (0..vocabulary.tokens.len()).find(differs).map(|id| id as Token)
    }
}

/// The tokenizer of a file.
pub(super) fn tokenizer(vocabulary: &GgufVocabulary) -> Result<Tokenizer, TokenizerError> {
    let (tokens, types) = (vocabulary.tokens.len(), vocabulary.token_types.len());
    if types > 0 && types != tokens {
        return Err(TokenizerError::Kind(format!("it has {tokens} tokens and {types} types")));
    }
    let of_kind = match vocabulary.model.as_str() {
        "gpt2" => byte_level_bpe(vocabulary)?,
        "llama" => sentence_piece(vocabulary)?,
        other => return Err(TokenizerError::Kind(format!("tokenizer.ggml.model is `{other}`"))),
    };
    let is_special = |(id, token): (usize, &String)| {
        matches!(vocabulary.kind(id), UNKNOWN | CONTROL) && !TAGS.contains(&token.as_str())
    };
    let special = vocabulary.tokens.iter().enumerate().map(is_special).collect();
    Ok(Tokenizer { special, ..of_kind })
}

/// SentencePiece's BPE. Llama 2, TinyLlama, Mistral and Gemma have it.
fn sentence_piece(vocabulary: &GgufVocabulary) -> Result<Tokenizer, TokenizerError> {
    let GgufVocabulary { tokens, scores, .. } = vocabulary;
    if tokens.is_empty() || scores.len() != tokens.len() {
        let reason = format!("it has {} tokens and {} scores", tokens.len(), scores.len());
        return Err(TokenizerError::Kind(reason));
    }
    let adds_space = vocabulary.add_space_prefix.unwrap_or(true);
    let unknown = Some(vocabulary.unknown.unwrap_or(0));
    let inner = SentencePiece::new(tokens, scores, vocabulary.special(), (unknown, adds_space));
    let bytes = |(id, token): (usize, &String)| match sentence_piece::byte(token) {
        Some(byte) => vec![byte],
        None if matches!(vocabulary.kind(id), UNKNOWN | CONTROL) => token.clone().into_bytes(),
        None => token.replace(SPACE, " ").into_bytes(),
    };
    Ok(Tokenizer {
        inner: Inner::SentencePiece(inner),
        bytes: tokens.iter().enumerate().map(bytes).collect(),
        special: Vec::new(),
        before: vocabulary.added(vocabulary.add_bos.unwrap_or(true), vocabulary.bos.or(Some(1)), "first")?,
        after: vocabulary.added(vocabulary.add_eos.unwrap_or(false), vocabulary.eos.or(Some(2)), "last")?,
        strips_space: adds_space,
    })
}

/// Byte-level BPE, by the library. llama.cpp normalizes no text.
fn byte_level_bpe(vocabulary: &GgufVocabulary) -> Result<Tokenizer, TokenizerError> {
    let pre = pre_tokenizers::find(&vocabulary.pre)
        .ok_or_else(|| TokenizerError::PreTokenizer(vocabulary.pre.clone()))?;
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
    });
    let split = |regex: &&str| json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false });
    let steps: Vec<Value> = pre.expressions.iter().map(split).chain([byte_level.clone()]).collect();
    let added = |id: Token| {
        let content = &vocabulary.tokens[id as usize];
        json!({
            "id": id, "content": content, "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false,
        })
    };
    let added: Vec<Value> =
        vocabulary.special().filter(|id| !vocabulary.tokens[*id as usize].is_empty()).map(added).collect();
    let ids: Map<String, Value> =
        vocabulary.tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    // Merges to what no token has change no text of a file that merges made.
    let parts = |merge: &String| {
        let at = merge.char_indices().skip(1).find(|(_, character)| *character == ' ')?.0;
        let (left, right) = (&merge[..at], &merge[at + 1..]);
        let all_are_tokens =
            [left, right, &format!("{left}{right}")].iter().all(|part| ids.contains_key(*part));
        all_are_tokens.then(|| json!([left, right]))
    };
    let merges: Vec<Value> = vocabulary.merges.iter().filter_map(parts).collect();
    let json = json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": steps },
        "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "vocab": ids, "merges": merges, "ignore_merges": pre.ignores_merges,
        },
    });
    let inner = library(&json, json.to_string().as_bytes())?;
    let bytes = |(id, token): (usize, &String)| match vocabulary.kind(id) {
        UNKNOWN | CONTROL | USER_DEFINED => token.clone().into_bytes(),
        _ => byte_level::bytes(token).unwrap_or_else(|| token.clone().into_bytes()),
    };
    Ok(Tokenizer {
        inner: Inner::Library(Box::new(inner)),
        bytes: vocabulary.tokens.iter().enumerate().map(bytes).collect(),
        special: Vec::new(),
        before: vocabulary.added(vocabulary.add_bos.unwrap_or(pre.adds_bos), vocabulary.bos, "first")?,
        after: vocabulary.added(vocabulary.add_eos.unwrap_or(false), vocabulary.eos, "last")?,
        strips_space: false,
    })
}
