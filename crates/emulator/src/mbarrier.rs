//! The mbarrier object (PTX ISA, "mbarrier"): 64 bits of shared memory, whose layout is the emulator's own.
//!
//! | bits | what |
//! |---|---|
//! | 0-19 | arrivals the phase still waits for |
//! | 20-39 | arrivals of every phase |
//! | 40-60 | bytes the phase still waits for, in two's complement |
//! | 61-62 | 01 where the object is initialised: poison and zeros are not |
//! | 63 | the parity of the phase |

/// The most arrivals a phase can wait for.
pub(crate) const MOST_ARRIVALS: u32 = (1 << 20) - 1;
const ARRIVALS: u64 = (1 << 20) - 1;
const BYTES: u64 = (1 << 21) - 1;

/// An initialised mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mbarrier {
    pub(crate) pending: u32,
    pub(crate) expected: u32,
    /// Bytes of asynchronous copies still to come.
    pub(crate) bytes: i32,
    pub(crate) parity: bool,
}

impl Mbarrier {
    pub(crate) fn new(count: u32) -> Self {
        Self { pending: count, expected: count, bytes: 0, parity: false }
    }

    /// What the bits of memory hold, if they are an initialised object.
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

    /// Counts arrivals; `None` if the phase does not wait for so many.
    pub(crate) fn arrive(self, count: u32) -> Option<Self> {
        Some(Self { pending: self.pending.checked_sub(count)?, ..self }.settled())
    }

    /// Counts an arrival of a thread that takes part in no later phase.
    pub(crate) fn arrive_and_drop(self, count: u32) -> Option<Self> {
        Self { expected: self.expected.checked_sub(count)?, ..self }.arrive(count)
    }

    /// Ends the phase if it waits for nothing more.
    fn settled(self) -> Self {
        if self.pending == 0 && self.bytes == 0 {
            Self { pending: self.expected, parity: !self.parity, ..self }
        } else {
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_hold_the_whole_object() {
        for bytes in [0, 1, -1, 1_048_575, -1_048_575] {
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
}
