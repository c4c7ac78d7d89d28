//! A model's way from a checkpoint to an executor.

use std::thread;
use std::time::Instant;

use warpwright::runtime::Device;
use warpwright_kernels::communicator::Communicator;
use warpwright_kernels::operations::Operations;

use super::model_executor::ModelExecutor;
use super::options::{Limits, WarmUp};
use super::rehearsals::Rehearsals;
use crate::config::Config;
use crate::error::Result;
use crate::models::build;
use crate::number::Number;
use crate::sharding::Sharding;
use crate::weights::{Checkpoint, Format, Loader};

impl<T: Number> ModelExecutor<T> {
    /// Loads a rank's part of a model, and rehearses all steps meanwhile for the time of the warm-up.
    pub(super) fn load(
        (checkpoint, format): (&Checkpoint, Option<Format>),
        config: &Config,
        (device, communicator): (&Device, Option<Communicator>),
        limits: Limits,
        warm_up: Option<&WarmUp>,
    ) -> Result<Self> {
        let rank = |all: &Communicator| Sharding::new(config, all.rank() as usize, all.ranks() as usize);
        let sharding = communicator.as_ref().map(rank);
        let config = &sharding.as_ref().map_or(Ok(config.clone()), Sharding::of_rank)?;
        let mut check = Loader::checking(checkpoint, format)?.sharded(sharding.clone());
        build::<T>(config, &mut check)?;
        let bytes = check.finish()?;
        device.check_memory(bytes)?;
        let operations = Operations::new(device);
        let rehearsal = Rehearsal {
            checkpoint,
            format,
            config,
            sharding: sharding.as_ref(),
            operations: &operations,
            communicator: communicator.as_ref(),
            limits,
        };
        rehearsal.check::<T>(warm_up.is_some())?;
        let rehearsals = warm_up.map(|warm_up| rehearsal.start::<T>(warm_up)).transpose()?;
        let mut loader = Loader::loading(checkpoint, device, format).sharded(sharding);
        let decoder = build::<T>(config, &mut loader)?;
        Ok(Self { rehearsals, ..Self::new(decoder, config, (operations, communicator), limits)? })
    }
}

/// A model whose steps are rehearsed.
struct Rehearsal<'l> {
    checkpoint: &'l Checkpoint,
    format: Option<Format>,
    /// The model of a rank.
    config: &'l Config,
    sharding: Option<&'l Sharding>,
    operations: &'l Operations,
    communicator: Option<&'l Communicator>,
    limits: Limits,
}

impl Rehearsal<'_> {
    /// Does steps of every kind once and executes nothing, so that a model that no kernel takes is refused now.
    /// Kernels are compiled later if a warm-up has other processes for that.
    fn check<T: Number>(&self, has_warm_up: bool) -> Result<()> {
        let operations = if has_warm_up {
            let capability = self.operations.device().properties().capability;
            Operations::new(&Device::dry_run(capability)?)
        } else {
            self.operations.rehearsal()
        };
        let mut executor = self.executor::<T>(operations)?;
        executor.kinds_of_kernels().into_iter().try_for_each(|kind| executor.prepare(kind))
    }

    /// Rehearses all steps, on a thread for each core of the host that a rank has. Steps that are rehearsed in time are
    /// those that the warm-up prepares; ranks prepare all, because they have to prepare the same.
    fn start<T: Number>(&self, warm_up: &WarmUp) -> Result<Rehearsals> {
        let ranks = self.communicator.map_or(1, Communicator::ranks) as usize;
        let number = thread::available_parallelism().map_or(1, usize::from).div_ceil(ranks);
        let executor = |_| {
            self.executor::<T>(match &warm_up.assemblers {
                Some(assemblers) => self.operations.rehearsal_with(assemblers.clone()),
                None => self.operations.rehearsal(),
            })
        };
        let executors = (0..number).map(executor).collect::<Result<Vec<_>>>()?;
        let kinds = executors.first().map(ModelExecutor::kinds).unwrap_or_default();
        let prepare = |mut executor: ModelExecutor<T>| move |kind| executor.prepare(kind);
        let end = (ranks == 1).then(|| Instant::now() + warm_up.time);
        Ok(Rehearsals::start(kinds, executors.into_iter().map(prepare).collect(), end))
    }

    /// An executor that executes nothing.
    fn executor<T: Number>(&self, operations: Operations) -> Result<ModelExecutor<T>> {
        let device = operations.device().clone();
        let communicator = self.communicator.map(|all| rehearsal_of(all, &device)).transpose()?;
        let mut loader = Loader::rehearsing(self.checkpoint, &device, self.format);
        loader = loader.sharded(self.sharding.cloned());
        let decoder = build::<T>(self.config, &mut loader)?;
        ModelExecutor::new(decoder, self.config, (operations, communicator), self.limits)
    }
}

/// The communicator of a rehearsal's device, with the rank of `communicator`.
fn rehearsal_of(communicator: &Communicator, device: &Device) -> Result<Communicator> {
    let rank = communicator.rank();
    let of_rank = |other| if other == rank { device.clone() } else { device.rehearsal() };
    let devices: Vec<Device> = (0..communicator.ranks()).map(of_rank).collect();
    Ok(Communicator::of_devices(&devices)?.remove(rank as usize))
}
