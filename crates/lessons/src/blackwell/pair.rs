//! Version 5: the tensor cores of two SMs multiply one tile.
//!
//! ```text
//! a pair of CTAs                 CTA 0                        CTA 1
//! loads into its own memory      A rows   0..128              A rows 128..256
//!                                B columns 0..128             B columns 128..256
//! one MMA, issued by CTA 0       C rows 0..128, 256 columns   C rows 128..256, 256 columns
//! ```
//!
//! `tcgen05.mma.cta_group::2` has 256 rows. Each tensor core reads its own rows of A and both halves
//! of B, of which its own SM holds one: a CTA loads 32 KiB a stage where it loaded 48, so six stages
//! fit. The descriptors are those of CTA 0, and are the same offsets in CTA 1.
//!
//! CTA 0 issues for both, so it must know of the loads of both: the copies of CTA 1 complete on the
//! barrier `full` of CTA 0, which only `.cta_group::2` allows. CTA 1 in turn must know when its stage
//! may be overwritten: the commit is multicast to the barrier `empty` of both.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::{DEPTH, SharedTiles, TILE, mma, store_row, tile};
use warpwright_kernels::gemm::GemmOutput;

pub use super::scalar::THREADS;

/// CTAs of a pair.
pub const CTAS: u32 = 2;

/// Stages, of 32 KiB each.
pub(super) const STAGES: u32 = 6;

/// The ranks of a pair, a bit each.
pub(super) const BOTH: u16 = 0b11;

/// C = A·Bᵀ, one tile of 256 x 256 per pair of CTAs.
#[derive(Clone, Copy, Debug)]
pub struct Pair<T> {
    /// Data type of A, B and C.
    pub element: PhantomData<T>,
}

impl<T: GemmOutput> Pair<T> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; n and k are multiples of 8. The grid
    /// has one pair per tile, row by row.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<T>, m: u32, n: u32, k: u32) {
        launch::threads(THREADS);
        launch::cluster(CTAS, 1, 1);
        let ((tile_m, tile_n), half_n) = (TILE, TILE.1 / CTAS);
        // A launch refuses tensor maps of other boxes.
        a.boxes(tile::<T>(tile_m, DEPTH));
        b.boxes(tile::<T>(half_n, DEPTH));
        let a_tiles = SharedTiles::<T>::new(tile::<T>(tile_m, DEPTH), STAGES);
        let b_tiles = SharedTiles::<T>::new(tile::<T>(half_n, DEPTH), STAGES);
        let (full, empty, done) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES), Mbarrier::new());
        let holder = shared_array::<u32>(1);
        let (thread, rank) = (thread_idx().x, cluster_rank());
        let warp = (thread / 32).shuffle(0);
        let columns = (n + (tile_n - 1)) / tile_n;
        let pair = block_idx().x / CTAS;
        // This CTA's rows, and the tile's columns.
        let (row, column) = ((pair / columns * CTAS + rank) * tile_m, pair % columns * tile_n);
        let k_blocks = (k + (DEPTH - 1)) / DEPTH;

        if thread == 0 {
            for (full, empty) in full.iter().zip(empty.iter()) {
                // Each CTA expects its own bytes.
                full.init(CTAS);
                empty.init(1);
            }
            done.init(1);
            fence_mbarrier_init();
        }
        if warp == 1 {
            allocate_tensor_memory(CtaGroup::Two, tile_n, holder);
        }
        tensor_fence_before_sync();
        cluster_sync();
        tensor_fence_after_sync();
        let product = TensorMemory::at(holder);

        if warp == 0 {
            if elect(ALL_LANES) {
                for k_block in 0..k_blocks {
                    let (stage, parity) = (k_block % STAGES, k_block / STAGES % 2);
                    let (full, depth) = (full.at(stage).at_rank(0), k_block * DEPTH);
                    empty.at(stage).wait_parity(parity ^ 1);
                    full.arrive_and_expect(a_tiles.bytes() + b_tiles.bytes());
                    let (a, b) = (
                        tma::Load::new(*a, [depth, row]),
                        tma::Load::new(*b, [depth, column + rank * half_n]),
                    );
                    a.group(CtaGroup::Two).start(a_tiles.at(stage), full);
                    b.group(CtaGroup::Two).start(b_tiles.at(stage), full);
                }
            }
        } else if warp == 1 && rank == 0 {
            if elect(ALL_LANES) {
                let mma = mma::<T>(CtaGroup::Two, tile_n);
                let (a_operand, b_operand) =
                    (mma.a_operand(a_tiles.tensor()), mma.b_operand(b_tiles.tensor()));
                for k_block in 0..k_blocks {
                    let (stage, parity) = (k_block % STAGES, k_block / STAGES % 2);
                    full.at(stage).wait_parity(parity);
                    let at = (All, All, stage);
                    let accumulate = Accumulate::If(k_block.ne(0));
                    mma.issue(product, &a_operand.slice(at), &b_operand.slice(at), accumulate);
                    commit_tensor_core_to(CtaGroup::Two, empty.at(stage), BOTH);
                }
                commit_tensor_core_to(CtaGroup::Two, done, BOTH);
            }
        }

        done.wait_parity(0);
        tensor_fence_after_sync();
        store_row(c, (m, n), product.row(warp * 32), (row + thread, column), tile_n);

        // No CTA frees its columns or exits while the other one uses its memory.
        tensor_fence_before_sync();
        cluster_sync();
        if warp == 1 {
            product.free(CtaGroup::Two, tile_n);
        }
    }
}
