//! [`TiledCopy`]: a copy atom repeated over threads and values until it covers a tile.

use crate::atom::CopyAtom;
use crate::atom::Operand;
use crate::tiling::all;
use crate::{ComposedLayout, Coordinate, Error, Index, Int, IntTuple, Layout, TiledMma, Tiler, Tuple};

/// A partitioning of a tile into copies: an atom, and the elements of each thread.
///
/// Post-condition: (thread, value) to the tile is a bijection.
///
/// ```
/// use warpwright_layout::{ComposedLayout, Int, Layout, TiledCopy, atom::CopyAtom};
/// // 128 threads, one row each; each thread copies 32 f16 as four 16-byte vectors.
/// let atom = CopyAtom::named("SM80_CP_ASYNC_CACHEALWAYS<128>", 16)?;
/// let copy = TiledCopy::new(atom, &Layout::row_major((128, 1))?, &Layout::row_major((1, 32))?)?;
/// let tile = ComposedLayout::from(Layout::row_major((128, 32))?);
/// let mine = copy.partition_source(&tile, Int::device(0, "tid"))?;
/// assert_eq!(mine.inner().to_string(), "((8,4),1,1):((1,8),0,0)");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiledCopy {
    atom: CopyAtom,
    thread_values: Layout,
    tile: IntTuple,
}

impl TiledCopy {
    /// The atom over a layout of threads (coordinate to thread) and of values (coordinate to
    /// value): the tile is their product, and the parts of the threads are contiguous.
    ///
    /// # Errors
    /// If the atom's threads or values do not divide those given, or either layout is not a
    /// bijection.
    pub fn new(atom: CopyAtom, threads: &Layout, values: &Layout) -> Result<TiledCopy, Error> {
        let to_thread_value = threads.raked_product(values)?;
        let shape = (threads.size()?, values.size()?);
        let back = to_thread_value.right_inverse()?;
        if back.size()? != to_thread_value.size()? {
            let legal = "one that covers the tile exactly once: threads and values of Layout::row_major or column_major do";
            return Err(Error::bad_argument(
                "the threads and values of a tiled copy",
                to_thread_value,
                legal,
            ));
        }
        TiledCopy::of_thread_values(atom, back.with_shape(shape)?, to_thread_value.shape().product_each()?)
    }

    /// The atom over a whole thread-value layout: (thread, value) to an element of `tile`,
    /// column-major.
    pub fn of_thread_values(
        atom: CopyAtom,
        thread_values: Layout,
        tile: IntTuple,
    ) -> Result<TiledCopy, Error> {
        for (mode, of_atom, what) in [(0, atom.threads()?, "threads"), (1, atom.values()?, "values")] {
            let given = thread_values.mode(mode)?.known_size("a tiled copy")?;
            if given % of_atom != 0 {
                let legal = format!("a multiple of the {of_atom} that {} has", atom.name());
                let what = if what == "threads" {
                    "the threads of a tiled copy"
                } else {
                    "the values of a tiled copy"
                };
                return Err(Error::bad_argument(what, given, legal));
            }
        }
        Ok(TiledCopy { atom, thread_values, tile })
    }

    /// The copy into, or out of, the registers of an MMA operand.
    pub fn for_operand(atom: CopyAtom, mma: &TiledMma, operand: Operand) -> Result<TiledCopy, Error> {
        TiledCopy::of_thread_values(atom, mma.thread_values(operand)?, mma.tile(operand)?)
    }

    /// The atom.
    pub fn atom(&self) -> &CopyAtom {
        &self.atom
    }

    /// (thread, value) to an element of the tile.
    pub fn thread_values(&self) -> &Layout {
        &self.thread_values
    }

    /// The shape of the tile that the threads copy together.
    pub fn tile(&self) -> &IntTuple {
        &self.tile
    }

    /// The number of threads.
    pub fn threads(&self) -> Result<i64, Error> {
        self.thread_values.mode(0)?.known_size("a tiled copy")
    }

    /// Thread `index`'s part of a source tensor: (atom's values, repetitions along each mode of the
    /// tensor).
    pub fn partition_source(
        &self,
        tensor: &ComposedLayout,
        index: impl Into<Int>,
    ) -> Result<ComposedLayout, Error> {
        self.partition(tensor, self.atom.source(), index.into())
    }

    /// Thread `index`'s part of a destination tensor, of the same shape as its part of the source.
    pub fn partition_target(
        &self,
        tensor: &ComposedLayout,
        index: impl Into<Int>,
    ) -> Result<ComposedLayout, Error> {
        self.partition(tensor, self.atom.target(), index.into())
    }

    fn partition(&self, tensor: &ComposedLayout, side: &Layout, index: Int) -> Result<ComposedLayout, Error> {
        let spread = tensor.map_inner(|inner| self.spread(inner, side))?;
        let rest = spread.inner().mode(2)?.rank();
        let thread = Tuple::Leaf(Index::At(index));
        spread.slice(&Tuple::Node(vec![thread, Tuple::Leaf(Index::All), all(rest)]))
    }

    /// A tensor as (thread, (atom's values, more values), (repetitions..)), as seen by one side of
    /// the atom.
    fn spread(&self, tensor: &Layout, side: &Layout) -> Result<Layout, Error> {
        let tiles = tensor.zipped_divide(Tiler::from(&self.tile))?;
        let reference_to_side = self.atom.reference().right_inverse_of_filtered()?.compose(side)?;
        let atoms = self.thread_values.zipped_divide((self.atom.threads()?, self.atom.values()?))?;
        let on_side = atoms.mode(0)?.compose(&reference_to_side)?;
        let thread_values = Layout::of_modes([on_side, atoms.mode(1)?]).zip()?;
        let thread_values = thread_values.coalesce_by(&(1, (1, 1)).into())?;
        let spread = tiles.mode(0)?.compose(&thread_values)?;
        Ok(Layout::of_modes([spread.mode(0)?, spread.mode(1)?, tiles.mode(1)?]))
    }

    /// A thread's fragment (value, repetitions..) of another partitioning of the same tile, retiled
    /// for this copy: (atom's values, repetitions..). With it, a copy fills the registers of an MMA
    /// (CuTe's `retile`).
    ///
    /// Post-condition: the same elements; element (v, rest) of the result is value v of this copy.
    pub fn retile(&self, fragment: &ComposedLayout) -> Result<ComposedLayout, Error> {
        let values = fragment.inner().mode(0)?.known_size("retile")?;
        let threads = self.threads()?;
        let to_index = self.thread_values.right_inverse_of_filtered()?.with_shape(self.tile.clone())?;
        let to_value = to_index.upcast(threads * values)?;
        let of_values = Layout::contiguous(values).logical_product(&to_value.right_inverse()?)?;
        let by_atom = of_values.zipped_divide(Layout::contiguous(self.atom.values()?))?;
        let mut tiler = vec![Tiler::from(values)];
        tiler.extend(to_value.shape().product_each()?.modes().iter().map(Tiler::from));
        let rank = fragment.rank();
        let retiled = fragment.map_inner(|inner| {
            let tiles = inner.zipped_divide(Tiler::Modes(tiler))?;
            Ok(Layout::of_modes([tiles.mode(0)?.compose(&by_atom)?, tiles.mode(1)?]))
        })?;
        let mut rest: Vec<Coordinate> = vec![0.into()];
        rest.resize(rank, Tuple::Leaf(Index::All));
        retiled.slice(&Tuple::Node(vec![Tuple::Leaf(Index::All), Tuple::Node(rest)]))
    }
}
