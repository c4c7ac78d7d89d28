//! The operation for programs.

use warpwright::runtime::{LaunchCounts, Storable, Stream};

use super::kernel::Rope;
use super::problem::{OPERATION, RopeBuffers, RopeShape};
use super::scalar::ScalarRope;
use crate::operations::{Operations, Result};
use crate::overlap::{self, overlaps};
use crate::rows::RowElement;

/// Heads of a thread: several where enough tokens fill the device. (H200, 24 heads of 256 elements: four take
/// 54 us for 8,192 tokens where one takes 76, 5.9 for 512 (6.9) and 2.9 for 64 (2.6).)
fn heads_of_thread(tokens: usize, sm_count: u32) -> u32 {
    if tokens >= 3 * sm_count as usize { 4 } else { 1 }
}

impl Operations {
    /// RMSNorm of the heads of Q and K, their rotation by the tokens' positions, and the write of K
    /// and V to the paged cache: one pass. Positions and slots are read when the kernel runs, so
    /// that a CUDA graph may be replayed with others. A position without cosines and sines, and a slot
    /// beyond the cache, stop the kernel.
    ///
    /// Everything is computed in f32, and a result is rounded to `T` once.
    ///
    /// # Errors
    /// A buffer does not have the length that the shape needs, an odd number of columns or more than the
    /// head's are rotated, or the device refuses.
    pub fn rope<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        shape: &RopeShape,
        buffers: RopeBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        let heads = heads_of_thread(buffers.positions.len(), self.device().properties().sm_count);
        self.rope_by(heads, stream, shape, buffers)
    }

    /// As [`rope`](Self::rope), with `heads` heads of a token for each thread.
    pub fn rope_by<T: RowElement + Storable>(
        &self,
        heads: u32,
        stream: &Stream,
        shape: &RopeShape,
        buffers: RopeBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        let limits = buffers.check(shape)?;
        if limits[0] == 0 || shape.heads() == 0 {
            return Ok(LaunchCounts::default());
        }
        let has_vectors = buffers.has_vectors(shape);
        let RopeBuffers { queries, keys, values, norm, rotations, positions, slots, .. } = buffers;
        let (query_weights, key_weights, epsilon) = match &norm {
            Some(norm) => (norm.query_weights, norm.key_weights, norm.epsilon),
            None => (queries.buffer, queries.buffer, 0.0),
        };
        let strides = [queries.strides(), keys.strides(), values.strides()];
        let inputs = (
            queries.buffer,
            keys.buffer,
            values.buffer,
            strides[0],
            strides[1],
            strides[2],
            query_weights,
            key_weights,
            rotations,
            positions,
            slots,
            limits,
            epsilon,
        );
        let RopeBuffers { output, key_cache, value_cache, .. } = buffers;
        let (norm, arguments) = (norm.map(|norm| norm.gain), (inputs, output, key_cache, value_cache));
        if !has_vectors {
            let kernel = self.kernel(ScalarRope { shape: *shape, norm }, ScalarRope::run::<T>)?;
            let grid = self.grid(OPERATION, u64::from(limits[0]) * u64::from(shape.heads()))?;
            return Ok(kernel.launch(stream, grid, arguments)?);
        }
        let overlaps = overlaps(self);
        let rope = Rope { shape: *shape, norm, heads, overlaps };
        let kernel = self.kernel(rope, Rope::run::<T>)?;
        let grid = self.grid(OPERATION, rope.ctas(limits[0]))?;
        Ok(kernel.launch(stream, overlap::shape(kernel.shape(grid), overlaps), arguments)?)
    }
}
