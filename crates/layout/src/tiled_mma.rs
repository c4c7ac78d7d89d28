//! [`TiledMma`]: an MMA atom repeated over warps and values until it covers a tile.

use crate::atom::{MmaAtom, Operand};
use crate::tiling::all;
use crate::{ComposedLayout, Coordinate, Error, Index, Int, IntTuple, Layout, Tiler, Tuple};

/// A partitioning of a tile into MMAs: which thread and value holds each element of A (m, k), B (n,
/// k) and C (m, n).
///
/// Post-condition: the parts of all threads cover the tile of an operand exactly once; for A and B,
/// once per repetition of the atom along the mode that the operand lacks.
///
/// ```
/// use warpwright_layout::{ComposedLayout, Int, Layout, TiledMma, atom::{MmaAtom, Operand}};
/// let atom = MmaAtom::named("SM80_16x8x16_F32F16F16F32_TN")?;
/// let mma = TiledMma::new(atom, &Layout::column_major((2, 2, 1))?)?;
/// let c = ComposedLayout::from(Layout::row_major((128, 128))?);
/// let mine = mma.partition(Operand::C, &c, Int::device(0, "tid"))?;
/// assert_eq!(mine.inner().to_string(), "((2,2),4,8):((1,1024),4096,16)");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiledMma {
    atom: MmaAtom,
    threads: Layout,
    permutation: [Tiler; 3],
}

impl TiledMma {
    /// The atom repeated over (m, n, k) as `atoms` says: which warp takes which repetition.
    pub fn new(atom: MmaAtom, atoms: &Layout) -> Result<TiledMma, Error> {
        TiledMma::permuted(atom, atoms, [Tiler::All, Tiler::All, Tiler::All])
    }

    /// As [`new`](TiledMma::new), with each of the modes M, N, K first permuted by a tiler. An
    /// integer enlarges the tile; a layout also reorders it, so that the values of a thread become
    /// contiguous.
    pub fn permuted(atom: MmaAtom, atoms: &Layout, permutation: [Tiler; 3]) -> Result<TiledMma, Error> {
        if atoms.rank() > 3 {
            return Err(Error::bad_argument(
                "the rank of an atom layout",
                atoms.rank(),
                "at most 3: (m, n, k)",
            ));
        }
        if atom.family.is_sparse() && permutation[2] != Tiler::All {
            let legal = "`_` for a sparse atom, whose A is stored by halves";
            return Err(Error::bad_argument("the permutation of K", &permutation[2], legal));
        }
        let threads = atom.threads()?.tiled_product(atoms.append_to_rank(3))?;
        Ok(TiledMma { atom, threads, permutation })
    }

    /// The atom.
    pub fn atom(&self) -> &MmaAtom {
        &self.atom
    }

    /// The threads as a layout (thread of the atom, m, n, k) to thread.
    pub fn thread_layout(&self) -> &Layout {
        &self.threads
    }

    /// The number of threads.
    pub fn threads(&self) -> Result<i64, Error> {
        self.threads.known_size("a tiled MMA")
    }

    /// The tile of an operand that the threads cover together.
    pub fn tile(&self, operand: Operand) -> Result<IntTuple, Error> {
        let (row, column) = axes(operand);
        Ok(IntTuple::from((self.tile_extent(row)?, self.stored_extent(operand, column)?)))
    }

    /// The extent of the tile along M (0), N (1) or K (2).
    pub fn tile_extent(&self, axis: usize) -> Result<Int, Error> {
        match &self.permutation[axis] {
            Tiler::Layout(layout) => layout.size(),
            _ => self.repeats(axis)?.times(&self.atom_extent(axis).into()),
        }
    }

    /// The extent of an operand's tile along its second axis: the stored half of a sparse A.
    fn stored_extent(&self, operand: Operand, axis: usize) -> Result<Int, Error> {
        let (whole, stored) = (self.atom_extent(axis), self.atom.tile(operand).1);
        if whole == stored { self.tile_extent(axis) } else { self.repeats(axis)?.times(&stored.into()) }
    }

    fn atom_extent(&self, axis: usize) -> i64 {
        let (m, n, k) = self.atom.shape;
        [m, n, k][axis]
    }

    /// The number of atoms along M (0), N (1) or K (2).
    fn repeats(&self, axis: usize) -> Result<Int, Error> {
        self.threads.mode(axis + 1)?.size()
    }

    /// Thread `index`'s part of an operand: (values of the atom, repetitions along the operand's
    /// modes, further modes).
    pub fn partition(
        &self,
        operand: Operand,
        tensor: &ComposedLayout,
        index: impl Into<Int>,
    ) -> Result<ComposedLayout, Error> {
        let spread = tensor.map_inner(|inner| self.spread(operand, inner))?;
        let thread = self.thread_coordinate(&index.into())?;
        let (row, column) = axes(operand);
        let rest = spread.inner().mode(1)?.mode(1)?.rank();
        let position = Tuple::Node(vec![
            thread[0].clone(),
            Tuple::Node(vec![thread[row + 1].clone(), thread[column + 1].clone()]),
        ]);
        spread.slice(&Tuple::Node(vec![position, Tuple::Node(vec![Tuple::Leaf(Index::All), all(rest)])]))
    }

    /// The coordinate (thread of the atom, m, n, k) of a thread.
    fn thread_coordinate(&self, index: &Int) -> Result<Vec<Coordinate>, Error> {
        Ok(Coordinate::from(&self.threads.coordinate_at(index)?).modes().to_vec())
    }

    /// An operand as ((thread of the atom, (threads along its modes)), (values, (repetitions..))).
    pub fn spread(&self, operand: Operand, tensor: &Layout) -> Result<Layout, Error> {
        let (row, column) = axes(operand);
        let along_column = match &self.permutation[column] {
            Tiler::All => Tiler::from(self.stored_extent(operand, column)?),
            tiler => tiler.clone(),
        };
        let permuted = tensor.logical_divide((self.permuted_axis(row)?, along_column))?;
        let (rows, columns) = self.atom.tile(operand);
        let atoms = permuted.zipped_divide((rows, columns))?;
        let thread_values = atoms.mode(0)?.compose(self.atom.thread_values(operand)?)?;
        let by_warp = atoms.mode(1)?.zipped_divide((self.repeats(row)?, self.repeats(column)?))?;
        Ok(Layout::of_modes([
            Layout::of_modes([thread_values.mode(0)?, by_warp.mode(0)?]),
            Layout::of_modes([thread_values.mode(1)?, by_warp.mode(1)?]),
        ]))
    }

    fn permuted_axis(&self, axis: usize) -> Result<Tiler, Error> {
        match &self.permutation[axis] {
            Tiler::All => Ok(Tiler::from(self.tile_extent(axis)?)),
            tiler => Ok(tiler.clone()),
        }
    }

    /// (thread, value) to an element of the operand's tile, column-major, for all threads of the
    /// MMA. Threads that share an element map to the same one.
    ///
    /// ```
    /// use warpwright_layout::{Layout, TiledMma, atom::{MmaAtom, Operand}};
    /// let atom = MmaAtom::named("SM80_16x8x16_F32F16F16F32_TN")?;
    /// let mma = TiledMma::new(atom, &Layout::column_major((2, 2, 1))?)?;
    /// let a = mma.thread_values(Operand::A)?;
    /// assert_eq!(a.mode(0)?.size()?, 128);
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn thread_values(&self, operand: Operand) -> Result<Layout, Error> {
        let (row, column) = axes(operand);
        let missing = 3 - row - column;
        let spread = self.spread(operand, &Layout::column_major(self.tile(operand)?)?)?;
        let (threads, values) = (spread.mode(0)?, spread.mode(1)?);
        let along = |axis: usize| threads.mode(1)?.mode(usize::from(axis == column));
        let shared = Layout::leaf(self.repeats(missing)?, crate::Stride::plain(0));
        let mut modes = vec![threads.mode(0)?];
        for axis in 0..3 {
            modes.push(if axis == missing { shared.clone() } else { along(axis)? });
        }
        let by_coordinate = Layout::of_modes(modes);
        let of_thread = self.threads.right_inverse()?;
        if of_thread.size()? != self.threads.size()? {
            // The quadpairs of sm_70 leave gaps in the thread numbers of one atom.
            return Ok(Layout::of_modes([by_coordinate, values]));
        }
        let thread = by_coordinate.compose(&of_thread)?;
        Ok(Layout::of_modes([thread, values.coalesce_by(&(1, (1, 1)).into()).unwrap_or(values)]))
    }
}

/// The axes (0 for M, 1 for N, 2 for K) of an operand's rows and columns.
fn axes(operand: Operand) -> (usize, usize) {
    match operand {
        Operand::A => (0, 2),
        Operand::B => (1, 2),
        Operand::C | Operand::D => (0, 1),
    }
}
