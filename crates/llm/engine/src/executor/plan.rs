//! What a decode launches and reads, without a device.

use std::collections::BTreeMap;

use warpwright::prelude::bf16;
use warpwright::runtime::{Device, LaunchRecord};
use warpwright_kernels::communicator::Communicator;
use warpwright_kernels::operations::Operations;
use warpwright_llm_step::{Chunk, Page, Sampling, Slot, Tokens};

use super::model_executor::ModelExecutor;
use super::options::Limits;
use crate::config::Config;
use crate::data_type::DataType;
use crate::error::Result;
use crate::layers::cache::Cache;
use crate::layers::{Cost, Shape};
use crate::models::build;
use crate::number::Number;
use crate::sharding::Sharding;
use crate::weights::{Checkpoint, Format, Loader};

/// The launches of a decode, and the bytes that it has to move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodePlan {
    /// Kernels, and how often each is launched.
    pub launches: Vec<(String, usize)>,
    /// Bytes of weights, each read once. Of experts, those that the sequences choose if no two choose the same.
    pub weights: u64,
    /// Bytes of recurrent state, read and written.
    pub states: u64,
    /// Bytes of keys and values.
    pub keys: u64,
    /// What each operation costs in all layers, in the order of the first of each.
    pub operations: Vec<OperationCost>,
}

/// The launches of an operation in all layers, and what they move and compute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationCost {
    /// The tensors of a product, or what is computed.
    pub name: String,
    /// How often the operation runs.
    pub count: usize,
    /// Kernels that it launches, in order.
    pub kernels: Vec<String>,
    /// Bytes that it has to read and write.
    pub bytes: u64,
    /// Additions and multiplications.
    pub flops: u64,
}

impl DecodePlan {
    /// The decode of a batch of sequences of that many tokens each.
    ///
    /// # Errors
    /// The engine does not run the model, or the checkpoint does not fit it.
    pub fn new(checkpoint: &Checkpoint, data_type: DataType, batch: u32, context: u32) -> Result<Self> {
        Self::of_rank(checkpoint, data_type, (batch, context), 1)
    }

    /// The decode of one of `ranks` devices that compute together.
    ///
    /// # Errors
    /// As [`new`](Self::new); or the model cannot be divided among the devices.
    pub fn of_rank(
        checkpoint: &Checkpoint,
        data_type: DataType,
        (batch, context): (u32, u32),
        ranks: u32,
    ) -> Result<Self> {
        let config = Config::read(&checkpoint.config)?;
        let sharding = (ranks > 1).then(|| Sharding::new(&config, 0, ranks as usize));
        match data_type {
            DataType::F32 => plan::<f32>(checkpoint, &config, sharding, data_type, (batch, context)),
            DataType::Bf16 | DataType::Fp8 | DataType::Int4 => {
                plan::<bf16>(checkpoint, &config, sharding, data_type, (batch, context))
            }
        }
    }

    /// All bytes, without those of activations.
    pub fn bytes(&self) -> u64 {
        self.weights + self.states + self.keys
    }

    /// All launches.
    pub fn count(&self) -> usize {
        self.launches.iter().map(|(_, count)| count).sum()
    }
}

/// Tokens of a page.
const PAGE: u32 = 64;

fn plan<T: Number>(
    checkpoint: &Checkpoint,
    config: &Config,
    sharding: Option<Sharding>,
    data_type: DataType,
    (batch, context): (u32, u32),
) -> Result<DecodePlan> {
    let config = &sharding.as_ref().map_or(Ok(config.clone()), Sharding::of_rank)?;
    let mut check = Loader::checking(checkpoint, Format::of(data_type))?.sharded(sharding.clone());
    let decoder = build::<T>(config, &mut check)?;
    let device = check.device().clone();
    check.finish()?;
    let communicator = sharding.map(|sharding| first_of(&device, sharding.ranks())).transpose()?;
    let pages = context.div_ceil(PAGE);
    let (pool, tokens) = (pages * batch, batch.max(1));
    let limits = Limits {
        page_tokens: PAGE,
        pages: pool,
        slots: batch,
        sequences: batch,
        tokens,
        context,
        ..Limits::default()
    };
    let mut executor = ModelExecutor::new(decoder, config, (Operations::new(&device), communicator), limits)?;
    let chunk = |sequence: u32| Chunk {
        slot: Slot(sequence),
        position: context - 1,
        tokens: Tokens::Last,
        pages: (sequence * pages..(sequence + 1) * pages).map(Page).collect(),
        sampling: Some(Sampling::greedy()),
        draft: 0,
        score: None,
    };
    let chunks: Vec<Chunk> = (0..batch).map(chunk).collect();
    let shape = Shape::of(&chunks, executor.model.cache);
    executor.model.costs = Some(vec![]);
    let (decoded, log) = device.log_launches(|| executor.decode(shape, &chunks));
    decoded?;
    let (mut states, mut keys) = (0, 0);
    for cache in &executor.model.caches {
        match cache {
            Cache::KeyValues(cache) => keys += (cache.keys.bytes() + cache.values.bytes()) as u64,
            Cache::States(cache) => states += 2 * (cache.conv.bytes() + cache.rule.bytes()) as u64,
        }
    }
    Ok(DecodePlan {
        operations: operations(executor.model.costs.unwrap_or_default(), &log),
        launches: counted(log),
        weights: executor.model.decoder.bytes_of_decode(batch) as u64,
        // One slot more is that of padding.
        states: states / u64::from(batch + 1) * u64::from(batch),
        keys: keys * u64::from(context) / u64::from(pages * PAGE),
    })
}

/// The communicator of `device`, rank 0 of `ranks`.
fn first_of(device: &Device, ranks: usize) -> Result<Communicator> {
    let others = (1..ranks).map(|_| Device::dry_run(device.properties().capability));
    let devices = std::iter::once(Ok(device.clone())).chain(others).collect::<Result<Vec<_>, _>>()?;
    Ok(Communicator::of_devices(&devices)?.remove(0))
}

/// Costs by operation.
fn operations(costs: Vec<Cost>, log: &[LaunchRecord]) -> Vec<OperationCost> {
    let mut operations: Vec<OperationCost> = vec![];
    let mut launched = 0;
    for Cost { operation: name, launches, bytes, flops } in costs {
        let records = log.get(launched..launches).unwrap_or_default();
        launched = launches;
        let at = operations.iter().position(|operation| operation.name == name);
        let at = at.unwrap_or_else(|| {
            let kernels = records.iter().map(|record| record.kernel.to_string()).collect();
            operations.push(OperationCost { name, kernels, ..OperationCost::default() });
            operations.len() - 1
        });
        let operation = &mut operations[at];
        operation.count += 1;
        operation.bytes += bytes;
        operation.flops += flops;
    }
    operations
}

/// Launches by kernel, in the order of the first of each.
fn counted(log: Vec<LaunchRecord>) -> Vec<(String, usize)> {
    let mut order: BTreeMap<String, usize> = BTreeMap::new();
    let mut launches: Vec<(String, usize)> = vec![];
    for record in log {
        let at = *order.entry(record.kernel.to_string()).or_insert(launches.len());
        match launches.get_mut(at) {
            Some((_, count)) => *count += 1,
            None => launches.push((record.kernel.to_string(), 1)),
        }
    }
    launches
}
