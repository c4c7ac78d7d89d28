//! Lesson 7: the same kernel with roles, rings and a pipeline; and three arrivals a slot instead of
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
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `pipeline` 622 TFLOP/s, 88.3
//! % of cublas.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::one_tile::store_elements;
use super::persistent::Walk;
use super::{DEPTH, tile, wgmma};
use warpwright_kernels::gemm::GemmOutput;

pub use super::persistent::{THREADS, TILE};

/// Slots of the pipeline.
const STAGES: u32 = 4;

/// C = A·Bᵀ, a CTA an SM.
#[derive(Clone, Copy, Debug)]
pub struct Pipelined<C> {
    /// Rows of tiles that are walked together.
    pub group: u32,
    /// What C is stored as.
    pub output: PhantomData<C>,
}

impl<C: GemmOutput> Pipelined<C> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; any grid.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        let [producer, consumer] = roles([warpgroups(1).registers(40), warpgroups(2).registers(232)]);
        let (high, wide) = TILE;
        let mut stages = Pipeline::stages(STAGES);
        let a_tiles = stages.operand::<bf16>(Ok(tile(high)));
        let b_tiles = stages.operand::<bf16>(Ok(tile(wide)));
        let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, ClusterGrid::new((1, 1)));
        let walk = Walk::new((m, n), TILE, self.group);
        let steps = (k + (DEPTH - 1)) / DEPTH;

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                for tile in (block_idx().x..walk.tiles()).step_by(grid_dim().x) {
                    let (row, column) = walk.place(tile);
                    for step in 0..steps {
                        let a = a_tiles.load(a, (row * high, step * DEPTH), None);
                        let b = b_tiles.load(b, (column * wide, step * DEPTH), None);
                        pipeline.load([a, b]);
                    }
                }
            }
        } else {
            consumer.begin();
            let mut pipeline = pipeline.consumer();
            let part = consumer.warpgroup();
            let mma = TiledMma::warpgroups(wgmma(wide), 2);
            let (a_operand, b_operand) =
                (mma.a_operand(a_tiles.tensor(), part), mma.b_operand(b_tiles.tensor()));
            let mut sums: Fragment<f32> = mma.thread(consumer.thread()).c_fragment((high, wide));
            for tile in (block_idx().x..walk.tiles()).step_by(grid_dim().x) {
                sums.clear();
                for _ in 0..steps {
                    let at = (All, All, pipeline.wait());
                    multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), Accumulate::Yes);
                    wait_multiplications(0);
                    pipeline.release();
                }
                let (row, column) = walk.place(tile);
                let at = (row * high + part * 64, column * wide);
                store_elements(c, (m, n), &sums, wide, consumer.thread() % 128, at);
            }
        }
    }
}
