//! The executor of a device: a model, and what is kept from step to step.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use warpwright::runtime::Stream;
use warpwright_kernels::attention::PagedCache;
use warpwright_kernels::communicator::Communicator;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::speculation::SlotTokens;
use warpwright_llm_step::Capacity;

use super::batches::Batches;
use super::drawing::FreeResults;
use super::failures::LastTokens;
use super::in_turn::InTurn;
use super::kept::{Decode, Rounds, Verification};
use super::logits::Drawings;
use super::model::Model;
use super::options::Limits;
use super::pending::Pending;
use super::rehearsals::Rehearsals;
use crate::config::Config;
use crate::error::Result;
use crate::layers::decoder::Decoder;
use crate::layers::{Memory, Shape};
use crate::number::Number;

/// A model that computes in `T`.
pub(super) struct ModelExecutor<T> {
    pub(super) operations: Operations,
    pub(super) stream: Stream,
    pub(super) model: Model<T>,
    pub(super) limits: Limits,
    pub(super) capacity: Capacity,
    pub(super) batches: Batches,
    /// What is kept for the extents of steps.
    pub(super) decodes: FxHashMap<Shape, Decode>,
    pub(super) drawings: Drawings,
    pub(super) free: FreeResults,
    /// What is kept for steps with drafts, and for drafts after prompts.
    pub(super) verifications: FxHashMap<Shape, Verification>,
    pub(super) rounds: FxHashMap<Shape, InTurn<Rounds>>,
    pub(super) pending: VecDeque<Pending>,
    pub(super) last_tokens: LastTokens,
    /// Threads that compile kernels of steps.
    pub(super) rehearsals: Option<Rehearsals>,
}

impl<T: Number> ModelExecutor<T> {
    pub(super) fn new(
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
            limits,
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
}
