//! NVFP4: elements of 4 bits with scales of blocks of 16, in tensor memory beside the product.
//!
//! ```text
//! a stage                     one thread, in order                        tensor memory
//! A, B    128 bytes a row     TMA -> shared memory, swizzled              columns   0..256   D
//! scales  512 bytes for 128   bulk copy -> shared memory -> tcgen05.cp    columns 256..272   scales of A
//!         rows and 64 of k                                                columns 272..304   scales of B
//! ```
//!
//! An element is e2m1: a sign, two bits of exponent, one of mantissa. 16 neighbors along k have an
//! e4m3 scale in common. `kind::mxf4nvf4` multiplies 64 elements along k by one instruction, four
//! blocks, and each product by the scales of its row and its column, which it reads from tensor
//! memory.
//!
//! The scales of 128 rows and of 64 elements along k are 512 bytes, in cuBLAS's layout
//! `((32,4),(16,4)):((16,4),(0,1))`: the four scales of a row are four bytes, and rows 32 apart are
//! neighbors. Each 16 bytes are thus one row of 32 in tensor memory, four columns wide, and
//! `tcgen05.cp.32x128b.warpx4` writes them to each quarter of the rows, since an MMA reads the
//! scales in the quarter of its row of D. A copy and a later MMA of the same thread stay in order.
//!
//! The roles are those of version 4.

use warpwright::arch::DataType;
use warpwright::prelude::*;

use super::{SharedTiles, TILE, store_row};

/// Elements of a k-block: 128 bytes of 4-bit elements, the span of the swizzle.
pub const DEPTH: u32 = 256;

/// Elements along k whose scales are copied together: four blocks.
pub(super) const CHUNK: u32 = 64;

/// Rows whose scales are copied together.
pub(super) const ROWS: u32 = 128;

/// Stages, of 54 KiB each.
const STAGES: u32 = 4;

/// C = A·Bᵀ in NVFP4, one tile per CTA.
#[derive(Clone, Copy, Debug)]
pub struct Nvfp4;

impl Nvfp4 {
    /// A tile of rows of packed elements, two a byte.
    pub(super) fn tile(rows: u32) -> TmaTile {
        TmaTile::new::<u8>((rows, DEPTH / 2), Major::K).expect("a lesson's rows are a multiple of 8")
    }

    /// A is (m, k / 2) and B (n, k / 2) in bytes, C is (m, n), all row-major; n is a multiple of 8, k
    /// of 32. Scales are 512 bytes for each 128 rows and 64 elements along k, the latter first; rows
    /// and k are padded to multiples of 128 and of 256. The grid has one CTA per tile, row by row.
    #[kernel]
    #[allow(clippy::too_many_arguments, reason = "five matrices")]
    pub fn run(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        a_scales: &Global<u8>,
        b_scales: &Global<u8>,
        c: &mut Global<bf16>,
        m: u32,
        n: u32,
        k: u32,
    ) {
        launch::threads(128);
        let (tile_m, tile_n) = TILE;
        // A launch refuses tensor maps of other boxes.
        a.boxes(Self::tile(tile_m));
        b.boxes(Self::tile(tile_n));
        let a_tiles = SharedTiles::<u8>::new(Self::tile(tile_m), STAGES);
        let b_tiles = SharedTiles::<u8>::new(Self::tile(tile_n), STAGES);
        let chunks = DEPTH / CHUNK;
        let bytes = chunks * SCALE_BYTES;
        // Of A, and of both halves of B.
        let scales = dynamic_shared_aligned::<u8>(STAGES * 3 * bytes, 128);
        let (full, empty, done) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES), Mbarrier::new());
        let holder = shared_array::<u32>(1);
        let thread = thread_idx().x;
        let warp = (thread / 32).shuffle(0);
        let columns = (n + (tile_n - 1)) / tile_n;
        let (tile_row, tile_column) = (block_idx().x / columns, block_idx().x % columns);
        let (row, column) = (tile_row * tile_m, tile_column * tile_n);
        let k_blocks = (k + (DEPTH - 1)) / DEPTH;

        if thread == 0 {
            for barrier in full.iter().chain(empty.iter()) {
                barrier.init(1);
            }
            done.init(1);
            fence_mbarrier_init();
        }
        if warp == 1 {
            allocate_tensor_memory(CtaGroup::One, 512, holder);
        }
        tensor_fence_before_sync();
        sync_threads();
        tensor_fence_after_sync();
        let product = TensorMemory::at(holder);

        if warp == 0 {
            if elect(ALL_LANES) {
                // Blocks of 128 rows: one of A, two of B, of which the last may be outside B.
                let last = (n + (ROWS - 1)) / ROWS - 1;
                let halves = [tile_column * 2, (tile_column * 2 + 1).min(last)];
                for k_block in 0..k_blocks {
                    let (stage, parity) = (k_block % STAGES, k_block / STAGES % 2);
                    let (full, depth) = (full.at(stage), k_block * (DEPTH / 2));
                    empty.at(stage).wait_parity(parity ^ 1);
                    full.arrive_and_expect(a_tiles.bytes() + b_tiles.bytes() + 3 * bytes);
                    tma::load(*a, [depth, row], a_tiles.at(stage), full);
                    tma::load(*b, [depth, column], b_tiles.at(stage), full);
                    let to = scales.at(stage * (3 * bytes));
                    bulk::load(a_scales.at((tile_row * k_blocks + k_block) * bytes), bytes, to, full);
                    for half in 0..2 {
                        let from = b_scales.at((halves[half] * k_blocks + k_block) * bytes);
                        bulk::load(from, bytes, to.at((1 + half as u32) * bytes), full);
                    }
                }
            }
        } else if warp == 1 {
            if elect(ALL_LANES) {
                let types = TensorCoreTypes { a: DataType::E2m1, b: DataType::E2m1, d: DataType::F32 };
                let mma =
                    TensorCoreMma::block_scaled(CtaGroup::One, types, BlockScales::NVFP4, tile_m, tile_n);
                let (a_operand, b_operand) =
                    (mma.a_operand(a_tiles.tensor()), mma.b_operand(b_tiles.tensor()));
                let [a_columns, b_columns] = mma.scale_columns();
                let of_a = product.column(tile_n);
                let of_b = product.column(tile_n + chunks * a_columns);
                for k_block in 0..k_blocks {
                    let (stage, parity) = (k_block % STAGES, k_block / STAGES % 2);
                    full.at(stage).wait_parity(parity);
                    let from = scales.at(stage * (3 * bytes));
                    for chunk in 0..chunks {
                        of_a.column(chunk * a_columns)
                            .copy_scales(CtaGroup::One, from.at(chunk * SCALE_BYTES));
                        for half in 0..2 {
                            let from = from.at((1 + half) * bytes + chunk * SCALE_BYTES);
                            of_b.column(chunk * b_columns + half * 4).copy_scales(CtaGroup::One, from);
                        }
                    }
                    let (at, accumulate) = ((All, All, stage), Accumulate::If(k_block.ne(0)));
                    let (a, b) = (a_operand.slice(at), b_operand.slice(at));
                    mma.issue_scaled(product, &a, &b, [of_a, of_b], accumulate);
                    commit_tensor_core(CtaGroup::One, empty.at(stage));
                }
                commit_tensor_core(CtaGroup::One, done);
            }
        }

        done.wait_parity(0);
        tensor_fence_after_sync();
        store_row(c, (m, n), product.row(warp * 32), (row + thread, column), tile_n);

        tensor_fence_before_sync();
        sync_threads();
        if warp == 1 {
            product.free(CtaGroup::One, 512);
        }
    }
}
