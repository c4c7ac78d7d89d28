//! The parts of a row that CTAs stream: the last of them to end has the candidates of all.
//!
//! ```text
//! a part    its highest key, a bound that enough of its keys reach, and its keys from that bound on
//! the row   the highest of each; the keys from the highest bound on are the candidates
//! ```
//!
//! The words of a row are 0 before and after a launch.

use warpwright::prelude::*;

use super::candidates::Candidates;

/// Words of a row: how many parts have ended, how many candidates they have, the highest key, the
/// highest bound.
pub(in super::super) const ROW_WORDS: u32 = 4;

/// The results of parts.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Parts {
    /// Parts of a row, and threads of a CTA.
    pub(super) count: u32,
    pub(super) threads: u32,
    /// The words of this row, and its candidates.
    pub(super) words: Global<u32>,
    pub(super) list: Global<u64>,
}

#[device]
impl Parts {
    /// Adds a part's candidates, those from `bound` on, and its highest key to those of the row. The
    /// last part takes them all: whether this is the last, and the highest key.
    pub(super) fn combine(
        &self,
        candidates: &Candidates,
        (top, bound): (Reg<u32>, Reg<u32>),
    ) -> (Reg<bool>, Reg<u32>) {
        let shared = shared_array::<u32>(4);
        let capacity = candidates.capacity();
        let (list, count) = candidates.words();
        let key_of = |word: Reg<u64>| (word >> 32u32).convert::<u32>();
        if thread_idx().x == 0 {
            shared.at(0).store(0u32);
        }
        sync_threads();

        // The candidates from the bound on, side by side in the row's list.
        let found = candidates.count();
        let mut kept = vec![];
        for index in (0..capacity).step_by(self.threads as usize) {
            let index = thread_idx().x + index;
            let mut place = constant(u32::MAX);
            let mut word = constant(0u64);
            if index < found {
                word = list.at(index).load();
                if key_of(word) >= bound {
                    place = shared.at(0).atomic_add(1u32);
                }
            }
            kept.push((word, place));
        }
        sync_threads();
        if thread_idx().x == 0 {
            // More than the capacity are more than that of the row.
            let own = shared.at(0).load();
            let added = found.gt(capacity).select(self.count * capacity + 1, own);
            shared.at(1).store(self.words.at(1).atomic_add(added));
            self.words.at(2).reduce_max(top);
            self.words.at(3).reduce_max(bound);
        }
        sync_threads();
        let first = shared.at(1).load();
        for (word, place) in kept {
            if place < capacity && first + place < self.count * capacity {
                self.list.at(first + place).store(word);
            }
        }
        sync_threads();
        if thread_idx().x == 0 {
            // Counting releases what all threads have stored, and acquires what the other CTAs have.
            let counting = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
            let before = self.words.at(0).atomic_increment(self.count - 1, counting);
            shared.at(2).store(before.eq(self.count - 1).to_u32());
        }
        candidates.clear();
        sync_threads();
        let is_last = shared.at(2).load().ne(0);
        let mut highest = constant(0u32);
        if is_last {
            let [_, all, top, bound] = self.words.load_vector::<4>();
            for index in (thread_idx().x..all.min(self.count * capacity)).step_by(self.threads) {
                let word = self.list.at(index).load();
                if key_of(word) >= bound {
                    let place = count.atomic_add(1u32);
                    if place < capacity {
                        list.at(place).store(word);
                    }
                }
            }
            sync_threads();
            if thread_idx().x == 0 {
                self.words.store_vector([(); 4].map(|()| constant(0u32)));
                if all > self.count * capacity {
                    count.store(capacity + 1);
                }
            }
            highest = top;
        }
        sync_threads();
        (is_last, highest)
    }
}
