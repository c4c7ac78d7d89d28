//! Nested tuples: the form of shapes, strides and coordinates.

use crate::{Error, Int};
use std::fmt;
use std::ops::Range;

/// A leaf, or a sequence of tuples.
///
/// ```
/// use warpwright_layout::IntTuple;
/// let shape = IntTuple::from((2, (4, 8)));
/// assert_eq!(shape.to_string(), "(2,(4,8))");
/// assert_eq!(format!("{shape:#}"), "(_2,(_4,_8))");
/// assert_eq!((shape.rank(), shape.depth()), (2, 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tuple<T> {
    /// A single element.
    Leaf(T),
    /// A sequence of tuples; it may be empty.
    Node(Vec<Tuple<T>>),
}

/// A nested tuple of integers: a shape, or a coordinate without `_`.
pub type IntTuple = Tuple<Int>;

impl<T> Tuple<T> {
    /// The number of modes: 1 for a leaf.
    pub fn rank(&self) -> usize {
        self.modes().len()
    }

    /// How deeply tuples nest: 0 for a leaf.
    pub fn depth(&self) -> usize {
        match self {
            Tuple::Leaf(_) => 0,
            Tuple::Node(modes) => 1 + modes.iter().map(Tuple::depth).max().unwrap_or(0),
        }
    }

    /// The modes: of a leaf, itself.
    pub fn modes(&self) -> &[Tuple<T>] {
        match self {
            Tuple::Leaf(_) => std::slice::from_ref(self),
            Tuple::Node(modes) => modes,
        }
    }

    /// The leaf, if this is one.
    pub fn leaf(&self) -> Option<&T> {
        match self {
            Tuple::Leaf(leaf) => Some(leaf),
            Tuple::Node(_) => None,
        }
    }

    /// The leaves from left to right.
    pub fn leaves(&self) -> Vec<&T> {
        let mut leaves = Vec::new();
        self.visit(&mut |leaf| leaves.push(leaf));
        leaves
    }

    /// Calls `visitor` on each leaf from left to right.
    pub fn visit<'a>(&'a self, visitor: &mut impl FnMut(&'a T)) {
        match self {
            Tuple::Leaf(leaf) => visitor(leaf),
            Tuple::Node(modes) => modes.iter().for_each(|mode| mode.visit(visitor)),
        }
    }

    /// The tuple of the same structure whose leaves are `function` of these.
    pub fn map<U>(&self, function: &mut impl FnMut(&T) -> U) -> Tuple<U> {
        match self {
            Tuple::Leaf(leaf) => Tuple::Leaf(function(leaf)),
            Tuple::Node(modes) => Tuple::Node(modes.iter().map(|mode| mode.map(function)).collect()),
        }
    }

    /// [`map`](Tuple::map) with a function that may fail.
    pub fn try_map<U, E>(&self, function: &mut impl FnMut(&T) -> Result<U, E>) -> Result<Tuple<U>, E> {
        Ok(match self {
            Tuple::Leaf(leaf) => Tuple::Leaf(function(leaf)?),
            Tuple::Node(modes) => {
                Tuple::Node(modes.iter().map(|mode| mode.try_map(function)).collect::<Result<_, _>>()?)
            }
        })
    }

    /// True if `other` has the same tuple structure, whatever its leaves.
    pub fn congruent<U>(&self, other: &Tuple<U>) -> bool {
        match (self, other) {
            (Tuple::Leaf(_), Tuple::Leaf(_)) => true,
            (Tuple::Node(a), Tuple::Node(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.congruent(b))
            }
            _ => false,
        }
    }
}

impl IntTuple {
    /// The product of the leaves; 1 for an empty tuple.
    pub fn product(&self) -> Result<Int, Error> {
        match self {
            Tuple::Leaf(leaf) => Ok(leaf.clone()),
            Tuple::Node(modes) => {
                modes.iter().try_fold(Int::ONE, |product, mode| product.times(&mode.product()?))
            }
        }
    }

    /// The product of each mode: `(2,(4,8))` gives `(2,32)`.
    pub fn product_each(&self) -> Result<IntTuple, Error> {
        match self {
            Tuple::Leaf(_) => Ok(self.clone()),
            Tuple::Node(modes) => Ok(Tuple::Node(
                modes.iter().map(|mode| mode.product().map(Tuple::Leaf)).collect::<Result<_, _>>()?,
            )),
        }
    }

    /// Exclusive prefix products from left to right, starting at `first`: the strides of a compact
    /// column-major layout of this shape. `(2,(4,8))` gives `(1,(2,8))`.
    pub fn prefix_product(&self, first: &Int) -> Result<IntTuple, Error> {
        let mut next = first.clone();
        self.try_map(&mut |extent: &Int| {
            let current = next.clone();
            next = next.times(extent)?;
            Ok(current)
        })
    }

    /// Exclusive prefix products from right to left: the strides of a compact row-major layout of
    /// this shape.
    pub fn suffix_product(&self) -> Result<IntTuple, Error> {
        let mut products = Vec::new();
        let mut next = Int::ONE;
        for extent in self.leaves().into_iter().rev() {
            products.push(Tuple::Leaf(next.clone()));
            next = next.times(extent)?;
        }
        self.try_map(&mut |_| match products.pop() {
            Some(Tuple::Leaf(product)) => Ok(product),
            _ => Err(Error::Overflow),
        })
    }

    /// True if every index into `self` is an index into `other` too: their sizes agree and `other`
    /// refines the tuple structure of `self`. `24` is compatible with `(4,6)`, and `(4,6)` with
    /// `((2,2),6)`.
    ///
    /// ```
    /// use warpwright_layout::IntTuple;
    /// let (coarse, fine) = (IntTuple::from((4, 6)), IntTuple::from(((2, 2), 6)));
    /// assert!(coarse.compatible(&fine) && !fine.compatible(&coarse));
    /// ```
    pub fn compatible(&self, other: &IntTuple) -> bool {
        match (self, other) {
            (Tuple::Leaf(size), _) => other.product().is_ok_and(|product| product == *size),
            (Tuple::Node(a), Tuple::Node(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.compatible(b))
            }
            _ => false,
        }
    }
}

impl<T: fmt::Display> fmt::Display for Tuple<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tuple::Leaf(leaf) => leaf.fmt(f),
            Tuple::Node(modes) => {
                f.write_str("(")?;
                for (position, mode) in modes.iter().enumerate() {
                    if position > 0 {
                        f.write_str(",")?;
                    }
                    mode.fmt(f)?;
                }
                f.write_str(")")
            }
        }
    }
}

impl<T: fmt::Display> Tuple<T> {
    /// The columns (in characters) of a leaf in the printed tuple.
    pub(crate) fn columns_of_leaf(&self, leaf: usize) -> Option<Range<usize>> {
        let (mut column, mut leaves_left) = (0, leaf);
        self.find_leaf(&mut column, &mut leaves_left)
    }

    fn find_leaf(&self, column: &mut usize, leaves_left: &mut usize) -> Option<Range<usize>> {
        match self {
            Tuple::Leaf(leaf) => {
                let start = *column;
                *column += leaf.to_string().chars().count();
                if *leaves_left == 0 {
                    return Some(start..*column);
                }
                *leaves_left -= 1;
                None
            }
            Tuple::Node(modes) => {
                for mode in modes {
                    // The opening parenthesis or a comma.
                    *column += 1;
                    if let Some(found) = mode.find_leaf(column, leaves_left) {
                        return Some(found);
                    }
                }
                *column += if modes.is_empty() { 2 } else { 1 };
                None
            }
        }
    }
}

impl<T: Into<Int>> From<T> for IntTuple {
    fn from(leaf: T) -> IntTuple {
        Tuple::Leaf(leaf.into())
    }
}

impl From<&IntTuple> for IntTuple {
    fn from(tuple: &IntTuple) -> IntTuple {
        tuple.clone()
    }
}

macro_rules! from_tuple {
    ($target:ty, $node:path, $(($($name:ident),+)),+) => {$(
        impl<$($name: Into<$target>),+> From<($($name,)+)> for $target {
            #[allow(non_snake_case)]
            fn from(($($name,)+): ($($name,)+)) -> $target {
                $node(vec![$($name.into()),+])
            }
        }
    )+};
}
pub(crate) use from_tuple;
from_tuple!(IntTuple, Tuple::Node, (A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E), (A, B, C, D, E, F));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products() {
        let shape = IntTuple::from((2, (4, 8), 3));
        assert_eq!(shape.product().unwrap(), 192);
        assert_eq!(shape.product_each().unwrap(), IntTuple::from((2, 32, 3)));
        assert_eq!(shape.prefix_product(&Int::ONE).unwrap(), IntTuple::from((1, (2, 8), 64)));
        assert_eq!(shape.suffix_product().unwrap(), IntTuple::from((96, (24, 3), 1)));
    }

    #[test]
    fn congruence_and_compatibility() {
        let shape = IntTuple::from((2, (4, 8)));
        assert!(shape.congruent(&IntTuple::from((0, (0, 0)))));
        assert!(!shape.congruent(&IntTuple::from((0, 0))));
        assert!(IntTuple::from((2, 32)).compatible(&shape));
        assert!(!IntTuple::from((2, 31)).compatible(&shape));
        assert!(IntTuple::from(64).compatible(&shape));
    }

    #[test]
    fn leaves_and_empty_tuples() {
        let empty: IntTuple = Tuple::Node(vec![]);
        assert_eq!((empty.rank(), empty.depth(), empty.to_string().as_str()), (0, 1, "()"));
        assert_eq!(empty.product().unwrap(), 1);
        assert_eq!(IntTuple::from(((1, 2), 3)).leaves().len(), 3);
    }
}
