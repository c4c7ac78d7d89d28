//! What scales the rows of a chunk's products: four numbers per token, and one per chunk.

use warpwright::prelude::*;

use crate::delta_rule::problem::CHUNK;

/// Elements of a chunk's factors: see `Factor`.
pub const FACTORS: u32 = 4 * CHUNK + 4;

/// Rows of [`FACTORS`], each with a number per token of the chunk. G is the sum of the log-decays
/// from the beginning of the chunk to the token; |k| and |q| are norms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    /// β.
    Beta,
    /// β e^G / |k|: what a key recalls of the state before the chunk, in the token's replacement.
    Recall,
    /// e^G / |q| / sqrt(128): what a query reads of the state before the chunk.
    Read,
    /// e^(G of the last token - G) / |k|: what is left of a token's replacement after the chunk.
    Keep,
    /// e^(G of the last token), one number: what is left of the state.
    Decay,
}

impl Factor {
    /// Its first element.
    pub(super) fn start(self) -> u32 {
        self as u32 * CHUNK
    }
}

/// Tokens of a thread among the columns of an accumulator (v, token).
pub(super) const TOKENS: usize = 16;

/// The index of element `i` of an accumulator (v, token) among its thread's tokens: pairs of
/// neighbors, in turn of one row and of another.
pub(super) fn token(i: u32) -> usize {
    (i / 4 * 2 + i % 2) as usize
}

/// The factors of a chunk in shared memory, as a thread needs them: those of its 16 tokens.
#[derive(Clone, Copy)]
pub(super) struct TokenFactors {
    chunk: Shared<f32>,
    own: Shared<f32>,
}

impl TokenFactors {
    #[track_caller]
    pub(super) fn of(chunk: Shared<f32>, lane: Reg<u32>) -> Self {
        Self { chunk, own: chunk.at(lane % 4 * 2) }
    }

    #[track_caller]
    pub(super) fn load(&self, factor: Factor) -> [Reg<f32>; TOKENS] {
        let mut pairs =
            (0..CHUNK).step_by(8).flat_map(|block| self.own.at(factor.start() + block).load_vector::<2>());
        [(); TOKENS].map(|()| pairs.next().expect("a pair for every 8 tokens"))
    }

    #[track_caller]
    pub(super) fn decay(&self) -> Reg<f32> {
        self.chunk.at(Factor::Decay.start()).load()
    }
}
