//! The mbarrier object (PTX ISA, "mbarrier"): 64 bits of shared memory, in a layout of the
//! emulator's own.
//!
//! | bits | contents |
//! |---|---|
//! | 0-19 | arrivals the phase still waits for |
//! | 20-39 | arrivals of every phase |
//! | 40-60 | bytes the phase still waits for (the tx-count), in two's complement |
//! | 61-62 | 01 if the object is initialized, unlike poison and zeros |
//! | 63 | the parity of the phase |
//!
//! A phase completes when it waits for no arrival and for no byte. Bytes may arrive before they are
//! expected: until then their count is negative, and the phase does not complete.

use std::collections::BTreeMap;

use warpwright_arch::limits::MBARRIER_MAX_COUNT;

/// The most arrivals a phase can wait for.
pub(crate) const MOST_ARRIVALS: u32 = MBARRIER_MAX_COUNT;
/// The most bytes a phase can wait for, or have too many of.
pub(crate) const MOST_BYTES: i32 = MBARRIER_MAX_COUNT as i32;
const ARRIVALS: u64 = MBARRIER_MAX_COUNT as u64;
const BYTES: u64 = (1 << 21) - 1;

/// An initialized mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mbarrier {
    pub(crate) pending: u32,
    pub(crate) expected: u32,
    /// Bytes still expected; negative if more arrived than were expected.
    pub(crate) bytes: i32,
    pub(crate) parity: bool,
}

impl Mbarrier {
    pub(crate) fn new(count: u32) -> Self {
        Self { pending: count, expected: count, bytes: 0, parity: false }
    }

    /// The object in these bits of memory, if it is initialized.
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        (bits >> 61 & 3 == 1).then_some(Self {
            pending: (bits & ARRIVALS) as u32,
            expected: (bits >> 20 & ARRIVALS) as u32,
            bytes: ((bits << 3) as i64 >> 43) as i32,
            parity: bits >> 63 != 0,
        })
    }

    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.pending)
            | u64::from(self.expected) << 20
            | (self.bytes as u64 & BYTES) << 40
            | 1 << 61
            | u64::from(self.parity) << 63
    }

    /// Counts arrivals; `None` if the phase expects fewer.
    pub(crate) fn arrive(self, count: u32) -> Option<Self> {
        Some(Self { pending: self.pending.checked_sub(count)?, ..self }.settled())
    }

    /// Counts arrivals of threads that take part in no later phase.
    pub(crate) fn arrive_and_drop(self, count: u32) -> Option<Self> {
        Self { expected: self.expected.checked_sub(count)?, ..self }.arrive(count)
    }

    /// Expects bytes (positive) or counts them as arrived (negative); `None` if the count
    /// overflows.
    pub(crate) fn expect(self, bytes: i32) -> Option<Self> {
        let bytes = self.bytes.checked_add(bytes)?;
        (bytes.abs() <= MOST_BYTES).then(|| Self { bytes, ..self }.settled())
    }

    /// Completes the phase if nothing is pending.
    fn settled(self) -> Self {
        if self.pending == 0 && self.bytes == 0 {
            Self { pending: self.expected, parity: !self.parity, ..self }
        } else {
            self
        }
    }
}

/// `1 arrival`, `64 arrivals`
pub(crate) fn arrivals(count: u32) -> String {
    if count == 1 { "1 arrival".to_owned() } else { format!("{count} arrivals") }
}

/// Arrivals of one warp by one instruction in the open phase of an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrivals {
    pub(crate) rank: u32,
    pub(crate) warp: u32,
    pub(crate) pc: u32,
    pub(crate) count: u32,
}

/// Who initialized an mbarrier, and for how many arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Initialization {
    pub(crate) pc: u32,
    pub(crate) count: u32,
}

/// The state of an initialized mbarrier besides its bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct MbarrierRecord {
    pub(crate) initialization: Initialization,
    /// Phases completed.
    pub(crate) phase: u64,
    /// The arrivals in the open phase, and in the previous one.
    pub(crate) arrivals: Vec<Arrivals>,
    pub(crate) arrivals_before: Vec<Arrivals>,
    /// Bytes expected and bytes arrived in the open phase.
    pub(crate) bytes_expected: u64,
    pub(crate) bytes_arrived: u64,
    /// The copies whose bytes have arrived in the open phase: the instruction that issued them, and
    /// the bytes of one.
    pub(crate) copies: Vec<(u32, u32)>,
    /// The phases that had ended when a warp's last wait returned.
    pub(crate) observed: Vec<Observed>,
}

/// The last wait of a warp at an mbarrier that returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) rank: u32,
    pub(crate) warp: u32,
    /// Phases completed then.
    pub(crate) phases: u64,
}

impl MbarrierRecord {
    /// Records a wait of a warp that returns.
    pub(crate) fn observe(&mut self, rank: u32, warp: u32) {
        let phases = self.phase;
        match self.observed.iter_mut().find(|known| (known.rank, known.warp) == (rank, warp)) {
            Some(known) => known.phases = phases,
            None => self.observed.push(Observed { rank, warp, phases }),
        }
    }

    /// Phases completed when a warp's last wait returned; `None` if none has.
    pub(crate) fn observed_by(&self, rank: u32, warp: u32) -> Option<u64> {
        let known = self.observed.iter().find(|known| (known.rank, known.warp) == (rank, warp));
        known.map(|known| known.phases)
    }
}

/// The mbarriers of a CTA that are initialized, by offset.
pub(crate) type MbarrierRecords = BTreeMap<u64, MbarrierRecord>;

/// An operation on an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Threads arrive, after expecting bytes.
    Arrive { count: u32, drop: bool, expect: u32 },
    /// Bytes are expected.
    Expect { bytes: u32 },
    /// Expected bytes have arrived.
    Complete { bytes: u32 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_hold_the_whole_object() {
        for bytes in [0, 1, -1, MOST_BYTES, -MOST_BYTES] {
            let barrier = Mbarrier { pending: 3, expected: MOST_ARRIVALS, bytes, parity: true };
            assert_eq!(Mbarrier::from_bits(barrier.to_bits()), Some(barrier));
        }
        assert_eq!(Mbarrier::from_bits(0), None);
        assert_eq!(Mbarrier::from_bits(u64::MAX), None);
    }

    #[test]
    fn phases_end_with_the_last_arrival() {
        let barrier = Mbarrier::new(2).arrive(1).unwrap();
        assert_eq!((barrier.pending, barrier.parity), (1, false));
        let barrier = barrier.arrive(1).unwrap();
        assert_eq!((barrier.pending, barrier.parity), (2, true));
        assert_eq!(barrier.arrive(3), None);
        let dropped = barrier.arrive_and_drop(1).unwrap().arrive(1).unwrap();
        assert_eq!((dropped.pending, dropped.expected, dropped.parity), (1, 1, false));
    }

    #[test]
    fn a_phase_needs_its_arrivals_and_its_bytes() {
        // In any order of the three, the phase ends with the last.
        let steps: [fn(Mbarrier) -> Mbarrier; 3] = [
            |barrier| barrier.arrive(1).unwrap(),
            |barrier| barrier.expect(48).unwrap(),
            |barrier| barrier.expect(-48).unwrap(),
        ];
        for order in [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 0, 1]] {
            let mut barrier = Mbarrier::new(1);
            // A single arrival with no expected bytes would complete the phase; a second one is
            // expected here.
            barrier.pending += u32::from(order[0] == 0);
            for step in order {
                assert!(!barrier.parity);
                barrier = steps[step](barrier);
            }
            if order[0] == 0 {
                assert!(!barrier.parity);
                barrier = barrier.arrive(1).unwrap();
            }
            assert!(barrier.parity && barrier.bytes == 0 && barrier.pending == 1, "{order:?}");
        }
        assert_eq!(Mbarrier::new(1).expect(MOST_BYTES + 1), None);
        assert_eq!(Mbarrier::new(1).expect(-MOST_BYTES).unwrap().expect(-1), None);
    }
}
