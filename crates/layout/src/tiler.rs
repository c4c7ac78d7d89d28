//! [`Tiler`]: the right operand of compositions, divisions and products.

use crate::tuple::from_tuple;
use crate::{All, Error, Int, IntTuple, Layout, Tuple};
use std::fmt;

/// A layout applied to the whole of another, or a tuple of tilers applied mode by mode.
///
/// An integer `n` is the layout `n:1`. `_` ([`All`]) keeps its mode. Modes past the end of a tuple
/// are kept too.
///
/// ```
/// use warpwright_layout::{All, Layout, Tiler};
/// let by_mode = Tiler::from((8, Layout::new(4, 2)?, All));
/// assert_eq!(by_mode.to_string(), "<8:1,4:2,_>");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tiler {
    /// Keeps the mode.
    All,
    /// Applies this layout.
    Layout(Layout),
    /// Applies these to the modes in order.
    Modes(Vec<Tiler>),
}

impl Tiler {
    /// Applies an operation on (layout, layout) by mode; `_` and the modes past the end of the
    /// tiler keep theirs.
    pub(crate) fn apply(
        &self,
        layout: &Layout,
        operation: &mut impl FnMut(&Layout, &Layout) -> Result<Layout, Error>,
    ) -> Result<Layout, Error> {
        match self {
            Tiler::All => Ok(layout.clone()),
            Tiler::Layout(right) => operation(layout, right),
            Tiler::Modes(tilers) => {
                let mut modes = self.modes_of(layout, tilers.len())?;
                for (mode, tiler) in modes.iter_mut().zip(tilers) {
                    *mode = tiler.apply(mode, operation)?;
                }
                Ok(Layout::of_modes(modes))
            }
        }
    }

    /// The modes of `layout`, of which this tiler needs at least `wanted`.
    pub(crate) fn modes_of(&self, layout: &Layout, wanted: usize) -> Result<Vec<Layout>, Error> {
        if layout.rank() < wanted {
            return Err(Error::RankTooSmall {
                layout: layout.to_string(),
                rank: layout.rank(),
                given: self.to_string(),
                wanted,
            });
        }
        Ok(layout.modes())
    }

    /// The tiler with the modes for which `keep` holds.
    pub(crate) fn modes(&self) -> Vec<Tiler> {
        match self {
            Tiler::Modes(modes) => modes.clone(),
            other => vec![other.clone()],
        }
    }
}

impl fmt::Display for Tiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tiler::All => f.write_str("_"),
            Tiler::Layout(layout) => layout.fmt(f),
            Tiler::Modes(modes) => {
                f.write_str("<")?;
                for (position, mode) in modes.iter().enumerate() {
                    if position > 0 {
                        f.write_str(",")?;
                    }
                    mode.fmt(f)?;
                }
                f.write_str(">")
            }
        }
    }
}

impl From<All> for Tiler {
    fn from(_: All) -> Tiler {
        Tiler::All
    }
}

impl From<Layout> for Tiler {
    fn from(layout: Layout) -> Tiler {
        Tiler::Layout(layout)
    }
}

impl From<&Layout> for Tiler {
    fn from(layout: &Layout) -> Tiler {
        Tiler::Layout(layout.clone())
    }
}

impl From<&Tiler> for Tiler {
    fn from(tiler: &Tiler) -> Tiler {
        tiler.clone()
    }
}

impl From<&IntTuple> for Tiler {
    fn from(shape: &IntTuple) -> Tiler {
        match shape {
            Tuple::Leaf(extent) => Tiler::from(extent.clone()),
            Tuple::Node(modes) => Tiler::Modes(modes.iter().map(Tiler::from).collect()),
        }
    }
}

impl From<IntTuple> for Tiler {
    fn from(shape: IntTuple) -> Tiler {
        Tiler::from(&shape)
    }
}

impl From<Int> for Tiler {
    fn from(extent: Int) -> Tiler {
        Tiler::Layout(Layout::contiguous(extent))
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Tiler {
            fn from(extent: $integer) -> Tiler {
                Tiler::from(Int::from(extent))
            }
        }
    )*};
}
from_integer!(i32, i64, u32, usize);

from_tuple!(Tiler, Tiler::Modes, (A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E), (A, B, C, D, E, F));
