//! Reports bulk and tensor copies to observers.

use warpwright_arch::tensor_map::TENSOR_MAP_BYTES;
use warpwright_events::{
    self as events, AccessKind, Actor, ByteRange, Event, MbarrierAddress, MemorySpace, Proxy, shared_base,
};

use super::transfer::{ALL_BYTES, Completion, Motion, Transfer};
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
        let rank = transfer.destinations(own).next().unwrap_or(own);
        observer.report(Event::AsyncIssue {
            actor,
            proxy: Proxy::Tensormap,
            completion: completion(transfer.completion, rank),
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
                    completion: completion(transfer.completion, rank),
                    ranges: &ranges,
                });
                // The source is read once; the first mbarrier reports that.
                ranges.clear();
            }
        }
        Motion::Store { from, to, reduction, mask } => {
            let mut ranges = vec![shared(own, *from, to.shared_bytes(), AccessKind::Read)];
            to.for_ranges(updates(reduction.is_some()), |range| masked(range, *mask, &mut ranges));
            observer.report(Event::AsyncIssue {
                actor,
                proxy: Proxy::Async,
                completion: completion(transfer.completion, own),
                ranges: &ranges,
            });
        }
        Motion::Value { bytes, to, rank, reduction, proxy, .. } => {
            let target = shared(*rank, *to, *bytes, updates(reduction.is_some()));
            observer.report(Event::AsyncIssue {
                actor,
                proxy: *proxy,
                completion: completion(transfer.completion, *rank),
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
                completion: completion(transfer.completion, *rank),
                ranges: &ranges,
            });
        }
    }
}

/// Adds the bytes of a range that a mask of each 16 has, run by run.
fn masked(range: ByteRange, mask: u16, ranges: &mut Vec<ByteRange>) {
    if mask == ALL_BYTES {
        return ranges.push(range);
    }
    let is_kept = |at: &u64| mask >> (at % 16) & 1 != 0;
    let mut at = 0;
    while at < range.bytes {
        let bytes = (at..range.bytes).take_while(is_kept).count() as u64;
        if bytes > 0 {
            ranges.push(ByteRange { first: range.first + at, bytes, ..range });
        }
        at += bytes.max(1);
    }
}

/// How the program observes the completion of the part of a copy that writes to a CTA.
fn completion(completion: Completion, rank: u32) -> events::Completion {
    match completion {
        Completion::Group(_) => events::Completion::Group(events::AsyncKind::Bulk),
        Completion::Mbarriers { offset, signal } => {
            events::Completion::Mbarrier(MbarrierAddress { rank: signal.rank(rank), offset })
        }
    }
}
