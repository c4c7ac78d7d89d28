//! Lesson 11: pingpong consumers. One stores its tile while the other multiplies.
//!
//! ```text
//! cooperating, lesson 10           taking turns
//! consumer 0  mmmmmmmmm ss mmmm    consumer 0  mmmmmmmmm ss .. mmmmmmmmm ss     m multiplies, s stores
//! consumer 1  mmmmmmmmm ss mmmm    consumer 1            mmmmmmmmm ss  mmmmm    . waits for its turn
//! ```
//!
//! Cooperative consumers finish their tile together, and the tensor cores idle while they store it.
//! Here each consumer has its own tile of 128 x 192, and exclusive use of the tensor cores during
//! its main loop; a named barrier passes the turn. The stages belong to the consumers tile by tile,
//! so each skips the stages of the other. The 192 accumulators per thread are as many as fit into a
//! consumer's 232 registers.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `pingpong` 708 TFLOP/s, 104.2 % of cublas.

use warpwright::prelude::*;

use super::persistent::TileScheduler;
use super::tma_store::{BUFFERS, store_by_tma};
use super::{DEPTH, tile, wgmma};

pub use super::cluster::{CLUSTER, THREADS};

/// Rows and columns of the tile.
pub const TILE: (u32, u32) = (128, 192);

/// Stages of the pipeline.
const STAGES: u32 = 4;

/// C = A·Bᵀ in bf16, with one persistent CTA per SM.
#[derive(Clone, Copy, Debug)]
pub struct Pingpong {
    /// Rows of cluster tiles per rasterization group.
    pub group: u32,
}

impl Pingpong {
    /// A is (m, k), B is (n, k), C is (m, n), all row-major. The grid is any number of whole
    /// clusters.
    #[kernel]
    pub fn run(&self, a: &TensorMap, b: &TensorMap, c: &mut TensorMap, m: u32, n: u32, k: u32) {
        let [producer, consumer] = roles([warpgroups(1).registers(40), warpgroups(2).registers(232)]);
        let (tile_m, tile_n) = TILE;
        let cluster = ClusterGrid::new((CLUSTER, 1));
        let mut stages = Pipeline::stages(STAGES);
        let a_tiles = stages.operand::<bf16>(Ok(tile(tile_m)));
        let b_tiles = stages.operand::<bf16>(Ok(tile(tile_n).sliced(CLUSTER)));
        let buffers = StoreBuffers::<bf16>::new(Ok(tile(64)), consumer.warpgroups() * BUFFERS);
        let pipeline = stages.connect(consumer, ConsumerSchedule::Pingpong, cluster);
        let scheduler = TileScheduler::new((m, n), (tile_m * CLUSTER, tile_n), self.group);
        let (first, clusters) = (block_idx().x / CLUSTER, grid_dim().x / CLUSTER);
        let k_blocks = (k + (DEPTH - 1)) / DEPTH;

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                for tile in (first..scheduler.tiles()).step_by(clusters) {
                    let (row, column) = scheduler.tile(tile);
                    let row = row * CLUSTER + cluster.m();
                    for k_block in 0..k_blocks {
                        let a = a_tiles.load(a, (row * tile_m, k_block * DEPTH), cluster.multicast_a());
                        let b = b_tiles.load(b, (column * tile_n, k_block * DEPTH), cluster.multicast_b());
                        pipeline.load([a, b]);
                    }
                }
                pipeline.tail();
            }
        } else {
            consumer.begin();
            let mut pipeline = pipeline.consumer();
            let mma = TiledMma::warpgroups(wgmma(tile_n), 1);
            let (a_operand, b_operand) =
                (mma.a_operand(a_tiles.tensor(), 0), mma.b_operand(b_tiles.tensor()));
            let mut accumulators: Fragment<f32> =
                mma.thread(consumer.thread() % 128).c_fragment((tile_m, tile_n));
            accumulators.clear();
            let leads = consumer.leads_warpgroup();
            // A consumer computes every second tile. The stages of the tiles between belong to the
            // other one.
            let turn = consumer.warpgroup();
            let (first, stride) = (first + turn * clusters, clusters * consumer.warpgroups());
            consumer.begin_turns();
            pipeline.skip(turn * k_blocks);
            for tile in (first..scheduler.tiles()).step_by(stride) {
                consumer.wait_turn();
                let at = (All, All, pipeline.wait());
                multiply(&mma, &mut accumulators, &a_operand.slice(at), &b_operand.slice(at), Accumulate::No);
                for _ in 1..k_blocks {
                    let at = (All, All, pipeline.wait());
                    multiply(
                        &mma,
                        &mut accumulators,
                        &a_operand.slice(at),
                        &b_operand.slice(at),
                        Accumulate::Yes,
                    );
                    wait_multiplications(1);
                    pipeline.release();
                }
                consumer.pass_turn();
                wait_multiplications(0);
                pipeline.release();
                let (row, column) = scheduler.tile(tile);
                let row = row * CLUSTER + cluster.m();
                let at = (row * tile_m, column * tile_n);
                store_by_tma(c, &buffers, &accumulators, (tile_m / 64, tile_n), consumer, leads, at);
                pipeline.skip(k_blocks);
            }
            bulk_wait(0);
        }
    }
}
