//! What the threads of a CTA have issued to tensor memory and its tensor core.

use std::collections::VecDeque;

use super::copy::Copy;
use super::moves::{Load, Store};
use super::multiply::Multiply;
use crate::cta::asynchronous::transfer::Issuer;
use crate::launch::schedule::{Random, Schedule};
use crate::tensor::warpgroup_operands::Operands;

/// What a thread has issued.
#[derive(Debug)]
pub(crate) enum Work {
    Multiply(Box<Multiply>),
    Copy(Copy),
    /// The mbarrier at an offset in each CTA of a mask is told.
    Commit {
        offset: u64,
        ranks: u16,
    },
}

/// What a CTA's threads have under way in tensor memory.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    pub(super) issued: VecDeque<(Issuer, Work)>,
    /// By warp.
    pub(crate) loads: Vec<Vec<Load>>,
    pub(crate) stores: Vec<Vec<Store>>,
    pub(super) random: Random,
    /// Memory for the operands of the multiply that happens.
    pub(super) operands: Box<Operands>,
}

fn random_of(schedule: Schedule, cta: u64) -> Random {
    Random::new(schedule, cta, 0x2545_f491_4f6c_dd1d)
}

impl Pipeline {
    /// That of a CTA of so many warps.
    pub(crate) fn new(warps: usize, schedule: Schedule, cta: u64) -> Self {
        let mut pipeline = Self { random: random_of(schedule, cta), ..Self::default() };
        pipeline.loads.resize_with(warps, Vec::new);
        pipeline.stores.resize_with(warps, Vec::new);
        pipeline
    }

    /// Forgets everything, for another CTA.
    pub(crate) fn reset(&mut self, schedule: Schedule, cta: u64) {
        self.random = random_of(schedule, cta);
        self.issued.clear();
        self.loads.iter_mut().for_each(Vec::clear);
        self.stores.iter_mut().for_each(Vec::clear);
    }

    /// Whether nothing is under way in the tensor core.
    pub(crate) fn is_empty(&self) -> bool {
        self.issued.is_empty()
    }
}
