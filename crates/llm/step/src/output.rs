//! What a step computed.

use crate::Token;

/// The result of one chunk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// The sampled tokens: none if the chunk samples none, one, or one more than the accepted
    /// drafts.
    ///
    /// The last of them is not in the KV cache: `m` sampled tokens leave `position + tokens + m -
    /// 1` tokens there.
    pub sampled: Vec<Sampled>,
    /// The targets of the chunk's [`Score`](crate::Score), in order.
    pub scored: Vec<Sampled>,
    /// Why the chunk has neither. Its sequence ends: the token that its slot sampled last is none.
    pub failed: Option<String>,
}

/// A token, and how probable it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: Token,
    /// Its natural log-probability. 0 if none was requested.
    pub log_probability: f32,
    /// The most probable tokens and their log-probabilities, the most probable first.
    pub top: Vec<(Token, f32)>,
}
