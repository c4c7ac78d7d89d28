//! Flash attention by `mma.sync` (sm_80): two products in a chain, K and V double-buffered by
//! `cp.async`. The chapter is `book/src/models/attention.md`.
//!
//! `cargo run --release -p warpwright --example flash_sm80`

use std::error::Error;

use warpwright::layout;
use warpwright::prelude::*;
use warpwright::runtime::Device;

pub(crate) mod attention;

use self::attention::{D, KEYS, OnlineSoftmax, Problem, mask, weights_as_a};

/// The rows of Q of a CTA: 16 for each of four warps.
const ROWS: u32 = 64;
const THREADS: u32 = 128;
/// The blocks of K and V that shared memory holds.
const STAGES: u32 = 2;

struct Flash {
    causal: bool,
}

/// The swizzle of rows of 64 halves: the eight 16-byte chunks of a row change places.
fn swizzle() -> Result<Swizzle, layout::Error> {
    Swizzle::new(3, 3, 3)
}

impl Flash {
    /// Q, K, V and O are (heads, length, 64), row-major. A CTA computes 64 rows of one head.
    #[kernel]
    fn run(
        &self,
        q: &Global<f16>,
        k: &Global<f16>,
        v: &Global<f16>,
        o: &mut Global<f16>,
        length: u32,
        scale: f32,
    ) {
        launch::threads(THREADS);
        let thread = thread_idx().x;
        let (row_block, head) = (block_idx().x, block_idx().y * length * D);
        let first_row = row_block * ROWS;

        // Global memory: this head, in blocks of rows.
        let matrix = || Layout::new((length, D), (D, 1));
        let q = Tensor::with_layout(q.at(head), matrix()).local_tile((ROWS, D), (row_block, 0));
        let k = Tensor::with_layout(k.at(head), matrix()).local_tile((KEYS, D), (All, 0));
        let v = Tensor::with_layout(v.at(head), matrix()).local_tile((KEYS, D), (All, 0));
        let o = Tensor::with_layout(o.at(head), matrix()).local_tile((ROWS, D), (row_block, 0));

        // Shared memory: (row, d) and (key, d, stage), d contiguous.
        let q_memory = dynamic_shared_aligned::<f16>(ROWS * D, 1024);
        let k_memory = dynamic_shared_aligned::<f16>(KEYS * D * STAGES, 1024);
        let v_memory = dynamic_shared_aligned::<f16>(KEYS * D * STAGES, 1024);
        let stages = || Layout::new((KEYS, D, STAGES), (D, 1, KEYS * D));
        let q_tile = Tensor::swizzled(q_memory, Layout::row_major((ROWS, D)), swizzle());
        let k_tiles = Tensor::swizzled(k_memory, stages(), swizzle());
        let v_tiles = Tensor::swizzled(v_memory, stages(), swizzle());
        // V once more, as operand B (n, k) of the second product: (d, key, stage), d contiguous.
        let transposed = Layout::new((D, KEYS, STAGES), (1, D, KEYS * D));
        let v_transposed = Tensor::swizzled(v_memory, transposed, swizzle());

        // The copies: 16 bytes for each thread and repetition; zeros for rows past the end.
        let copy = TiledCopy::new::<f16>(
            "SM80_CP_ASYNC_CACHEGLOBAL<128>",
            Layout::row_major((16, 8)),
            Layout::row_major((1, 8)),
        )
        .thread(thread);
        let at = copy.coordinates((KEYS, D));
        let start_copy = |from: &Tensor<f16, GlobalSpace>, to: &Tensor<f16, SharedSpace>, row: Reg<u32>| {
            let bytes = |i: u32| Some((row + at.row(i)).lt(length).select(16u32, 0u32));
            copy.copy_async(&copy.target(to), &copy.source(from), bytes);
        };
        let start_block = |block: Reg<u32>| {
            let stage = block % STAGES;
            for (from, to) in [(&k, &k_tiles), (&v, &v_tiles)] {
                start_copy(&from.slice((All, All, block)), &to.slice((All, All, stage)), block * KEYS);
            }
        };

        // The products: S = Q·Kᵀ and O += P·V, by the same atom.
        let mma = TiledMma::new("SM80_16x8x16_F32F16F16F32_TN", (THREADS / 32, 1));
        let part = mma.thread(thread);
        let q_fragment: Fragment<f16> = part.a_fragment((ROWS, D));
        let k_fragment: Fragment<f16> = part.b_fragment((KEYS, D));
        let v_fragment: Fragment<f16> = part.b_fragment((D, KEYS));
        let mut weights: Fragment<f16> = part.a_fragment((ROWS, KEYS));
        let mut scores: Fragment<f32> = part.c_fragment((ROWS, KEYS));
        let mut out: Fragment<f32> = part.c_fragment((ROWS, D));
        let scores_at = part.c_coordinates((ROWS, KEYS));
        // k is contiguous in Q and K, and n in V: its 8x8 matrices are transposed on the way.
        let q_load = TiledCopy::into_a::<f16>("SM75_U32x4_LDSM_N", &mma).thread(thread);
        let k_load = TiledCopy::into_b::<f16>("SM75_U32x4_LDSM_N", &mma).thread(thread);
        let v_load = TiledCopy::into_b::<f16>("SM75_U16x8_LDSM_T", &mma).thread(thread);

        let mut blocks = length.div_ceil(KEYS);
        if self.causal {
            blocks = blocks.min((first_row + ROWS).div_ceil(KEYS));
        }
        out.clear();
        let mut softmax = OnlineSoftmax::new();
        start_copy(&q, &q_tile, first_row);
        start_block(constant(0));
        commit_async_copies();
        for block in 0..blocks {
            // One group in each round, empty in the last: all but the latest are complete.
            if block + 1 < blocks {
                start_block(block + 1);
            }
            commit_async_copies();
            wait_async_copies(1);
            sync_threads();
            let stage = block % STAGES;

            scores.clear();
            let k_tile = k_tiles.slice((All, All, stage));
            for step in 0..D / 16 {
                let at = (All, All, step);
                q_load.load_matrix(&q_load.retile(&q_fragment).slice(at), &q_load.source(&q_tile).slice(at));
                k_load.load_matrix(&k_load.retile(&k_fragment).slice(at), &k_load.source(&k_tile).slice(at));
                gemm(&mma, &mut scores, &q_fragment.slice(at), &k_fragment.slice(at));
            }

            mask(&mut scores, &scores_at, (first_row, block * KEYS), (length, self.causal));
            softmax.update(&mut scores, &mut out, scale);
            weights_as_a(&mut weights, &scores);

            let v_tile = v_transposed.slice((All, All, stage));
            for step in 0..KEYS / 16 {
                let at = (All, All, step);
                v_load.load_matrix(&v_load.retile(&v_fragment).slice(at), &v_load.source(&v_tile).slice(at));
                gemm(&mma, &mut out, &weights.slice(at), &v_fragment.slice(at));
            }
            // The next round overwrites this stage.
            sync_threads();
        }

        softmax.normalize(&mut out);
        let mine = part.c(&o);
        let out_at = part.c_coordinates((ROWS, D));
        for i in (0..out.len()).step_by(2) {
            if first_row + out_at.row(i) < length {
                mine.set_vector(i, [out.get(i).convert::<f16>(), out.get(i + 1).convert::<f16>()]);
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
    let grid = (problem.length.div_ceil(ROWS), problem.heads);
    kernel.launch(&device.stream()?, grid, (&q, &k, &v, &mut o, problem.length, problem.scale()))?;
    problem.wrong_elements(&inputs, &o)
}

fn main() -> Result<(), Box<dyn Error>> {
    attention::check_all(&Device::default()?, wrong_elements)
}
