//! Strides: integers, or multiples of a basis vector for layouts that return coordinates.

use crate::{Error, Int, IntTuple, Tuple};
use std::fmt;

/// One stride: `scale` steps along `basis`.
///
/// With an empty basis, the stride is a number of elements. A basis `[i, j, ...]` is the unit
/// vector of mode `i`, submode `j` of a coordinate; CuTe prints `3 * E<1,0>` as `3@0@1`, this crate
/// as `3@1.0`. TMA tensors have such strides, since the hardware takes a coordinate, not an
/// address.
///
/// ```
/// use warpwright_layout::Layout;
/// let coordinates = Layout::identity((4, (2, 3)))?;
/// assert_eq!(coordinates.to_string(), "(4,(2,3)):(1@0,(1@1.0,1@1.1))");
/// assert_eq!(coordinates.evaluate(&(3, (1, 2)).into())?.to_string(), "(3,(1,2))");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stride {
    /// The number of steps.
    pub scale: Int,
    /// The path of the mode in the coordinate; empty for memory.
    pub basis: Vec<usize>,
}

/// A nested tuple of strides.
pub type StrideTuple = Tuple<Stride>;

impl Stride {
    /// A stride of `scale` elements in memory.
    pub fn plain(scale: impl Into<Int>) -> Stride {
        Stride { scale: scale.into(), basis: Vec::new() }
    }

    /// A step of one along mode `path[0]`, submode `path[1]`, and so on: CuTe's `E<path...>`.
    pub fn basis(path: impl Into<Vec<usize>>) -> Stride {
        Stride { scale: Int::ONE, basis: path.into() }
    }

    /// True if the stride is a number of elements, not of steps along a basis.
    pub fn is_plain(&self) -> bool {
        self.basis.is_empty()
    }

    /// True if the stride is the known number `value` of elements.
    pub fn is(&self, value: i64) -> bool {
        self.is_plain() && self.scale.is(value)
    }

    /// The stride multiplied by `factor`.
    pub(crate) fn times(&self, factor: &Int) -> Result<Stride, Error> {
        let scale = self.scale.times(factor)?;
        let basis = if scale.is(0) { Vec::new() } else { self.basis.clone() };
        Ok(Stride { scale, basis })
    }
}

impl<T: Into<Int>> From<T> for Stride {
    fn from(scale: T) -> Stride {
        Stride::plain(scale)
    }
}

impl fmt::Display for Stride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scale.fmt(f)?;
        for (position, mode) in self.basis.iter().enumerate() {
            write!(f, "{}{mode}", if position == 0 { '@' } else { '.' })?;
        }
        Ok(())
    }
}

impl From<IntTuple> for StrideTuple {
    fn from(tuple: IntTuple) -> StrideTuple {
        tuple.map(&mut |leaf| Stride::plain(leaf))
    }
}

impl<T: Into<Stride>> From<T> for StrideTuple {
    fn from(leaf: T) -> StrideTuple {
        Tuple::Leaf(leaf.into())
    }
}

crate::tuple::from_tuple!(
    StrideTuple,
    Tuple::Node,
    (A),
    (A, B),
    (A, B, C),
    (A, B, C, D),
    (A, B, C, D, E),
    (A, B, C, D, E, F)
);

/// The result of a layout: a memory offset, or a coordinate if the strides have bases.
///
/// Coordinates add mode by mode. Adding the offset 0 to a coordinate changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Offset {
    /// A number of elements.
    Linear(Int),
    /// A coordinate.
    Coordinate(IntTuple),
}

impl Offset {
    /// Zero, as an offset or a coordinate.
    pub const ZERO: Offset = Offset::Linear(Int::ZERO);

    /// The number of elements; an error for a coordinate.
    pub fn linear(&self) -> Result<&Int, Error> {
        match self {
            Offset::Linear(offset) => Ok(offset),
            Offset::Coordinate(coordinate) => Err(Error::IsCoordinate(coordinate.to_string())),
        }
    }

    /// The offset of coordinate `at` under one stride.
    pub(crate) fn of_step(at: &Int, stride: &Stride) -> Result<Offset, Error> {
        let distance = at.times(&stride.scale)?;
        Ok(match stride.is_plain() {
            true => Offset::Linear(distance),
            false => {
                let mode = stride.basis.iter().copied().max().unwrap_or(0).max(stride.basis.len());
                if mode >= MOST_MODES {
                    let legal = format!("below {MOST_MODES}, as the depth of a coordinate");
                    return Err(Error::bad_argument("a mode of a basis", mode, legal));
                }
                Offset::Coordinate(unit(&stride.basis, distance))
            }
        })
    }

    /// The sum of two offsets of one kind.
    pub fn plus(&self, other: &Offset) -> Result<Offset, Error> {
        match (self, other) {
            (Offset::Linear(a), Offset::Linear(b)) => Ok(Offset::Linear(a.plus(b)?)),
            (Offset::Coordinate(a), Offset::Coordinate(b)) => Ok(Offset::Coordinate(add(a, b)?)),
            (Offset::Linear(zero), sum) | (sum, Offset::Linear(zero)) if zero.is(0) => Ok(sum.clone()),
            (a, b) => Err(Error::MixedStrides(a.to_string(), b.to_string())),
        }
    }
}

/// A coordinate has fewer modes and levels: it has a value for every mode before the one of its basis.
const MOST_MODES: usize = 64;

/// The coordinate that is `distance` at `path` and zero before it.
fn unit(path: &[usize], distance: Int) -> IntTuple {
    match path.split_first() {
        None => Tuple::Leaf(distance),
        Some((&mode, rest)) => {
            let mut modes = vec![IntTuple::from(0); mode];
            modes.push(unit(rest, distance));
            Tuple::Node(modes)
        }
    }
}

fn add(a: &IntTuple, b: &IntTuple) -> Result<IntTuple, Error> {
    match (a, b) {
        (Tuple::Leaf(a), Tuple::Leaf(b)) => Ok(Tuple::Leaf(a.plus(b)?)),
        (Tuple::Leaf(zero), tuple) | (tuple, Tuple::Leaf(zero)) if zero.is(0) => Ok(tuple.clone()),
        (Tuple::Node(a), Tuple::Node(b)) => {
            let (longer, shorter) = if a.len() >= b.len() { (a, b) } else { (b, a) };
            let mut sum = longer.clone();
            for (mode, other) in sum.iter_mut().zip(shorter) {
                *mode = add(mode, other)?;
            }
            Ok(Tuple::Node(sum))
        }
        _ => Err(Error::MixedStrides(a.to_string(), b.to_string())),
    }
}

impl From<Int> for Offset {
    fn from(offset: Int) -> Offset {
        Offset::Linear(offset)
    }
}

impl From<i64> for Offset {
    fn from(offset: i64) -> Offset {
        Offset::Linear(Int::Known(offset))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Offset::Linear(offset) => offset.fmt(f),
            Offset::Coordinate(coordinate) => coordinate.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_add_by_mode() {
        let step = |path: &[usize], n: i64| Offset::of_step(&n.into(), &Stride::basis(path)).unwrap();
        let sum = step(&[0], 3).plus(&step(&[1, 1], 5)).unwrap();
        assert_eq!(sum.to_string(), "(3,(0,5))");
        assert_eq!(sum.plus(&Offset::ZERO).unwrap(), sum);
        assert!(sum.plus(&Offset::from(1)).is_err());
        assert!(sum.linear().is_err());
    }

    #[test]
    fn coordinates_of_too_many_modes_or_levels_are_refused() {
        for path in [vec![usize::MAX], vec![0, 64], vec![0; 100_000]] {
            assert!(Offset::of_step(&1.into(), &Stride::basis(path)).is_err());
        }
        assert!(Offset::of_step(&1.into(), &Stride::basis([63])).is_ok());
    }
}
