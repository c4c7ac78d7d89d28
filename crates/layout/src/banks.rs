//! The cost of an access: shared-memory bank conflicts and global-memory sectors.

use crate::error::Illustration;
use crate::{ComposedLayout, Error, Layout};
use std::collections::BTreeSet;
use warpwright_arch::limits;

/// The banks of shared memory.
pub const BANKS: i64 = limits::BANKS as i64;
/// Bytes of a bank.
pub const BANK_BYTES: i64 = limits::BANK_BYTES as i64;
/// Bytes of a sector, the unit of a global access.
pub const SECTOR_BYTES: i64 = limits::SECTOR_BYTES as i64;

/// One instruction of a warp on a tile: each lane reads or writes a vector of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// (lane, value) to the index of an element in the tile.
    pub thread_values: Layout,
    /// The index in the tile at which lane 0 starts.
    pub first: i64,
    /// The width of an element in bits.
    pub element_bits: i64,
}

/// The cost of a shared-memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflicts {
    /// Passes over the banks.
    pub wavefronts: i64,
    /// The minimum number of passes for these bytes.
    pub ideal: i64,
}

impl Conflicts {
    /// The passes that bank conflicts add.
    pub fn extra(&self) -> i64 {
        self.wavefronts - self.ideal
    }
}

/// The cost of a global-memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sectors {
    /// Sectors touched.
    pub touched: i64,
    /// The minimum number of sectors for these bytes.
    pub ideal: i64,
}

impl Access {
    /// The access with this (lane, value) layout, of elements of `element_bits`.
    pub fn new(thread_values: Layout, element_bits: i64) -> Result<Access, Error> {
        if element_bits < 1 || thread_values.rank() != 2 {
            let legal = "a layout (lane, value) of elements of 1 bit or more";
            return Err(Error::bad_argument("an access", thread_values, legal));
        }
        Ok(Access { thread_values, first: 0, element_bits })
    }

    /// The access, moved by `first` elements.
    pub fn from(self, first: i64) -> Access {
        Access { first, ..self }
    }

    /// Row `row` of a (rows, columns) tile: lane `i` accesses element `i`.
    pub fn row(tile: (i64, i64), row: i64, element_bits: i64) -> Result<Access, Error> {
        Ok(Access::new(Layout::new((tile.1.min(32), 1), (tile.0, 0))?, element_bits)?.from(row))
    }

    /// Column `column` of a (rows, columns) tile: lane `i` accesses element `i`.
    pub fn column(tile: (i64, i64), column: i64, element_bits: i64) -> Result<Access, Error> {
        Ok(Access::new(Layout::new((tile.0.min(32), 1), (1, 0))?, element_bits)?.from(column * tile.0))
    }

    /// The indices at which the lanes' vectors start.
    fn lanes(&self) -> Result<Vec<i64>, Error> {
        Ok(self.thread_values.mode(0)?.offsets()?.into_iter().map(|lane| lane + self.first).collect())
    }

    /// The byte offset of each lane's vector, and the bytes of one vector.
    ///
    /// # Errors
    /// If a lane's elements are not contiguous, in order, and aligned to the size of the vector.
    fn vectors(&self, tile: &ComposedLayout) -> Result<(Vec<i64>, i64), Error> {
        let (lane_starts, steps) = (self.lanes()?, self.thread_values.mode(1)?.offsets()?);
        let bits = steps.len() as i64 * self.element_bits;
        let mut starts = Vec::with_capacity(lane_starts.len());
        for lane in &lane_starts {
            let first = tile.at(lane + steps[0])?;
            for (value, step) in steps.iter().enumerate() {
                if tile.at(lane + step)? != first + value as i64 {
                    return Err(self.broken_vector(tile, lane + step, steps.len()));
                }
            }
            let start = first * self.element_bits;
            if start % bits.max(8) != 0 {
                return Err(self.broken_vector(tile, *lane, steps.len()));
            }
            starts.push(start / 8);
        }
        Ok((starts, (bits + 7) / 8))
    }

    fn broken_vector(&self, tile: &ComposedLayout, index: i64, values: usize) -> Error {
        let bits = values as i64 * self.element_bits;
        let summary = format!(
            "a vector of {values} elements ({bits} bits) is not side by side and aligned in memory at element {index}"
        );
        let picture = Illustration::new(summary).show("tile", tile).show("access", &self.thread_values);
        let widest = self.widest_run(tile).unwrap_or(1);
        Error::BreaksVector(Box::new(
            picture.suggest(format!("the nearest legal vector has {widest} elements")),
        ))
    }

    /// The largest power of two of elements that are contiguous for every lane.
    fn widest_run(&self, tile: &ComposedLayout) -> Result<usize, Error> {
        let (lanes, steps) = (self.lanes()?, self.thread_values.mode(1)?.offsets()?);
        let holds = |run: usize| {
            lanes.iter().all(|lane| {
                let first = tile.at(lane + steps[0]).unwrap_or(1);
                first % run as i64 == 0
                    && (0..run).all(|value| tile.at(lane + steps[value]).ok() == Some(first + value as i64))
            })
        };
        Ok((0..7).map(|log| 1 << log).take_while(|&run| run <= steps.len() && holds(run)).last().unwrap_or(1))
    }

    /// The passes over the banks for this access to `tile`.
    ///
    /// Vectors of up to 4 bytes are served for all lanes at once, of 8 bytes in two halves, of 16
    /// bytes in four quarters. Per pass, each bank serves one 4-byte word, to all lanes that access
    /// it.
    ///
    /// ```
    /// use warpwright_layout::{Access, ComposedLayout, Layout, Swizzle};
    /// let tile = Layout::row_major((32, 32))?;
    /// let column = Access::column((32, 32), 0, 32)?;
    /// assert_eq!(column.conflicts(&tile.clone().into())?.wavefronts, 32);
    /// assert_eq!(column.conflicts(&tile.swizzled(Swizzle::new(5, 0, 5)?))?.wavefronts, 1);
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn conflicts(&self, tile: &ComposedLayout) -> Result<Conflicts, Error> {
        let (starts, bytes) = self.vectors(tile)?;
        let together = (BANKS * BANK_BYTES / bytes.max(BANK_BYTES)).max(1) as usize;
        let mut wavefronts = 0;
        for lanes in starts.chunks(together) {
            wavefronts += passes(lanes, bytes);
        }
        Ok(Conflicts { wavefronts, ideal: starts.chunks(together).len() as i64 })
    }

    /// The sectors of global memory that this access to `tile` touches, for a base aligned to a
    /// sector.
    ///
    /// ```
    /// use warpwright_layout::{Access, Layout};
    /// let tile = Layout::row_major((32, 32))?.into();
    /// assert_eq!(Access::row((32, 32), 0, 32)?.sectors(&tile)?.touched, 4);
    /// assert_eq!(Access::column((32, 32), 0, 32)?.sectors(&tile)?.touched, 32);
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn sectors(&self, tile: &ComposedLayout) -> Result<Sectors, Error> {
        let (starts, bytes) = self.vectors(tile)?;
        let (mut sectors, mut distinct) = (BTreeSet::new(), BTreeSet::new());
        for start in starts {
            distinct.insert(start);
            sectors.extend(start.div_euclid(SECTOR_BYTES)..=(start + bytes - 1).div_euclid(SECTOR_BYTES));
        }
        let ideal = (distinct.len() as i64 * bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;
        Ok(Sectors { touched: sectors.len() as i64, ideal })
    }

    /// The elements of one lane.
    pub fn vector(&self) -> Result<i64, Error> {
        self.thread_values.mode(1)?.known_size("an access")
    }
}

/// The largest number of words of one bank that these lanes access.
fn passes(starts: &[i64], bytes: i64) -> i64 {
    let mut words = BTreeSet::new();
    for start in starts {
        words.extend(start.div_euclid(BANK_BYTES)..=(start + bytes - 1).div_euclid(BANK_BYTES));
    }
    let mut load = [0; BANKS as usize];
    for word in words {
        load[word.rem_euclid(BANKS) as usize] += 1;
    }
    load.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(text: &str) -> ComposedLayout {
        text.parse().unwrap()
    }

    /// The (8,8):(1,8) tile of f32 of the swizzling tutorial: 2-way conflicts along a row, which
    /// Swizzle<3,2,3> avoids.
    #[test]
    fn the_tutorial_rows_conflict_and_are_freed() {
        for row in 0..8 {
            let access = Access::row((8, 8), row, 32).unwrap();
            assert_eq!(
                access.conflicts(&tile("(8,8):(1,8)")).unwrap(),
                Conflicts { wavefronts: 2, ideal: 1 }
            );
            let swizzled = tile("Swizzle<3,2,3> o (8,8):(1,8)");
            assert_eq!(access.conflicts(&swizzled).unwrap().extra(), 0);
            let column = Access::column((8, 8), row, 32).unwrap();
            assert_eq!(column.conflicts(&swizzled).unwrap().extra(), 0);
        }
    }

    #[test]
    fn lanes_that_want_one_word_share_it() {
        let same = Access::new("(32,1):(0,0)".parse().unwrap(), 32).unwrap();
        assert_eq!(same.conflicts(&tile("32:1")).unwrap().wavefronts, 1);
        let halves = Access::new("(32,1):(1,0)".parse().unwrap(), 16).unwrap();
        assert_eq!(halves.conflicts(&tile("32:1")).unwrap().wavefronts, 1);
    }

    #[test]
    fn wide_accesses_go_by_halves_and_quarters() {
        let eight = Access::new("(32,2):(2,1)".parse().unwrap(), 32).unwrap();
        assert_eq!(eight.conflicts(&tile("64:1")).unwrap(), Conflicts { wavefronts: 2, ideal: 2 });
        let sixteen = Access::new("(32,4):(4,1)".parse().unwrap(), 32).unwrap();
        assert_eq!(sixteen.conflicts(&tile("128:1")).unwrap(), Conflicts { wavefronts: 4, ideal: 4 });
    }

    /// Rows of 64 bytes, read 16 bytes at a time by 8 lanes in a column (as ldmatrix does): a 4-way
    /// conflict.
    #[test]
    fn matrix_rows_of_64_bytes_conflict() {
        let rows = Access::new("(8,8):(1,128)".parse().unwrap(), 16).unwrap();
        assert_eq!(rows.conflicts(&tile("(128,32):(32,1)")).unwrap(), Conflicts { wavefronts: 4, ideal: 1 });
        assert_eq!(rows.conflicts(&tile("Swizzle<2,3,3> o (128,32):(32,1)")).unwrap().extra(), 0);
    }

    #[test]
    fn scattered_vectors_are_refused_with_the_widest_that_fits() {
        let access = Access::new("(8,8):(1,8)".parse().unwrap(), 16).unwrap();
        let error = access.conflicts(&tile("Swizzle<2,2,3> o (8,8):(8,1)")).unwrap_err();
        assert!(matches!(error, Error::BreaksVector(_)));
        assert!(error.to_string().contains("nearest legal vector has 4 elements"), "{error}");
    }

    #[test]
    fn strided_lanes_touch_more_sectors() {
        let strided = Access::new("(32,1):(2,0)".parse().unwrap(), 32).unwrap();
        assert_eq!(strided.sectors(&tile("64:1")).unwrap(), Sectors { touched: 8, ideal: 4 });
    }
}
