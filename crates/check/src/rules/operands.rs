//! Tiles that MMAs and loads of tensor memory read: every operand must be written.
//!
//! A row of A, or a column of B, that nothing has written may be padding: it only affects the
//! results of that row, which need not be used. FlashAttention leaves the rows of Q past its end
//! unwritten. Such rows are tolerated if the instruction reads a tile elsewhere in the launch of
//! which all is written. A row that is written in part is always an error, since each of its
//! elements is an addend of all results of the row. So is a tile of which nothing is written.

use warpwright_events::{
    AccessKind, Actor, Awaited, ByteRange, Completion, FULL, GRANULE, MemorySpace, Proxy, Strength,
    lane_list, split_shared,
};

use crate::checker::Checker;
use crate::report::conflict::{Conflict, Party};
use crate::report::finding::FindingKind;
use crate::report::misuse::Misuse;
use crate::report::tile::UnwrittenTile;
use crate::state::agents::Role;
use crate::state::shadow::bytes_in;

/// Bytes of a granule that belong to a tile, and those of them that are written.
#[derive(Clone, Copy)]
struct Bytes {
    granule: u64,
    own: u16,
    written: u16,
}

impl Bytes {
    fn unwritten(self) -> u16 {
        self.own & !self.written
    }
}

/// The bytes of a row that are written in any of its granules, and in all.
#[derive(Clone, Copy)]
struct Row {
    any: u16,
    all: u16,
}

impl Row {
    const NONE: Row = Row { any: 0, all: u16::MAX };

    fn with(self, bytes: Bytes) -> Self {
        Self { any: self.any | bytes.written, all: self.all & !bytes.unwritten() }
    }

    /// Whether an element of it is written and another one is not. `separate` if the bytes of a
    /// granule belong to different rows.
    fn is_partial(self, separate: bool) -> bool {
        if separate { self.any != self.all } else { self.any != 0 && self.all != u16::MAX }
    }
}

impl Checker {
    /// The bytes of a granule of shared or tensor memory that are written.
    fn initialized(&self, space: MemorySpace, address: u64) -> u16 {
        let (rank, offset) = split_shared(address);
        let granule = match space {
            MemorySpace::Shared => self.shadows.get(rank as usize).map(|shadow| shadow.initialized(offset)),
            _ => self.tensor.get(rank as usize).map(|shadow| shadow.granules.initialized(offset)),
        };
        granule.unwrap_or(u16::MAX)
    }

    /// Checks the tiles among ranges that an instruction reads.
    pub(crate) fn check_tiles(
        &mut self,
        actor: Actor,
        completion: Completion,
        proxy: Proxy,
        ranges: &[ByteRange],
    ) {
        let operand = |range: &ByteRange| range.part.map(|part| part.operand);
        for tile in ranges.chunk_by(|a, b| operand(a) == operand(b)) {
            let Some(part) = tile[0].part else { continue };
            let Some(found) = self.unwritten_tile(tile) else {
                self.whole_tiles.insert((actor.pc, part.operand));
                continue;
            };
            let Completion::Group(kind) = completion else { continue };
            let reader = Party {
                cta: self.ctas[actor.rank as usize].linear,
                role: Role::of_work(actor.warp, kind, Awaited::Everything),
                warp: Some(actor.warp),
                lanes: actor.lanes,
                pc: actor.pc,
                kind: AccessKind::Read,
                strength: Strength::Weak,
                proxy: Some(proxy),
            };
            let (address, tile_found) = found;
            let (kind, bytes) = (FindingKind::Uninitialized, (address, tile_found.unwritten));
            let conflict = Conflict::new(kind, tile[0].space, bytes, [reader; 2]);
            self.launch.report(Conflict { tile: Some(tile_found), ..conflict });
        }
    }

    /// The first unwritten address of a tile, if it must not be read.
    fn unwritten_tile(&self, tile: &[ByteRange]) -> Option<(u64, UnwrittenTile)> {
        let granules = |range: &ByteRange| {
            let (space, first, end) = (range.space, range.first, range.first + range.bytes);
            let granules = (first & !(GRANULE - 1)..end).step_by(GRANULE as usize);
            granules.map(move |granule| {
                let own = bytes_in(granule, first, end);
                Bytes { granule, own, written: own & self.initialized(space, granule) }
            })
        };
        if tile.iter().flat_map(granules).all(|bytes| bytes.unwritten() == 0) {
            return None;
        }
        let row_of = |range: &ByteRange| range.part.map(|part| part.row);
        let mut any_written = false;
        let mut partial = None;
        for parts in tile.chunk_by(|a, b| row_of(a) == row_of(b)) {
            let mut row = Row::NONE;
            for bytes in parts.iter().flat_map(granules) {
                row = row.with(bytes);
            }
            any_written |= row.any != 0;
            if partial.is_none() && row.is_partial(parts[0].part?.rows > 1) {
                partial = Some(parts);
            }
        }
        let is_of_rows = any_written && partial.is_none();
        let concerned = partial.filter(|_| any_written).unwrap_or(tile);
        let first_of = |range: &ByteRange| {
            let found = granules(range).find(|bytes| bytes.unwritten() != 0)?;
            Some((found.granule + u64::from(found.unwritten().trailing_zeros()), range.part?))
        };
        let (address, part) = concerned.iter().find_map(first_of)?;
        let missing = |bytes: Bytes| u64::from(bytes.unwritten().count_ones());
        let unwritten = tile.iter().flat_map(granules).map(missing).sum();
        let bytes = tile.iter().map(|range| range.bytes).sum();
        Some((address, UnwrittenTile { part, unwritten, bytes, is_of_rows }))
    }

    /// Checks the registers that a `wgmma` reads, of which some are accumulators.
    pub(crate) fn check_registers_written(&self, actor: Actor, accumulators: &[u32], reads: &[u32]) {
        let state = &self.warp_of(actor).registers;
        let unwritten = |column: &&u32| state.unwritten(**column) != 0;
        let Some(column) = reads.iter().find(unwritten) else { return };
        let missing = state.unwritten(*column);
        let index = accumulators.iter().position(|own| own == column);
        let (message, whole, help) = match index {
            Some(index) => (
                "a wgmma adds to accumulators that nothing has written",
                format!("register {index} of {} of its accumulators", accumulators.len()),
                "set the accumulators to zero (`clear()`), or let the first multiplication of a tile overwrite them (`Accumulate::No`, scale-d false)",
            ),
            None => (
                "a wgmma reads a fragment of A that nothing has written",
                "a register of its A".to_owned(),
                "load the fragment before the multiplication, in all lanes of the warpgroup",
            ),
        };
        let mark = self.mark(actor);
        let of_lanes = if missing == FULL { String::new() } else { format!(" in {}", lane_list(missing)) };
        self.launch.report_misuse(Misuse {
            kind: FindingKind::Uninitialized,
            message: message.to_owned(),
            locations: vec![(mark, format!("issued by {}", mark.who(&self.launch.info)))],
            mbarrier: None,
            note: format!("nothing has written {whole}{of_lanes}: registers are not initialized"),
            help: help.to_owned(),
        });
    }
}
