//! The descriptor of a matrix in shared memory for `wgmma` or `tcgen05` (PTX ISA, "Matrix
//! descriptor format" and "Shared Memory Matrix Layout" of wgmma, "Shared memory descriptor" of
//! tcgen05), and the address of each 16-byte part.

/// Bytes of a part: the hardware's unit, which the swizzle keeps whole.
pub const PIECE: u32 = 16;

/// Which of a matrix's elements are neighbors in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// Elements of a row of A or a column of B: adjacent along k.
    K,
    /// Elements of a column of A or a row of B.
    Mn,
}

/// The fields of a descriptor. All lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixDescriptor {
    /// The start of the matrix in shared memory.
    pub start: u32,
    /// The leading dimension byte offset.
    pub leading: u32,
    /// The stride dimension byte offset.
    pub stride: u32,
    /// The phase of the swizzle's pattern at an address that is a multiple of 1024.
    pub base: u32,
    /// 16-byte parts in a row of the swizzle's pattern: 1 (none), 2, 4 or 8.
    pub span: u32,
    /// Whether the swizzle keeps 32 bytes together rather than 16.
    pub by_32: bool,
}

impl MatrixDescriptor {
    /// Reads the 64 bits of a descriptor: start (bits 0-13), leading (16-29) and stride (32-45)
    /// offsets in units of 16 bytes, the base offset (49-51) and the swizzling mode (62-63).
    ///
    /// ```
    /// use warpwright_emulator::tensor::descriptor::MatrixDescriptor;
    /// let descriptor = MatrixDescriptor::from_bits(1 << 62 | 64 << 32 | 1 << 16 | 0x40);
    /// assert_eq!((descriptor.start, descriptor.stride, descriptor.span), (1024, 1024, 8));
    /// ```
    pub fn from_bits(bits: u64) -> MatrixDescriptor {
        let span = match bits >> 62 {
            0 => 1,
            1 => 8,
            2 => 4,
            _ => 2,
        };
        Self::with_span(bits, span)
    }

    /// Decodes the 64 bits of a `tcgen05` descriptor: as for `wgmma`, except that the swizzling
    /// mode is in bits 61-63, and that mode 1 is the swizzle of 128 bytes by atoms of 32. (Bits 46-48 are a constant 1; Triton leaves them 0.) Returns an error
    /// for invalid fields.
    ///
    /// ```
    /// use warpwright_emulator::tensor::descriptor::MatrixDescriptor;
    /// let descriptor = MatrixDescriptor::from_tensor_core_bits(2 << 61 | 1 << 46 | 64 << 32 | 1 << 16 | 0x40).unwrap();
    /// assert_eq!((descriptor.start, descriptor.stride, descriptor.span), (1024, 1024, 8));
    /// assert!(MatrixDescriptor::from_tensor_core_bits(1 << 61).unwrap().by_32);
    /// assert!(MatrixDescriptor::from_tensor_core_bits(3 << 61).is_err());
    /// ```
    pub fn from_tensor_core_bits(bits: u64) -> Result<MatrixDescriptor, String> {
        if bits >> 46 & 7 > 1 {
            return Err(format!(
                "bits 46 to 48 of the descriptor {bits:#018x} are {}; a tcgen05 descriptor has 1",
                bits >> 46 & 7
            ));
        }
        if bits >> 52 & 1 != 0 {
            return Err(format!(
                "the descriptor {bits:#018x} gives its leading offset as an address (bit 52), which only sm_103a supports"
            ));
        }
        match bits >> 61 {
            0 => Ok(Self::with_span(bits, 1)),
            2 => Ok(Self::with_span(bits, 8)),
            4 => Ok(Self::with_span(bits, 4)),
            6 => Ok(Self::with_span(bits, 2)),
            1 => Ok(MatrixDescriptor { by_32: true, ..Self::with_span(bits, 8) }),
            mode => Err(format!(
                "the descriptor {bits:#018x} requests swizzling mode {mode}; the modes are 0 (none), 1 and 2 (128 bytes), 4 (64) and 6 (32)"
            )),
        }
    }

    fn with_span(bits: u64, span: u32) -> MatrixDescriptor {
        let field = |first: u32| (bits >> first & 0x3fff) as u32 * PIECE;
        MatrixDescriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: (bits >> 49 & 7) as u32,
            span,
            by_32: false,
        }
    }

    /// The same matrix from the `along`-th row (column), or part of rows, on, as
    /// [`address`](Self::address) counts them.
    pub fn from_row(self, major: Major, along: u32) -> MatrixDescriptor {
        MatrixDescriptor { start: self.start.wrapping_add(self.offset(major, along, 0)), ..self }
    }

    /// The address of a 16-byte part: for a K-major matrix, the `deep`-th part along k of the
    /// `along`-th row of A (column of B); for an MN-major matrix, the `along`-th part along m or n
    /// at the `deep`-th step along k.
    #[inline(always)]
    pub fn address(self, major: Major, along: u32, deep: u32) -> u32 {
        self.swizzled(self.start.wrapping_add(self.offset(major, along, deep)))
    }

    /// The offset of a part from the start, before the swizzle.
    #[inline(always)]
    fn offset(self, major: Major, along: u32, deep: u32) -> u32 {
        let (span, row) = (self.span, self.span * PIECE);
        match (major, span) {
            (Major::K, 1) => along % 8 * PIECE + along / 8 * self.stride + deep * self.leading,
            (Major::K, _) => {
                // Beyond one row of the pattern, which only B of a sparse MMA reaches. (Measured on
                // H200.)
                let beyond = deep / span * self.leading;
                along % 8 * row + along / 8 * self.stride + deep % span * PIECE + beyond
            }
            (Major::Mn, 1) => deep % 8 * PIECE + deep / 8 * self.leading + along * self.stride,
            (Major::Mn, _) => {
                let rows = if self.by_32 { 4 } else { 8 };
                along % span * PIECE
                    + along / span * self.leading
                    + deep % rows * row
                    + deep / rows * self.stride
            }
        }
    }

    /// Bits 4 and up of an address are XORed with bits 7 and up, with the pattern starting at the
    /// base offset. Of atoms of 32 bytes, bits 5 and 6 are XORed with bits 7 and 8.
    #[inline(always)]
    fn swizzled(self, address: u32) -> u32 {
        let phase = (address >> 7).wrapping_sub(self.base) & (self.span - 1);
        if self.by_32 { address ^ (phase & 3) << 5 } else { address ^ phase << 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A swizzle permutes the parts.
    #[test]
    fn every_piece_has_its_own_place() {
        for (mode, span) in [(0u64, 1u32), (3, 2), (2, 4), (1, 8)] {
            for base in 0..8u64 {
                // 64 rows of one k-block, eight rows after eight rows.
                let stride = u64::from(span * 8);
                let bits = mode << 62 | base << 49 | stride << 32 | 512 << 16 | 0x40;
                let descriptor = MatrixDescriptor::from_bits(bits);
                for (major, deep) in [(Major::K, span), (Major::Mn, 16)] {
                    let mut places: Vec<u32> = (0..if major == Major::K { 64 } else { span })
                        .flat_map(|along| (0..deep).map(move |deep| (along, deep)))
                        .map(|(along, deep)| descriptor.address(major, along, deep))
                        .collect();
                    let count = places.len();
                    places.sort_unstable();
                    places.dedup();
                    assert_eq!(places.len(), count, "{descriptor:?} {major:?}");
                }
            }
        }
    }
}
