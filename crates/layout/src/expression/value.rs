//! What expressions evaluate to.

use crate::{
    ComposedLayout, Coordinate, Error, Index, Int, IntTuple, Layout, Stride, StrideTuple, Swizzle, Tiler,
    Tuple,
};
use std::fmt;

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer or a tuple of them, possibly with `_`: a shape, a coordinate, an offset.
    Coordinate(Coordinate),
    /// A stride with bases.
    Strides(StrideTuple),
    /// A layout.
    Layout(Layout),
    /// A layout with functions applied after it, or with an offset.
    Composed(ComposedLayout),
    /// A swizzle.
    Swizzle(Swizzle),
    /// A tuple of tilers.
    Tiler(Tiler),
    /// A thread-value layout.
    Ownership(Ownership),
    /// A Boolean.
    Bool(bool),
}

/// A thread-value layout and its tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Ownership {
    /// (thread, value) to an element of the tile, column-major.
    pub thread_values: Layout,
    /// Rows and columns of the tile.
    pub tile: IntTuple,
}

impl Value {
    /// The value as one integer.
    pub fn int(&self) -> Result<Int, Error> {
        match self.tuple()? {
            Tuple::Leaf(int) => Ok(int),
            Tuple::Node(_) => Err(self.is_not("an integer")),
        }
    }

    /// The value as a static integer.
    pub fn known(&self) -> Result<i64, Error> {
        self.int()?.require("this argument", "it is part of the operation's form")
    }

    /// The value as a tuple of integers.
    pub fn tuple(&self) -> Result<IntTuple, Error> {
        match self {
            Value::Coordinate(coordinate) => coordinate.try_map(&mut |index| match index {
                Index::At(position) => Ok(position.clone()),
                Index::All => Err(self.is_not("a tuple of integers")),
            }),
            _ => Err(self.is_not("a tuple of integers")),
        }
    }

    /// The value as a coordinate, which may have `_`.
    pub fn coordinate(&self) -> Result<Coordinate, Error> {
        match self {
            Value::Coordinate(coordinate) => Ok(coordinate.clone()),
            Value::Tiler(Tiler::All) => Ok(Tuple::Leaf(Index::All)),
            _ => Err(self.is_not("a coordinate")),
        }
    }

    /// The value as strides.
    pub fn strides(&self) -> Result<StrideTuple, Error> {
        match self {
            Value::Strides(strides) => Ok(strides.clone()),
            other => Ok(other.tuple()?.into()),
        }
    }

    /// The value as a layout without functions; an integer `n` is `n:1`, a tuple is the compact
    /// column-major layout of that shape.
    pub fn layout(&self) -> Result<Layout, Error> {
        match self {
            Value::Layout(layout) => Ok(layout.clone()),
            Value::Ownership(ownership) => Ok(ownership.thread_values.clone()),
            Value::Composed(composed) => match composed.as_layout() {
                Some(layout) => Ok(layout.clone()),
                None => Err(self.is_not("a plain layout")),
            },
            Value::Coordinate(_) => Layout::column_major(self.tuple()?),
            _ => Err(self.is_not("a layout")),
        }
    }

    /// The value as a layout with functions after it.
    pub fn composed(&self) -> Result<ComposedLayout, Error> {
        match self {
            Value::Composed(composed) => Ok(composed.clone()),
            other => Ok(other.layout()?.into()),
        }
    }

    /// The value as a tiler.
    pub fn tiler(&self) -> Result<Tiler, Error> {
        match self {
            Value::Tiler(tiler) => Ok(tiler.clone()),
            Value::Layout(layout) | Value::Ownership(Ownership { thread_values: layout, .. }) => {
                Ok(Tiler::from(layout))
            }
            Value::Coordinate(coordinate) => Ok(tiler_of(coordinate)),
            _ => Err(self.is_not("a tiler")),
        }
    }

    /// The error that this value is not `wanted`.
    pub(super) fn is_not(&self, wanted: &str) -> Error {
        Error::bad_argument("an argument", self, wanted)
    }
}

fn tiler_of(coordinate: &Coordinate) -> Tiler {
    match coordinate {
        Tuple::Leaf(Index::All) => Tiler::All,
        Tuple::Leaf(Index::At(extent)) => Tiler::from(extent.clone()),
        Tuple::Node(modes) => Tiler::Modes(modes.iter().map(tiler_of).collect()),
    }
}

impl From<Layout> for Value {
    fn from(layout: Layout) -> Value {
        Value::Layout(layout)
    }
}

impl From<ComposedLayout> for Value {
    fn from(composed: ComposedLayout) -> Value {
        match composed.as_layout() {
            Some(layout) => Value::Layout(layout.clone()),
            None => Value::Composed(composed),
        }
    }
}

impl From<IntTuple> for Value {
    fn from(tuple: IntTuple) -> Value {
        Value::Coordinate(Coordinate::from(&tuple))
    }
}

impl From<Int> for Value {
    fn from(int: Int) -> Value {
        Value::Coordinate(Tuple::Leaf(Index::At(int)))
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Value {
        Value::from(Int::Known(int))
    }
}

impl From<usize> for Value {
    fn from(int: usize) -> Value {
        Value::from(Int::from(int))
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Bool(truth)
    }
}

impl From<StrideTuple> for Value {
    fn from(strides: StrideTuple) -> Value {
        match strides.leaves().into_iter().all(Stride::is_plain) {
            true => strides.map(&mut |stride: &Stride| stride.scale.clone()).into(),
            false => Value::Strides(strides),
        }
    }
}

impl From<crate::Offset> for Value {
    fn from(offset: crate::Offset) -> Value {
        match offset {
            crate::Offset::Linear(offset) => offset.into(),
            crate::Offset::Coordinate(coordinate) => coordinate.into(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Coordinate(coordinate) => coordinate.fmt(f),
            Value::Strides(strides) => strides.fmt(f),
            Value::Layout(layout) => layout.fmt(f),
            Value::Ownership(ownership) => ownership.thread_values.fmt(f),
            Value::Composed(composed) => composed.fmt(f),
            Value::Swizzle(swizzle) => swizzle.fmt(f),
            Value::Tiler(tiler) => tiler.fmt(f),
            Value::Bool(truth) => truth.fmt(f),
        }
    }
}
