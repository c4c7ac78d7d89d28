//! A forward pass: where it runs, what it runs on, and the memory of its intermediate results.

use rustc_hash::FxHashMap;
use warpwright::runtime::{Buffer, Device, Storable, Stream};
use warpwright_kernels::attention::PagedCache;
use warpwright_kernels::communicator::Communicator;
use warpwright_kernels::operations::Operations;

use super::{Batch, Cost};
use crate::error::Result;
use crate::number::Number;

/// Device memory, taken and returned within a pass. Lengths are rounded up to powers of two, so that passes of many
/// shapes share it.
pub(crate) struct Memory<T> {
    device: Device,
    /// By their capacity.
    free: FxHashMap<usize, Vec<Buffer<T>>>,
}

impl<T: Storable> Memory<T> {
    pub(crate) fn new(device: &Device) -> Self {
        Self { device: device.clone(), free: FxHashMap::default() }
    }

    /// A buffer that holds anything.
    pub(crate) fn take(&mut self, length: usize) -> Result<Buffer<T>> {
        let capacity = length.next_power_of_two();
        let mut buffer = match self.free.get_mut(&capacity).and_then(Vec::pop) {
            Some(buffer) => buffer,
            None => self.device.uninitialized(capacity)?,
        };
        buffer.resize(length)?;
        Ok(buffer)
    }

    /// Returns a buffer: later work on the stream may overwrite it.
    pub(crate) fn give(&mut self, buffer: Buffer<T>) {
        self.free.entry(buffer.capacity()).or_default().push(buffer);
    }
}

/// What a layer with a state projects of all tokens.
pub(crate) struct Projected<T> {
    /// Rows of the projection.
    pub(super) rows: Buffer<T>,
    /// Rows [b | a], where they are not columns of the others.
    pub(super) gates: Option<Buffer<T>>,
}

/// Drafts that a pass verifies: layers leave the states of sequences as they are.
pub(crate) struct Verified<'l, T> {
    /// What layers with a state project, to repeat the accepted tokens.
    pub(crate) projected: &'l mut Vec<Projected<T>>,
    /// (sequences): the slot that nobody reads.
    pub(crate) nobody: &'l Buffer<u32>,
}

impl<T: Number> Projected<T> {
    pub(super) fn give(self, pass: &mut Pass<'_, T>) {
        pass.memory.give(self.rows);
        self.gates.into_iter().for_each(|gates| pass.memory.give(gates));
    }
}

/// A forward pass.
pub(crate) struct Pass<'l, T> {
    pub(crate) operations: &'l Operations,
    pub(crate) stream: &'l Stream,
    pub(crate) batch: &'l Batch,
    pub(crate) memory: &'l mut Memory<T>,
    /// Memory of numbers that are f32 in every model.
    pub(crate) floats: &'l mut Memory<f32>,
    /// (positions, rotated columns): cosines and sines.
    pub(crate) rotations: &'l Buffer<f32>,
    /// The cache of each layer.
    pub(crate) cache: PagedCache,
    /// Whether steps draft tokens: kernels of a step then write its lengths and positions.
    pub(crate) has_drafts: bool,
    /// `None` without drafts.
    pub(crate) verified: Option<Verified<'l, T>>,
    /// What operations cost, if that is wanted.
    pub(crate) costs: Option<&'l mut Vec<Cost>>,
    /// Collective operations of the ranks of tensor parallelism; `None`: the device has the whole model.
    pub(crate) communicator: Option<&'l Communicator>,
}

impl<'l, T: Number> Pass<'l, T> {
    /// Where kernels run.
    pub(crate) fn on(&self) -> (&'l Operations, &'l Stream) {
        (self.operations, self.stream)
    }

    /// Whether the library's kernels by `wgmma` run here.
    pub(crate) fn has_wgmma(&self) -> bool {
        self.operations.device().properties().capability.compute_capability == (9, 0)
    }

    /// x += the sum of the parts of all ranks.
    pub(crate) fn add_of_all_ranks(
        &mut self,
        communicator: &Communicator,
        part: &Buffer<T>,
        x: &mut Buffer<T>,
    ) -> Result<()> {
        communicator.all_reduce_add(self.operations, self.stream, part, x)?;
        // The part, the slots that it and those of the peers are written to, and x.
        let ranks = communicator.ranks();
        let bytes = (2 * ranks as usize + 3) * part.bytes();
        self.note("all-reduce", bytes, u64::from(ranks) * part.len() as u64);
        Ok(())
    }

    /// A buffer with a row of `columns` for each token.
    pub(crate) fn rows_of(&mut self, columns: u32) -> Result<Buffer<T>> {
        self.memory.take(self.batch.shape.tokens as usize * columns as usize)
    }

    /// Notes what was launched since the last note, if notes are kept.
    pub(super) fn note(&mut self, operation: &str, bytes: usize, flops: u64) {
        let launches = || self.operations.device().logged_launches();
        if let Some(costs) = &mut self.costs {
            let operation = operation.to_owned();
            costs.push(Cost { operation, launches: launches(), bytes: bytes as u64, flops });
        }
    }

    /// Notes the drawing of tokens from logits.
    pub(crate) fn note_sampling(&mut self, bytes_of_logits: usize) {
        self.note("sampling", bytes_of_logits, 0);
    }
}
