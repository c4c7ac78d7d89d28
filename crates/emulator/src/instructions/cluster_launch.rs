//! `clusterlaunchcontrol`: a CTA cancels a cluster that has not started, and does its work (PTX ISA,
//! "clusterlaunchcontrol.try_cancel" and "query_cancel").
//!
//! The response is opaque to programs. Here it is the index of the cluster's first CTA along x, y and
//! z, and a word that says whether there was such a cluster.

use warpwright_events::{FaultKind, LANES, Proxy, lanes};

use super::address;
use super::mbarrier::{self, at};
use crate::cta::asynchronous::progress;
use crate::cta::asynchronous::transfer::{Completion, Issuer, Motion, Signal, Transfer};
use crate::decode::{Decoded, Decoder, Row};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::addresses;
use crate::launch::failure::Failure;
use crate::launch::schedule::Schedule;
use crate::memory::{AddressOperand, Space};
use crate::registers::Slot;

const RESPONSE_BYTES: u32 = 16;
/// The last word of a response: that of a failure, and of a success.
const FAILED: u32 = 0x434c_4330;
const CANCELED: u32 = FAILED + 1;
/// Under a random schedule, one of as many requests fails although clusters are left, as on a device
/// that another kernel wants.
const ONE_FAILS_OF: u32 = 8;

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.has("try_cancel") {
        let request = TryCancel {
            response: d.memory_at(i, 0)?,
            mbarrier: d.memory_at(i, 1)?,
            space: address::space(i).unwrap_or(Space::Generic),
            multicast: i.has("multicast::cluster::all"),
        };
        return d.effect(request);
    }
    let axes = [("get_first_ctaid::x", 0), ("get_first_ctaid::y", 1), ("get_first_ctaid::z", 2)];
    let answer = match i.choose(&axes) {
        _ if i.has("is_canceled") => Answer::IsCanceled(d.destination_at(i, 0)?),
        Some(axis) => Answer::First(vec![(axis, d.destination_at(i, 0)?)]),
        None => Answer::First(d.destinations_at(i, 0)?.into_iter().enumerate().collect()),
    };
    let response = d.source_at(i, 1)?;
    d.effect(Query { response, answer })
}

struct TryCancel {
    response: AddressOperand,
    mbarrier: AddressOperand,
    space: Space,
    /// Whether all CTAs of the cluster receive the response.
    multicast: bool,
}

impl TryCancel {
    /// The offset of a lane's response in the CTA's shared memory.
    fn offset(&self, execution: &Execution<'_>, lane: usize) -> Result<u32, Box<Failure>> {
        let mut address = addresses(execution, &self.response)[lane];
        if self.space == Space::Generic && self.response.space.is_none() {
            let (space, shared) = Space::of(address);
            if space != Space::ClusterShared {
                let message = format!(
                    "The response is written to shared memory; {address:#x} is in {} memory.",
                    space.name()
                );
                return Err(Failure::new(FaultKind::OutOfBounds, 1 << lane, message));
            }
            address = shared;
        }
        let (rank, offset) = warpwright_events::split_shared(address);
        if rank != execution.block.rank {
            let message = format!(
                "The response is written to the CTA's own shared memory; {address:#x} is in the CTA of rank {rank}."
            );
            return Err(Failure::new(FaultKind::OutOfBounds, 1 << lane, message));
        }
        if !offset.is_multiple_of(RESPONSE_BYTES.into()) {
            let message = format!(
                "The address of the response is {offset:#x}; it must be a multiple of {RESPONSE_BYTES}."
            );
            return Err(Failure::new(FaultKind::Misaligned, 1 << lane, message));
        }
        Ok(offset as u32)
    }
}

/// The response to a request, in bytes.
fn respond(execution: &mut Execution<'_>) -> [u8; RESPONSE_BYTES as usize] {
    let launch = execution.launch;
    let is_refused =
        matches!(launch.schedule, Schedule::Random(_)) && execution.block.transfers.one_of(ONE_FAILS_OF);
    let canceled = if is_refused { None } else { launch.pending.take() };
    let words = match canceled {
        Some(cluster) => {
            let [x, y, z] = launch.cta_of_cluster(cluster, 0);
            [x, y, z, CANCELED]
        }
        None => [u32::MAX, u32::MAX, u32::MAX, FAILED],
    };
    let mut bytes = [0; RESPONSE_BYTES as usize];
    bytes.chunks_exact_mut(4).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    bytes
}

impl Effect for TryCancel {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let objects = mbarrier::objects(execution, &self.mbarrier, self.space, mask)?;
        for lane in lanes(mask) {
            if let Some(pc) = execution.block.failed_cancellation {
                let mut failure = Failure::new(
                    FaultKind::IllegalInstruction,
                    1 << lane,
                    "A CTA requests a cancellation after it has found one failed.",
                )
                .note("the behavior is undefined (PTX ISA, \"clusterlaunchcontrol.try_cancel\")");
                failure.also.push((pc, "this query finds the cancellation failed".to_owned()));
                failure.help = Some("leave the loop when `is_canceled` is false".to_owned());
                return Err(failure);
            }
            let (to, own) = (self.offset(execution, lane)?, execution.block.rank);
            let data = respond(execution);
            let issuer = Issuer { warp: execution.warp, lane: lane as u8, pc: execution.pc };
            let ranks = if self.multicast { 0..execution.launch.ctas_per_cluster() } else { own..own + 1 };
            for rank in ranks {
                let proxy = Proxy::Async;
                let motion = Motion::Value { data, bytes: RESPONSE_BYTES, to, rank, reduction: None, proxy };
                let completion =
                    Completion::Mbarriers { offset: objects[lane].offset, signal: Signal::Rank(rank) };
                let transfer = Transfer::new(issuer, motion, completion, None);
                let launch = execution.launch;
                progress::issue(&mut execution.cluster(), launch, transfer).map_err(at(lane))?;
            }
        }
        Ok(())
    }
}

enum Answer {
    /// Whether a cluster was canceled.
    IsCanceled(Slot),
    /// The index of its first CTA, by axis.
    First(Vec<(usize, Slot)>),
}

struct Query {
    response: Slot,
    answer: Answer,
}

impl Effect for Query {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.changes_nothing();
        let (low, high): ([u64; LANES], [u64; LANES]) =
            (*execution.registers.long(self.response), *execution.registers.long(self.response + 1));
        let mut canceled = 0;
        for lane in lanes(mask) {
            match (high[lane] >> 32) as u32 {
                CANCELED => canceled |= 1 << lane,
                FAILED => {}
                _ => {
                    let mut failure = Failure::new(
                        FaultKind::IllegalInstruction,
                        1 << lane,
                        "The 16 bytes are not the response to a `clusterlaunchcontrol.try_cancel`.",
                    );
                    failure.help =
                        Some("wait for the mbarrier of the request before its response is loaded".to_owned());
                    return Err(failure);
                }
            }
        }
        match &self.answer {
            Answer::IsCanceled(slot) => {
                if canceled != mask {
                    execution.block.failed_cancellation = Some(execution.pc);
                }
                execution.registers.set_predicate(*slot, mask, canceled);
            }
            Answer::First(words) => {
                for &(axis, slot) in words {
                    let column = execution.registers.word_mut(slot);
                    for lane in lanes(mask) {
                        column[lane] = match axis {
                            0 => low[lane] as u32,
                            1 => (low[lane] >> 32) as u32,
                            2 => high[lane] as u32,
                            _ => 0,
                        };
                    }
                }
            }
        }
        Ok(())
    }
}
