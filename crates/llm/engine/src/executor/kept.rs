//! What is kept for steps of answers of a shape: their memory and their CUDA graphs.

use warpwright::runtime::{Buffer, Device, Graph, Stream};
use warpwright_kernels::sampling::{PARAMETER_WORDS, SamplingParameters};
use warpwright_kernels::speculation::{LAST, PADDING};
use warpwright_llm_step::{Capacity, Chunk, Tokens};

use super::drawing::{Drawing, parameters};
use crate::error::Result;
use crate::layers::{Batch, Shape, end};
use crate::upload::Upload;

/// What is kept for decodes of a shape.
pub(super) struct Decode {
    pub(super) batch: Batch,
    pub(super) drawing: Drawing,
    pub(super) graph: Option<Graph>,
}

impl Decode {
    pub(super) fn new(device: &Device, shape: Shape, vocabulary: u32) -> Result<Self> {
        let count = shape.sequences as usize;
        Ok(Self {
            batch: Batch::new(device, shape)?,
            drawing: Drawing::new(device, count, vocabulary)?,
            graph: None,
        })
    }
}

/// What is kept for steps of answers of a shape, which verify drafts.
pub(super) struct Verification {
    pub(super) batch: Batch,
    /// (sequences): what the host knows of each.
    pub(super) given: Upload<i32>,
    pub(super) positions: Upload<u32>,
    pub(super) limits: Upload<i32>,
    pub(super) parameters: Upload<u32>,
    /// (sequences): the slot that nobody reads.
    pub(super) nobody: Upload<u32>,
    pub(super) drawing: Drawing,
    pub(super) counts: Buffer<u32>,
    pub(super) ends: Buffer<u32>,
    pub(super) last_rows: Buffer<i32>,
    pub(super) next: Buffer<i32>,
    pub(super) rounds: Rounds,
    pub(super) graph: Option<Graph>,
}

/// What is kept for the drafts of sequences: rounds of one token of each.
pub(super) struct Rounds {
    pub(super) batch: Batch,
    /// (sequences): positions that the pages of each hold.
    pub(super) held: Upload<u32>,
    /// (sequences): after a prompt, the row of its last token.
    pub(super) rows: Upload<i32>,
    pub(super) greedy: Upload<u32>,
    pub(super) drafted: Buffer<u32>,
    pub(super) next: Buffer<i32>,
}

impl Verification {
    pub(super) fn new(device: &Device, shape: Shape, capacity: &Capacity) -> Result<Self> {
        let (rows, sequences) = (shape.tokens as usize, shape.sequences as usize);
        Ok(Self {
            batch: Batch::new(device, shape)?,
            given: Upload::new(device, sequences)?,
            positions: Upload::new(device, sequences)?,
            limits: Upload::new(device, sequences)?,
            parameters: Upload::new(device, sequences * PARAMETER_WORDS)?,
            nobody: Upload::new(device, sequences)?,
            drawing: Drawing::new(device, rows, capacity.vocabulary)?,
            counts: device.uninitialized(sequences)?,
            ends: device.uninitialized(sequences)?,
            last_rows: device.uninitialized(sequences)?,
            next: device.uninitialized(rows)?,
            rounds: Rounds::new(device, shape.of_single_tokens())?,
            graph: None,
        })
    }

    /// The chunks of a step.
    pub(super) fn fill(&mut self, stream: &Stream, chunks: &[Chunk], capacity: &Capacity) -> Result<()> {
        let nobody = capacity.slots;
        self.batch.fill_sequences(stream, chunks, nobody)?;
        let sequences = self.given.len();
        fn of<V: Clone>(chunks: &[Chunk], count: usize, padding: V, value: impl Fn(&Chunk) -> V) -> Vec<V> {
            chunks.iter().map(value).chain(std::iter::repeat(padding)).take(count).collect()
        }
        let given = |chunk: &Chunk| match &chunk.tokens {
            Tokens::Known(tokens) => tokens[0].cast_signed(),
            Tokens::Last => LAST,
        };
        let limit = |chunk: &Chunk| {
            let room = held(chunk, capacity).saturating_sub(end(chunk));
            chunk.draft.min(room).cast_signed()
        };
        self.given.set(stream, &of(chunks, sequences, 0, given))?;
        self.positions.set(stream, &of(chunks, sequences, 0, |chunk| chunk.position))?;
        self.limits.set(stream, &of(chunks, sequences, PADDING, limit))?;
        self.nobody.set(stream, &vec![nobody; sequences])?;
        let words = |chunk: &Chunk| parameters(chunk.sampling.as_ref()).words();
        let of_padding = parameters(None).words();
        self.parameters.set(stream, &of(chunks, sequences, of_padding, words).concat())?;
        self.rounds.fill(stream, chunks, capacity)
    }
}

impl Rounds {
    pub(super) fn new(device: &Device, shape: Shape) -> Result<Self> {
        let sequences = shape.sequences as usize;
        Ok(Self {
            batch: Batch::new(device, shape)?,
            held: Upload::new(device, sequences)?,
            rows: Upload::new(device, sequences)?,
            greedy: Upload::new(device, sequences * PARAMETER_WORDS)?,
            drafted: device.uninitialized(sequences)?,
            next: device.uninitialized(sequences)?,
        })
    }

    /// The sequences of the chunks.
    pub(super) fn fill(&mut self, stream: &Stream, chunks: &[Chunk], capacity: &Capacity) -> Result<()> {
        self.batch.fill_sequences(stream, chunks, capacity.slots)?;
        let sequences = self.held.len();
        let held = chunks.iter().map(|chunk| held(chunk, capacity)).chain(std::iter::repeat(0));
        self.held.set(stream, &held.take(sequences).collect::<Vec<_>>())?;
        let greedy = SamplingParameters { temperature: 0.0, ..Default::default() };
        self.greedy.set(stream, &greedy.words().repeat(sequences))
    }
}

/// Positions that the pages of a chunk hold.
fn held(chunk: &Chunk, capacity: &Capacity) -> u32 {
    capacity.context.min(chunk.pages.len() as u32 * capacity.page_tokens)
}
