//! Which bytes of a tensor one copy takes, row by row.

use std::ops::Range;

use warpwright_arch::tensor_map::{Access, Description, ElementType, Fill, MOST_AXES, Swizzle};

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
    /// What two neighbouring bytes outside the tensor are filled with.
    pub(crate) fill: [u8; 2],
    pub(crate) is_im2col: bool,
    rank: usize,
    address: u64,
    /// By axis; those the tensor lacks have an extent of one.
    extents: [i64; MOST_AXES],
    strides: [u64; MOST_AXES],
    counts: [u32; MOST_AXES],
    steps: [i64; MOST_AXES],
    rows: u32,
    /// The first and the last pixel of im2col's bounding box, by axis.
    lower: [i64; MOST_AXES],
    upper: [i64; MOST_AXES],
}

/// Where a copy starts in its tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// By axis.
    pub(crate) coordinates: [i32; MOST_AXES],
    /// Added to the pixels of im2col, from axis 1 on.
    pub(crate) offsets: [u16; 3],
    /// Four rows by name instead of a box: the coordinates are the column, then the rows (`.tile::gather4`,
    /// `.tile::scatter4`).
    pub(crate) is_four_rows: bool,
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
    /// Where the inside part is in global memory.
    pub(crate) global: u64,
}

impl Tensor {
    pub(crate) fn new(map: &Description) -> Self {
        fn padded<T: Copy>(values: impl IntoIterator<Item = T>, rest: T) -> [T; MOST_AXES] {
            let mut values = values.into_iter();
            std::array::from_fn(|_| values.next().unwrap_or(rest))
        }
        let extents = padded(map.extents.iter().map(|&extent| extent as i64), 1);
        let (mut lower, mut upper) = ([0; MOST_AXES], extents.map(|extent| extent - 1));
        if let Access::Im2col { lower: first, upper: last, .. } = &map.access {
            for (index, (&first, &last)) in first.iter().zip(last).enumerate() {
                lower[index + 1] = i64::from(first);
                upper[index + 1] += i64::from(last);
            }
        }
        let counts = match &map.access {
            Access::Tiled { .. } => padded(map.box_counts(), 1),
            Access::Im2col { channels, .. } => padded([*channels], 1),
        };
        Self {
            element: map.element,
            swizzle: map.swizzle,
            row_bytes: map.row_bytes() as u32,
            row_pitch: map.row_pitch() as u32,
            fill: if map.fill == Fill::Nan { NAN_FILL } else { [0; 2] },
            is_im2col: matches!(map.access, Access::Im2col { .. }),
            rank: map.rank(),
            address: map.address,
            extents,
            strides: padded(std::iter::once(0).chain(map.strides.iter().copied()), 0),
            counts,
            steps: padded(map.element_strides.iter().map(|&step| i64::from(step)), 1),
            rows: map.rows() as u32,
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
        self.row_bytes * self.rows(start)
    }

    /// The bytes of shared memory a copy takes.
    pub(crate) fn shared_bytes(&self, start: &Start) -> u32 {
        self.row_pitch * self.rows(start)
    }

    /// What the hardware traps on, in words.
    pub(crate) fn refuses(&self, start: &Start) -> Option<String> {
        let first = start.coordinates[0];
        let bits = i64::from(first) * i64::from(self.element.bits());
        let multiple = if self.element.is_padded() { 128 * self.element.bits() } else { 128 };
        if bits % i64::from(multiple) != 0 {
            return Some(format!(
                "The copy starts at element {first} of axis 0; it must start at a multiple of {}.",
                multiple / self.element.bits()
            ));
        }
        if !self.is_im2col {
            return None;
        }
        (1..self.rank - 1).find_map(|axis| {
            let (at, lower, upper) = (start.coordinates[axis], self.lower[axis], self.upper[axis]);
            (!(lower..=upper).contains(&i64::from(at))).then(|| {
                format!(
                    "The copy starts at pixel {at} of axis {axis}, outside the tensor map's bounding box, which has pixels \
                     {lower} to {upper} there."
                )
            })
        })
    }

    /// Visits the rows of a range, in order.
    pub(crate) fn for_rows(&self, start: &Start, rows: Range<u32>, mut visit: impl FnMut(Row)) {
        if start.is_four_rows {
            for index in rows {
                let mut at = [0; MOST_AXES];
                (at[0], at[1]) = (start.coordinates[0].into(), start.coordinates[1 + index as usize].into());
                visit(self.row(index, &at));
            }
        } else if self.is_im2col {
            self.for_pixels(start, rows, visit);
        } else {
            let mut odometer = [0u32; MOST_AXES];
            let mut left = rows.start;
            for axis in 1..self.rank {
                odometer[axis] = left % self.counts[axis];
                left /= self.counts[axis];
            }
            for index in rows {
                let at = std::array::from_fn(|axis| {
                    i64::from(start.coordinates[axis]) + i64::from(odometer[axis]) * self.steps[axis]
                });
                visit(self.row(index, &at));
                for axis in 1..self.rank {
                    odometer[axis] += 1;
                    if odometer[axis] < self.counts[axis] {
                        break;
                    }
                    odometer[axis] = 0;
                }
            }
        }
    }

    /// Pixels follow each other inside the bounding box, the innermost axis first; past its last pixel an axis starts anew
    /// at its first, and the next one goes on.
    fn for_pixels(&self, start: &Start, rows: Range<u32>, mut visit: impl FnMut(Row)) {
        let mut pixel = start.coordinates.map(i64::from);
        let images = self.rank - 1;
        for index in 0..rows.end {
            if index >= rows.start {
                let mut at = pixel;
                for (axis, offset) in (1..images).zip(start.offsets) {
                    at[axis] += i64::from(offset);
                }
                visit(self.row(index, &at));
            }
            for axis in 1..=images {
                pixel[axis] += self.steps[axis];
                if axis == images || pixel[axis] <= self.upper[axis] {
                    break;
                }
                pixel[axis] = self.lower[axis];
            }
        }
    }

    fn row(&self, index: u32, at: &[i64; MOST_AXES]) -> Row {
        let count = i64::from(self.counts[0]);
        let mut inside = (-at[0]).clamp(0, count)..(self.extents[0] - at[0]).clamp(0, count);
        if (1..self.rank).any(|axis| !(0..self.extents[axis]).contains(&at[axis])) || inside.is_empty() {
            inside = 0..0;
        }
        let first = (at[0] + inside.start) * i64::from(self.element.bits()) / 8;
        let mut global = self.address.wrapping_add_signed(first);
        for axis in 1..self.rank {
            global = global.wrapping_add((at[axis] as u64).wrapping_mul(self.strides[axis]));
        }
        let bytes = |elements: i64| (elements * i64::from(self.element.shared_bits()) / 8) as u32;
        Row { index, bytes: self.row_bytes, inside: bytes(inside.start)..bytes(inside.end), global }
    }
}
