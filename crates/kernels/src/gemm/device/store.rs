//! From accumulators to C: through the epilogue operation, rounded, and stored by TMA or from
//! registers.

use warpwright::arch::DataType;
use warpwright::arch::limits::{WARP_SIZE, WARPGROUP_SIZE};
use warpwright::lang::tensor::MappedMatrix;
use warpwright::layout::Error;
use warpwright::layout::atom::{MmaAtom, Types};
use warpwright::prelude::*;

use super::epilogue::{Coordinate, EpilogueOp, gated};
use super::problems::Problems;
use super::schedule::Schedule;
use super::scheduler::WorkUnit;
use crate::gemm::problem::epilogue::Activation;
use crate::gemm::problem::types::{GemmOutput, MatrixLayout};

/// The accumulators of a warpgroup for a tile of C.
pub(crate) struct AccumulatorTile {
    /// Blocks of 64 rows, one below the other.
    pub(crate) accumulators: Fragment<f32>,
    pub(crate) role: Role,
    /// Whether this thread acts for its warpgroup.
    pub(crate) leads: Reg<bool>,
    /// The problem it belongs to, of several.
    pub(crate) problem: Option<Reg<u32>>,
    /// The warpgroup's first row and column in C.
    pub(crate) at: (Reg<u32>, Reg<u32>),
    /// Columns of the tile.
    pub(crate) columns: u32,
    /// Rows from the 16 of one warp of a block to those of the next, and from one block to the
    /// warpgroup's next.
    pub(crate) row_strides: (u32, u32),
    /// The layout of C, of values times their gates: of a column-major C a warp then has half of its
    /// rows, and of a row-major C half of its columns.
    gated: Option<MatrixLayout>,
}

/// Rows of a block, 16 for each warp: those of C that one `wgmma` computes.
const BLOCK_ROWS: u32 = 64;

/// Rows of a block that a warp has.
const WARP_ROWS: u32 = 16;

/// Warps of a warpgroup, and lanes of a warp.
const WARPS: u32 = 4;

/// Rows of tensor memory that a warp reads: 16 of each of two blocks.
pub(crate) const TENSOR_MEMORY_ROWS: (u32, u32) = (32, 16);

impl AccumulatorTile {
    /// The tile of a work unit at `at`: its accumulators, the role that holds them and the thread
    /// that acts for it.
    pub(crate) fn new(
        accumulators: &Fragment<f32>,
        (role, leads): (Role, Reg<bool>),
        unit: WorkUnit,
        at: (Reg<u32>, Reg<u32>),
        columns: u32,
        row_strides: (u32, u32),
    ) -> Self {
        // The same registers: the tile is what they hold now.
        let accumulators = accumulators.clone();
        Self { accumulators, role, leads, problem: unit.problem, at, columns, row_strides, gated: None }
    }

    /// The tile of values times their gates, for a C of that layout.
    ///
    /// A thread has a gate and its value, 8 columns of A·B further: eight rows below in the
    /// transpose.
    ///
    /// ```text
    /// row-major C      columns of 8: gates | values | gates ..     4 accumulators of each
    /// column-major C   rows of 8:    gates                         2 accumulators of every 8 columns
    ///                                values                        the 2 after them
    /// ```
    #[track_caller]
    pub(crate) fn gated<C: GemmOutput>(&self, activation: Activation, layout: MatrixLayout) -> Self {
        let run = if layout == MatrixLayout::RowMajor { 4 } else { 2 };
        let count = self.accumulators.len() / 2;
        let shape = Layout::column_major((count, 1, 1)).expect("a vector has a layout");
        let mut accumulators = Fragment::like(&shape.into());
        for index in 0..count {
            let gate = index / run * (2 * run) + index % run;
            let [gate, value] = [gate, gate + run].map(|at| self.accumulators.get(at));
            accumulators.set(index, gated::<C>(activation, gate, value));
        }
        let ((row, column), (warp, block)) = (self.at, self.row_strides);
        let half = Self { accumulators, gated: Some(layout), ..*self };
        match layout {
            MatrixLayout::RowMajor => Self { at: (row, column / 2u32), columns: self.columns / 2, ..half },
            MatrixLayout::ColumnMajor => {
                Self { at: (row / 2u32, column), row_strides: (warp / 2, block / 2), ..half }
            }
        }
    }

    /// Rows of a block that a warp has.
    fn warp_rows(&self) -> u32 {
        if self.gated == Some(MatrixLayout::ColumnMajor) { WARP_ROWS / 2 } else { WARP_ROWS }
    }

    /// Slice `index` of `count` equal ones, in registers of its own: rows of 64 below each other
    /// first, then columns.
    pub(crate) fn slice(&self, index: u32, count: u32) -> Self {
        let length = self.accumulators.len() / count;
        let (first, block) = (index * length, index * length / self.block_accumulators());
        let window = self.accumulators.window(first, Layout::column_major((length, 1, 1)));
        let mut accumulators = Fragment::like(window.layout());
        for at in 0..length {
            accumulators.set(at, window.get(at));
        }
        let (row, column) = (block * self.row_strides.1, first % self.block_accumulators() * 2);
        Self { accumulators, at: (self.at.0 + row, self.at.1 + column), columns: 2 * length, ..*self }
    }

    /// Columns `first` to `first + columns` of the tile, in the same registers.
    pub(crate) fn columns(&self, first: u32, columns: u32) -> Self {
        let part = Layout::new((columns / 2, self.blocks()), (1, self.block_accumulators()));
        let accumulators = self.accumulators.window(first / 2, part);
        Self { accumulators, at: (self.at.0, self.at.1 + first), columns, ..*self }
    }

    /// Columns `first` to `first + columns` of the tile, in registers of their own that hold nothing.
    #[track_caller]
    pub(crate) fn slice_of_columns(&self, first: Reg<u32>, columns: u32) -> Self {
        let count = self.accumulators.len() * columns / self.columns;
        let shape = Layout::column_major((count, 1, 1)).expect("a vector has a layout");
        let accumulators = Fragment::like(&shape.into());
        Self { accumulators, at: (self.at.0, self.at.1 + first), columns, ..*self }
    }

    /// Blocks of 64 rows.
    pub(crate) fn blocks(&self) -> u32 {
        self.accumulators.len() / self.block_accumulators()
    }

    /// The row after its last in C, and the column.
    fn end(&self) -> (Reg<u32>, Reg<u32>) {
        let (warp, block) = self.row_strides;
        let rows = (self.blocks() - 1) * block + (WARPS - 1) * warp + self.warp_rows();
        (self.at.0 + rows, self.at.1 + self.columns)
    }

    /// A thread's accumulators of a block of 64 rows.
    fn block_accumulators(&self) -> u32 {
        self.columns * self.warp_rows() / WARP_SIZE
    }

    /// The row and column in C of this thread's accumulator `index`. A warp has 16 rows of a block,
    /// of which a lane has two, lane/4 and 8 below; and of every 8 columns the pair at 2*(lane%4).
    /// (PTX ISA, "wgmma.mma_async", the fragment of D.) It has 8 rows if half of them were gates.
    pub(crate) fn coordinate(&self, index: u32) -> (Reg<u32>, Reg<u32>) {
        let lane = self.role.thread() % WARPGROUP_SIZE;
        let (block, value) = (index / self.block_accumulators(), index % self.block_accumulators());
        let (warp_stride, block_stride) = self.row_strides;
        let rows = self.warp_rows() / 8;
        let row = self.at.0 + lane / 32 * warp_stride + lane % 32 / 4;
        let column = self.at.1 + lane % 4 * 2;
        let (below, right) = (value / 2 % rows * 8, value / (2 * rows) * 8 + value % 2);
        (row + (block * block_stride + below), column + right)
    }

    /// Applies an epilogue operation to each accumulator.
    #[track_caller]
    pub(crate) fn apply(&mut self, operation: &dyn EpilogueOp, problems: &Problems) {
        let (extents, origin) = (problems.extents_of(self.problem), problems.origin(self.problem));
        for index in 0..self.accumulators.len() {
            let (row, column) = self.coordinate(index);
            let at = Coordinate { row, column, extents, origin };
            let value = operation.apply(self.accumulators.get(index), at);
            self.accumulators.set(index, value);
        }
    }
}

/// Stores through shared memory and TMA: C's contiguous extent is a multiple of 16 bytes.
pub(crate) struct TmaStore<C> {
    buffers: StoreBuffers<C>,
    layout: MatrixLayout,
    /// Rows of a block: 64, or 32 if half of them were gates.
    rows: u32,
    /// Blocks of a box, and its columns.
    blocks: u32,
    width: u32,
    /// Boxes of a buffer, side by side.
    together: u32,
}

/// The rows of a block and the columns of a tile of C: half of the one or of the other if half of the
/// columns of A·B are gates.
pub(crate) fn stored_block(columns: u32, layout: MatrixLayout, is_gated: bool) -> (u32, u32) {
    match layout {
        _ if !is_gated => (BLOCK_ROWS, columns),
        MatrixLayout::RowMajor => (BLOCK_ROWS, columns / 2),
        MatrixLayout::ColumnMajor => (BLOCK_ROWS / 2, columns),
    }
}

/// Buffers of a warpgroup: one is written while TMA reads the other.
const BUFFERS: u32 = 2;

/// Bytes of the widest swizzle.
const SWIZZLE_BYTES: u32 = 128;

/// Bytes of the buffers of `warpgroups` for tiles of `columns` columns of elements of `bytes`
/// bytes, at most.
pub(crate) const fn store_buffer_bytes(warpgroups: u32, columns: u32, bytes: u32) -> u32 {
    let row = if columns * bytes < SWIZZLE_BYTES { columns * bytes } else { SWIZZLE_BYTES };
    BUFFERS * warpgroups * BLOCK_ROWS * row
}

impl<C: GemmOutput> TmaStore<C> {
    /// Columns of a tile that are stored at once: at most the widest swizzle.
    fn width(columns: u32) -> u32 {
        let widest = SWIZZLE_BYTES / C::BYTES;
        [widest, widest / 2, widest / 4].into_iter().find(|width| columns.is_multiple_of(*width)).unwrap_or(8)
    }

    /// Blocks of 64 rows that a warpgroup stores at once: those of tensor memory alternate every 16
    /// rows.
    fn blocks(schedule: Schedule) -> u32 {
        if schedule.group().is_some() { 2 } else { 1 }
    }

    /// The box of a [block](stored_block) that a warpgroup stores at once.
    ///
    /// # Errors
    /// The columns are no multiple of 8; in a row-major C, of 16 bytes.
    pub(crate) fn tile_box(
        (rows, columns): (u32, u32),
        layout: MatrixLayout,
        schedule: Schedule,
    ) -> Result<TmaTile, Error> {
        let major = if layout == MatrixLayout::RowMajor { Major::K } else { Major::Mn };
        TmaTile::new::<C>((rows * Self::blocks(schedule), Self::width(columns)), major)
    }

    /// Allocates its shared memory.
    #[track_caller]
    pub(crate) fn new(block: (u32, u32), layout: MatrixLayout, schedule: Schedule, warpgroups: u32) -> Self {
        let (rows, columns) = block;
        let width = Self::width(columns);
        let together = (columns / width).min(SWIZZLE_BYTES / C::BYTES / width);
        let tile = Self::tile_box(block, layout, schedule);
        let buffers = StoreBuffers::new(tile, BUFFERS * warpgroups * together);
        Self { buffers, layout, rows, blocks: Self::blocks(schedule), width, together }
    }

    /// A block of the box in a buffer.
    #[track_caller]
    fn block(&self, buffer: Reg<u32>, block: u32) -> Tensor<C, SharedSpace> {
        let tile = self.buffers.tensor().slice((All, All, buffer));
        if self.blocks == 1 {
            return tile;
        }
        let ((warp, next), blocks) = (TENSOR_MEMORY_ROWS, self.blocks);
        let part = BLOCK_ROWS / self.rows;
        let rows = Layout::new(((WARP_ROWS / part, WARPS), blocks), ((1, warp / part), next / part));
        tile.map(|tile| tile.compose((rows?, All))).slice(((All, block), All))
    }

    /// The copy of a thread's accumulators to a box: 16-bit elements by `stmatrix`, transposed for
    /// a column-major C; others by stores of the contiguous ones, the pair of a row.
    fn copy(&self) -> &'static str {
        match (self.layout, C::BYTES) {
            (MatrixLayout::RowMajor, 2) if self.width >= 16 => "SM90_U32x4_STSM_N",
            (MatrixLayout::RowMajor, 2) => "SM90_U32x2_STSM_N",
            (MatrixLayout::ColumnMajor, 2) if self.width >= 16 => "SM90_U16x8_STSM_T",
            (MatrixLayout::ColumnMajor, 2) => "SM90_U16x4_STSM_T",
            (MatrixLayout::RowMajor, _) => "UniversalCopy<64>",
            (MatrixLayout::ColumnMajor, _) => "UniversalCopy<32>",
        }
    }
}

#[device]
impl<C: GemmOutput> TmaStore<C> {
    /// Rounds a tile and stores it through two buffers a warpgroup: a box of up to 128 bytes a row at a time, or
    /// as many narrower ones.
    pub(crate) fn store(&self, c: MappedMatrix, tile: &AccumulatorTile) {
        let (width, together) = (self.width, self.together);
        // The accumulators of an atom of the copy, and as many further ones.
        let (length, atom) = match self.rows {
            BLOCK_ROWS => (width / 2, width / 2),
            _ => (width / 4, 2),
        };
        let first = tile.role.warpgroup() * (BUFFERS * together);
        let across = tile.columns / width;
        let rounded = |block: u32, column: u32| {
            let atoms = Layout::column_major((atom, 1, 1, length / atom));
            C::of_all(&tile.accumulators.window(length * (block * across + column), atoms))
        };
        let blocks = (0..tile.blocks()).step_by(self.blocks as usize);
        let groups: Vec<_> = blocks
            .flat_map(|block| (0..across).step_by(together as usize).map(move |column| (block, column)))
            .collect();
        for (index, &(block, column)) in (0..).zip(&groups) {
            let columns = column..(column + together).min(across);
            let buffer = first + index % BUFFERS * together;
            // The blocks of each box.
            let mut parts = vec![];
            for (number, column) in (0u32..).zip(columns.clone()) {
                parts
                    .extend((0..self.blocks).map(|of_box| (number, of_box, rounded(block + of_box, column))));
            }
            if tile.leads {
                // The store before last has read this buffer; or the last one, where a tile with an
                // odd number of groups ended.
                let begins_where_the_last_ended = index == 0 && groups.len() as u32 % BUFFERS != 0;
                bulk_wait_read(if begins_where_the_last_ended { 0 } else { BUFFERS - 1 });
            }
            tile.role.sync_warpgroup();
            for (number, of_box, rounded) in &parts {
                let to = self.block(buffer + *number, *of_box);
                match self.rows {
                    BLOCK_ROWS => self.copy_block(&to, rounded, tile.role),
                    _ => self.copy_half_block(&to, rounded, tile.role),
                }
            }
            fence_proxy_async_shared();
            tile.role.sync_warpgroup();
            if tile.leads {
                let row = tile.at.0 + block * tile.row_strides.1;
                for (number, column) in (0u32..).zip(columns) {
                    self.buffers.store(c, (row, tile.at.1 + column * width), buffer + number);
                }
                bulk_commit();
            }
        }
    }
}

#[device]
impl<C: GemmOutput> TmaStore<C> {
    /// Copies a thread's accumulators of a block of 64 rows to its box.
    fn copy_block(&self, to: &Tensor<C, SharedSpace>, rounded: &Fragment<C>, role: Role) {
        // Any atom of this width has its accumulators where the tile's are.
        let atom = MmaAtom::wgmma(self.width, Types::new(DataType::Bf16, DataType::F32));
        let copy = TiledCopy::from_c::<C>(self.copy(), &TiledMma::warpgroups(atom, 1));
        let copy = copy.thread(role.thread() % WARPGROUP_SIZE);
        let (target, atom) = (copy.target(to), copy.retile(&rounded.slice((All, All, All, 0))));
        match C::BYTES {
            2 => copy.store_matrix(&target, &atom),
            _ => copy.store_vectors(&target, &atom),
        }
    }

    /// The same of a block of 32 rows in a column-major C: 8 rows and all columns a warp.
    fn copy_half_block(&self, to: &Tensor<C, SharedSpace>, rounded: &Fragment<C>, role: Role) {
        // Any atom of 8 x 8 has its accumulators where the tile's are.
        let mma = TiledMma::atom("SM75_8x8x16_S32S8S8S32_TN");
        let atom = if C::BYTES == 2 { "SM90_U16x2_STSM_T" } else { "UniversalCopy<32>" };
        let copy = TiledCopy::from_c::<C>(atom, &mma).thread(role.thread() % WARP_SIZE);
        let warp = role.thread() % WARPGROUP_SIZE / WARP_SIZE;
        for matrix in 0..self.width / 8 {
            let target = copy.target(&to.local_tile((8, 8), (warp, matrix)));
            let pair = copy.retile(&rounded.slice((All, All, All, matrix)));
            match C::BYTES {
                2 => copy.store_matrix(&target, &pair),
                _ => copy.store_vectors(&target, &pair),
            }
        }
    }
}

/// Stores tiles of C.
pub(crate) enum TileStore<'c, C> {
    /// From registers, any C: each thread writes its accumulators that are inside.
    Registers {
        /// C of all problems.
        c: &'c Global<C>,
        /// Its layout.
        layout: MatrixLayout,
    },
    /// By TMA; from registers the tiles that reach into the rows of the next group along m.
    Tma {
        /// The path through shared memory.
        tma: Box<TmaStore<C>>,
        /// C of all problems as TMA stores it.
        map: &'c TensorMap,
        /// C of all problems; `None` without groups along m.
        c: Option<&'c Global<C>>,
    },
}

#[device]
impl<C: GemmOutput> TileStore<'_, C> {
    /// Rounds a tile of `problems` and stores it.
    pub(crate) fn store(&self, problems: &Problems, tile: &AccumulatorTile) {
        let (m, n) = problems.extents_of(tile.problem);
        let extents = match tile.gated {
            None => (m, n),
            Some(MatrixLayout::RowMajor) => (m, n / 2u32),
            Some(MatrixLayout::ColumnMajor) => (m / 2u32, n),
        };
        let own = |c: &Global<C>| (problems.elements(c, tile.problem), extents);
        match self {
            TileStore::Registers { c, layout } => from_registers(own(c), *layout, tile),
            TileStore::Tma { tma, map, c } => {
                let store = |tile: &AccumulatorTile| tma.store(problems.c_map(map, tile.problem), tile);
                match problems.reaches_into_next(tile.problem, || tile.end()).zip(*c) {
                    None => store(tile),
                    Some((is_cut, c)) => {
                        let own = own(c);
                        if is_cut {
                            from_registers(own, tma.layout, tile);
                        } else {
                            store(tile);
                        }
                    }
                }
            }
        }
    }
}

/// Rounds a tile and stores what of it is inside C (m, n).
#[device]
fn from_registers<C: GemmOutput>(
    (c, (m, n)): (Global<C>, (Reg<u32>, Reg<u32>)),
    layout: MatrixLayout,
    tile: &AccumulatorTile,
) {
    let strides = match layout {
        MatrixLayout::RowMajor => (n, constant(1u32)),
        MatrixLayout::ColumnMajor => (constant(1u32), m),
    };
    let c = Tensor::with_layout(c, Layout::new((m, n), strides));
    for index in 0..tile.accumulators.len() {
        let (row, column) = tile.coordinate(index);
        if row < m && column < n {
            c.set((row, column), C::of(tile.accumulators.get(index)));
        }
    }
}
