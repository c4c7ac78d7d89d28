//! The tokens of a step, as the device reads them.

use warpwright::runtime::{Buffer, Device, Stream};
use warpwright_llm_step::{Chunk, Tokens};

use crate::error::Result;
use crate::kernels::sequences::Sequences;
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
    /// Tokens of each sequence, if all have the same few: a decode, or drafts that are verified.
    pub(crate) each: Option<u32>,
}

/// Tokens of a sequence that are few.
const FEW: u32 = 8;

/// The slot of a key that is not written.
const NO_KEY: u32 = warpwright_kernels::rope::NO_SLOT;

/// The slot of a state of zeros.
const ZEROS: u32 = u32::MAX;

impl Shape {
    /// The extents for chunks. Where all have the same few tokens, the padding are sequences of as many.
    pub(crate) fn of(chunks: &[Chunk], page_size: u32) -> Self {
        let tokens: u32 = chunks.iter().map(|chunk| chunk.tokens.len()).sum();
        let entries = chunks.iter().map(|chunk| end(chunk).div_ceil(page_size)).max();
        let entries = entries.unwrap_or(1).next_power_of_two();
        let count = chunks.len() as u32;
        let first = chunks.first().map_or(0, |chunk| chunk.tokens.len());
        if first <= FEW && chunks.iter().all(|chunk| chunk.tokens.len() == first) {
            let sequences = padded(count);
            return Self { tokens: sequences * first, sequences, entries, each: Some(first) };
        }
        Self { tokens: padded(tokens), sequences: count, entries, each: None }
    }

    /// The extents for chunks of one token, with `drafts` rows more of each, and drafts after all of those.
    pub(crate) fn of_drafts(chunks: &[Chunk], drafts: u32, page_size: u32) -> Self {
        let (sequences, each) = (padded(chunks.len() as u32), 1 + drafts);
        let ends = chunks.iter().map(|chunk| (end(chunk) + 2 * drafts).div_ceil(page_size));
        let entries = ends.max().unwrap_or(1).next_power_of_two();
        Self { tokens: sequences * each, sequences, entries, each: Some(each) }
    }

    /// One token of each sequence.
    pub(crate) fn of_single_tokens(self) -> Self {
        Self { tokens: self.sequences, each: Some(1), ..self }
    }

    /// Whether each sequence has one token.
    pub(crate) fn is_decode(self) -> bool {
        self.each == Some(1)
    }
}

/// Up to 8 the number itself, else the next power of two or three quarters of it.
pub(crate) fn padded(count: u32) -> u32 {
    let power = count.next_power_of_two();
    match count {
        0..=8 => count,
        _ if count <= power / 4 * 3 => power / 4 * 3,
        _ => power,
    }
}

/// The tokens of the sequence after the chunk.
pub(crate) fn end(chunk: &Chunk) -> u32 {
    chunk.position + chunk.tokens.len()
}

/// The tokens of a step on the device.
pub(crate) struct Batch {
    pub(crate) shape: Shape,
    /// The most tokens of a sequence.
    pub(crate) longest: u32,
    /// Keys of all sequences.
    pub(crate) all_keys: u64,
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
    /// (sequences): the token after the last one of each.
    pub(crate) ends: Upload<u32>,
    /// (sequences): keys of each, and the slot of the state after it.
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
            all_keys: 0,
            given: Upload::new(device, tokens)?,
            tokens: device.uninitialized(tokens)?,
            positions: Upload::new(device, tokens)?,
            keys: Upload::new(device, tokens)?,
            sequences: Upload::new(device, tokens)?,
            starts: Upload::new(device, sequences + 1)?,
            ends: Upload::new(device, sequences)?,
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
        let (mut given, mut positions, mut keys, mut of_tokens) = (vec![], vec![], vec![], vec![]);
        let mut starts = vec![0u32];
        for (sequence, chunk) in chunks.iter().enumerate() {
            for at in 0..chunk.tokens.len() {
                let position = chunk.position + at;
                given.push(match &chunk.tokens {
                    Tokens::Known(tokens) => tokens[at as usize].cast_signed(),
                    Tokens::Last => LAST,
                });
                positions.push(position);
                let page = chunk.pages[(position / page_size) as usize];
                keys.push(page.0 * page_size + position % page_size);
                of_tokens.push(sequence as u32);
            }
            starts.push(positions.len() as u32);
        }
        self.longest = chunks.iter().map(|chunk| chunk.tokens.len()).max().unwrap_or(0);
        self.all_keys = chunks.iter().map(|chunk| u64::from(end(chunk))).sum();
        let padding = self.shape.tokens as usize;
        given.resize(padding, 0);
        positions.resize(padding, 0);
        keys.resize(padding, NO_KEY);
        self.given.set(stream, &given)?;
        self.positions.set(stream, &positions)?;
        self.keys.set(stream, &keys)?;
        self.lengths.set(stream, &self.of_chunks(chunks, self.shape.each.unwrap_or(1), end))?;
        self.set_sequences(stream, starts, of_tokens)?;
        self.set_pages(stream, chunks)?;
        self.set_states(stream, chunks, nobody)
    }

    /// Chunks of as many tokens as each sequence of the shape has, which the device knows; and their positions, keys
    /// and lengths.
    pub(crate) fn fill_sequences(&mut self, stream: &Stream, chunks: &[Chunk], nobody: u32) -> Result<()> {
        self.longest = self.shape.each.unwrap_or(1);
        self.all_keys = chunks.iter().map(|chunk| u64::from(end(chunk) + self.longest - 1)).sum();
        self.set_sequences(stream, vec![0], vec![])?;
        self.set_pages(stream, chunks)?;
        self.set_states(stream, chunks, nobody)
    }

    /// A value of each chunk, and that of padding.
    fn of_chunks(&self, chunks: &[Chunk], padding: u32, value: impl Fn(&Chunk) -> u32) -> Vec<u32> {
        let values = chunks.iter().map(value).chain(std::iter::repeat(padding));
        values.take(self.shape.sequences as usize).collect()
    }

    /// Where sequences start, and the sequence of each token. Sequences that are padding have as many tokens as the
    /// others.
    fn set_sequences(
        &mut self,
        stream: &Stream,
        mut starts: Vec<u32>,
        mut of_tokens: Vec<u32>,
    ) -> Result<()> {
        of_tokens.resize(self.shape.tokens as usize, 0);
        while starts.len() <= self.shape.sequences as usize {
            let (start, each) = (starts[starts.len() - 1], self.shape.each.unwrap_or(0));
            of_tokens[start as usize..(start + each) as usize].fill(starts.len() as u32 - 1);
            starts.push(start + each);
        }
        self.sequences.set(stream, &of_tokens)?;
        self.starts.set(stream, &starts)?;
        self.ends.set(stream, &starts[1..])
    }

    fn set_pages(&mut self, stream: &Stream, chunks: &[Chunk]) -> Result<()> {
        let entries = self.shape.entries as usize;
        let mut table = vec![0u32; self.shape.sequences as usize * entries];
        for (of_chunk, chunk) in table.chunks_mut(entries).zip(chunks) {
            let pages = &chunk.pages[..chunk.pages.len().min(entries)];
            of_chunk.iter_mut().zip(pages).for_each(|(entry, page)| *entry = page.0);
        }
        self.table.set(stream, &table)
    }

    fn set_states(&mut self, stream: &Stream, chunks: &[Chunk], nobody: u32) -> Result<()> {
        let begins_with = |chunk: &Chunk| if chunk.position == 0 { ZEROS } else { chunk.slot.0 };
        let initial = self.of_chunks(chunks, ZEROS, begins_with);
        let initial: Vec<i32> = initial.into_iter().map(u32::cast_signed).collect();
        self.slots.set(stream, &self.of_chunks(chunks, nobody, |chunk| chunk.slot.0))?;
        self.initial.set(stream, &initial)
    }

    /// The sequences, for kernels whose states are in slots.
    pub(crate) fn packed(&self) -> Sequences<'_> {
        Sequences { starts: &self.starts, ends: &self.ends, initial: &self.initial, slots: &self.slots }
    }
}
