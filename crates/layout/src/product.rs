//! Products: a layout repeated according to another layout.

use crate::divide::{open_both, open_rest, unzipped};
use crate::error::Illustration;
use crate::{Error, Int, IntTuple, Layout, Tiler, Tuple};

impl Layout {
    /// `A` repeated over `B`: `(A, complement(A, size(A) * cosize(B)) o B)`. Applies by mode if the
    /// tiler is a tuple.
    ///
    /// Post-condition: rank 2; mode 0 is `A`; `B` is compatible with mode 1, and coordinate `c` of
    /// mode 1 is repetition `B(c)` of `A`. If `B` does not fit the gaps of `A`, whole repetitions
    /// of `A` follow each other instead.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let product = Layout::new((2, 2), (4, 1))?.logical_product(6)?;
    /// assert_eq!(product.to_string(), "((2,2),(2,3)):((4,1),(2,8))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn logical_product(&self, tiler: impl Into<Tiler>) -> Result<Layout, Error> {
        tiler.into().apply(self, &mut multiply)
    }

    /// [`logical_product`](Layout::logical_product) with the modes of the blocks in mode 0 and
    /// those of the repetitions in mode 1.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let product = Layout::new((2, 5), (5, 1))?.zipped_product((3, 4))?;
    /// assert_eq!(product.to_string(), "((2,5),(3,4)):((5,1),(1,5))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn zipped_product(&self, tiler: impl Into<Tiler>) -> Result<Layout, Error> {
        unzipped(self, &tiler.into(), &mut multiply)
    }

    /// [`zipped_product`](Layout::zipped_product) with the repetitions flattened:
    /// `((A0,A1,..),B0,B1,..)`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let product = Layout::new(4, 1)?.tiled_product(Layout::new((2, 3), (3, 1))?)?;
    /// assert_eq!(product.to_string(), "(4,2,3):(1,12,4)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn tiled_product(&self, tiler: impl Into<Tiler>) -> Result<Layout, Error> {
        open_rest(&self.zipped_product(tiler)?)
    }

    /// [`zipped_product`](Layout::zipped_product) with both flattened: `(A0,A1,..,B0,B1,..)`.
    pub fn flat_product(&self, tiler: impl Into<Tiler>) -> Result<Layout, Error> {
        open_both(&self.zipped_product(tiler)?)
    }

    /// `A` repeated over `B`, mode by mode, with contiguous blocks: mode `i` is `(A_i, B_i)`.
    ///
    /// Post-condition: the offsets of `logical_product(A, B)`; element `a` of block `b` is at `(a,
    /// b)` in each mode. The modes are not coalesced.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let product = Layout::row_major((2, 5))?.blocked_product(&Layout::column_major((3, 4))?)?;
    /// assert_eq!(product.to_string(), "((2,3),(5,4)):((5,10),(1,30))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn blocked_product(&self, tiler: &Layout) -> Result<Layout, Error> {
        let rank = self.rank().max(tiler.rank());
        self.append_to_rank(rank).tuple().logical_product(tiler.append_to_rank(rank).tuple())?.zip()
    }

    /// `A` repeated over `B`, mode by mode, with the blocks interleaved: mode `i` is `(B_i, A_i)`.
    ///
    /// Post-condition: the offsets of `logical_product(A, B)`; element `a` of block `b` is at `(b,
    /// a)` in each mode.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let product = Layout::row_major((2, 5))?.raked_product(&Layout::column_major((3, 4))?)?;
    /// assert_eq!(product.to_string(), "((3,2),(4,5)):((10,5),(30,1))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn raked_product(&self, tiler: &Layout) -> Result<Layout, Error> {
        let rank = self.rank().max(tiler.rank());
        let product =
            self.append_to_rank(rank).tuple().logical_product(tiler.append_to_rank(rank).tuple())?;
        product.select(&[1, 0])?.zip()
    }

    /// This layout as a block, repeated until it fills `shape`. Blocks follow each other in the
    /// order of the ranks in `order` (leftmost first if `None`).
    ///
    /// Post-condition: `shape` is compatible with the shape of `R`; the first block of `R` is this
    /// layout.
    ///
    /// # Errors
    /// If an extent of the block does not divide the extent of the shape.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let block = Layout::row_major((8, 64))?;
    /// let tile = block.tile_to_shape((128, 128), Some((1, 0).into()))?;
    /// assert_eq!(tile.to_string(), "((8,16),(64,2)):((64,1024),(1,512))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn tile_to_shape(
        &self,
        shape: impl Into<IntTuple>,
        order: Option<IntTuple>,
    ) -> Result<Layout, Error> {
        let shape = shape.into();
        if self.rank() > shape.rank() {
            let (layout, given) = (self.to_string(), shape.to_string());
            return Err(Error::RankTooSmall {
                layout: given,
                rank: shape.rank(),
                given: layout,
                wanted: self.rank(),
            });
        }
        let block = self.append_to_rank(shape.rank());
        let extents = shape.product_each()?;
        let mut repeats = Vec::new();
        for (position, (wanted, mode)) in extents.modes().iter().zip(block.modes()).enumerate() {
            let (wanted, size) = (wanted.product()?, mode.size()?);
            match wanted.divisible_by(&size) {
                Some(true) => repeats.push(Tuple::Leaf(wanted.divided_by(&size)?)),
                Some(false) => return Err(block_does_not_divide(&block, &extents, position)),
                None => {
                    let reason = format!("whole blocks of {size} must fill it");
                    return Err(Error::needs_known("tile_to_shape", &wanted, &reason));
                }
            }
        }
        let repeats = match &shape {
            Tuple::Leaf(_) => repeats.remove(0),
            Tuple::Node(_) => Tuple::Node(repeats),
        };
        let over = match order {
            Some(order) => Layout::ordered(repeats.clone(), order)?,
            None => Layout::column_major(repeats.clone())?,
        };
        let tiled = block.blocked_product(&over)?.coalesce_by(&Tuple::Node(repeats.modes().to_vec()))?;
        match shape {
            Tuple::Leaf(_) => tiled.mode(0),
            Tuple::Node(_) => Ok(tiled),
        }
    }

    /// The layout with all strides multiplied by `factor`.
    fn scaled(&self, factor: &Int) -> Result<Layout, Error> {
        let stride = self.stride().try_map(&mut |stride: &crate::Stride| stride.times(factor))?;
        Layout::new(self.shape().clone(), stride)
    }

    /// A leaf as a tuple of one mode; tuples as they are.
    pub(crate) fn tuple(&self) -> Layout {
        Layout::of_modes(self.modes())
    }
}

fn multiply(a: &Layout, b: &Layout) -> Result<Layout, Error> {
    let room = a.size()?.times(&b.cosize()?)?;
    let repetitions = match a.complement_of(&room, false)?.compose(b) {
        Err(Error::NotRepresentable(_)) => {
            Layout::contiguous(b.cosize()?).scaled(&a.cosize()?)?.compose(b)?
        }
        repetitions => repetitions?,
    };
    Ok(Layout::of_modes([a.clone(), repetitions]))
}

fn block_does_not_divide(block: &Layout, extents: &IntTuple, mode: usize) -> Error {
    let size = block.modes()[mode].size().ok().and_then(|size| size.known()).unwrap_or(1);
    let wanted = extents.leaves()[mode].known().unwrap_or(0);
    let nearest = nearest_divisor(size, wanted);
    let leaf = block.modes()[..mode].iter().map(|mode| mode.shape().leaves().len()).sum();
    let summary = format!("tile_to_shape: a block of {size} does not divide {wanted} in mode {mode}");
    let picture = Illustration::new(summary)
        .mark("block", block, block.shape().columns_of_leaf(leaf), format!("{size} elements in this mode"))
        .show("shape", extents);
    let up = Int::Known(wanted)
        .ceil_divided_by(&size.into())
        .map_or(size, |n| n.known().unwrap_or(1).saturating_mul(size));
    let suggestion = format!("the nearest legal block is {nearest} there, the nearest legal extent {up}");
    Error::DoesNotDivide(Box::new(picture.suggest(suggestion)))
}

/// The divisor of `whole` nearest to `near`, within a bounded distance; else 1.
pub(crate) fn nearest_divisor(near: i64, whole: i64) -> i64 {
    const FARTHEST: i64 = 4096;
    let near = near.clamp(1, whole.max(1));
    let divides = |candidate: &i64| *candidate >= 1 && whole % *candidate == 0;
    (0..near.min(FARTHEST)).flat_map(|by| [near - by, near.saturating_add(by)]).find(divides).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_tiler_repeats() {
        let a = Layout::new(4, 1).unwrap();
        assert_eq!(a.logical_product(3).unwrap().to_string(), "(4,3):(1,4)");
    }

    #[test]
    fn repetitions_that_fit_no_gap_follow_one_another() {
        let product = Layout::new(5, 2).unwrap().logical_product(3).unwrap();
        assert_eq!(product.to_string(), "(5,3):(2,9)");
    }

    #[test]
    fn blocks_that_do_not_divide_are_refused_with_the_nearest() {
        let error = Layout::row_major((8, 64)).unwrap().tile_to_shape((128, 96), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tile_to_shape: a block of 64 does not divide 96 in mode 1\n  block = (8,64):(64,1)\n\
             \x20            ^^ 64 elements in this mode\n  shape = (128,96)\n\
             \x20 the nearest legal block is 48 there, the nearest legal extent 128"
        );
    }
}
