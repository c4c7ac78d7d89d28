//! The swizzles through which shared memory is written and read.
//!
//! An element that is written under one swizzle is at another address under another. Memory that is
//! read through a swizzle must therefore be written through it. Memory may be used again: what
//! counts is that some write has the swizzle of each read.

use rustc_hash::FxHashMap;
use warpwright_ir::{DYNAMIC_SHARED, Location, Register};

use super::Recorder;
use super::state::View;

impl Recorder {
    /// The array that the address in a register is in.
    fn array_of(&self, base: Register) -> Option<Register> {
        if self.allocations.contains_key(&base) {
            return Some(base);
        }
        self.views.origins.get(&base).copied()
    }

    /// Notes that an address was computed from another, in the same array.
    pub(crate) fn note_derived_address(&mut self, address: Register, from: Register) {
        if let Some(array) = self.array_of(from).filter(|array| *array != address) {
            self.views.origins.insert(address, array);
        }
    }

    /// Notes an access to shared memory, or an address of it, that has no known swizzle.
    pub(crate) fn note_plain_access(&mut self, base: Register) {
        match self.array_of(base) {
            Some(array) => {
                self.views.plain.insert(array);
            }
            None => self.views.is_unknown = true,
        }
    }

    /// Notes that shared memory is read or written through a swizzle.
    pub(crate) fn note_view(&mut self, base: Register, view: View, location: Location) {
        let Some(array) = self.array_of(base) else {
            self.views.is_unknown |= view.is_write;
            return;
        };
        // The bytes of a view count from the array's base register.
        let view = if array == base { view } else { View { bytes: None, ..view } };
        let views = self.views.by_allocation.entry(array).or_default();
        if views.iter().all(|(known, _)| *known != view) {
            views.push((view, location));
        }
    }

    /// Refuses reads of what was written through other swizzles only.
    pub(super) fn check_views(&mut self) {
        if self.views.is_unknown {
            return;
        }
        let views = std::mem::take(&mut self.views);
        let mut mistakes = Vec::new();
        for (array, views) in views.by_allocation.iter().filter(|(array, _)| !views.plain.contains(array)) {
            for (read, location) in views.iter().filter(|(view, _)| !view.is_write) {
                let written = || views.iter().filter(|(view, _)| view.is_write && view.overlaps(read));
                if written().any(|(view, _)| view.agrees(read)) {
                    continue;
                }
                let Some((other, there)) = written().next() else { continue };
                let call = self.allocations.get(array).map_or("", |array| array.call.as_ref());
                let message = format!(
                    "this reads `{call}` {}, and it is written {}: its elements are at other addresses; use one swizzle for both",
                    read.described(),
                    other.described()
                );
                mistakes.push((*location, message, *there));
            }
        }
        mistakes.sort();
        for (location, message, there) in mistakes {
            self.error_with_notes(location, message, vec![(there, "it is written here".to_owned())]);
        }
        self.check_starts(&views.by_allocation);
    }

    /// Refuses tensors whose swizzle counts from another address than the hardware's. TMA and matrix
    /// descriptors permute by bits of the address (measured on an H200), and so agree with each other at
    /// every start; a tensor's swizzle counts from its first byte, and agrees where that is a multiple of
    /// the swizzle's period.
    fn check_starts(&mut self, by_allocation: &FxHashMap<Register, Vec<(View, Location)>>) {
        let mut mistakes = Vec::new();
        for (array, views) in by_allocation {
            for (view, location) in views.iter().filter(|(view, _)| !view.by_address) {
                let period = view.period();
                let is_aligned = self.alignment(*array) >= period
                    && view.bytes.as_ref().is_none_or(|bytes| bytes.start % period == 0);
                let by_hardware = |(other, _): &&(View, Location)| {
                    other.by_address && other.overlaps(view) && other.swizzle == view.swizzle
                };
                let Some((_, there)) = views.iter().find(by_hardware).filter(|_| !is_aligned) else {
                    continue;
                };
                let call = self.allocations.get(array).map_or("", |array| array.call.as_ref());
                let message = format!(
                    "this accesses `{call}` {}, counted from the tile's first byte, and the hardware counts from a multiple of \
                     {period}: begin the tile at one, in memory of `dynamic_shared_aligned(elements, {period})`",
                    view.described()
                );
                mistakes.push((*location, message, *there));
            }
        }
        mistakes.sort();
        for (location, message, there) in mistakes {
            self.error_with_notes(
                location,
                message,
                vec![(there, "the hardware accesses it here".to_owned())],
            );
        }
    }

    /// What the address of an array is a multiple of; the bytes of views count from there.
    fn alignment(&self, array: Register) -> i64 {
        let symbol = self.symbol_in(array).filter(|symbol| *symbol != DYNAMIC_SHARED);
        let variable =
            symbol.and_then(|symbol| self.kernel.shared.iter().find(|variable| variable.name == symbol));
        // Dynamic shared memory begins where the window does.
        variable.map_or(i64::MAX, |variable| variable.align.into())
    }
}
