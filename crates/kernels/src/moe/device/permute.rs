//! The rows of choices in the order of experts: a stable counting sort.
//!
//! ```text
//! count    each CTA counts its run of choices by expert          (more than one CTA only)
//! place    each CTA adds up the counts before its own, and gives its choices their rows
//! ```
//!
//! Each warp has a part of the CTA's run, in order: a choice's row is the number of choices of
//! earlier experts, of earlier CTAs and warps, of the warp so far, and of lower lanes.

use warpwright::prelude::*;

use crate::moe::problem::MAX_EXPERTS;

/// The kernels and their configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Permute {
    pub(crate) experts: u32,
    pub(crate) choices: u32,
    /// CTAs, each with [`RUN`] choices.
    pub(crate) has_one_cta: bool,
}

/// Choices of a CTA.
pub(crate) const RUN: u32 = 4096;
/// A thread for each expert.
const THREADS: u32 = MAX_EXPERTS;
const WARPS: u32 = THREADS / 32;

impl Permute {
    /// `counts` is (CTAs, experts).
    #[kernel]
    pub(crate) fn count(&self, experts: &Global<u32>, counts: &mut Global<u32>, length: u32) {
        launch::threads(THREADS);
        let shared = shared_array::<u32>(self.experts);
        let thread = thread_idx().x;
        if thread < self.experts {
            shared.at(thread).store(0u32);
        }
        sync_threads();
        for index in (block_idx().x * RUN + thread..self.end(length)).step_by(THREADS) {
            shared.at(self.expert(*experts, index)).reduce_add(1u32);
        }
        sync_threads();
        if thread < self.experts {
            counts.at(block_idx().x * self.experts + thread).store(shared.at(thread).load());
        }
    }

    /// `experts` and `rows` are (tokens, choices), `length` elements; `offsets` is (experts + 1),
    /// `tokens` (rows).
    #[kernel]
    pub(crate) fn place(
        &self,
        experts: &Global<u32>,
        counts: &Global<u32>,
        offsets: &mut Global<u32>,
        tokens: &mut Global<i32>,
        rows: &mut Global<u32>,
        length: u32,
    ) {
        launch::threads(THREADS);
        let (thread, lane, warp) = (thread_idx().x, lane_id(), thread_idx().x / 32);
        let cta = block_idx().x;
        // For each warp and expert: first the number of choices, then the row of the next one.
        let next = shared_array::<u32>(WARPS * self.experts);
        for at in (thread..WARPS * self.experts).step_by(THREADS) {
            next.at(at).store(0u32);
        }
        sync_threads();
        let of_warp = next.at(warp * self.experts);
        let first = cta * RUN + warp * (RUN / WARPS);
        let end = self.end(length).min(first + RUN / WARPS);
        for index in (first + lane..end).step_by(32) {
            of_warp.at(self.expert(*experts, index)).reduce_add(1u32);
        }
        sync_threads();

        let (mut before, mut total) = (constant(0u32), constant(0u32));
        if thread < self.experts {
            if self.has_one_cta {
                for warp in 0..WARPS {
                    total = total + next.at(warp * self.experts).at(thread).load();
                }
            } else {
                for other in 0..grid_dim().x {
                    let count = counts.at(other * self.experts + thread).load();
                    total = total + count;
                    before = before + other.lt(cta).select(count, 0u32);
                }
            }
        }
        let of_expert = block::exclusive_sum(total);
        if thread < self.experts {
            let mut row = of_expert + before;
            for warp in 0..WARPS {
                let at = next.at(warp * self.experts).at(thread);
                let count = at.load();
                at.store(row);
                row = row + count;
            }
            if cta == 0 {
                offsets.at(thread).store(of_expert);
                if thread == self.experts - 1 {
                    offsets.at(self.experts).store(length);
                }
            }
        }
        sync_threads();

        // All lanes take part in each step; those without a choice have an expert of their own.
        for step in (first..end).step_by(32) {
            let index = step + lane;
            let is_mine = index.lt(end);
            let mut expert = constant(u32::MAX);
            if is_mine {
                expert = self.expert(*experts, index);
            }
            let equal = expert.match_any(u32::MAX);
            let rank = (equal & lane_mask_lt()).count_ones();
            if is_mine {
                let at = of_warp.at(expert);
                let row = at.load() + rank;
                rows.at(index).store(row);
                tokens.at(row).store((index / self.choices).bit_cast::<i32>());
            }
            sync_warp(u32::MAX);
            if is_mine && rank == 0 {
                let at = of_warp.at(expert);
                at.store(at.load() + equal.count_ones());
            }
            sync_warp(u32::MAX);
        }
    }
}

#[device]
impl Permute {
    /// The end of this CTA's choices.
    fn end(&self, length: Reg<u32>) -> Reg<u32> {
        length.min((block_idx().x + 1) * RUN)
    }

    fn expert(&self, experts: Global<u32>, index: Reg<u32>) -> Reg<u32> {
        let expert = experts.at(index).load();
        device_assert(expert.lt(self.experts), "a token's expert does not exist");
        expert
    }
}
