//! A tile's sums on their way to C: through an epilogue, rounded, and by TMA or from registers.

use warpwright::lang::tensor::MappedMatrix;
use warpwright::layout::Error;
use warpwright::prelude::*;

use super::epilogue::{Epilogue, Place};
use super::products::Products;
use super::schedule::Piece;
use super::{GemmOutput, Order};

/// A tile of C whose sums a warpgroup has.
pub(super) struct Finished {
    /// The warpgroup's sums: blocks of 64 rows, one below the other.
    pub(super) sums: Fragment<f32>,
    pub(super) role: Role,
    /// Whether this thread acts for its warpgroup.
    pub(super) leads: Reg<bool>,
    /// Which of several products it belongs to.
    pub(super) product: Option<Reg<u32>>,
    /// Where the warpgroup's first row and column are in C.
    pub(super) at: (Reg<u32>, Reg<u32>),
    /// Columns of the tile.
    pub(super) columns: u32,
    /// Rows from one block of 64 to the warpgroup's next.
    pub(super) block_stride: u32,
}

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;

/// Rows of C that one `wgmma` makes.
const BLOCK_ROWS: u32 = 64;

impl Finished {
    /// A tile of so many columns of a piece, which begins at `at`: its sums, the role that has them and the thread that acts for it.
    pub(super) fn new(
        sums: &Fragment<f32>,
        (role, leads): (Role, Reg<bool>),
        piece: Piece,
        at: (Reg<u32>, Reg<u32>),
        columns: u32,
        block_stride: u32,
    ) -> Self {
        // The same registers: the tile is what they hold now.
        Self { sums: sums.clone(), role, leads, product: piece.product, at, columns, block_stride }
    }

    /// The row after its last in C, and the column.
    pub(super) fn end(&self) -> (Reg<u32>, Reg<u32>) {
        let blocks = self.sums.len() / self.block_sums();
        let rows = (blocks - 1) * self.block_stride + BLOCK_ROWS;
        (self.at.0 + rows, self.at.1 + self.columns)
    }

    /// Sums of a block of 64 rows that one thread has.
    fn block_sums(&self) -> u32 {
        self.columns / 2
    }

    /// Where this thread's sum number `index` is in C. Each warp has 16 rows of a block, of which a lane has two: lane/4 and 8 below;
    /// and of every 8 columns the pair at 2*(lane%4). (PTX ISA, "wgmma.mma_async", the fragment of D.)
    pub(super) fn place(&self, index: u32) -> (Reg<u32>, Reg<u32>) {
        let lane = self.role.thread() % WARPGROUP;
        let (block, value) = (index / self.block_sums(), index % self.block_sums());
        let row = self.at.0 + lane / 32 * 16 + lane % 32 / 4;
        let column = self.at.1 + lane % 4 * 2;
        (row + (block * self.block_stride + value / 2 % 2 * 8), column + (value / 4 * 8 + value % 2))
    }

    /// Puts each sum through an epilogue.
    #[track_caller]
    pub(super) fn apply(&mut self, epilogue: &impl Epilogue, products: &Products) {
        let (extents, origin) = (products.extents_of(self.product), products.origin(self.product));
        for index in 0..self.sums.len() {
            let (row, column) = self.place(index);
            let sum = epilogue.apply(self.sums.get(index), Place { row, column, extents, origin });
            self.sums.set(index, sum);
        }
    }
}

/// The way to C through shared memory and TMA: its rows (columns, if they are contiguous) are multiples of 16 bytes.
pub(super) struct BoxStore<C> {
    buffers: StoreBuffers<C>,
    order: Order,
    /// Columns of a piece.
    width: u32,
}

/// Buffers of a warpgroup: one is filled while the other is read.
const BUFFERS: u32 = 2;

/// The widest swizzle's span, in bytes.
const SPAN_BYTES: u32 = 128;

/// Bytes of the buffers of so many warpgroups, for tiles of so many columns of elements of `bytes` bytes, at most.
pub(super) const fn buffers_bytes(warpgroups: u32, columns: u32, bytes: u32) -> u32 {
    let row = if columns * bytes < SPAN_BYTES { columns * bytes } else { SPAN_BYTES };
    BUFFERS * warpgroups * BLOCK_ROWS * row
}

impl<C: GemmOutput> BoxStore<C> {
    /// Columns of a tile that are stored at once: at most the widest swizzle's span.
    fn width(columns: u32) -> u32 {
        let widest = SPAN_BYTES / C::BYTES;
        [widest, widest / 2, widest / 4].into_iter().find(|width| columns % width == 0).unwrap_or(8)
    }

    /// The piece of a tile of so many columns that a warpgroup stores at once.
    ///
    /// # Errors
    /// If the tile's columns are not a multiple of 8; in row-major order, of 16 bytes.
    pub(super) fn piece(columns: u32, order: Order) -> Result<TmaTile, Error> {
        let major = if order == Order::RowMajor { Major::K } else { Major::Mn };
        TmaTile::new::<C>((BLOCK_ROWS, Self::width(columns)), major)
    }

    /// Shared memory for it.
    #[track_caller]
    pub(super) fn new(columns: u32, order: Order, warpgroups: u32) -> Self {
        let buffers = StoreBuffers::new(Self::piece(columns, order), BUFFERS * warpgroups);
        Self { buffers, order, width: Self::width(columns) }
    }

    /// The copy of a thread's sums to a piece: 16-bit elements by `stmatrix`, transposed where columns are contiguous; others by stores of
    /// as many as lie together, the pair of a row.
    fn copy(&self) -> &'static str {
        match (self.order, C::BYTES) {
            (Order::RowMajor, 2) if self.width >= 16 => "SM90_U32x4_STSM_N",
            (Order::RowMajor, 2) => "SM90_U32x2_STSM_N",
            (Order::ColumnMajor, 2) if self.width >= 16 => "SM90_U16x8_STSM_T",
            (Order::ColumnMajor, 2) => "SM90_U16x4_STSM_T",
            (Order::RowMajor, _) => "UniversalCopy<64>",
            (Order::ColumnMajor, _) => "UniversalCopy<32>",
        }
    }
}

#[device]
impl<C: GemmOutput> BoxStore<C> {
    /// Rounds a tile's sums and sends them to C, a piece at a time through two buffers a warpgroup.
    pub(super) fn store(&self, c: MappedMatrix, tile: &Finished) {
        let width = self.width;
        // Any atom of this width has its sums where those of the tile's are.
        let mma = TiledMma::warpgroups(&format!("SM90_64x{width}x16_F32BF16BF16_SS"), 1);
        let copy = TiledCopy::from_c::<C>(self.copy(), &mma).thread(tile.role.thread() % WARPGROUP);
        let first = tile.role.warpgroup() * BUFFERS;
        let pieces = tile.columns / width;
        let blocks = tile.sums.len() / tile.block_sums();
        for index in 0..blocks * pieces {
            let (block, piece) = (index / pieces, index % pieces);
            let stage = first + index % BUFFERS;
            let sums = tile.sums.window(width / 2 * index, Layout::column_major((width / 2, 1, 1)));
            let rounded = C::of_all(&sums);
            if tile.leads {
                // The store before last has read this buffer; or the last one, where a tile with an odd number of pieces ended here.
                let begins_where_the_last_ended = index == 0 && blocks * pieces % BUFFERS != 0;
                bulk_wait_read(if begins_where_the_last_ended { 0 } else { BUFFERS - 1 });
            }
            tile.role.sync_warpgroup();
            let target = copy.target(&self.buffers.tensor().slice((All, All, stage)));
            match C::BYTES {
                2 => copy.store_matrix(&target, &copy.retile(&rounded)),
                _ => copy.store_vectors(&target, &copy.retile(&rounded)),
            }
            fence_proxy_async_shared();
            tile.role.sync_warpgroup();
            if tile.leads {
                let row = tile.at.0 + block * tile.block_stride;
                self.buffers.store(c, (row, tile.at.1 + piece * width), stage);
                bulk_commit();
            }
        }
    }
}

/// The way to any C, from registers: each thread writes its sums, where they are inside.
pub(super) struct ElementStore<C> {
    pub(super) c: Global<C>,
    pub(super) extents: (Reg<u32>, Reg<u32>),
    pub(super) order: Order,
}

#[device]
impl<C: GemmOutput> ElementStore<C> {
    /// Rounds a tile's sums and writes them.
    pub(super) fn store(&self, tile: &Finished) {
        let (m, n) = self.extents;
        let strides = match self.order {
            Order::RowMajor => (n, constant(1u32)),
            Order::ColumnMajor => (constant(1u32), m),
        };
        let c = Tensor::with_layout(self.c, Layout::new((m, n), strides));
        for index in 0..tile.sums.len() {
            let (row, column) = tile.place(index);
            if row < m && column < n {
                c.set((row, column), C::of(tile.sums.get(index)));
            }
        }
    }
}
