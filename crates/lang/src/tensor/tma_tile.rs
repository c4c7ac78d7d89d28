//! Tiles that TMA copies between global and shared memory. PTX ISA, "Tensors"; "Swizzling modes".
//!
//! ```text
//! a tile (mn 128, k 64) of bf16, k contiguous:          in shared memory: rows of 128 bytes, whose 16-byte chunks are
//!                                                       permuted so that one chunk of eight rows lies in eight bank groups
//!        k ->                                             row 0   0 1 2 3 4 5 6 7
//!   mn   +---------+  one box: 64 elements (128 bytes),   row 1   1 0 3 2 5 4 7 6
//!   |    |         |  the swizzle's span, by 128 rows     row 2   2 3 0 1 6 7 4 5
//!   v    +---------+                                      ...
//! ```
//!
//! A [`TmaTile`] is a plain value: it gives the kernel its shared-memory layout, and the host the
//! tensor map.

use warpwright_arch::DataType;
use warpwright_arch::tensor_map::{ElementType, MAX_BOX_EXTENT, Requirement};
use warpwright_layout::atom::{Major, SharedSwizzle, SharedTile};
use warpwright_layout::{ComposedLayout, Error, Layout};

use crate::element::Element;
use crate::tensor_map_boxes::{Boxes, element_format, element_type, map_swizzle};

/// Elements of a box along k whose elements TMA unpacks (CUDA driver API,
/// `cuTensorMapEncodeTiled`).
const UNPACKED_RUN: u32 = 128;

/// A tile (mn, k) of a matrix in shared memory, its boxes and its swizzle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmaTile {
    shape: (u32, u32),
    element: ElementType,
    /// The name of the elements, if several types share the one of the tensor map.
    format: Option<&'static str>,
    pub(super) atom: SharedTile,
    /// Elements of a box along the contiguous mode.
    run: u32,
    slices: u32,
    parts: u32,
}

/// The first element of a box in its tile: along the contiguous mode and the other, and its offset
/// in bytes.
pub(super) struct BoxOrigin {
    pub(super) inner: u32,
    pub(super) outer: u32,
    pub(super) bytes: u32,
}

impl TmaTile {
    /// A tile (mn, k) of `T` in which `major` is contiguous, with the widest swizzle that its
    /// extents allow.
    ///
    /// # Errors
    /// If the contiguous extent is not a multiple of 16 bytes, or the other is not a multiple of 8
    /// rows, or tensor maps do not support the element type.
    pub fn new<T: Element>(shape: (u32, u32), major: Major) -> Result<Self, Error> {
        let extents = (i64::from(shape.0), i64::from(shape.1));
        Self::of_atom::<T>(shape, SharedTile::widest(major, 8 * i64::from(T::BYTES), extents)?)
    }

    /// The same with a narrower swizzle than the widest. Its boxes are as wide as the swizzle's span:
    /// 16 bytes without a swizzle, where 8 rows of 16 bytes are contiguous (a core matrix).
    ///
    /// # Errors
    /// If the contiguous extent is not a multiple of the span, or as [`new`](Self::new).
    pub fn with_swizzle<T: Element>(
        shape: (u32, u32),
        major: Major,
        swizzle: SharedSwizzle,
    ) -> Result<Self, Error> {
        Self::of_atom::<T>(shape, SharedTile { major, swizzle, element_bits: 8 * i64::from(T::BYTES) })
    }

    fn of_atom<T: Element>(shape: (u32, u32), atom: SharedTile) -> Result<Self, Error> {
        let element = element::<T>()?;
        atom.fill(shape)?;
        let run = (atom.swizzle.span_bytes() * 8 / atom.element_bits) as u32;
        Ok(Self { shape, element, format: element_format::<T>(), atom, run, slices: 1, parts: 1 })
    }

    /// A tile (mn, k) of floats of 4 or 6 bits, k contiguous, that TMA unpacks: in global memory the
    /// elements are packed, and in shared memory 16 of them are at the start of 16 bytes, as
    /// `tcgen05.mma` reads them beside elements of other types. In a kernel it is a tile of `u8`.
    ///
    /// ```
    /// use warpwright_arch::DataType;
    /// use warpwright_lang::tensor::TmaTile;
    ///
    /// let tile = TmaTile::unpacked((128, 128), DataType::E2m3)?;
    /// assert_eq!((tile.copied_bytes(), tile.bytes()), (128 * 96, 128 * 128));
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the type has other than 4 or 6 bits, k is not a multiple of 128, or mn is not a multiple of 8.
    pub fn unpacked(shape: (u32, u32), data_type: DataType) -> Result<Self, Error> {
        let element = match data_type.bits() {
            4 => ElementType::B4x16P64,
            6 => ElementType::B6x16P32,
            _ => return Err(not_unpacked(shape, data_type)),
        };
        if !shape.1.is_multiple_of(UNPACKED_RUN) {
            return Err(not_unpacked(shape, data_type));
        }
        Ok(Self { element, ..Self::new::<u8>(shape, Major::K)? })
    }

    /// A dense tile (mn, k) of `T` in which `major` is contiguous: one box, not swizzled. Threads
    /// read it; `wgmma` cannot.
    ///
    /// # Errors
    /// If an extent exceeds 256 elements, or the tile is not a multiple of 128 bytes, the alignment
    /// of the next stage, or tensor maps do not support the element type.
    pub fn dense<T: Element>(shape: (u32, u32), major: Major) -> Result<Self, Error> {
        let element_bits = 8 * i64::from(T::BYTES);
        let atom = SharedTile { major, swizzle: SharedSwizzle::None, element_bits };
        let run = if major == Major::K { shape.1 } else { shape.0 };
        let (element, format) = (element::<T>()?, element_format::<T>());
        let tile = Self { shape, element, format, atom, run, slices: 1, parts: 1 };
        let fits = |extent| (1..=MAX_BOX_EXTENT).contains(&extent);
        if !(fits(shape.0) && fits(shape.1) && tile.bytes().is_multiple_of(tile.alignment())) {
            return Err(Error::BadArgument {
                what: "a dense tile",
                given: format!("({}, {}) elements of {element_bits} bits", shape.0, shape.1),
                legal: format!(
                    "at most {MAX_BOX_EXTENT} elements along each mode, and a multiple of {} bytes",
                    tile.alignment()
                ),
            });
        }
        Ok(tile)
    }

    /// The tile with `ctas` slices: each of `ctas` CTAs of a cluster loads one.
    pub fn sliced(self, ctas: u32) -> Self {
        Self { slices: ctas, ..self }
    }

    /// The tile in `count` equal parts along the mode that is not contiguous: each has its own
    /// position in global memory. See
    /// [`StagedOperand::load_parts`](crate::tensor::StagedOperand::load_parts).
    pub fn in_parts(self, count: u32) -> Self {
        Self { parts: count, ..self }
    }

    /// The extents (mn, k).
    pub fn shape(&self) -> (u32, u32) {
        self.shape
    }

    /// The contiguous mode.
    pub fn major(&self) -> Major {
        self.atom.major
    }

    /// The swizzle.
    pub fn swizzle(&self) -> SharedSwizzle {
        self.atom.swizzle
    }

    /// CTAs that load a slice each.
    pub(super) fn slices(&self) -> u32 {
        self.slices
    }

    /// Parts that have their own positions in global memory.
    pub(super) fn parts(&self) -> u32 {
        self.parts
    }

    /// The extents along the contiguous mode and the other.
    fn inner_and_outer(&self) -> (u32, u32) {
        match self.atom.major {
            Major::K => (self.shape.1, self.shape.0),
            Major::Mn => self.shape,
        }
    }

    /// The extent of a slice along the mode that is not contiguous.
    pub(super) fn slice_extent(&self) -> u32 {
        self.inner_and_outer().1 / self.slices
    }

    /// The extent of a part of a slice along the mode that is not contiguous.
    pub(super) fn part_extent(&self) -> u32 {
        self.slice_extent() / self.parts
    }

    /// The extents of a box in elements: along the contiguous mode, where it is the swizzle's span
    /// if there is one, and along the other.
    pub fn box_extents(&self) -> (u32, u32) {
        let rows = self.part_extent();
        let boxes = (rows.div_ceil(MAX_BOX_EXTENT)..=rows).find(|boxes| rows.is_multiple_of(*boxes));
        (self.run, rows / boxes.unwrap_or(1))
    }

    /// The type of the elements.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// What the copies of the tile need of a tensor map.
    pub fn requirement(&self) -> Requirement {
        let (inner, outer) = self.box_extents();
        let boxes = Requirement::tiled(self.element, &[inner, outer]).named(self.format);
        boxes.swizzled(map_swizzle(self.atom.swizzle))
    }

    /// What [`gather4`](crate::tma::gather4) and [`scatter4`](crate::tma::scatter4) need of a tensor
    /// map to copy rows of the tile: boxes of one row.
    pub fn single_rows(&self) -> Requirement {
        let boxes = Requirement::tiled(self.element, &[self.run, 1]).named(self.format);
        boxes.swizzled(map_swizzle(self.atom.swizzle))
    }

    /// The size of the tile in shared memory, in bytes.
    pub fn bytes(&self) -> u32 {
        self.shape.0 * self.shape.1 * self.atom.element_bits as u32 / 8
    }

    /// The bytes that its copies count on an mbarrier: those of the elements, without what
    /// unpacking leaves between them.
    pub fn copied_bytes(&self) -> u32 {
        self.shape.0 * self.shape.1 * self.element.bits() / 8
    }

    /// The alignment of the tile in shared memory, in bytes: the swizzle's period.
    pub(super) fn alignment(&self) -> u32 {
        8 * self.atom.swizzle.span_bytes().max(16) as u32
    }

    /// The layout of `stages` tiles: (mn, k, stages).
    ///
    /// # Errors
    /// None for a tile that [`TmaTile::new`] or [`TmaTile::dense`] made.
    pub fn layout(&self, stages: u32) -> Result<ComposedLayout, Error> {
        let (rows, columns) = self.shape;
        let stages = Layout::new(stages, rows * columns)?;
        let tile = if self.run == self.inner_and_outer().0 && self.atom.swizzle == SharedSwizzle::None {
            let strides = if self.atom.major == Major::K { (columns, 1) } else { (1, rows) };
            Layout::new(self.shape, strides)?.into()
        } else {
            self.atom.fill(self.shape)?
        };
        tile.map_inner(|tile| Ok(Layout::of_modes([tile.mode(0)?, tile.mode(1)?, stages])))
    }

    /// The boxes of one slice.
    pub(super) fn boxes(&self) -> Vec<BoxOrigin> {
        let (inner_extent, outer_extent) = self.inner_and_outer();
        let (span, rows) = self.box_extents();
        let row_bytes = self.run * self.atom.element_bits as u32 / 8;
        let mut boxes = Vec::new();
        for inner in (0..inner_extent).step_by(span as usize) {
            for outer in (0..self.slice_extent()).step_by(rows as usize) {
                boxes.push(BoxOrigin {
                    inner,
                    outer,
                    bytes: (inner / span * outer_extent + outer) * row_bytes,
                });
            }
        }
        boxes
    }
}

/// Why TMA does not unpack a tile.
fn not_unpacked((mn, k): (u32, u32), data_type: DataType) -> Error {
    Error::BadArgument {
        what: "a tile that TMA unpacks",
        given: format!("({mn}, {k}) elements of {data_type}"),
        legal: format!("elements of 4 or 6 bits, and a multiple of {UNPACKED_RUN} along k"),
    }
}

/// The tensor-map type of the elements.
fn element<T: Element>() -> Result<ElementType, Error> {
    element_type::<T>().ok_or_else(|| Error::BadArgument {
        what: "a tile that TMA copies",
        given: format!("elements of {}", T::NAME),
        legal: "elements of 1, 2, 4 or 8 bytes".to_owned(),
    })
}

impl Boxes for TmaTile {
    fn requirement(&self) -> Result<Requirement, Error> {
        Ok(TmaTile::requirement(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::bf16;

    fn tiles() -> Vec<TmaTile> {
        let mut tiles = Vec::new();
        for major in [Major::K, Major::Mn] {
            for shape in [(128, 64), (256, 64), (192, 32), (64, 128), (320, 64)] {
                tiles.push(TmaTile::new::<bf16>(shape, major).unwrap());
                tiles.push(TmaTile::new::<f32>(shape, major).unwrap());
                tiles.push(TmaTile::new::<u8>(shape, major).unwrap());
                tiles.extend(TmaTile::unpacked(shape, DataType::E2m3));
                tiles.extend(TmaTile::unpacked(shape, DataType::E2m1));
                let narrower = |swizzle| TmaTile::with_swizzle::<bf16>(shape, major, swizzle).ok();
                tiles.extend(SharedSwizzle::ALL.into_iter().filter_map(narrower));
            }
        }
        let divided: Vec<_> =
            tiles.iter().flat_map(|tile| [tile.sliced(2), tile.in_parts(2), tile.in_parts(4)]).collect();
        tiles.extend(divided);
        for shape in [(128, 1), (32, 4), (192, 3), (8, 256)] {
            tiles.push(TmaTile::dense::<f32>(shape, Major::Mn).unwrap());
            tiles.push(TmaTile::dense::<f32>(shape, Major::K).unwrap());
        }
        tiles
    }

    /// Every element of every box is where the layout says: rows as wide as the swizzle, one after
    /// another, swizzled.
    #[test]
    fn boxes_land_where_the_layout_puts_them() {
        for tile in tiles() {
            let layout = tile.layout(2).unwrap();
            let (span, rows) = tile.box_extents();
            let (inner, outer) = tile.inner_and_outer();
            let element = tile.atom.element_bits as u32 / 8;
            let mut covered = 0;
            for slice in 0..tile.slices {
                let first = slice * (outer / tile.slices);
                for origin in tile.boxes() {
                    let row_bytes = span * element;
                    let start = origin.bytes + first * row_bytes;
                    for (x, y) in (0..span).flat_map(|x| (0..rows).map(move |y| (x, y))) {
                        let (along, across) = (origin.inner + x, first + origin.outer + y);
                        assert!(along < inner && across < outer, "{tile:?} reads past itself");
                        let coordinate = match tile.major() {
                            Major::K => (across, along, 0),
                            Major::Mn => (along, across, 0),
                        };
                        let linear = i64::from(start + y * row_bytes + x * element);
                        let expected = tile.swizzle().on_bytes().apply(linear);
                        let index = layout.index(&coordinate.into()).unwrap().known().unwrap();
                        assert_eq!(index * i64::from(element), expected, "{tile:?} at {coordinate:?}");
                        covered += 1;
                    }
                }
            }
            assert_eq!(covered, inner * outer, "{tile:?} is not covered once");
        }
    }

    #[test]
    fn boxes_keep_to_what_tensor_maps_allow() {
        for tile in tiles() {
            let (span, rows) = tile.box_extents();
            let is_swizzled = tile.swizzle() != SharedSwizzle::None;
            assert!(rows <= MAX_BOX_EXTENT && span <= MAX_BOX_EXTENT);
            assert!(!is_swizzled || i64::from(span) * tile.atom.element_bits / 8 <= 128);
        }
    }

    #[test]
    fn tiles_that_tma_cannot_unpack_are_refused() {
        for (shape, data_type) in [((128, 128), DataType::E4m3), ((128, 64), DataType::E3m2)] {
            let reason = TmaTile::unpacked(shape, data_type).unwrap_err().to_string();
            assert!(reason.contains("elements of 4 or 6 bits, and a multiple of 128 along k"), "{reason}");
        }
    }

    #[test]
    fn dense_tiles_that_no_box_or_ring_holds_are_refused() {
        let refused = |shape| TmaTile::dense::<f32>(shape, Major::Mn).unwrap_err().to_string();
        for shape in [(257, 128), (32, 257), (0, 32), (8, 3)] {
            assert!(refused(shape).contains("at most 256 elements along each mode"), "{shape:?}");
        }
    }
}
