//! The rules of tensor maps. (CUDA driver API, "Tensor Map Object Management"; PTX ISA, "Tensors".)

use crate::Capability;

use super::{Access, Description, ElementType, Fill, Interleave, MAX_BOX_EXTENT, MOST_AXES, Swizzle};

/// A rule of tensor maps that a description violates. Axis 0 is contiguous.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorMapError {
    /// The number of axes.
    #[error("a tensor map has {rank} axes; {legal}")]
    Rank {
        /// Axes given.
        rank: usize,
        /// The legal numbers, and why.
        legal: &'static str,
    },
    /// A list of the wrong length.
    #[error("a tensor map of {rank} axes needs {expected} {what}, not {given}")]
    Length {
        /// The list.
        what: &'static str,
        /// Axes of the tensor.
        rank: usize,
        /// Entries needed.
        expected: usize,
        /// Entries given.
        given: usize,
    },
    /// The tensor's address.
    #[error("the tensor starts at {address:#x}, which must be a multiple of {align} bytes{}", because(.why))]
    Address {
        /// The address.
        address: u64,
        /// The required alignment.
        align: u64,
        /// The reason.
        why: &'static str,
    },
    /// An extent out of range.
    #[error("axis {axis} has an extent of {extent}; it must be from 1 to 2^32")]
    Extent {
        /// The axis.
        axis: usize,
        /// Its extent.
        extent: u64,
    },
    /// An extent of axis 0 that is not a multiple required by packed elements.
    #[error(
        "axis 0 has an extent of {extent}; it must be a multiple of {multiple} for elements of {element}"
    )]
    PackedExtent {
        /// The extent.
        extent: u64,
        /// The required alignment.
        multiple: u64,
        /// The elements' type.
        element: &'static str,
    },
    /// A stride that is not aligned.
    #[error(
        "axis {axis} has a stride of {stride} bytes; it must be a multiple of {multiple}{}: pad the rows to {}",
        because(.why), .stride.next_multiple_of(*.multiple)
    )]
    StrideMultiple {
        /// The axis.
        axis: usize,
        /// Its stride in bytes.
        stride: u64,
        /// The required alignment.
        multiple: u64,
        /// The reason.
        why: &'static str,
    },
    /// A stride that exceeds 40 bits.
    #[error("axis {axis} has a stride of {stride} bytes; it must be less than 2^40")]
    StrideRange {
        /// The axis.
        axis: usize,
        /// Its stride in bytes.
        stride: u64,
    },
    /// A box extent out of range.
    #[error(
        "the box has an extent of {extent} along axis {axis}; it must be from 1 to {MAX_BOX_EXTENT}: take several boxes"
    )]
    BoxExtent {
        /// The axis.
        axis: usize,
        /// The box's extent.
        extent: u32,
    },
    /// A row of the box that is not a multiple of 16 bytes.
    #[error(
        "the box's rows have {bytes} bytes ({count} elements of {element} along axis 0); they must be a multiple of 16 bytes, \
         which is {} elements", 128 / .bits
    )]
    RowMultiple {
        /// Bytes of a row.
        bytes: u64,
        /// Elements of a row.
        count: u32,
        /// The elements' type.
        element: &'static str,
        /// Bits of an element.
        bits: u32,
    },
    /// A row of the box that exceeds the swizzle span.
    #[error(
        "the box's rows have {bytes} bytes; the {span}-byte swizzle holds rows of at most {span} bytes, which is {} elements of \
         {element}", .span * 8 / .bits
    )]
    SwizzleSpan {
        /// Bytes of a row.
        bytes: u64,
        /// The swizzle's span.
        span: u32,
        /// The elements' type.
        element: &'static str,
        /// Bits of an element.
        bits: u32,
    },
    /// A row of padded elements of the wrong length.
    #[error("the box has {count} elements along axis 0; it must have 128 of {element}")]
    PaddedRow {
        /// Elements of a row.
        count: u32,
        /// The elements' type.
        element: &'static str,
    },
    /// An element stride out of range.
    #[error("axis {axis} has an element stride of {step}; it must be from 1 to 8")]
    ElementStride {
        /// The axis.
        axis: usize,
        /// The stride in elements.
        step: u32,
    },
    /// An interleave of a type that does not support it.
    #[error("elements of {element} cannot be interleaved")]
    InterleaveElement {
        /// The elements' type.
        element: &'static str,
    },
    /// A swizzle that the type does not support.
    #[error("elements of {element} take no swizzle, or a 128-byte one of 16- or 32-byte units{}", .more)]
    SwizzleElement {
        /// The elements' type.
        element: &'static str,
        /// Other legal values.
        more: &'static str,
    },
    /// A NaN fill for a type without NaN.
    #[error("{element} has no NaN to fill with; fill with zeros, or use a float of 16 bits or more")]
    FillElement {
        /// The elements' type.
        element: &'static str,
    },
    /// A corner of the bounding box out of range.
    #[error(
        "the {which} corner is {offset} along axis {axis}; of a tensor of {rank} axes it must be from {least} to {most}"
    )]
    Corner {
        /// Lower or upper.
        which: &'static str,
        /// The axis.
        axis: usize,
        /// The offset.
        offset: i32,
        /// Axes of the tensor.
        rank: usize,
        /// The smallest legal offset.
        least: i32,
        /// The largest legal offset.
        most: i32,
    },
    /// The bounding box is empty.
    #[error(
        "the bounding box is empty along axis {axis}: its corners leave {pixels} of the tensor's {extent}; lower the lower or \
         raise the upper corner"
    )]
    EmptyBounds {
        /// The axis.
        axis: usize,
        /// Pixels left.
        pixels: i64,
        /// Pixels of the tensor.
        extent: u64,
    },
    /// A pixel axis of 2^32 elements.
    #[error("axis {axis} has an extent of 2^32; an axis of im2col's pixels must be shorter")]
    PixelExtent {
        /// The axis.
        axis: usize,
    },
    /// The channels of a copy out of range.
    #[error("a copy takes {channels} channels of a pixel; it must be from 1 to {MAX_BOX_EXTENT}")]
    Channels {
        /// Channels given.
        channels: u32,
    },
    /// A copy larger than shared memory.
    #[error(
        "a copy takes {bytes} bytes of shared memory, and a CTA has at most {most}: take several smaller boxes"
    )]
    TooLarge {
        /// Bytes of a copy.
        bytes: u64,
        /// Bytes of a CTA.
        most: u64,
    },
    /// A feature of later GPUs.
    #[error("{what} need compute capability {}.{}, and this is {}.{}", .needed.0, .needed.1, .given.0, .given.1)]
    Capability {
        /// The feature.
        what: String,
        /// The first compute capability that has it.
        needed: (u32, u32),
        /// The compute capability given.
        given: (u32, u32),
    },
    /// The pixels of a copy out of range.
    #[error("a copy takes {pixels} pixels; it must be from 1 to 1024")]
    Pixels {
        /// Pixels given.
        pixels: u32,
    },
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}

type Checked = Result<(), TensorMapError>;

impl Description {
    /// Checks the description against the rules, in the order of its fields.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Checked {
        self.check_lists()?;
        self.check_tensor()?;
        self.check_modes()?;
        match &self.access {
            Access::Tiled { box_extents } => self.check_box(box_extents),
            Access::Im2col { lower, upper, channels, pixels } => {
                self.check_bounds(lower, upper)?;
                if !(1..=MAX_BOX_EXTENT).contains(channels) {
                    return Err(TensorMapError::Channels { channels: *channels });
                }
                if !(1..=1024).contains(pixels) {
                    return Err(TensorMapError::Pixels { pixels: *pixels });
                }
                self.check_row(*channels)
            }
        }
    }

    /// Checks the description against the features of a compute capability.
    ///
    /// # Errors
    /// If it needs a later compute capability.
    pub fn check_on(&self, capability: &Capability) -> Checked {
        let (given, needed) = (capability.compute_capability, self.needs());
        if given >= needed {
            let bytes = (self.row_bytes() * self.rows()).max(self.box_bytes());
            let most = u64::from(capability.shared_bytes_per_cta_opt_in);
            return if bytes > most { Err(TensorMapError::TooLarge { bytes, most }) } else { Ok(()) };
        }
        let element = self.element.name();
        let what = match needed {
            (9, 0) => "tensor maps".to_owned(),
            _ if self.element.is_packed() => format!("tensor maps of {element}"),
            _ => "swizzles of units wider than 16 bytes".to_owned(),
        };
        Err(TensorMapError::Capability { what, needed, given })
    }

    /// Bytes of the elements of the box, as the driver counts them.
    fn box_bytes(&self) -> u64 {
        let elements: u64 = match &self.access {
            Access::Tiled { box_extents } => {
                let steps = self.element_strides.iter().enumerate().map(|(axis, &step)| match axis {
                    0 if self.interleave == Interleave::None => 1,
                    _ => step,
                });
                box_extents.iter().zip(steps).map(|(extent, step)| u64::from(extent.div_ceil(step))).product()
            }
            Access::Im2col { channels, pixels, .. } => u64::from(*channels) * u64::from(*pixels),
        };
        elements * u64::from(self.element.shared_bits()) / 8
    }

    /// The first compute capability that supports the tensor map (measured on H200: it refuses
    /// packed types and units wider than 16 bytes).
    fn needs(&self) -> (u32, u32) {
        let is_wider = matches!(
            self.swizzle,
            Swizzle::Bytes128Atom32 | Swizzle::Bytes128Atom32Flip8 | Swizzle::Bytes128Atom64
        );
        if is_wider || self.element.is_packed() { (10, 0) } else { (9, 0) }
    }

    fn check_lists(&self) -> Checked {
        let rank = self.rank();
        let is_im2col = matches!(self.access, Access::Im2col { .. });
        let refuse = |legal| Err(TensorMapError::Rank { rank, legal });
        if rank == 0 || rank > MOST_AXES {
            return refuse("it must have 1 to 5");
        }
        if rank < 3 && is_im2col {
            return refuse("im2col needs 3 to 5: channels, one to three axes of pixels, and images");
        }
        if rank < 3 && self.interleave != Interleave::None {
            return refuse("an interleaved tensor needs 3 to 5");
        }
        let length = |what, expected, given| {
            if expected == given {
                Ok(())
            } else {
                Err(TensorMapError::Length { what, rank, expected, given })
            }
        };
        length("strides (one for each axis but the first)", rank - 1, self.strides.len())?;
        length("element strides", rank, self.element_strides.len())?;
        match &self.access {
            Access::Tiled { box_extents } => length("box extents", rank, box_extents.len()),
            Access::Im2col { lower, upper, .. } => {
                length("offsets of the lower corner", rank - 2, lower.len())?;
                length("offsets of the upper corner", rank - 2, upper.len())
            }
        }
    }

    /// The tensor in global memory.
    fn check_tensor(&self) -> Checked {
        let element = self.element.name();
        let (align, why) = match (self.interleave, self.element.is_padded()) {
            (Interleave::Bytes32, _) => (32, "32-byte interleave"),
            (_, true) => (32, "padded elements"),
            _ => (16, ""),
        };
        if !self.address.is_multiple_of(align) {
            return Err(TensorMapError::Address { address: self.address, align, why });
        }
        for (axis, &extent) in self.extents.iter().enumerate() {
            if extent == 0 || extent > 1 << 32 {
                return Err(TensorMapError::Extent { axis, extent });
            }
        }
        let multiple = match self.element {
            ElementType::B4x16 => 2,
            ElementType::B4x16P64 | ElementType::B6x16P32 => 128,
            _ => 1,
        };
        let extent = self.extents[0];
        if !extent.is_multiple_of(multiple) {
            return Err(TensorMapError::PackedExtent { extent, multiple, element });
        }
        for (index, &stride) in self.strides.iter().enumerate() {
            let axis = index + 1;
            if !stride.is_multiple_of(align) {
                return Err(TensorMapError::StrideMultiple { axis, stride, multiple: align, why });
            }
            if stride >= 1 << 40 {
                return Err(TensorMapError::StrideRange { axis, stride });
            }
        }
        for (axis, &step) in self.element_strides.iter().enumerate() {
            if !(1..=8).contains(&step) {
                return Err(TensorMapError::ElementStride { axis, step });
            }
        }
        Ok(())
    }

    /// Rules between fields, independent of the extents. The documentation requires the 32-byte
    /// swizzle for the 32-byte interleave; the driver accepts any, and an H200 applies it.
    fn check_modes(&self) -> Checked {
        let element = self.element.name();
        if self.element.is_packed() && self.interleave != Interleave::None {
            return Err(TensorMapError::InterleaveElement { element });
        }
        let (is_legal, more) = match self.element {
            ElementType::B4x16P64 => {
                (matches!(self.swizzle, Swizzle::None | Swizzle::Bytes128 | Swizzle::Bytes128Atom32), "")
            }
            ElementType::B6x16P32 => (
                !matches!(self.swizzle, Swizzle::Bytes32 | Swizzle::Bytes64 | Swizzle::Bytes128Atom32Flip8),
                ", or, for stores, of 64-byte units",
            ),
            _ => (true, ""),
        };
        if !is_legal {
            return Err(TensorMapError::SwizzleElement { element, more });
        }
        if self.fill == Fill::Nan && !self.element.is_float() {
            return Err(TensorMapError::FillElement { element });
        }
        Ok(())
    }

    fn check_box(&self, box_extents: &[u32]) -> Checked {
        for (axis, &extent) in box_extents.iter().enumerate() {
            if !(1..=MAX_BOX_EXTENT).contains(&extent) {
                return Err(TensorMapError::BoxExtent { axis, extent });
            }
        }
        self.check_row(box_extents[0])
    }

    /// The rules of a row of `count` elements along axis 0.
    fn check_row(&self, count: u32) -> Checked {
        let element = self.element.name();
        if self.element.is_padded() && count != 128 {
            return Err(TensorMapError::PaddedRow { count, element });
        }
        let bits = self.element.shared_bits();
        let bytes = u64::from(count) * u64::from(bits) / 8;
        if !(count * bits).is_multiple_of(128) {
            return Err(TensorMapError::RowMultiple { bytes, count, element, bits });
        }
        match self.swizzle.span_bytes() {
            _ if self.interleave != Interleave::None => Ok(()),
            Some(span) if bytes > u64::from(span) => {
                Err(TensorMapError::SwizzleSpan { bytes, span, element, bits })
            }
            _ => Ok(()),
        }
    }

    fn check_bounds(&self, lower: &[i32], upper: &[i32]) -> Checked {
        let rank = self.rank();
        // 16 bits for one axis of pixels, 8 each for two, 5 each for three.
        let most = match rank {
            3 => (1 << 15) - 1,
            4 => (1 << 7) - 1,
            _ => (1 << 4) - 1,
        };
        let least = -most - 1;
        for (which, corner) in [("lower", lower), ("upper", upper)] {
            for (index, &offset) in corner.iter().enumerate() {
                if offset < least || offset > most {
                    let axis = self.first_pixel_axis() + index;
                    return Err(TensorMapError::Corner { which, axis, offset, rank, least, most });
                }
            }
        }
        let first = self.first_pixel_axis();
        for (index, (&lower, &upper)) in lower.iter().zip(upper).enumerate() {
            let (axis, extent) = (first + index, self.extents[first + index]);
            let pixels = extent as i64 + i64::from(upper) - i64::from(lower);
            if extent == 1 << 32 {
                return Err(TensorMapError::PixelExtent { axis });
            }
            if pixels <= 0 {
                return Err(TensorMapError::EmptyBounds { axis, pixels, extent });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;

    fn tiled() -> Description {
        Description::row_major(ElementType::F16, 0x1000, &[8, 64, 128], &[2, 8, 64])
    }

    fn im2col() -> Description {
        let access = Access::Im2col { lower: vec![-1, -1], upper: vec![-1, -1], channels: 64, pixels: 128 };
        Description { access, ..Description::row_major(ElementType::F16, 0x1000, &[2, 16, 16, 128], &[]) }
    }

    fn refused(map: Description, change: impl Fn(&mut Description)) -> String {
        assert_eq!(map.check(), Ok(()));
        let mut map = map;
        change(&mut map);
        map.check().expect_err("a rule is broken").to_string()
    }

    #[test]
    fn every_rule_of_tiles_names_itself() {
        type Change = fn(&mut Description);
        let cases: [(Change, &str); 22] = [
            (|map| map.extents.clear(), "a tensor map has 0 axes; it must have 1 to 5"),
            (|map| map.extents = vec![16; 6], "a tensor map has 6 axes"),
            (|map| map.strides.push(0), "of 3 axes needs 2 strides (one for each axis but the first), not 3"),
            (|map| map.element_strides = vec![1], "needs 3 element strides, not 1"),
            (|map| map.access = Access::Tiled { box_extents: vec![8] }, "needs 3 box extents, not 1"),
            (|map| map.address += 8, "starts at 0x1008, which must be a multiple of 16 bytes"),
            (|map| map.extents[2] = 0, "axis 2 has an extent of 0; it must be from 1 to 2^32"),
            (|map| map.extents[1] = (1 << 32) + 1, "axis 1 has an extent of 4294967297"),
            (
                |map| map.strides[0] = 258,
                "axis 1 has a stride of 258 bytes; it must be a multiple of 16: pad the rows to 272",
            ),
            (
                |map| map.strides[1] = 1 << 40,
                "axis 2 has a stride of 1099511627776 bytes; it must be less than 2^40",
            ),
            (
                |map| map.access = Access::Tiled { box_extents: vec![64, 257, 1] },
                "257 along axis 1; it must be from 1 to 256",
            ),
            (|map| map.access = Access::Tiled { box_extents: vec![64, 1, 0] }, "an extent of 0 along axis 2"),
            (
                |map| map.access = Access::Tiled { box_extents: vec![12, 1, 1] },
                "24 bytes (12 elements of f16 along axis 0); they must be a multiple of 16 bytes, which is 8 elements",
            ),
            (
                |map| map.swizzle = Swizzle::Bytes32,
                "have 128 bytes; the 32-byte swizzle holds rows of at most 32 bytes, which is 16",
            ),
            (|map| map.element_strides[1] = 9, "axis 1 has an element stride of 9; it must be from 1 to 8"),
            (|map| map.element_strides[0] = 0, "axis 0 has an element stride of 0"),
            (
                |map| (map.element, map.interleave) = (ElementType::B4x16, Interleave::Bytes16),
                "elements of b4x16 cannot be interleaved",
            ),
            (|map| (map.element, map.fill) = (ElementType::U16, Fill::Nan), "u16 has no NaN to fill with"),
            (
                |map| map.element = ElementType::B4x16P64,
                "the box has 64 elements along axis 0; it must have 128",
            ),
            (
                |map| (map.element, map.extents[0]) = (ElementType::B6x16P32, 192),
                "extent of 192; it must be a multiple of 128 for elements of b6x16_p32",
            ),
            (
                |map| (map.element, map.address) = (ElementType::B6x16P32, 0x1010),
                "multiple of 32 bytes (padded elements)",
            ),
            (
                |map| (map.element, map.swizzle) = (ElementType::B6x16P32, Swizzle::Bytes64),
                "take no swizzle, or a 128-byte one of 16- or 32-byte units, or, for stores, of 64-byte units",
            ),
        ];
        for (change, words) in cases {
            let message = refused(tiled(), change);
            assert!(message.contains(words), "{message}");
        }
        let flat = Description::row_major(ElementType::F16, 0, &[64, 128], &[8, 64]);
        assert!(refused(flat, |map| map.interleave = Interleave::Bytes16).contains("needs 3 to 5"));
    }

    #[test]
    fn every_rule_of_im2col_names_itself() {
        let with = |change: fn(&mut Vec<i32>, &mut Vec<i32>, &mut u32, &mut u32)| {
            refused(im2col(), |map| {
                if let Access::Im2col { lower, upper, channels, pixels } = &mut map.access {
                    change(lower, upper, channels, pixels);
                }
            })
        };
        let flat = refused(im2col(), |map| {
            map.extents.truncate(2);
            map.strides.truncate(1);
        });
        assert!(flat.contains("im2col needs 3 to 5"), "{flat}");
        let cases = [
            (
                with(|lower, _, _, _| lower[1] = -129),
                "lower corner is -129 along axis 2; of a tensor of 4 axes it must be from -128 to 127",
            ),
            (with(|_, upper, _, _| upper[0] = 128), "upper corner is 128 along axis 1"),
            (
                with(|lower, _, _, _| lower[0] = 15),
                "empty along axis 1: its corners leave 0 of the tensor's 16",
            ),
            (with(|lower, _, _, _| lower.truncate(1)), "needs 2 offsets of the lower corner, not 1"),
            (with(|_, _, channels, _| *channels = 257), "257 channels of a pixel; it must be from 1 to 256"),
            (with(|_, _, channels, _| *channels = 4), "8 bytes (4 elements of f16"),
            (with(|_, _, _, pixels| *pixels = 1025), "1025 pixels; it must be from 1 to 1024"),
        ];
        for (message, words) in cases {
            assert!(message.contains(words), "{message}");
        }
    }
}
