//! A forward pass: where it runs, what it runs on, and the memory of its intermediate results.

use rustc_hash::FxHashMap;
use warpwright::runtime::{Buffer, Device, Stream};
use warpwright_kernels::operations::Operations;

use crate::error::Result;
use crate::kernels::delta_rule::Sequences;
use crate::number::Number;

/// The extents of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Tokens of all sequences.
    pub(crate) tokens: u32,
    /// Sequences.
    pub(crate) sequences: u32,
    /// The most tokens of a sequence; 1 in a decode.
    pub(crate) longest: u32,
}

/// The tokens of a step on the device.
pub(crate) struct Batch {
    pub(crate) shape: Shape,
    /// (tokens): the token, or [`LAST`](crate::kernels::tokens::LAST).
    pub(crate) given: Buffer<i32>,
    /// (tokens): the token.
    pub(crate) tokens: Buffer<i32>,
    /// (tokens): its position, the key that it writes, and its sequence.
    pub(crate) positions: Buffer<u32>,
    pub(crate) keys: Buffer<u32>,
    pub(crate) sequences: Buffer<u32>,
    /// (sequences + 1): where sequences start.
    pub(crate) starts: Buffer<u32>,
    /// (sequences): the slot of each.
    pub(crate) slots: Buffer<u32>,
    /// (sequences, entries): pages.
    pub(crate) table: Buffer<u32>,
    /// Entries of the table for each sequence.
    pub(crate) entries: u32,
}

impl Batch {
    /// The sequences, for kernels whose states are in slots.
    pub(crate) fn packed(&self) -> Sequences<'_> {
        Sequences { starts: &self.starts, slots: &self.slots, positions: &self.positions }
    }
}

/// Device memory by length, taken and returned within a pass.
pub(crate) struct Memory<T> {
    device: Device,
    free: FxHashMap<usize, Vec<Buffer<T>>>,
}

impl<T: Number> Memory<T> {
    pub(crate) fn new(device: &Device) -> Self {
        Self { device: device.clone(), free: FxHashMap::default() }
    }

    /// A buffer that holds anything.
    pub(crate) fn take(&mut self, length: usize) -> Result<Buffer<T>> {
        match self.free.get_mut(&length).and_then(Vec::pop) {
            Some(buffer) => Ok(buffer),
            None => Ok(self.device.uninitialized(length)?),
        }
    }

    /// Returns a buffer: later work on the stream may overwrite it.
    pub(crate) fn give(&mut self, buffer: Buffer<T>) {
        self.free.entry(buffer.len()).or_default().push(buffer);
    }
}

/// A forward pass.
pub(crate) struct Pass<'l, T> {
    pub(crate) operations: &'l Operations,
    pub(crate) stream: &'l Stream,
    pub(crate) batch: &'l Batch,
    pub(crate) memory: &'l mut Memory<T>,
    /// (positions, rotated columns): cosines and sines.
    pub(crate) rotations: &'l Buffer<f32>,
    /// Keys of a page.
    pub(crate) page_size: u32,
}

impl<'l, T: Number> Pass<'l, T> {
    /// Where kernels run.
    pub(crate) fn on(&self) -> (&'l Operations, &'l Stream) {
        (self.operations, self.stream)
    }

    /// A buffer with a row of `columns` for each token.
    pub(crate) fn rows_of(&mut self, columns: u32) -> Result<Buffer<T>> {
        self.memory.take(self.batch.shape.tokens as usize * columns as usize)
    }
}
