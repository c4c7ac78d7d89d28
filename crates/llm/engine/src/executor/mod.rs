//! The executor: steps of a scheduler on a device.

mod batches;
mod check;
mod chunks;
mod decode;
mod drafting;
mod drafts;
mod drawing;
mod failures;
mod in_turn;
mod load;
mod logits;
mod mixed;
mod options;
mod plan;
mod rehearsals;
mod tensor_parallel;
mod warm_up;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use warpwright::prelude::bf16;
use warpwright::runtime::{Buffer, Device, Stream};
use warpwright_kernels::attention::PagedCache;
use warpwright_kernels::communicator::Communicator;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::speculation::SlotTokens;
use warpwright_llm_step::{Capacity, Chunk, CopyState, Executor, ExecutorError, Output, Slot, Step, Token};

use crate::config::Config;
use crate::error::Result;
use crate::layers::decoder::{Cache, Decoder};
use crate::layers::{Batch, Cost, Memory, Pass, Shape, Verified};
use crate::number::Number;
use crate::weights::{Checkpoint, Format};

use batches::Batches;
use decode::Decode;
use drafting::Drafting;
use drafts::{Rounds, Verification};
use drawing::{Drawn, FreeResults};
use failures::LastTokens;
use in_turn::InTurn;
use logits::Drawings;
pub use options::{DataType, Limits, StateType, WarmUp};
pub use plan::{DecodePlan, OperationCost};
use rehearsals::Rehearsals;
use tensor_parallel::TensorParallel;

/// A model on a device, ready for steps.
pub struct Engine {
    executor: Box<dyn Drafting>,
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
        Self::load_parallel(checkpoint, std::slice::from_ref(device), data_type, limits)
    }

    /// The same, ready to be as fast in the first steps as later: while weights are loaded, other threads compile the
    /// kernels of all steps, and then graphs are made of all steps of answers. Kernels that are not compiled after
    /// the time of the warm-up are compiled later, on another thread or when a step needs them.
    ///
    /// # Errors
    /// As [`load_parallel`](Self::load_parallel); or a kernel of a step cannot be compiled.
    pub fn load_warm(
        checkpoint: &Checkpoint,
        devices: &[Device],
        data_type: DataType,
        limits: Limits,
        warm_up: &WarmUp,
    ) -> Result<Self> {
        let mut engine = Self::load_on(checkpoint, devices, (data_type, limits), Some(warm_up))?;
        engine.executor.warm_up()?;
        Ok(engine)
    }

    /// Loads a checkpoint on several devices, which have a part of each layer's weights and compute together:
    /// tensor parallelism. They are devices of [`Device::peers`].
    ///
    /// # Errors
    /// As [`load`](Self::load); or the model's heads cannot be divided among the devices.
    pub fn load_parallel(
        checkpoint: &Checkpoint,
        devices: &[Device],
        data_type: DataType,
        limits: Limits,
    ) -> Result<Self> {
        Self::load_on(checkpoint, devices, (data_type, limits), None)
    }

    /// Loads a checkpoint, and rehearses all steps meanwhile if that is wanted.
    fn load_on(
        checkpoint: &Checkpoint,
        devices: &[Device],
        (data_type, limits): (DataType, Limits),
        warm_up: Option<&WarmUp>,
    ) -> Result<Self> {
        let mut config = Config::read(&checkpoint.config)?;
        if limits.drafts > 0 {
            config = config.with_mtp()?;
        }
        let load = |device: &Device, communicator| {
            load(checkpoint, &config, (device, communicator), (data_type, limits), warm_up)
        };
        let executor = match devices {
            [device] => load(device, None)?,
            devices => Box::new(TensorParallel::load(devices, load)?),
        };
        Ok(Self { executor, config })
    }

    /// Tokens that end a text, by the model's configuration.
    pub fn ends(&self) -> &[u32] {
        &self.config.ends
    }

    /// The tokens that the MTP layer drafted after the last one that the slot sampled.
    ///
    /// # Errors
    /// The device is lost.
    pub fn drafted(&self, slot: Slot) -> Result<Vec<Token>> {
        self.executor.drafted(slot)
    }

    /// Replaces the drafts of a slot: tokens from another source, such as a text that is likely to be repeated.
    /// They are verified as the MTP layer's are, and change no result. Those that the engine does not draft are left out.
    ///
    /// # Errors
    /// The device is lost.
    pub fn propose(&mut self, slot: Slot, tokens: &[Token]) -> Result<()> {
        self.executor.propose(slot, tokens)
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

    fn recover(&mut self) -> Result<(), ExecutorError> {
        self.executor.recover()
    }
}

/// The executor of a device.
fn load(
    checkpoint: &Checkpoint,
    config: &Config,
    on: (&Device, Option<Communicator>),
    (data_type, limits): (DataType, Limits),
    warm_up: Option<&WarmUp>,
) -> Result<Box<dyn Drafting>> {
    let from = (checkpoint, format_of(data_type));
    Ok(match data_type {
        DataType::F32 => Box::new(ModelExecutor::<f32>::load(from, config, on, limits, warm_up)?),
        DataType::Bf16 | DataType::Fp8 | DataType::Int4 => {
            Box::new(ModelExecutor::<bf16>::load(from, config, on, limits, warm_up)?)
        }
    })
}

/// How the weights of a type are quantized.
fn format_of(data_type: DataType) -> Option<Format> {
    match data_type {
        DataType::Fp8 => Some(Format::Fp8),
        DataType::Int4 => Some(Format::Int4),
        DataType::F32 | DataType::Bf16 => None,
    }
}

/// A model that computes in `T`.
struct ModelExecutor<T> {
    operations: Operations,
    stream: Stream,
    model: Model<T>,
    capacity: Capacity,
    batches: Batches,
    /// What is kept for the extents of steps.
    decodes: FxHashMap<Shape, Decode>,
    drawings: Drawings,
    free: FreeResults,
    /// What is kept for steps with drafts, and for drafts after prompts.
    verifications: FxHashMap<Shape, Verification>,
    rounds: FxHashMap<Shape, InTurn<Rounds>>,
    pending: VecDeque<Pending>,
    last_tokens: LastTokens,
    /// Threads that compile kernels of steps.
    rehearsals: Option<Rehearsals>,
}

/// The weights, and the memory that a pass works on.
struct Model<T> {
    decoder: Decoder<T>,
    caches: Vec<Cache<T>>,
    memory: Memory<T>,
    floats: Memory<f32>,
    rotations: Buffer<f32>,
    /// Those of the last decode.
    logits: Option<Buffer<f32>>,
    tokens: SlotTokens,
    cache: PagedCache,
    /// What the operations of a pass cost, for plans.
    costs: Option<Vec<Cost>>,
    communicator: Option<Communicator>,
}

/// A step whose outputs have not been read.
#[derive(Default)]
struct Pending {
    copies: Vec<CopyState>,
    chunks: Vec<Chunk>,
    /// The outputs of its chunks, but for the tokens in flight.
    outputs: Vec<Output>,
    drawn: Vec<Drawn>,
}

impl Pending {
    /// A step of parts, whose chunks have those numbers in it.
    fn of_parts(chunks: usize, parts: [(Vec<usize>, Self); 2]) -> Self {
        let mut all = Self { outputs: vec![Output::default(); chunks], ..Self::default() };
        for (numbers, part) in parts {
            numbers.iter().zip(part.outputs).for_each(|(chunk, output)| all.outputs[*chunk] = output);
            for mut drawn in part.drawn {
                drawn.rows.iter_mut().for_each(|(chunk, _)| *chunk = numbers[*chunk]);
                drawn.on_host.iter_mut().for_each(|(chunk, _)| *chunk = numbers[*chunk]);
                all.drawn.push(drawn);
            }
        }
        all
    }
}

impl<T: Number> ModelExecutor<T> {
    fn new(
        decoder: Decoder<T>,
        config: &Config,
        (operations, communicator): (Operations, Option<Communicator>),
        limits: Limits,
    ) -> Result<Self> {
        let device = operations.device();
        let capacity = limits.capacity(config)?;
        let cache = PagedCache {
            page_size: capacity.page_tokens,
            pages: capacity.pages,
            pages_per_sequence: capacity.context.div_ceil(capacity.page_tokens),
        };
        // The last slot is that of padding.
        let slots = capacity.slots as usize + 1;
        let model = Model {
            caches: decoder.caches(device, cache.keys(), slots)?,
            decoder,
            memory: Memory::new(device),
            floats: Memory::new(device),
            rotations: device.buffer_from(&config.rotary.table(capacity.context))?,
            logits: None,
            tokens: SlotTokens {
                last: device.zeros(slots)?,
                positions: device.zeros(slots)?,
                drafts: device.zeros(slots * capacity.drafts.max(1) as usize)?,
            },
            cache,
            costs: None,
            communicator,
        };
        Ok(Self {
            stream: device.stream()?,
            operations,
            model,
            capacity,
            batches: Batches::default(),
            decodes: FxHashMap::default(),
            drawings: Drawings::default(),
            free: FreeResults::default(),
            verifications: FxHashMap::default(),
            rounds: FxHashMap::default(),
            pending: VecDeque::new(),
            last_tokens: LastTokens::new(capacity.slots),
            rehearsals: None,
        })
    }

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

    fn run(&mut self, step: &Step) -> Result<Pending> {
        self.check(step)?;
        step.copies.iter().try_for_each(|copy| self.copy(*copy))?;
        if step.chunks.is_empty() {
            return Ok(Pending::default());
        }
        if self.capacity.drafts > 0 {
            return self.speculate(&step.chunks);
        }
        let shape = Shape::of(&step.chunks, self.model.cache);
        if shape.is_decode() && step.chunks.iter().all(chunks::is_decode) {
            return self.decode(shape, &step.chunks);
        }
        self.mixed(&step.chunks)
    }
}

/// A pass over a batch, the weights, the tokens of slots and the caches.
type Parts<'l, T> = (Pass<'l, T>, &'l Decoder<T>, &'l mut SlotTokens, &'l mut [Cache<T>]);

impl<T: Number> Model<T> {
    /// The model, divided into what a pass over a batch needs.
    fn parts<'l>(
        &'l mut self,
        (operations, stream): (&'l Operations, &'l Stream),
        batch: &'l Batch,
        verified: Option<Verified<'l, T>>,
    ) -> Parts<'l, T> {
        let Self { decoder, caches, memory, floats, rotations, tokens, cache, costs, communicator, .. } =
            self;
        let (cache, costs, communicator) = (*cache, costs.as_mut(), communicator.as_ref());
        let pass = Pass {
            operations,
            stream,
            batch,
            memory,
            floats,
            rotations,
            cache,
            has_drafts: decoder.mtp.is_some(),
            verified,
            costs,
            communicator,
        };
        (pass, decoder, tokens, caches)
    }

    /// A pass over a batch, and what else of the model it needs.
    fn pass<'l>(
        &'l mut self,
        (operations, stream): (&'l Operations, &'l Stream),
        batch: &'l Batch,
    ) -> (Pass<'l, T>, &'l Decoder<T>, &'l mut SlotTokens) {
        let (pass, decoder, tokens, _) = self.parts((operations, stream), batch, None);
        (pass, decoder, tokens)
    }

    /// Looks up the tokens of a batch that slots have.
    fn resolve(&self, on: (&Operations, &Stream), batch: &mut Batch) -> Result<()> {
        let slots = (&*batch.sequences, &*batch.slots);
        on.0.resolve_tokens(on.1, &batch.given, slots, &self.tokens.last, &mut batch.tokens)?;
        Ok(())
    }

    /// The rows of all tokens after the last block.
    fn forward(&mut self, on: (&Operations, &Stream), batch: &mut Batch) -> Result<Buffer<T>> {
        self.resolve(on, batch)?;
        let (mut pass, decoder, _, caches) = self.parts(on, batch, None);
        decoder.forward(&mut pass, caches)
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
        if self.model.communicator.is_some() {
            return Err(ExecutorError::new("the devices of a model cannot go on after a step that failed"));
        }
        self.stream.synchronize().map_err(ExecutorError::new)?;
        self.pending.clear();
        self.decodes.clear();
        self.verifications.clear();
        self.rounds.clear();
        Ok(())
    }
}
