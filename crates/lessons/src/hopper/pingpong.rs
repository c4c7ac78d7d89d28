//! Lesson 11: consumers that take turns ("pingpong"), so that one stores while the other
//! multiplies.
//!
//! ```text
//! cooperating, lesson 10           taking turns
//! consumer 0  mmmmmmmmm ss mmmm    consumer 0  mmmmmmmmm ss .. mmmmmmmmm ss     m multiplies, s stores
//! consumer 1  mmmmmmmmm ss mmmm    consumer 1            mmmmmmmmm ss  mmmmm    . waits for its turn
//! ```
//!
//! Two consumers that share a tile end it together, and the tensor cores stand still while they
//! store. Here each has a tile of its own, 128 x 192, and the tensor cores to itself while it
//! multiplies: a named barrier passes the turn. The slots go to the consumers tile by tile, so each
//! skips the other's. 192 sums a thread are as many as a consumer's 232 registers hold.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `pingpong` 708 TFLOP/s,
//! 104.2 % of cublas.

use warpwright::prelude::*;

use super::persistent::Walk;
use super::tma_store::{BUFFERS, store_boxes};
use super::{DEPTH, tile, wgmma};

pub use super::cluster::{CLUSTER, THREADS};

/// The tile's rows and columns.
pub const TILE: (u32, u32) = (128, 192);

/// Slots of the pipeline.
const STAGES: u32 = 4;

/// C = A·Bᵀ in bf16, a CTA an SM.
#[derive(Clone, Copy, Debug)]
pub struct Pingpong {
    /// Rows of clusters' tiles that are walked together.
    pub group: u32,
}

impl Pingpong {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major; any grid of whole clusters.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &TensorMap, m: u32, n: u32, k: u32) {
        let [producer, consumer] = roles([warpgroups(1).registers(40), warpgroups(2).registers(232)]);
        let (high, wide) = TILE;
        let cluster = ClusterGrid::new((CLUSTER, 1));
        let mut stages = Pipeline::stages(STAGES);
        let a_tiles = stages.operand::<bf16>(Ok(tile(high)));
        let b_tiles = stages.operand::<bf16>(Ok(tile(wide).sliced(CLUSTER)));
        let pieces = StoreBuffers::<bf16>::new(Ok(tile(64)), consumer.warpgroups() * BUFFERS);
        let pipeline = stages.connect(consumer, ConsumerSchedule::Pingpong, cluster);
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
            let mma = TiledMma::warpgroups(wgmma(wide), 1);
            let (a_operand, b_operand) =
                (mma.a_operand(a_tiles.tensor(), 0), mma.b_operand(b_tiles.tensor()));
            let mut sums: Fragment<f32> = mma.thread(consumer.thread() % 128).c_fragment((high, wide));
            sums.clear();
            let leads = consumer.leads_warpgroup();
            // Each consumer's first tile, and every second one from there; the slots between are
            // the other's.
            let turn = consumer.warpgroup();
            let (first, stride) = (first + turn * clusters, clusters * consumer.warpgroups());
            consumer.begin_turns();
            pipeline.skip(turn * steps);
            for tile in (first..walk.tiles()).step_by(stride) {
                consumer.wait_turn();
                let at = (All, All, pipeline.wait());
                multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), Accumulate::No);
                for _ in 1..steps {
                    let at = (All, All, pipeline.wait());
                    multiply(&mma, &mut sums, &a_operand.slice(at), &b_operand.slice(at), Accumulate::Yes);
                    wait_multiplications(1);
                    pipeline.release();
                }
                consumer.pass_turn();
                wait_multiplications(0);
                pipeline.release();
                let (row, column) = walk.place(tile);
                let row = row * CLUSTER + cluster.m();
                let at = (row * high, column * wide);
                store_boxes(c, &pieces, &sums, (high / 64, wide), consumer, leads, at);
                pipeline.skip(steps);
            }
            bulk_wait(0);
        }
    }
}
