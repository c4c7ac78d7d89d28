//! Tiles that the tensor memory accelerator brings to shared memory and takes back. PTX ISA, "Tensors"; "Swizzling modes".
//!
//! ```text
//! a tile (mn 128, k 64) of bf16, k contiguous:          in shared memory: rows of 128 bytes, whose 16-byte pieces are
//!                                                       exchanged so that eight rows of one piece lie in eight bank groups
//!        k ->                                             row 0   0 1 2 3 4 5 6 7
//!   mn   +---------+  one box: 64 elements (128 bytes),   row 1   1 0 3 2 5 4 7 6
//!   |    |         |  the swizzle's span, by 128 rows     row 2   2 3 0 1 6 7 4 5
//!   v    +---------+                                      ...
//! ```
//!
//! A [`TmaTile`] is a plain value: the kernel lays its shared memory out by it, and the host encodes the tensor map by it.

use warpwright_layout::atom::{Major, SharedSwizzle, SharedTile};
use warpwright_layout::{ComposedLayout, Error, Layout};

use super::{Tensor, legal};
use crate::DeviceValue;
use crate::element::Element;
use crate::mbarrier::Mbarrier;
use crate::multicast::Multicast;
use crate::object;
use crate::operation::refuse;
use crate::pointer::Shared;
use crate::shared::dynamic_shared_aligned;
use crate::space::SharedSpace;
use crate::tensor_map::TensorMap;
use crate::tma;
use crate::value::{Reg, Value, constant};

/// The most rows of a box, and the most elements of a row. (CUDA driver API, `cuTensorMapEncodeTiled`.)
const MOST_ROWS: i64 = 256;

/// A tile (mn, k) of a matrix in shared memory, its boxes and its swizzle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmaTile {
    shape: (i64, i64),
    atom: SharedTile,
    /// Elements of a box along the contiguous mode.
    run: i64,
    slices: i64,
}

impl TmaTile {
    /// A tile (mn, k) of `T` in which `major` is contiguous, with the widest swizzle that it allows.
    ///
    /// # Errors
    /// If the contiguous extent is not a multiple of 16 bytes, or the other not one of 8 rows.
    pub fn new<T: Element>(shape: (i64, i64), major: Major) -> Result<Self, Error> {
        let atom = SharedTile::widest(major, 8 * i64::from(T::BYTES), shape)?;
        let run = atom.swizzle.span_bytes() * 8 / atom.element_bits;
        let tile = Self { shape, atom, run, slices: 1 };
        tile.atom.fill(shape)?;
        Ok(tile)
    }

    /// A tile (mn, k) of `T` in which `major` is contiguous, dense and not swizzled, as one box: for threads to read, not for `wgmma`.
    ///
    /// # Errors
    /// If a mode has more than 256 elements, or the tile is not a multiple of 128 bytes, to which the next one in a ring is aligned.
    pub fn dense<T: Element>(shape: (i64, i64), major: Major) -> Result<Self, Error> {
        let element_bits = 8 * i64::from(T::BYTES);
        let atom = SharedTile { major, swizzle: SharedSwizzle::None, element_bits };
        let tile = Self { shape, atom, run: if major == Major::K { shape.1 } else { shape.0 }, slices: 1 };
        let fits = |extent| (1..=MOST_ROWS).contains(&extent);
        if !(fits(shape.0) && fits(shape.1) && tile.bytes() % i64::from(tile.alignment()) == 0) {
            return Err(Error::BadArgument {
                what: "a dense tile",
                given: format!("({}, {}) elements of {element_bits} bits", shape.0, shape.1),
                legal: format!(
                    "at most {MOST_ROWS} elements along each mode, and a multiple of {} bytes",
                    tile.alignment()
                ),
            });
        }
        Ok(tile)
    }

    /// The tile, loaded by `ctas` CTAs of a cluster together, a slice each.
    pub fn sliced(self, ctas: u32) -> Self {
        Self { slices: i64::from(ctas), ..self }
    }

    /// The extents (mn, k).
    pub fn shape(&self) -> (i64, i64) {
        self.shape
    }

    /// Which mode is contiguous.
    pub fn major(&self) -> Major {
        self.atom.major
    }

    /// The swizzle.
    pub fn swizzle(&self) -> SharedSwizzle {
        self.atom.swizzle
    }

    /// The extents along the contiguous mode and the other.
    fn inner_and_outer(&self) -> (i64, i64) {
        match self.atom.major {
            Major::K => (self.shape.1, self.shape.0),
            Major::Mn => self.shape,
        }
    }

    /// The extents of one box in elements: along the contiguous mode, which is the swizzle's span if there is one, and along the other.
    pub fn box_extents(&self) -> (i64, i64) {
        let rows = self.inner_and_outer().1 / self.slices;
        let fewest = (rows + MOST_ROWS - 1) / MOST_ROWS;
        let boxes = (fewest..=rows).find(|boxes| rows % boxes == 0).unwrap_or(1);
        (self.run, rows / boxes)
    }

    /// The tile's bytes.
    pub fn bytes(&self) -> i64 {
        self.shape.0 * self.shape.1 * self.atom.element_bits / 8
    }

    /// What the tile's address in shared memory must be a multiple of, in bytes: the swizzle's period.
    fn alignment(&self) -> u32 {
        8 * self.atom.swizzle.span_bytes().max(16) as u32
    }

    /// The layout of `stages` tiles: (mn, k, stages).
    ///
    /// # Errors
    /// None for a tile that [`TmaTile::new`] or [`TmaTile::dense`] made.
    pub fn layout(&self, stages: i64) -> Result<ComposedLayout, Error> {
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

    /// Where the boxes of one slice begin: (elements along the contiguous mode, elements along the other, bytes in the tile).
    fn boxes(&self) -> Vec<(i64, i64, i64)> {
        let (inner, outer) = self.inner_and_outer();
        let (span, rows) = self.box_extents();
        let row_bytes = self.run * self.atom.element_bits / 8;
        let mut boxes = Vec::new();
        for column in (0..inner).step_by(span as usize) {
            for row in (0..outer / self.slices).step_by(rows as usize) {
                boxes.push((column, row, (column / span * outer + row) * row_bytes));
            }
        }
        boxes
    }
}

/// A matrix (mn, k) that a tensor map describes: all of it, a part of it, or one of the matrices along its third axis.
#[derive(Clone, Copy, DeviceValue)]
pub struct MappedMatrix {
    map: TensorMap,
    /// Where its first element is in the map's matrix.
    first: Option<(Reg<u32>, Reg<u32>)>,
    /// Its number along the map's third axis.
    number: Option<Reg<u32>>,
}

impl From<&TensorMap> for MappedMatrix {
    fn from(map: &TensorMap) -> Self {
        Self { map: *map, first: None, number: None }
    }
}

impl MappedMatrix {
    /// The part of it that begins at (mn, k).
    pub fn from_place(self, first: (Reg<u32>, Reg<u32>)) -> Self {
        Self { first: Some(first), ..self }
    }

    /// Number `number` of the matrices along the map's third axis.
    pub fn numbered(self, number: Reg<u32>) -> Self {
        Self { number: Some(number), ..self }
    }

    /// Where (mn, k) of this matrix is in the map's.
    #[track_caller]
    fn place(&self, (mn, k): (Reg<u32>, Reg<u32>)) -> (Reg<u32>, Reg<u32>) {
        match self.first {
            Some(first) => (first.0 + mn, first.1 + k),
            None => (mn, k),
        }
    }

    /// The coordinates of a box that begins there, along the contiguous axis and the other.
    fn coordinates(&self, inner: Reg<u32>, outer: Reg<u32>) -> Vec<Reg<u32>> {
        [inner, outer].into_iter().chain(self.number).collect()
    }
}

/// A ring of tiles in dynamic shared memory.
#[derive(Clone)]
pub struct TileRing<T> {
    tile: TmaTile,
    tensor: Tensor<T, SharedSpace>,
    start: Shared<u8>,
}

impl<T: Element> TileRing<T> {
    /// Room for `stages` tiles.
    #[track_caller]
    pub fn new(tile: Result<TmaTile, Error>, stages: u32) -> Self {
        let fallback = || TmaTile::new::<T>((8, 16), Major::K).expect("the smallest tile is one");
        let tile = legal(tile, fallback);
        if 8 * i64::from(T::BYTES) != tile.atom.element_bits {
            refuse(format!("a tile of {}-bit elements cannot hold {}", tile.atom.element_bits, T::NAME));
        }
        let elements = tile.shape.0 * tile.shape.1 * i64::from(stages);
        let pointer = dynamic_shared_aligned::<T>(elements as usize, tile.alignment());
        let layout = legal(tile.layout(i64::from(stages)), || Layout::unit().into());
        object::tensor(pointer, &layout, true);
        Self { tile, tensor: Tensor::new(pointer, layout), start: pointer.cast() }
    }

    /// The tiles as a tensor (mn, k, stages).
    pub fn tensor(&self) -> &Tensor<T, SharedSpace> {
        &self.tensor
    }

    /// The load of the tile whose first element is at (mn, k) of `matrix`; elements outside of what its map describes become zeros.
    #[track_caller]
    pub fn load(
        &self,
        matrix: impl Into<MappedMatrix>,
        at: (Reg<u32>, Reg<u32>),
        share: Option<Multicast>,
    ) -> TileLoad {
        let matrix = matrix.into();
        let at = matrix.place(at);
        TileLoad { matrix, tile: self.tile, start: self.start, at, share, policy: None }
    }

    /// Starts storing the tile of a stage to (mn, k) of `matrix`; elements outside of what its map describes are not written. One thread
    /// does it, after the threads that wrote the tile have made it visible to the asynchronous proxy.
    #[track_caller]
    pub fn store(&self, matrix: impl Into<MappedMatrix>, at: (Reg<u32>, Reg<u32>), stage: impl Value<u32>) {
        let matrix = matrix.into();
        let (mn, k) = matrix.place(at);
        let stage = self.start + stage.reg() * self.tile.bytes() as u32;
        for (column, row, bytes) in self.tile.boxes() {
            let (inner, outer) = match self.tile.atom.major {
                Major::K => (k, mn),
                Major::Mn => (mn, k),
            };
            let at = matrix.coordinates(inner + column as u32, outer + row as u32);
            tma::store(matrix.map, at, stage.byte_offset(bytes));
        }
    }
}

/// A tile to be loaded into a slot of a [`Pipeline`](crate::pipeline::Pipeline).
#[derive(Clone, Copy)]
pub struct TileLoad {
    matrix: MappedMatrix,
    tile: TmaTile,
    start: Shared<u8>,
    /// Where it begins in the map's matrix.
    at: (Reg<u32>, Reg<u32>),
    share: Option<Multicast>,
    policy: Option<Reg<u64>>,
}

impl TileLoad {
    /// The load, with a policy for what it leaves in L2.
    pub fn with_policy(self, policy: Reg<u64>) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// The bytes that arrive in each receiving CTA's slot, from all that load slices of it.
    pub(crate) fn bytes(&self) -> u32 {
        self.tile.bytes() as u32
    }

    /// Starts this CTA's copies into a stage; they complete on `full`, in every CTA that receives them.
    #[track_caller]
    pub(crate) fn start(&self, stage: Reg<u32>, full: Mbarrier) {
        let slices = self.tile.slices;
        if self.share.is_some() != (slices > 1) {
            refuse(format!(
                "the tile is cut into {slices} slices, which must be the CTAs that share its load"
            ));
        }
        let (outer, row_bytes) = (self.tile.inner_and_outer().1 / slices, self.tile.swizzle().span_bytes());
        let slice = self.share.map_or(constant(0u32), |share| share.slice);
        let target = self.start + stage * self.bytes() + slice * (outer * row_bytes) as u32;
        let (mn, k) = self.at;
        let (inner_at, outer_at) = match self.tile.atom.major {
            Major::K => (k, mn + slice * outer as u32),
            Major::Mn => (mn, k + slice * outer as u32),
        };
        for (column, row, bytes) in self.tile.boxes() {
            let at = self.matrix.coordinates(inner_at + column as u32, outer_at + row as u32);
            let load = tma::Load::new(self.matrix.map, at);
            let load = match self.share {
                Some(share) => load.multicast(share.receivers),
                None => load,
            };
            let load = match self.policy {
                Some(policy) => load.with_policy(policy),
                None => load,
            };
            load.start(target.byte_offset(bytes), full);
        }
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
            }
        }
        let sliced: Vec<_> = tiles.iter().map(|tile| tile.sliced(2)).collect();
        tiles.extend(sliced);
        for shape in [(128, 1), (32, 4), (192, 3), (8, 256)] {
            tiles.push(TmaTile::dense::<f32>(shape, Major::Mn).unwrap());
            tiles.push(TmaTile::dense::<f32>(shape, Major::K).unwrap());
        }
        tiles
    }

    /// Every element of every box lands where the layout says: rows of one span, one after another, swizzled.
    #[test]
    fn boxes_land_where_the_layout_puts_them() {
        for tile in tiles() {
            let layout = tile.layout(2).unwrap();
            let (span, rows) = tile.box_extents();
            let (inner, outer) = tile.inner_and_outer();
            let element = tile.atom.element_bits / 8;
            let mut covered = 0;
            for slice in 0..tile.slices {
                let first = slice * (outer / tile.slices);
                for (column, row, bytes) in tile.boxes() {
                    let row_bytes = span * element;
                    let start = bytes + first * row_bytes;
                    for (x, y) in (0..span).flat_map(|x| (0..rows).map(move |y| (x, y))) {
                        let (along, across) = (column + x, first + row + y);
                        assert!(along < inner && across < outer, "{tile:?} reads past itself");
                        let coordinate = match tile.major() {
                            Major::K => (across, along, 0),
                            Major::Mn => (along, across, 0),
                        };
                        let linear = start + y * row_bytes + x * element;
                        let expected = tile.swizzle().on_bytes().apply(linear);
                        let index = layout.index(&coordinate.into()).unwrap().known().unwrap();
                        assert_eq!(index * element, expected, "{tile:?} at {coordinate:?}");
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
            assert!(rows <= MOST_ROWS && span <= MOST_ROWS);
            assert!(!is_swizzled || span * tile.atom.element_bits / 8 <= 128);
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
