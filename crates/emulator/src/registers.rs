//! A warp's registers: one column of 32 lanes for each virtual register.
//!
//! Registers of up to 32 bits are in columns of words, 64-bit ones in columns of longs (a 128-bit
//! register is two adjacent longs), predicates in one bit per lane. The bits of a column above a
//! narrow register's width are unspecified, so every reader takes only the bits of its own type.
//!
//! Functions own windows of the three files. Lanes in different calls may have overlapping windows,
//! because a lane only accesses its own element of a column.

use warpwright_events::{FULL, LANES};

/// A register's index in its file, relative to the base of the running function.
pub(crate) type Slot = u32;

/// One register of all lanes.
#[derive(Clone, Copy, Debug, Hash)]
#[repr(C, align(64))]
pub(crate) struct Column<T>(pub(crate) [T; LANES]);

/// The start of a function's windows in the register files and in local memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FrameBase {
    pub(crate) words: u32,
    pub(crate) longs: u32,
    pub(crate) predicates: u32,
    pub(crate) local: u32,
}

impl FrameBase {
    /// The base of a frame that follows one of `size`.
    pub(crate) fn after(self, size: FrameBase) -> Self {
        Self {
            words: self.words + size.words,
            longs: self.longs + size.longs,
            predicates: self.predicates + size.predicates,
            local: self.local + size.local,
        }
    }
}

/// The register files of one warp, seen from the running function.
#[derive(Debug, Default, Hash)]
pub(crate) struct Registers {
    words: Vec<Column<u32>>,
    longs: Vec<Column<u64>>,
    predicates: Vec<u32>,
    base: FrameBase,
}

impl Registers {
    /// Makes the frame at `base` the current one, with room for `size`.
    pub(crate) fn enter(&mut self, base: FrameBase, size: FrameBase) {
        let end = base.after(size);
        grow(&mut self.words, end.words, Column([0; LANES]));
        grow(&mut self.longs, end.longs, Column([0; LANES]));
        grow(&mut self.predicates, end.predicates, 0);
        self.base = base;
    }

    /// Makes a frame that was entered before the current one again.
    pub(crate) fn set_base(&mut self, base: FrameBase) {
        self.base = base;
    }

    /// The current frame.
    pub(crate) fn base(&self) -> FrameBase {
        self.base
    }

    #[inline(always)]
    pub(crate) fn word(&self, slot: Slot) -> &[u32; LANES] {
        &self.words[(self.base.words + slot) as usize].0
    }

    #[inline(always)]
    pub(crate) fn word_mut(&mut self, slot: Slot) -> &mut [u32; LANES] {
        &mut self.words[(self.base.words + slot) as usize].0
    }

    #[inline(always)]
    pub(crate) fn long(&self, slot: Slot) -> &[u64; LANES] {
        &self.longs[(self.base.longs + slot) as usize].0
    }

    #[inline(always)]
    pub(crate) fn long_mut(&mut self, slot: Slot) -> &mut [u64; LANES] {
        &mut self.longs[(self.base.longs + slot) as usize].0
    }

    #[inline(always)]
    pub(crate) fn predicate(&self, slot: Slot) -> u32 {
        self.predicates[(self.base.predicates + slot) as usize]
    }

    /// Writes the bits of `mask`, leaving the other lanes' as they are.
    #[inline(always)]
    pub(crate) fn set_predicate(&mut self, slot: Slot, mask: u32, bits: u32) {
        let held = &mut self.predicates[(self.base.predicates + slot) as usize];
        *held = (*held & !mask) | (bits & mask);
    }
}

fn grow<T: Copy>(file: &mut Vec<T>, length: u32, value: T) {
    if file.len() < length as usize {
        file.resize(length as usize, value);
    }
}

/// An element of a column.
pub(crate) trait Stored: Copy {
    /// `new` where `bit` is one, `old` where it is zero; without a branch, so that a loop of it
    /// vectorizes.
    fn choose(bit: u32, new: Self, old: Self) -> Self;
}

impl Stored for u32 {
    #[inline(always)]
    fn choose(bit: u32, new: Self, old: Self) -> Self {
        let all = bit.wrapping_neg();
        (new & all) | (old & !all)
    }
}

impl Stored for u64 {
    #[inline(always)]
    fn choose(bit: u32, new: Self, old: Self) -> Self {
        let all = u64::from(bit).wrapping_neg();
        (new & all) | (old & !all)
    }
}

/// Writes `values` into the lanes of `mask`.
#[inline(always)]
pub(crate) fn blend<T: Stored>(column: &mut [T; LANES], mask: u32, values: [T; LANES]) {
    if mask == FULL {
        *column = values;
    } else {
        for lane in 0..LANES {
            column[lane] = T::choose(mask >> lane & 1, values[lane], column[lane]);
        }
    }
}

/// A type that instructions read from and write to registers.
pub(crate) trait Lane: Copy + Default + 'static {
    /// All lanes of a register.
    fn read(registers: &Registers, slot: Slot) -> [Self; LANES];
    /// Writes the lanes of `mask`.
    fn write(registers: &mut Registers, slot: Slot, mask: u32, values: [Self; LANES]);
}

macro_rules! lane {
    ($($ty:ty, $read:ident, $write:ident, |$stored:ident| $from:expr, |$value:ident| $into:expr;)*) => {$(
        impl Lane for $ty {
            #[inline(always)]
            fn read(registers: &Registers, slot: Slot) -> [Self; LANES] {
                let column = registers.$read(slot);
                let mut values = [<$ty>::default(); LANES];
                for lane in 0..LANES {
                    let $stored = column[lane];
                    values[lane] = $from;
                }
                values
            }

            #[inline(always)]
            fn write(registers: &mut Registers, slot: Slot, mask: u32, values: [Self; LANES]) {
                let mut stored = [Default::default(); LANES];
                for lane in 0..LANES {
                    let $value = values[lane];
                    stored[lane] = $into;
                }
                blend(registers.$write(slot), mask, stored);
            }
        }
    )*};
}

lane! {
    u8, word, word_mut, |stored| stored as u8, |value| u32::from(value);
    i8, word, word_mut, |stored| stored as i8, |value| value as u32;
    u16, word, word_mut, |stored| stored as u16, |value| u32::from(value);
    i16, word, word_mut, |stored| stored as i16, |value| value as u32;
    u32, word, word_mut, |stored| stored, |value| value;
    i32, word, word_mut, |stored| stored as i32, |value| value as u32;
    f32, word, word_mut, |stored| f32::from_bits(stored), |value| value.to_bits();
    u64, long, long_mut, |stored| stored, |value| value;
    i64, long, long_mut, |stored| stored as i64, |value| value as u64;
    f64, long, long_mut, |stored| f64::from_bits(stored), |value| value.to_bits();
}

impl Lane for bool {
    #[inline(always)]
    fn read(registers: &Registers, slot: Slot) -> [Self; LANES] {
        let bits = registers.predicate(slot);
        let mut values = [false; LANES];
        for lane in 0..LANES {
            values[lane] = bits >> lane & 1 != 0;
        }
        values
    }

    #[inline(always)]
    fn write(registers: &mut Registers, slot: Slot, mask: u32, values: [Self; LANES]) {
        let mut bits = 0;
        for lane in 0..LANES {
            bits |= u32::from(values[lane]) << lane;
        }
        registers.set_predicate(slot, mask, bits);
    }
}

impl Lane for u128 {
    #[inline(always)]
    fn read(registers: &Registers, slot: Slot) -> [Self; LANES] {
        let (low, high) = (registers.long(slot), registers.long(slot + 1));
        std::array::from_fn(|lane| u128::from(low[lane]) | u128::from(high[lane]) << 64)
    }

    #[inline(always)]
    fn write(registers: &mut Registers, slot: Slot, mask: u32, values: [Self; LANES]) {
        blend(registers.long_mut(slot), mask, values.map(|value| value as u64));
        blend(registers.long_mut(slot + 1), mask, values.map(|value| (value >> 64) as u64));
    }
}
