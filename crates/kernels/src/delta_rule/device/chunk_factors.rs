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
//! This kernel computes T - I and P in bf16, and the factors of the tokens in f32. The usual form
//! (WY) also multiplies T by V and by K here; this one leaves both to the next kernel, which then
//! reads 17 KiB per chunk and head in place of 48, and rounds V - e^G K S after the subtraction.
//!
//! K·Kᵀ and Q·Kᵀ are products of the tensor cores over keys as they are in memory: exact products of
//! bf16, summed in f32. Norms, β and decays are factors of the sums. `triangular_inverse` computes T.
//!
//! Estimate for an H200, a CTA of two value heads: 512 cycles of exponentials, 600 of instructions
//! that scale the products, 1,200 of shared memory for the inverse, on three CTAs of an SM at a
//! time: about 1 us, 16 us for 8,192 tokens and 32 value heads. The bytes (67 MB read, 73 MB
//! written) take 33 us from and to DRAM, less from L2. CTAs of the heads of a chunk follow one
//! another, so that rows of queries and keys are read whole.

use warpwright::prelude::*;

use super::chunk::{
    BOXES, Columns, FACTORS, Factor, SQUARE, first_chunk, key_tile, load_boxes, pair, square_tile, tiles,
};
use super::gates::Gates;
use super::triangular_inverse::{PITCH, TriangularInverse};
use crate::delta_rule::problem::{CHUNK, EPSILON, HEAD, Heads};
use crate::rows::RowElement;

/// The threads of a CTA: a warpgroup.
const THREADS: u32 = 128;

/// The kernel. A CTA computes a chunk of one or two value heads that share a key head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkFactors {
    /// The heads.
    pub heads: Heads,
}

/// A chunk of a sequence.
#[derive(Clone, Copy, DeviceValue)]
struct Chunk {
    /// Its first token.
    token: Reg<u32>,
    /// Its tokens: 1 to 64.
    length: Reg<u32>,
}

impl ChunkFactors {
    /// Value heads of a CTA.
    pub fn heads_per_cta(&self) -> u32 {
        if self.heads.values_per_key().is_multiple_of(2) { 2 } else { 1 }
    }

    /// `qkv` is (tokens, [`Heads::columns`]); `a` and `b` are (tokens, value heads); `a_log` and
    /// `dt_bias` are (value heads). Sequence i has the tokens from `sequence_starts[i]` to
    /// `sequence_starts[i + 1]`. `inverses` and `scores` are (chunks, value heads, 64, 64), as
    /// tiles in shared memory are; `factors` is (chunks, value heads, [`FACTORS`]).
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
        sequences: u32,
    ) {
        launch::threads(THREADS);
        let per_cta = self.heads_per_cta();
        qkv.boxes(square_tile());
        // Keys, then queries. The heads' matrices take their memory once they have been read.
        let memory = dynamic_shared_aligned::<bf16>(2 * BOXES * SQUARE, 1024);
        let q_memory = memory.at(BOXES * SQUARE);
        let (k_tile, q_tile) = (tiles(memory, key_tile(), 1), tiles(q_memory, key_tile(), 1));
        let score_tiles = tiles(q_memory, square_tile(), per_cta);
        let couplings = dynamic_shared_aligned::<f32>(per_cta * CHUNK * PITCH, 16);
        let tokens = Tokens::shared(per_cta);
        let loaded = Mbarrier::new();

        launch::grid_dependency_launch();
        launch::grid_dependency_wait();
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

        // A thread's own head and token: its gates, and the sum of the log-decays up to it.
        let (own, token) = (thread / CHUNK, thread % CHUNK);
        let (mut log_decay, mut beta) = (constant(0f32), constant(0f32));
        if own < per_cta && token < chunk.length {
            let at = (chunk.token + token, head + own, self.heads.values);
            let gates = Gates::load((*a, *b), (*a_log, *dt_bias), at);
            log_decay = gates.log_decay * std::f32::consts::LOG2_E;
            beta = gates.beta;
        }
        let halves = shared_array::<f32>(THREADS / 32);
        let warp_sum = warp::inclusive_scan(log_decay, |a, b| a + b);
        if thread % 32 == 31 {
            halves[thread / 32] = warp_sum;
        }
        sync_threads();
        let own_halves = halves.at(own * 2).load_vector::<2>();
        let sum = warp_sum + token.ge(32).select(own_halves[0], 0f32);
        let last = own_halves[0] + own_halves[1];

        loaded.wait_parity(0);
        let mma = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_SS", 1);
        let mut key_key: Fragment<f32> = mma.thread(thread).c_fragment((CHUNK, CHUNK));
        let mut query_key: Fragment<f32> = mma.thread(thread).c_fragment((CHUNK, CHUNK));
        let k = mma.b_operand(&k_tile).slice((All, All, 0));
        let k_rows = mma.a_operand(&k_tile, constant(0u32)).slice((All, All, 0));
        let q_rows = mma.a_operand(&q_tile, constant(0u32)).slice((All, All, 0));
        multiply(&mma, &mut key_key, &k_rows, &k, Accumulate::No);
        multiply(&mma, &mut query_key, &q_rows, &k, Accumulate::No);

        // Half of the threads have a row of K each, the others one of Q.
        let root = (squares(memory.at(own * (BOXES * SQUARE)), token) + EPSILON).rsqrt();
        let scale = own.eq(0).select(1f32, 1.0 / (HEAD as f32).sqrt());
        tokens.norms[thread] = token.lt(chunk.length).select(root * scale, 0f32);
        if own < per_cta {
            tokens.sums[thread] = sum;
            tokens.betas[thread] = beta;
        }
        wait_multiplications(0);
        sync_threads();

        if own < per_cta {
            let (key_norm, query_norm) = (tokens.norms[token], tokens.norms[token + CHUNK]);
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

        let positions = mma.thread(thread).c_coordinates((CHUNK, CHUNK));
        for h in 0..per_cta {
            let weights = tokens.decay(
                (&key_key, &query_key),
                (&positions, h),
                chunk.length,
                couplings.at(h * (CHUNK * PITCH)),
            );
            let copy = TiledCopy::from_c::<bf16>("SM90_U32x4_STSM_N", &mma).thread(thread);
            let target = copy.target(&score_tiles.slice((All, All, h)));
            copy.store_matrix(&target, &copy.retile(&weights));
        }
        sync_threads();

        let inverse = TriangularInverse {
            matrix: couplings.at(own * (CHUNK * PITCH)),
            result: memory.at(own * SQUARE),
            thread: token,
        };
        if own < per_cta {
            inverse.invert_blocks();
        }
        for size in [16, 32] {
            sync_threads();
            if own < per_cta {
                inverse.combine(size);
            }
        }
        fence_proxy_async_shared();
        sync_threads();
        if thread == 0 {
            for h in 0..per_cta {
                let at = self.unit(chunk_index, head + h) * u64::from(SQUARE);
                bulk::store(inverses.at(at), SQUARE, memory.at(h * SQUARE));
                bulk::store(scores.at(at), SQUARE, q_memory.at(h * SQUARE));
            }
            bulk_commit();
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

#[device]
impl Chunk {
    /// That of index `chunk`; of no length if there is none. All threads make the call.
    fn at(chunk: Reg<u32>, sequence_starts: Global<u32>, sequences: Reg<u32>) -> Self {
        // The sequences that begin at this chunk or before it: the last of them has it.
        let mut begun = constant(0u32);
        for first in (0..sequences).step_by(THREADS) {
            let sequence = first + thread_idx().x;
            let mut is_before = constant(false);
            if sequence < sequences {
                is_before = first_chunk(sequence_starts[sequence], sequence).le(chunk);
            }
            begun += sync_threads_count(is_before);
        }
        let sequence = begun - 1;
        let (start, end) = (sequence_starts[sequence], sequence_starts[sequence + 1]);
        let token = (start + (chunk - first_chunk(start, sequence)) * CHUNK).min(end);
        Self { token, length: (end - token).min(CHUNK) }
    }
}

/// What the elements of A and P are made of, in shared memory.
struct Tokens {
    /// (heads, 64): sums of log-decays up to the token, to base 2.
    sums: Shared<f32>,
    /// (heads, 64): β.
    betas: Shared<f32>,
    /// 1 / |k| of the 64 tokens, then 1 / |q| / sqrt(128).
    norms: Shared<f32>,
}

#[device]
impl Tokens {
    fn shared(heads: u32) -> Self {
        Self {
            sums: shared_array(heads * CHUNK),
            betas: shared_array(heads * CHUNK),
            norms: shared_array(2 * CHUNK),
        }
    }

    /// Writes A of head `h` to `couplings`, and returns P: the products with their norms, β, and
    /// the decay from token j (a column) to token i (a row).
    fn decay(
        &self,
        (key_key, query_key): (&Fragment<f32>, &Fragment<f32>),
        (positions, h): (&Coordinates, u32),
        length: Reg<u32>,
        couplings: Shared<f32>,
    ) -> Fragment<bf16> {
        let (sums, betas) = (self.sums.at(h * CHUNK), self.betas.at(h * CHUNK));
        let columns: Vec<_> = (0..key_key.len() / 4)
            .map(|block| {
                let j = positions.column(4 * block);
                (j, sums.at(j).load_vector::<2>(), self.norms.at(j).load_vector::<2>())
            })
            .collect();
        let mut weights = Fragment::like(key_key.layout());
        for row in 0..2 {
            let i = positions.row(2 * row);
            let exists = i.lt(length);
            let (before, upto) = (exists.select(i, 0u32), exists.select(i + 1, 0u32));
            let (sum, key, query) = (sums[i], self.norms[i] * betas[i], self.norms[i + CHUNK]);
            for (block, (j, column_sums, column_norms)) in columns.iter().enumerate() {
                let first = 4 * block as u32 + 2 * row;
                let mut coupled = vec![];
                for (e, (column_sum, norm)) in column_sums.iter().zip(column_norms).enumerate() {
                    let (at, j) = (first + e as u32, *j + e as u32);
                    let decay = fast::exp2(sum - *column_sum) * *norm;
                    let weight = query_key.get(at) * query * decay;
                    coupled.push(j.lt(before).select(key_key.get(at) * key * decay, 0f32));
                    weights.set(at, j.lt(upto).select(weight, 0f32));
                }
                couplings.at(i * PITCH + *j).store_vector([coupled[0], coupled[1]]);
            }
        }
        weights.packed::<bf16>(pair)
    }
}

/// The sum of squares of a row of two boxes: 16 bytes at a time, in an order in which 8 rows are in
/// different banks.
#[device]
fn squares(tile: Shared<bf16>, row: Reg<u32>) -> Reg<f32> {
    let mut sums = [constant(0f32); 4];
    for piece in 0..2 * CHUNK / 8 {
        let at = ((row % 8) ^ (piece % 8)) * 8u32 + row * CHUNK + piece / 8 * SQUARE;
        let words = tile.at(at).cast::<u32>().load_vector::<4>();
        for (sum, word) in sums.iter_mut().zip(words) {
            for x in bf16::widen(word) {
                *sum = x.mul_add(x, *sum);
            }
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}
