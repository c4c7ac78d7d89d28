//! Coordinates as device values, for bounds checks.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashSet;
use warpwright_layout::{ComposedLayout, Int, IntTuple, Offset};

use super::address::Addresses;
use super::legal::legal;
use crate::operation::{here, refuse};
use crate::recorder;
use crate::value::Reg;

/// The (row, column) coordinates of a thread's part of a tile.
pub struct Coordinates {
    layout: ComposedLayout,
    positions: Vec<IntTuple>,
    values: Addresses,
    /// Those that were used.
    used: Rc<RefCell<BTreeSet<u32>>>,
}

impl Coordinates {
    /// The coordinates that a partitioned identity tensor has at `positions`.
    #[track_caller]
    pub(super) fn new(layout: ComposedLayout, positions: Vec<IntTuple>) -> Self {
        let used = Rc::<RefCell<BTreeSet<u32>>>::default();
        let (known, count, location) = (Rc::clone(&used), positions.len() as u32, here());
        recorder::with(|recorder| {
            let sizes = recorder.tile_sizes();
            recorder.demand_at_end(location, move |_| another_tile(&known.borrow(), count, &sizes.borrow()));
        });
        Self { layout, positions, values: Addresses::default(), used }
    }

    /// The number of coordinates.
    pub fn len(&self) -> u32 {
        self.positions.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The row of the coordinate at `index`.
    #[track_caller]
    pub fn row(&self, index: u32) -> Reg<u32> {
        self.values.value_of(&self.at(index, 0))
    }

    /// The column of the coordinate at `index`.
    #[track_caller]
    pub fn column(&self, index: u32) -> Reg<u32> {
        self.values.value_of(&self.at(index, 1))
    }

    #[track_caller]
    fn at(&self, index: u32, mode: usize) -> Int {
        let Some(position) = self.positions.get(index as usize) else {
            refuse(format!(
                "coordinate {index} is out of range: the first of {} is coordinate 0",
                self.len()
            ));
            return Int::ZERO;
        };
        self.used.borrow_mut().insert(index);
        match legal(self.layout.evaluate(position), || 0.into()) {
            Offset::Coordinate(tuple) => {
                tuple.modes().get(mode).and_then(|mode| mode.leaf().cloned()).unwrap_or(Int::ZERO)
            }
            // The origin of the tile: all zeros has no basis.
            Offset::Linear(_) => Int::ZERO,
        }
    }
}

/// What is wrong with coordinates of which only the first are used, as many as some other part has
/// elements: they are those of a larger tile.
fn another_tile(used: &BTreeSet<u32>, count: u32, sizes: &FxHashSet<u32>) -> Option<String> {
    let first = used.len() as u32;
    let are_first = first > 1 && first < count && used.last() == Some(&(first - 1));
    (are_first && sizes.contains(&first)).then(|| {
        format!(
            "`Coordinates`: of {count} coordinates the kernel uses the first {first}, for a part of {first} elements: make the \
             coordinates for the tile of that part"
        )
    })
}
