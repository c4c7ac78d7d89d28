//! The types of matrix elements.

use crate::numeric::format::Format;

/// What a matrix consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each variant is the PTX word of the same spelling
pub enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
}

/// Every type with its PTX word and its width in bits.
const ELEMENTS: [(Element, &str, u32); 13] = [
    (Element::F16, "f16", 16),
    (Element::Bf16, "bf16", 16),
    (Element::Tf32, "tf32", 32),
    (Element::F32, "f32", 32),
    (Element::F64, "f64", 64),
    (Element::E4m3, "e4m3", 8),
    (Element::E5m2, "e5m2", 8),
    (Element::S8, "s8", 8),
    (Element::U8, "u8", 8),
    (Element::S4, "s4", 4),
    (Element::U4, "u4", 4),
    (Element::B1, "b1", 1),
    (Element::S32, "s32", 32),
];

impl Element {
    /// The type of a PTX word without its dot: `bf16`.
    pub fn from_word(word: &str) -> Option<Element> {
        ELEMENTS.iter().find(|(_, name, _)| *name == word).map(|(element, ..)| *element)
    }

    /// The PTX word, without its dot.
    pub fn word(self) -> &'static str {
        ELEMENTS[self as usize].1
    }

    /// Bits of one element.
    pub fn bits(self) -> u32 {
        ELEMENTS[self as usize].2
    }

    /// The floating-point format, if it is one narrower than f64.
    #[inline(always)]
    pub fn format(self) -> Option<Format> {
        Some(match self {
            Element::F16 => Format::F16,
            Element::Bf16 => Format::BF16,
            Element::Tf32 => Format::TF32,
            Element::F32 => Format::F32,
            Element::E4m3 => Format::E4M3,
            Element::E5m2 => Format::E5M2,
            _ => return None,
        })
    }

    /// The value of a floating-point element. Of tf32 the low 13 bits are not looked at (measured on H200).
    #[inline(always)]
    pub fn float(self, bits: u64) -> f64 {
        match self {
            Element::F64 => f64::from_bits(bits),
            Element::Tf32 => f64::from(f32::from_bits(bits as u32 & 0xffff_e000)),
            Element::F32 => f64::from(f32::from_bits(bits as u32)),
            _ => self.format().map_or(0.0, |format| format.decode(bits as u32)),
        }
    }

    /// The value of an integer element; of b1, the 32 elements of a word as they are.
    #[inline(always)]
    pub fn integer(self, bits: u64) -> i32 {
        let bits = bits as i32;
        match self {
            Element::S8 => i32::from(bits as i8),
            Element::U8 => bits & 0xff,
            Element::S4 => bits << 28 >> 28,
            Element::U4 => bits & 0xf,
            _ => bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_variants() {
        for (index, (element, word, _)) in ELEMENTS.iter().enumerate() {
            assert_eq!(*element as usize, index);
            assert_eq!(Element::from_word(word), Some(*element));
        }
    }
}
