//! Reports bulk and tensor copies to observers.

use warpwright_arch::tensor_map::TENSOR_MAP_BYTES;
use warpwright_events::{
    self as events, AccessKind, Actor, ByteRange, Event, MbarrierAddress, MemorySpace, Proxy, shared_base,
};

use super::transfer::{Completion, Motion, Transfer};
use crate::cta::block::Blocks;

/// Reports an issued copy: every range of bytes it will access.
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
    let shared = |rank: u32, offset: u32, bytes: u32, kind: AccessKind| ByteRange {
        space: MemorySpace::Shared,
        first: shared_base(rank) + u64::from(offset),
        bytes: bytes.into(),
        kind,
        part: None,
    };
    let updates = |reduces: bool| if reduces { AccessKind::Atomic } else { AccessKind::Write };
    if let Some(first) = transfer.map {
        let bytes = TENSOR_MAP_BYTES as u64;
        let map = ByteRange { space: MemorySpace::Global, first, bytes, kind: AccessKind::Read, part: None };
        let rank = match &transfer.motion {
            Motion::Load { ranks, .. } => ranks.trailing_zeros(),
            _ => own,
        };
        observer.report(Event::AsyncIssue {
            actor,
            proxy: Proxy::Tensormap,
            completion: completion(transfer.completion, rank, own),
            ranges: &[map],
        });
    }
    match &transfer.motion {
        Motion::Load { from, to, ranks } => {
            let mut ranges = Vec::new();
            from.for_ranges(AccessKind::Read, |range| ranges.push(range));
            for rank in super::transfer::ranks_of(*ranks) {
                ranges.push(shared(rank, *to, from.shared_bytes(), AccessKind::Write));
                observer.report(Event::AsyncIssue {
                    actor,
                    proxy: Proxy::Async,
                    completion: completion(transfer.completion, rank, own),
                    ranges: &ranges,
                });
                // The source is read once; the first mbarrier reports that.
                ranges.clear();
            }
        }
        Motion::Store { from, to, reduction } => {
            let mut ranges = vec![shared(own, *from, to.shared_bytes(), AccessKind::Read)];
            to.for_ranges(updates(reduction.is_some()), |range| ranges.push(range));
            observer.report(Event::AsyncIssue {
                actor,
                proxy: Proxy::Async,
                completion: completion(transfer.completion, own, own),
                ranges: &ranges,
            });
        }
        Motion::Value { bytes, to, rank, reduction, proxy, .. } => {
            let target = shared(*rank, *to, *bytes, updates(reduction.is_some()));
            observer.report(Event::AsyncIssue {
                actor,
                proxy: *proxy,
                completion: completion(transfer.completion, *rank, own),
                ranges: &[target],
            });
        }
        Motion::Peer { from, to, rank, bytes, reduction } => {
            let ranges = [
                shared(own, *from, *bytes, AccessKind::Read),
                shared(*rank, *to, *bytes, updates(reduction.is_some())),
            ];
            observer.report(Event::AsyncIssue {
                actor,
                proxy: Proxy::Async,
                completion: completion(transfer.completion, *rank, own),
                ranges: &ranges,
            });
        }
    }
}

/// How the program observes the completion of the part of a copy that writes to a CTA.
fn completion(completion: Completion, rank: u32, own: u32) -> events::Completion {
    match completion {
        Completion::Group(_) => events::Completion::Group(events::AsyncKind::Bulk),
        Completion::Mbarriers { offset, ranks } => {
            // A copy to another CTA may complete at one mbarrier.
            let rank = match ranks {
                _ if ranks >> rank & 1 != 0 => rank,
                0 => own,
                ranks => ranks.trailing_zeros(),
            };
            events::Completion::Mbarrier(MbarrierAddress { rank, offset })
        }
    }
}
