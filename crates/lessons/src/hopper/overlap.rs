//! Lesson 9: the tensor cores are never without the next batch.
//!
//! ```text
//! lesson 8    wait slot 0, begin batch 0, wait for it, release 0, wait slot 1, begin batch 1, wait for it, ..
//! here        wait slot 0, begin batch 0, wait slot 1, begin batch 1, wait for batch 0, release 0, wait slot 2, begin batch 2, ..
//! ```
//!
//! Between the end of a batch and the start of the next lie a wait, an arrival and a fence. With
//! two batches under way the tensor cores do not see them: a consumer waits for the batch *before*
//! the one it has just begun, and releases that one's slot. And the first batch of a tile
//! overwrites the sums (`scale-d` 0) rather than adding to zeros, which nobody need write then.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `overlap` 635 TFLOP/s, 87.7
//! % of cublas.

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::one_tile::store_elements;
use super::persistent::Walk;
use super::{DEPTH, tile, wgmma};
use warpwright_kernels::gemm::GemmOutput;

pub use super::cluster::{CLUSTER, THREADS, TILE};

/// Slots of the pipeline.
const STAGES: u32 = 4;

/// C = A·Bᵀ, a CTA an SM.
#[derive(Clone, Copy, Debug)]
pub struct Overlapped<C> {
    /// Rows of clusters' tiles that are walked together.
    pub group: u32,
    /// What C is stored as.
    pub output: PhantomData<C>,
}

impl<C: GemmOutput> Overlapped<C> {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; any grid of whole clusters.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut Global<C>, m: u32, n: u32, k: u32) {
        let [producer, consumer] = roles([warpgroups(1).registers(40), warpgroups(2).registers(232)]);
        let (high, wide) = TILE;
        let cluster = ClusterGrid::new((CLUSTER, 1));
        let mut stages = Pipeline::stages(STAGES);
        let a_tiles = stages.operand::<bf16>(Ok(tile(high)));
        let b_tiles = stages.operand::<bf16>(Ok(tile(wide).sliced(CLUSTER)));
        let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
        let walk = Walk::new((m, n), (high * CLUSTER, wide), self.group);
        let (first, clusters) = (block_idx().x / CLUSTER, grid_dim().x / CLUSTER);
        let steps = (k + (DEPTH - 1)) / DEPTH;

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                for tile in (first..walk.tiles()).step_by(clusters) {
                    let (row, column) = walk.place(tile);
                    let row = row * CLUSTER + cluster.m();
                    for step in 0..steps {
                        let a = a_tiles.load(a, (row * high, step * DEPTH), cluster.multicast_a());
                        let b = b_tiles.load(b, (column * wide, step * DEPTH), cluster.multicast_b());
                        pipeline.load([a, b]);
                    }
                }
                pipeline.tail();
            }
        } else {
            consumer.begin();
            let mut pipeline = pipeline.consumer();
            let part = consumer.warpgroup();
            let mma = TiledMma::warpgroups(wgmma(wide), 2);
            let (a_operand, b_operand) =
                (mma.a_operand(a_tiles.tensor(), part), mma.b_operand(b_tiles.tensor()));
            let mut sums: Fragment<f32> = mma.thread(consumer.thread()).c_fragment((high, wide));
            sums.clear();
            for tile in (first..walk.tiles()).step_by(clusters) {
                let at = (All, All, pipeline.wait());
                multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), Accumulate::No);
                for _ in 1..steps {
                    let at = (All, All, pipeline.wait());
                    multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), Accumulate::Yes);
                    wait_multiplications(1);
                    pipeline.release();
                }
                wait_multiplications(0);
                pipeline.release();
                let (row, column) = walk.place(tile);
                let row = row * CLUSTER + cluster.m();
                let at = (row * high + part * 64, column * wide);
                store_elements(c, (m, n), &sums, wide, consumer.thread() % 128, at);
            }
        }
    }
}
