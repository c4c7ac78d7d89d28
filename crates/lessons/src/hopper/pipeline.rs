//! Lesson 7: the same kernel with roles and a pipeline, and three arrivals per stage instead of
//! 514.
//!
//! ```text
//! full    1 arrival, the producer's, and the bytes of the copies      (was 257: nobody who only waits need arrive)
//! empty   2 arrivals, one of each consumer warpgroup                  (was 257: a warpgroup is done when its wgmma is)
//! ```
//!
//! A thread can wait without arriving: the parity of a phase alternates with each round through the
//! stages, and names the phase. [`Pipeline`] keeps the parity, the stage, the arrival counts and
//! the transaction bytes. The producer's `load` waits for the next empty stage, expects the bytes
//! of its copies and starts them; the consumer's `wait` returns the next full stage, and `release`
//! frees the oldest. [`roles`] names the warpgroups and divides the registers. `Pipeline::stages`
//! makes the tiles of each operand, one per stage.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `pipeline` 622 TFLOP/s, 88.3 % of cublas.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::one_tile::store_elements;
use super::persistent::TileScheduler;
use super::{DEPTH, tile, wgmma};
use warpwright_kernels::gemm::GemmOutput;

pub use super::persistent::{THREADS, TILE};

/// Stages of the pipeline.
const STAGES: u32 = 4;

/// C = A·Bᵀ, with one persistent CTA per SM.
#[derive(Clone, Copy, Debug)]
pub struct Pipelined<C> {
    /// Rows of tiles per rasterization group.
    pub group: u32,
    /// Data type of C.
    pub output: PhantomData<C>,
}

impl<C: GemmOutput> Pipelined<C> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major. The grid may have any size.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        let [producer, consumer] = roles([warpgroups(1).registers(40), warpgroups(2).registers(232)]);
        let (tile_m, tile_n) = TILE;
        let mut stages = Pipeline::stages(STAGES);
        let a_tiles = stages.operand::<bf16>(Ok(tile(tile_m)));
        let b_tiles = stages.operand::<bf16>(Ok(tile(tile_n)));
        let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, ClusterGrid::new((1, 1)));
        let scheduler = TileScheduler::new((m, n), TILE, self.group);
        let k_blocks = (k + (DEPTH - 1)) / DEPTH;

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                for tile in (block_idx().x..scheduler.tiles()).step_by(grid_dim().x) {
                    let (row, column) = scheduler.tile(tile);
                    for k_block in 0..k_blocks {
                        let a = a_tiles.load(a, (row * tile_m, k_block * DEPTH), None);
                        let b = b_tiles.load(b, (column * tile_n, k_block * DEPTH), None);
                        pipeline.load([a, b]);
                    }
                }
            }
        } else {
            consumer.begin();
            let mut pipeline = pipeline.consumer();
            let warpgroup = consumer.warpgroup();
            let mma = TiledMma::warpgroups(wgmma(tile_n), 2);
            let (a_operand, b_operand) =
                (mma.a_operand(a_tiles.tensor(), warpgroup), mma.b_operand(b_tiles.tensor()));
            let mut accumulators: Fragment<f32> = mma.thread(consumer.thread()).c_fragment((tile_m, tile_n));
            for tile in (block_idx().x..scheduler.tiles()).step_by(grid_dim().x) {
                accumulators.clear();
                for _ in 0..k_blocks {
                    let at = (All, All, pipeline.wait());
                    multiply(
                        &mma,
                        &mut accumulators,
                        &a_operand.slice(at),
                        &b_operand.slice(at),
                        Accumulate::Yes,
                    );
                    wait_multiplications(0);
                    pipeline.release();
                }
                let (row, column) = scheduler.tile(tile);
                let at = (row * tile_m + warpgroup * 64, column * tile_n);
                store_elements(c, (m, n), &accumulators, tile_n, consumer.thread() % 128, at);
            }
        }
    }
}
