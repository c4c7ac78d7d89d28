//! Batches of steps with prompts, whose shapes are many.

use warpwright::runtime::Device;
use warpwright_llm_step::Capacity;

use super::in_turn::InTurn;
use crate::error::Result;
use crate::layers::{Batch, Shape};

/// Batches that steps use in turn. Their memory is taken once, for any shape, because to take more would wait for the
/// device.
#[derive(Default)]
pub(super) struct Batches(Option<InTurn<Batch>>);

/// Steps in flight are two, each with up to two batches.
const IN_TURN: usize = 5;

impl Batches {
    /// The next batch, with this shape.
    pub(super) fn next(&mut self, device: &Device, most: Shape, shape: Shape) -> Result<&mut Batch> {
        let all = match &mut self.0 {
            Some(all) => all,
            none => none.insert(InTurn::new(IN_TURN, || Batch::new(device, most))?),
        };
        let batch = all.next();
        if batch.has_room_for(shape) {
            batch.reshape(shape)?;
        } else {
            *batch = Batch::new(device, shape)?;
        }
        Ok(batch)
    }

    /// The batch of the last call of [`next`](Self::next).
    pub(super) fn latest(&self) -> Option<&Batch> {
        self.0.as_ref().map(InTurn::latest)
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
