//! Coordinates as device values, for bounds checks.

use warpwright_layout::{ComposedLayout, Int, IntTuple, Offset};

use super::address::Addresses;
use super::legal::legal;
use crate::operation::refuse;
use crate::value::Reg;

/// The (row, column) coordinates of a thread's part of a tile.
pub struct Coordinates {
    layout: ComposedLayout,
    positions: Vec<IntTuple>,
    values: Addresses,
}

impl Coordinates {
    /// The coordinates that a partitioned identity tensor has at `positions`.
    pub(super) fn new(layout: ComposedLayout, positions: Vec<IntTuple>) -> Self {
        Self { layout, positions, values: Addresses::default() }
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
            refuse(format!("coordinate {index} of {}: the first is coordinate 0", self.len()));
            return Int::ZERO;
        };
        match legal(self.layout.evaluate(position), || 0.into()) {
            Offset::Coordinate(tuple) => {
                tuple.modes().get(mode).and_then(|mode| mode.leaf().cloned()).unwrap_or(Int::ZERO)
            }
            // The origin of the tile: all zeros has no basis.
            Offset::Linear(_) => Int::ZERO,
        }
    }
}
