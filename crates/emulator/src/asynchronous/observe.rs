//! What the checkers are told of bulk and tensor copies.

use warpwright_arch::tensor_map::TENSOR_MAP_BYTES;

use super::transfer::{Completion, Motion, Transfer};
use crate::check::{self, Actor, Proxy, Range, Site, Touch};
use crate::cluster::Blocks;
use crate::mbarrier::MbarrierAddress;
use crate::memory::shared_base;

/// Tells of a copy that is issued: every range of bytes it will touch.
#[cold]
pub(super) fn observe(transfer: &Transfer, blocks: &Blocks<'_>) {
    let own = blocks.own.rank;
    let actor = Actor {
        rank: own,
        warp: transfer.issuer.warp,
        lanes: 1 << transfer.issuer.lane,
        pc: transfer.issuer.pc,
    };
    let observer = &blocks.own.observer;
    let shared = |rank: u32, offset: u32, bytes: u32, touch: Touch| Range {
        site: Site::Shared,
        first: shared_base(rank) + u64::from(offset),
        bytes: bytes.into(),
        touch,
    };
    let updates = |reduces: bool| if reduces { Touch::Atomic } else { Touch::Write };
    if let Some(first) = transfer.map {
        let bytes = TENSOR_MAP_BYTES as u64;
        let map = Range { site: Site::Global, first, bytes, touch: Touch::Read };
        let rank = match &transfer.motion {
            Motion::Load { ranks, .. } => ranks.trailing_zeros(),
            _ => own,
        };
        observer.issue(actor, Proxy::Tensormap, completion(transfer.completion, rank, own), &[map]);
    }
    match &transfer.motion {
        Motion::Load { from, to, ranks } => {
            let mut ranges = Vec::new();
            from.for_ranges(Touch::Read, |range| ranges.push(range));
            for rank in super::transfer::ranks_of(*ranks) {
                ranges.push(shared(rank, *to, from.shared_bytes(), Touch::Write));
                observer.issue(actor, Proxy::Async, completion(transfer.completion, rank, own), &ranges);
                // The source is read once, and that it was the first mbarrier tells.
                ranges.clear();
            }
        }
        Motion::Store { from, to, reduction } => {
            let mut ranges = vec![shared(own, *from, to.shared_bytes(), Touch::Read)];
            to.for_ranges(updates(reduction.is_some()), |range| ranges.push(range));
            observer.issue(actor, Proxy::Async, completion(transfer.completion, own, own), &ranges);
        }
        Motion::Value { bytes, to, rank, reduction, .. } => {
            let target = shared(*rank, *to, *bytes, updates(reduction.is_some()));
            observer.issue(actor, Proxy::Generic, completion(transfer.completion, *rank, own), &[target]);
        }
        Motion::Peer { from, to, rank, bytes, reduction } => {
            let ranges = [
                shared(own, *from, *bytes, Touch::Read),
                shared(*rank, *to, *bytes, updates(reduction.is_some())),
            ];
            observer.issue(actor, Proxy::Async, completion(transfer.completion, *rank, own), &ranges);
        }
    }
}

/// How the program learns of the part of a copy that goes to a CTA.
fn completion(completion: Completion, rank: u32, own: u32) -> check::Completion {
    match completion {
        Completion::Group(_) => check::Completion::Group(check::GroupKind::Bulk),
        Completion::Mbarriers { offset, ranks } => {
            // One mbarrier may be told of a copy to another CTA.
            let rank = match ranks {
                _ if ranks >> rank & 1 != 0 => rank,
                0 => own,
                ranks => ranks.trailing_zeros(),
            };
            check::Completion::Mbarrier(MbarrierAddress { rank, offset })
        }
    }
}
