//! The kernel: a row for each cluster.
//!
//! ```text
//! load       the row, once, as keys in shared memory
//! bound      a lower bound of the k-th key, from the highest key of each thread
//! candidates the keys from the bound on, sorted by one CTA: top-k of few tokens ends here
//! search     else: each filter, and the token, by eight bits of a key at a time over the whole cluster
//! ```

use warpwright::prelude::*;

use super::candidates::Candidates;
use super::histogram::Histogram;
use super::mass::{INFINITY, Masses, NEGATIVE_INFINITY, key_of, logit_of, random_bits};
use super::search::{KeyMemory, Keys, KeysOfLogits, StoredKeys, add_where};
use super::segments::Segments;
use super::team::Team;
use crate::rows::{Chunk, RowElement};
use crate::sampling::problem::NO_TOKEN;
use crate::vector;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sample {
    /// Tokens of the vocabulary.
    pub(crate) vocabulary: u32,
    /// CTAs of a row: a cluster.
    pub(crate) ctas: u32,
    /// Threads of a CTA.
    pub(crate) threads: u32,
    /// Elements of a vector.
    pub(crate) lanes: u32,
    pub(crate) residency: Residency,
    /// Tiles of a row that is streamed that are in flight.
    pub(crate) stages: u32,
    pub(crate) has_history: bool,
    pub(crate) has_log_probabilities: bool,
}

/// Where the keys of a row are after it was read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Residency {
    /// In shared memory.
    Shared,
    /// In a workspace.
    Workspace,
    /// Nowhere: the few keys that top-k may keep are collected while one CTA reads the row, and
    /// other searches read the row again. There is no history.
    Streamed,
}

/// What the kernel reads beside the logits.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct SampleInputs {
    /// (rows, words).
    parameters: Global<u32>,
    /// (rows, capacity): tokens and counts.
    history: Global<u32>,
    counts: Global<u32>,
    capacity: Reg<u32>,
}

/// Vectors that a thread loads at once: 64 KiB of a CTA of 512 threads are in flight.
const AT_ONCE: u32 = 8;

/// The parameters of a row.
#[derive(Clone, Copy, DeviceValue)]
struct Row {
    temperature: Reg<f32>,
    top_k: Reg<u32>,
    top_p: Reg<f32>,
    min_p: Reg<f32>,
    /// Of repetition, frequency and presence.
    penalties: [Reg<f32>; 3],
    history: Reg<u32>,
    seed: [Reg<u32>; 2],
    position: [Reg<u32>; 2],
}

impl Row {
    #[track_caller]
    fn load(from: Global<u32>) -> Self {
        let words: Vec<Reg<u32>> =
            (0..3).flat_map(|part| vector::load_lanes(from.at(4 * part), 4, vector::read_once())).collect();
        let float = |index: usize| words[index].bit_cast::<f32>();
        Self {
            temperature: float(0),
            top_k: words[1],
            top_p: float(2),
            min_p: float(3),
            penalties: [float(4), float(5), float(6)],
            history: words[7],
            seed: [words[8], words[9]],
            position: [words[10], words[11]],
        }
    }

    /// Whether top-p drops anything.
    #[track_caller]
    fn has_top_p(&self) -> Reg<bool> {
        self.top_p.ge(0f32) & self.top_p.lt(1f32)
    }

    /// The mass that the tokens that top-p keeps have at least, of `total`.
    #[track_caller]
    fn target(&self, total: Reg<u64>) -> Reg<u64> {
        let part = (self.top_p * (1u64 << 32) as f32).convert::<u64>();
        self.has_top_p().select(total.mul_hi(part << 32u32).max(1u64), total)
    }

    /// The random number below `total`.
    #[track_caller]
    fn point(&self, total: Reg<u64>) -> Reg<u64> {
        total.mul_hi(random_bits(self.seed, self.position))
    }
}

impl Sample {
    /// Vectors of each thread.
    fn steps(&self) -> u32 {
        (self.vocabulary / self.lanes).div_ceil(self.ctas * self.threads)
    }

    /// Keys of a CTA.
    pub(crate) fn keys(&self) -> u32 {
        self.steps() * self.threads * self.lanes
    }

    /// `logits` are (rows, vocabulary), `tokens` and `log_probabilities` (rows).
    #[kernel]
    pub(crate) fn run<T: RowElement>(
        &self,
        logits: &Global<T>,
        inputs: SampleInputs,
        tokens: &mut Global<u32>,
        log_probabilities: &mut Global<f32>,
        workspace: &mut Global<u32>,
    ) {
        launch::threads(self.threads);
        forbid_contraction();
        if self.ctas > 1 {
            launch::cluster(self.ctas, 1, 1);
        }
        let outputs = (*tokens, *log_probabilities);
        match self.residency {
            Residency::Shared => {
                self.sample_stored(*logits, inputs, outputs, dynamic_shared::<u32>(self.keys()));
            }
            Residency::Workspace => {
                let keys = workspace.at(block_idx().x as u64 * u64::from(self.keys()));
                self.sample_stored(*logits, inputs, outputs, keys);
            }
            Residency::Streamed => {
                launch::blocks_per_sm(1);
                self.sample_streamed(*logits, inputs, outputs);
            }
        }
    }
}

#[device]
impl Sample {
    /// Samples a row whose keys are stored.
    fn sample_stored<T: RowElement, S: Space>(
        &self,
        logits: Global<T>,
        inputs: SampleInputs,
        outputs: (Global<u32>, Global<f32>),
        keys: Pointer<u32, S>,
    ) {
        let team = Team::new(self.ctas);
        let memory = StoredKeys { count: self.keys(), keys };
        let histogram = Histogram::new(self.threads);
        let mut keys = Keys { team, threads: self.threads, lanes: self.lanes, histogram, memory };
        let candidates = Candidates::new(self.threads);
        let row_index = block_idx().x / self.ctas;
        let row = Row::load(inputs.parameters.at(row_index * 12u32));
        let logits = logits.at(row_index as u64 * u64::from(self.vocabulary));
        let mut highest = self.load(&keys, logits);
        team.sync();

        let log_sum = self.log_sum(&mut keys, highest);
        if self.has_history {
            let first = row_index as u64 * inputs.capacity as u64;
            let history = (inputs.history.at(first), inputs.counts.at(first));
            self.penalize(&keys, &row, history, row.history.min(inputs.capacity));
            sync_threads();
            highest = keys.fold(constant(0u32), |highest, key, _| highest.max(key));
        }

        // The highest key in the upper half, the complement of the lowest bound in the lower.
        let top_k = self.top_k(&row);
        let wanted = top_k.div_ceil(self.ctas);
        let has_bound = wanted.gt(0) & wanted.le(self.threads);
        let mut bound = constant(0u32);
        if has_bound {
            bound = candidates.bound(highest, wanted);
        }
        let highest = block::reduce_max(highest);
        let mut collects = has_bound;
        if self.vocabulary <= candidates.capacity() {
            collects = top_k.gt(0);
        }
        let both = (highest.convert::<u64>() << 32u32) | (!bound).convert::<u64>();
        let [both] = keys.team.exchange([both], |a, b| {
            let halves = |word: Reg<u64>| ((word >> 32u32).convert::<u32>(), word.convert::<u32>());
            let ((a, i), (b, j)) = (halves(a), halves(b));
            (a.max(b).convert::<u64>() << 32u32) | i.max(j).convert::<u64>()
        });
        let (top, bound) = ((both >> 32u32).convert::<u32>(), !both.convert::<u32>());
        let column = self.draw(
            &mut keys,
            (&candidates, &row),
            top,
            |keys| {
                let mut count = constant(u32::MAX);
                if collects {
                    count = candidates.collect(keys, |key| key.ge(bound.max(1u32)));
                }
                count
            },
            |keys| !keys.team.max(self.last_equal(keys, top)),
        );
        self.store(outputs, logits, (row_index, column), log_sum);
        team.leave();
    }

    /// Samples a row that nothing keeps.
    fn sample_streamed<T: RowElement>(
        &self,
        logits: Global<T>,
        inputs: SampleInputs,
        outputs: (Global<u32>, Global<f32>),
    ) {
        let row_index = block_idx().x;
        let row = Row::load(inputs.parameters.at(row_index * 12u32));
        let logits = logits.at(row_index as u64 * u64::from(self.vocabulary));
        let memory = KeysOfLogits { logits, vocabulary: self.vocabulary };
        let team = Team::new(1);
        let histogram = Histogram::new(self.threads);
        let mut keys = Keys { team, threads: self.threads, lanes: self.lanes, histogram, memory };
        let candidates = Candidates::new(self.threads);
        sync_threads();
        // The highest key alone is a top-k of 1.
        let wanted = row.temperature.gt(0f32).select(self.top_k(&row), 1u32);
        let has_bound = wanted.gt(0) & wanted.le(self.threads);
        let highest = self.stream(&keys, &candidates, has_bound.select(wanted, 0u32));
        let top = block::reduce_max(highest);

        let log_sum = self.log_sum(&mut keys, highest);
        let column = self.draw(
            &mut keys,
            (&candidates, &row),
            top,
            |_| has_bound.select(candidates.count(), u32::MAX),
            |keys| {
                let mut column = candidates.highest_column();
                if candidates.count() > candidates.capacity() {
                    column = !keys.team.max(self.last_equal(keys, top));
                }
                column
            },
        );
        self.store(outputs, logits, (row_index, column), log_sum);
    }

    /// The k of top-k; 0 where all are kept.
    fn top_k(&self, row: &Row) -> Reg<u32> {
        row.top_k.lt(self.vocabulary).select(row.top_k, 0u32)
    }

    /// The column, by the highest key of the row. `count` collects candidates and counts them, and
    /// `greedy` is the lowest column of that key.
    fn draw<M: KeyMemory>(
        &self,
        keys: &mut Keys<M>,
        (candidates, row): (&Candidates, &Row),
        top: Reg<u32>,
        count: impl Fn(&Keys<M>) -> Reg<u32>,
        greedy: impl Fn(&mut Keys<M>) -> Reg<u32>,
    ) -> Reg<u32> {
        let mut column = constant(NO_TOKEN);
        if top > NEGATIVE_INFINITY && top <= INFINITY {
            let scale = (std::f32::consts::LOG2_E / row.temperature).min(f32::MAX);
            let least = (row.min_p.min(1f32) * (1u64 << 40) as f32).convert::<u64>();
            let masses = Masses { top, maximum: logit_of(top), scale, least };
            if row.temperature > 0f32 {
                let count = count(keys);
                if count <= candidates.capacity() {
                    if keys.team.rank == 0 {
                        column = candidates.choose(
                            (count, self.top_k(row)),
                            &masses,
                            |total| row.target(total),
                            |total| row.point(total),
                        );
                    }
                } else {
                    column = self.search(keys, (candidates, row), self.top_k(row), &masses);
                }
            } else {
                column = greedy(keys);
            }
        }
        column
    }

    /// Stores the token of a row, and its log-probability.
    fn store<T: RowElement>(
        &self,
        (tokens, log_probabilities): (Global<u32>, Global<f32>),
        logits: Global<T>,
        (row_index, column): (Reg<u32>, Reg<u32>),
        (maximum, log_sum): (Reg<f32>, Reg<f32>),
    ) {
        if block_idx().x % self.ctas == 0 && thread_idx().x == 0 {
            tokens[row_index] = column;
            if self.has_log_probabilities {
                let mut result = constant(f32::NAN);
                if column < self.vocabulary {
                    let logit = Chunk::load(logits.at(column), 1, Access::new()).values()[0];
                    result = logit.eq(maximum).select(0f32, logit - maximum) - log_sum;
                }
                log_probabilities[row_index] = result;
            }
        }
    }

    /// Loads the CTA's part of the row. The result is the highest key of this thread.
    fn load<T: RowElement, S: Space>(&self, keys: &Keys<StoredKeys<S>>, row: Global<T>) -> Reg<u32> {
        let vectors = self.vocabulary / self.lanes;
        let mut highest = constant(0u32);
        for first in (0..self.steps()).step_by(AT_ONCE as usize) {
            let steps = first..(first + AT_ONCE).min(self.steps());
            let positions: Vec<_> =
                steps.map(|step| (thread_idx().x + step * self.threads) * self.lanes).collect();
            let mut chunks = vec![];
            for index in &positions {
                let column = keys.column(*index);
                let mut chunk = Chunk::<T>::filled(T::NEGATIVE_INFINITIES, self.lanes);
                if column < vectors * self.lanes {
                    chunk = Chunk::load(row.at(column), self.lanes, vector::read_once());
                }
                chunks.push((column, chunk));
            }
            for (index, (column, chunk)) in positions.iter().zip(chunks) {
                let inside = column.lt(self.vocabulary);
                let of_row: Vec<Reg<u32>> =
                    chunk.values().into_iter().map(|logit| inside.select(key_of(logit), 0u32)).collect();
                highest = of_row.iter().fold(highest, |highest, key| highest.max(*key));
                for (part, lanes) in of_row.chunks(4).enumerate() {
                    vector::store_lanes(keys.memory.keys.at(*index + part as u32 * 4), lanes, Access::new());
                }
            }
        }
        highest
    }

    /// The maximum of the logits, and the logarithm of the sum of exponentials relative to it;
    /// zeros where log-probabilities are not computed.
    fn log_sum<M: KeyMemory>(&self, keys: &mut Keys<M>, highest: Reg<u32>) -> (Reg<f32>, Reg<f32>) {
        if !self.has_log_probabilities {
            return (constant(0f32), constant(0f32));
        }
        let top = keys.team.max(highest);
        let maximum = logit_of(top);
        let scale = constant(std::f32::consts::LOG2_E);
        let masses = Masses { top, maximum, scale, least: constant(0u64) };
        let total = keys.sum_from(constant(NEGATIVE_INFINITY), |key| masses.of(key));
        let sum = total.convert::<f32>() * (1.0 / (1u64 << 40) as f32);
        let is_row = top.gt(NEGATIVE_INFINITY) & top.le(INFINITY);
        (maximum, is_row.select(sum.ln(), f32::NAN))
    }

    /// Applies the penalties to the CTA's keys of earlier tokens.
    fn penalize<S: Space>(
        &self,
        keys: &Keys<StoredKeys<S>>,
        row: &Row,
        (tokens, counts): (Global<u32>, Global<u32>),
        length: Reg<u32>,
    ) {
        let [repetition, frequency, presence] = row.penalties;
        for entry in (thread_idx().x..length).step_by(self.threads) {
            let token = tokens.at(entry).load();
            let (is_here, index) = keys.index(token);
            if is_here && token < self.vocabulary {
                let count = counts.at(entry).load();
                let key = keys.memory.keys.at(index);
                let logit = logit_of(key.load());
                let logit = logit.gt(0f32).select(logit / repetition, logit * repetition);
                let logit = logit - count.convert::<f32>() * frequency;
                let logit = count.gt(0).select(logit - presence, logit);
                key.store(key_of(logit));
            }
        }
    }

    /// The column, where candidates are many.
    fn search<M: KeyMemory>(
        &self,
        keys: &mut Keys<M>,
        (candidates, row): (&Candidates, &Row),
        top_k: Reg<u32>,
        masses: &Masses,
    ) -> Reg<u32> {
        let mut least = constant(1u32);
        if top_k > 0 {
            let (found, _) = keys.search(top_k.convert::<u64>(), |_, key, _| key, |_| constant(1u64));
            least = found;
        }
        if row.has_top_p() {
            let amount = |key: Reg<u32>| key.ge(least).select(masses.of(key), 0u64);
            least = keys.threshold(candidates, masses, |total| row.target(total), amount).max(least);
        }
        let mut column = constant(NO_TOKEN);
        if top_k == 0 {
            let amount = |key: Reg<u32>| add_where(key.ge(least), constant(0u64), || masses.of(key));
            column = Segments::new(keys).draw(keys, |total| row.point(total), amount);
        } else {
            column = self.draw_in_order_of_keys(keys, row, least, masses);
        }
        column
    }

    /// The column at the row's point of the keys from `least` on, the highest key first.
    fn draw_in_order_of_keys<M: KeyMemory>(
        &self,
        keys: &mut Keys<M>,
        row: &Row,
        least: Reg<u32>,
        masses: &Masses,
    ) -> Reg<u32> {
        let total = keys.sum_from(least, |key| masses.of(key));
        let point = row.point(total);
        let (found, above) =
            keys.search(point + 1u64, |_, key, _| key, |key| key.ge(least).select(masses.of(key), 0u64));
        // Of equal keys, the lowest columns come first.
        let rank = (point - above) / masses.of(found);
        let mut complement = keys.team.max(self.last_equal(keys, found));
        if rank > 0 {
            let (of_rank, _) = keys.search(
                rank + 1u64,
                |keys, key, index| key.eq(found).select(!keys.column(index), 0u32),
                |_| constant(1u64),
            );
            complement = of_rank;
        }
        !complement
    }

    /// The complement of the lowest column of this thread with that key; 0 without one.
    fn last_equal<M: KeyMemory>(&self, keys: &Keys<M>, wanted: Reg<u32>) -> Reg<u32> {
        keys.fold(constant(0u32), |last, key, index| {
            key.eq(wanted).select(!keys.column(index), 0u32).max(last)
        })
    }
}
