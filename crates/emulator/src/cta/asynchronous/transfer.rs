//! One bulk or tensor copy in flight: its source and destination, row by row, and its completion.

use std::ops::Range;
use std::sync::Arc;

use warpwright_arch::tensor_map::{ElementType, Swizzle};
use warpwright_events::{AccessKind, ByteRange, MemorySpace, Proxy};

use super::reduction::Reduction;
use super::shared_tile::SharedTile;
use crate::tensor_map::{Row, Start, Tensor};

/// Rows of a copy without a tensor map have at most this many bytes.
pub(super) const LINEAR_ROW: u32 = 2048;

/// The issuer of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Issuer {
    pub(crate) warp: u32,
    pub(crate) lane: u8,
    pub(crate) pc: u32,
}

/// A copy's side in global memory.
#[derive(Clone, Debug)]
pub(crate) enum Global {
    /// Bytes in a row.
    Linear { address: u64, bytes: u32 },
    /// A tile of a tensor.
    Tile { tensor: Arc<Tensor>, start: Start },
}

impl Global {
    pub(super) fn rows(&self) -> u32 {
        match self {
            Global::Linear { bytes, .. } => bytes.div_ceil(LINEAR_ROW),
            Global::Tile { tensor, start } => tensor.rows(start),
        }
    }

    /// The bytes the copy counts on an mbarrier.
    pub(crate) fn bytes(&self) -> u32 {
        match self {
            Global::Linear { bytes, .. } => *bytes,
            Global::Tile { tensor, start } => tensor.bytes(start),
        }
    }

    /// Its range of shared memory.
    pub(crate) fn shared_bytes(&self) -> u32 {
        match self {
            Global::Linear { bytes, .. } => *bytes,
            Global::Tile { tensor, start } => tensor.shared_bytes(start),
        }
    }

    pub(super) fn for_rows(&self, rows: Range<u32>, mut visit: impl FnMut(Row)) {
        match self {
            Global::Linear { address, bytes } => {
                for index in rows {
                    let first = index * LINEAR_ROW;
                    let length = LINEAR_ROW.min(bytes - first);
                    let global = address + u64::from(first);
                    visit(Row { index, bytes: length, inside: 0..length, global });
                }
            }
            Global::Tile { tensor, start } => tensor.for_rows(start, rows, visit),
        }
    }

    /// Visits its ranges of global memory.
    pub(super) fn for_ranges(&self, kind: AccessKind, mut visit: impl FnMut(ByteRange)) {
        self.for_rows(0..self.rows(), |row| {
            let bytes = u64::from(self.global_bytes(row.inside.len() as u32));
            if bytes > 0 {
                visit(ByteRange { space: MemorySpace::Global, first: row.global, bytes, kind, part: None });
            }
        });
    }

    /// The tile in shared memory with the bytes `host`.
    pub(super) fn tile(&self, host: *mut u8, address: u32) -> SharedTile {
        match self {
            Global::Linear { .. } => SharedTile::new(host, address, LINEAR_ROW, Swizzle::None),
            Global::Tile { tensor, .. } => SharedTile::new(host, address, tensor.row_pitch, tensor.swizzle),
        }
    }

    pub(super) fn element(&self) -> Option<ElementType> {
        match self {
            Global::Linear { .. } => None,
            Global::Tile { tensor, .. } => Some(tensor.element),
        }
    }

    pub(super) fn fill(&self) -> [u8; 2] {
        match self {
            Global::Linear { .. } => [0; 2],
            Global::Tile { tensor, .. } => tensor.fill,
        }
    }

    /// The bytes in global memory for as many bytes in shared memory.
    pub(super) fn global_bytes(&self, shared_bytes: u32) -> u32 {
        match self.element() {
            Some(element) if element.is_padded() => shared_bytes / 16 * element.bits() * 2,
            _ => shared_bytes,
        }
    }
}

/// Source and destination.
#[derive(Clone, Debug)]
pub(crate) enum Motion {
    /// From global memory to the same offset in the shared memory of each CTA of a mask.
    Load { from: Global, to: u32, ranks: u16 },
    /// From the CTA's shared memory to global memory, stored or reduced.
    /// Of each 16 bytes, those of a mask are stored.
    Store { from: u32, to: Global, reduction: Option<Reduction>, mask: u16 },
    /// From the CTA's shared memory to that of a CTA of the cluster, stored or reduced.
    Peer { from: u32, to: u32, rank: u32, bytes: u32, reduction: Option<Reduction> },
    /// From a thread's registers to the shared memory of a CTA of the cluster, stored or reduced
    /// through a proxy.
    Value { data: [u8; 16], bytes: u32, to: u32, rank: u32, reduction: Option<Reduction>, proxy: Proxy },
}

/// All bytes of a store.
pub(crate) const ALL_BYTES: u16 = u16::MAX;

/// The CTA whose mbarrier counts the bytes that a copy writes to a CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Always that of one rank.
    Rank(u32),
    /// The CTA itself.
    Destination,
    /// The CTA of its pair whose rank has this remainder by 2 (PTX ISA, "cp.async.bulk.tensor",
    /// `.cta_group::2`).
    OfPair(u32),
}

impl Signal {
    /// The rank of the mbarrier, for the bytes written to a CTA.
    pub(super) fn rank(self, destination: u32) -> u32 {
        match self {
            Signal::Rank(rank) => rank,
            Signal::Destination => destination,
            Signal::OfPair(remainder) => destination / 2 * 2 + remainder,
        }
    }
}

/// How the completion of a copy is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    /// The mbarriers at an offset.
    Mbarriers { offset: u64, signal: Signal },
    /// The issuing thread's bulk group of that number.
    Group(u32),
}

/// A copy in flight.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) issuer: Issuer,
    pub(crate) motion: Motion,
    pub(crate) completion: Completion,
    /// The address of its tensor map, if it is in global memory, where programs may change it.
    pub(super) map: Option<u64>,
    /// Rows moved; of a store, rows read and then rows written.
    pub(super) progress: u32,
    /// The rows that a store has read.
    pub(super) staged: Vec<u8>,
}

impl Transfer {
    pub(crate) fn new(issuer: Issuer, motion: Motion, completion: Completion, map: Option<u64>) -> Self {
        Self { issuer, motion, completion, map, progress: 0, staged: Vec::new() }
    }

    pub(super) fn rows(&self) -> u32 {
        match &self.motion {
            Motion::Load { from, .. } => from.rows(),
            Motion::Store { to, .. } => to.rows(),
            Motion::Peer { .. } | Motion::Value { .. } => 1,
        }
    }

    /// The number of rows after which its source may be overwritten.
    pub(super) fn read_steps(&self) -> u32 {
        self.rows()
    }

    /// The number of rows after which it is complete.
    pub(super) fn steps(&self) -> u32 {
        match self.motion {
            Motion::Store { .. } => 2 * self.rows(),
            _ => self.rows(),
        }
    }

    /// The CTAs that it writes to; its own if it writes to global memory.
    pub(super) fn destinations(&self, own: u32) -> impl Iterator<Item = u32> + use<> {
        ranks_of(match &self.motion {
            Motion::Load { ranks, .. } => *ranks,
            Motion::Peer { rank, .. } | Motion::Value { rank, .. } => 1 << rank,
            Motion::Store { .. } => 1 << own,
        })
    }

    pub(super) fn left(&self) -> u32 {
        self.steps() - self.progress
    }
}

/// The ranks of a mask.
pub(super) fn ranks_of(mask: u16) -> impl Iterator<Item = u32> {
    (0..16).filter(move |rank| mask >> rank & 1 != 0)
}
