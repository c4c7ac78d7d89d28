//! Tensor maps in the hardware's 128 bytes, which programs also write themselves.
//!
//! What the driver's `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` write for 4,197
//! descriptions shows the layout (driver 580, H200), in words of 32 bits:
//!
//! | word | contents |
//! |---|---|
//! | 0, 1 | the tensor's address |
//! | 2 | bit 0: im2col; 4-6: rank less one; 7-10: element type; 11-12: interleave; 13-14: swizzle; 15: fill; 16: TensorFloat-32; 17-18: L2 promotion |
//! | 3-6 | strides of axes 1 to 4 in units of 16 bytes |
//! | 7 | four more bits of each of them |
//! | 8-12 | extents less one |
//! | 13 | element strides less one, 3 bits each; 24-31: box of axis 0, or channels, less one |
//! | 14 | boxes of axes 1 to 4 less one, 8 bits each; of im2col the lower and the upper corner, a half each |
//! | 15 | pixels of im2col less one |
//! | 16, 18 | what follows from the others |
//! | 17, 19-31 | zeros |
//!
//! Words 0 to 15 (`WORDS`) are all of it: CuTe DSL's host code writes no others, and leaves there what its stack
//! held.
//!
//! An H200 has no swizzle of pieces wider than 16 bytes: bits 19 and 20 of word 2, which say which
//! pieces are exchanged, are the emulator's own.

mod tile;

pub(crate) use tile::{Row, Start, Tensor};

use warpwright_arch::tensor_map::{
    Access, Description, ElementType, Fill, Interleave, L2Promotion, MAX_BOX_EXTENT, MOST_AXES, Swizzle,
    TENSOR_MAP_BYTES,
};

const ADDRESS: usize = 0;
const CHOICES: usize = 2;
const STRIDES: usize = 3;
const STRIDES_HIGH: usize = 7;
const EXTENTS: usize = 8;
const STEPS: usize = 13;
const BOX: usize = 14;
const PIXELS: usize = 15;
/// Where the box of axis 0 begins in the word of the element strides.
const FIRST_BOX: u32 = 24;
/// The words of a map.
const WORDS: usize = 16;
/// Bits that no encoder sets, by word. (CUTLASS sets bit 1 of word 2, and CuTe DSL bit 21 for stores.)
const UNUSED: [(usize, u32); 2] = [(CHOICES, !0 << 22 | 0b1100), (STEPS, 0x1ff << 15)];

/// The fields that are a code of few bits. Their values are those of `tensormap.replace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Element,
    /// Less one.
    Rank,
    Im2col,
    Interleave,
    Swizzle,
    /// Which pieces are exchanged.
    SwizzleAtomicity,
    L2Promotion,
    Fill,
}

impl Code {
    /// Its first bit in word 2, and its bits. That of the element type is not all of it.
    fn place(self) -> (u32, u32) {
        match self {
            Code::Im2col => (0, 1),
            Code::Rank => (4, 3),
            Code::Element => (7, 4),
            Code::Interleave => (11, 2),
            Code::Swizzle => (13, 2),
            Code::Fill => (15, 1),
            Code::L2Promotion => (17, 2),
            Code::SwizzleAtomicity => (19, 2),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Code::Im2col => "mode",
            Code::Rank => "rank, less one,",
            Code::Element => "element type",
            Code::Interleave => "interleave",
            Code::Swizzle => "swizzle",
            Code::Fill => "fill",
            Code::L2Promotion => "L2 promotion",
            Code::SwizzleAtomicity => "swizzle's atomicity",
        }
    }
}

/// TensorFloat-32 is a type of 32 bits with this bit of word 2.
const ROUNDS_TO_TF32: u32 = 16;

/// `tensormap.replace` numbers the element types in an order of its own. (PTX ISA,
/// "tensormap.replace".)
const ELEMENTS: [ElementType; 16] = {
    use ElementType::*;
    [U8, U16, U32, S32, U64, S64, F16, F32, F32Ftz, F64, Bf16, Tf32, Tf32Ftz, B4x16, B4x16P64, B6x16P32]
};
/// The numbers of the TensorFloat-32 types there, and those of the types whose bits they have.
const TF32: [(u32, u32); 2] = [(11, 7), (12, 8)];

/// Each swizzle's mode and atomicity.
const SWIZZLES: [(Swizzle, u32, u32); 7] = [
    (Swizzle::None, 0, 0),
    (Swizzle::Bytes32, 1, 0),
    (Swizzle::Bytes64, 2, 0),
    (Swizzle::Bytes128, 3, 0),
    (Swizzle::Bytes128Atom32, 3, 1),
    (Swizzle::Bytes128Atom32Flip8, 3, 2),
    (Swizzle::Bytes128Atom64, 3, 3),
];

/// An encoded tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Encoded(pub(crate) [u8; TENSOR_MAP_BYTES]);

/// The 128 bytes of a tensor map. The description must satisfy its [rules](Description::check).
pub fn encode(map: &Description) -> [u8; TENSOR_MAP_BYTES] {
    let mut encoded = Encoded([0; TENSOR_MAP_BYTES]);
    encoded.write(map).expect("a description that satisfies the rules fits its fields");
    encoded.0
}

impl Encoded {
    fn write(&mut self, map: &Description) -> Result<(), String> {
        self.set_address(map.address);
        self.set_code(Code::Rank, map.rank() as u64 - 1)?;
        for (axis, &extent) in map.extents.iter().enumerate() {
            self.set_extent(axis, extent as u32);
        }
        for (index, &stride) in map.strides.iter().enumerate() {
            self.set_stride(index, stride)?;
        }
        for (axis, &step) in map.element_strides.iter().enumerate() {
            self.set_element_stride(axis, step.into())?;
        }
        match &map.access {
            Access::Tiled { box_extents } => {
                for (axis, &extent) in box_extents.iter().enumerate() {
                    self.set_box(axis, extent.into())?;
                }
            }
            Access::Im2col { lower, upper, channels, pixels } => {
                self.set_code(Code::Im2col, 1)?;
                let bits = corner_bits(map.rank());
                for (start, corner) in [(0, lower), (16, upper)] {
                    for (index, &offset) in corner.iter().enumerate() {
                        self.set_bits(BOX, start + bits * index as u32, bits, offset as u32);
                    }
                }
                self.set_bits(STEPS, FIRST_BOX, 8, channels - 1);
                self.set_bits(PIXELS, 0, 32, pixels - 1);
            }
        }
        let position = |found: Option<usize>| found.expect("the lists have every value") as u64;
        let element = position(ELEMENTS.iter().position(|&it| it == map.element));
        self.set_code(Code::Element, element)?;
        let interleave = position(Interleave::ALL.iter().position(|&it| it == map.interleave));
        self.set_code(Code::Interleave, interleave)?;
        let swizzle = SWIZZLES[position(SWIZZLES.iter().position(|row| row.0 == map.swizzle)) as usize];
        self.set_code(Code::Swizzle, swizzle.1.into())?;
        self.set_code(Code::SwizzleAtomicity, swizzle.2.into())?;
        let promotion = position(L2Promotion::ALL.iter().position(|&it| it == map.l2_promotion));
        self.set_code(Code::L2Promotion, promotion)?;
        self.set_code(Code::Fill, u64::from(map.fill == Fill::Nan))
    }

    fn word(&self, index: usize) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|byte| self.0[4 * index + byte]))
    }

    fn bits(&self, word: usize, first: u32, bits: u32) -> u32 {
        self.word(word) >> first & u32::MAX >> (32 - bits)
    }

    /// Sets bits of a word to the lower ones of a value.
    fn set_bits(&mut self, word: usize, first: u32, bits: u32, value: u32) {
        let mask = u32::MAX >> (32 - bits) << first;
        let changed = self.word(word) & !mask | value << first & mask;
        self.0[4 * word..4 * word + 4].copy_from_slice(&changed.to_le_bytes());
    }

    /// Whether all bytes are zeros: a map of which every field has yet to be replaced.
    pub(crate) fn is_blank(&self) -> bool {
        self.0.iter().all(|&byte| byte == 0)
    }

    /// Whether the bytes may be a tensor map: what no encoder sets is zeros. With other bytes behind its
    /// words, it must be one that copies can use.
    pub(crate) fn is_map(&self) -> bool {
        let is_usable = || self.decode().is_ok_and(|map| map.check().is_ok());
        !self.is_blank()
            && UNUSED.iter().all(|&(word, bits)| self.word(word) & bits == 0)
            && (self.0[4 * WORDS..].iter().all(|&byte| byte == 0) || is_usable())
    }

    pub(crate) fn set_address(&mut self, address: u64) {
        self.set_bits(ADDRESS, 0, 32, address as u32);
        self.set_bits(ADDRESS + 1, 0, 32, (address >> 32) as u32);
    }

    /// Sets an extent, of which 0 is 2^32.
    pub(crate) fn set_extent(&mut self, axis: usize, extent: u32) {
        self.set_bits(EXTENTS + axis, 0, 32, extent.wrapping_sub(1));
    }

    /// Sets the stride of axis `index + 1`, in bytes.
    pub(crate) fn set_stride(&mut self, index: usize, stride: u64) -> Result<(), String> {
        if !stride.is_multiple_of(16) || stride >> 40 != 0 {
            return Err(format!(
                "a stride of {stride} bytes along axis {}; it must be a multiple of 16 below 2^40",
                index + 1
            ));
        }
        self.set_bits(STRIDES + index, 0, 32, (stride >> 4) as u32);
        self.set_bits(STRIDES_HIGH, 4 * index as u32, 4, (stride >> 36) as u32);
        Ok(())
    }

    pub(crate) fn set_box(&mut self, axis: usize, extent: u64) -> Result<(), String> {
        if !(1..=u64::from(MAX_BOX_EXTENT)).contains(&extent) {
            return Err(format!(
                "a box with an extent of {extent} along axis {axis}; it must be from 1 to {MAX_BOX_EXTENT}"
            ));
        }
        let (word, first) = box_place(axis);
        self.set_bits(word, first, 8, extent as u32 - 1);
        Ok(())
    }

    pub(crate) fn set_element_stride(&mut self, axis: usize, step: u64) -> Result<(), String> {
        if !(1..=8).contains(&step) {
            return Err(format!("an element stride of {step} along axis {axis}; it must be from 1 to 8"));
        }
        self.set_bits(STEPS, 3 * axis as u32, 3, step as u32 - 1);
        Ok(())
    }

    pub(crate) fn set_code(&mut self, code: Code, value: u64) -> Result<(), String> {
        let (first, bits) = code.place();
        if value >> bits != 0 {
            return Err(format!("the code {value} of its {}, which is undefined", code.name()));
        }
        let mut value = value as u32;
        if code == Code::Element {
            let of_tf32 = TF32.iter().find(|row| row.0 == value);
            self.set_bits(CHOICES, ROUNDS_TO_TF32, 1, u32::from(of_tf32.is_some()));
            value = of_tf32.map_or(value, |row| row.1);
        }
        self.set_bits(CHOICES, first, bits, value);
        Ok(())
    }

    fn code(&self, code: Code) -> usize {
        let (first, bits) = code.place();
        self.bits(CHOICES, first, bits) as usize
    }

    /// The number of the element type in `tensormap.replace`, if its bits are of one.
    fn element(&self) -> Option<ElementType> {
        let number = self.code(Code::Element) as u32;
        let rounds = self.bits(CHOICES, ROUNDS_TO_TF32, 1) != 0;
        let is_tf32 = TF32.iter().any(|row| row.0 == number);
        let number = match TF32.iter().find(|row| row.1 == number) {
            Some(row) if rounds => row.0,
            _ if rounds || is_tf32 => return None,
            _ => number,
        };
        ELEMENTS.get(number as usize).copied()
    }

    /// The decoded description, or an error.
    pub(crate) fn decode(&self) -> Result<Description, String> {
        let unknown =
            |code: Code| format!("its {} has the code {}, which is undefined", code.name(), self.code(code));
        let rank = self.code(Code::Rank) + 1;
        if rank > MOST_AXES {
            return Err(unknown(Code::Rank));
        }
        let bits = corner_bits(rank);
        let corner = |start: u32| {
            let offset = |index: usize| self.bits(BOX, start + bits * index as u32, bits);
            (0..rank.saturating_sub(2)).map(|index| signed(offset(index), bits)).collect()
        };
        let box_extent = |axis: usize| {
            let (word, first) = box_place(axis);
            self.bits(word, first, 8) + 1
        };
        let access = if self.code(Code::Im2col) == 0 {
            Access::Tiled { box_extents: (0..rank).map(box_extent).collect() }
        } else {
            Access::Im2col {
                lower: corner(0),
                upper: corner(16),
                channels: box_extent(0),
                pixels: self.word(PIXELS).wrapping_add(1),
            }
        };
        let stride = |index: usize| {
            let high = u64::from(self.bits(STRIDES_HIGH, 4 * index as u32, 4));
            high << 36 | u64::from(self.word(STRIDES + index)) << 4
        };
        let swizzle = SWIZZLES.iter().find(|row| {
            [row.1, row.2].map(|code| code as usize)
                == [self.code(Code::Swizzle), self.code(Code::SwizzleAtomicity)]
        });
        Ok(Description {
            element: self.element().ok_or_else(|| unknown(Code::Element))?,
            address: u64::from(self.word(ADDRESS + 1)) << 32 | u64::from(self.word(ADDRESS)),
            extents: (0..rank).map(|axis| u64::from(self.word(EXTENTS + axis)) + 1).collect(),
            strides: (0..rank - 1).map(stride).collect(),
            access,
            element_strides: (0..rank).map(|axis| self.bits(STEPS, 3 * axis as u32, 3) + 1).collect(),
            interleave: *Interleave::ALL
                .get(self.code(Code::Interleave))
                .ok_or_else(|| unknown(Code::Interleave))?,
            swizzle: swizzle.ok_or_else(|| unknown(Code::SwizzleAtomicity))?.0,
            l2_promotion: *L2Promotion::ALL
                .get(self.code(Code::L2Promotion))
                .ok_or_else(|| unknown(Code::L2Promotion))?,
            fill: if self.code(Code::Fill) == 0 { Fill::Zeros } else { Fill::Nan },
        })
    }
}

/// The word and the first bit of a box's extent.
fn box_place(axis: usize) -> (usize, u32) {
    if axis == 0 { (STEPS, FIRST_BOX) } else { (BOX, 8 * (axis as u32 - 1)) }
}

/// Bits of an offset in a corner of im2col, which has two axes less than its tensor.
fn corner_bits(rank: usize) -> u32 {
    match rank {
        5 => 5,
        4 => 8,
        _ => 16,
    }
}

fn signed(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

#[cfg(test)]
mod tests;
