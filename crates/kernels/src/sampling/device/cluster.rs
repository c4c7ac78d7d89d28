//! The CTAs that share a row: a cluster, or one CTA.

use warpwright::lang::cluster::{cluster_arrive, cluster_wait};
use warpwright::prelude::*;

/// Words that a CTA exchanges at once, at most.
const MAX_WORDS: u32 = 3;

/// The CTAs of a row, and where they exchange words.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Cluster {
    pub(super) ctas: u32,
    /// This CTA's number among them.
    pub(super) rank: Reg<u32>,
    /// Two sets of words from each CTA, which take turns: a CTA that writes a set again has seen
    /// that all have read it, at the synchronization in between.
    words: Shared<u64>,
    turn: Reg<u32>,
}

#[device]
impl Cluster {
    /// `ctas` consecutive CTAs. No other CTA may be sent anything before [`sync`](Self::sync).
    pub(super) fn new(ctas: u32) -> Self {
        Self {
            ctas,
            rank: block_idx().x % ctas,
            words: shared_array::<u64>(2 * MAX_WORDS * ctas),
            turn: constant(0u32),
        }
    }

    /// Waits for all threads of the CTAs, and shows them what each has written to shared memory.
    pub(super) fn sync(&self) {
        if self.ctas > 1 {
            cluster_sync();
        } else {
            sync_threads();
        }
    }

    /// Leaves the cluster. After the last synchronization others read the first CTA's memory only,
    /// so that only the first CTA waits for them, and the SMs of the others are free.
    pub(super) fn leave(&self) {
        if self.ctas > 1 {
            cluster_arrive();
            if self.rank == 0 {
                cluster_wait();
            }
        }
    }

    /// Each word of all CTAs combined; the threads of a CTA have the same words.
    pub(super) fn exchange<const N: usize>(
        &mut self,
        words: [Reg<u64>; N],
        combine: impl Fn(Reg<u64>, Reg<u64>) -> Reg<u64>,
    ) -> [Reg<u64>; N] {
        self.gather(words).map(|of_ctas| of_ctas.into_iter().reduce(&combine).expect("a CTA has words"))
    }

    /// Each word of each CTA.
    fn gather<const N: usize>(&mut self, words: [Reg<u64>; N]) -> [Vec<Reg<u64>>; N] {
        assert!(N <= MAX_WORDS as usize, "a CTA exchanges at most that many words");
        let mut all = words.map(|word| vec![word]);
        if self.ctas > 1 {
            let set = self.words.at(self.turn * (MAX_WORDS * self.ctas));
            if thread_idx().x < self.ctas {
                for (index, word) in words.iter().enumerate() {
                    let at = set.at(self.rank + index as u32 * self.ctas);
                    at.map_to_block(thread_idx().x).store(*word);
                }
            }
            cluster_sync();
            all = std::array::from_fn(|index| {
                let of_word = set.at(index as u32 * self.ctas);
                (0..self.ctas).map(|cta| of_word.at(cta).load()).collect::<Vec<_>>()
            });
            self.turn = self.turn ^ 1u32;
        }
        all
    }

    /// The sums of the values of the CTAs before this one, and of all; the threads of a CTA have the
    /// same value.
    pub(super) fn exclusive_sum(&mut self, value: Reg<u64>) -> (Reg<u64>, Reg<u64>) {
        let (mut before, mut all) = (constant(0u64), constant(0u64));
        let [of_ctas] = self.gather([value]);
        for (cta, value) in (0u32..).zip(of_ctas) {
            before = self.rank.eq(cta).select(all, before);
            all = all + value;
        }
        (before, all)
    }

    /// The sums over all threads.
    pub(super) fn sums<const N: usize>(&mut self, values: [Reg<u64>; N]) -> [Reg<u64>; N] {
        let of_cta = block::reduce(values, |a, b| std::array::from_fn(|index| a[index] + b[index]));
        self.exchange(of_cta, |a, b| a + b)
    }

    /// The highest value of all threads.
    pub(super) fn max(&mut self, value: Reg<u32>) -> Reg<u32> {
        let [max] = self.exchange([block::reduce_max(value).convert::<u64>()], |a, b| a.max(b));
        max.convert::<u32>()
    }
}
