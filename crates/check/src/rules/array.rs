//! Accesses of shared memory, compared with the array that their address is computed from.

use warpwright_events::{
    AccessKind, Actor, ByteRange, LANES, MbarrierAddress, MemorySpace, lanes, split_shared,
};

use crate::checker::Checker;
use crate::report::overrun::Overrun;
use crate::rules::alignment::opcode;

/// The bytes of an mbarrier.
const MBARRIER: u64 = 8;

/// The addresses that an instruction accesses through an address in brackets.
struct Indexed<'a> {
    addresses: &'a [u64; LANES],
    bytes: u64,
    kind: AccessKind,
}

impl Checker {
    /// A load, a store or an atomic operation, by its only address.
    pub(crate) fn check_array(
        &self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        bytes: u64,
        kind: AccessKind,
    ) {
        if space == MemorySpace::Shared {
            self.check_indexed(actor, 0, &Indexed { addresses, bytes, kind });
        }
    }

    /// A copy: its target is the first address, its source the second.
    pub(crate) fn check_copied_arrays(&self, actor: Actor, ranges: &[ByteRange]) {
        if self.launch.info.code.arrays.is_empty() {
            return;
        }
        let name = opcode(&self.launch.info.code.instruction(actor.pc).text);
        if !["cp.", "st.", "red."].iter().any(|copy| name.starts_with(copy)) {
            return;
        }
        for range in ranges.iter().filter(|range| range.space == MemorySpace::Shared) {
            let address = if range.kind.writes() { 0 } else { 1 };
            let addresses = &[range.first; LANES];
            self.check_indexed(actor, address, &Indexed { addresses, bytes: range.bytes, kind: range.kind });
        }
    }

    /// An operation on an mbarrier, whose address is the last.
    pub(crate) fn check_mbarrier_array(&self, actor: Actor, mbarrier: MbarrierAddress) {
        let bases = self.launch.info.code.instruction(actor.pc).bases.len();
        if let Some(last) = bases.checked_sub(1) {
            let addresses = &[mbarrier.shared(); LANES];
            self.check_indexed(
                actor,
                last,
                &Indexed { addresses, bytes: MBARRIER, kind: AccessKind::Object },
            );
        }
    }

    fn check_indexed(&self, actor: Actor, address: usize, indexed: &Indexed<'_>) {
        let code = &self.launch.info.code;
        let Some(array) = self.launch.origins.array(code.instruction(actor.pc), address) else { return };
        let Indexed { addresses, bytes, kind } = *indexed;
        let is_outside =
            |lane: &usize| code.arrays[array as usize].is_outside(split_shared(addresses[*lane]).1, bytes);
        let outside = lanes(actor.lanes).filter(is_outside).fold(0u32, |mask, lane| mask | 1 << lane);
        if outside != 0 {
            let mark = self.mark(Actor { lanes: outside, ..actor });
            let (_, address) = split_shared(addresses[outside.trailing_zeros() as usize]);
            self.launch.report_overrun(Overrun { mark, address, kind, array });
        }
    }
}
