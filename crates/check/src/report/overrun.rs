//! Accesses outside the array of shared or local memory that they index.

use warpwright_events::{
    AccessKind, AddressName, AddressNames, Code, FaultKind, LaunchInfo, MemoryArray, MemorySpace,
};

use crate::report::finding::{Finding, FindingKind};
use crate::report::order::Rank;
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

    pub(crate) fn finding(
        &self,
        launch: &LaunchInfo,
        code: &Code,
        names: &dyn AddressNames,
        count: u64,
    ) -> Finding {
        let array = &code.arrays[self.array as usize];
        let (what, done) = match self.kind {
            AccessKind::Read | AccessKind::ReadTile => ("a read", "read"),
            AccessKind::Write => ("a write", "written"),
            AccessKind::Atomic => ("an atomic operation", "updated"),
            AccessKind::Object => ("an mbarrier operation", "used"),
        };
        let space = if array.space == MemorySpace::Local { "local" } else { "shared" };
        let mut finding = Finding {
            kind: FindingKind::Fault(FaultKind::OutOfBounds),
            kernel: code.kernel.clone(),
            message: format!("{what} is {} the {space} array that it indexes", array.distance(self.address)),
            labels: vec![code.label(self.mark.pc, format!("{done} by {}", self.mark.who(launch)))],
            memory: Vec::new(),
            notes: Vec::new(),
            help: Some("keep the index below the length of the array, or allocate more elements".to_owned()),
            count,
            tile: None,
            cause: None,
            rank: Rank::of(FindingKind::Fault(FaultKind::OutOfBounds)),
            gap: None,
        };
        // Of an access across the end, the first byte that the array does not have.
        let end = array.start + array.bytes.unwrap_or(0);
        let address = if self.address < array.start { self.address } else { self.address.max(end) };
        let (own, other) = match array.space {
            MemorySpace::Local => self.local_names(code, address),
            _ => (names.outside(array, address), names.name(MemorySpace::Shared, address)),
        };
        let is_named = !other.labels.is_empty() || other.note.is_some();
        for name in [own, other] {
            name.add_to(&mut finding.memory, &mut finding.notes);
        }
        finding.notes.push(match is_named {
            true => {
                "the address is valid, and a GPU reports no error: the access uses another array".to_owned()
            }
            false => format!("{space} address {address:#x} is in no array"),
        });
        finding
    }

    /// The array in local memory, and the one that an address is in. Their names are the
    /// instructions that take their addresses, at the lines that allocate them.
    fn local_names(&self, code: &Code, address: u64) -> (AddressName, AddressName) {
        let array = &code.arrays[self.array as usize];
        let name = |index: u32, is: String| {
            let takes = |pc: &u32| code.instruction(*pc).arrays.contains(&index);
            let taken = (0..code.of_operation.len() as u32).find(takes);
            let text = format!("local address {address:#x} is {is} this array");
            AddressName { labels: taken.map(|pc| code.label(pc, text)).into_iter().collect(), note: None }
        };
        let has_it = |other: &MemoryArray| {
            other.space == MemorySpace::Local && other.bytes.is_some() && !other.is_outside(address, 1)
        };
        let other = code.arrays.iter().zip(0..).find(|(other, _)| has_it(other));
        let other = other.map(|(other, index)| name(index, format!("byte {} of", address - other.start)));
        (name(self.array, array.distance(address)), other.unwrap_or_default())
    }
}
