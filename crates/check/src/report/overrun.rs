//! Accesses outside the array of shared memory that they index.

use warpwright_events::{
    AccessKind, AddressNames, Bound, Code, FaultKind, LaunchInfo, MemorySpace, SharedArray,
};

use crate::report::finding::{Finding, FindingKind};
use crate::state::mark::Mark;

/// An access whose address is computed from an array, and is outside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Overrun {
    pub(crate) mark: Mark,
    /// The address of the first lane that is outside.
    pub(crate) address: u64,
    pub(crate) kind: AccessKind,
    /// The index of the array.
    pub(crate) array: u32,
}

impl Overrun {
    /// Those with the same key are reported once.
    pub(crate) fn key(&self) -> (u32, u32) {
        (self.mark.pc, self.array)
    }

    /// Whether bytes are outside the array.
    pub(crate) fn is_outside(array: &SharedArray, first: u64, bytes: u64) -> bool {
        array.bytes.is_some_and(|size| first < array.start || first + bytes > array.start + size)
    }

    pub(crate) fn finding(
        &self,
        launch: &LaunchInfo,
        code: &Code,
        names: &dyn AddressNames,
        count: u64,
    ) -> Finding {
        let array = &code.arrays[self.array as usize];
        let end = array.start + array.bytes.unwrap_or(0);
        let (bound, far) = match self.address {
            address if address < array.start => {
                (Bound::Begin, format!("{} bytes before the start", array.start - address))
            }
            address if address < end => (Bound::End, "across the end".to_owned()),
            address if address == end => (Bound::End, "right past the end".to_owned()),
            address => (Bound::End, format!("{} bytes past the end", address - end)),
        };
        let (what, done) = match self.kind {
            AccessKind::Read | AccessKind::ReadTile => ("a read", "read"),
            AccessKind::Write => ("a write", "written"),
            AccessKind::Atomic => ("an atomic operation", "updated"),
            AccessKind::Object => ("an mbarrier operation", "used"),
        };
        let mut finding = Finding {
            kind: FindingKind::Fault(FaultKind::OutOfBounds),
            kernel: code.kernel.clone(),
            message: format!("{what} is {far} of the shared array that it indexes"),
            labels: vec![code.label(self.mark.pc, format!("{done} by {}", self.mark.who(launch)))],
            memory: Vec::new(),
            notes: Vec::new(),
            help: Some("keep the index below the length of the array, or allocate more elements".to_owned()),
            count,
            tile: None,
        };
        names.bound(array, bound).add_to(&mut finding.memory, &mut finding.notes);
        let there = self.address.max(if bound == Bound::End { end } else { 0 });
        let other = names.name(MemorySpace::Shared, there);
        let is_named = !other.labels.is_empty() || other.note.is_some();
        other.add_to(&mut finding.memory, &mut finding.notes);
        finding.notes.push(match is_named {
            true => "the address is one of the CTA's, so nothing stops the access: it uses another array"
                .to_owned(),
            false => format!("shared address {there:#x} is in no array"),
        });
        finding
    }
}
