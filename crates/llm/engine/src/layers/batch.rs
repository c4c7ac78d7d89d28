//! The tokens of a step, as the device reads them.

use warpwright::runtime::{Buffer, Device, Stream};
use warpwright_kernels::attention::PagedCache;
use warpwright_kernels::delta_rule::decode::Sequences;
use warpwright_kernels::speculation::LAST;
use warpwright_llm_step::{Chunk, Tokens};

use crate::error::Result;
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

/// Entries of the block table from which few tokens of each sequence have shapes of their own. Their attention takes no
/// longer for more entries, but for the table, which is copied.
const FEW_ENTRIES: u32 = 64;

/// The slot of a key that is not written.
const NO_KEY: u32 = warpwright_kernels::rope::NO_SLOT;

/// The slot of a state of zeros.
const ZEROS: u32 = u32::MAX;

impl Shape {
    /// The extents for chunks. Where all have the same few tokens, the padding are sequences of as many.
    pub(crate) fn of(chunks: &[Chunk], cache: PagedCache) -> Self {
        let tokens: u32 = chunks.iter().map(|chunk| chunk.tokens.len()).sum();
        let longest = chunks.iter().map(end).max().unwrap_or(1);
        let count = chunks.len() as u32;
        let first = chunks.first().map_or(0, |chunk| chunk.tokens.len());
        if first <= FEW && chunks.iter().all(|chunk| chunk.tokens.len() == first) {
            return Self::of_few(count, first, longest, cache);
        }
        let entries = longest.div_ceil(cache.page_size).next_power_of_two();
        Self { tokens: padded(tokens), sequences: count, entries, each: None }
    }

    /// The extents for at least `count` sequences with `each` tokens, of up to `longest` tokens with earlier ones.
    pub(crate) fn of_few(count: u32, each: u32, longest: u32, cache: PagedCache) -> Self {
        let (sequences, entries) = (padded(count), longest.div_ceil(cache.page_size));
        let entries = Self::entries_of_few(cache).find(|held| *held >= entries).unwrap_or(entries);
        Self { tokens: sequences * each, sequences, entries, each: Some(each) }
    }

    /// Entries of the block table that few tokens of each sequence can have, up to those of the longest sequence.
    pub(crate) fn entries_of_few(cache: PagedCache) -> impl Iterator<Item = u32> {
        let most = cache.pages_per_sequence;
        let fewer = std::iter::successors(Some(FEW_ENTRIES), |entries| entries.checked_mul(4));
        fewer.take_while(move |entries| *entries < most).chain([most])
    }

    /// The extents for chunks of one token, with `drafts` rows more of each, and drafts after all of those.
    pub(crate) fn of_drafts(chunks: &[Chunk], drafts: u32, cache: PagedCache) -> Self {
        let longest = chunks.iter().map(|chunk| end(chunk) + 2 * drafts).max().unwrap_or(1);
        Self::of_few(chunks.len() as u32, 1 + drafts, longest, cache)
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

/// The number rounded up: by at most a sixteenth of the next power of two, and not at all up to 8.
pub(crate) fn padded(count: u32) -> u32 {
    count.next_multiple_of((count.next_power_of_two() / 16).max(1 + 3 * u32::from(count > 8)))
}

/// All numbers that [`padded`] gives, up to the first that is `most` or more.
pub(crate) fn all_padded(most: u32) -> impl Iterator<Item = u32> {
    let last = padded(most.max(1));
    std::iter::successors(Some(1), |count| Some(padded(count + 1))).take_while(move |count| *count <= last)
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

    /// Whether the memory is enough for a shape.
    pub(crate) fn has_room_for(&self, shape: Shape) -> bool {
        let (tokens, sequences) = (shape.tokens as usize, shape.sequences as usize);
        let is_enough = tokens <= self.tokens.capacity() && sequences <= self.slots.capacity();
        is_enough && sequences * shape.entries as usize <= self.table.capacity()
    }

    /// Makes the batch one of another shape, which it has room for.
    pub(crate) fn reshape(&mut self, shape: Shape) -> Result<()> {
        let (tokens, sequences) = (shape.tokens as usize, shape.sequences as usize);
        self.shape = shape;
        self.tokens.resize(tokens)?;
        self.given.resize(tokens)?;
        self.positions.resize(tokens)?;
        self.keys.resize(tokens)?;
        self.sequences.resize(tokens)?;
        self.starts.resize(sequences + 1)?;
        self.ends.resize(sequences)?;
        self.lengths.resize(sequences)?;
        self.slots.resize(sequences)?;
        self.initial.resize(sequences)?;
        self.table.resize(sequences * shape.entries as usize)
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
        let one_token = self.shape.is_decode();
        Sequences {
            starts: &self.starts,
            ends: &self.ends,
            initial: &self.initial,
            slots: &self.slots,
            one_token,
            settled: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_up_by_little() {
        for count in 1..5000 {
            let rounded = padded(count);
            assert!(rounded >= count && padded(rounded) == rounded, "{count} and {rounded}");
            assert!(f64::from(rounded - count) <= f64::from(count) / 8.0 + 2.0, "{count} and {rounded}");
        }
        assert_eq!((padded(8), padded(9), padded(257), padded(512)), (8, 12, 288, 512));
        let all: Vec<u32> = all_padded(30).collect();
        assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 28, 32]);
    }
}
