//! Text to tokens and back.

mod byte_level;
mod detokenizer;
mod gguf;
mod pre_tokenizers;
mod sentence_piece;

use std::fmt::Display;
use std::path::Path;

pub use detokenizer::Detokenizer;
pub use gguf::GgufVocabulary;
use sentence_piece::SentencePiece;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokenizers::{
    AddedToken, DecoderWrapper, ModelWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper,
};
use warpwright_llm_step::Token;

use crate::panics::caught;

/// A tokenizer whose tokens are bytes: byte-level BPE, as Qwen, Llama 3, SmolLM2 and most others since GPT-2 have, or
/// SentencePiece's BPE or unigrams, as Llama 2, Mistral and Gemma have.
pub struct Tokenizer {
    inner: Inner,
    /// The bytes of each token.
    bytes: Vec<Vec<u8>>,
    special: Vec<bool>,
    /// Tokens around a plain text that the library does not add.
    before: Vec<Token>,
    after: Vec<Token>,
    /// Whether a text begins with a space that is added.
    strips_space: bool,
}

/// What splits text to tokens.
enum Inner {
    Library(Box<tokenizers::Tokenizer>),
    SentencePiece(SentencePiece),
}

/// Bytes that a normalizer may compose to one: three letters of Hangul to a syllable.
const COMPOSED: usize = 3;
/// Bytes of a token of common texts at most. Longer texts are counted before they are encoded.
const COMMON_BYTES: usize = 8;
/// Bytes that are counted together.
const PIECE: usize = 16 << 10;
/// Tokens that a cut between pieces may add.
const PER_CUT: usize = 8;

/// Tokens that the parser of answers reads as text, whatever the file says.
const TAGS: [&str; 4] = ["<think>", "</think>", "<tool_call>", "</tool_call>"];

/// A tokenizer cannot be read or used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file is missing or unreadable.
    #[error("cannot read the tokenizer `{path}`: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no `tokenizer.json`.
    #[error("the tokenizer is not a valid tokenizer.json: {0}")]
    Format(String),
    /// The tokenizer is of another kind.
    #[error("the tokenizer is neither byte-level BPE nor SentencePiece's ({0}): no other kind is supported")]
    Kind(String),
    /// A pre-tokenizer of a GGUF file that is not in the table.
    #[error(
        "the GGUF file names the pre-tokenizer `{0}`, which is not supported: put the model's tokenizer.json beside it"
    )]
    PreTokenizer(String),
    /// Text that the tokenizer refuses.
    #[error("the text cannot be encoded: {0}")]
    Encode(String),
    /// Text that has too many tokens.
    #[error("the prompt has more than {least} tokens, and may have {most}: shorten the prompt")]
    TooLong {
        /// Tokens of the text at least.
        least: usize,
        /// Tokens that it may have.
        most: usize,
    },
    /// The caller wants no tokens any more.
    #[error("the text is no longer wanted")]
    Stopped,
}

impl Tokenizer {
    /// From the file `tokenizer.json` of a checkpoint.
    pub fn from_file(path: &Path) -> Result<Tokenizer, TokenizerError> {
        let file = || path.display().to_string();
        let json = std::fs::read(path).map_err(|source| TokenizerError::File { path: file(), source })?;
        Tokenizer::from_json(&json)
    }

    /// From the text of a `tokenizer.json`.
    pub fn from_json(json: &[u8]) -> Result<Tokenizer, TokenizerError> {
        let parsed: Value =
            serde_json::from_slice(json).map_err(|error| TokenizerError::Format(error.to_string()))?;
        let pieces = Pieces::of(&parsed["decoder"])?;
        let inner = library(&parsed, json)?;
        let vocabulary = inner.get_vocab(true);
        let length = vocabulary.values().max().map_or(0, |id| *id as usize + 1);
        // Numbers without a token are few in any model.
        if length > 2 * vocabulary.len() + MOST_WITHOUT_TOKEN {
            let reason = format!("{} tokens have numbers up to {length}", vocabulary.len());
            return Err(TokenizerError::Format(reason));
        }
        let mut bytes = vec![Vec::new(); length];
        let mut special = vec![false; length];
        let added = inner.get_added_tokens_decoder();
        for (token, id) in &vocabulary {
            bytes[*id as usize] = match added.get(id) {
                Some(added) => added.content.clone().into_bytes(),
                None => pieces
                    .bytes(token)
                    .ok_or_else(|| TokenizerError::Kind(format!("token {id} is {token:?}")))?,
            };
        }
        for (id, token) in added {
            special[id as usize] = token.special && !TAGS.contains(&token.content.as_str());
        }
        let inner = Inner::Library(Box::new(inner));
        let strips_space = pieces.strips_space;
        Ok(Tokenizer { inner, bytes, special, before: Vec::new(), after: Vec::new(), strips_space })
    }

    /// From the metadata of a GGUF file.
    pub fn from_gguf(vocabulary: &GgufVocabulary) -> Result<Tokenizer, TokenizerError> {
        gguf::tokenizer(vocabulary)
    }

    /// The tokens of a text. Special tokens in the text are recognised; `add_special` adds those
    /// that the model expects around a plain text, such as Llama's first token.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<Token>, TokenizerError> {
        let tokens = match &self.inner {
            Inner::SentencePiece(inner) => inner.encode(text),
            Inner::Library(inner) => {
                let encode = || inner.encode_fast(text, add_special);
                let encoding = guarded(encode).map_err(TokenizerError::Encode)?;
                encoding.get_ids().to_vec()
            }
        };
        Ok(match add_special {
            true => [&self.before[..], &tokens, &self.after].concat(),
            false => tokens,
        })
    }

    /// The tokens of a text that may have `most`. Longer texts are refused before all of them is encoded, which takes
    /// much more memory than the text. `goes_on` is asked between pieces.
    ///
    /// # Errors
    /// The text has more tokens or cannot be encoded, or `goes_on` has answered no.
    pub fn encode_within(
        &self,
        text: &str,
        add_special: bool,
        most: usize,
        goes_on: impl Fn() -> bool,
    ) -> Result<Vec<Token>, TokenizerError> {
        if text.len() > COMMON_BYTES * most + PIECE {
            let longest = self.bytes.iter().map(Vec::len).max().unwrap_or(1).max(1);
            let least = text.len() / (COMPOSED * longest);
            if least > most {
                return Err(TokenizerError::TooLong { least, most });
            }
            let (mut rest, mut count, mut cuts) = (text, 0, 0);
            while !rest.is_empty() {
                if !goes_on() {
                    return Err(TokenizerError::Stopped);
                }
                let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
                count += self.encode(piece, false)?.len();
                cuts += 1;
                rest = after;
                if let Some(least) = count.checked_sub(PER_CUT * cuts).filter(|least| *least > most) {
                    return Err(TokenizerError::TooLong { least, most });
                }
            }
        }
        self.encode(text, add_special)
    }

    /// The text of tokens, special ones left out if `skip_special`.
    pub fn decode(&self, tokens: &[Token], skip_special: bool) -> String {
        let kept = tokens.iter().filter(|token| !(skip_special && self.is_special(**token)));
        let bytes: Vec<u8> = kept.flat_map(|token| self.bytes(*token)).copied().collect();
        let added = usize::from(self.strips_space && bytes.first() == Some(&b' '));
        String::from_utf8_lossy(&bytes[added..]).into_owned()
    }

    /// The bytes of a token: none for a number that no token has.
    pub fn bytes(&self, token: Token) -> &[u8] {
        self.bytes.get(token as usize).map_or(&[], Vec::as_slice)
    }

    /// Whether a token is a control token such as `<|im_end|>`, which is no part of the text.
    pub fn is_special(&self, token: Token) -> bool {
        self.special.get(token as usize).copied().unwrap_or(false)
    }

    /// The token with exactly this text.
    pub fn token(&self, text: &str) -> Option<Token> {
        match &self.inner {
            Inner::Library(inner) => inner.token_to_id(text),
            Inner::SentencePiece(inner) => inner.token(text),
        }
    }

    /// Tokens of the vocabulary. A model's own vocabulary may be padded beyond it.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the vocabulary is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// The library's tokenizer of a `tokenizer.json`, which is given as its value and as its text.
fn library(parsed: &Value, json: &[u8]) -> Result<tokenizers::Tokenizer, TokenizerError> {
    let normalizer = &parsed["normalizer"];
    if grown(normalizer, GROWING) > MOST_GROWTH * GROWING {
        let reason = format!("its `normalizer` makes text more than {MOST_GROWTH} times as long");
        return Err(TokenizerError::Format(reason));
    }
    for (i, token) in parsed["added_tokens"].as_array().into_iter().flatten().enumerate() {
        let bytes = token["content"].as_str().map_or(0, str::len);
        let bytes = if token["normalized"] == true { grown(normalizer, bytes) } else { bytes };
        if bytes > MOST_OF_ADDED {
            let reason = format!("its `added_tokens[{i}]` has {bytes} bytes, and may have {MOST_OF_ADDED}");
            return Err(TokenizerError::Format(reason));
        }
    }
    let read = guarded(|| tokenizers::Tokenizer::from_bytes(json));
    let mut read = read.map_err(|reason| TokenizerError::Format(faulty(parsed).unwrap_or(reason)))?;
    // What a file says of the length of prompts holds for training alone: transformers leaves it out, too.
    read.with_padding(None);
    read.with_truncation(None).map_err(|error| TokenizerError::Format(error.to_string()))?;
    Ok(read)
}

/// The first part that the library cannot read, and why.
fn faulty(parsed: &Value) -> Option<String> {
    fn read<P: DeserializeOwned>(part: &Value) -> Result<(), String> {
        guarded(|| Option::<P>::deserialize(part)).map(drop)
    }
    type Read = fn(&Value) -> Result<(), String>;
    let parts: [(&str, Read); 6] = [
        ("normalizer", read::<NormalizerWrapper>),
        ("pre_tokenizer", read::<PreTokenizerWrapper>),
        ("post_processor", read::<PostProcessorWrapper>),
        ("decoder", read::<DecoderWrapper>),
        ("added_tokens", read::<Vec<AddedToken>>),
        ("model", read::<ModelWrapper>),
    ];
    let reason = |(part, read): (&str, Read)| {
        Some(format!("its `{part}` cannot be read: {}", read(&parsed[part]).err()?))
    };
    parts.into_iter().find_map(reason)
}

/// Calls the library, which panics on some corrupt files (tokenizers 0.22, `normalizers/mod.rs`).
fn guarded<V, E: Display>(call: impl FnOnce() -> Result<V, E>) -> Result<V, String> {
    let result = caught(call).ok_or("the library of tokenizers fails at it")?;
    result.map_err(|error| match error.to_string() {
        unknown if unknown.contains("untagged enum") => "it has no known form".to_owned(),
        message => message,
    })
}

/// The most bytes of a token that is found before a text is split, after the normalizer. What the library builds to find
/// them takes a time that grows with the square of a token's bytes: 20 ms for these.
const MOST_OF_ADDED: usize = 1024;

/// How many times as long a text of this many bytes may become before it is tokenized.
const MOST_GROWTH: usize = 64;
const GROWING: usize = 1024;

/// The most bytes of a text of `bytes` bytes after the replacements of a normalizer.
fn grown(normalizer: &Value, bytes: usize) -> usize {
    let of_text = |value: &Value| value.as_str().map_or(0, str::len);
    let content = of_text(&normalizer["content"]);
    match normalizer["type"].as_str() {
        Some("Sequence") => {
            let steps = normalizer["normalizers"].as_array().map_or(&[][..], Vec::as_slice);
            steps.iter().fold(bytes, |bytes, step| grown(step, bytes))
        }
        // An expression may match a byte, or nothing.
        Some("Replace") => match of_text(&normalizer["pattern"]["String"]) {
            0 => bytes.saturating_mul(1 + content).saturating_add(content),
            pattern => bytes.saturating_mul(content.div_ceil(pattern).max(1)),
        },
        Some("Prepend") => bytes.saturating_add(of_text(&normalizer["prepend"])),
        _ => bytes,
    }
}

/// Numbers up to the largest that no token has.
const MOST_WITHOUT_TOKEN: usize = 1 << 20;

/// What the tokens of a `tokenizer.json` stand for, by its decoder.
#[derive(Default)]
struct Pieces {
    is_byte_level: bool,
    /// Whether `<0x0A>` is a byte.
    has_bytes: bool,
    /// What stands for a space.
    space: Option<String>,
    strips_space: bool,
}

impl Pieces {
    fn of(decoder: &Value) -> Result<Pieces, TokenizerError> {
        let mut pieces = Pieces::default();
        let steps = decoder["decoders"].as_array().map_or(std::slice::from_ref(decoder), Vec::as_slice);
        for step in steps {
            match step["type"].as_str() {
                Some("ByteLevel") => pieces.is_byte_level = true,
                Some("ByteFallback") => pieces.has_bytes = true,
                Some("Replace") if step["content"] == " " => {
                    pieces.space = step["pattern"]["String"].as_str().map(str::to_owned);
                }
                Some("Metaspace") => {
                    pieces.space = step["replacement"].as_str().map(str::to_owned);
                    pieces.strips_space = step["prepend_scheme"] != "never";
                }
                Some("Strip") if step["content"] == " " => pieces.strips_space = step["start"] == 1,
                Some("Fuse") => {}
                other => {
                    let reason = format!("its decoder has the step {}", other.unwrap_or("null"));
                    return Err(TokenizerError::Kind(reason));
                }
            }
        }
        match pieces.is_byte_level || pieces.space.is_some() {
            true => Ok(pieces),
            false => Err(TokenizerError::Kind("its decoder makes no text of tokens".to_owned())),
        }
    }

    fn bytes(&self, token: &str) -> Option<Vec<u8>> {
        if self.is_byte_level {
            return byte_level::bytes(token);
        }
        if let Some(byte) = sentence_piece::byte(token).filter(|_| self.has_bytes) {
            return Some(vec![byte]);
        }
        let space = self.space.as_deref().unwrap_or(" ");
        Some(token.replace(space, " ").into_bytes())
    }
}
