//! The cells of a picture.

use super::{MOST_CELLS, Options, Together};
use crate::banks::{BANK_BYTES, BANKS};
use crate::expression::{Ownership, Value};
use crate::{ComposedLayout, Error, Layout, coordinate_of};

/// One cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// The value of the layout.
    pub(super) offset: String,
    /// The bank of the element, for offsets in memory.
    pub(super) bank: Option<i64>,
    /// The 4-byte word of the element, for offsets in memory.
    word: Option<i64>,
    /// The (thread, value) pairs that hold the element.
    pub(super) owners: Vec<(i64, i64)>,
    /// Whether the element shares its bank, but not its word, with another one accessed together
    /// with it.
    pub(super) conflicts: bool,
}

impl Cell {
    pub(super) fn label(&self) -> String {
        match self.owners.first() {
            None => self.offset.clone(),
            Some((thread, value)) if self.owners.len() == 1 => format!("T{thread}V{value}"),
            Some((thread, value)) => format!("T{thread}V{value}+{}", self.owners.len() - 1),
        }
    }
}

/// Rows of cells.
pub(super) struct Grid {
    pub(super) cells: Vec<Vec<Cell>>,
}

impl Grid {
    /// The grid of a layout or ownership; nothing for other values.
    pub(super) fn of(value: &Value, options: &Options) -> Result<Option<Grid>, Error> {
        match value {
            Value::Layout(_) | Value::Composed(_) => Grid::of_layout(&value.composed()?, options).map(Some),
            Value::Ownership(ownership) => Grid::of_owners(ownership).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.cells.first().map_or(0, Vec::len)
    }

    /// The number of cells marked as conflicting.
    pub(super) fn conflicts(&self) -> usize {
        self.cells.iter().flatten().filter(|cell| cell.conflicts).count()
    }

    /// The offsets of a layout: mode 0 down, the rest across; a layout of one mode is one row.
    pub(super) fn of_layout(layout: &ComposedLayout, options: &Options) -> Result<Grid, Error> {
        let values = values(layout)?;
        let rows = match layout.rank() {
            0 | 1 => 1,
            _ => layout.inner().mode(0)?.known_size("a picture")? as usize,
        };
        let numbers = layout.offsets().ok();
        let cell = |index: usize| {
            let byte = numbers.as_ref().map(|numbers| numbers[index] * options.element_bits / 8);
            let word = byte.map(|byte| byte.div_euclid(BANK_BYTES));
            let bank = word.map(|word| word.rem_euclid(BANKS));
            Cell { offset: values[index].clone(), bank, word, ..Cell::default() }
        };
        let columns = values.len() / rows;
        let cells =
            (0..rows).map(|row| (0..columns).map(|column| cell(row + rows * column)).collect()).collect();
        let mut grid = Grid { cells };
        grid.mark(options.together);
        Ok(grid)
    }

    fn of_owners(ownership: &Ownership) -> Result<Grid, Error> {
        let tile = Layout::column_major(ownership.tile.clone())?;
        let size = within_reason(&tile)?;
        within_reason(&ownership.thread_values)?;
        let rows = if tile.rank() < 2 { 1 } else { tile.mode(0)?.known_size("a picture")? } as usize;
        let mut cells = vec![vec![Cell::default(); size as usize / rows]; rows];
        let threads = ownership.thread_values.mode(0)?.known_size("a picture")?;
        for (index, offset) in ownership.thread_values.offsets()?.into_iter().enumerate() {
            let Ok(place) = usize::try_from(offset) else { continue };
            if let Some(cell) = cells[place % rows].get_mut(place / rows) {
                cell.owners.push((index as i64 % threads, index as i64 / threads));
            }
        }
        Ok(Grid { cells })
    }

    /// Marks the cells with bank conflicts.
    fn mark(&mut self, together: Together) {
        let (rows, columns) = (self.cells.len(), self.columns());
        let groups: Vec<Vec<(usize, usize)>> = match together {
            Together::Nothing => return,
            Together::Rows => {
                (0..rows).map(|row| (0..columns).map(|column| (row, column)).collect()).collect()
            }
            Together::Columns => {
                (0..columns).map(|column| (0..rows).map(|row| (row, column)).collect()).collect()
            }
        };
        for group in groups.iter().flat_map(|group| group.chunks(BANKS as usize)) {
            for &(row, column) in group {
                let meets = |&(i, j): &(usize, usize)| {
                    let (this, other) = (&self.cells[row][column], &self.cells[i][j]);
                    this.bank.is_some() && this.bank == other.bank && this.word != other.word
                };
                self.cells[row][column].conflicts = group.iter().any(meets);
            }
        }
    }
}

/// The value of the layout for each index, as text: an offset or a coordinate.
pub(super) fn values(layout: &ComposedLayout) -> Result<Vec<String>, Error> {
    let size = within_reason(layout.inner())?;
    if let Ok(offsets) = layout.offsets() {
        return Ok(offsets.iter().map(i64::to_string).collect());
    }
    let shape = layout.shape();
    (0..size).map(|index| Ok(layout.evaluate(&coordinate_of(&index.into(), shape)?)?.to_string())).collect()
}

fn within_reason(layout: &Layout) -> Result<i64, Error> {
    let size = layout.known_size("a picture")?;
    if size > MOST_CELLS {
        return Err(Error::TooLarge { layout: layout.to_string(), size, most: MOST_CELLS });
    }
    Ok(size)
}
