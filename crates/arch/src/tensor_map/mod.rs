//! Tensor maps: descriptions of a tensor in global memory for the tensor memory accelerator (TMA).
//!
//! A [`Description`] is plain data; axis 0 is contiguous. [`Description::check`] checks it against
//! the rules of the CUDA driver API (`cuTensorMapEncodeTiled`, `cuTensorMapEncodeIm2col`) and of
//! the PTX ISA ("Tensors"). Each violation is a [`TensorMapError`] that names the axis and the
//! legal values.
//!
//! ```
//! use warpwright_arch::tensor_map::{Description, ElementType, Swizzle};
//!
//! // Boxes of 64 x 128 of a row-major matrix of 4096 rows of 1024.
//! let mut map = Description::row_major(ElementType::Bf16, 0x1000, &[4096, 1024], &[128, 64]);
//! map.swizzle = Swizzle::Bytes128;
//! assert_eq!(map.check(), Ok(()));
//! assert_eq!((map.extents.as_slice(), map.strides.as_slice()), (&[1024, 4096][..], &[2048][..]));
//! assert_eq!(map.transaction_bytes(), 64 * 128 * 2);
//!
//! map.swizzle = Swizzle::Bytes64;
//! let refused = map.check().unwrap_err().to_string();
//! assert!(refused.contains("the 64-byte swizzle holds rows of at most 64 bytes"), "{refused}");
//! ```

mod requirement;
mod rules;

pub use requirement::{Difference, Requirement};
pub use rules::TensorMapError;

/// Bytes of an encoded tensor map, `CUtensorMap`.
pub const TENSOR_MAP_BYTES: usize = 128;
/// The alignment of an encoded tensor map, in bytes.
pub const TENSOR_MAP_ALIGN: usize = 64;
/// The most axes a tensor has.
pub const MOST_AXES: usize = 5;
/// The largest extent of a box, in elements.
pub const MAX_BOX_EXTENT: u32 = 256;

/// The type of a tensor's elements (`CUtensorMapDataType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 8-bit integers and 8-bit floats.
    U8,
    /// 16-bit unsigned integers.
    U16,
    /// 32-bit unsigned integers.
    U32,
    /// 32-bit signed integers.
    S32,
    /// 64-bit unsigned integers.
    U64,
    /// 64-bit signed integers.
    S64,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// bfloat16.
    Bf16,
    /// IEEE binary32; reductions flush subnormal numbers to zero.
    F32Ftz,
    /// TensorFloat-32: loads round to it.
    Tf32,
    /// TensorFloat-32; subnormal numbers are flushed to zero.
    Tf32Ftz,
    /// 4-bit elements, packed two a byte in both memories (`16U4_ALIGN8B`).
    B4x16,
    /// 4-bit elements, packed in global memory; 16 of them take 16 bytes of shared memory, the
    /// upper 8 unused (`16U4_ALIGN16B`).
    B4x16P64,
    /// 6-bit elements, packed in global memory; 16 of them take 16 bytes of shared memory, the
    /// upper 4 unused (`16U6_ALIGN16B`).
    B6x16P32,
}

impl ElementType {
    /// All types, in the order of `CUtensorMapDataType`.
    pub const ALL: [ElementType; 16] = {
        use ElementType::*;
        [U8, U16, U32, S32, U64, S64, F16, F32, F64, Bf16, F32Ftz, Tf32, Tf32Ftz, B4x16, B4x16P64, B6x16P32]
    };

    /// The name in messages and files.
    pub fn name(self) -> &'static str {
        use ElementType::*;
        match self {
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            S32 => "s32",
            U64 => "u64",
            S64 => "s64",
            F16 => "f16",
            F32 => "f32",
            F64 => "f64",
            Bf16 => "bf16",
            F32Ftz => "f32.ftz",
            Tf32 => "tf32",
            Tf32Ftz => "tf32.ftz",
            B4x16 => "b4x16",
            B4x16P64 => "b4x16_p64",
            B6x16P32 => "b6x16_p32",
        }
    }

    /// Bits of an element in global memory.
    pub fn bits(self) -> u32 {
        use ElementType::*;
        match self {
            B4x16 | B4x16P64 => 4,
            B6x16P32 => 6,
            U8 => 8,
            U16 | F16 | Bf16 => 16,
            U32 | S32 | F32 | F32Ftz | Tf32 | Tf32Ftz => 32,
            U64 | S64 | F64 => 64,
        }
    }

    /// Bits of an element in shared memory, padding included.
    pub fn shared_bits(self) -> u32 {
        match self {
            ElementType::B4x16P64 | ElementType::B6x16P32 => 8,
            other => other.bits(),
        }
    }

    /// Whether it is a floating-point type with a NaN to fill with.
    pub fn is_float(self) -> bool {
        use ElementType::*;
        matches!(self, F16 | F32 | F64 | Bf16 | F32Ftz | Tf32 | Tf32Ftz)
    }

    /// Whether it is padded in shared memory.
    pub fn is_padded(self) -> bool {
        matches!(self, ElementType::B4x16P64 | ElementType::B6x16P32)
    }

    /// Whether several elements share a byte.
    pub fn is_packed(self) -> bool {
        self.bits() < 8
    }
}

/// How channels are grouped in global memory (`CUtensorMapInterleave`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interleave {
    /// No interleave: NDHWC.
    #[default]
    None,
    /// In slices of 16 bytes: NC/8DHWC8 of 2-byte elements.
    Bytes16,
    /// In slices of 32 bytes: NC/16DHWC16 of 2-byte elements.
    Bytes32,
}

impl Interleave {
    /// All modes, in the order of `CUtensorMapInterleave`.
    pub const ALL: [Interleave; 3] = [Self::None, Self::Bytes16, Self::Bytes32];

    /// Bytes of a slice.
    pub fn slice_bytes(self) -> Option<u32> {
        match self {
            Interleave::None => None,
            Interleave::Bytes16 => Some(16),
            Interleave::Bytes32 => Some(32),
        }
    }
}

/// How the rows of a box are permuted in shared memory (`CUtensorMapSwizzle`). A swizzle permutes
/// bits of the shared-memory address: a box whose address is not a multiple of the pattern starts
/// inside the pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// No swizzle.
    #[default]
    None,
    /// 16-byte units of 32 bytes.
    Bytes32,
    /// 16-byte units of 64 bytes.
    Bytes64,
    /// 16-byte units of 128 bytes.
    Bytes128,
    /// 32-byte units of 128 bytes; sm_100 and later.
    Bytes128Atom32,
    /// 32-byte units of 128 bytes, and the 8-byte halves of each 16 bytes of every second row;
    /// sm_100 and later.
    Bytes128Atom32Flip8,
    /// 64-byte units of 128 bytes; sm_100 and later.
    Bytes128Atom64,
}

impl Swizzle {
    /// All modes, in the order of `CUtensorMapSwizzle`.
    pub const ALL: [Swizzle; 7] = [
        Self::None,
        Self::Bytes32,
        Self::Bytes64,
        Self::Bytes128,
        Self::Bytes128Atom32,
        Self::Bytes128Atom32Flip8,
        Self::Bytes128Atom64,
    ];

    /// The span in bytes within which pieces are permuted; `None` without swizzle.
    pub fn span_bytes(self) -> Option<u32> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            _ => Some(128),
        }
    }

    /// Bytes after which the pattern repeats, the alignment of a tile; 128 without swizzle.
    pub fn repeat_bytes(self) -> u32 {
        match self {
            Swizzle::None => 128,
            Swizzle::Bytes32 => 256,
            Swizzle::Bytes64 => 512,
            _ => 1024,
        }
    }

    /// The permuted address of a byte. (PTX ISA, "Swizzling modes".)
    #[inline]
    pub fn apply(self, address: u32) -> u32 {
        match self {
            Swizzle::None => address,
            Swizzle::Bytes32 => address ^ ((address >> 3) & 0x10),
            Swizzle::Bytes64 => address ^ ((address >> 3) & 0x30),
            Swizzle::Bytes128 => address ^ ((address >> 3) & 0x70),
            Swizzle::Bytes128Atom32 => address ^ ((address >> 2) & 0x60),
            Swizzle::Bytes128Atom32Flip8 => address ^ ((address >> 2) & 0x60) ^ ((address >> 4) & 0x8),
            Swizzle::Bytes128Atom64 => address ^ ((address >> 1) & 0x40),
        }
    }
}

/// How much the L2 cache fetches at once (`CUtensorMapL2promotion`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum L2Promotion {
    /// No promotion.
    #[default]
    None,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    Bytes256,
}

impl L2Promotion {
    /// All modes, in the order of `CUtensorMapL2promotion`.
    pub const ALL: [L2Promotion; 4] = [Self::None, Self::Bytes64, Self::Bytes128, Self::Bytes256];
}

/// The value of elements outside the tensor (`CUtensorMapFloatOOBfill`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fill {
    /// Zeros.
    #[default]
    Zeros,
    /// A NaN that `fma.oob` treats as zero.
    Nan,
}

/// The elements that one copy moves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A box.
    Tiled {
        /// The extent along each axis. With an element stride of `s`, every `s`-th element within
        /// it is copied.
        box_extents: Vec<u32>,
    },
    /// Pixels of a bounding box, row after row (im2col).
    Im2col {
        /// The offset of the bounding box's first pixel from the tensor's, along axes 1 to rank -
        /// 2: W, then H, then D.
        lower: Vec<i32>,
        /// The offset of its last pixel from the tensor's.
        upper: Vec<i32>,
        /// Channels per pixel.
        channels: u32,
        /// Pixels per copy.
        pixels: u32,
    },
}

/// A tensor in global memory and the box that a copy moves. Axis 0 is contiguous. Extents, box and
/// coordinates are in elements, strides in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Description {
    /// The type of the elements.
    pub element: ElementType,
    /// The device address of the first element.
    pub address: u64,
    /// The extent of each axis: one to five.
    pub extents: Vec<u64>,
    /// The stride of each axis but the first, in bytes.
    pub strides: Vec<u64>,
    /// The elements of a copy.
    pub access: Access,
    /// The element stride along each axis.
    pub element_strides: Vec<u32>,
    /// The interleave.
    pub interleave: Interleave,
    /// The swizzle.
    pub swizzle: Swizzle,
    /// The L2 promotion.
    pub l2_promotion: L2Promotion,
    /// The fill of elements outside the tensor.
    pub fill: Fill,
}

impl Description {
    /// Boxes of a compact row-major tensor. `extents` and `box_extents` are given outermost first;
    /// the description stores them innermost first.
    pub fn row_major(element: ElementType, address: u64, extents: &[u64], box_extents: &[u32]) -> Self {
        let extents: Vec<u64> = extents.iter().rev().copied().collect();
        let mut bits = u64::from(element.bits());
        let mut strides = Vec::new();
        for extent in extents.iter().take(extents.len().saturating_sub(1)) {
            bits = bits.saturating_mul(*extent);
            strides.push(bits / 8);
        }
        Self {
            element,
            address,
            element_strides: vec![1; extents.len()],
            extents,
            strides,
            access: Access::Tiled { box_extents: box_extents.iter().rev().copied().collect() },
            interleave: Interleave::None,
            swizzle: Swizzle::None,
            l2_promotion: L2Promotion::None,
            fill: Fill::Zeros,
        }
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.extents.len()
    }

    /// The innermost pixel axis of im2col: 1, or 0 for an interleaved tensor.
    pub fn first_pixel_axis(&self) -> usize {
        usize::from(self.interleave == Interleave::None)
    }

    /// Bits of global memory of one step along axis 0: an element, or a slice of an interleaved
    /// tensor, whose channels are not an axis (measured on H200).
    pub fn step_bits(&self) -> u32 {
        self.interleave.slice_bytes().map_or(self.element.bits(), |bytes| 8 * bytes)
    }

    /// The elements of a tiled copy along each axis. For an interleaved tensor these are slices
    /// along axis 0 and one slice along the second-to-last axis: the channels of the box are those
    /// of one slice (measured on H200).
    pub fn box_counts(&self) -> Vec<u32> {
        let Access::Tiled { box_extents } = &self.access else { return Vec::new() };
        let is_interleaved = self.interleave != Interleave::None;
        let count = |(axis, (extent, step)): (usize, (&u32, &u32))| match axis {
            // The hardware ignores the stride along the contiguous axis.
            0 if !is_interleaved => *extent,
            _ if is_interleaved && axis + 2 == self.rank() => 1,
            _ => extent.div_ceil((*step).max(1)),
        };
        box_extents.iter().zip(&self.element_strides).enumerate().map(count).collect()
    }

    /// Bytes of one row of a copy in shared memory, along axis 0.
    pub fn row_bytes(&self) -> u64 {
        let count = match &self.access {
            Access::Tiled { .. } => self.box_counts().first().copied().unwrap_or(0),
            Access::Im2col { .. } if self.interleave != Interleave::None => 1,
            Access::Im2col { channels, .. } => *channels,
        };
        match self.interleave.slice_bytes() {
            Some(slice) => u64::from(count) * u64::from(slice),
            None => u64::from(count) * u64::from(self.element.shared_bits()) / 8,
        }
    }

    /// Bytes from one row of a copy to the next in shared memory: with a swizzle, each row occupies
    /// the whole span (measured on H200).
    pub fn row_pitch(&self) -> u64 {
        match (self.interleave, self.swizzle.span_bytes()) {
            (Interleave::None, Some(span)) => span.into(),
            _ => self.row_bytes(),
        }
    }

    /// The rows of a copy: elements along all axes except axis 0, or pixels.
    pub fn rows(&self) -> u64 {
        match &self.access {
            Access::Tiled { .. } => self.box_counts().iter().skip(1).map(|&count| u64::from(count)).product(),
            Access::Im2col { pixels, .. } => u64::from(*pixels),
        }
    }

    /// Bytes of shared memory of one copy, from its first row to the end of the pitch of its last
    /// row.
    pub fn shared_bytes(&self) -> u64 {
        self.row_pitch() * self.rows()
    }

    /// The transaction bytes of one copy: those of the whole box, including elements outside the
    /// tensor, without the gaps of a swizzle and the padding of elements (CUTLASS expects 6 bits for
    /// each element of 6 bits).
    pub fn transaction_bytes(&self) -> u64 {
        self.transaction_row_bytes() * self.rows()
    }

    /// The transaction bytes of one row.
    pub fn transaction_row_bytes(&self) -> u64 {
        self.row_bytes() * u64::from(self.element.bits()) / u64::from(self.element.shared_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row `r` of a span, piece `j`: the 128-byte mode puts it at `j ^ r % 8`, narrower ones change
    /// every second or fourth row; the wider atoms move pairs and quadruples of 16-byte pieces.
    /// (PTX ISA, "Swizzling modes" tables.)
    #[test]
    fn swizzles_follow_the_tables_of_the_isa() {
        let cases = [
            (Swizzle::Bytes32, 16, 32, 4),
            (Swizzle::Bytes64, 16, 64, 2),
            (Swizzle::Bytes128, 16, 128, 1),
            (Swizzle::Bytes128Atom32, 32, 128, 1),
            (Swizzle::Bytes128Atom64, 64, 128, 1),
        ];
        for (swizzle, piece, span, rows_per_step) in cases {
            assert_eq!(swizzle.span_bytes(), Some(span));
            for address in 0..4096 {
                let (row, column) = (address / span, address % span);
                let step = row / rows_per_step % (span / piece);
                let expected = row * span + ((column / piece) ^ step) * piece + column % piece;
                assert_eq!(swizzle.apply(address), expected, "{swizzle:?} {address}");
            }
        }
    }

    #[test]
    fn swizzles_repeat_and_permute() {
        for swizzle in Swizzle::ALL {
            let repeat = swizzle.repeat_bytes();
            let mut targets: Vec<u32> = (0..repeat).map(|address| swizzle.apply(address)).collect();
            assert!(
                (0..repeat).all(|address| swizzle.apply(repeat + address) == repeat + swizzle.apply(address))
            );
            targets.sort_unstable();
            assert!(targets.into_iter().eq(0..repeat), "{swizzle:?}");
        }
    }

    #[test]
    fn gaps_and_steps_count_in_shared_memory() {
        let mut map = Description::row_major(ElementType::B6x16P32, 0, &[64, 256], &[8, 128]);
        assert_eq!((map.strides[0], map.row_bytes(), map.shared_bytes()), (192, 128, 1024));
        assert_eq!(map.transaction_bytes(), 768);
        map = Description::row_major(ElementType::B4x16, 0, &[64, 256], &[8, 128]);
        assert_eq!((map.strides[0], map.row_bytes(), map.shared_bytes()), (128, 64, 512));
        map = Description::row_major(ElementType::F32, 0, &[64, 256], &[8, 128]);
        map.element_strides = vec![2, 3];
        assert_eq!((map.box_counts(), map.shared_bytes()), (vec![128, 3], 128 * 4 * 3));
        map = Description::row_major(ElementType::F16, 0, &[64, 256], &[10, 24]);
        map.swizzle = Swizzle::Bytes128;
        assert_eq!((map.row_bytes(), map.shared_bytes(), map.transaction_bytes()), (48, 1280, 480));
    }
}
