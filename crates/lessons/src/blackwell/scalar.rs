//! Before the first version: threads copy A and B into shared memory, one thread multiplies.
//!
//! ```text
//! 128 threads            one thread              tensor memory           128 threads
//! a, b -> shared tiles -> tcgen05.mma, commit -> 128 rows x 256 columns -> tcgen05.ld -> C
//!         fence.proxy.async     mbarrier
//! ```
//!
//! `tcgen05.mma` is an instruction of one thread. It reads A and B from shared memory, by *matrix
//! descriptors*, and accumulates in *tensor memory*: 128 rows by 512 columns of 32 bits that a warp
//! allocates. It is asynchronous: [`commit_tensor_core`] lets an mbarrier know when all MMAs of the
//! thread are complete. Each warp of a warpgroup then loads its quarter of the rows to registers.
//!
//! The layout algebra places the elements: the tile is swizzled over 128 bytes, and `set` computes
//! the address. Threads write through the generic proxy and the tensor core reads through the async
//! proxy, so a `fence.proxy.async` is between them. Every element costs a load, a store and the
//! arithmetic of its address.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::{SharedTiles, TILE, mma, store_row, tile};
use warpwright_kernels::gemm::GemmOutput;

/// Threads of a CTA: four warps, because each reaches a quarter of tensor memory.
pub const THREADS: u32 = 128;

/// Elements of a k-block.
const DEPTH: u32 = 128;

/// C = A·Bᵀ, one tile per CTA.
#[derive(Clone, Copy, Debug)]
pub struct Scalar<T> {
    /// Data type of A, B and C.
    pub element: PhantomData<T>,
}

impl<T: GemmOutput> Scalar<T> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; n is a multiple of 8. The grid has one
    /// CTA per tile, row by row.
    #[kernel]
    pub fn run(&self, a: &Global<T>, b: &Global<T>, c: &mut Global<T>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        let (tile_m, tile_n) = TILE;
        let a_tile = SharedTiles::<T>::new(tile::<T>(tile_m, DEPTH), 1);
        let b_tile = SharedTiles::<T>::new(tile::<T>(tile_n, DEPTH), 1);
        let (multiplied, holder) = (Mbarrier::new(), shared_array::<u32>(1));
        let thread = thread_idx().x;
        let columns = (n + (tile_n - 1)) / tile_n;
        let (row, column) = (block_idx().x / columns * tile_m, block_idx().x % columns * tile_n);

        if thread == 0 {
            multiplied.init(1);
        }
        if thread < 32 {
            allocate_tensor_memory(CtaGroup::One, tile_n, holder);
        }
        tensor_fence_before_sync();
        sync_threads();
        tensor_fence_after_sync();
        let product = TensorMemory::at(holder);

        let mma = mma::<T>(CtaGroup::One, tile_n);
        let (a_tensor, b_tensor) =
            (a_tile.tensor().slice((All, All, 0)), b_tile.tensor().slice((All, All, 0)));
        let (a_operand, b_operand) = (mma.a_operand(&a_tensor), mma.b_operand(&b_tensor));
        for k_block in 0..(k + (DEPTH - 1)) / DEPTH {
            let depth = k_block * DEPTH;
            copy_tile(a, (m, k), (row, depth), &a_tensor, tile_m, thread);
            copy_tile(b, (n, k), (column, depth), &b_tensor, tile_n, thread);
            fence_proxy_async_shared();
            sync_threads();
            if thread == 0 {
                mma.issue(product, &a_operand, &b_operand, Accumulate::If(k_block.ne(0)));
                commit_tensor_core(CtaGroup::One, multiplied);
            }
            // Each k-block is one phase of the barrier. The tiles may then be overwritten.
            multiplied.wait_parity(k_block % 2);
            tensor_fence_after_sync();
        }
        let quarter = thread / 32 * 32;
        store_row(c, (m, n), product.row(quarter), (row + thread, column), tile_n);

        tensor_fence_before_sync();
        sync_threads();
        if thread < 32 {
            product.free(CtaGroup::One, tile_n);
        }
    }
}

/// Copies a tile of `rows` rows that begins at `(row, depth)` of a matrix; zeros where it ends.
#[device]
fn copy_tile<T: GemmOutput>(
    matrix: &Global<T>,
    (rows, k): (Reg<u32>, Reg<u32>),
    (row, depth): (Reg<u32>, Reg<u32>),
    tile: &Tensor<T, SharedSpace>,
    tile_rows: u32,
    thread: Reg<u32>,
) {
    for index in (thread..constant(tile_rows * DEPTH)).step_by(THREADS) {
        let (in_tile, step) = (index / DEPTH, index % DEPTH);
        let (row, depth) = (row + in_tile, depth + step);
        let mut element = T::of(constant(0.0f32));
        if row < rows && depth < k {
            element = matrix[row * k + depth];
        }
        tile.set((in_tile, step), element);
    }
}
