//! Small numbers in every element type, and bits put where a layout says.

use warpwright_arch::DataType;
use warpwright_layout::Layout;

/// Four values that every element type can hold, near enough: their bits, and what they are.
fn codes(element: DataType) -> [(u64, i64); 4] {
    use DataType::*;
    let values = match element {
        U8 | U4 => [0, 1, 2, 3],
        B1 => [0, 1, 1, 0],
        _ => [0, 1, 2, -1],
    };
    let bits = match element {
        F16 => [0, 0x3c00, 0x4000, 0xbc00],
        Bf16 => [0, 0x3f80, 0x4000, 0xbf80],
        Tf32 | F32 => [0, 0x3f80_0000, 0x4000_0000, 0xbf80_0000],
        F64 => [0, 1f64.to_bits(), 2f64.to_bits(), (-1f64).to_bits()],
        E4m3 => [0, 0x38, 0x40, 0xb8],
        E5m2 => [0, 0x3c, 0x40, 0xbc],
        S8 => [0, 1, 2, 0xff],
        S4 => [0, 1, 2, 0xf],
        S32 => [0, 1, 2, 0xffff_ffff],
        U8 | U4 => [0, 1, 2, 3],
        B1 => [0, 1, 1, 0],
        other => panic!("no MMA of sm_90 takes {other}"),
    };
    std::array::from_fn(|at| (bits[at], values[at]))
}

/// A matrix of small numbers, the same for the same seed.
pub(crate) struct Matrix {
    seed: u64,
    element: DataType,
}

impl Matrix {
    pub(crate) fn new(element: DataType, seed: u64) -> Matrix {
        Matrix { seed, element }
    }

    fn code(&self, row: i64, column: i64) -> (u64, i64) {
        let mixed = (self.seed << 40 | (row as u64) << 20 | column as u64).wrapping_add(1);
        let mixed = (mixed ^ mixed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        codes(self.element)[(mixed >> 61) as usize % 4]
    }

    pub(crate) fn bits(&self, row: i64, column: i64) -> u64 {
        self.code(row, column).0
    }

    pub(crate) fn value(&self, row: i64, column: i64) -> i64 {
        self.code(row, column).1
    }
}

/// The bits of a whole number in an accumulator's type.
pub(crate) fn accumulator_bits(element: DataType, value: i64) -> u64 {
    match element {
        DataType::F16 => u64::from(half::f16::from_f64(value as f64).to_bits()),
        DataType::F32 => u64::from((value as f32).to_bits()),
        DataType::F64 => (value as f64).to_bits(),
        DataType::S32 => u64::from(value as i32 as u32),
        other => panic!("{other} is no accumulator"),
    }
}

/// Puts the low `width` bits of `bits` at bit `at` of `bytes`.
pub(crate) fn put(bytes: &mut [u8], at: usize, width: usize, bits: u64) {
    if width >= 8 {
        bytes[at / 8..][..width / 8].copy_from_slice(&bits.to_le_bytes()[..width / 8]);
    } else {
        let mask = ((1u8 << width) - 1) << (at % 8);
        bytes[at / 8] = bytes[at / 8] & !mask | (bits as u8) << (at % 8) & mask;
    }
}

/// The extent of a mode.
pub(crate) fn extent(layout: &Layout, mode: usize) -> usize {
    layout.mode(mode).and_then(|mode| mode.known_size("an atom")).expect("atoms are known") as usize
}

/// Every (thread, value, place in the tile) of a thread-value layout.
pub(crate) fn places(layout: &Layout) -> Vec<(usize, usize, i64)> {
    let threads = extent(layout, 0);
    let offsets = layout.offsets().expect("atoms are known");
    offsets.into_iter().enumerate().map(|(at, place)| (at % threads, at / threads, place)).collect()
}
