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
//! lengths the other way round; the examples hold here. A start past the first span counts as its last
//! column, and a shift moves the columns of B that are used (TIRx-harness, `RawTcgenColumnMask`, which
//! was compared with a B200).

/// The mask of an MMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnMask {
    bits: u64,
}

/// Bits 36 to 38, 62 and 63.
const RESERVED: u64 = 0b11 << 62 | 0b111 << 36;

impl ColumnMask {
    /// The mask of a descriptor, for an MMA that shifts by up to `most` columns. Returns an error for
    /// invalid fields.
    pub(crate) fn new(bits: u64, most: usize) -> Result<Self, String> {
        let mask = Self { bits };
        match mask.shift() {
            _ if bits & RESERVED != 0 => Err(format!("{bits:#x} has reserved bits")),
            shift if shift > most => Err(format!(
                "it shifts by {shift} columns (bits 56 to 61), and bits 30 and 31 of the instruction descriptor \
                 permit {most}; 1, 2 and 3 in them permit 8, 16 and 32"
            )),
            _ => Ok(mask),
        }
    }

    /// Column 0 of the product is this column of B.
    pub(crate) fn shift(self) -> usize {
        self.field(56, 6)
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
        let zeros_first = self.field(32 + part, 1) == 1;
        let start = self.field(8 * part, 8).min(if zeros_first { zeros } else { used } - 1);
        let at = (within + start) % (zeros + used);
        if zeros_first { at < zeros } else { at >= used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of a mask, column 0 last.
    fn part(bits: u64, rows: usize, part: usize, count: usize) -> String {
        let mask = ColumnMask::new(bits, 32).expect("it is valid");
        let first = part * rows;
        let digit = |column: usize| if mask.is_zero(first + column, (rows, 128)) { '1' } else { '0' };
        (0..count).rev().map(digit).collect()
    }

    /// Those of the ISA.
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
        assert_eq!(part(spans | first | 255, 128, 0, 8), "11100001", "the start is in the first span");
    }

    #[test]
    fn shifts_have_a_limit() {
        assert_eq!(ColumnMask::new(8 << 56, 8).map(ColumnMask::shift), Ok(8));
        assert!(ColumnMask::new(9 << 56, 8).unwrap_err().contains("permit 8"));
        assert!(ColumnMask::new(1 << 36, 8).unwrap_err().contains("reserved"));
    }
}
