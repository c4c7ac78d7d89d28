//! Columns of B that count as zeros, whatever shared memory has (PTX ISA, "Zero-Column Mask
//! Descriptor").
//!
//! ```text
//! bits    0-31        32-35             39        40-47            48-55            56-61
//!         4 starts    4 first spans     any       zeros - 1        columns - 1      shift
//! ```
//!
//! Columns that are used and zeros alternate. D of 64 rows has two sub-masks, and D of 32 rows four, each
//! with its start and whether it begins with zeros. The ISA's table and its examples name the two
//! lengths the other way round; the examples hold here.

/// The mask of an MMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnMask {
    bits: u64,
}

/// Bits 36 to 38, 62 and 63.
const RESERVED: u64 = 0b11 << 62 | 0b111 << 36;

impl ColumnMask {
    /// The mask of a descriptor. Returns why it is not supported.
    pub(crate) fn new(bits: u64) -> Result<Self, String> {
        let mask = Self { bits };
        match mask.field(56, 6) {
            _ if bits & RESERVED != 0 => Err(format!("{bits:#x} has reserved bits")),
            0 => Ok(mask),
            shift => Err(format!("the emulator does not shift columns, and bits 56 to 61 are {shift}")),
        }
    }

    fn field(self, first: usize, count: usize) -> usize {
        (self.bits >> first & ((1 << count) - 1)) as usize
    }

    /// Whether `column` of B counts as zeros, where D is (rows, columns).
    pub(crate) fn is_zero(self, column: usize, (rows, columns): (usize, usize)) -> bool {
        if self.field(39, 1) == 0 {
            return false;
        }
        let columns_of_part = columns * rows / 128;
        let (part, within) = (column / columns_of_part, column % columns_of_part);
        let (zeros, used) = (self.field(40, 8) + 1, self.field(48, 8) + 1);
        let at = (within + self.field(8 * part, 8)) % (zeros + used);
        if self.field(32 + part, 1) == 1 { at < zeros } else { at >= used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of a mask, column 0 last.
    fn part(bits: u64, rows: usize, part: usize, count: usize) -> String {
        let mask = ColumnMask::new(bits).expect("it is supported");
        let first = part * rows;
        let digit = |column: usize| if mask.is_zero(first + column, (rows, 128)) { '1' } else { '0' };
        (0..count).rev().map(digit).collect()
    }

    /// Those of the ISA, without the shift of the last one.
    #[test]
    fn masks_are_those_of_the_examples() {
        let spans = 1 << 39 | 2 << 40 | 3 << 48;
        assert_eq!(part(4 << 40 | 3 << 48, 128, 0, 14), "00000000000000");
        assert_eq!(part(spans, 128, 0, 14), "11100001110000");
        let first = 1 << 32;
        assert_eq!(part(spans | first, 64, 0, 17), "11100001110000111");
        assert_eq!(part(spans | first, 64, 1, 18), "000011100001110000");
        let starts = 0b11 << 32 | 1 << 24 | 2 << 16 | 1 << 8;
        let expected = ["00001110000111", "0000111000011", "111000011100", "1110000111000"];
        for (number, digits) in expected.into_iter().enumerate() {
            assert_eq!(part(spans | starts, 32, number, digits.len()), digits);
        }
    }
}
