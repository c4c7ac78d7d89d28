//! The digits of a key.

use warpwright::prelude::*;

use super::super::direction::Direction;
use super::super::key::SortKey;

/// Values of a digit, which is a byte.
pub(crate) const BINS: u32 = 256;

/// The number of an ordered key in the order of a sort.
pub fn in_direction<K: SortKey>(ordered: Reg<K::Bits>, direction: Direction) -> Reg<K::Bits> {
    match direction {
        Direction::Ascending => ordered,
        Direction::Descending => K::reversed(ordered),
    }
}
