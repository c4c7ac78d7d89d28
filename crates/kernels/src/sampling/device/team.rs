//! The CTAs that share a row: a cluster, or one CTA.

use warpwright::prelude::*;

/// The CTAs of a row, and where they exchange words.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Team {
    pub(super) ctas: u32,
    /// This CTA's number among them.
    pub(super) rank: Reg<u32>,
    /// Two sets of a word from each CTA, which take turns: a CTA that writes a set again has seen
    /// that all have read it, at the synchronization in between.
    words: Shared<u64>,
    turn: Reg<u32>,
}

#[device]
impl Team {
    /// `ctas` consecutive CTAs. No other CTA may be sent anything before [`sync`](Self::sync).
    pub(super) fn new(ctas: u32) -> Self {
        Self { ctas, rank: block_idx().x % ctas, words: shared_array::<u64>(2 * ctas), turn: constant(0u32) }
    }

    /// Waits for all threads of the CTAs, and shows them what each has written to shared memory.
    pub(super) fn sync(&self) {
        if self.ctas > 1 {
            cluster_sync();
        } else {
            sync_threads();
        }
    }

    /// The words of all CTAs combined; the threads of a CTA have one word.
    pub(super) fn exchange(
        &mut self,
        word: Reg<u64>,
        combine: impl Fn(Reg<u64>, Reg<u64>) -> Reg<u64>,
    ) -> Reg<u64> {
        let mut all = word;
        if self.ctas > 1 {
            let set = self.words.at(self.turn * self.ctas);
            if thread_idx().x < self.ctas {
                set.at(self.rank).map_to_block(thread_idx().x).store(word);
            }
            cluster_sync();
            all = set.load();
            for cta in 1..self.ctas {
                all = combine(all, set.at(cta).load());
            }
            self.turn = self.turn ^ 1u32;
        }
        all
    }

    /// The sum over all threads.
    pub(super) fn sum(&mut self, value: Reg<u64>) -> Reg<u64> {
        self.exchange(block::reduce_sum(value), |a, b| a + b)
    }

    /// The highest value of all threads.
    pub(super) fn max(&mut self, value: Reg<u32>) -> Reg<u32> {
        self.exchange(block::reduce_max(value).convert::<u64>(), |a, b| a.max(b)).convert::<u32>()
    }
}
