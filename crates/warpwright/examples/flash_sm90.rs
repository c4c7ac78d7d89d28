//! Flash attention by TMA and `wgmma` (sm_90a): one producer warp, two consumer warpgroups, and a
//! pipeline of mbarriers between them. The chapter is `book/src/models/attention_by_tma.md`.
//!
//! Runs on an H100 or H200, or on the emulator of one:
//! `cargo run --release -p warpwright --example flash_sm90`

use std::error::Error;

use warpwright::arch::Arch;
use warpwright::layout;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule};

pub(crate) mod attention;

use self::attention::{D, KEYS, OnlineSoftmax, Problem, mask, weights_as_a};

/// The consumer warpgroups, and the rows of Q of a CTA: 64 for each of them.
const CONSUMERS: u32 = 2;
const ROWS: u32 = CONSUMERS * 64;
/// The consumers' threads, then the producer's warp.
const PRODUCER: u32 = CONSUMERS * 128;
const THREADS: u32 = PRODUCER + 32;
/// The blocks of K and V that shared memory holds.
const STAGES: u32 = 3;
const STAGE_BYTES: u32 = 2 * KEYS * D * 2;

struct Flash {
    causal: bool,
}

type Tile = Result<TmaTile, layout::Error>;

/// Rows of Q, K or O: (row, d), d contiguous.
fn row_tile(rows: u32) -> Tile {
    TmaTile::new::<f16>((rows, D), Major::K)
}

/// V as operand B (n, k) of the second product: (d, key), d contiguous.
fn v_tile() -> Tile {
    TmaTile::new::<f16>((D, KEYS), Major::Mn)
}

/// Shared memory for `count` tiles, and its tensor (mn, k, count). A swizzled tile begins at a
/// multiple of 1024 bytes, the period of the 128-byte swizzle.
#[track_caller]
fn shared_tiles(tile: Tile, count: u32) -> (Shared<f16>, Tensor<f16, SharedSpace>) {
    let tile = tile.expect("a legal tile");
    let memory = dynamic_shared_aligned::<f16>(tile.bytes() / 2 * count, 1024);
    (memory, Tensor::new(memory, tile.layout(count).expect("a legal tile")))
}

impl Flash {
    /// Q, K, V and O are (heads, length, 64), row-major. A CTA computes 128 rows of one head.
    #[kernel]
    fn run(&self, q: &TensorMap, k: &TensorMap, v: &TensorMap, o: &mut TensorMap, length: u32, scale: f32) {
        launch::threads(THREADS);
        let thread = thread_idx().x;
        let warpgroup = warp::broadcast(thread / 128, 0);
        let (first_row, head) = (block_idx().x * ROWS, block_idx().y);

        // The maps have three axes: (head, row, d). A box has one head.
        for (map, tile) in [(q, row_tile(ROWS)), (k, row_tile(KEYS)), (v, v_tile())] {
            map.boxes(tile.expect("a legal tile").requirement().of_rank(3));
        }
        let (q_memory, q_tile) = shared_tiles(row_tile(ROWS), 1);
        let (k_memory, k_tiles) = shared_tiles(row_tile(KEYS), STAGES);
        let (v_memory, v_tiles) = shared_tiles(v_tile(), STAGES);
        let o_tile = StoreBuffers::<f16>::new(row_tile(ROWS), 1);

        // `full` completes when a stage's bytes have arrived, `empty` when its readers have arrived.
        let q_full = Mbarrier::new();
        let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
        if thread == 0 {
            q_full.init(1);
            for stage in 0..STAGES {
                full.at(stage).init(1);
                empty.at(stage).init(CONSUMERS);
            }
            fence_mbarrier_init();
        }
        sync_threads();

        let mut blocks = length.div_ceil(KEYS);
        if self.causal {
            blocks = blocks.min((first_row + ROWS).div_ceil(KEYS));
        }

        if warpgroup == CONSUMERS {
            if thread == PRODUCER {
                q_full.arrive_and_expect(ROWS * D * 2);
                tma::load(*q, (0u32, first_row, head), q_memory, q_full);
                for block in 0..blocks {
                    let (stage, parity) = (block % STAGES, block / STAGES % 2);
                    empty.at(stage).wait_parity(parity ^ 1);
                    full.at(stage).arrive_and_expect(STAGE_BYTES);
                    let at = (0u32, block * KEYS, head);
                    tma::load(*k, at, k_memory.at(stage * (KEYS * D)), full.at(stage));
                    tma::load(*v, at, v_memory.at(stage * (KEYS * D)), full.at(stage));
                }
            }
        } else {
            // S = Q·Kᵀ from shared memory; O += P·V with P in registers.
            let score_mma = TiledMma::warpgroups("SM90_64x64x16_F32F16F16_SS", CONSUMERS);
            let out_mma = TiledMma::warpgroups("SM90_64x64x16_F32F16F16_RS", CONSUMERS);
            let q = score_mma.a_operand(&q_tile, warpgroup).slice((All, All, 0));
            let k = score_mma.b_operand(&k_tiles);
            let v = out_mma.b_operand(&v_tiles);
            let mut scores: Fragment<f32> = score_mma.thread(thread).c_fragment((ROWS, KEYS));
            let scores_at = score_mma.thread(thread).c_coordinates((ROWS, KEYS));
            let mut weights: Fragment<f16> = out_mma.thread(thread).a_fragment((ROWS, KEYS));
            let mut out: Fragment<f32> = out_mma.thread(thread).c_fragment((ROWS, D));

            out.clear();
            let mut softmax = OnlineSoftmax::new();
            q_full.wait_parity(0);
            for block in 0..blocks {
                let (stage, parity) = (block % STAGES, block / STAGES % 2);
                full.at(stage).wait_parity(parity);
                let at = (All, All, stage);
                multiply(&score_mma, &mut scores, &q, &k.slice(at), Accumulate::No);
                wait_multiplications(0);

                mask(&mut scores, &scores_at, (first_row, block * KEYS), (length, self.causal));
                softmax.update(&mut scores, &mut out, scale);
                weights_as_a(&mut weights, &scores);

                multiply(&out_mma, &mut out, &weights, &v.slice(at), Accumulate::Yes);
                wait_multiplications(0);
                if thread % 128 == 0 {
                    empty.at(stage).arrive();
                }
            }

            // Registers to shared memory by `stmatrix`, and from there by one tensor store.
            softmax.normalize(&mut out);
            let halves = out.packed::<f16>(|low, high| low.pack_f16x2(high).bit_cast());
            let copy = TiledCopy::from_c::<f16>("SM90_U32x4_STSM_N", &out_mma).thread(thread);
            let target = copy.target(&o_tile.tensor().slice((All, All, 0)));
            copy.store_matrix(&target, &copy.retile(&halves));
            fence_proxy_async_shared();
            NamedBarrier::new(1, CONSUMERS * 128).sync();
            if thread == 0 {
                o_tile.store(MappedMatrix::from(o).batch(head), (first_row, constant(0)), 0);
                bulk_commit();
                bulk_wait(0);
            }
        }
    }
}

/// The elements of the kernel's output that are wrong.
pub(crate) fn wrong_elements(device: &Device, problem: Problem) -> Result<usize, Box<dyn Error>> {
    let inputs = problem.inputs();
    let [q, k, v] = inputs.each_ref().map(|values| device.buffer_from(values));
    let (q, k, v) = (q?, k?, v?);
    let mut o = device.uninitialized::<f16>(q.len())?;
    let kernel = device.compile(&Flash { causal: problem.causal }.run()?)?;
    // The extents, the contiguous axis last.
    let extents = [problem.heads.into(), problem.length.into(), D.into()];
    let q_map = kernel.tensor_map("q", &q, &extents)?;
    let k_map = kernel.tensor_map("k", &k, &extents)?;
    let v_map = kernel.tensor_map("v", &v, &extents)?;
    let mut o_map = kernel.tensor_map("o", &mut o, &extents)?;
    let grid = (problem.length.div_ceil(ROWS), problem.heads);
    let arguments = (&q_map, &k_map, &v_map, &mut o_map, problem.length, problem.scale());
    kernel.launch(&device.stream()?, grid, arguments)?;
    problem.wrong_elements(&inputs, &o)
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = match Device::cuda(0) {
        Ok(gpu) if gpu.properties().capability.target == "sm_90a" => gpu,
        _ => Device::emulated(Arch::named("h200")?, Schedule::Latest)?,
    };
    attention::check_all(&device, wrong_elements)
}
