//! Steps in flight.

use warpwright_llm_step::{Chunk, CopyState, Output};

use super::drawing::Drawn;

/// A step whose outputs have not been read.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) copies: Vec<CopyState>,
    pub(super) chunks: Vec<Chunk>,
    /// The outputs of its chunks, but for the tokens in flight.
    pub(super) outputs: Vec<Output>,
    pub(super) drawn: Vec<Drawn>,
}

impl Pending {
    /// A step of parts, whose chunks have those numbers in it.
    pub(super) fn of_parts(chunks: usize, parts: [(Vec<usize>, Self); 2]) -> Self {
        let mut all = Self { outputs: vec![Output::default(); chunks], ..Self::default() };
        for (numbers, part) in parts {
            numbers.iter().zip(part.outputs).for_each(|(chunk, output)| all.outputs[*chunk] = output);
            for mut drawn in part.drawn {
                drawn.rows.iter_mut().for_each(|(chunk, _)| *chunk = numbers[*chunk]);
                drawn.on_host.iter_mut().for_each(|(chunk, _)| *chunk = numbers[*chunk]);
                all.drawn.push(drawn);
            }
        }
        all
    }
}
