//! Reads of memory that nothing has written.

use warpwright_events::{AccessKind, Actor, ByteRange, Completion, LANES, MemorySpace, Strength};

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
    pub(super) fn report_unwritten(&mut self, actor: Actor, space: MemorySpace, access: Access) {
        let cta = self.ctas[actor.rank as usize].linear;
        if space == MemorySpace::Shared && access.kind == AccessKind::Read {
            self.unwritten.end(access.pc);
        }
        let is_matrix = self.launch.info.code.instruction(actor.pc).name().starts_with("ldmatrix");
        let rows = self.unwritten.take_rows();
        if let Some((address, length, lanes)) = self.unwritten.take(is_matrix) {
            if space == MemorySpace::Shared && access.kind == AccessKind::Read {
                match is_matrix {
                    true => self.warp(actor).1.undefined.loading_unwritten_rows(actor, rows),
                    false => self.warp(actor).1.undefined.loading_unwritten(actor, lanes),
                }
                self.is_following = true;
            }
            let whole = Access { lanes, bytes: u16::MAX, spread: 0, ..access };
            let reader = Party::of(&whole, u16::MAX, actor.warp, cta, None);
            let bytes = (address, length);
            self.launch.report(Conflict::new(FindingKind::Uninitialized, space, bytes, [reader; 2]));
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
        self.warp(actor).1.undefined.loading_unwritten(actor, unwritten);
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
