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
//! CTAs are persistent and leave other SMs to the recurrence, which runs beside them: a warpgroup
//! computes one chunk after another, and publishes each.

use warpwright::layout::atom::MmaAtom;
use warpwright::prelude::*;

use super::chunk::{
    ATOM, BOXES, Columns, FACTORS, Factor, SQUARE, first_chunk, key_tile, load_boxes, pair, square_tile,
    swizzled, tiles, zeros,
};
use super::gates::GateInputs;
use super::triangular_inverse::{BLOCK, PITCH, ROW_WORDS, TriangularInverse};
use crate::delta_rule::problem::{CHUNK, EPSILON, HEAD, Heads};

/// Warpgroups of a CTA, each with chunks of its own: an SM has registers for 4, of 128 a thread.
const WARPGROUPS: u32 = 4;
/// Threads of a warpgroup.
const THREADS: u32 = 128;
/// Elements of A of a head, in bf16.
const COUPLINGS: u32 = 2 * CHUNK * PITCH;

/// The kernel. A warpgroup computes units: a chunk of one or two value heads that share a key head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkFactors {
    /// The heads.
    pub heads: Heads,
    /// CTAs of the recurrence that read a head's chunk.
    pub readers: u32,
}

/// A chunk of a sequence.
#[derive(Clone, Copy, DeviceValue)]
struct Chunk {
    /// Its index among the chunks of all sequences.
    index: Reg<u32>,
    /// Its first token.
    token: Reg<u32>,
    /// Its tokens: 1 to 64.
    length: Reg<u32>,
}

/// The shared memory of a warpgroup.
struct Memory {
    /// Keys, then queries. When they have been read: A of the heads, then their T - I.
    operands: Shared<bf16>,
    scores: Shared<bf16>,
    tokens: Tokens,
    /// The sums of the log-decays of 32 tokens, by warp.
    halves: Shared<f32>,
    loaded: Mbarrier,
}

/// Where the results go.
#[derive(Clone, Copy)]
struct Results {
    inverses: Global<bf16>,
    scores: Global<bf16>,
    factors: Global<f32>,
}

impl ChunkFactors {
    /// `qkv` is (tokens, [`Heads::columns`]); `a` and `b` are (tokens, value heads); `a_log` and
    /// `dt_bias` are (value heads). Sequence i has the tokens from `sequence_starts[i]` to
    /// `sequence_starts[i + 1]`. `inverses` and `scores` are (chunks, value heads, 64, 64), as
    /// tiles in shared memory are; `factors` is (chunks, value heads, [`FACTORS`]). `published` is
    /// (units): the readers that a unit still has, 0 before it is complete.
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
        published: &mut Global<u32>,
        units: u32,
        sequences: u32,
    ) {
        let [role] = roles([warpgroups(WARPGROUPS)]);
        qkv.boxes(square_tile());
        let (warpgroup, thread) = (role.warpgroup(), thread_idx().x % THREADS);
        let memory = self.memory(warpgroup);
        if thread == 0 {
            memory.loaded.init(1);
            fence_mbarrier_init();
        }
        // The recurrence begins after the wait, because it reads what the predecessor wrote, too.
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();
        role.sync_warpgroup();

        let to = Results { inverses: *inverses, scores: *scores, factors: *factors };
        let (first, all) = (block_idx().x + grid_dim().x * warpgroup, grid_dim().x * WARPGROUPS);
        let per_chunk = self.heads.values / self.heads.per_unit();
        let mut phase = constant(0u32);
        // One more than the unit whose copies to global memory may be in flight.
        let mut stored = constant(0u32);
        let chunk_of =
            |unit: Reg<u32>| Chunk::at(unit.min(units - 1) / per_chunk, *sequence_starts, sequences);
        let mut chunk = chunk_of(first);
        for round in 0..(units + (all - 1) - first) / all {
            let unit = first + round * all;
            let head = unit % per_chunk * self.heads.per_unit();
            let mut next = chunk;
            if chunk.length > 0 {
                if thread == 0 {
                    self.load(qkv, (head, chunk.token), &memory);
                }
                // The inputs of the gates of a thread's own head and token arrive during the products.
                let (own, token) = (thread / CHUNK, thread % CHUNK);
                let (token, own) = (token.min(chunk.length - 1), own.min(self.heads.per_unit() - 1));
                let at = (chunk.token + token, head + own, self.heads.values);
                let gates = GateInputs::load((*a, *b), (*a_log, *dt_bias), at);
                if thread == 0 {
                    self.publish(*published, stored);
                }
                next = chunk_of(unit + all);
                memory.loaded.wait_parity(phase);
                phase = phase ^ 1;
                self.factor((chunk, head), gates, (role, thread), &memory, to);
                stored = chunk.index * per_chunk + unit % per_chunk + 1;
            } else {
                next = chunk_of(unit + all);
            }
            chunk = next;
        }
        if thread == 0 {
            self.publish(*published, stored);
        }
    }

    /// The units of `chunks` chunks.
    pub fn units(&self, chunks: u32) -> u64 {
        u64::from(chunks) * u64::from(self.heads.values / self.heads.per_unit())
    }

    /// The shared memory of a warpgroup.
    #[track_caller]
    fn memory(&self, warpgroup: Reg<u32>) -> Memory {
        let allocate =
            |length: u32| dynamic_shared_aligned::<bf16>(WARPGROUPS * length, 1024).at(warpgroup * length);
        Memory {
            operands: allocate(2 * COUPLINGS),
            scores: allocate(self.heads.per_unit() * SQUARE),
            tokens: Tokens::shared(self.heads.per_unit(), warpgroup),
            halves: shared_array::<f32>(WARPGROUPS * 4).at(warpgroup * 4),
            loaded: Mbarriers::new(WARPGROUPS).at(warpgroup),
        }
    }
}

#[device]
impl ChunkFactors {
    /// Starts the copies of a chunk's keys and queries. Called by one thread.
    fn load(&self, qkv: &TensorMap, (head, token): (Reg<u32>, Reg<u32>), memory: &Memory) {
        let columns = Columns::of(self.heads, head);
        memory.loaded.arrive_and_expect(2 * BOXES * SQUARE * 2);
        load_boxes(qkv, (columns.k, token), BOXES, memory.operands, memory.loaded);
        load_boxes(qkv, (columns.q, token), BOXES, memory.operands.at(BOXES * SQUARE), memory.loaded);
    }

    /// Publishes the unit before `stored`, if it is not 0, when its copies to global memory are
    /// complete. Called by the thread that started them.
    fn publish(&self, published: Global<u32>, stored: Reg<u32>) {
        if stored > 0 {
            bulk_wait(0);
            let release = Access::new().ordered(AccessOrdering::Release(Scope::Device));
            published.at(stored - 1).store_with(self.readers * self.heads.per_unit(), release);
        }
    }

    /// T, P and the factors of a unit whose keys and queries are in shared memory. Called by a
    /// warpgroup, whose first thread may then overwrite what was loaded.
    fn factor(
        &self,
        (chunk, head): (Chunk, Reg<u32>),
        gate_inputs: GateInputs,
        (role, thread): (Role, Reg<u32>),
        memory: &Memory,
        to: Results,
    ) {
        let per_unit = self.heads.per_unit();
        let (warp, lane) = (thread / 32, thread % 32);
        let (own, token) = (thread / CHUNK, thread % CHUNK);
        let Memory { operands, tokens, halves, .. } = memory;
        let unit_of = |head: Reg<u32>| (chunk.index * self.heads.values + head).convert::<u64>();
        if chunk.length < CHUNK {
            clear_rows(*operands, chunk.length, (warp, lane));
            role.sync_warpgroup();
        }
        let (k_tile, q_tile) =
            (tiles(*operands, key_tile(), 1), tiles(operands.at(BOXES * SQUARE), key_tile(), 1));
        let mma = TiledMma::warpgroups("SM90_64x64x16_F32BF16BF16_SS", 1);
        let mut key_key: Fragment<f32> = mma.thread(thread).c_fragment((CHUNK, CHUNK));
        let mut query_key: Fragment<f32> = mma.thread(thread).c_fragment((CHUNK, CHUNK));
        let k = mma.b_operand(&k_tile).slice((All, All, 0));
        let k_rows = mma.a_operand(&k_tile, constant(0u32)).slice((All, All, 0));
        let q_rows = mma.a_operand(&q_tile, constant(0u32)).slice((All, All, 0));
        multiply(&mma, &mut key_key, &k_rows, &k, Accumulate::No);
        multiply(&mma, &mut query_key, &q_rows, &k, Accumulate::No);

        for (which, scale) in [(0, 1.0), (1, 1.0 / (HEAD as f32).sqrt())] {
            let sums = squares(operands.at(which * (BOXES * SQUARE)), (warp, lane));
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
        let warp_sum = warp::inclusive_scan(log_decay, |a, b| a + b);
        if lane == 31 {
            halves.at(warp).store(warp_sum);
        }
        role.sync_warpgroup();
        if own < per_unit {
            let own_halves = halves.at(own * 2).load_vector::<2>();
            let sum = warp_sum + token.ge(32).select(own_halves[0], 0f32);
            let last = own_halves[0] + own_halves[1];
            let (key_norm, query_norm) = (tokens.norms[token], tokens.norms[token + CHUNK]);
            tokens.sums.at(thread).store(sum);
            tokens.columns.at(thread).store(sum - key_norm.log2());
            tokens.keys.at(thread).store(beta * key_norm);
            let factors = to.factors.at(unit_of(head + own) * u64::from(FACTORS)).at(token);
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
        role.sync_warpgroup();
        let couplings = operands.cast::<f32>();
        tokens.decay((&key_key, &query_key), (warp, lane), couplings, memory.scores);
        fence_proxy_async_shared();
        role.sync_warpgroup();
        let store = |to: Global<bf16>, from: Shared<bf16>, pitch: u32| {
            if thread == 0 {
                for h in 0..per_unit {
                    let at = unit_of(head + h) * u64::from(SQUARE);
                    bulk::store(to.at(at), SQUARE, from.at(h * pitch));
                }
                bulk_commit();
            }
        };
        store(to.scores, memory.scores, SQUARE);

        let inverse = TriangularInverse { matrix: couplings.at(own * (CHUNK * PITCH)), thread: token };
        if own < per_unit {
            inverse.invert_diagonal();
        }
        role.sync_warpgroup();
        if own < per_unit {
            inverse.invert_below();
        }
        role.sync_warpgroup();
        // Every row has been read when the first is overwritten.
        let mut row = zeros::<u32, ROW_WORDS>().to_vec();
        if own < per_unit {
            row = inverse.row();
        }
        role.sync_warpgroup();
        if own < per_unit {
            inverse.store_row(&row, operands.at(own * COUPLINGS));
        }
        fence_proxy_async_shared();
        role.sync_warpgroup();
        store(to.inverses, *operands, COUPLINGS);
        if thread == 0 {
            bulk_wait_read(0);
        }
    }
}

#[device]
impl Chunk {
    /// The `turn`-th chunk to be computed; of no length if there is none. All lanes make the call.
    ///
    /// Two sequences take turns until one ends, so that the recurrence of one does not wait for all
    /// chunks of the other.
    fn at(turn: Reg<u32>, sequence_starts: Global<u32>, sequences: Reg<u32>) -> Self {
        // The sequences whose first chunk is this one or before it: the last of them is of the pair.
        let first_of = |sequence: Reg<u32>| first_chunk(sequence_starts[sequence], sequence);
        let mut begun = constant(0u32);
        for first in (0..sequences).step_by(32) {
            let sequence = first + lane_id();
            let mut is_before = constant(false);
            if sequence < sequences {
                is_before = first_of(sequence).le(turn);
            }
            begun += ballot(is_before, ALL_LANES).count_ones();
        }
        let pair = (begun - 1) / 2 * 2;
        let [first, second, end] = [0, 1, 2].map(|at| first_of((pair + at).min(sequences)));
        let of_each = (second - first).min(end - second);
        let (turn, is_shared) = (turn - first, (turn - first).lt(2 * of_each));
        let longer = (second - first).lt(end - second).select(1u32, 0u32);
        let sequence = pair + is_shared.select(turn % 2, longer);
        let chunk = is_shared.select(turn / 2, turn - of_each);
        let (start, end) = (sequence_starts[sequence], sequence_starts[sequence + 1]);
        let token = (start + chunk * CHUNK).min(end);
        Self { index: first_chunk(start, sequence) + chunk, token, length: (end - token).min(CHUNK) }
    }
}

/// What the elements of A and P are made of, in shared memory: (heads, 64), or (2, 64).
struct Tokens {
    /// The sum of log-decays up to the token, to base 2.
    sums: Shared<f32>,
    /// The same less the logarithm of 1 / |k|: 2^(sum i - column j) is the decay from j to i and a
    /// norm.
    columns: Shared<f32>,
    /// β / |k|.
    keys: Shared<f32>,
    /// 1 / |k| of the 64 tokens, then 1 / |q| / sqrt(128).
    norms: Shared<f32>,
    heads: u32,
}

#[device]
impl Tokens {
    fn shared(heads: u32, warpgroup: Reg<u32>) -> Self {
        let of_tokens = |rows: u32| shared_array(WARPGROUPS * rows * CHUNK).at(warpgroup * (rows * CHUNK));
        let of_heads = || of_tokens(heads);
        Self { sums: of_heads(), columns: of_heads(), keys: of_heads(), norms: of_tokens(2), heads }
    }

    /// Writes A of the heads to `couplings`, and P to `scores`: the products with their norms, β, and
    /// the decay from token j (a column) to token i (a row). A warp has 16 rows. Of A, blocks of 32 x
    /// 32 above the diagonal are not written.
    fn decay(
        &self,
        (key_key, query_key): (&Fragment<f32>, &Fragment<f32>),
        (warp, lane): (Reg<u32>, Reg<u32>),
        couplings: Shared<f32>,
        scores: Shared<bf16>,
    ) {
        let first_row = warp * BLOCK + lane / 4;
        let rows = [first_row, first_row + 8];
        let queries = rows.map(|i| self.norms[i + CHUNK]);
        let of_rows = |from: Shared<f32>| -> Vec<[Reg<f32>; 2]> {
            (0..self.heads).map(|h| rows.map(|i| from[i + h * CHUNK])).collect()
        };
        let (sums, keys) = (of_rows(self.sums), of_rows(self.keys));
        // Row and column of the matrix that this lane gives the address of.
        let at = (warp * BLOCK + lane % 16, lane / 16 * 8);
        for block in 0..CHUNK / BLOCK {
            let mut words: Vec<_> = (0..self.heads).map(|_| zeros::<u32, 4>()).collect();
            if warp.ge(block / 2 * 2) {
                for (part, h) in (0..4).flat_map(|part| (0..self.heads).map(move |h| (part, h))) {
                    let (half, row) = (part / 2, part as usize % 2);
                    let j = lane % 4 * 2 + (block * BLOCK + half * 8);
                    let columns = self.columns.at(j + h * CHUNK).load_vector::<2>();
                    let head = h as usize;
                    let mut coupled = vec![];
                    let mut weights = vec![];
                    for (e, column) in columns.into_iter().enumerate() {
                        let element = 4 * (2 * block + half) + 2 * row as u32 + e as u32;
                        let (i, j) = (rows[row], j + e as u32);
                        let decay = fast::exp2(sums[head][row] - column);
                        let weight = query_key.get(element) * (queries[row] * decay);
                        let coupling = key_key.get(element) * (keys[head][row] * decay);
                        weights.push(j.le(i).select(weight, 0f32));
                        coupled.push(j.lt(i).select(coupling, 0f32));
                    }
                    words[head][part as usize] = pair(weights[0], weights[1]);
                    let to = couplings.at(rows[row] * PITCH + j + h * (CHUNK * PITCH));
                    to.store_vector([coupled[0], coupled[1]]);
                }
            }
            for (h, words) in (0..self.heads).zip(words) {
                let to = swizzled(at.0, at.1 + block * BLOCK) + h * SQUARE;
                stmatrix(scores.at(to), words);
            }
        }
    }
}

/// Zeros for the rows of K and Q past the end of a sequence: TMA has copied those of the next one,
/// which may be infinite or NaN. A warp has a box; the warpgroup synchronizes afterwards.
#[device]
fn clear_rows(memory: Shared<bf16>, length: Reg<u32>, (warp, lane): (Reg<u32>, Reg<u32>)) {
    let own = memory.at(warp * SQUARE).cast::<u32>();
    for row in length..CHUNK {
        own.at(row * (CHUNK / 2) + lane).store(0u32);
    }
    fence_proxy_async_shared();
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
