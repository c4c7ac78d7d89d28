//! The mapping of registers and lanes to cells of tensor memory (PTX ISA, "Data Movement Shape").

use warpwright_events::{Cell, LANES};

use super::cells::Area;

/// How `tcgen05.ld` and `tcgen05.st` distribute cells over the lanes of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `.32x32b`: a row per lane, a column per register.
    Rows,
    /// `.16x64b`, `.16x128b` and `.16x256b`: two, four or eight columns of 16 rows at a time,
    /// distributed like fragments of matrices.
    Fragments { columns: u32 },
    /// `.16x32bx2`: as `.32x32b`, but the upper 16 lanes access the same rows as the lower ones, at
    /// a column offset.
    Halves { apart: u32 },
}

/// A move between registers and cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) shape: Shape,
    /// Registers of a lane.
    pub(crate) registers: u32,
    /// Whether a register holds the lower halves of two neighboring columns.
    pub(crate) packed: bool,
}

impl Shape {
    /// The shape of a PTX modifier without its dot; that of halves with no offset yet.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "32x32b" => Shape::Rows,
            "16x64b" => Shape::Fragments { columns: 2 },
            "16x128b" => Shape::Fragments { columns: 4 },
            "16x256b" => Shape::Fragments { columns: 8 },
            "16x32bx2" => Shape::Halves { apart: 0 },
            _ => return None,
        })
    }

    /// Rows that it reaches.
    pub(crate) fn rows(self) -> u32 {
        if self == Shape::Rows { 32 } else { 16 }
    }
}

impl Move {
    /// The row and the column, relative to the first ones, of a lane's register; of two columns the
    /// first.
    pub(crate) fn place(self, lane: u32, register: u32) -> (u32, u32) {
        let cells = if self.packed { 2 } else { 1 };
        match self.shape {
            Shape::Rows => (lane, register * cells),
            Shape::Halves { apart } => (lane % 16, lane / 16 * apart + register * cells),
            // Pairs of lanes: rows 0 and 8, 1 and 9, ...
            Shape::Fragments { columns: 2 } => {
                (lane % 2 * 8 + lane / 4, (register * 2 + lane / 2 % 2) * cells)
            }
            Shape::Fragments { columns: 4 } => {
                (register % 2 * 8 + lane / 4, (register / 2 * 4 + lane % 4) * cells)
            }
            // As the accumulator of an `mma`.
            Shape::Fragments { .. } => {
                let column = register / 4 * 8 + lane % 4 * 2 + register % 2;
                (register / 2 % 2 * 8 + lane / 4, column * cells)
            }
        }
    }

    /// The rectangles that it touches, from a first cell on.
    pub(crate) fn areas(self, first: Cell) -> Vec<Area> {
        let cells = if self.packed { 2 } else { 1 };
        let area =
            |first: Cell, columns: u32| Area { first, rows: self.shape.rows(), columns: columns * cells };
        match self.shape {
            Shape::Rows => vec![area(first, self.registers)],
            Shape::Halves { apart } => {
                let second = Cell { column: first.column + apart, ..first };
                vec![area(first, self.registers), area(second, self.registers)]
            }
            // A lane holds every 32nd cell of 16 rows.
            Shape::Fragments { .. } => vec![area(first, self.registers * LANES as u32 / self.shape.rows())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every cell of the areas belongs to exactly one register of one lane.
    #[test]
    fn registers_cover_their_areas_once() {
        let shapes = ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"];
        for (word, packed) in shapes.into_iter().flat_map(|word| [(word, false), (word, true)]) {
            let shape = match Shape::from_word(word).unwrap() {
                Shape::Halves { .. } => Shape::Halves { apart: 40 },
                shape => shape,
            };
            let moves = Move { shape, registers: 8, packed };
            let first = Cell { row: 0, column: 0 };
            let mut expected = Vec::new();
            for Area { first, rows, columns } in moves.areas(first) {
                expected.extend((0..rows).flat_map(|row| (0..columns).map(move |c| (row, first.column + c))));
            }
            let mut found = Vec::new();
            for (lane, register) in (0..32).flat_map(|lane| (0..8).map(move |register| (lane, register))) {
                let (row, column) = moves.place(lane, register);
                found.push((row, column));
                found.extend(packed.then_some((row, column + 1)));
            }
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{word} {packed}");
        }
    }
}
