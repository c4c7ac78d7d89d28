//! Accesses of shared and local memory, compared with the array that their address is computed
//! from.

use warpwright_events::{
    AccessKind, Actor, ByteRange, LANES, MbarrierAddress, MemorySpace, TileOperand, lanes, split_shared,
};

use crate::checker::Checker;
use crate::report::overrun::Overrun;

/// The bytes of an mbarrier.
const MBARRIER: u64 = 8;

/// The registers of a fragment of A.
const FRAGMENT_REGISTERS: usize = 4;

/// The addresses that an instruction accesses through an address in brackets.
struct Indexed<'a> {
    space: MemorySpace,
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
        if matches!(space, MemorySpace::Shared | MemorySpace::Local) {
            self.check_indexed(actor, 0, &Indexed { space, addresses, bytes, kind });
        }
    }

    /// A copy: its target is the first address, its source the second.
    pub(crate) fn check_copied_arrays(&self, actor: Actor, ranges: &[ByteRange]) {
        if self.launch.info.code.arrays.is_empty() {
            return;
        }
        let name = self.launch.info.code.instruction(actor.pc).name();
        if name.starts_with("wgmma.") {
            return self.check_operand_arrays(actor, ranges);
        }
        if !["cp.", "st.", "red."].iter().any(|copy| name.starts_with(copy)) {
            return;
        }
        for range in ranges.iter().filter(|range| range.space == MemorySpace::Shared) {
            let ByteRange { space, first, bytes, kind, .. } = *range;
            let address = if kind.writes() { 0 } else { 1 };
            self.check_indexed(actor, address, &Indexed { space, addresses: &[first; LANES], bytes, kind });
        }
    }

    /// A `wgmma`, by its descriptors: that of B follows that of A, or A's registers.
    fn check_operand_arrays(&self, actor: Actor, ranges: &[ByteRange]) {
        let has =
            |range: &ByteRange, operand: TileOperand| range.part.is_some_and(|part| part.operand == operand);
        let in_shared = ranges.iter().any(|range| has(range, TileOperand::A));
        let code = &self.launch.info.code;
        let descriptor = |index: usize| {
            let register = code.instruction(actor.pc).reads.get(index)?;
            self.launch.origins.array_of(*register)
        };
        let of_b = if in_shared { 1 } else { FRAGMENT_REGISTERS };
        for (operand, index) in [(TileOperand::A, 0), (TileOperand::B, of_b)] {
            let Some(array) = descriptor(index) else { continue };
            // One finding for the operand, whichever its parts are.
            let is_outside = |range: &ByteRange| {
                let ByteRange { space, first, bytes, kind, .. } = *range;
                self.compare(actor, array, &Indexed { space, addresses: &[first; LANES], bytes, kind })
            };
            let _ = ranges.iter().filter(|range| has(range, operand)).any(is_outside);
        }
    }

    /// An operation on an mbarrier, whose address is the last.
    pub(crate) fn check_mbarrier_array(&self, actor: Actor, mbarrier: MbarrierAddress) {
        let bases = self.launch.info.code.instruction(actor.pc).bases.len();
        if let Some(last) = bases.checked_sub(1) {
            let (space, addresses) = (MemorySpace::Shared, &[mbarrier.shared(); LANES]);
            let indexed = Indexed { space, addresses, bytes: MBARRIER, kind: AccessKind::Object };
            self.check_indexed(actor, last, &indexed);
        }
    }

    fn check_indexed(&self, actor: Actor, address: usize, indexed: &Indexed<'_>) {
        let code = &self.launch.info.code;
        if let Some(array) = self.launch.origins.array(code.instruction(actor.pc), address) {
            self.compare(actor, array, indexed);
        }
    }

    /// Reports lanes whose addresses are outside an array. Returns whether there are any.
    fn compare(&self, actor: Actor, array: u32, indexed: &Indexed<'_>) -> bool {
        let Indexed { space, addresses, bytes, kind } = *indexed;
        let extent = &self.launch.info.code.arrays[array as usize];
        if extent.space != space {
            return false;
        }
        let is_outside = |lane: &usize| extent.is_outside(split_shared(addresses[*lane]).1, bytes);
        let outside = lanes(actor.lanes).filter(is_outside).fold(0u32, |mask, lane| mask | 1 << lane);
        if outside != 0 {
            let mark = self.mark(Actor { lanes: outside, ..actor });
            let (_, address) = split_shared(addresses[outside.trailing_zeros() as usize]);
            self.launch.report_overrun(Overrun { mark, address, kind, array });
        }
        outside != 0
    }
}
