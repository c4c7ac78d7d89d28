//! Coordinates, and their conversion to and from indices.
//!
//! An index counts the coordinates of a shape colexicographically: the leftmost mode moves fastest.

use crate::tuple::from_tuple;
use crate::{Error, Int, IntTuple, Tuple};
use std::fmt;

/// All of a mode: `_` in a coordinate or a tiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct All;

/// One leaf of a [`Coordinate`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// This position.
    At(Int),
    /// Every position (`_`): the mode is kept.
    All,
}

/// A nested tuple of positions, some of which may be `_`.
pub type Coordinate = Tuple<Index>;

impl Coordinate {
    /// The coordinate with each `_` read as 0.
    pub fn origin(&self) -> IntTuple {
        self.map(&mut |index| match index {
            Index::At(position) => position.clone(),
            Index::All => Int::ZERO,
        })
    }

    /// True if some leaf is `_`.
    pub fn keeps_a_mode(&self) -> bool {
        self.leaves().into_iter().any(|index| *index == Index::All)
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Index::At(position) => position.fmt(f),
            Index::All => f.write_str("_"),
        }
    }
}

impl<T: Into<Int>> From<T> for Coordinate {
    fn from(position: T) -> Coordinate {
        Tuple::Leaf(Index::At(position.into()))
    }
}

impl From<All> for Coordinate {
    fn from(_: All) -> Coordinate {
        Tuple::Leaf(Index::All)
    }
}

impl From<&IntTuple> for Coordinate {
    fn from(tuple: &IntTuple) -> Coordinate {
        tuple.map(&mut |leaf| Index::At(leaf.clone()))
    }
}

from_tuple!(
    Coordinate,
    Tuple::Node,
    (A),
    (A, B),
    (A, B, C),
    (A, B, C, D),
    (A, B, C, D, E),
    (A, B, C, D, E, F)
);

/// The coordinate of `index` in `shape`: congruent with `shape`, and `index_of` of it is `index`
/// again.
///
/// ```
/// use warpwright_layout::{coordinate_of, IntTuple};
/// let coordinate = coordinate_of(&17.into(), &(3, (2, 4)).into())?;
/// assert_eq!(coordinate, IntTuple::from((2, (1, 2))));
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
pub fn coordinate_of(index: &Int, shape: &IntTuple) -> Result<IntTuple, Error> {
    let mut before = Int::ONE;
    shape.try_map(&mut |extent: &Int| {
        let position = index.divided_by(&before)?.modulo(extent)?;
        before = before.times(extent)?;
        Ok(position)
    })
}

/// The index of `coordinate` in `shape`; each leaf of the coordinate may itself be an index into a
/// nested mode.
///
/// ```
/// use warpwright_layout::index_of;
/// assert_eq!(index_of(&(2, (1, 2)).into(), &(3, (2, 4)).into())?, 17);
/// assert_eq!(index_of(&(2, 5).into(), &(3, (2, 4)).into())?, 17);
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
pub fn index_of(coordinate: &IntTuple, shape: &IntTuple) -> Result<Int, Error> {
    let layout = crate::Layout::column_major(shape.clone())?;
    Ok(layout.evaluate(coordinate)?.linear()?.clone())
}

/// Checks that the positions of a coordinate are inside `shape`, as far as both are known when the
/// kernel is built.
///
/// Layouts are defined beyond their shapes, and a tiling uses that; an access has no element there.
///
/// ```
/// use warpwright_layout::{All, check_coordinate, Int};
/// assert!(check_coordinate(&(7, All).into(), &(8, 8).into()).is_ok());
/// assert!(check_coordinate(&(0, 9).into(), &(8, 8).into()).is_err());
/// assert!(check_coordinate(&63.into(), &(8, 8).into()).is_ok());
/// assert!(check_coordinate(&(0, Int::device(0, "i")).into(), &(8, 8).into()).is_ok());
/// ```
///
/// # Errors
/// [`Error::OutOfRange`] for the first position outside.
pub fn check_coordinate(coordinate: &Coordinate, shape: &IntTuple) -> Result<(), Error> {
    match first_outside(coordinate, shape)? {
        None => Ok(()),
        Some((position, extent)) => {
            let (coordinate, shape) = (coordinate.to_string(), shape.to_string());
            Err(Error::OutOfRange { coordinate, shape, position, extent })
        }
    }
}

/// The first known position outside its known extent, and that extent.
fn first_outside(coordinate: &Coordinate, shape: &IntTuple) -> Result<Option<(i64, i64)>, Error> {
    match (coordinate, shape) {
        (Tuple::Leaf(Index::All), _) => Ok(None),
        (Tuple::Leaf(Index::At(position)), _) => {
            let known = position.known().zip(shape.product()?.known());
            Ok(known.filter(|(position, extent)| !(0..*extent).contains(position)))
        }
        (Tuple::Node(positions), Tuple::Leaf(_)) if positions.len() == 1 => {
            first_outside(&positions[0], shape)
        }
        (Tuple::Node(positions), Tuple::Node(extents)) if positions.len() == extents.len() => {
            for (position, extent) in positions.iter().zip(extents) {
                if let Some(outside) = first_outside(position, extent)? {
                    return Ok(Some(outside));
                }
            }
            Ok(None)
        }
        // The evaluation reports another structure.
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_coordinate_are_inverse() {
        for shape in [IntTuple::from(6), (4, 3).into(), ((2, 3), (4, (1, 5))).into()] {
            for index in 0..shape.product().unwrap().known().unwrap() {
                let coordinate = coordinate_of(&index.into(), &shape).unwrap();
                assert!(coordinate.congruent(&shape));
                assert_eq!(index_of(&coordinate, &shape).unwrap(), index);
            }
        }
    }
}
