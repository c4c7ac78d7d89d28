//! Lesson 10: C leaves through shared memory, by TMA.
//!
//! ```text
//! registers        stmatrix       shared memory, 64 rows of 128 bytes       TMA store       C
//! a pair of bf16   --------->     swizzled: the eight rows that one         --------->      rows of 128 bytes,
//! a register                      stmatrix writes lie in eight bank groups                  what is outside left out
//! ```
//!
//! Stored from registers, a warp's 32 values fall on eight rows of 16 bytes. Here a warpgroup
//! rounds its 64 x 256 sums 64 columns at a time, lays each piece into shared memory, and one
//! thread hands it to TMA and goes on. Two pieces take turns: one is written while the other is
//! still being read. What the threads write and TMA reads must be made visible to it: they are
//! different *proxies*, and `fence.proxy.async` stands between them.
//!
//! Measured (NVIDIA H200, `--m 8192 --n 8192 --k 8192 --output bf16`): `tma-store` 707 TFLOP/s,
//! 100.6 % of cublas.

use warpwright::prelude::*;

use super::persistent::Walk;
use super::{DEPTH, tile, wgmma};
use warpwright_kernels::gemm::GemmOutput;

pub use super::cluster::{CLUSTER, THREADS, TILE};

/// Slots of the pipeline.
const STAGES: u32 = 4;

/// Columns of a piece of C: 64 elements of 16 bits are the widest swizzle's span.
pub(super) const PIECE: u32 = 64;

/// Pieces that a warpgroup has under way.
pub(super) const BUFFERS: u32 = 2;

/// C = A·Bᵀ in bf16, a CTA an SM.
#[derive(Clone, Copy, Debug)]
pub struct TmaStored {
    /// Rows of clusters' tiles that are walked together.
    pub group: u32,
}

impl TmaStored {
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
            let leads = consumer.leads_warpgroup();
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
                store_boxes(c, &pieces, &sums, (1, wide), consumer, leads, at);
            }
            bulk_wait(0);
        }
    }
}

/// Rounds a warpgroup's sums and sends them to C, a piece at a time: `blocks` blocks of 64 rows,
/// `wide` columns.
///
/// `leads` is true in the one thread of the warpgroup that starts the stores. The pieces of a tile
/// must be a multiple of the buffers, so that the next tile begins with the first buffer again.
#[device]
pub(super) fn store_boxes(
    c: &TensorMap,
    buffers: &StoreBuffers<bf16>,
    sums: &Fragment<f32>,
    (blocks, wide): (u32, u32),
    consumer: Role,
    leads: Reg<bool>,
    (row, column): (Reg<u32>, Reg<u32>),
) {
    let mma = TiledMma::warpgroups(wgmma(PIECE), 1);
    let copy = TiledCopy::from_c::<bf16>("SM90_U32x4_STSM_N", &mma).thread(consumer.thread() % 128);
    let pieces = wide / PIECE;
    for index in 0..blocks * pieces {
        let (block, piece) = (index / pieces, index % pieces);
        let buffer = consumer.warpgroup() * BUFFERS + index % BUFFERS;
        let values = PIECE / 2;
        let sums = sums.window(values * index, Layout::column_major((values, 1, 1)));
        let rounded = bf16::of_all(&sums);
        if leads {
            // The store before the last has read this buffer.
            bulk_wait_read(BUFFERS - 1);
        }
        consumer.sync_warpgroup();
        let target = copy.target(&buffers.tensor().slice((All, All, buffer)));
        copy.store_matrix(&target, &copy.retile(&rounded));
        fence_proxy_async_shared();
        consumer.sync_warpgroup();
        if leads {
            buffers.store(c, (row + block * 64, column + piece * PIECE), buffer);
            bulk_commit();
        }
    }
}
