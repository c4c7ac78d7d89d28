//! The common properties of an access's 32 addresses, and its faults.

use warpwright_events::{FULL, LANES, lanes};

/// The extent and shape of the addresses of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The lowest address.
    pub(crate) first: u64,
    /// The highest address.
    pub(crate) last: u64,
    /// All addresses or'ed together: the low bits show whether all are aligned.
    pub(crate) bits: u64,
    /// Lane `i` is at `first + i * stride`, in all 32 lanes.
    pub(crate) contiguous: bool,
}

/// The span of the lanes of a mask, which is not empty.
#[inline(always)]
pub(crate) fn span(addresses: &[u64; LANES], mask: u32, stride: u64) -> Span {
    if mask == FULL {
        let start = addresses[0];
        let (mut first, mut last, mut bits, mut off) = (u64::MAX, 0, 0, 0);
        for lane in 0..LANES {
            let address = addresses[lane];
            first = first.min(address);
            last = last.max(address);
            bits |= address;
            off |= address ^ start.wrapping_add(lane as u64 * stride);
        }
        Span { first, last, bits, contiguous: off == 0 }
    } else {
        let mut span = Span { first: u64::MAX, last: 0, bits: 0, contiguous: false };
        for lane in lanes(mask) {
            span.first = span.first.min(addresses[lane]);
            span.last = span.last.max(addresses[lane]);
            span.bits |= addresses[lane];
        }
        span
    }
}

/// The address that the lanes of a mask have in common, if it is one.
#[inline(always)]
pub(crate) fn common_address(addresses: &[u64; LANES], mask: u32) -> Option<u64> {
    let first = addresses[mask.trailing_zeros() as usize & 31];
    let differing = (0..LANES).fold(0, |bits, lane| bits | u32::from(addresses[lane] != first) << lane);
    (differing & mask == 0).then_some(first)
}
