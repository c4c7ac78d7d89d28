//! The bytes of a tensor that one copy accesses, row by row.

use std::ops::Range;

use warpwright_arch::tensor_map::{Access, Description, ElementType, Fill, Interleave, MOST_AXES, Swizzle};

/// The axes of copies: an interleaved tensor has one more before its own, within a slice.
const AXES: usize = MOST_AXES + 1;

/// The bytes of a NaN fill: half words of this value, whatever the type (measured on H200).
const NAN_FILL: [u8; 2] = [0xf7, 0x7f];

/// A tensor map made ready for copies.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) element: ElementType,
    pub(crate) swizzle: Swizzle,
    /// Bytes of a row in shared memory, and from one row to the next.
    pub(crate) row_bytes: u32,
    pub(crate) row_pitch: u32,
    /// The bytes of a row that an mbarrier counts.
    transaction_row_bytes: u32,
    /// The fill value of two adjacent bytes outside the tensor.
    pub(crate) fill: [u8; 2],
    pub(crate) is_im2col: bool,
    /// It has an element stride along axis 0, which the hardware does not support; its stores then
    /// write whole 16-byte parts.
    has_ignored_step: bool,
    /// The axes of the tensor map.
    rank: usize,
    /// The index of its first axis among those of copies: 1 if it is interleaved.
    first: usize,
    address: u64,
    /// The bits of an element of axis 0, in global and in shared memory.
    bits: i64,
    shared_bits: i64,
    /// By axis; missing axes have an extent of one.
    extents: [i64; AXES],
    strides: [u64; AXES],
    counts: [u32; AXES],
    steps: [i64; AXES],
    rows: u32,
    /// The first and the last pixel of im2col's bounding box, by axis.
    lower: [i64; AXES],
    upper: [i64; AXES],
}

/// The start of a copy in its tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// By axis.
    pub(crate) coordinates: [i32; MOST_AXES],
    /// Added to the pixels of im2col, from axis 1 on.
    pub(crate) offsets: [u16; 3],
    /// Four rows by name instead of a box: the coordinates are the column, then the rows
    /// (`.tile::gather4`, `.tile::scatter4`).
    pub(crate) is_four_rows: bool,
    /// The copy writes the tensor.
    pub(crate) is_store: bool,
}

/// One row of a copy: a run along axis 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its number in the copy.
    pub(crate) index: u32,
    /// Its bytes in shared memory.
    pub(crate) bytes: u32,
    /// The part of its bytes in shared memory that is inside the tensor.
    pub(crate) inside: Range<u32>,
    /// The address of the inside part in global memory.
    pub(crate) global: u64,
}

impl Tensor {
    pub(crate) fn new(map: &Description) -> Self {
        let slice = map.interleave.slice_bytes();
        let first = usize::from(slice.is_some());
        // Values by the map's axes, rearranged to the axes of copies.
        fn placed<T: Copy>(first: usize, values: impl IntoIterator<Item = T>, rest: T) -> [T; AXES] {
            let mut values = values.into_iter();
            std::array::from_fn(|axis| if axis < first { rest } else { values.next().unwrap_or(rest) })
        }
        let extents = placed(first, map.extents.iter().map(|&extent| extent as i64), 1);
        let (mut lower, mut upper) = ([0; AXES], extents.map(|extent| extent - 1));
        let mut counts = placed(first, map.box_counts(), 1);
        if let Access::Im2col { lower: from, upper: to, channels, .. } = &map.access {
            for (axis, (&from, &to)) in (1..).zip(from.iter().zip(to)) {
                lower[axis] = i64::from(from);
                upper[axis] += i64::from(to);
            }
            counts = [1; AXES];
            counts[0] = if slice.is_some() { 1 } else { *channels };
        }
        let inner_stride = slice.map_or(0, u64::from);
        let row_bytes = slice.map_or(map.row_bytes() as u32, |slice| slice);
        Self {
            element: map.element,
            swizzle: map.swizzle,
            row_bytes,
            row_pitch: if map.interleave == Interleave::None { map.row_pitch() as u32 } else { row_bytes },
            transaction_row_bytes: slice.map_or(map.transaction_row_bytes() as u32, |slice| slice),
            fill: if map.fill == Fill::Nan { NAN_FILL } else { [0; 2] },
            is_im2col: matches!(map.access, Access::Im2col { .. }),
            has_ignored_step: slice.is_none() && map.element_strides[0] != 1,
            rank: map.rank(),
            first,
            address: map.address,
            bits: map.step_bits().into(),
            shared_bits: slice.map_or(map.element.shared_bits(), |slice| 8 * slice).into(),
            extents,
            strides: placed(first, std::iter::once(inner_stride).chain(map.strides.iter().copied()), 0),
            counts,
            steps: placed(first, map.element_strides.iter().map(|&step| i64::from(step)), 1),
            rows: (map.row_bytes() * map.rows() / u64::from(row_bytes)) as u32,
            lower,
            upper,
        }
    }

    /// How many axes it has.
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// How many rows a copy has.
    pub(crate) fn rows(&self, start: &Start) -> u32 {
        if start.is_four_rows { 4 } else { self.rows }
    }

    /// The bytes a copy counts on its mbarrier.
    pub(crate) fn bytes(&self, start: &Start) -> u32 {
        self.transaction_row_bytes * self.rows(start)
    }

    /// The bytes of shared memory of a copy.
    pub(crate) fn shared_bytes(&self, start: &Start) -> u32 {
        self.row_pitch * self.rows(start)
    }

    /// For a copy whose first coordinate the hardware traps on: where its box may start instead.
    pub(crate) fn aligned_start(&self, start: &Start) -> Option<String> {
        let at = start.coordinates[0];
        let past = (self.first == 0).then(|| at.rem_euclid(self.start_multiple()))?;
        (past != 0).then(|| {
            format!(
                "start the box at element {}, {past} before, and use its rows from there on: a box with a halo is wider \
                 than its tile by 16 bytes at least",
                at - past
            )
        })
    }

    /// What the first coordinate of a copy is a multiple of: 16 bytes.
    fn start_multiple(&self) -> i32 {
        if self.element.is_padded() { 128 } else { 128 / self.element.bits() as i32 }
    }

    /// The copies that the hardware traps on, as a message (measured on H200).
    pub(crate) fn refuses(&self, start: &Start) -> Option<String> {
        let coordinates = &start.coordinates[..self.rank];
        if self.first == 0 {
            let multiple = self.start_multiple();
            if coordinates[0] % multiple != 0 {
                let at = coordinates[0];
                return Some(format!(
                    "The copy starts at element {at} of axis 0; it must start at a multiple of {multiple}."
                ));
            }
        }
        if start.is_store
            && let Some(axis) = coordinates.iter().position(|&at| at < 0)
        {
            let at = coordinates[axis];
            return Some(format!(
                "The copy starts at element {at} of axis {axis}; one that writes the tensor must not start before it."
            ));
        }
        if !self.is_im2col {
            return None;
        }
        let outside = (1..self.images() - self.first).find(|&axis| self.upper[axis] >= self.extents[axis]);
        if start.is_store
            && let Some(axis) = outside
        {
            return Some(format!(
                "The tensor map's bounding box reaches past the tensor along axis {}; a copy that writes the tensor must not.",
                axis - self.first
            ));
        }
        (1..self.images() - self.first).find_map(|axis| {
            let (at, lower, upper) = (coordinates[axis - self.first], self.lower[axis], self.upper[axis]);
            (!(lower..=upper).contains(&i64::from(at))).then(|| {
                format!(
                    "The copy starts at pixel {at} of axis {}, outside the tensor map's bounding box, which has pixels \
                     {lower} to {upper} there.",
                    axis - self.first
                )
            })
        })
    }

    /// Visits the rows of a range, in order.
    pub(crate) fn for_rows(&self, start: &Start, rows: Range<u32>, mut visit: impl FnMut(Row)) {
        if start.is_four_rows {
            for index in rows {
                let mut at = [0; AXES];
                (at[0], at[1]) = (start.coordinates[0].into(), start.coordinates[1 + index as usize].into());
                visit(self.row(index, &at, start.is_store));
            }
        } else if self.is_im2col {
            self.for_pixels(start, rows, visit);
        } else {
            let first = self.start(start);
            let mut odometer = [0u32; AXES];
            let mut left = rows.start;
            for axis in 1..AXES {
                odometer[axis] = left % self.counts[axis];
                left /= self.counts[axis];
            }
            for index in rows {
                let at =
                    std::array::from_fn(|axis| first[axis] + i64::from(odometer[axis]) * self.steps[axis]);
                visit(self.row(index, &at, start.is_store));
                for axis in 1..AXES {
                    odometer[axis] += 1;
                    if odometer[axis] < self.counts[axis] {
                        break;
                    }
                    odometer[axis] = 0;
                }
            }
        }
    }

    /// The axis of images: the last one.
    fn images(&self) -> usize {
        self.first + self.rank - 1
    }

    /// A start's coordinates along the axes that copies walk along.
    fn start(&self, start: &Start) -> [i64; AXES] {
        std::array::from_fn(|axis| {
            axis.checked_sub(self.first)
                .and_then(|axis| start.coordinates.get(axis))
                .copied()
                .unwrap_or(0)
                .into()
        })
    }

    /// Pixels are consecutive inside the bounding box, the innermost axis first; past its last
    /// pixel an axis restarts at its first, and the next one advances. After the pixel axes come
    /// the images; the slice of an interleaved tensor, whose axis is between them, stays.
    fn for_pixels(&self, start: &Start, rows: Range<u32>, mut visit: impl FnMut(Row)) {
        let mut pixel = self.start(start);
        let (images, pixels) = (self.images(), 1..self.images() - self.first);
        for index in 0..rows.end {
            if index >= rows.start {
                let mut at = pixel;
                for (axis, offset) in pixels.clone().zip(start.offsets) {
                    at[axis] += i64::from(offset);
                }
                visit(self.row(index, &at, start.is_store));
            }
            for axis in pixels.clone().chain([images]) {
                pixel[axis] += self.steps[axis];
                if axis == images || pixel[axis] <= self.upper[axis] {
                    break;
                }
                pixel[axis] = self.lower[axis];
            }
        }
    }

    fn row(&self, index: u32, at: &[i64; AXES], is_store: bool) -> Row {
        let count = i64::from(self.counts[0]);
        let mut inside = (-at[0]).clamp(0, count)..(self.extents[0] - at[0]).clamp(0, count);
        if (1..AXES).any(|axis| !(0..self.extents[axis]).contains(&at[axis])) || inside.is_empty() {
            inside = 0..0;
        }
        let mut global = self.address.wrapping_add_signed((at[0] + inside.start) * self.bits / 8);
        for axis in 1..AXES {
            global = global.wrapping_add((at[axis] as u64).wrapping_mul(self.strides[axis]));
        }
        let bytes = |elements: i64| (elements * self.shared_bits / 8) as u32;
        let mut inside = bytes(inside.start)..bytes(inside.end);
        if is_store && self.has_ignored_step {
            // Up to 15 bytes past the tensor's end, as far as the box reaches (measured on H200).
            inside.end = inside.end.next_multiple_of(16).min(self.row_bytes);
        }
        Row { index, bytes: self.row_bytes, inside, global }
    }
}
