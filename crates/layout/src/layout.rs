//! [`Layout`]: a shape and a stride.

use crate::{Coordinate, Error, Int, IntTuple, Offset, Stride, StrideTuple, Tuple};
use std::fmt;

/// A function from coordinates to offsets, given by a shape and a stride.
///
/// The offset of a coordinate is the sum of position times stride over the leaves. A layout, or any
/// of its modes, also takes an index, which counts coordinates colexicographically: the leftmost
/// mode is fastest. An index past the end continues in the last mode.
///
/// ```
/// use warpwright_layout::Layout;
/// let row_major = Layout::new((2, 4), (4, 1))?;
/// assert_eq!(row_major.index(&(1, 2).into())?, 6);
/// assert_eq!(row_major.at(5)?, 6);
/// assert_eq!(row_major.to_string(), "(2,4):(4,1)");
/// assert_eq!(format!("{row_major:#}"), "(_2,_4):(_4,_1)");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: IntTuple,
    stride: StrideTuple,
}

/// One leaf of a layout: an extent and its stride.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlatMode {
    pub(crate) extent: Int,
    pub(crate) stride: Stride,
}

impl FlatMode {
    pub(crate) fn new(extent: Int, stride: Stride) -> FlatMode {
        FlatMode { extent, stride }
    }
}

impl Layout {
    /// The layout of `shape` with `stride`.
    ///
    /// # Errors
    /// If the two have different tuple structures, a known extent is below 1, or an offset
    /// overflows 64 bits.
    pub fn new(shape: impl Into<IntTuple>, stride: impl Into<StrideTuple>) -> Result<Layout, Error> {
        let (shape, stride) = (shape.into(), stride.into());
        if !shape.congruent(&stride) {
            return Err(Error::Incongruent { shape: shape.to_string(), stride: stride.to_string() });
        }
        let layout = Layout { shape, stride };
        layout.check_range()?;
        Ok(layout)
    }

    /// The compact layout whose leftmost mode is contiguous: CuTe's `LayoutLeft`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::column_major((2, (4, 8)))?.to_string(), "(2,(4,8)):(1,(2,8))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn column_major(shape: impl Into<IntTuple>) -> Result<Layout, Error> {
        let shape = shape.into();
        let stride = shape.prefix_product(&Int::ONE)?;
        Layout::new(shape, stride)
    }

    /// The compact layout whose rightmost mode is contiguous: CuTe's `LayoutRight`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::row_major((2, (4, 8)))?.to_string(), "(2,(4,8)):(32,(8,1))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn row_major(shape: impl Into<IntTuple>) -> Result<Layout, Error> {
        let shape = shape.into();
        let stride = shape.suffix_product()?;
        Layout::new(shape, stride)
    }

    /// The compact layout whose modes are contiguous in the order of the ranks in `order`: rank 0
    /// first. Modes of equal rank keep their order from left to right.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::ordered((2, 3, 4), (2, 0, 1))?.to_string(), "(2,3,4):(12,1,3)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn ordered(shape: impl Into<IntTuple>, order: impl Into<IntTuple>) -> Result<Layout, Error> {
        let (shape, order) = (shape.into(), order.into());
        if shape.rank() != order.rank() || order.depth() > 1 {
            return Err(Error::Incongruent { shape: shape.to_string(), stride: order.to_string() });
        }
        let ranks = order
            .leaves()
            .into_iter()
            .map(|rank| rank.require("ordered", "the order of modes is part of the layout's form"))
            .collect::<Result<Vec<_>, _>>()?;
        let mut positions: Vec<usize> = (0..ranks.len()).collect();
        positions.sort_by_key(|&mode| ranks[mode]);
        let mut strides = vec![IntTuple::from(0); ranks.len()];
        let mut next = Int::ONE;
        for mode in positions {
            let extent = &shape.modes()[mode];
            strides[mode] = extent.prefix_product(&next)?;
            next = next.times(&extent.product()?)?;
        }
        match shape {
            Tuple::Leaf(_) => Layout::column_major(shape),
            Tuple::Node(_) => Layout::new(shape, Tuple::Node(strides)),
        }
    }

    /// The compact layout of the same shape, with modes in the order of the strides of this layout;
    /// modes of stride 0 keep it. It is the register layout of a fragment of this layout (CuTe's
    /// `make_fragment_like`).
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::new((2, (4, 8)), (512, (0, 1)))?.compact_like()?.to_string(), "(2,(4,8)):(8,(0,1))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn compact_like(&self) -> Result<Layout, Error> {
        let modes = self.flat_modes();
        let mut order: Vec<usize> = (0..modes.len()).collect();
        order.sort_by_key(|&mode| modes[mode].stride.scale.known().map_or(i64::MAX, i64::abs));
        let mut strides = vec![Int::ZERO; modes.len()];
        let mut next = Int::ONE;
        for mode in order.into_iter().filter(|&mode| !modes[mode].stride.scale.is(0)) {
            strides[mode] = next.clone();
            next = next.times(&modes[mode].extent)?;
        }
        let mut strides = strides.into_iter();
        let stride = self.shape.map(&mut |_: &Int| strides.next().unwrap_or(Int::ZERO));
        Layout::new(self.shape.clone(), stride)
    }

    /// The layout that returns its coordinate: the stride of each leaf is the basis vector of its
    /// position. Tiled and sliced like a tensor, it gives the coordinates for predicates.
    pub fn identity(shape: impl Into<IntTuple>) -> Result<Layout, Error> {
        let shape = shape.into();
        let stride = basis_strides(&shape, &mut Vec::new());
        Layout::new(shape, stride)
    }

    /// The layout whose modes are `modes`, in this order.
    pub fn of_modes(modes: impl IntoIterator<Item = Layout>) -> Layout {
        let (shape, stride) = modes.into_iter().map(|mode| (mode.shape, mode.stride)).unzip();
        Layout { shape: Tuple::Node(shape), stride: Tuple::Node(stride) }
    }

    /// The layout of one element at offset 0, `1:0`.
    pub fn unit() -> Layout {
        Layout { shape: 1.into(), stride: 0.into() }
    }

    /// The shape.
    pub fn shape(&self) -> &IntTuple {
        &self.shape
    }

    /// The stride; congruent with the shape.
    pub fn stride(&self) -> &StrideTuple {
        &self.stride
    }

    /// The number of modes; 1 for a layout that is not a tuple.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// The nesting depth of the tuples.
    pub fn depth(&self) -> usize {
        self.shape.depth()
    }

    /// Mode `position` as a layout of its own.
    ///
    /// # Errors
    /// If the layout has no such mode.
    pub fn mode(&self, position: usize) -> Result<Layout, Error> {
        match (self.shape.modes().get(position), self.stride.modes().get(position)) {
            (Some(shape), Some(stride)) => Ok(Layout { shape: shape.clone(), stride: stride.clone() }),
            _ => Err(Error::NoSuchMode { layout: self.to_string(), mode: position, rank: self.rank() }),
        }
    }

    /// The mode reached by `path`: mode `path[0]`, its mode `path[1]`, and so on.
    pub fn mode_at(&self, path: &[usize]) -> Result<Layout, Error> {
        path.iter().try_fold(self.clone(), |layout, &position| layout.mode(position))
    }

    /// The modes as layouts.
    pub fn modes(&self) -> Vec<Layout> {
        let strides = self.stride.modes();
        let pairs = self.shape.modes().iter().zip(strides);
        pairs.map(|(shape, stride)| Layout { shape: shape.clone(), stride: stride.clone() }).collect()
    }

    /// The number of coordinates.
    pub fn size(&self) -> Result<Int, Error> {
        self.shape.product()
    }

    /// The size, which must be static.
    pub fn known_size(&self, operation: &'static str) -> Result<i64, Error> {
        self.shape.leaves().into_iter().try_fold(1i64, |size, extent| {
            let extent = extent.require(operation, "it needs the number of elements")?;
            size.checked_mul(extent).ok_or(Error::Overflow)
        })
    }

    /// One more than the largest offset: the elements of storage the layout needs.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::new((4, 8), (1, 10))?.cosize()?, 74);
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn cosize(&self) -> Result<Int, Error> {
        let mut largest = Int::ZERO;
        for mode in self.flat_modes() {
            if !mode.stride.is_plain() {
                return Err(Error::IsCoordinate(self.to_string()));
            }
            if mode.stride.scale.known().is_some_and(|stride| stride < 0) {
                continue;
            }
            let reach = mode.extent.minus(&Int::ONE)?.times(&mode.stride.scale)?;
            largest = largest.plus(&reach)?;
        }
        largest.plus(&Int::ONE)
    }

    /// The offset of a coordinate. Each mode takes an index or a tuple.
    ///
    /// # Errors
    /// If the coordinate has more structure than the shape.
    pub fn evaluate(&self, coordinate: &IntTuple) -> Result<Offset, Error> {
        offset_of(coordinate, &self.shape, &self.stride)
    }

    /// The offset in memory of a coordinate.
    ///
    /// # Errors
    /// Those of [`evaluate`](Layout::evaluate), and if the strides have bases.
    pub fn index(&self, coordinate: &IntTuple) -> Result<Int, Error> {
        Ok(self.evaluate(coordinate)?.linear()?.clone())
    }

    /// The memory offset of element `index` of a static layout.
    pub fn at(&self, index: i64) -> Result<i64, Error> {
        self.index(&index.into())?.require("at", "it computes a number")
    }

    /// The offsets of all elements, in index order.
    ///
    /// # Errors
    /// If a leaf is a device value, a stride has a basis, or there are more than 2^24 elements.
    pub fn offsets(&self) -> Result<Vec<i64>, Error> {
        const MOST: i64 = 1 << 24;
        let size = self.known_size("offsets")?;
        if size > MOST {
            return Err(Error::TooLarge { layout: self.to_string(), size, most: MOST });
        }
        let mut offsets = vec![0];
        for mode in self.flat_modes() {
            let stride = Offset::Linear(mode.stride.scale.clone());
            if !mode.stride.is_plain() {
                return Err(Error::IsCoordinate(self.to_string()));
            }
            let stride = stride.linear()?.require("offsets", "it computes numbers")?;
            let extent = mode.extent.require("offsets", "it computes numbers")?;
            let inner = offsets.len();
            for position in 1..extent {
                for index in 0..inner {
                    offsets.push(offsets[index] + position * stride);
                }
            }
        }
        Ok(offsets)
    }

    /// The layout with the modes marked `_` in `coordinate`, and the offset of the rest of the
    /// coordinate.
    ///
    /// Kept modes stay in order; tuples that lose all other modes are removed.
    /// Post-condition: `layout(c) = slice(kept part of c) + offset`.
    ///
    /// ```
    /// use warpwright_layout::{All, Layout};
    /// let layout = Layout::new((4, (2, 3)), (1, (4, 8)))?;
    /// let (row, offset) = layout.slice(&(All, (1, All)).into())?;
    /// assert_eq!((row.to_string(), offset.to_string()), ("(4,3):(1,8)".into(), "4".into()));
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn slice(&self, coordinate: &Coordinate) -> Result<(Layout, Offset), Error> {
        let offset = self.evaluate(&coordinate.origin())?;
        let mut kept = Vec::new();
        keep(coordinate, self, true, &mut kept)?;
        let layout = match (coordinate, kept.pop()) {
            (Tuple::Leaf(_), Some(whole)) => whole,
            (_, last) => Layout::of_modes(kept.into_iter().chain(last)),
        };
        Ok((layout, offset))
    }

    /// The layout with the modes *not* marked `_`: the complement of [`slice`](Layout::slice).
    ///
    /// ```
    /// use warpwright_layout::{All, Layout};
    /// let layout = Layout::new((4, (2, 3)), (1, (4, 8)))?;
    /// assert_eq!(layout.dice(&(All, (1, All)).into())?.to_string(), "(2):(4)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn dice(&self, coordinate: &Coordinate) -> Result<Layout, Error> {
        let mut kept = Vec::new();
        keep(coordinate, self, false, &mut kept)?;
        Ok(match (coordinate, kept.pop()) {
            (Tuple::Leaf(_), Some(whole)) => whole,
            (_, last) => Layout::of_modes(kept.into_iter().chain(last)),
        })
    }

    /// The same function of the index over another shape of the same size.
    ///
    /// # Errors
    /// If the sizes differ, or the strides do not follow the new shape.
    pub fn with_shape(&self, shape: impl Into<IntTuple>) -> Result<Layout, Error> {
        self.compose(Layout::column_major(shape)?)
    }

    /// A layout of parts already known to be congruent and in range.
    pub(crate) fn from_parts(shape: IntTuple, stride: StrideTuple) -> Layout {
        Layout { shape, stride }
    }

    /// The leaves, left to right.
    pub(crate) fn flat_modes(&self) -> Vec<FlatMode> {
        let pairs = self.shape.leaves().into_iter().zip(self.stride.leaves());
        pairs.map(|(extent, stride)| FlatMode::new(extent.clone(), stride.clone())).collect()
    }

    /// The layout of these leaves: a leaf for one, `1:0` for none.
    pub(crate) fn of_flat_modes(mut modes: Vec<FlatMode>) -> Result<Layout, Error> {
        let layout = match modes.len() {
            0 => Layout::unit(),
            1 => {
                let mode = modes.remove(0);
                Layout { shape: Tuple::Leaf(mode.extent), stride: Tuple::Leaf(mode.stride) }
            }
            _ => Layout::of_modes(
                modes
                    .into_iter()
                    .map(|mode| Layout { shape: Tuple::Leaf(mode.extent), stride: Tuple::Leaf(mode.stride) }),
            ),
        };
        layout.check_range()?;
        Ok(layout)
    }

    /// Refuses static extents below 1, and static offsets that exceed 64 bits.
    fn check_range(&self) -> Result<(), Error> {
        let (mut reach, mut size) = (0i128, 1i128);
        for (extent, stride) in self.shape.leaves().into_iter().zip(self.stride.leaves()) {
            let Some(extent) = extent.known() else { continue };
            if extent < 1 {
                return Err(Error::EmptyExtent { layout: self.to_string(), extent });
            }
            let stride = i128::from(stride.scale.known().unwrap_or(1));
            reach += i128::from(extent - 1) * stride.abs();
            size *= i128::from(extent);
            if reach >= i128::from(i64::MAX) || size > i128::from(i64::MAX) {
                return Err(Error::Overflow);
            }
        }
        Ok(())
    }
}

fn basis_strides(shape: &IntTuple, path: &mut Vec<usize>) -> StrideTuple {
    match shape {
        Tuple::Leaf(_) => Tuple::Leaf(Stride::basis(path.clone())),
        Tuple::Node(modes) => {
            let mut strides = Vec::with_capacity(modes.len());
            for (position, mode) in modes.iter().enumerate() {
                path.push(position);
                strides.push(basis_strides(mode, path));
                path.pop();
            }
            Tuple::Node(strides)
        }
    }
}

fn offset_of(coordinate: &IntTuple, shape: &IntTuple, stride: &StrideTuple) -> Result<Offset, Error> {
    let mismatch = || Error::BadCoordinate { coordinate: coordinate.to_string(), shape: shape.to_string() };
    match (coordinate, shape, stride) {
        (Tuple::Leaf(at), Tuple::Leaf(_), Tuple::Leaf(stride)) => Offset::of_step(at, stride),
        (Tuple::Leaf(at), Tuple::Node(extents), Tuple::Node(strides)) => {
            let mut offset = Offset::ZERO;
            let mut rest = at.clone();
            for (position, (extent, stride)) in extents.iter().zip(strides).enumerate() {
                let last = position + 1 == extents.len();
                let size = extent.product()?;
                let here = if last { rest.clone() } else { rest.modulo(&size)? };
                offset = offset.plus(&offset_of(&Tuple::Leaf(here), extent, stride)?)?;
                if !last {
                    rest = rest.divided_by(&size)?;
                }
            }
            Ok(offset)
        }
        (Tuple::Node(positions), Tuple::Leaf(_), _) if positions.len() == 1 => {
            offset_of(&positions[0], shape, stride)
        }
        (Tuple::Node(positions), Tuple::Node(extents), Tuple::Node(strides)) => {
            if positions.len() != extents.len() {
                return Err(mismatch());
            }
            let mut offset = Offset::ZERO;
            for ((at, extent), stride) in positions.iter().zip(extents).zip(strides) {
                offset = offset.plus(&offset_of(at, extent, stride)?)?;
            }
            Ok(offset)
        }
        _ => Err(mismatch()),
    }
}

/// Collects the modes of `layout` whose index is `_` (or is not, when `whole` is false).
fn keep(coordinate: &Coordinate, layout: &Layout, whole: bool, kept: &mut Vec<Layout>) -> Result<(), Error> {
    match coordinate {
        Tuple::Leaf(index) => {
            if (*index == crate::Index::All) == whole {
                kept.push(layout.clone());
            }
            Ok(())
        }
        Tuple::Node(indices) => {
            let modes = layout.modes();
            if indices.len() != modes.len() {
                let (coordinate, shape) = (coordinate.to_string(), layout.shape.to_string());
                return Err(Error::BadCoordinate { coordinate, shape });
            }
            indices.iter().zip(&modes).try_for_each(|(index, mode)| keep(index, mode, whole, kept))
        }
    }
}

impl fmt::Display for Layout {
    /// `(4,8):(1,4)` by default; `{:#}` marks static leaves as CuTe does (`(_4,_8):(_1,_4)`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape.fmt(f)?;
        f.write_str(":")?;
        self.stride.fmt(f)
    }
}
