//! The kernel: a row for each cluster.
//!
//! ```text
//! load       the row, once, as keys in shared memory
//! bound      a lower bound of the k-th key, from the highest key of each thread
//! candidates the keys from the bound on, sorted by one CTA: filters that keep few tokens end here
//! search     else: each filter by eight bits of a key at a time over the whole cluster
//! segments   without top-k, the token: the sums of segments, and one of them
//! ```

use warpwright::prelude::*;

use super::candidates::Candidates;
use super::cluster::Cluster;
use super::histogram::Histogram;
use super::mass::{INFINITY, Masses, NEGATIVE_INFINITY, RelativeMasses, key_of, logit_of, random_bits};
use super::nucleus::Nucleus;
use super::search::{KeyMemory, Keys, KeysOfLogits, StoredKeys, add_where};
use super::segments::{Segments, weight};
use super::stream::Wanted;
use crate::overlap;
use crate::rows::{Chunk, RowElement};
use crate::sampling::problem::NO_TOKEN;
use crate::sampling::reference::SEGMENT;
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
    /// Whether the launch overlaps its predecessor.
    pub(crate) overlaps: bool,
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

/// Candidates that are collected of a row without top-k: it may be that top-p and min-p keep no others.
const NUCLEUS: u32 = 256;

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
            (0..3).flat_map(|part| vector::load_lanes(from.at(4 * part), 4, Access::new())).collect();
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

    /// The least mass that min-p keeps.
    #[track_caller]
    fn least(&self) -> Reg<u64> {
        (self.min_p.min(1f32) * (1u64 << 40) as f32).convert::<u64>()
    }

    /// log2(e) over the temperature.
    #[track_caller]
    fn scale(&self) -> Reg<f32> {
        (std::f32::consts::LOG2_E / self.temperature).min(f32::MAX)
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
        total.mul_hi(random_bits(self.seed, self.position)[0])
    }

    /// A second random number below `total`.
    #[track_caller]
    fn second_point(&self, total: Reg<u64>) -> Reg<u64> {
        total.mul_hi(random_bits(self.seed, self.position)[1])
    }
}

/// Keys of each CTA that shares a row: whole segments, about equally many. A CTA with few keys would bound the
/// row's candidates by a low one.
pub(in super::super) fn keys_of_cta(vocabulary: u32, ctas: u32) -> u32 {
    vocabulary.div_ceil(ctas).next_multiple_of(SEGMENT)
}

impl Sample {
    /// Vectors of each thread.
    fn steps(&self) -> u32 {
        self.keys().div_ceil(self.threads * self.lanes)
    }

    /// Segments of a CTA.
    fn segments(&self) -> u32 {
        let keys = if self.residency == Residency::Streamed { self.vocabulary } else { self.keys() };
        keys.div_ceil(SEGMENT)
    }

    /// Keys of a CTA.
    fn keys(&self) -> u32 {
        keys_of_cta(self.vocabulary, self.ctas)
    }

    /// Keys of a CTA in the workspace.
    fn stored_keys(&self) -> u32 {
        if self.residency == Residency::Workspace { self.keys() } else { 0 }
    }

    /// Words of a CTA in the workspace.
    pub(crate) fn workspace_words(&self) -> u32 {
        self.stored_keys() + 2 * self.segments()
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
        overlap::launch(self.overlaps);
        overlap::wait(self.overlaps);
        let outputs = (*tokens, *log_probabilities);
        // The CTAs' keys, then the sums of their segments.
        let cta = block_idx().x as u64;
        let keys = workspace.at(cta * u64::from(self.stored_keys()));
        let words = workspace.at(grid_dim().x as u64 * u64::from(self.stored_keys())).cast::<u64>();
        let words = words.at(cta * u64::from(self.segments()));
        let segments = Segments { count: self.segments(), words };
        match self.residency {
            Residency::Shared => {
                let keys = dynamic_shared::<u32>(self.keys());
                self.sample_stored(*logits, inputs, outputs, (keys, segments));
            }
            Residency::Workspace => self.sample_stored(*logits, inputs, outputs, (keys, segments)),
            Residency::Streamed => {
                launch::blocks_per_sm(1);
                self.sample_streamed(*logits, inputs, outputs, &segments);
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
        (keys, segments): (Pointer<u32, S>, Segments),
    ) {
        let cluster = Cluster::new(self.ctas);
        let memory = StoredKeys { count: self.keys(), keys };
        let histogram = Histogram::new(self.threads);
        let mut keys = Keys { cluster, threads: self.threads, lanes: self.lanes, histogram, memory };
        let candidates = Candidates::new(self.threads);
        let row_index = block_idx().x / self.ctas;
        let row = Row::load(inputs.parameters.at(row_index * 12u32));
        let logits = logits.at(row_index as u64 * u64::from(self.vocabulary));
        let mut highest = self.load(&keys, logits);
        cluster.sync();

        let log_sum = self.log_sum(&mut keys, highest);
        if self.has_history {
            let first = row_index as u64 * inputs.capacity as u64;
            let history = (inputs.history.at(first), inputs.counts.at(first));
            self.penalize(&keys, &row, history, row.history.min(inputs.capacity));
            sync_threads();
            highest = keys.fold(constant(0u32), |highest, key, _| highest.max(key));
        }

        // The highest key in the upper half, the complement of the lowest bound in the lower.
        let wanted = self.wanted(&row);
        let of_cta = wanted.div_ceil(self.ctas);
        let has_bound = of_cta.gt(0) & of_cta.le(self.threads);
        let (most, mut bound) = candidates.bound_by_warps(highest, of_cta);
        if has_bound && of_cta > self.threads / 32 {
            bound = candidates.bound(highest, of_cta, (constant(0u32), most));
        }
        let mut collects = has_bound;
        if self.vocabulary <= candidates.capacity() {
            collects = wanted.gt(0);
            bound = constant(0u32);
        }
        let both = (most.convert::<u64>() << 32u32) | (!bound).convert::<u64>();
        let [both] = keys.cluster.exchange([both], |a, b| {
            let halves = |word: Reg<u64>| ((word >> 32u32).convert::<u32>(), word.convert::<u32>());
            let ((a, i), (b, j)) = (halves(a), halves(b));
            (a.max(b).convert::<u64>() << 32u32) | i.max(j).convert::<u64>()
        });
        let (top, bound) = ((both >> 32u32).convert::<u32>(), !both.convert::<u32>());
        let column = self.draw(
            &mut keys,
            (&candidates, &segments, &row),
            top,
            |keys| {
                let mut count = constant(u32::MAX);
                if collects {
                    count = candidates.collect(keys, |key| key.ge(bound.max(1u32)));
                }
                (count, bound)
            },
            |keys| segments.sum_relative(keys, &RelativeMasses::new(row.scale())),
            (
                |keys, masses, total| self.search(keys, (&candidates, &segments, &row), masses, total),
                |keys| !keys.cluster.max(self.last_equal(keys, top)),
            ),
        );
        self.store(outputs, logits, (row_index, column), log_sum);
        cluster.leave();
    }

    /// Samples a row that nothing keeps.
    fn sample_streamed<T: RowElement>(
        &self,
        logits: Global<T>,
        inputs: SampleInputs,
        outputs: (Global<u32>, Global<f32>),
        segments: &Segments,
    ) {
        let row_index = block_idx().x;
        let logits = logits.at(row_index as u64 * u64::from(self.vocabulary));
        let memory = KeysOfLogits { logits, vocabulary: self.vocabulary, overlaps: self.overlaps };
        let tiles = self.open(memory);
        let row = Row::load(inputs.parameters.at(row_index * 12u32));
        let cluster = Cluster::new(1);
        let histogram = Histogram::new(self.threads);
        let mut keys = Keys { cluster, threads: self.threads, lanes: self.lanes, histogram, memory };
        let candidates = Candidates::new(self.threads);
        sync_threads();
        // The highest key alone is a top-k of 1.
        let is_random = row.temperature.gt(0f32);
        let wanted = is_random.select(self.wanted(&row), 1u32);
        let has_bound = wanted.gt(0) & wanted.le(self.threads);
        let wanted = Wanted {
            candidates: &candidates,
            count: has_bound.select(wanted, 0u32),
            segments,
            masses: RelativeMasses::new(row.scale()),
            has_sums: is_random & self.top_k(&row).eq(0) & row.least().eq(0u64),
        };
        let (highest, top, bound) = self.stream(&tiles, &wanted);

        let log_sum = self.log_sum(&mut keys, highest);
        let column = self.draw(
            &mut keys,
            (&candidates, segments, &row),
            top,
            |_| (has_bound.select(candidates.count(), u32::MAX), bound),
            |_| {},
            (
                |keys, masses, total| {
                    let mut column = constant(NO_TOKEN);
                    if total > 0u64 {
                        let nucleus = Nucleus {
                            keys: *keys,
                            tiles: &tiles,
                            candidates: &candidates,
                            segments,
                            masses,
                            total,
                        };
                        let last = self.nucleus(&nucleus, |total| row.target(total));
                        if last > 0 {
                            let amount =
                                |key: Reg<u32>| add_where(key.ge(last), constant(0u64), || masses.of(key));
                            column = segments.draw(
                                keys,
                                |sum| sum,
                                |total| row.point(total),
                                |rest, _| rest,
                                amount,
                            );
                        }
                    }
                    if column == NO_TOKEN {
                        column = self.search(keys, (&candidates, segments, &row), masses, total);
                    }
                    column
                },
                |keys| {
                    let mut column = candidates.highest_column();
                    if candidates.count() > candidates.capacity() {
                        column = !keys.cluster.max(self.last_equal(keys, top));
                    }
                    column
                },
            ),
        );
        self.store(outputs, logits, (row_index, column), log_sum);
    }

    /// The k of top-k; 0 where all are kept.
    fn top_k(&self, row: &Row) -> Reg<u32> {
        row.top_k.lt(self.vocabulary).select(row.top_k, 0u32)
    }

    /// Candidates that filters need, or may need; 0 without filters.
    fn wanted(&self, row: &Row) -> Reg<u32> {
        let nucleus = NUCLEUS.min(self.threads * self.ctas / 2);
        let has_filter = row.has_top_p() | row.least().gt(0u64);
        let top_k = self.top_k(row);
        top_k.gt(0).select(top_k, has_filter.select(nucleus, 0u32))
    }

    /// The column, by the highest key of the row. `count` collects candidates, counts them, and bounds them,
    /// `sum` adds up relative masses, `search` is for filters that keep more than the candidates, and `greedy` is
    /// the lowest column of the highest key.
    fn draw<M: KeyMemory>(
        &self,
        keys: &mut Keys<M>,
        (candidates, segments, row): (&Candidates, &Segments, &Row),
        top: Reg<u32>,
        count: impl Fn(&Keys<M>) -> (Reg<u32>, Reg<u32>),
        sum: impl Fn(&Keys<M>),
        (search, greedy): (
            impl Fn(&mut Keys<M>, &Masses, Reg<u64>) -> Reg<u32>,
            impl Fn(&mut Keys<M>) -> Reg<u32>,
        ),
    ) -> Reg<u32> {
        let mut column = constant(NO_TOKEN);
        if top > NEGATIVE_INFINITY && top <= INFINITY {
            let masses = Masses { maximum: logit_of(top), scale: row.scale(), least: row.least() };
            let has_filter = self.wanted(row).gt(0);
            // The sum of all masses, of the weights of segments; 0 where min-p and top-k leave a part.
            let mut total = constant(0u64);
            if row.temperature > 0f32 {
                if self.top_k(row) == 0 && row.least() == 0u64 {
                    sum(keys);
                    if has_filter {
                        total = segments.total(keys, |word| weight(word, &masses));
                    }
                }
                if has_filter {
                    // Candidates have at most this mass. Too many cannot be sorted.
                    let most = constant(u64::from(candidates.capacity()) << 40);
                    let mut found = (constant(u32::MAX), constant(0u32));
                    if row.target(total) <= most {
                        found = count(keys);
                    }
                    let (count, bound) = found;
                    if count <= candidates.capacity() {
                        column = self.choose(keys, (candidates, row), (count, bound), &masses, total);
                    }
                    if column == NO_TOKEN {
                        column = search(keys, &masses, total);
                    }
                } else {
                    column = segments.draw(
                        keys,
                        |word| weight(word, &masses),
                        |total| row.point(total),
                        |_, sum| row.second_point(sum),
                        |key| add_where(key.gt(0), constant(0u64), || masses.of(key)),
                    );
                }
            } else {
                column = greedy(keys);
            }
        }
        column
    }

    /// The column in the first CTA, and in all where it is none because the candidates do not have all that
    /// filters keep. `total` is the sum of all masses, or 0.
    fn choose<M: KeyMemory>(
        &self,
        keys: &mut Keys<M>,
        (candidates, row): (&Candidates, &Row),
        (count, bound): (Reg<u32>, Reg<u32>),
        masses: &Masses,
        total: Reg<u64>,
    ) -> Reg<u32> {
        let top_k = self.top_k(row);
        let mut column = constant(0u32);
        if top_k > 0 {
            if keys.cluster.rank == 0 {
                column = candidates.choose(
                    (count, top_k),
                    masses,
                    |total| row.target(total),
                    |total| row.point(total),
                );
            }
        } else {
            if keys.cluster.rank == 0 {
                column = candidates.choose_by_column(
                    count,
                    masses,
                    |sum| {
                        let target = row.target(total.eq(0u64).select(sum, total));
                        // min-p keeps no key below the bound.
                        let are_all = masses.of(bound).eq(0u64);
                        let is_reached = total.gt(0u64) & sum.ge(target);
                        (target, is_reached | (total.eq(0u64) & are_all))
                    },
                    |total| row.point(total),
                );
            }
            let [of_first] = keys.cluster.exchange([column.convert::<u64>()], |a, b| a.max(b));
            column = of_first.convert::<u32>();
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
        let mut highest = constant(0u32);
        for first in (0..self.steps()).step_by(AT_ONCE as usize) {
            let steps = first..(first + AT_ONCE).min(self.steps());
            let positions: Vec<_> =
                steps.map(|step| (thread_idx().x + step * self.threads) * self.lanes).collect();
            let mut chunks = vec![];
            for index in &positions {
                let column = keys.column(*index);
                let is_here = index.lt(self.keys()) & column.lt(self.vocabulary);
                let mut chunk = Chunk::<T>::filled(T::NEGATIVE_INFINITIES, self.lanes);
                if is_here {
                    chunk = Chunk::load(row.at(column), self.lanes, overlap::read_once(self.overlaps));
                }
                chunks.push((is_here, chunk));
            }
            for (index, (is_here, chunk)) in positions.iter().zip(chunks) {
                let of_row: Vec<Reg<u32>> =
                    chunk.values().into_iter().map(|logit| is_here.select(key_of(logit), 0u32)).collect();
                highest = of_row.iter().fold(highest, |highest, key| highest.max(*key));
                if index.lt(self.keys()) {
                    for (part, lanes) in (0u32..).zip(of_row.chunks(4)) {
                        let to = keys.memory.keys.at(*index + part * 4);
                        vector::store_lanes(to, lanes, Access::new());
                    }
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
        let top = keys.cluster.max(highest);
        let maximum = logit_of(top);
        let scale = constant(std::f32::consts::LOG2_E);
        let masses = Masses { maximum, scale, least: constant(0u64) };
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
        (candidates, segments, row): (&Candidates, &Segments, &Row),
        masses: &Masses,
        total: Reg<u64>,
    ) -> Reg<u32> {
        let top_k = self.top_k(row);
        let mut least = constant(1u32);
        if top_k > 0 {
            let (found, _) = keys.search(top_k.convert::<u64>(), |_, key, _| key, |_| constant(1u64));
            least = found;
        }
        if row.has_top_p() {
            let amount = |key: Reg<u32>| key.ge(least).select(masses.of(key), 0u64);
            let target = |sum: Reg<u64>| row.target(total.eq(0u64).select(sum, total)).min(sum);
            least = keys.threshold(candidates, masses, target, amount).max(least);
        }
        let mut column = constant(NO_TOKEN);
        if top_k == 0 {
            let amount = |key: Reg<u32>| add_where(key.ge(least), constant(0u64), || masses.of(key));
            segments.sum(keys, amount);
            column = segments.draw(keys, |sum| sum, |total| row.point(total), |rest, _| rest, amount);
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
        let mut complement = keys.cluster.max(self.last_equal(keys, found));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The last CTA lacks no more than what the others' segments have too many.
    #[test]
    fn parts_of_a_row_are_about_equal() {
        for vocabulary in [1, 255, 257, 32_000, 50_257, 100_352, 128_256, 151_936, 248_320, 1 << 22] {
            for ctas in 1..=16 {
                let keys = keys_of_cta(vocabulary, ctas);
                assert!((vocabulary..vocabulary + ctas * SEGMENT).contains(&(keys * ctas)));
                assert_eq!(keys % SEGMENT, 0);
            }
        }
    }
}
