//! Reads of memory that nothing has written.

use smallvec::smallvec;
use warpwright_events::{
    AccessKind, Actor, ByteRange, Class, Completion, FULL, LANES, MemorySpace, Strength,
};

use crate::checker::Checker;
use crate::report::conflict::{Conflict, Party};
use crate::report::finding::FindingKind;
use crate::state::agents::Role;
use crate::state::shadow::Access;

impl Checker {
    /// Reports a copy that moves only unwritten bytes, or a reduction that only updates such. Copies may
    /// move unwritten bytes beside written ones: the end of a partial tile.
    pub(super) fn report_unwritten_copy(
        &mut self,
        actor: Actor,
        ranges: &[ByteRange],
        access: Access,
        completion: Completion,
    ) {
        let (Some((address, ..)), Some(first)) = (self.unwritten.take(false), ranges.first()) else { return };
        let cta = self.ctas[actor.rank as usize].linear;
        let whole = Access { lanes: actor.lanes, bytes: u16::MAX, spread: 0, ..access };
        let copy = Party::of(&whole, u16::MAX, actor.warp, cta, Some(completion));
        let length = ranges.iter().map(|range| range.bytes).sum();
        let bytes = (address, length);
        self.launch.report(Conflict::new(FindingKind::Uninitialized, first.space, bytes, [copy; 2]));
    }

    /// Reports reads of unwritten bytes.
    pub(super) fn report_unwritten(
        &mut self,
        actor: Actor,
        space: MemorySpace,
        addresses: &[u64; LANES],
        size: u64,
        access: Access,
    ) {
        let cta = self.ctas[actor.rank as usize].linear;
        if space == MemorySpace::Shared && access.kind == AccessKind::Read {
            self.unwritten.end(access.pc);
        }
        if self.unwritten.is_empty() {
            return;
        }
        let code = self.launch.info.code.clone();
        let instruction = code.instruction(actor.pc);
        let is_matrix = instruction.name().starts_with("ldmatrix");
        let conflict = |address: u64, length: u64, lanes: u32| {
            let whole = Access { lanes, bytes: u16::MAX, spread: 0, ..access };
            let reader = Party::of(&whole, u16::MAX, actor.warp, cta, None);
            Conflict::new(FindingKind::Uninitialized, space, (address, length), [reader; 2])
        };
        let rows = self.unwritten.take_rows();
        let loads_registers = matches!(instruction.class, Class::Load(_)) && !is_matrix;
        if loads_registers {
            let registers = instruction.writes.len().max(1);
            let unwritten = self.unwritten.lanes(addresses, size, registers, actor.lanes);
            let whole = unwritten.iter().fold(FULL, |all, lanes| all & lanes);
            let some = unwritten.iter().fold(0, |all, lanes| all | lanes);
            if some & !whole != 0 {
                let lane = (some & !whole).trailing_zeros() as usize;
                let index = unwritten.iter().position(|lanes| lanes >> lane & 1 != 0).unwrap_or(0) as u64;
                let each = size / registers as u64;
                let partial = conflict(addresses[lane] + index * each, each, some & !whole);
                self.partial_loads.entry(actor.pc).or_insert(partial);
            }
            if some & !whole != 0 || some != 0 && space == MemorySpace::Shared {
                self.warp(actor).1.undefined.loading_unwritten(actor, unwritten);
                self.is_following = true;
            }
        }
        if let Some((address, length, lanes)) = self.unwritten.take(is_matrix) {
            if space == MemorySpace::Shared && !loads_registers && access.kind == AccessKind::Read {
                let registers = smallvec![lanes; instruction.writes.len()];
                let undefined = &mut self.warp(actor).1.undefined;
                match is_matrix {
                    true => undefined.loading_unwritten_rows(actor, rows),
                    false => undefined.loading_unwritten(actor, registers),
                }
                self.is_following = true;
            }
            self.launch.report(conflict(address, length, lanes));
        }
    }

    /// Reports loads of unwritten local memory.
    pub(crate) fn local_load(&mut self, actor: Actor, unwritten: u32, addresses: &[u64; LANES], size: u64) {
        if unwritten != actor.lanes {
            self.unwritten.note_good(actor.pc);
        }
        if unwritten == 0 {
            return;
        }
        let registers = self.launch.info.code.instruction(actor.pc).writes.len();
        self.warp(actor).1.undefined.loading_unwritten(actor, smallvec![unwritten; registers]);
        self.is_following = true;
        let reader = Party {
            cta: self.ctas[actor.rank as usize].linear,
            role: Role::Warp(actor.warp),
            warp: Some(actor.warp),
            lanes: unwritten,
            pc: actor.pc,
            kind: AccessKind::Read,
            strength: Strength::Weak,
            proxy: None,
        };
        let bytes = (addresses[unwritten.trailing_zeros() as usize], size);
        self.launch.report(Conflict::new(FindingKind::Uninitialized, MemorySpace::Local, bytes, [reader; 2]));
    }
}
