//! Bytes of shared memory whose value is undefined: stored registers.

use std::collections::HashMap;

use warpwright_events::GRANULE;

use crate::state::shadow::{Part, bytes_in, cut_range};
use crate::state::undefined::Origin;

/// The undefined bytes of a cluster's shared memory, by granule of 16 bytes. An address has the rank of its CTA.
#[derive(Debug, Default)]
pub(crate) struct UndefinedShared(HashMap<u64, (u16, Origin)>);

impl UndefinedShared {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A value is stored that is undefined if it has an origin.
    pub(crate) fn store(&mut self, address: u64, bytes: u64, value: Option<Origin>) {
        if value.is_none() && self.is_empty() {
            return;
        }
        cut_range(address, bytes, 1, |Part { granule, bytes, .. }| match (value, self.0.get_mut(&granule)) {
            (Some(origin), Some(known)) => *known = (known.0 | bytes, origin),
            (Some(origin), None) => drop(self.0.insert(granule, (bytes, origin))),
            (None, Some((known, _))) if *known & !bytes != 0 => *known &= !bytes,
            (None, Some(_)) => drop(self.0.remove(&granule)),
            (None, None) => {}
        });
    }

    /// The origin of the value at an address, if all of its bytes are undefined.
    pub(crate) fn load(&self, address: u64, bytes: u64) -> Option<Origin> {
        let mut found = None;
        let mut all = true;
        cut_range(address, bytes, 1, |part| match self.0.get(&part.granule) {
            Some((known, origin)) if part.bytes & !known == 0 => found = Some(*origin),
            _ => all = false,
        });
        found.filter(|_| all)
    }

    /// The undefined bytes of the granule at an address, and where they come from.
    pub(crate) fn granule(&self, address: u64) -> Option<(u16, Origin)> {
        self.0.get(&(address - address % GRANULE)).copied()
    }

    /// Whether a byte of a range is undefined.
    pub(crate) fn has_any(&self, address: u64, bytes: u64) -> bool {
        let end = address + bytes;
        let mut granules = (address - address % GRANULE..end).step_by(GRANULE as usize);
        granules.any(|granule| {
            self.granule(granule).is_some_and(|(known, _)| known & bytes_in(granule, address, end) != 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_undefined_until_a_defined_value_is_stored() {
        let origin = Origin::Load { pc: 7 };
        let mut shared = UndefinedShared::default();
        shared.store(24, 16, Some(origin));
        assert_eq!(shared.load(24, 16), Some(origin), "two granules");
        assert_eq!(shared.load(20, 8), None, "half of it is defined");
        assert!(shared.has_any(20, 8) && !shared.has_any(40, 8));
        assert_eq!(shared.granule(35), Some((0x00ff, origin)));
        shared.store(24, 8, None);
        assert_eq!(shared.load(32, 8), Some(origin));
        shared.store(32, 8, None);
        assert!(shared.is_empty());
    }
}
