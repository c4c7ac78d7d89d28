//! Which bytes of global memory have been written since they were allocated, for the checkers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a granule of memory.
pub const GRANULE: u64 = 16;
/// Bytes of a page of granules.
pub const PAGE: u64 = 4096;
/// A bit a byte.
type PageBits = [u16; (PAGE / GRANULE) as usize];

/// The bytes that have been written, of allocations made since it began to keep count; an eighth of
/// their size. All others count as written.
#[derive(Debug, Default)]
pub struct InitializedBytes {
    keeps: AtomicBool,
    pages: Mutex<HashMap<u64, Box<PageBits>>>,
}

impl InitializedBytes {
    /// Tracks memory that is allocated from now on.
    pub fn begin(&self) {
        self.keeps.store(true, Ordering::Relaxed);
    }

    fn keeps(&self) -> bool {
        self.keeps.load(Ordering::Relaxed)
    }

    fn pages(&self) -> MutexGuard<'_, HashMap<u64, Box<PageBits>>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the bits of a range, page by page.
    fn change(&self, first: u64, bytes: u64, act: impl Fn(&mut u16, u16), is_new: bool) {
        if !self.keeps() || bytes == 0 {
            return;
        }
        let mut pages = self.pages();
        let end = first + bytes;
        for number in first / PAGE..=(end - 1) / PAGE {
            let page = match pages.get_mut(&number) {
                Some(page) => page,
                None if is_new => pages.entry(number).or_insert_with(|| Box::new([u16::MAX; 256])),
                None => continue,
            };
            let start = number * PAGE;
            let (from, to) = (first.max(start) - start, end.min(start + PAGE) - start);
            for granule in from / 16..=(to - 1) / 16 {
                let low = from.max(granule * 16) - granule * 16;
                let high = to.min(granule * 16 + 16) - granule * 16;
                act(&mut page[granule as usize], ((1u32 << high) - (1u32 << low)) as u16);
            }
        }
    }

    /// A range is allocated.
    pub fn allocate(&self, first: u64, bytes: u64) {
        self.change(first, bytes, |bits, mask| *bits &= !mask, true);
    }

    /// The host writes a range.
    pub fn write(&self, first: u64, bytes: u64) {
        self.change(first, bytes, |bits, mask| *bits |= mask, false);
    }

    /// Bytes are copied: those that nothing has written stay so.
    pub fn copy(&self, from: u64, to: u64, bytes: u64) {
        let unwritten = self.unwritten(from, bytes);
        self.write(to, bytes);
        for range in unwritten {
            let first = to + (range.start - from);
            self.change(first, range.end - range.start, |bits, mask| *bits &= !mask, false);
        }
    }

    /// The runs of bytes of a range that have not been written, in order.
    pub fn unwritten(&self, first: u64, bytes: u64) -> Vec<Range<u64>> {
        let range = first..first + bytes;
        if !self.keeps() || range.is_empty() {
            return Vec::new();
        }
        let pages = self.pages();
        let numbers = first / PAGE..=(range.end - 1) / PAGE;
        let of_page =
            |number: u64| Some((number * PAGE..).step_by(GRANULE as usize).zip(pages.get(&number)?.iter()));
        unwritten_runs(&range, numbers.filter_map(of_page).flatten().map(|(address, bits)| (address, *bits)))
    }

    /// The bits of a page of which any byte has not been written.
    pub fn load(&self, number: u64) -> Option<PageBits> {
        if self.keeps() { self.pages().get(&number).map(|page| **page) } else { None }
    }

    /// The change of a page during a launch.
    pub fn store(&self, number: u64, bits: impl Iterator<Item = u16>) {
        if let Some(page) = self.pages().get_mut(&number) {
            page.iter_mut().zip(bits).for_each(|(held, bits)| *held |= bits);
        }
    }
}

/// The runs of bytes of a range that are not written, of granules with the bits of their written bytes,
/// in order.
pub fn unwritten_runs(range: &Range<u64>, granules: impl Iterator<Item = (u64, u16)>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    let mut add = |new: Range<u64>| match runs.last_mut() {
        Some(run) if run.end == new.start => run.end = new.end,
        _ => runs.push(new),
    };
    for (granule, bits) in granules.filter(|(_, bits)| *bits != u16::MAX) {
        let bytes = range.start.max(granule)..range.end.min(granule + GRANULE);
        match bits {
            0 if !bytes.is_empty() => add(bytes),
            _ => bytes.filter(|byte| bits >> (byte - granule) & 1 == 0).for_each(|byte| add(byte..byte + 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_initialized_one_by_one() {
        let bytes = InitializedBytes::default();
        bytes.allocate(0, 100);
        assert_eq!(bytes.load(0), None, "nothing is counted before it begins");
        bytes.begin();
        bytes.allocate(PAGE - 24, 40);
        bytes.write(PAGE - 20, 23);
        let (first, second) = (bytes.load(0).unwrap(), bytes.load(1).unwrap());
        assert_eq!((first[253], first[254], first[255]), (u16::MAX, 0xf0ff, u16::MAX));
        assert_eq!((second[0], second[1]), (0b111, u16::MAX));
        assert_eq!(bytes.load(2), None);
        assert_eq!(bytes.unwritten(0, 3 * PAGE), [PAGE - 24..PAGE - 20, PAGE + 3..PAGE + 16]);
        assert_eq!(bytes.unwritten(PAGE, 10).first(), Some(&(PAGE + 3..PAGE + 10)));
    }

    #[test]
    fn a_copy_of_unwritten_bytes_writes_nothing() {
        let bytes = InitializedBytes::default();
        bytes.begin();
        bytes.allocate(0, 64);
        bytes.allocate(PAGE, 64);
        bytes.write(PAGE, 64);
        bytes.write(8, 16);
        bytes.copy(0, PAGE + 4, 32);
        assert_eq!(bytes.unwritten(PAGE, 64), [PAGE + 4..PAGE + 12, PAGE + 28..PAGE + 36]);
        bytes.copy(2 * PAGE, PAGE, 64);
        assert_eq!(bytes.unwritten(PAGE, 64), [], "what is not tracked counts as written");
    }
}
