//! Lesson 10: C is stored through shared memory, by TMA.
//!
//! ```text
//! registers        stmatrix       shared memory, 64 rows of 128 bytes       TMA store       C
//! a pair of bf16   --------->     swizzled: the eight rows that one         --------->      rows of 128 bytes,
//! a register                      stmatrix writes lie in eight bank groups                  what is outside left out
//! ```
//!
//! When a warp stores 32 values from registers, they go to eight rows of 16 bytes each. Here a
//! warpgroup rounds its 64 x 256 accumulators 64 columns at a time and writes each such subtile to
//! shared memory. One thread starts a TMA store of it and continues. Two buffers alternate: one is
//! written while the other is being read. Threads write through the generic proxy and TMA reads
//! through the async proxy, so a `fence.proxy.async` is between them.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `tma-store` 707 TFLOP/s, 100.6 % of cublas.

use warpwright::prelude::*;

use super::persistent::TileScheduler;
use super::{DEPTH, tile, wgmma};
use warpwright_kernels::gemm::GemmOutput;

pub use super::cluster::{CLUSTER, THREADS, TILE};

/// Stages of the pipeline.
const STAGES: u32 = 4;

/// Columns of a subtile of C: 64 elements of 16 bits are the width of the widest swizzle.
pub(super) const SUBTILE: u32 = 64;

/// Subtiles of a warpgroup that may be in flight.
pub(super) const BUFFERS: u32 = 2;

/// C = A·Bᵀ in bf16, with one persistent CTA per SM.
#[derive(Clone, Copy, Debug)]
pub struct TmaStored {
    /// Rows of cluster tiles per rasterization group.
    pub group: u32,
}

impl TmaStored {
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
        let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, cluster);
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
            let warpgroup = consumer.warpgroup();
            let mma = TiledMma::warpgroups(wgmma(tile_n), 2);
            let (a_operand, b_operand) =
                (mma.a_operand(a_tiles.tensor(), warpgroup), mma.b_operand(b_tiles.tensor()));
            let mut accumulators: Fragment<f32> = mma.thread(consumer.thread()).c_fragment((tile_m, tile_n));
            accumulators.clear();
            let leads = consumer.leads_warpgroup();
            for tile in (first..scheduler.tiles()).step_by(clusters) {
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
                wait_multiplications(0);
                pipeline.release();
                let (row, column) = scheduler.tile(tile);
                let row = row * CLUSTER + cluster.m();
                let at = (row * tile_m + warpgroup * 64, column * tile_n);
                store_by_tma(c, &buffers, &accumulators, (1, tile_n), consumer, leads, at);
            }
            bulk_wait(0);
        }
    }
}

/// Rounds a warpgroup's accumulators and stores them to C one subtile at a time: `blocks` blocks of
/// 64 rows, `tile_n` columns.
///
/// `leads` is true in the one thread of the warpgroup that starts the stores. The number of
/// subtiles per tile must be a multiple of the number of buffers, so that the next tile starts with
/// the first buffer.
#[device]
pub(super) fn store_by_tma(
    c: &TensorMap,
    buffers: &StoreBuffers<bf16>,
    accumulators: &Fragment<f32>,
    (blocks, tile_n): (u32, u32),
    consumer: Role,
    leads: Reg<bool>,
    (row, column): (Reg<u32>, Reg<u32>),
) {
    let mma = TiledMma::warpgroups(wgmma(SUBTILE), 1);
    let copy = TiledCopy::from_c::<bf16>("SM90_U32x4_STSM_N", &mma).thread(consumer.thread() % 128);
    let subtiles = tile_n / SUBTILE;
    for index in 0..blocks * subtiles {
        let (block, subtile) = (index / subtiles, index % subtiles);
        let buffer = consumer.warpgroup() * BUFFERS + index % BUFFERS;
        let values = SUBTILE / 2;
        let accumulators = accumulators.window(values * index, Layout::column_major((values, 1, 1)));
        let rounded = bf16::of_all(&accumulators);
        if leads {
            // The store before the previous one must have read this buffer.
            bulk_wait_read(BUFFERS - 1);
        }
        consumer.sync_warpgroup();
        let target = copy.target(&buffers.tensor().slice((All, All, buffer)));
        copy.store_matrix(&target, &copy.retile(&rounded));
        fence_proxy_async_shared();
        consumer.sync_warpgroup();
        if leads {
            buffers.store(c, (row + block * 64, column + subtile * SUBTILE), buffer);
            bulk_commit();
        }
    }
}
