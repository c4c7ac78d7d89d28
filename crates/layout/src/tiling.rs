//! The tiles of a tensor, and the part of one thread.

use crate::{
    ComposedLayout, Coordinate, Error, Index, Int, IntTuple, Layout, Tiler, Tuple, check_coordinate,
};

impl ComposedLayout {
    /// The tile at `coordinate` (a `_` keeps all tiles along that mode): the rest mode of
    /// `zipped_divide` sliced.
    ///
    /// Post-condition: over all coordinates, every element is in exactly one tile.
    ///
    /// ```
    /// use warpwright_layout::{All, ComposedLayout, Int, Layout};
    /// let (m, k, block) = (Int::device(0, "m"), Int::device(1, "k"), Int::device(2, "bx"));
    /// let a = ComposedLayout::from(Layout::new((m, k.clone()), (k, 1))?);
    /// let tiles = a.local_tile((128, 32), &(block, All).into())?;
    /// assert_eq!(tiles.to_string(), "128*bx*k o (128,32,(k+31)/32):(k,1,32)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a known position is not one of a tile, and those of `zipped_divide`.
    pub fn local_tile(
        &self,
        tiler: impl Into<Tiler>,
        coordinate: &Coordinate,
    ) -> Result<ComposedLayout, Error> {
        let tiles = self.map_inner(|inner| inner.zipped_divide(tiler))?;
        let (tile, rest) = (tiles.inner().mode(0)?, tiles.inner().mode(1)?);
        let position = padded(coordinate, rest.rank());
        check_coordinate(&position, rest.shape())?;
        tiles.slice(&Tuple::Node(vec![all(tile.rank()), position]))
    }

    /// [`local_tile`](ComposedLayout::local_tile) by those modes of a shared tiler and coordinate
    /// that `projection` does not mark `_`: `(1, _, 1)` picks M and K of (M, N, K).
    ///
    /// ```
    /// use warpwright_layout::{All, ComposedLayout, Layout};
    /// let a = ComposedLayout::from(Layout::row_major((256, 64))?);
    /// let tiles = a.local_tile_projected((128, 64, 32), &(1, 0, All).into(), &(1, All, 1).into())?;
    /// assert_eq!(tiles.to_string(), "8192 o (128,32,2):(64,1,32)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn local_tile_projected(
        &self,
        tiler: impl Into<Tiler>,
        coordinate: &Coordinate,
        projection: &Coordinate,
    ) -> Result<ComposedLayout, Error> {
        let tilers = tiler.into().modes();
        let (positions, chosen) = (coordinate.modes(), projection.modes());
        if tilers.len() != chosen.len() || positions.len() != chosen.len() {
            let legal = format!("of as many modes as the tiler: {}", tilers.len());
            return Err(Error::bad_argument("a projection or coordinate", projection, legal));
        }
        let kept = |position: &usize| chosen[*position] != Tuple::Leaf(Index::All);
        let modes: Vec<usize> = (0..chosen.len()).filter(kept).collect();
        let tiler = Tiler::Modes(modes.iter().map(|&mode| tilers[mode].clone()).collect());
        let coordinate = Tuple::Node(modes.iter().map(|&mode| positions[mode].clone()).collect());
        self.local_tile(tiler, &coordinate)
    }

    /// The elements of thread `index`: the tile mode of `zipped_divide` by the shape of the thread
    /// layout, sliced at the thread's coordinate. Adjacent threads hold adjacent elements.
    ///
    /// Post-condition: every element belongs to exactly one thread.
    ///
    /// ```
    /// use warpwright_layout::{ComposedLayout, Layout};
    /// let tile = ComposedLayout::from(Layout::new((4, 4), (1, 8))?);
    /// let threads = Layout::new((2, 2), (1, 2))?;
    /// assert_eq!(tile.local_partition(&threads, 0)?.offsets()?, [0, 2, 16, 18]);
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn local_partition(&self, threads: &Layout, index: impl Into<Int>) -> Result<ComposedLayout, Error> {
        let tiler = Tiler::from(threads.shape().product_each()?);
        let tiles = self.map_inner(|inner| inner.zipped_divide(tiler))?;
        let rest = tiles.inner().mode(1)?.rank();
        let coordinate = Coordinate::from(&threads.coordinate_at(&index.into())?);
        tiles.slice(&Tuple::Node(vec![coordinate, all(rest)]))
    }
}

impl Layout {
    /// The coordinate, by top-level mode, that a compact layout such as a thread layout maps to
    /// `offset`: each mode's index is what its strides make of `offset`.
    ///
    /// Post-condition: `L(coordinate) = offset` for a bijection `L` onto `[0, size)`.
    ///
    /// ```
    /// use warpwright_layout::{IntTuple, Layout};
    /// assert_eq!(Layout::row_major((4, 8))?.coordinate_at(&11.into())?, IntTuple::from((1, 3)));
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn coordinate_at(&self, offset: &Int) -> Result<IntTuple, Error> {
        let place = |mode: &Layout| {
            let (mut index, mut weight) = (Int::ZERO, Int::ONE);
            for leaf in mode.flat_modes() {
                if !leaf.stride.scale.is(0) && !leaf.extent.is(1) {
                    let digit = offset.divided_by(&leaf.stride.scale)?.modulo(&leaf.extent)?;
                    index = index.plus(&digit.times(&weight)?)?;
                }
                weight = weight.times(&leaf.extent)?;
            }
            Ok(Tuple::Leaf(index))
        };
        match self.depth() {
            0 => place(self),
            _ => Ok(Tuple::Node(self.modes().iter().map(place).collect::<Result<_, Error>>()?)),
        }
    }
}

/// `_`, `rank` times.
pub(crate) fn all(rank: usize) -> Coordinate {
    Tuple::Node(vec![Tuple::Leaf(Index::All); rank])
}

/// The coordinate with `_` for the modes it does not reach.
fn padded(coordinate: &Coordinate, rank: usize) -> Coordinate {
    let mut modes = coordinate.modes().to_vec();
    while modes.len() < rank {
        modes.push(Tuple::Leaf(Index::All));
    }
    Tuple::Node(modes)
}
