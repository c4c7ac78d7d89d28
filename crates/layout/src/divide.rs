//! Divisions: a layout split into tiles.

use crate::{Error, Layout, Tiler};

impl Layout {
    /// Splits `A` into the tile that `B` selects and its repetitions: `A o (B, complement(B,
    /// size(A)))`. Applies by mode if the tiler is a tuple.
    ///
    /// Post-condition: rank 2 (in each tiled mode); mode 0 is `A o B`; mode 1 is the index of the
    /// tile. If the tiler does not divide the size, the last tile runs past the end and must be
    /// predicated.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let a = Layout::new((4, 2, 3), (2, 1, 8))?;
    /// assert_eq!(a.logical_divide(Layout::new(4, 2)?)?.to_string(), "((2,2),(2,3)):((4,1),(2,8))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn logical_divide(&self, tiler: impl Into<Tiler>) -> Result<Layout, Error> {
        tiler.into().apply(self, &mut divide)
    }

    /// [`logical_divide`](Layout::logical_divide) with the modes of the tiles in mode 0 and those
    /// of the rest in mode 1: `((T0,T1,..),(R0,R1,..))`.
    ///
    /// Post-condition: mode 0 is `A o tiler`; every index of `A` occurs exactly once where the
    /// tiler divides.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let tiles = Layout::column_major((8, 8))?.zipped_divide((4, 2))?;
    /// assert_eq!(tiles.to_string(), "((4,2),(2,4)):((1,8),(4,16))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn zipped_divide(&self, tiler: impl Into<Tiler>) -> Result<Layout, Error> {
        unzipped(self, &tiler.into(), &mut divide)
    }

    /// [`zipped_divide`](Layout::zipped_divide) with the rest flattened: `((T0,T1,..),R0,R1,..)`.
    ///
    /// Post-condition: mode 0 is `A o tiler`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let tiles = Layout::column_major((8, 8))?.tiled_divide((4, 2))?;
    /// assert_eq!(tiles.to_string(), "((4,2),2,4):((1,8),4,16)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn tiled_divide(&self, tiler: impl Into<Tiler>) -> Result<Layout, Error> {
        open_rest(&self.zipped_divide(tiler)?)
    }

    /// [`zipped_divide`](Layout::zipped_divide) with tile and rest flattened:
    /// `(T0,T1,..,R0,R1,..)`.
    ///
    /// Post-condition: the first modes are those of `A o tiler`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let tiles = Layout::column_major((8, 8))?.flat_divide((4, 2))?;
    /// assert_eq!(tiles.to_string(), "(4,2,2,4):(1,8,4,16)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn flat_divide(&self, tiler: impl Into<Tiler>) -> Result<Layout, Error> {
        open_both(&self.zipped_divide(tiler)?)
    }
}

fn divide(a: &Layout, b: &Layout) -> Result<Layout, Error> {
    let rest = b.complement_of(&a.size()?, false)?;
    a.compose(Layout::of_modes([b.clone(), rest]))
}

/// Applies a splitter by mode and groups the results: `((T0,..),(R0,..,untouched))`.
pub(crate) fn unzipped(
    layout: &Layout,
    tiler: &Tiler,
    splitter: &mut impl FnMut(&Layout, &Layout) -> Result<Layout, Error>,
) -> Result<Layout, Error> {
    match tiler {
        Tiler::All => Ok(Layout::of_modes([Layout::unit(), layout.clone()])),
        Tiler::Layout(right) => splitter(layout, right),
        Tiler::Modes(tilers) => {
            let modes = tiler.modes_of(layout, tilers.len())?;
            let (mut tiles, mut rests) = (Vec::new(), Vec::new());
            for (mode, tiler) in modes.iter().zip(tilers) {
                let split = unzipped(mode, tiler, splitter)?;
                tiles.push(split.mode(0)?);
                rests.push(split.mode(1)?);
            }
            rests.extend(modes.into_iter().skip(tilers.len()));
            Ok(Layout::of_modes([Layout::of_modes(tiles), Layout::of_modes(rests)]))
        }
    }
}

/// `(T, (R0, R1, ..))` as `(T, R0, R1, ..)`.
pub(crate) fn open_rest(zipped: &Layout) -> Result<Layout, Error> {
    let (tile, rest) = (zipped.mode(0)?, zipped.mode(1)?);
    Ok(Layout::of_modes([tile].into_iter().chain(rest.modes())))
}

/// `((T0, ..), (R0, ..))` as `(T0, .., R0, ..)`.
pub(crate) fn open_both(zipped: &Layout) -> Result<Layout, Error> {
    let (tile, rest) = (zipped.mode(0)?, zipped.mode(1)?);
    Ok(Layout::of_modes(tile.modes().into_iter().chain(rest.modes())))
}
