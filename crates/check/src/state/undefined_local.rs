//! Bytes of local memory whose value is undefined: stored registers, and parameters of functions.

use std::collections::BTreeMap;
use std::ops::Range;

use warpwright_events::{LANES, lanes};

use crate::state::undefined::Undefined;

/// The most bytes that are followed; values in further ones are taken as defined.
const MOST: usize = 1 << 12;

/// The undefined bytes of a warp's local memory. An address is one of each lane.
#[derive(Debug, Default)]
pub(crate) struct UndefinedLocal(BTreeMap<u64, Undefined>);

impl UndefinedLocal {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lanes store a value of `bytes` bytes, each at its address.
    pub(crate) fn store(
        &mut self,
        addresses: &[u64; LANES],
        bytes: u64,
        mask: u32,
        value: Option<Undefined>,
    ) {
        for lane in lanes(mask) {
            let value = value.filter(|value| value.lanes >> lane & 1 != 0);
            for address in addresses[lane]..addresses[lane] + bytes {
                self.write(address, 1 << lane, value);
            }
        }
    }

    /// What is undefined of the bytes that lanes load.
    pub(crate) fn load(&self, addresses: &[u64; LANES], bytes: u64, mask: u32) -> Option<Undefined> {
        let found =
            lanes(mask).filter_map(|lane| self.of(addresses[lane]..addresses[lane] + bytes, 1 << lane));
        found.reduce(|a, b| Undefined { lanes: a.lanes | b.lanes, ..a })
    }

    /// A call passes bytes between two frames.
    pub(crate) fn pass(&mut self, mask: u32, from: u64, to: u64, bytes: u64) {
        if self.is_empty() {
            return;
        }
        for byte in 0..bytes {
            let value = self.of(from + byte..from + byte + 1, mask);
            self.write(to + byte, mask, value);
        }
    }

    /// Lanes exit.
    pub(crate) fn exit(&mut self, mask: u32) {
        self.0.retain(|_, known| {
            known.lanes &= !mask;
            known.lanes != 0
        });
    }

    fn of(&self, bytes: Range<u64>, mask: u32) -> Option<Undefined> {
        let found = self.0.range(bytes).map(|(_, known)| known).filter(|known| known.lanes & mask != 0);
        let found = found.copied().reduce(|a, b| Undefined { lanes: a.lanes | b.lanes, ..a })?;
        Some(Undefined { lanes: found.lanes & mask, ..found })
    }

    fn write(&mut self, address: u64, mask: u32, value: Option<Undefined>) {
        let kept = self.0.get(&address).map_or(0, |known| known.lanes & !mask);
        match value {
            Some(value) if kept != 0 || self.0.len() < MOST => {
                self.0.insert(address, Undefined { lanes: kept | value.lanes, ..value });
            }
            _ if kept == 0 => drop(self.0.remove(&address)),
            _ => {
                if let Some(known) = self.0.get_mut(&address) {
                    known.lanes = kept;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::undefined::Origin;

    #[test]
    fn bytes_are_undefined_until_they_are_overwritten() {
        let value = |lanes| Some(Undefined { lanes, origin: Origin::Load { pc: 7 } });
        let at = |address| [address; LANES];
        let mut local = UndefinedLocal::default();
        local.store(&at(16), 4, 0b111, value(0b011));
        assert_eq!(local.load(&at(16), 4, 0b111), value(0b011));
        assert_eq!(local.load(&at(19), 4, 0b110), value(0b010), "one byte of it");
        assert_eq!(local.load(&at(20), 4, 0b111), None);
        local.pass(0b001, 16, 64, 4);
        assert_eq!(local.load(&at(64), 4, 0b111), value(0b001));
        local.store(&at(16), 4, 0b001, None);
        assert_eq!(local.load(&at(16), 4, 0b111), value(0b010));
        local.exit(0b011);
        assert!(local.is_empty());
    }
}
