//! Elements of tiles, and the lines that move them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use warpwright_ir::{Location, Register};

/// Element `index` of a tile of `shape` with `size` elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TileElement {
    pub(crate) shape: String,
    pub(crate) size: i64,
    pub(crate) index: i64,
}

/// What one line takes from one tile to another.
pub(crate) struct Transfer {
    pub(crate) from: (String, i64),
    pub(crate) to: (String, i64),
    pub(crate) indices: BTreeSet<i64>,
    /// Whether it always takes an element to that of the same index in the same two tiles.
    pub(crate) is_by_index: bool,
}

/// The elements that registers hold, and the lines that move them.
#[derive(Default)]
pub(crate) struct Elements {
    pub(crate) held: FxHashMap<Register, TileElement>,
    pub(crate) transfers: FxHashMap<(Location, &'static str), Transfer>,
    /// The numbers of elements that threads have of tiles.
    pub(crate) sizes: Rc<RefCell<FxHashSet<u32>>>,
}
