//! Views of shared memory.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use warpwright_ir::{Location, Register};
use warpwright_layout::Swizzle;

/// Shared memory, as a tensor or a tensor copy reads or writes it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// The bytes from the base register on; `None` if they are not known.
    pub(crate) bytes: Option<Range<i64>>,
    /// The swizzle of byte addresses.
    pub(crate) swizzle: Swizzle,
    /// Whether the hardware applies it, to the addresses themselves; else it counts from the view's first
    /// byte.
    pub(crate) by_address: bool,
    pub(crate) is_write: bool,
}

/// How a kernel accesses its shared memory.
#[derive(Default)]
pub(crate) struct Views {
    pub(crate) by_allocation: FxHashMap<Register, Vec<(View, Location)>>,
    /// The array that a computed address is in.
    pub(crate) origins: FxHashMap<Register, Register>,
    /// Arrays that are accessed by addresses of the author's own.
    pub(crate) plain: FxHashSet<Register>,
    /// Whether an access may be to any array.
    pub(crate) is_unknown: bool,
}

impl View {
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (&self.bytes, &other.bytes) {
            (Some(a), Some(b)) => a.start < b.end && b.start < a.end,
            _ => true,
        }
    }

    /// Whether both swizzles give each byte the same address. A bit that all addresses have clear
    /// changes none.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let length = |view: &Self| view.bytes.as_ref().map_or(i64::MAX, |bytes| bytes.end - bytes.start);
        let highest = length(self).min(length(other)) - 1;
        let bits = i64::BITS - highest.max(0).leading_zeros();
        let effective = |swizzle: Swizzle| {
            let sources = swizzle.source_mask() & ((1i128 << bits) - 1) as i64;
            (sources != 0).then(|| (sources, swizzle.shift()))
        };
        effective(self.swizzle) == effective(other.swizzle)
    }

    /// The bytes after which the swizzle repeats.
    pub(crate) fn period(&self) -> i64 {
        1 << (i64::BITS - self.swizzle.source_mask().leading_zeros())
    }

    /// The end of "it is read ..".
    pub(crate) fn described(&self) -> String {
        match (self.swizzle.bits(), self.swizzle.base(), self.swizzle.shift()) {
            (0, ..) => "without a swizzle".to_owned(),
            (bits @ 1..=3, 4, 3) => format!("under the swizzle of {} bytes", 16 << bits),
            _ => format!("under {} of byte addresses", self.swizzle),
        }
    }
}
