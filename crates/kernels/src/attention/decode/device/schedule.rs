//! Which keys a CTA processes: an even share of all, whatever the lengths.
//!
//! ```text
//! boxes of keys    | sequence 0, heads 0 to 3 | sequence 0, heads 4 to 7 | sequence 1, heads 0 to 3 | .. in the order of all
//! teams of CTAs    |       0       |       1       |       2       |       3       |       4       | ..
//! segments                 0            0 | 1             1               1 | 2 ..    a team's boxes of some heads of one sequence
//! ```
//!
//! The CTAs of a team have the same keys of one head each, so that the heads' columns of a key, which
//! are neighbors in memory, are read at about the same time. The lengths are on the device: each CTA
//! sums them up itself.

use warpwright::prelude::*;

use super::configuration::DecodeAttention;

/// The boxes of keys of this CTA that are left.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Walk {
    kernel: DecodeAttention,
    lengths: Global<u32>,
    /// The keys before a sequence's end that any of its queries sees.
    reach: Reg<u32>,
    /// CTAs of a team, and the key heads of each.
    team_ctas: Reg<u32>,
    heads: Reg<u32>,
    /// The index of this CTA's head among those of the team.
    member: Reg<u32>,
    /// Boxes of a CTA.
    share: Reg<u32>,
    /// The next box, and the end of this CTA's, in the order of all.
    next: Reg<u32>,
    end: Reg<u32>,
    /// The sequence of the next box, and the boxes of that sequence before it.
    sequence: Reg<u32>,
    before: Reg<u32>,
}

/// Consecutive boxes of one head of one sequence.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Segment {
    pub(super) sequence: Reg<u32>,
    /// The key head.
    pub(super) head: Reg<u32>,
    /// The length of the sequence, and the first key that any query sees.
    pub(super) length: Reg<u32>,
    pub(super) first_seen: Reg<u32>,
    /// The first key, a multiple of the keys of a box.
    pub(super) first_key: Reg<u32>,
    /// The boxes; 0 of a sequence without keys.
    pub(super) boxes: Reg<u32>,
    /// The first and the last team whose CTAs share the head.
    pub(super) first_team: Reg<u32>,
    pub(super) last_team: Reg<u32>,
}

#[device]
impl Walk {
    /// The share of this CTA. All threads make the call.
    pub(super) fn new(
        kernel: DecodeAttention,
        lengths: Global<u32>,
        (batch, pages_per_sequence): (Reg<u32>, Reg<u32>),
        reach: Reg<u32>,
        team_ctas: Reg<u32>,
    ) -> Self {
        let (threads, thread) = (kernel.plan.threads(), thread_idx().x);
        let per_thread = batch.div_ceil(threads);
        let first = (thread * per_thread).min(batch);
        let mut walk = Self {
            kernel,
            lengths,
            reach,
            team_ctas,
            heads: kernel.heads.key_heads / team_ctas,
            member: block_idx().x % team_ctas,
            share: constant(0),
            next: constant(0),
            end: constant(0),
            sequence: constant(0),
            before: constant(0),
        };
        let mut mine = constant(0u32);
        for sequence in first..(first + per_thread).min(batch) {
            let length = lengths[sequence];
            device_assert(
                length.le(pages_per_sequence * kernel.page_size),
                "a sequence is longer than its entries of the block table",
            );
            mine += walk.boxes(length) * walk.heads;
        }
        let before = block::exclusive_sum(mine);
        let total = block::broadcast(before + mine, threads - 1);
        walk.share = total.div_ceil(grid_dim().x / team_ctas).max(kernel.plan.key_warps);
        walk.next = block_idx().x / team_ctas * walk.share;
        walk.end = (walk.next + walk.share).min(total);

        // One thread has counted the sequence of the CTA's first box.
        let found = shared_array::<u32>(2);
        if before <= walk.next && walk.next < before + mine {
            let mut sequence = first;
            let mut offset = walk.next - before;
            let mut boxes = walk.boxes_of_sequence(sequence);
            while boxes <= offset {
                offset -= boxes;
                sequence += 1;
                boxes = walk.boxes_of_sequence(sequence);
            }
            found.store_vector([sequence, offset]);
        }
        sync_threads();
        if walk.is_unfinished() {
            let [sequence, offset] = found.load_vector::<2>();
            walk.sequence = sequence;
            walk.before = offset;
        }
        walk
    }

    /// Whether boxes are left.
    pub(super) fn is_unfinished(&self) -> Reg<bool> {
        self.next.lt(self.end)
    }

    /// The next segment.
    pub(super) fn next(&mut self) -> Segment {
        let length = self.lengths[self.sequence];
        let boxes_of_head = self.boxes(length);
        let (head, first) = (self.before / boxes_of_head, self.before % boxes_of_head);
        let boxes = (boxes_of_head - first).min(self.end - self.next);
        let begin = self.next - first;
        let first_seen = self.first_seen(length);
        let segment = Segment {
            sequence: self.sequence.duplicate(),
            head: head * self.team_ctas + self.member,
            length,
            first_seen,
            first_key: (first_seen / self.kernel.plan.box_keys + first) * self.kernel.plan.box_keys,
            boxes: length.eq(0).select(0u32, boxes),
            first_team: begin / self.share,
            last_team: (begin + boxes_of_head - 1) / self.share,
        };
        self.next += boxes;
        self.before += boxes;
        if self.before == boxes_of_head * self.heads {
            self.before = constant(0);
            self.sequence += 1;
        }
        segment
    }

    /// The first key that any query of a sequence sees.
    fn first_seen(&self, length: Reg<u32>) -> Reg<u32> {
        length - length.min(self.reach)
    }

    /// Boxes of a head of a sequence of that length: one at least, so that the output of a sequence
    /// without keys is written.
    fn boxes(&self, length: Reg<u32>) -> Reg<u32> {
        let box_keys = self.kernel.plan.box_keys;
        (length.div_ceil(box_keys) - self.first_seen(length) / box_keys).max(1)
    }

    /// Boxes of a sequence, of all heads of a CTA.
    fn boxes_of_sequence(&self, sequence: Reg<u32>) -> Reg<u32> {
        self.boxes(self.lengths[sequence]) * self.heads
    }
}

#[device]
impl Segment {
    /// Whether this CTA has all keys of the head.
    pub(super) fn is_whole(&self) -> Reg<bool> {
        self.first_team.eq(self.last_team)
    }
}
