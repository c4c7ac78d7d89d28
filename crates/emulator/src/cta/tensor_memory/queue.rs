//! Work that a CTA's threads have issued to tensor memory and the tensor core.

use std::collections::VecDeque;

use super::copy::Copy;
use super::moves::{Load, Store};
use super::multiply::Multiply;
use super::shift::Shift;
use crate::cta::asynchronous::transfer::Issuer;
use crate::launch::schedule::{Random, Schedule};
use crate::tensor::warpgroup_operands::Operands;

/// An issued operation.
#[derive(Debug)]
pub(crate) enum Work {
    Multiply(Box<Multiply>),
    Copy(Copy),
    Shift(Shift),
    /// The mbarrier at an offset in each CTA of a mask receives an arrival.
    Commit {
        offset: u64,
        ranks: u16,
    },
}

/// The tensor-memory work in flight of a CTA's threads.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    pub(super) issued: VecDeque<(Issuer, Work)>,
    /// By warp.
    pub(crate) loads: Vec<Vec<Load>>,
    pub(crate) stores: Vec<Vec<Store>>,
    pub(super) random: Random,
    /// Memory for the operands of the executing MMA.
    pub(super) operands: Box<Operands>,
}

fn random_of(schedule: Schedule, cta: u64) -> Random {
    Random::new(schedule, cta, 0x2545_f491_4f6c_dd1d)
}

impl Pipeline {
    /// The state for a CTA of `warps` warps.
    pub(crate) fn new(warps: usize, schedule: Schedule, cta: u64) -> Self {
        let mut pipeline = Self { random: random_of(schedule, cta), ..Self::default() };
        pipeline.loads.resize_with(warps, Vec::new);
        pipeline.stores.resize_with(warps, Vec::new);
        pipeline
    }

    /// Resets the state, for another CTA.
    pub(crate) fn reset(&mut self, schedule: Schedule, cta: u64) {
        self.random = random_of(schedule, cta);
        self.issued.clear();
        self.loads.iter_mut().for_each(Vec::clear);
        self.stores.iter_mut().for_each(Vec::clear);
    }

    /// Whether work in flight arrives at an mbarrier. MMAs that no thread has committed do not.
    pub(crate) fn may_arrive(&self) -> bool {
        self.issued.iter().any(|(_, work)| matches!(work, Work::Commit { .. }))
    }

    /// Whether nothing is in flight in the tensor core.
    pub(crate) fn is_empty(&self) -> bool {
        self.issued.is_empty()
    }
}
