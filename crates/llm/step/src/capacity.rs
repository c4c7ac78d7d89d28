//! What an executor can hold.

/// The limits of an executor. They do not change while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Tokens in a page of the KV cache.
    pub page_tokens: u32,
    /// Pages of the KV cache.
    pub pages: u32,
    /// State slots. A running sequence takes one, a snapshot of a prefix takes one.
    pub slots: u32,
    /// Whether a slot holds recurrent state (Qwen 3.5) or only the last token (Llama). Without
    /// state, a prefix can be shared at any page boundary; with state, only where a snapshot of the
    /// state was kept.
    pub stateful: bool,
    /// The most chunks of one step.
    pub sequences: u32,
    /// The most tokens of one step, over all its chunks.
    pub tokens: u32,
    /// The most tokens of one sequence, prompt and answer together.
    pub context: u32,
    /// Tokens of the vocabulary. Logits and masks have this length.
    pub vocabulary: u32,
    /// The most tokens that one chunk can draft. 0 without speculative decoding.
    pub drafts: u32,
    /// The most alternatives that a log-probability can list.
    pub top: u32,
}
