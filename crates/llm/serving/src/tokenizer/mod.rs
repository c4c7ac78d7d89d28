//! Text to tokens and back.

mod byte_level;
mod detokenizer;
mod gguf;

use std::path::Path;

pub use detokenizer::Detokenizer;
pub use gguf::GgufVocabulary;
use tokenizers::DecoderWrapper;
use warpwright_llm_step::Token;

/// A byte-level BPE tokenizer: that of Qwen, Llama 3, SmolLM2 and most others since GPT-2.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The bytes of each token.
    bytes: Vec<Vec<u8>>,
    special: Vec<bool>,
}

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
    /// The tokenizer is not byte-level BPE.
    #[error("the tokenizer is not byte-level BPE ({0}): no other kind is supported")]
    Kind(String),
    /// A pre-tokenizer of a GGUF file that is not in the table.
    #[error(
        "the GGUF file names the pre-tokenizer `{0}`, which is not supported: put the model's tokenizer.json beside it"
    )]
    PreTokenizer(String),
    /// Text that the tokenizer refuses.
    #[error("the text cannot be encoded: {0}")]
    Encode(String),
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
        let inner = tokenizers::Tokenizer::from_bytes(json)
            .map_err(|error| TokenizerError::Format(error.to_string()))?;
        if !inner.get_decoder().is_some_and(is_byte_level) {
            return Err(TokenizerError::Kind("its decoder is not ByteLevel".to_owned()));
        }
        let vocabulary = inner.get_vocab(true);
        let length = vocabulary.values().max().map_or(0, |id| *id as usize + 1);
        let mut bytes = vec![Vec::new(); length];
        let mut special = vec![false; length];
        let added = inner.get_added_tokens_decoder();
        for (token, id) in &vocabulary {
            bytes[*id as usize] = match added.get(id) {
                Some(added) => added.content.clone().into_bytes(),
                None => byte_level::bytes(token)
                    .ok_or_else(|| TokenizerError::Kind(format!("token {id} is {token:?}")))?,
            };
        }
        for (id, token) in added {
            special[id as usize] = token.special && !TAGS.contains(&token.content.as_str());
        }
        Ok(Tokenizer { inner, bytes, special })
    }

    /// From the metadata of a GGUF file.
    pub fn from_gguf(vocabulary: &GgufVocabulary) -> Result<Tokenizer, TokenizerError> {
        let json = gguf::tokenizer_json(vocabulary)?;
        Tokenizer::from_json(json.to_string().as_bytes())
    }

    /// The tokens of a text. Special tokens in the text are recognised; `add_special` adds those
    /// that the model expects around a plain text, such as Llama's first token.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<Token>, TokenizerError> {
        let encoding = self.inner.encode_fast(text, add_special);
        let encoding = encoding.map_err(|error| TokenizerError::Encode(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of tokens, special ones left out if `skip_special`.
    pub fn decode(&self, tokens: &[Token], skip_special: bool) -> String {
        let kept = tokens.iter().filter(|token| !(skip_special && self.is_special(**token)));
        let bytes: Vec<u8> = kept.flat_map(|token| self.bytes(*token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
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
        self.inner.token_to_id(text)
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

fn is_byte_level(decoder: &DecoderWrapper) -> bool {
    match decoder {
        DecoderWrapper::ByteLevel(_) => true,
        DecoderWrapper::Sequence(steps) => steps.get_decoders().iter().any(is_byte_level),
        _ => false,
    }
}
