//! A small model for tests: bytes, a few merges, and the special tokens of Qwen.

use warpwright_llm_serving::model::Model;
use warpwright_llm_serving::template::CHAT_ML;
use warpwright_llm_serving::tokenizer::GgufVocabulary;
use warpwright_llm_step::Capacity;

/// The special tokens, from 300 on.
pub(crate) const SPECIALS: [&str; 7] =
    ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"];

/// The vocabulary is padded beyond the tokenizer's, as Qwen's is.
pub(crate) const CAPACITY: Capacity = Capacity {
    page_tokens: 16,
    pages: 256,
    slots: 32,
    stateful: true,
    sequences: 16,
    tokens: 512,
    context: 1024,
    vocabulary: 320,
    drafts: 0,
    top: 5,
};

const MERGES: [&str; 12] =
    ["t h", "th e", "Ġ the", "i n", "Ġ a", "o n", "e r", "Ġ w", "a n", "an d", "Ġ and", "r e"];

/// The metadata of a GGUF file with this vocabulary.
pub(crate) fn vocabulary() -> GgufVocabulary {
    let mut tokens = GgufVocabulary::bytes().tokens;
    tokens.extend(MERGES.iter().map(|merge| merge.replace(' ', "")));
    while tokens.len() < 300 {
        tokens.push(format!("Ġunused{}", tokens.len()));
    }
    let mut token_types = vec![1; 300];
    token_types.extend([3, 3, 3, 4, 4, 4, 4]);
    tokens.extend(SPECIALS.map(str::to_owned));
    GgufVocabulary {
        model: "gpt2".to_owned(),
        pre: "qwen35".to_owned(),
        tokens,
        token_types,
        merges: MERGES.map(str::to_owned).to_vec(),
        eos: Some(302),
        ..GgufVocabulary::default()
    }
}

pub(crate) fn model() -> Model {
    Model::from_gguf("toy", &vocabulary(), Some(CHAT_ML)).unwrap()
}
