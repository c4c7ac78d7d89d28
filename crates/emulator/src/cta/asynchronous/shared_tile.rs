//! Rows of a copy in shared memory, swizzled as by its tensor map.

use std::ops::Range;

use warpwright_arch::tensor_map::Swizzle;

/// The host's bytes of a tile in shared memory at an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedTile {
    host: *mut u8,
    /// The address of its first byte, of which the swizzle exchanges bits.
    start: u32,
    pitch: u32,
    swizzle: Swizzle,
}

impl SharedTile {
    /// The tile at `start`, of which `host` are the bytes.
    pub(super) fn new(host: *mut u8, start: u32, pitch: u32, swizzle: Swizzle) -> Self {
        Self { host, start, pitch, swizzle }
    }

    /// Visits the pieces of a part of a row: how far into the part each begins, its host bytes, and
    /// its length.
    #[inline(always)]
    fn for_pieces(&self, row: u32, part: Range<u32>, mut visit: impl FnMut(usize, *mut u8, usize)) {
        let first = self.start + row * self.pitch;
        if self.swizzle == Swizzle::None {
            let host = self.host.wrapping_add((first - self.start + part.start) as usize);
            return visit(0, host, part.len());
        }
        // Swaps 8-byte halves of 16 bytes.
        let piece = if self.swizzle == Swizzle::Bytes128Atom32Flip8 { 8 } else { 16 };
        let mut at = part.start;
        while at < part.end {
            let end = (at + piece - (first + at) % piece).min(part.end);
            let host = self.host.wrapping_add((self.swizzle.apply(first + at) - self.start) as usize);
            visit((at - part.start) as usize, host, (end - at) as usize);
            at = end;
        }
    }

    /// Writes a part of a row.
    ///
    /// # Safety
    /// The tile's rows are inside memory that may be written, and `data` points to as many bytes as
    /// the part has.
    #[inline(always)]
    pub(super) unsafe fn put(&self, row: u32, part: Range<u32>, data: *const u8) {
        self.for_pieces(row, part, |offset, host, length| {
            let data = data.wrapping_add(offset);
            // SAFETY: the caller's promise; a swizzle stays inside the rows' pitch.
            unsafe {
                if length == 16 {
                    host.cast::<u128>().write_unaligned(data.cast::<u128>().read_unaligned());
                } else {
                    host.copy_from_nonoverlapping(data, length);
                }
            }
        });
    }

    /// Reads a part of a row.
    ///
    /// # Safety
    /// The tile's rows are inside memory, and `data` points to as many bytes as the part has.
    #[inline(always)]
    pub(super) unsafe fn get(&self, row: u32, part: Range<u32>, data: *mut u8) {
        self.for_pieces(row, part, |offset, host, length| {
            // SAFETY: the caller's promise; a swizzle stays inside the rows' pitch.
            unsafe { data.wrapping_add(offset).copy_from_nonoverlapping(host, length) };
        });
    }

    /// Fills a part of a row with a value of two bytes.
    ///
    /// # Safety
    /// As [`put`](Self::put).
    pub(super) unsafe fn fill(&self, row: u32, part: Range<u32>, value: [u8; 2]) {
        self.for_pieces(row, part, |_, host, length| {
            for byte in 0..length {
                // SAFETY: the caller's promise. A fill that is not zeros is of whole half words.
                unsafe { host.wrapping_add(byte).write(value[byte % 2]) };
            }
        });
    }
}
