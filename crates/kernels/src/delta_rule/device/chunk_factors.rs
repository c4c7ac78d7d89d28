//! The first kernel of a prefill: what a chunk of 64 tokens needs of its own tokens alone, in
//! parallel over the chunks.
//!
//! Within a chunk, the replacements δ of the tokens depend on one another. With G the sum of the
//! log-decays up to a token, S the state before the chunk, and rows for tokens:
//!
//! ```text
//! (I + A) Δ = β (V - e^G K S)        A(i, j) = β_i (k_i·k_j) e^(G_i - G_j), i > j
//! Δ = T X                            T = (I + A)⁻¹, X the right side
//! O = e^G Q S + P Δ                  P(i, j) = (q_i·k_j) e^(G_i - G_j), i ≥ j
//! S ← e^(G_64) S + (e^(G_64 - G) K)ᵀ Δ
//! ```
//!
//! This kernel computes T - I and P in bf16, as `triangle` has them, and the factors of the tokens in
//! f32. In [`Precision::F32`] it also writes what bf16 lost of T - I and P. The usual form (WY) also multiplies T by V and by K here; this one leaves both to the next
//! kernel, which then reads 11 KiB per chunk and head in place of 48, and rounds V - e^G K S after the
//! subtraction.
//!
//! K·Kᵀ and Q·Kᵀ are products of the tensor cores over keys as they are in memory: exact products of
//! bf16, summed in f32. Norms, β and decays are factors of the sums. `triangular_inverse` computes T.
//!
//! A chunk is a chain of latencies: its keys arrive, products, sums of gates, an inverse; an SM has
//! four CTAs, each somewhere else in it. The bytes of 8,192 tokens of 32 value heads (67 MB read, 46 MB
//! written) take 27 us from and to DRAM. CTAs of the heads of a chunk follow one another, so that rows
//! of queries and keys are read whole.

use warpwright::layout::atom::MmaAtom;
use warpwright::prelude::*;

use super::chunk::{
    ATOM, BOXES, Chunk, Columns, SQUARE, key_tile, load_boxes, square_tile, swizzled, tiles, zeros,
};
use super::gates::GateInputs;
use super::token_factors::{FACTORS, Factor};
use super::tokens::Tokens;
use super::triangle::{BLOCK, TRIANGLE};
use super::triangular_inverse::TriangularInverse;
use crate::delta_rule::problem::{CHUNK, EPSILON, HEAD, Heads, Precision};

/// The threads of a CTA: a warpgroup.
const THREADS: u32 = 128;
/// CTAs that an SM holds: 45 KiB of shared memory (55 in [`Precision::F32`]) and 128 registers per thread each. Five of 96
/// registers take as long.
const CTAS_PER_SM: u32 = 4;

/// The kernel. A CTA computes a chunk of one or two value heads that share a key head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkFactors {
    /// The heads.
    pub heads: Heads,
    /// What T - I and P are written for.
    pub precision: Precision,
}

impl ChunkFactors {
    /// Value heads of a CTA.
    pub fn heads_per_cta(&self) -> u32 {
        if self.heads.values_per_key().is_multiple_of(2) { 2 } else { 1 }
    }

    /// `qkv` is (tokens, [`Heads::columns`]); `a` and `b` are columns of matrices, with their offsets and strides in
    /// turn; `a_log` and `dt_bias` are (value heads). Sequence i has the tokens from `sequence_starts[i]` to
    /// `sequence_starts[i + 1]`. `inverses` and `scores` are (chunks, value heads,
    /// parts, [`TRIANGLE`]), where a part is the rounding or what it lost; `factors` is (chunks, value heads, [`FACTORS`]).
    #[kernel]
    pub fn run(
        &self,
        qkv: &TensorMap,
        a: &Global<bf16>,
        b: &Global<bf16>,
        a_log: &Global<f32>,
        dt_bias: &Global<f32>,
        sequence_starts: &Global<u32>,
        inverses: &mut Global<bf16>,
        scores: &mut Global<bf16>,
        factors: &mut Global<f32>,
        of_gates: [u32; 4],
        sequences: u32,
    ) {
        launch::threads(THREADS);
        let (per_cta, of_head) = (self.heads_per_cta(), self.precision.parts() * TRIANGLE);
        qkv.boxes(square_tile());
        launch::blocks_per_sm(CTAS_PER_SM);
        // Keys, then queries. When they have been read: A of the heads.
        let memory = dynamic_shared_aligned::<bf16>(2 * BOXES * SQUARE, 1024);
        let q_memory = memory.at(BOXES * SQUARE);
        let (k_tile, q_tile) = (tiles(memory, key_tile(), 1), tiles(q_memory, key_tile(), 1));
        let couplings = memory.cast::<f32>();
        // P of the heads, then their T - I.
        let triangles = dynamic_shared_aligned::<bf16>(per_cta * of_head, 256);
        let tokens = Tokens::shared(per_cta, self.precision);
        let loaded = Mbarrier::new();

        // The recurrence loads from `qkv` before this kernel ends: its CTAs begin when `qkv` is complete.
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        let (chunk_index, head) = self.indices();
        let chunk = Chunk::at(chunk_index, *sequence_starts, sequences);
        if chunk.length == 0 {
            return;
        }
        let thread = thread_idx().x;
        if thread == 0 {
            loaded.init(1);
            fence_mbarrier_init();
            loaded.arrive_and_expect(2 * BOXES * SQUARE * 2);
            let columns = Columns::of(self.heads, head);
            load_boxes(qkv, (columns.k, chunk.token), BOXES, memory, loaded);
            load_boxes(qkv, (columns.q, chunk.token), BOXES, q_memory, loaded);
        }

        // The inputs of the gates of a thread's own head and token arrive during the products.
        let (own, token) = (thread / CHUNK, thread % CHUNK);
        let (last_token, last_head) = (chunk.length - 1, per_cta - 1);
        let at = (chunk.token + token.min(last_token), head + own.min(last_head));
        let gate_inputs = GateInputs::load((*a, *b, of_gates), (*a_log, *dt_bias), at);
        sync_threads();
        loaded.wait_parity(0);
        let (warp, lane) = (thread / 32, thread % 32);
        if chunk.length < CHUNK {
            clear_rows(memory, chunk.length, (warp, lane));
        }
        let mma = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_SS", 1);
        let mut key_key: Fragment<f32> = mma.thread(thread).c_fragment((CHUNK, CHUNK));
        let mut query_key: Fragment<f32> = mma.thread(thread).c_fragment((CHUNK, CHUNK));
        let k = mma.b_operand(&k_tile).slice((All, All, 0));
        let k_rows = mma.a_operand(&k_tile, constant(0u32)).slice((All, All, 0));
        let q_rows = mma.a_operand(&q_tile, constant(0u32)).slice((All, All, 0));
        multiply(&mma, &mut key_key, &k_rows, &k, Accumulate::No);
        multiply(&mma, &mut query_key, &q_rows, &k, Accumulate::No);

        for (which, scale) in [(0, 1.0), (1, 1.0 / (HEAD as f32).sqrt())] {
            let sums = squares(memory.at(which * (BOXES * SQUARE)), (warp, lane));
            // Of the diagonal, a lane in four has an element of each half.
            if (lane % 4).eq(lane / 8) {
                for (half, sum) in [0, 8].into_iter().zip(sums) {
                    let at = warp * 16 + lane / 4 + (half + which * CHUNK);
                    tokens.norms.at(at).store((sum + EPSILON).rsqrt() * scale);
                }
            }
        }
        let (gates, exists) = (gate_inputs.gates(), token.lt(chunk.length));
        let log_decay = exists.select(gates.log_decay * std::f32::consts::LOG2_E, 0f32);
        let beta = exists.select(gates.beta, 0f32);
        let halves = shared_array::<f32>(THREADS / 32);
        let warp_sum = warp::inclusive_scan(log_decay, |a, b| a + b);
        if lane == 31 {
            halves[warp] = warp_sum;
        }
        sync_threads();
        if own < per_cta {
            let own_halves = halves.at(own * 2).load_vector::<2>();
            let sum = warp_sum + token.ge(32).select(own_halves[0], 0f32);
            let last = own_halves[0] + own_halves[1];
            let (key_norm, query_norm) = (tokens.norms[token], tokens.norms[token + CHUNK]);
            tokens.sums[thread] = sum;
            tokens.columns[thread] = sum - key_norm.log2();
            tokens.keys[thread] = beta * key_norm;
            let factors = factors.at(self.unit(chunk_index, head + own) * u64::from(FACTORS)).at(token);
            let decay = fast::exp2(sum);
            factors.at(Factor::Beta.start()).store(beta);
            factors.at(Factor::Recall.start()).store(beta * key_norm * decay);
            factors.at(Factor::Read.start()).store(query_norm * decay);
            factors.at(Factor::Keep.start()).store(key_norm * fast::exp2(last - sum));
            if token == 0 {
                factors.at(Factor::Decay.start()).store_vector([fast::exp2(last); 4]);
            }
        }
        wait_multiplications(0);
        sync_threads();
        tokens.decay((&key_key, &query_key), (warp, lane), couplings, triangles);
        fence_proxy_async_shared();
        sync_threads();
        let store = |to: &Global<bf16>| {
            if thread == 0 {
                for h in 0..per_cta {
                    let at = self.unit(chunk_index, head + h) * u64::from(of_head);
                    bulk::store(to.at(at), of_head, triangles.at(h * of_head));
                }
                bulk_commit();
            }
        };
        store(scores);

        let inverse = TriangularInverse { couplings, head: own, thread: token, precision: self.precision };
        if own < per_cta {
            inverse.invert_diagonal();
        }
        if thread == 0 {
            bulk_wait_read(0);
        }
        sync_threads();
        if own < per_cta {
            inverse.store(triangles.at(own * of_head));
        }
        fence_proxy_async_shared();
        sync_threads();
        store(inverses);
        if thread == 0 {
            bulk_wait_read(0);
        }
    }

    /// CTAs of `chunks` chunks.
    pub fn ctas(&self, chunks: u32) -> u64 {
        u64::from(chunks) * u64::from(self.heads.values / self.heads_per_cta())
    }

    /// The chunk of this CTA, and its first head.
    #[track_caller]
    fn indices(&self) -> (Reg<u32>, Reg<u32>) {
        let per_chunk = self.heads.values / self.heads_per_cta();
        (block_idx().x / per_chunk, block_idx().x % per_chunk * self.heads_per_cta())
    }

    /// The index of a chunk of a head.
    #[track_caller]
    fn unit(&self, chunk: Reg<u32>, head: Reg<u32>) -> Reg<u64> {
        (chunk * self.heads.values + head).convert()
    }
}

/// Zeros for the rows of K and Q past the end of a sequence: TMA has copied those of the next one,
/// which may be infinite or NaN. All threads make the call; a warp has a box.
#[device]
fn clear_rows(memory: Shared<bf16>, length: Reg<u32>, (warp, lane): (Reg<u32>, Reg<u32>)) {
    let own = memory.at(warp * SQUARE).cast::<u32>();
    for row in length..CHUNK {
        own.at(row * (CHUNK / 2) + lane).store(0u32);
    }
    fence_proxy_async_shared();
    sync_threads();
}

/// The sums of squares of 16 rows of two boxes, a warp's own: the diagonal of their product with
/// themselves. Lanes for which lane % 4 = lane / 8 have those of rows lane / 4 and lane / 4 + 8.
#[device]
fn squares(tile: Shared<bf16>, (warp, lane): (Reg<u32>, Reg<u32>)) -> [Reg<f32>; 2] {
    let atom = MmaAtom::named(ATOM).expect("an atom of sm_80");
    let mut products = [zeros::<f32, 4>(), zeros()];
    let row = warp * BLOCK + lane % 16;
    for k in 0..HEAD / BLOCK {
        let column = lane / 16 * 8 + k % 4 * BLOCK;
        let a: [Reg<u32>; 4] = ldmatrix(tile.at(swizzled(row, column) + k / 4 * SQUARE));
        // The same rows are operand B: those of each half of A.
        for (half, products) in products.iter_mut().enumerate() {
            mma_sync(products, &a, &[a[half], a[half + 2]], &atom);
        }
    }
    let is_odd = (lane / 4 % 2).eq(1);
    [0, 1].map(|half| is_odd.select(products[half][2 * half + 1], products[half][2 * half]))
}
