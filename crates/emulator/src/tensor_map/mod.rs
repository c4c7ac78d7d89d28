//! The emulator's own encoding of a tensor map: 128 bytes, as opaque to programs as the driver's.
//!
//! | bytes | contents |
//! |---|---|
//! | 0-7 | a magic number |
//! | 8-15 | the tensor's address |
//! | 16-35 | extents less one, 4 bytes each |
//! | 36-67 | strides of axes 1 to 4, 8 bytes each |
//! | 68-77 | box extents, 2 bytes each; of im2col 68-73 and 74-79 the corners, 80-81 channels, 82-83 pixels |
//! | 84-88 | element strides |
//! | 89-96 | codes of the element type, swizzle and other choices |

mod tile;

pub(crate) use tile::{Row, Start, Tensor};

use warpwright_arch::tensor_map::{
    Access, Description, ElementType, Fill, Interleave, L2Promotion, MOST_AXES, Swizzle, TENSOR_MAP_BYTES,
};

const MARK: &[u8; 8] = b"WARPTMAP";
const ADDRESS: usize = 8;
const EXTENTS: usize = 16;
const STRIDES: usize = 36;
const BOX: usize = 68;
const UPPER: usize = 74;
const CHANNELS: usize = 80;
const PIXELS: usize = 82;
const ELEMENT_STRIDES: usize = 84;

/// The fields of one byte, and the position of each. Their values are those of `tensormap.replace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Element = 89,
    /// Less one.
    Rank = 90,
    Im2col = 91,
    Interleave = 92,
    Swizzle = 93,
    /// Which pieces are exchanged.
    SwizzleAtomicity = 94,
    L2Promotion = 95,
    Fill = 96,
}

/// `tensormap.replace` numbers the element types in an order of its own. (PTX ISA,
/// "tensormap.replace".)
const ELEMENTS: [ElementType; 16] = {
    use ElementType::*;
    [U8, U16, U32, S32, U64, S64, F16, F32, F32Ftz, F64, Bf16, Tf32, Tf32Ftz, B4x16, B4x16P64, B6x16P32]
};

/// Each swizzle's mode and atomicity.
const SWIZZLES: [(Swizzle, u8, u8); 7] = [
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

/// The 128 bytes of a tensor map on an emulated device. The description must satisfy its
/// [rules](Description::check).
pub fn encode(map: &Description) -> [u8; TENSOR_MAP_BYTES] {
    let mut encoded = Encoded([0; TENSOR_MAP_BYTES]);
    encoded.put(0, MARK);
    encoded.set_address(map.address);
    encoded.set_code(Code::Rank, map.rank() as u8 - 1);
    for (axis, &extent) in map.extents.iter().enumerate() {
        // An extent of 2^32 has no 32-bit number of its own, which is why they are kept less one.
        encoded.put(EXTENTS + 4 * axis, &((extent - 1) as u32).to_le_bytes());
    }
    for (index, &stride) in map.strides.iter().enumerate() {
        encoded.set_stride(index, stride);
    }
    for (axis, &step) in map.element_strides.iter().enumerate() {
        encoded.set_element_stride(axis, step);
    }
    match &map.access {
        Access::Tiled { box_extents } => {
            for (axis, &extent) in box_extents.iter().enumerate() {
                encoded.set_box(axis, extent);
            }
        }
        Access::Im2col { lower, upper, channels, pixels } => {
            encoded.set_code(Code::Im2col, 1);
            for (start, corner) in [(BOX, lower), (UPPER, upper)] {
                for (index, &offset) in corner.iter().enumerate() {
                    encoded.put(start + 2 * index, &(offset as i16).to_le_bytes());
                }
            }
            encoded.put(CHANNELS, &(*channels as u16).to_le_bytes());
            encoded.put(PIXELS, &(*pixels as u16).to_le_bytes());
        }
    }
    let position = |found: Option<usize>| found.expect("the lists have every value") as u8;
    encoded.set_code(Code::Element, position(ELEMENTS.iter().position(|&it| it == map.element)));
    encoded.set_code(Code::Interleave, position(Interleave::ALL.iter().position(|&it| it == map.interleave)));
    let swizzle = SWIZZLES[position(SWIZZLES.iter().position(|row| row.0 == map.swizzle)) as usize];
    encoded.set_code(Code::Swizzle, swizzle.1);
    encoded.set_code(Code::SwizzleAtomicity, swizzle.2);
    let promotion = position(L2Promotion::ALL.iter().position(|&it| it == map.l2_promotion));
    encoded.set_code(Code::L2Promotion, promotion);
    encoded.set_code(Code::Fill, u8::from(map.fill == Fill::Nan));
    encoded.0
}

impl Encoded {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|index| self.0[at + index])
    }

    /// Whether the bytes are a tensor map at all.
    pub(crate) fn is_marked(&self) -> bool {
        self.0.starts_with(MARK)
    }

    /// Initializes a tensor map of zeros, in which every field has yet to be replaced. Returns
    /// whether it is zeros.
    pub(crate) fn begin(&mut self) -> bool {
        let is_blank = self.0.iter().all(|&byte| byte == 0);
        if is_blank {
            self.put(0, MARK);
        }
        is_blank
    }

    pub(crate) fn set_address(&mut self, address: u64) {
        self.put(ADDRESS, &address.to_le_bytes());
    }

    /// Sets an extent; `tensormap.replace` has 32 bits for it, of which 0 is refused when the map
    /// is used.
    pub(crate) fn set_extent(&mut self, axis: usize, extent: u32) {
        self.put(EXTENTS + 4 * axis, &extent.wrapping_sub(1).to_le_bytes());
    }

    /// Sets the stride of axis `index + 1`, in bytes.
    pub(crate) fn set_stride(&mut self, index: usize, stride: u64) {
        self.put(STRIDES + 8 * index, &stride.to_le_bytes());
    }

    pub(crate) fn set_box(&mut self, axis: usize, extent: u32) {
        // A value that exceeds the field is as illegal as its largest value.
        self.put(BOX + 2 * axis, &u16::try_from(extent).unwrap_or(u16::MAX).to_le_bytes());
    }

    pub(crate) fn set_element_stride(&mut self, axis: usize, step: u32) {
        self.put(ELEMENT_STRIDES + axis, &[u8::try_from(step).unwrap_or(u8::MAX)]);
    }

    pub(crate) fn set_code(&mut self, code: Code, value: u8) {
        self.0[code as usize] = value;
    }

    fn code(&self, code: Code) -> usize {
        usize::from(self.0[code as usize])
    }

    /// The decoded description, or an error.
    pub(crate) fn decode(&self) -> Result<Description, String> {
        let unknown = |what: &str, code: Code| {
            format!("its {what} has the code {}, which is undefined", self.code(code))
        };
        let rank = self.code(Code::Rank) + 1;
        if rank > MOST_AXES {
            return Err(unknown("rank, less one,", Code::Rank));
        }
        let halves = |start: usize, count: usize| {
            (0..count).map(|index| i32::from(i16::from_le_bytes(self.get(start + 2 * index)))).collect()
        };
        let half = |start| u32::from(u16::from_le_bytes(self.get(start)));
        let access = if self.code(Code::Im2col) == 0 {
            Access::Tiled { box_extents: (0..rank).map(|axis| half(BOX + 2 * axis)).collect() }
        } else {
            let corners = rank.saturating_sub(2);
            Access::Im2col {
                lower: halves(BOX, corners),
                upper: halves(UPPER, corners),
                channels: half(CHANNELS),
                pixels: half(PIXELS),
            }
        };
        let swizzle = SWIZZLES.iter().find(|row| {
            (usize::from(row.1), usize::from(row.2))
                == (self.code(Code::Swizzle), self.code(Code::SwizzleAtomicity))
        });
        Ok(Description {
            element: *ELEMENTS
                .get(self.code(Code::Element))
                .ok_or_else(|| unknown("element type", Code::Element))?,
            address: u64::from_le_bytes(self.get(ADDRESS)),
            extents: (0..rank)
                .map(|axis| u64::from(u32::from_le_bytes(self.get(EXTENTS + 4 * axis))) + 1)
                .collect(),
            strides: (0..rank - 1).map(|index| u64::from_le_bytes(self.get(STRIDES + 8 * index))).collect(),
            access,
            element_strides: (0..rank).map(|axis| u32::from(self.0[ELEMENT_STRIDES + axis])).collect(),
            interleave: *Interleave::ALL
                .get(self.code(Code::Interleave))
                .ok_or_else(|| unknown("interleave", Code::Interleave))?,
            swizzle: swizzle.ok_or_else(|| unknown("swizzle", Code::Swizzle))?.0,
            l2_promotion: *L2Promotion::ALL
                .get(self.code(Code::L2Promotion))
                .ok_or_else(|| unknown("L2 promotion", Code::L2Promotion))?,
            fill: match self.code(Code::Fill) {
                0 => Fill::Zeros,
                1 => Fill::Nan,
                _ => return Err(unknown("fill", Code::Fill)),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut map =
            Description::row_major(ElementType::F32, 0x12_3450, &[3, 5, 7, 64, 1 << 32], &[1, 2, 3, 4, 32]);
        map.strides = vec![16, 1 << 39, 32, 48];
        map.element_strides = vec![1, 2, 8, 4, 5];
        for element in ElementType::ALL {
            map.element = element;
            assert_eq!(Encoded(encode(&map)).decode().as_ref(), Ok(&map));
        }
        for swizzle in Swizzle::ALL {
            map.swizzle = swizzle;
            assert_eq!(Encoded(encode(&map)).decode().as_ref(), Ok(&map));
        }
        (map.interleave, map.l2_promotion, map.fill) =
            (Interleave::Bytes32, L2Promotion::Bytes256, Fill::Nan);
        map.access =
            Access::Im2col { lower: vec![-16, 15, 3], upper: vec![-1, 0, 1], channels: 256, pixels: 1024 };
        let encoded = Encoded(encode(&map));
        assert!(encoded.is_marked());
        assert_eq!(encoded.decode(), Ok(map));
    }
}
