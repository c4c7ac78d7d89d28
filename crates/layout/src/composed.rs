//! [`ComposedLayout`]: functions applied after a layout, such as a swizzle.

use crate::{Coordinate, Error, Int, IntTuple, Layout, Offset, Swizzle, Tiler};
use std::fmt;

/// One function applied to offsets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Permutes bits.
    Swizzle(Swizzle),
    /// Reads the offset as an index of a layout.
    Layout(Layout),
    /// Adds a constant.
    Shift(Int),
}

/// `A o offset o B`: applies the layout `B` to the coordinate, adds `offset`, and applies the
/// functions `A`.
///
/// With a swizzle as `A` it is a swizzled tile; without `A` it is a layout with an offset, such as
/// a slice of a tensor. Its shape is that of `B`. Operations on the domain apply to `B` only.
///
/// ```
/// use warpwright_layout::{All, Layout, Swizzle};
/// let tile = Layout::column_major((8, 8))?.swizzled(Swizzle::new(3, 2, 3)?);
/// assert_eq!(tile.to_string(), "Swizzle<3,2,3> o 0 o (8,8):(1,8)");
/// assert_eq!(tile.at(32)?, 36);
/// let column = tile.slice(&(All, 4).into())?;
/// assert_eq!(column.to_string(), "Swizzle<3,2,3> o 32 o (8):(1)");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ComposedLayout {
    outer: Vec<Stage>,
    offset: Offset,
    inner: Layout,
}

impl From<Layout> for ComposedLayout {
    fn from(inner: Layout) -> ComposedLayout {
        ComposedLayout { outer: Vec::new(), offset: Offset::ZERO, inner }
    }
}

impl From<&Layout> for ComposedLayout {
    fn from(inner: &Layout) -> ComposedLayout {
        inner.clone().into()
    }
}

impl From<Swizzle> for Stage {
    fn from(swizzle: Swizzle) -> Stage {
        Stage::Swizzle(swizzle)
    }
}

impl From<Layout> for Stage {
    fn from(layout: Layout) -> Stage {
        Stage::Layout(layout)
    }
}

impl Layout {
    /// `swizzle o 0 o self`.
    pub fn swizzled(&self, swizzle: Swizzle) -> ComposedLayout {
        ComposedLayout::new(swizzle, 0, self.clone())
    }
}

impl ComposedLayout {
    /// `outer o offset o inner`.
    pub fn new(outer: impl Into<Stage>, offset: impl Into<Offset>, inner: Layout) -> ComposedLayout {
        ComposedLayout { outer: vec![outer.into()], offset: offset.into(), inner }
    }

    /// `stages o offset o inner`, the leftmost stage applied last.
    pub fn of_stages(stages: Vec<Stage>, offset: impl Into<Offset>, inner: Layout) -> ComposedLayout {
        ComposedLayout { outer: stages, offset: offset.into(), inner }
    }

    /// `stage o self`.
    pub fn after(mut self, stage: impl Into<Stage>) -> ComposedLayout {
        self.outer.insert(0, stage.into());
        self
    }

    /// The functions applied to offsets, the last one first.
    pub fn outer(&self) -> &[Stage] {
        &self.outer
    }

    /// The offset added to those of the inner layout.
    pub fn offset(&self) -> &Offset {
        &self.offset
    }

    /// The layout applied to the coordinate.
    pub fn inner(&self) -> &Layout {
        &self.inner
    }

    /// The swizzle, if that is the only function applied.
    pub fn swizzle(&self) -> Option<Swizzle> {
        match self.outer.as_slice() {
            [] => Some(Swizzle::IDENTITY),
            [Stage::Swizzle(swizzle)] => Some(*swizzle),
            _ => None,
        }
    }

    /// The layout, if there are no functions and no offset.
    pub fn as_layout(&self) -> Option<&Layout> {
        (self.outer.is_empty() && self.offset == Offset::ZERO).then_some(&self.inner)
    }

    /// The shape.
    pub fn shape(&self) -> &IntTuple {
        self.inner.shape()
    }

    /// The number of modes.
    pub fn rank(&self) -> usize {
        self.inner.rank()
    }

    /// The number of coordinates.
    pub fn size(&self) -> Result<Int, Error> {
        self.inner.size()
    }

    /// Whether the offset of every coordinate is a static memory offset. Decided without
    /// enumeration.
    ///
    /// ```
    /// use warpwright_layout::{ComposedLayout, Int, Layout, Swizzle};
    /// let rows = |count: Int| Layout::new((count, 64), (64, 1));
    /// let swizzle = Swizzle::new(3, 3, 3)?;
    /// assert!(rows(Int::Known(8))?.swizzled(swizzle).is_known());
    /// assert!(!rows(Int::device(0, "m"))?.swizzled(swizzle).is_known());
    /// assert!(!ComposedLayout::new(swizzle, Int::device(0, "start"), rows(Int::Known(8))?).is_known());
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn is_known(&self) -> bool {
        let is_known = |reach: Result<Int, Error>| reach.is_ok_and(|reach| reach.known().is_some());
        let stage_is_known = |stage: &Stage| match stage {
            Stage::Swizzle(_) => true,
            Stage::Layout(layout) => is_known(layout.cosize()),
            Stage::Shift(distance) => distance.known().is_some(),
        };
        is_known(self.inner.cosize())
            && is_known(self.offset.linear().cloned())
            && self.outer.iter().all(stage_is_known)
    }

    /// One more than the largest offset; found by enumeration if functions are applied.
    pub fn cosize(&self) -> Result<Int, Error> {
        if self.outer.is_empty() {
            return self.inner.cosize()?.plus(self.offset.linear()?);
        }
        Ok(Int::Known(self.offsets()?.into_iter().max().unwrap_or(0) + 1))
    }

    /// The offset of a coordinate: `A(offset + B(c))`.
    ///
    /// # Errors
    /// As for [`Layout::evaluate`]; also if a swizzle would permute bits of a device value. For
    /// such values, lower [`inner_offset`](ComposedLayout::inner_offset) and apply the
    /// [`outer`](ComposedLayout::outer) stages.
    pub fn evaluate(&self, coordinate: &IntTuple) -> Result<Offset, Error> {
        self.through_outer(self.inner_offset(coordinate)?)
    }

    /// `offset + B(c)`: the offset before the outer functions.
    pub fn inner_offset(&self, coordinate: &IntTuple) -> Result<Offset, Error> {
        self.offset.plus(&self.inner.evaluate(coordinate)?)
    }

    /// The offset in memory of a coordinate.
    pub fn index(&self, coordinate: &IntTuple) -> Result<Int, Error> {
        Ok(self.evaluate(coordinate)?.linear()?.clone())
    }

    /// The offset in memory of the element number `index`.
    pub fn at(&self, index: i64) -> Result<i64, Error> {
        self.index(&index.into())?.require("at", "it computes a number")
    }

    /// The offsets of all elements in the order of their index.
    pub fn offsets(&self) -> Result<Vec<i64>, Error> {
        let start = self.offset.linear()?.require("offsets", "it computes numbers")?;
        let inner = self.inner.offsets()?.into_iter();
        inner
            .map(|offset| {
                let offset = offset.checked_add(start).ok_or(Error::Overflow)?;
                match self.outer.as_slice() {
                    [] => Ok(offset),
                    [Stage::Swizzle(swizzle)] => Ok(swizzle.apply(offset)),
                    _ => self
                        .through_outer(Offset::from(offset))?
                        .linear()?
                        .require("offsets", "it computes numbers"),
                }
            })
            .collect()
    }

    fn through_outer(&self, offset: Offset) -> Result<Offset, Error> {
        self.outer.iter().rev().try_fold(offset, |offset, stage| match stage {
            Stage::Swizzle(swizzle) => Ok(Offset::Linear(swizzle.apply_to(offset.linear()?)?)),
            Stage::Layout(layout) => layout.evaluate(&IntTuple::from(offset.linear()?)),
            Stage::Shift(by) => offset.plus(&Offset::Linear(by.clone())),
        })
    }

    /// Applies `operation` to the inner layout, with the same outer functions.
    ///
    /// ```
    /// use warpwright_layout::{Layout, Swizzle};
    /// let tile = Layout::row_major((64, 64))?.swizzled(Swizzle::new(3, 3, 3)?);
    /// let tiles = tile.map_inner(|inner| inner.zipped_divide((16, 16)))?;
    /// assert_eq!(tiles.to_string(), "Swizzle<3,3,3> o 0 o ((16,16),(4,4)):((64,1),(1024,16))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn map_inner(
        &self,
        operation: impl FnOnce(&Layout) -> Result<Layout, Error>,
    ) -> Result<ComposedLayout, Error> {
        Ok(ComposedLayout { inner: operation(&self.inner)?, ..self.clone() })
    }

    /// `A o offset o (B o tiler)`.
    pub fn compose(&self, tiler: impl Into<Tiler>) -> Result<ComposedLayout, Error> {
        self.map_inner(|inner| inner.compose(tiler))
    }

    /// The kept modes, with the offset of the rest of the coordinate.
    ///
    /// Post-condition: `L(c) = slice(kept part of c)`.
    pub fn slice(&self, coordinate: &Coordinate) -> Result<ComposedLayout, Error> {
        let (inner, offset) = self.inner.slice(coordinate)?;
        Ok(ComposedLayout { inner, offset: self.offset.plus(&offset)?, outer: self.outer.clone() })
    }

    /// The layout with `offset` added.
    pub fn shifted(&self, offset: impl Into<Offset>) -> Result<ComposedLayout, Error> {
        Ok(ComposedLayout { offset: self.offset.plus(&offset.into())?, ..self.clone() })
    }

    /// `B^-1 o (-offset) o A^-1`.
    ///
    /// Post-condition: `L(R(i)) = i` for the offsets `i` that `L` takes, when `B` is a bijection
    /// onto `[0, size)` and the offset is 0.
    ///
    /// ```
    /// use warpwright_layout::{Layout, Swizzle};
    /// let tile = Layout::row_major((8, 8))?.swizzled(Swizzle::new(3, 0, 3)?);
    /// let back = tile.right_inverse()?;
    /// assert!((0..64).all(|i| tile.at(back.at(i).unwrap()).unwrap() == i));
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn right_inverse(&self) -> Result<ComposedLayout, Error> {
        self.inverse(|layout| layout.right_inverse())
    }

    /// `B^-1 o (-offset) o A^-1` with left inverses.
    ///
    /// Post-condition: `R(L(i)) = i` where `B` is injective.
    pub fn left_inverse(&self) -> Result<ComposedLayout, Error> {
        self.inverse(|layout| layout.left_inverse())
    }

    /// The widest vector, in elements, of a copy between this tensor and `other`: contiguous and in
    /// the same order in both, not split by a swizzle, and aligned as far as the offsets are
    /// static.
    ///
    /// ```
    /// use warpwright_layout::{ComposedLayout, Layout, Swizzle};
    /// let row = Layout::row_major((1, 32))?;
    /// let shared = row.swizzled(Swizzle::new(3, 3, 3)?);
    /// assert_eq!(shared.max_common_vector(&row.clone().into())?, 8);
    /// assert_eq!(shared.shifted(4)?.max_common_vector(&row.into())?, 4);
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn max_common_vector(&self, other: &ComposedLayout) -> Result<i64, Error> {
        let mut vector = self.inner.max_common_vector(&other.inner)?;
        for side in [self, other] {
            let aligned = side.offset.linear()?.known_divisor();
            if aligned != 0 {
                vector = crate::int::gcd(vector, aligned);
            }
            match side.swizzle() {
                Some(swizzle) if swizzle.is_identity() => {}
                Some(swizzle) => vector = crate::int::gcd(vector, 1 << swizzle.base()),
                None => vector = 1,
            }
        }
        Ok(vector)
    }

    fn inverse(&self, invert: impl Fn(&Layout) -> Result<Layout, Error>) -> Result<ComposedLayout, Error> {
        let size = self.cosize()?;
        let back = Int::ZERO.minus(self.offset.linear()?)?;
        let mut stages = vec![Stage::Layout(invert(&self.inner)?)];
        if !back.is(0) {
            stages.push(Stage::Shift(back));
        }
        for stage in &self.outer {
            stages.push(match stage {
                Stage::Swizzle(swizzle) => Stage::Swizzle(*swizzle),
                Stage::Layout(layout) => Stage::Layout(invert(layout)?),
                Stage::Shift(by) => Stage::Shift(Int::ZERO.minus(by)?),
            });
        }
        Ok(ComposedLayout { outer: stages, offset: Offset::ZERO, inner: Layout::contiguous(size) })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Swizzle(swizzle) => swizzle.fmt(f),
            Stage::Layout(layout) => layout.fmt(f),
            Stage::Shift(by) => by.fmt(f),
        }
    }
}

impl fmt::Display for ComposedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stage in &self.outer {
            stage.fmt(f)?;
            f.write_str(" o ")?;
        }
        if !self.outer.is_empty() || self.offset != Offset::ZERO {
            self.offset.fmt(f)?;
            f.write_str(" o ")?;
        }
        self.inner.fmt(f)
    }
}
