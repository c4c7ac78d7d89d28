//! The tokens of a step, as the device reads them.

use warpwright::runtime::{Buffer, Device, Stream};
use warpwright_llm_step::{Chunk, Tokens};

use crate::error::Result;
use crate::kernels::delta_rule::Sequences;
use crate::kernels::tokens::LAST;
use crate::upload::Upload;

/// The extents of a step's buffers. Steps of fewer tokens are padded, so that few extents exist: memory
/// and graphs are kept for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Tokens of all sequences. The last ones may be of no sequence.
    pub(crate) tokens: u32,
    /// Sequences.
    pub(crate) sequences: u32,
    /// Entries of the block table for each sequence.
    pub(crate) entries: u32,
}

/// The slot of a key that is not written.
const NO_KEY: u32 = warpwright_kernels::rope::NO_SLOT;

impl Shape {
    /// The extents for chunks. In a decode, whose chunks have a token each, the padding are sequences of
    /// their own.
    pub(crate) fn of(chunks: &[Chunk], page_size: u32) -> Self {
        let tokens: u32 = chunks.iter().map(|chunk| chunk.tokens.len()).sum();
        let entries = chunks.iter().map(|chunk| end(chunk).div_ceil(page_size)).max();
        let (tokens, sequences) = match tokens as usize == chunks.len() {
            true => (padded(tokens), padded(tokens)),
            false => (padded(tokens), chunks.len() as u32),
        };
        Self { tokens, sequences, entries: entries.unwrap_or(1).next_power_of_two() }
    }

    /// Whether each sequence has one token.
    pub(crate) fn is_decode(self) -> bool {
        self.tokens == self.sequences
    }
}

/// Up to 8 the number itself, else the next power of two or three quarters of it.
fn padded(count: u32) -> u32 {
    let power = count.next_power_of_two();
    match count {
        0..=8 => count,
        _ if count <= power / 4 * 3 => power / 4 * 3,
        _ => power,
    }
}

/// The tokens of the sequence after the chunk.
fn end(chunk: &Chunk) -> u32 {
    chunk.position + chunk.tokens.len()
}

/// The tokens of a step on the device.
pub(crate) struct Batch {
    pub(crate) shape: Shape,
    /// The most tokens of a sequence.
    pub(crate) longest: u32,
    /// (tokens): the token, or [`LAST`].
    pub(crate) given: Upload<i32>,
    /// (tokens): the token.
    pub(crate) tokens: Buffer<i32>,
    /// (tokens): its position, the key that it writes, and its sequence.
    pub(crate) positions: Upload<u32>,
    pub(crate) keys: Upload<u32>,
    pub(crate) sequences: Upload<u32>,
    /// (sequences + 1): where sequences start.
    pub(crate) starts: Upload<u32>,
    /// (sequences): keys of each, and its slot.
    pub(crate) lengths: Upload<u32>,
    pub(crate) slots: Upload<u32>,
    /// (sequences): the slot of the state that each begins with; -1 for zeros.
    pub(crate) initial: Upload<i32>,
    /// (sequences, entries): pages.
    pub(crate) table: Upload<u32>,
}

impl Batch {
    /// Memory for steps of a shape.
    pub(crate) fn new(device: &Device, shape: Shape) -> Result<Self> {
        let (tokens, sequences) = (shape.tokens as usize, shape.sequences as usize);
        Ok(Self {
            shape,
            longest: 0,
            given: Upload::new(device, tokens)?,
            tokens: device.uninitialized(tokens)?,
            positions: Upload::new(device, tokens)?,
            keys: Upload::new(device, tokens)?,
            sequences: Upload::new(device, tokens)?,
            starts: Upload::new(device, sequences + 1)?,
            lengths: Upload::new(device, sequences)?,
            slots: Upload::new(device, sequences)?,
            initial: Upload::new(device, sequences)?,
            table: Upload::new(device, sequences * shape.entries as usize)?,
        })
    }

    /// The chunks of a step of this shape. Padding writes no key, and state to the slot `nobody` only.
    pub(crate) fn fill(
        &mut self,
        stream: &Stream,
        chunks: &[Chunk],
        page_size: u32,
        nobody: u32,
    ) -> Result<()> {
        let Shape { tokens, sequences, entries } = self.shape;
        let (count, entries) = (sequences as usize, entries as usize);
        let (mut given, mut positions, mut keys, mut of_tokens) = (vec![], vec![], vec![], vec![]);
        let mut starts = vec![0u32];
        let mut table = vec![0u32; count * entries];
        for (sequence, chunk) in chunks.iter().enumerate() {
            let pages = &chunk.pages[..end(chunk).div_ceil(page_size) as usize];
            let of_table = table[sequence * entries..].iter_mut();
            of_table.zip(pages).for_each(|(entry, page)| *entry = page.0);
            for at in 0..chunk.tokens.len() {
                let position = chunk.position + at;
                given.push(match &chunk.tokens {
                    Tokens::Known(tokens) => tokens[at as usize].cast_signed(),
                    Tokens::Last => LAST,
                });
                positions.push(position);
                keys.push(pages[(position / page_size) as usize].0 * page_size + position % page_size);
                of_tokens.push(sequence as u32);
            }
            starts.push(positions.len() as u32);
        }
        self.longest = chunks.iter().map(|chunk| chunk.tokens.len()).max().unwrap_or(0);
        let padding = tokens as usize;
        given.resize(padding, 0);
        positions.resize(padding, 0);
        keys.resize(padding, NO_KEY);
        of_tokens.resize(padding, 0);
        // Sequences that are padding have a token each.
        while starts.len() <= count {
            of_tokens[starts.len() - 1] = starts.len() as u32 - 1;
            starts.push(starts.len() as u32);
        }
        let of_chunks = |value: fn(&Chunk) -> u32, padding: u32| -> Vec<u32> {
            let values = chunks.iter().map(value).chain(std::iter::repeat(padding));
            values.take(count).collect()
        };
        let slots = of_chunks(|chunk| chunk.slot.0, nobody);
        let begins = chunks.iter().map(|chunk| chunk.position == 0).chain(std::iter::repeat(true));
        let initial: Vec<i32> = slots
            .iter()
            .zip(begins)
            .map(|(slot, begins)| if begins { -1 } else { slot.cast_signed() })
            .collect();
        self.given.set(stream, &given)?;
        self.positions.set(stream, &positions)?;
        self.keys.set(stream, &keys)?;
        self.sequences.set(stream, &of_tokens)?;
        self.starts.set(stream, &starts)?;
        self.lengths.set(stream, &of_chunks(end, 1))?;
        self.slots.set(stream, &slots)?;
        self.initial.set(stream, &initial)?;
        self.table.set(stream, &table)
    }

    /// The sequences, for kernels whose states are in slots.
    pub(crate) fn packed(&self) -> Sequences<'_> {
        Sequences { starts: &self.starts, slots: &self.slots, positions: &self.positions }
    }
}
