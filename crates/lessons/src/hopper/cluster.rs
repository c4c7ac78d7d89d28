//! Lesson 8: clusters of two CTAs, which load what both need once.
//!
//! ```text
//! a cluster's tiles of C     A                    B: both CTAs multiply by the same 256 rows
//! +----------------+         +---+
//! | CTA 0          |         | 0 |  CTA 0 loads   +---+  CTA 0 loads the first 128 rows and sends them to both,
//! +----------------+         +---+                | 0 |
//! | CTA 1          |         | 1 |  CTA 1 loads   | 1 |  CTA 1 the others
//! +----------------+         +---+                +---+
//! ```
//!
//! The CTAs of a cluster run on neighboring SMs at the same time, and a TMA load can bring its box
//! to several of them (*multicast*): B crosses from L2 once for two tiles. What it takes: `full` of
//! each CTA counts the bytes that both send; a slot is empty when the consumers of *both* CTAs have
//! released it, so they arrive at both CTAs' barriers; and no CTA may end while the other still
//! releases slots to it. The pipeline takes the cluster and does all of that; the kernel says what
//! is shared.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `cluster` 620 TFLOP/s, 85.7
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

/// CTAs of a cluster along m.
pub const CLUSTER: u32 = 2;

/// C = A·Bᵀ, a CTA an SM.
#[derive(Clone, Copy, Debug)]
pub struct Clustered<C> {
    /// Rows of clusters' tiles that are walked together.
    pub group: u32,
    /// What C is stored as.
    pub output: PhantomData<C>,
}

impl<C: GemmOutput> Clustered<C> {
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
            for tile in (first..walk.tiles()).step_by(clusters) {
                sums.clear();
                for _ in 0..steps {
                    let at = (All, All, pipeline.wait());
                    multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), Accumulate::Yes);
                    wait_multiplications(0);
                    pipeline.release();
                }
                let (row, column) = walk.place(tile);
                let row = row * CLUSTER + cluster.m();
                let at = (row * high + part * 64, column * wide);
                store_elements(c, (m, n), &sums, wide, consumer.thread() % 128, at);
            }
        }
    }
}
