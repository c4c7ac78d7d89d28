//! The executor: steps of a scheduler on a device.

mod batch;
mod logits;
mod options;

use std::collections::VecDeque;

use warpwright::prelude::bf16;
use warpwright::runtime::{Buffer, Device, Stream};
use warpwright_kernels::operations::Operations;
use warpwright_llm_step::{Capacity, CopyState, Executor, ExecutorError, Output, Step};

use crate::error::Result;
use crate::kernels::tokens;
use crate::layers::decoder::{Cache, Decoder};
use crate::layers::{Memory, Pass};
use crate::models::{Config, build};
use crate::number::Number;
use crate::weights::{Checkpoint, Loader};

pub use options::{DataType, Limits};

/// A model on a device, ready for steps.
pub struct Engine {
    executor: Box<dyn Executor>,
    config: Config,
}

impl Engine {
    /// Loads a checkpoint.
    ///
    /// # Errors
    /// The configuration is not one that the engine runs, a tensor is missing, extra or misshapen, or the
    /// device has not enough memory.
    pub fn load(
        checkpoint: &Checkpoint,
        device: &Device,
        data_type: DataType,
        limits: Limits,
    ) -> Result<Self> {
        let config = Config::read(&checkpoint.config)?;
        let executor: Box<dyn Executor> = match data_type {
            DataType::F32 => Box::new(ModelExecutor::<f32>::load(checkpoint, &config, device, limits)?),
            DataType::Bf16 => Box::new(ModelExecutor::<bf16>::load(checkpoint, &config, device, limits)?),
        };
        Ok(Self { executor, config })
    }

    /// Tokens that end a text, by the model's configuration.
    pub fn ends(&self) -> &[u32] {
        &self.config.ends
    }

    /// The executor alone.
    pub fn into_executor(self) -> Box<dyn Executor> {
        self.executor
    }
}

impl Executor for Engine {
    fn capacity(&self) -> Capacity {
        self.executor.capacity()
    }

    fn submit(&mut self, step: Step) -> Result<(), ExecutorError> {
        self.executor.submit(step)
    }

    fn wait(&mut self) -> Result<Vec<Output>, ExecutorError> {
        self.executor.wait()
    }
}

/// A model that computes in `T`.
struct ModelExecutor<T> {
    operations: Operations,
    stream: Stream,
    decoder: Decoder<T>,
    caches: Vec<Cache<T>>,
    memory: Memory<T>,
    rotations: Buffer<f32>,
    /// (slots): the token that each sampled last, and one that nobody reads.
    last: Buffer<u32>,
    capacity: Capacity,
    finished: VecDeque<Vec<Output>>,
}

impl<T: Number> ModelExecutor<T> {
    fn load(checkpoint: &Checkpoint, config: &Config, device: &Device, limits: Limits) -> Result<Self> {
        let mut check = Loader::checking(checkpoint)?;
        build::<T>(config, &mut check)?;
        let bytes = check.finish()?;
        device.check_memory(bytes)?;
        let decoder = build::<T>(config, &mut Loader::loading(checkpoint, device))?;
        let capacity = limits.capacity(config)?;
        let keys = capacity.pages as usize * capacity.page_tokens as usize;
        let key_columns = (config.key_heads * config.head_dim) as usize;
        let caches = decoder.caches(device, keys, key_columns, capacity.slots as usize)?;
        let operations = Operations::new(device);
        Ok(Self {
            stream: device.stream()?,
            decoder,
            caches,
            memory: Memory::new(device),
            rotations: device.buffer_from(&config.rotary.table(capacity.context))?,
            last: device.zeros(capacity.slots as usize + 1)?,
            capacity,
            finished: VecDeque::new(),
            operations,
        })
    }

    /// Copies of state, in order.
    fn copy(&mut self, CopyState { from, to }: CopyState) -> Result<()> {
        self.expect_slot(from)?;
        self.expect_slot(to)?;
        let (on, slots) = ((&self.operations, &self.stream), (from.0, to.0));
        for (cache, block) in self.caches.iter_mut().zip(&self.decoder.blocks) {
            if let (Cache::States(states), Some((conv, rule))) = (cache, block.state_lengths()) {
                tokens::copy_slot(on, &mut states.conv, slots, conv)?;
                tokens::copy_slot(on, &mut states.rule, slots, rule)?;
            }
        }
        Ok(tokens::copy_slot(on, self.last.cast_mut::<f32>(), slots, 1)?)
    }

    fn run(&mut self, step: &Step) -> Result<Vec<Output>> {
        self.check(step)?;
        step.copies.iter().try_for_each(|copy| self.copy(*copy))?;
        if step.chunks.is_empty() {
            return Ok(vec![]);
        }
        let mut batch = self.batch(&step.chunks)?;
        let on = (&self.operations, &self.stream);
        let slots = (&batch.sequences, &batch.slots);
        tokens::resolve(on, &batch.given, slots, &self.last, &mut batch.tokens)?;
        let mut pass = Pass {
            operations: &self.operations,
            stream: &self.stream,
            batch: &batch,
            memory: &mut self.memory,
            rotations: &self.rotations,
            page_size: self.capacity.page_tokens,
        };
        let x = self.decoder.forward(&mut pass, &mut self.caches)?;
        let outputs = logits::outputs(&self.decoder, &mut pass, &x, &step.chunks, &mut self.last)?;
        self.memory.give(x);
        Ok(outputs)
    }
}

impl<T: Number> Executor for ModelExecutor<T> {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn submit(&mut self, step: Step) -> Result<(), ExecutorError> {
        let outputs = self.run(&step).map_err(ExecutorError::new)?;
        self.finished.push_back(outputs);
        Ok(())
    }

    fn wait(&mut self) -> Result<Vec<Output>, ExecutorError> {
        self.finished
            .pop_front()
            .ok_or_else(|| ExecutorError::new("no step was submitted; submit one before waiting"))
    }
}
