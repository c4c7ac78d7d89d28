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
mod kept;
mod load;
mod logits;
mod mixed;
mod model;
mod model_executor;
mod not_finite;
mod options;
mod pending;
mod plan;
mod rehearsals;
mod steps;
mod tensor_parallel;
mod warm_up;

use warpwright::prelude::bf16;
use warpwright::runtime::Device;
use warpwright_kernels::communicator::Communicator;
use warpwright_llm_step::{Capacity, Executor, ExecutorError, Output, Slot, Step, Token};

use crate::config::Config;
use crate::data_type::DataType;
use crate::error::Result;
use crate::weights::{Checkpoint, Format};

use drafting::Drafting;
use model_executor::ModelExecutor;
pub use options::{Limits, WarmUp};
pub use plan::{DecodePlan, OperationCost};
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
    let from = (checkpoint, Format::of(data_type));
    Ok(match data_type {
        DataType::F32 => Box::new(ModelExecutor::<f32>::load(from, config, on, limits, warm_up)?),
        DataType::Bf16 | DataType::Fp8 | DataType::Int4 => {
            Box::new(ModelExecutor::<bf16>::load(from, config, on, limits, warm_up)?)
        }
    })
}
