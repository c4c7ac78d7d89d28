//! What kinds of chunks a step has.

use warpwright_llm_step::Chunk;

/// Whether a chunk is one token whose successor is sampled.
pub(super) fn is_decode(chunk: &Chunk) -> bool {
    chunk.tokens.len() == 1 && chunk.score.is_none() && chunk.sampling.is_some()
}

/// The chunks at these indices.
pub(super) fn some_of(chunks: &[Chunk], indices: &[usize]) -> Vec<Chunk> {
    indices.iter().map(|at| chunks[*at].clone()).collect()
}
