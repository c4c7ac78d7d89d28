//! Batches of steps with prompts, whose shapes are many.

use warpwright::runtime::Device;
use warpwright_llm_step::Capacity;

use crate::error::Result;
use crate::layers::{Batch, Shape};

/// Batches that steps use in turn: the host fills one while the device reads those of steps in flight. Their memory is
/// taken once, for any shape, because to take more would wait for the device.
#[derive(Default)]
pub(super) struct Batches {
    all: Vec<Batch>,
    latest: usize,
}

/// Steps in flight are two, each with up to two batches.
const IN_TURN: usize = 5;

impl Batches {
    /// The next batch, with this shape.
    pub(super) fn next(&mut self, device: &Device, most: Shape, shape: Shape) -> Result<&mut Batch> {
        self.latest = (self.latest + 1) % IN_TURN;
        while self.all.len() < IN_TURN {
            self.all.push(Batch::new(device, most)?);
        }
        let batch = &mut self.all[self.latest];
        if batch.has_room_for(shape) {
            batch.reshape(shape)?;
        } else {
            *batch = Batch::new(device, shape)?;
        }
        Ok(batch)
    }

    /// The batch of the last call of [`next`](Self::next).
    pub(super) fn latest(&self) -> Option<&Batch> {
        self.all.get(self.latest)
    }
}

/// The extents of a step of as many tokens and sequences as the executor takes.
pub(super) fn largest(capacity: &Capacity) -> Shape {
    let Capacity { tokens, sequences, context, page_tokens, .. } = *capacity;
    let entries = context.div_ceil(page_tokens).next_power_of_two();
    // Rounded up, both are at most an eighth more, and at least 24 tokens: three sequences of eight.
    let room = |count: u32| count + (count / 8).max(24);
    Shape { tokens: room(tokens), sequences: room(sequences), entries, each: None }
}
