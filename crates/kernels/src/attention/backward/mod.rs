//! Attention's backward kernel on Hopper's tensor cores: dQ, dK and dV from dO.
//!
//! ```text
//! P = exp(S - lse)        dV = Pᵀ·dO
//! dP = dO·Vᵀ              dS = P (dP - delta), where delta is the sum of dO O of a row
//! dQ = dS·K               dK = dSᵀ·Q
//!
//! a CTA: 128 keys         K, V stay; Q and dO come in blocks of queries, with lse and delta
//! producer (1 thread)     TMA
//! consumers (2 warpgroups, 64 keys each)
//!     Sᵀ = K·Qᵀ, dPᵀ = V·dOᵀ       in registers, keys are the rows
//!     dV += Pᵀ·dO, dK += dSᵀ·Q     Pᵀ and dSᵀ are operand A from registers
//!     dQ = dS·K                    over all 128 keys: dSᵀ goes through shared memory; each warpgroup
//!                                  computes half of dQ, and adds it to f32 in global memory
//! ```
//!
//! Sᵀ of the next block is started before dQ and dK of this one: its exponentials run beside them.

mod rows;

use warpwright::arch::DataType;
use warpwright::layout::atom::{MmaAtom, Types};
use warpwright::layout::{ComposedLayout, Error, Layout};
use warpwright::prelude::*;

use super::forward::MaskBounds;
use super::problem::AttentionElement;
pub(crate) use rows::{FinishGradient, PrepareRows};

/// Keys of a consumer warpgroup: the rows of a `wgmma`.
const WARPGROUP_KEYS: u32 = 64;

/// Consumer warpgroups, and the keys of a CTA.
const CONSUMERS: u32 = 2;
pub(crate) const KEYS: u32 = CONSUMERS * WARPGROUP_KEYS;

/// The backward kernel for a head dimension and a kind of mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, DeviceValue)]
pub(crate) struct BackwardKernel {
    /// Elements of a head of Q and K, and of V and O.
    pub(crate) head_dim: u32,
    pub(crate) value_dim: u32,
    /// Queries of a block: 64 or 128.
    pub(crate) rows: u32,
    /// Blocks of Q, and of dO, in shared memory. Q is read again for dK, a block later.
    pub(crate) q_stages: u32,
    pub(crate) stages: u32,
    pub(crate) mask: MaskBounds,
}

/// What a launch computes.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct BackwardProblem {
    /// Queries and keys of a sequence.
    pub(crate) lengths: [Reg<u32>; 2],
    /// Heads of K and V, and heads of Q for each of them.
    pub(crate) heads: [Reg<u32>; 2],
    /// Keys that a query sees before and after its position.
    pub(crate) window: [Reg<u32>; 2],
    /// What scores are multiplied by.
    pub(crate) scale: Reg<f32>,
}

/// The atom that multiplies 64 rows of A by `columns` columns of B.
fn atom<T: AttentionElement>(columns: u32, a_from_shared: bool) -> Result<MmaAtom, Error> {
    let atom = MmaAtom::wgmma(columns, Types::new(T::DATA_TYPE, DataType::F32))?;
    Ok(MmaAtom { a_from_shared, ..atom })
}

/// A tile with its first two modes exchanged.
fn transposed(layout: &ComposedLayout) -> Result<ComposedLayout, Error> {
    layout.map_inner(|tile| Ok(Layout::of_modes([tile.mode(1)?, tile.mode(0)?, tile.mode(2)?])))
}

impl BackwardKernel {
    /// A block of Q: (query, d).
    pub(crate) fn q_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((self.rows, self.head_dim), Major::K)
    }

    /// A block of dO: (query, d).
    pub(crate) fn gradient_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((self.rows, self.value_dim), Major::K)
    }

    /// A block of lse or delta.
    pub(crate) fn row_tile(&self) -> Result<TmaTile, Error> {
        TmaTile::dense::<f32>((self.rows, 1), Major::Mn)
    }

    /// The CTA's K: (key, d).
    pub(crate) fn k_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.head_dim), Major::K)
    }

    /// The CTA's V: (key, d).
    pub(crate) fn v_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.value_dim), Major::K)
    }

    /// dSᵀ of a block: (key, query).
    fn scores_tile<T: AttentionElement>(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<T>((KEYS, self.rows), Major::K)
    }

    /// Whether P stays in f32 until dSᵀ is computed: there are registers for it.
    fn keeps_scores(&self) -> bool {
        self.rows == WARPGROUP_KEYS && !self.mask.right
    }

    /// The elements of dQ that a warpgroup computes of a block: half of d of 64 queries, or half of
    /// 128 queries.
    pub(crate) fn dq_columns(&self) -> u32 {
        if self.rows == WARPGROUP_KEYS { self.head_dim / CONSUMERS } else { self.head_dim }
    }
}

/// What a consumer multiplies.
struct Products {
    scores: TiledMma,
    dv: TiledMma,
    dk: TiledMma,
    dq: TiledMma,
    k: MatrixOperand,
    v: MatrixOperand,
    /// Q and dO as (query, d), and as (d, query).
    q: MatrixOperand,
    gradient: MatrixOperand,
    q_transposed: MatrixOperand,
    gradient_transposed: MatrixOperand,
    /// dS as (query, key), and the warpgroup's columns of K as (d, key).
    ds: MatrixOperand,
    k_transposed: MatrixOperand,
}

/// A thread's parts of Sᵀ, dPᵀ, Pᵀ, dSᵀ, dQ, dK and dV.
struct Registers<T> {
    scores: Fragment<f32>,
    dp: Fragment<f32>,
    weights: Fragment<T>,
    ds: Fragment<T>,
    dq: Fragment<f32>,
    dk: Fragment<f32>,
    dv: Fragment<f32>,
}

/// The consumer's ends of the pipelines of Q and dO.
#[derive(Clone, Copy, DeviceValue)]
struct Stages {
    q: Consumer,
    gradient: Consumer,
}

/// The blocks of queries of a unit: from `begin` to before `end`; those from `whole.0` to before
/// `whole.1` see all keys of the warpgroup.
#[derive(Clone, Copy, DeviceValue)]
struct Range {
    begin: Reg<u32>,
    end: Reg<u32>,
    whole: (Reg<u32>, Reg<u32>),
}

/// The row, 0 or 1, of element `i` of an accumulator.
fn row_of(i: u32) -> usize {
    (i / 2 % 2) as usize
}

/// The column of element `i`, but for the 2*(lane%4) of the thread.
fn column_of(i: u32) -> u32 {
    i / 4 * 8 + i % 2
}

#[device]
impl BackwardKernel {
    /// dK and dV, (batch, key, kv_head, d), and dQ added to zeros: (batch, head, block of queries),
    /// in each block in the order of the threads' registers, 4 of a thread next to each other.
    ///
    /// `lse` (in powers of two) and `delta` are (batch, head, query) of whole blocks.
    #[kernel]
    pub(crate) fn backward<T: AttentionElement>(
        &self,
        q: &TensorMap,
        k: &TensorMap,
        v: &TensorMap,
        gradient: &TensorMap,
        lse: &TensorMap,
        delta: &TensorMap,
        dq: &mut Global<f32>,
        dk: &mut Global<T>,
        dv: &mut Global<T>,
        problem: BackwardProblem,
    ) {
        let [producer, consumer] = roles([warpgroups(1).registers(24), warpgroups(CONSUMERS).registers(240)]);
        let alone = ClusterGrid::new((1, 1));
        let mut kv_stages = Pipeline::stages(1);
        let k_tiles = kv_stages.operand::<T>(self.k_tile::<T>());
        let v_tiles = kv_stages.operand::<T>(self.v_tile::<T>());
        let kv_pipeline = kv_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
        let mut q_stages = Pipeline::stages(self.q_stages);
        let q_tiles = q_stages.operand::<T>(self.q_tile::<T>());
        let lse_tiles = q_stages.operand::<f32>(self.row_tile());
        let q_pipeline = q_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
        let mut gradient_stages = Pipeline::stages(self.stages);
        let gradient_tiles = gradient_stages.operand::<T>(self.gradient_tile::<T>());
        let delta_tiles = gradient_stages.operand::<f32>(self.row_tile());
        let gradient_pipeline = gradient_stages.connect(consumer, ConsumerSchedule::Cooperative, alone);
        // Two: one is written while the products of the block before still read the other.
        let ds_tiles = StoreBuffers::<T>::new(self.scores_tile::<T>(), 2);
        launch::grid_dependency_wait();
        launch::grid_dependency_launch();

        // The unit: 128 keys of a head of K and V. Of a causal mask the first keys have most queries.
        let [queries, keys] = problem.lengths;
        let [kv_heads, group] = problem.heads;
        let blocks = keys.div_ceil(KEYS);
        let (first_key, matrix) = (block_idx().x % blocks * KEYS, block_idx().x / blocks);
        let (kv_head, sequence) = (matrix % kv_heads, matrix / kv_heads);
        let row_blocks = queries.div_ceil(self.rows);

        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut kv_stage = kv_pipeline.producer();
                let mut q_stage = q_pipeline.producer();
                let mut gradient_stage = gradient_pipeline.producer();
                let range = self.range(problem, first_key, first_key);
                let k = MappedMatrix::from(k).batch(kv_head).batch(sequence);
                let v = MappedMatrix::from(v).batch(kv_head).batch(sequence);
                kv_stage.load([
                    k_tiles.load(k, (first_key, constant(0)), None),
                    v_tiles.load(v, (first_key, constant(0)), None),
                ]);
                for number in 0..group {
                    let head = kv_head * group + number;
                    let q = MappedMatrix::from(q).batch(head).batch(sequence);
                    let gradient = MappedMatrix::from(gradient).batch(head).batch(sequence);
                    let line = sequence * kv_heads * group + head;
                    for block in range.begin..range.end {
                        let row = block * self.rows;
                        q_stage.load([
                            q_tiles.load(q, (row, constant(0)), None),
                            lse_tiles.load(lse, (row, line), None),
                        ]);
                        gradient_stage.load([
                            gradient_tiles.load(gradient, (row, constant(0)), None),
                            delta_tiles.load(delta, (row, line), None),
                        ]);
                    }
                }
                q_stage.tail();
                gradient_stage.tail();
            }
        } else {
            consumer.begin();
            let thread = consumer.thread();
            let warpgroup = consumer.warpgroup();
            let scores = TiledMma::warpgroups(atom::<T>(self.rows, true), CONSUMERS);
            let dv_mma = TiledMma::warpgroups(atom::<T>(self.value_dim, false), CONSUMERS);
            let dk_mma = TiledMma::warpgroups(atom::<T>(self.head_dim, false), CONSUMERS);
            let dq_warpgroups = self.rows / WARPGROUP_KEYS;
            let dq_mma = TiledMma::warpgroups(atom::<T>(self.dq_columns(), true), dq_warpgroups);
            let (dq_part, dq_rank) = match dq_warpgroups {
                1 => (thread % 128, constant(0u32)),
                _ => (thread, warpgroup),
            };
            let score_registers: Fragment<f32> = scores.thread(thread).c_fragment((KEYS, self.rows));
            let dp = match self.keeps_scores() {
                true => scores.thread(thread).c_fragment((KEYS, self.rows)),
                // The same registers: P is kept in 16 bits only.
                false => score_registers.clone(),
            };
            let mut registers = Registers::<T> {
                scores: score_registers,
                dp,
                weights: dv_mma.thread(thread).a_fragment((KEYS, self.rows)),
                ds: dk_mma.thread(thread).a_fragment((KEYS, self.rows)),
                dq: dq_mma.thread(dq_part).c_fragment((self.rows, self.dq_columns())),
                dk: dk_mma.thread(thread).c_fragment((KEYS, self.head_dim)),
                dv: dv_mma.thread(thread).c_fragment((KEYS, self.value_dim)),
            };
            let k_whole = k_tiles.tensor().map(transposed).slice((All, All, 0));
            // The halves of d, of which each warpgroup has one; or d, which both have.
            let halves = dq_mma.b_operand(&k_whole.local_tile((self.dq_columns(), KEYS), (All, 0)));
            let half = if dq_warpgroups == 1 { warpgroup } else { constant(0u32) };
            let products = Products {
                k: scores.a_operand(k_tiles.tensor(), warpgroup).slice((All, All, 0)),
                v: scores.a_operand(v_tiles.tensor(), warpgroup).slice((All, All, 0)),
                q: scores.b_operand(q_tiles.tensor()),
                gradient: scores.b_operand(gradient_tiles.tensor()),
                q_transposed: dk_mma.b_operand(&q_tiles.tensor().map(transposed)),
                gradient_transposed: dv_mma.b_operand(&gradient_tiles.tensor().map(transposed)),
                ds: dq_mma.a_operand(&ds_tiles.tensor().map(transposed), dq_rank),
                k_transposed: halves.slice((All, All, half)),
                scores,
                dv: dv_mma,
                dk: dk_mma,
                dq: dq_mma,
            };
            let mut stages = Stages { q: q_pipeline.consumer(), gradient: gradient_pipeline.consumer() };
            let mut kv_stage = kv_pipeline.consumer();
            registers.dk.clear();
            registers.dv.clear();
            let mine = Warpgroup {
                kernel: *self,
                role: consumer,
                products: &products,
                problem,
                first_key: first_key + warpgroup * WARPGROUP_KEYS,
                lse: lse_tiles.tensor(),
                delta: delta_tiles.tensor(),
                ds: ds_tiles.tensor(),
            };
            let range = self.range(problem, first_key, mine.first_key);
            kv_stage.wait();
            let first_block = (sequence * kv_heads + kv_head) * group * row_blocks;
            let dq = dq.at(first_block as u64 * u64::from(self.rows * self.head_dim));
            let left = (range.end - range.begin) * group;
            if left > 0u32 {
                let mut progress = mine.begin(range.begin, &mut registers, &mut stages);
                for number in 0..group {
                    let first = number * row_blocks;
                    let begin = range.begin + number.eq(0u32).to_u32();
                    let whole_begin = range.whole.0.max(begin);
                    let whole_end = range.whole.1.max(whole_begin);
                    for block in begin..whole_begin {
                        let block = (block, first + block);
                        mine.step(block, true, &mut registers, &mut stages, &mut progress, dq);
                    }
                    for block in whole_begin..whole_end {
                        let block = (block, first + block);
                        mine.step(block, false, &mut registers, &mut stages, &mut progress, dq);
                    }
                    for block in whole_end..range.end {
                        let block = (block, first + block);
                        mine.step(block, true, &mut registers, &mut stages, &mut progress, dq);
                    }
                }
                mine.start_key_products(&mut registers, &progress);
                wait_multiplications(1);
                mine.add_dq(&registers, progress.number, dq);
                wait_multiplications(0);
                stages.q.release();
            }
            kv_stage.release();
            let row = first_key + thread / 32 * 16 + thread % 32 / 4;
            let rows = [row, row + 8u32];
            for half in 0..2 {
                if rows[half] < keys {
                    let position = (sequence as u64 * keys as u64 + rows[half] as u64) * kv_heads as u64;
                    let row = position + kv_head as u64;
                    let column = (thread % 4 * 2) as u64;
                    let dk = dk.at(row * u64::from(self.head_dim) + column).cast::<u32>();
                    let dv = dv.at(row * u64::from(self.value_dim) + column).cast::<u32>();
                    for i in (0..registers.dk.len()).step_by(2).filter(|i| row_of(*i) == half) {
                        let [low, high] = [i, i + 1].map(|i| registers.dk.get(i) * problem.scale);
                        dk.at(column_of(i) / 2).store(T::pack(low, high));
                    }
                    for i in (0..registers.dv.len()).step_by(2).filter(|i| row_of(*i) == half) {
                        let word = T::pack(registers.dv.get(i), registers.dv.get(i + 1));
                        dv.at(column_of(i) / 2).store(word);
                    }
                }
            }
        }
    }

    /// The blocks of queries that see some key of the CTA, from `first_key` on, and all keys of a
    /// warpgroup, from `mine` on.
    fn range(&self, problem: BackwardProblem, first_key: Reg<u32>, mine: Reg<u32>) -> Range {
        let [queries, keys] = problem.lengths.map(|length| length as i32);
        let [left, right] = problem.window.map(|keys| keys as i32);
        let count = (queries as u32).div_ceil(self.rows);
        let (mut begin, mut end) = (constant(0u32), count);
        // A query sees the keys from its position - left to its position + right.
        let shift = keys - queries;
        let (mut whole_begin, mut whole_end) = (constant(0i32), queries);
        if self.mask.right {
            begin = ((first_key as i32 - right - shift).max(0) as u32 / self.rows).min(count);
            whole_begin = (mine as i32 + (WARPGROUP_KEYS as i32 - 1) - right - shift).max(0);
        }
        if self.mask.left {
            let last = first_key as i32 + (KEYS as i32 - 1);
            end = ((last.min(keys - 1) + left - shift + 1).max(0) as u32).div_ceil(self.rows).min(count);
            whole_end = (mine as i32 + left - shift + 1).clamp(0, queries);
        }
        end = end.max(begin);
        let whole_begin = (whole_begin as u32).div_ceil(self.rows).clamp(begin, end);
        // A block past the last query is whole too: the lse of what is not there is infinite. Keys
        // past the last are seen by nobody.
        let all = (whole_end as u32).eq(queries as u32).select(count, whole_end as u32 / self.rows);
        let whole_end = (mine + WARPGROUP_KEYS).le(keys as u32).select(all, 0u32).clamp(whole_begin, end);
        Range { begin, end, whole: (whole_begin, whole_end) }
    }
}

/// What a consumer knows.
struct Warpgroup<'k, T: AttentionElement> {
    kernel: BackwardKernel,
    role: Role,
    products: &'k Products,
    problem: BackwardProblem,
    /// The warpgroup's first key.
    first_key: Reg<u32>,
    lse: &'k Tensor<f32, SharedSpace>,
    delta: &'k Tensor<f32, SharedSpace>,
    ds: &'k Tensor<T, SharedSpace>,
}

/// The block of queries whose dSᵀ is there: its stage of Q, its buffer of dSᵀ, and its number.
#[derive(Clone, Copy, DeviceValue)]
struct Progress {
    stage: Stage,
    buffer: Reg<u32>,
    number: Reg<u32>,
}

#[device]
impl<T: AttentionElement> Warpgroup<'_, T> {
    /// dSᵀ and dV of the first block.
    fn begin(&self, block: Reg<u32>, registers: &mut Registers<T>, stages: &mut Stages) -> Progress {
        let stage = self.start_scores(registers, stages);
        wait_multiplications(0);
        self.mask(&mut registers.scores, block);
        self.weights(registers, stage);
        let buffer = constant(0u32);
        self.finish_scores(registers, stages, buffer, false);
        Progress { stage, buffer, number: block }
    }

    /// dQ and dK of the block before, dSᵀ and dV of a block: its number in its head, and in all.
    /// `masked`: some query does not see all keys of the warpgroup.
    fn step(
        &self,
        (block, number): (Reg<u32>, Reg<u32>),
        masked: bool,
        registers: &mut Registers<T>,
        stages: &mut Stages,
        progress: &mut Progress,
        dq: Global<f32>,
    ) {
        let stage = self.start_scores(registers, stages);
        self.start_key_products(registers, progress);
        wait_multiplications(2);
        if masked {
            self.mask(&mut registers.scores, block);
        }
        self.weights(registers, stage);
        wait_multiplications(1);
        self.add_dq(registers, progress.number, dq);
        let buffer = progress.buffer ^ 1u32;
        self.finish_scores(registers, stages, buffer, true);
        progress.stage = stage;
        progress.buffer = buffer;
        progress.number = number;
    }

    /// Starts Sᵀ of the next block.
    fn start_scores(&self, registers: &mut Registers<T>, stages: &mut Stages) -> Stage {
        let stage = stages.q.wait();
        let q = self.products.q.slice((All, All, stage));
        multiply(&self.products.scores, &mut registers.scores, &self.products.k, &q, Accumulate::No);
        stage
    }

    /// Starts dQ and dK of the block whose dSᵀ is there.
    fn start_key_products(&self, registers: &mut Registers<T>, progress: &Progress) {
        let products = self.products;
        let ds = products.ds.slice((All, All, progress.buffer));
        multiply(&products.dq, &mut registers.dq, &ds, &products.k_transposed, Accumulate::No);
        let q = products.q_transposed.slice((All, All, progress.stage));
        multiply(&products.dk, &mut registers.dk, &registers.ds, &q, Accumulate::Yes);
    }

    /// dPᵀ, dV and dSᵀ of the block whose P is there. `follows`: dK of the block before is in flight.
    fn finish_scores(
        &self,
        registers: &mut Registers<T>,
        stages: &mut Stages,
        buffer: Reg<u32>,
        follows: bool,
    ) {
        let (products, stage) = (self.products, stages.gradient.wait());
        let gradient = products.gradient.slice((All, All, stage));
        multiply(&products.scores, &mut registers.dp, &products.v, &gradient, Accumulate::No);
        let gradient = products.gradient_transposed.slice((All, All, stage));
        multiply(&products.dv, &mut registers.dv, &registers.weights, &gradient, Accumulate::Yes);
        wait_multiplications(1);
        if follows {
            stages.q.release();
        }
        self.score_gradients(registers, stage);
        let copy = TiledCopy::from_c::<T>("SM90_U32x4_STSM_N", &products.scores).thread(self.role.thread());
        let target = copy.target(&self.ds.slice((All, All, buffer)));
        let accumulator = registers.scores.layout().clone();
        copy.store_matrix(&target, &copy.retile(&registers.ds.map(|_| Ok(accumulator))));
        fence_proxy_async_shared();
        wait_multiplications(0);
        // dSᵀ of both warpgroups is there, both have read the other buffer, and all threads delta.
        NamedBarrier::new(7, CONSUMERS * 128).sync();
        stages.gradient.release();
    }

    /// Sᵀ becomes P, and that operand A of dV.
    fn weights(&self, registers: &mut Registers<T>, stage: Stage) {
        let (quad, scale) = (self.role.thread() % 4 * 2, self.problem.scale * std::f32::consts::LOG2_E);
        for i in (0..registers.scores.len()).step_by(4) {
            let lse = [0, 1].map(|j| self.lse.get((quad + column_of(i + j), 0, stage)));
            let weights = [0, 1, 2, 3].map(|j: u32| {
                let weight = fast::exp2(registers.scores.get(i + j) * scale - lse[(j % 2) as usize]);
                if self.kernel.keeps_scores() {
                    registers.scores.set(i + j, weight);
                }
                weight
            });
            registers.weights.set_word(i, T::pack(weights[0], weights[1]));
            registers.weights.set_word(i + 2, T::pack(weights[2], weights[3]));
        }
    }

    /// dSᵀ = P (dPᵀ - delta), as operand A of dK.
    fn score_gradients(&self, registers: &mut Registers<T>, stage: Stage) {
        let quad = self.role.thread() % 4 * 2;
        for i in (0..registers.dp.len()).step_by(4) {
            let delta = [0, 1].map(|j| self.delta.get((quad + column_of(i + j), 0, stage)));
            let weights = match self.kernel.keeps_scores() {
                true => [0, 1, 2, 3].map(|j: u32| registers.scores.get(i + j)),
                false => {
                    let [first, second] = [0, 2].map(|j: u32| T::unpack(registers.weights.get_word(i + j)));
                    [first[0], first[1], second[0], second[1]]
                }
            };
            let ds = [0, 1, 2, 3]
                .map(|j: u32| weights[j as usize] * (registers.dp.get(i + j) - delta[(j % 2) as usize]));
            registers.ds.set_word(i, T::pack(ds[0], ds[1]));
            registers.ds.set_word(i + 2, T::pack(ds[2], ds[3]));
        }
    }

    /// Adds the warpgroup's part of a block of dQ.
    fn add_dq(&self, registers: &Registers<T>, number: Reg<u32>, dq: Global<f32>) {
        let block = u64::from(self.kernel.rows * self.kernel.head_dim);
        let target = dq.at(number as u64 * block).at(self.role.thread() * 4u32);
        for i in (0..registers.dq.len()).step_by(4) {
            let values = [0, 1, 2, 3].map(|j: u32| registers.dq.get(i + j));
            target.at(i * (CONSUMERS * 128)).reduce_add_vector(values, Atomicity::default());
        }
    }

    /// Minus infinity for the scores of pairs of a query and a key that it does not see.
    fn mask(&self, scores: &mut Fragment<f32>, block: Reg<u32>) {
        let thread = self.role.thread();
        let [queries, keys] = self.problem.lengths.map(|length| length as i32);
        let [left, right] = self.problem.window.map(|keys| keys as i32);
        let first = (self.first_key + thread % 128 / 32 * 16 + thread % 32 / 4) as i32;
        let key = [first, first + 8];
        let position = (block * self.kernel.rows + thread % 4 * 2) as i32 + (keys - queries);
        for i in 0..scores.len() {
            let (key, position) = (key[row_of(i)], position + column_of(i) as i32);
            let mut sees = key.lt(keys);
            if self.kernel.mask.right {
                sees &= key.le(position + right);
            }
            if self.kernel.mask.left {
                sees &= key.ge(position - left);
            }
            scores.set(i, sees.select(scores.get(i), f32::NEG_INFINITY));
        }
    }
}
