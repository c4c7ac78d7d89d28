//! Reads of unwritten memory.

use warpwright_events::{LANES, lanes};

use crate::state::shadow::{Access, cut_range};
use crate::state::undefined::UnwrittenLanes;
use crate::state::undefined_matrix::UnwrittenRows;

/// The unwritten bytes of one instruction's reads.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    /// Ranges, by address and length, and the lanes that read them.
    found: Vec<(u64, u64, u32)>,
    /// Unwritten bytes, by granule.
    bytes: Vec<(u64, u16)>,
    /// The unwritten rows of a tile: the lanes that give the address of 16 bytes, and the unwritten bytes among these.
    rows: UnwrittenRows,
    /// Whether any of the bytes were written.
    any_written: bool,
    /// Whether the instruction reads a tile, parts of which may stay unused. Then any written part
    /// is sufficient.
    of_tile: bool,
    /// Instructions that have read written bytes, one bit each.
    good: Vec<u64>,
}

impl Unwritten {
    /// An instruction begins.
    pub(crate) fn begin(&mut self, of_tile: bool) {
        self.found.clear();
        self.rows.clear();
        self.bytes.clear();
        (self.any_written, self.of_tile) = (false, of_tile);
    }

    /// The instruction has read; reads of written bytes are recorded.
    pub(crate) fn end(&mut self, pc: u32) {
        if self.any_written {
            self.note_good(pc);
        }
    }

    /// An instruction has read written bytes.
    pub(crate) fn note_good(&mut self, pc: u32) {
        let word = (pc / 64) as usize;
        if self.good.len() <= word {
            self.good.resize(word + 1, 0);
        }
        self.good[word] |= 1 << (pc % 64);
    }

    /// The instructions that have read written bytes.
    pub(crate) fn good(&self) -> impl Iterator<Item = u32> {
        let bits = |word: u64| (0..64).filter(move |bit| word >> bit & 1 != 0);
        self.good.iter().zip(0..).flat_map(move |(&word, index)| bits(word).map(move |bit| index * 64 + bit))
    }

    /// An access of a granule found bytes unwritten. Elements of a vector load may be unused
    /// padding: a lane is reported only if everything it reads is unwritten.
    pub(crate) fn note(&mut self, access: &Access, granule: u64, unwritten: u16) {
        if unwritten == 0 {
            self.any_written = true;
            return;
        }
        self.any_written |= unwritten != access.bytes;
        self.bytes.push((granule, unwritten));
        if self.of_tile {
            self.rows.push((access.lanes_of(unwritten), unwritten));
        }
        let at_fault = if self.of_tile {
            access.lanes_of(unwritten)
        } else if access.spread == 0 {
            if unwritten == access.bytes { access.lanes } else { 0 }
        } else {
            let written = access.lanes_of(access.bytes & !unwritten);
            access.lanes_of(unwritten) & !written
        };
        if at_fault != 0 {
            let first = unwritten.trailing_zeros();
            let length = (!(u32::from(unwritten) >> first)).trailing_zeros();
            self.found.push((granule + u64::from(first), length.into(), at_fault));
        }
    }

    /// Whether everything that the instruction has read is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// For each of the registers that lanes load, the lanes in which nothing has written any of its bytes.
    pub(crate) fn lanes(
        &self,
        addresses: &[u64; LANES],
        bytes: u64,
        registers: usize,
        mask: u32,
    ) -> UnwrittenLanes {
        let each = bytes / registers.max(1) as u64;
        let is_unwritten = |first: u64| {
            let mut all = true;
            cut_range(first, each, 1, |part| {
                let of_granule = self.bytes.iter().filter(|(granule, _)| *granule == part.granule);
                all &= of_granule.fold(0, |all, (_, bytes)| all | bytes) & part.bytes == part.bytes;
            });
            all
        };
        let of_register = |index: u64| {
            lanes(mask)
                .filter(|&lane| is_unwritten(addresses[lane] + index * each))
                .fold(0, |mask, lane| mask | 1 << lane)
        };
        (0..registers as u64).map(of_register).collect()
    }

    /// The unwritten rows of a tile.
    pub(crate) fn take_rows(&mut self) -> UnwrittenRows {
        std::mem::take(&mut self.rows)
    }

    /// The lowest unwritten address, and all lanes concerned. A tile with a written part has one only if `parts` matter.
    pub(crate) fn take(&mut self, parts: bool) -> Option<(u64, u64, u32)> {
        if self.of_tile && self.any_written && !parts {
            return None;
        }
        let found = std::mem::take(&mut self.found);
        let all = found.iter().fold(0, |mask, (.., lanes)| mask | lanes);
        found.into_iter().min().map(|(address, length, _)| (address, length, all))
    }
}
