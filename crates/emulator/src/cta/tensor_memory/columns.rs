//! The allocation of a CTA's tensor-memory columns (PTX ISA, "tcgen05.alloc").

use warpwright_arch::limits;
use warpwright_events::TENSOR_COLUMNS;

/// The alignment of an allocation, and its minimum number of columns.
const UNIT: u32 = limits::TENSOR_MEMORY_MIN_COLUMNS;

/// Columns that are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub(crate) first: u32,
    pub(crate) columns: u32,
}

/// The allocations of a CTA.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// In order.
    allocations: Vec<Allocation>,
    /// The instruction that relinquished the CTA's allocation permit.
    pub(crate) relinquished: Option<u32>,
    /// The number of CTAs of the kernel's instructions, and the first instruction with it.
    pub(crate) group: Option<(u8, u32)>,
}

/// Whether this number of columns can be allocated.
pub(crate) fn is_legal(columns: u32) -> bool {
    columns.is_power_of_two() && (UNIT..=TENSOR_COLUMNS).contains(&columns)
}

impl Columns {
    /// The first columns that are free and enough.
    pub(super) fn allocate(&mut self, columns: u32) -> Option<u32> {
        let ends = self.allocations.iter().map(|held| held.first + held.columns);
        let mut starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
        starts.sort_unstable();
        let is_free = |&first: &u32| {
            let overlaps =
                |held: &Allocation| held.first < first + columns && first < held.first + held.columns;
            first + columns <= TENSOR_COLUMNS && !self.allocations.iter().any(overlaps)
        };
        let first = starts.into_iter().find(is_free)?;
        let place = self.allocations.partition_point(|held| held.first < first);
        self.allocations.insert(place, Allocation { first, columns });
        Some(first)
    }

    /// Frees an allocation, which must match. Returns whether it exists.
    pub(crate) fn free(&mut self, first: u32, columns: u32) -> bool {
        let held = self.allocations.iter().position(|held| (held.first, held.columns) == (first, columns));
        held.map(|held| self.allocations.remove(held)).is_some()
    }

    /// Whether all of these columns are allocated, by one allocation or several next to each other.
    pub(super) fn hold(&self, first: u32, columns: u32) -> bool {
        let mut covered = first;
        for held in &self.allocations {
            if held.first <= covered {
                covered = covered.max(held.first + held.columns);
            }
        }
        covered >= first + columns
    }

    /// Free columns.
    pub(crate) fn free_columns(&self) -> u32 {
        TENSOR_COLUMNS - self.allocations.iter().map(|held| held.columns).sum::<u32>()
    }

    /// `the CTA has columns 0 to 63`
    pub(crate) fn in_words(&self) -> String {
        let ranges: Vec<String> = self
            .allocations
            .iter()
            .map(|held| format!("{} to {}", held.first, held.first + held.columns - 1))
            .collect();
        match ranges.as_slice() {
            [] => "the CTA has no tensor-memory columns: `tcgen05.alloc` allocates them".to_owned(),
            ranges => format!("the CTA has columns {} of tensor memory", ranges.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_given_first_fit_and_taken_back_whole() {
        let mut columns = Columns::default();
        assert_eq!(columns.allocate(64), Some(0));
        assert_eq!(columns.allocate(128), Some(64));
        assert_eq!(columns.allocate(32), Some(192));
        assert!(columns.hold(32, 160) && !columns.hold(200, 32) && !columns.hold(300, 1));
        assert!(!columns.free(64, 64) && columns.free(64, 128));
        assert_eq!((columns.free_columns(), columns.allocate(256)), (416, Some(224)));
        assert_eq!(columns.allocate(128), Some(64));
        assert_eq!(columns.allocate(64), None, "32 are free");
    }

    #[test]
    fn numbers_of_columns_are_powers_of_two() {
        let legal: Vec<u32> = (0..1024).filter(|&columns| is_legal(columns)).collect();
        assert_eq!(legal, [32, 64, 128, 256, 512]);
    }
}
