//! Steps: how one is submitted, and how its outputs are read.

use warpwright_llm_step::{Capacity, CopyState, Executor, ExecutorError, Output, Step};

use super::chunks;
use super::model::Model;
use super::model_executor::ModelExecutor;
use super::pending::Pending;
use crate::error::Result;
use crate::layers::Shape;
use crate::layers::cache::Cache;
use crate::number::Number;

impl<T: Number> ModelExecutor<T> {
    /// Copies of state, in order.
    fn copy(&mut self, CopyState { from, to }: CopyState) -> Result<()> {
        let (operations, stream, slots) = (&self.operations, &self.stream, (from.0, to.0));
        let Model { decoder, caches, tokens, .. } = &mut self.model;
        for (cache, block) in caches.iter_mut().zip(&decoder.blocks) {
            if let (Cache::States(states), Some((conv, rule))) = (cache, block.state_lengths()) {
                operations.copy_row(stream, (&mut states.conv, conv as u32), slots)?;
                operations.copy_row(stream, (&mut states.rule, rule as u32), slots)?;
            }
        }
        operations.copy_row(stream, (tokens.last.cast_mut::<f32>(), 1), slots)?;
        operations.copy_row(stream, (tokens.positions.cast_mut::<f32>(), 1), slots)?;
        Ok(())
    }

    pub(super) fn run(&mut self, step: &Step) -> Result<Pending> {
        self.check(step)?;
        step.copies.iter().try_for_each(|copy| self.copy(*copy))?;
        if step.chunks.is_empty() {
            return Ok(Pending::default());
        }
        if self.limits.drafts > 0 {
            return self.speculate(&step.chunks);
        }
        let shape = Shape::of(&step.chunks, self.model.cache);
        if shape.is_decode() && step.chunks.iter().all(chunks::is_decode) {
            return self.decode(shape, &step.chunks);
        }
        self.mixed(&step.chunks)
    }
}

impl<T: Number> Executor for ModelExecutor<T> {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn submit(&mut self, step: Step) -> Result<(), ExecutorError> {
        let pending = self.run(&step).map_err(ExecutorError::new)?;
        let Step { copies, chunks } = step;
        self.pending.push_back(Pending { copies, chunks, ..pending });
        Ok(())
    }

    fn wait(&mut self) -> Result<Vec<Output>, ExecutorError> {
        let Some(mut pending) = self.pending.pop_front() else {
            return Err(ExecutorError::new("no step was submitted; submit one before waiting"));
        };
        let mut outputs = std::mem::take(&mut pending.outputs);
        for drawn in std::mem::take(&mut pending.drawn) {
            drawn.finish(&mut outputs, &mut self.free).map_err(ExecutorError::new)?;
        }
        self.find_failures(pending, &mut outputs).map_err(ExecutorError::new)?;
        Ok(outputs)
    }

    /// A device that is lost refuses. Graphs may have memory of the step that failed: they are made again.
    fn recover(&mut self) -> Result<(), ExecutorError> {
        self.stream.synchronize().map_err(ExecutorError::new)?;
        self.pending.clear();
        self.decodes.clear();
        self.verifications.clear();
        self.rounds.clear();
        Ok(())
    }
}
