//! The part of a sequence that one step computes.

use crate::Sampling;

/// A token of the vocabulary.
pub type Token = u32;

/// A page of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Page(pub u32);

/// A state slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// The tokens of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// Tokens that the scheduler knows.
    Known(Vec<Token>),
    /// The one token that the chunk's slot sampled last. A step can name it before its value is
    /// read, so the device need not wait for the host. If the step that sampled it has drafts, how
    /// many of them were accepted need not be read either: the executor knows the token's position.
    Last,
}

impl Tokens {
    /// The number of tokens.
    #[allow(clippy::len_without_is_empty, reason = "a chunk has at least one token")]
    pub fn len(&self) -> u32 {
        match self {
            Tokens::Known(tokens) => tokens.len() as u32,
            Tokens::Last => 1,
        }
    }
}

/// Consecutive tokens of one sequence.
///
/// The chunk at position 0 starts from zero state. Every other chunk continues from the state in
/// its slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// The slot of the sequence. No two chunks of a step have the same one.
    pub slot: Slot,
    /// The position of the chunk's first token in its sequence; the last one that it can have, if
    /// that depends on drafts whose acceptance was not read. The offset of the sampling is that of
    /// this position.
    pub position: u32,
    /// The tokens.
    pub tokens: Tokens,
    /// The pages of the sequence from its first token on: at least `position + tokens + draft`
    /// tokens. Pages before `position` may be shared with other sequences and are only read.
    pub pages: Vec<Page>,
    /// How to sample the token after the chunk. `None` for a chunk that is not the last of its
    /// prompt.
    pub sampling: Option<Sampling>,
    /// Tokens to draft and verify after the sampled one, at most
    /// [`Capacity::drafts`](crate::Capacity::drafts). The executor accepts exactly what it would
    /// have sampled without drafts, and leaves the slot and the pages as if the rejected tokens had
    /// never been. The n-th sampled token adds n to the offset of the sampling.
    pub draft: u32,
    /// Log-probabilities of given tokens, for `echo` and for scoring a text.
    pub score: Option<Score>,
}

/// Given tokens whose log-probabilities are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Score {
    /// For each token of the chunk, the token that follows it. It may be one shorter than the
    /// chunk, at the end of the text.
    pub targets: Vec<Token>,
    /// The number of most probable tokens to list beside each.
    pub top: u32,
}
