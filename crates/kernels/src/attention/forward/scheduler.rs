//! The tile scheduler: which tiles of O there are, in which order CTAs take them, and which keys
//! they see.
//!
//! ```text
//! causal: tiles of 128 queries            the order in which CTAs take them, in one section of two heads
//!   tile 0   ##                           head 0 tile 3, head 1 tile 3, head 0 tile 2, head 1 tile 2, ..
//!   tile 1   ####
//!   tile 2   ######
//!   tile 3   ########
//! ```
//!
//! The K and V of a section's heads are read at the same time, and stay in L2. In a section the
//! longest tiles come first, so that the tiles that end a launch are short. A CTA takes the next
//! tile that nobody has, by a counter in global memory, as soon as its producer is done with one.
//! The CTAs of a cluster take neighboring tiles of a head, and take turns: their tiles are alike.

use warpwright::lang::access::{Access, Ordering, Scope};
use warpwright::prelude::*;

use super::configuration::ForwardKernel;
use crate::attention::score::{self, ScoreOp};

/// What a launch computes.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct ForwardProblem {
    /// Queries and keys of a sequence, of packed sequences at most.
    pub(crate) lengths: [Reg<u32>; 2],
    /// Heads of Q, heads of Q for each head of K and V, and sequences.
    pub(crate) heads: [Reg<u32>; 3],
    /// Keys that a query sees before and after its position.
    pub(crate) window: [Reg<u32>; 2],
    /// Heads of a section, counted through all sequences.
    pub(crate) section: Reg<u32>,
    /// What scores are multiplied by.
    pub(crate) scale: Reg<f32>,
    /// The bound of scores (softcap).
    pub(crate) bound: Reg<f32>,
    /// The first query of each packed sequence, and the number of all.
    pub(crate) query_offsets: Global<u32>,
    /// Likewise of keys; of a paged cache the keys of each sequence.
    pub(crate) keys: Global<u32>,
    /// The block table, and its entries per sequence.
    pub(crate) pages: Global<u32>,
    pub(crate) pages_per_sequence: Reg<u32>,
    /// The slope of each head's bias (ALiBi), and each head's sink.
    pub(crate) slopes: Global<f32>,
    pub(crate) sinks: Global<f32>,
    /// The first element of O, and the elements between its sequences, rows and heads.
    pub(crate) o_strides: [Reg<u64>; 4],
}

#[device]
impl ForwardProblem {
    /// The function of softcap and ALiBi.
    pub(super) fn score(&self, kernel: &ForwardKernel) -> Option<Box<dyn ScoreOp>> {
        let (bound, slopes) = (kernel.capped.then_some(self.bound), kernel.biased.then_some(self.slopes));
        score::of_attention(bound, slopes).map(|score| -> Box<dyn ScoreOp> { score })
    }

    /// The queries of all packed sequences.
    pub(crate) fn packed_rows(&self) -> Reg<u32> {
        self.query_offsets.at(self.heads[2]).load()
    }
}

/// A sequence of a tile.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct Sequence {
    pub(crate) number: Reg<u32>,
    /// Its queries and keys.
    pub(crate) lengths: [Reg<u32>; 2],
    /// Its first query and first key in the matrices; 0 unless they are packed.
    pub(crate) starts: [Reg<u32>; 2],
}

/// A tile of O.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct Tile {
    pub(crate) sequence: Sequence,
    /// The head of Q.
    pub(crate) head: Reg<u32>,
    /// The first query.
    pub(crate) first_row: Reg<u32>,
    /// The blocks of keys that its queries see: from `begin` to before `end`, at least one.
    pub(crate) begin: Reg<u32>,
    pub(crate) end: Reg<u32>,
}

impl Tile {
    /// The matrix of the head of Q: a map's third axis are heads, its fourth sequences that are not packed.
    #[track_caller]
    pub(super) fn matrix(&self, q: &TensorMap, packed: bool) -> MappedMatrix {
        let matrix = MappedMatrix::from(q).batch(self.head);
        if packed { matrix } else { matrix.batch(self.sequence.number) }
    }

    /// Whether it has rows: of packed sequences, tiles past the end of a short one have none.
    #[track_caller]
    pub(crate) fn has_rows(&self, packed: bool) -> Reg<bool> {
        match packed {
            true => self.first_row.lt(self.sequence.lengths[0]),
            false => constant(true),
        }
    }
}

/// The tiles of a launch.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct TileScheduler {
    /// How many tiles, or of clusters pairs of them, there are.
    pub(crate) tiles: Reg<u32>,
    problem: ForwardProblem,
    kernel: ForwardKernel,
    cluster: ClusterGrid,
    /// Rows of a cluster's tiles, and how many there are in a head.
    rows: u32,
    tiles_each: Reg<u32>,
}

#[device]
impl TileScheduler {
    pub(crate) fn new(kernel: ForwardKernel, problem: ForwardProblem, cluster: ClusterGrid) -> Self {
        let rows = kernel.rows() * kernel.cluster;
        let tiles_each = problem.lengths[0].div_ceil(rows);
        let [heads, _, sequences] = problem.heads;
        Self { tiles: tiles_each * heads * sequences, problem, kernel, cluster, rows, tiles_each }
    }

    /// The number of a CTA's first tile.
    pub(crate) fn first(&self) -> Reg<u32> {
        block_idx().x / self.kernel.cluster
    }

    /// The number of the tile after tile `number`; past the last, it is not below `tiles`. One
    /// thread of each CTA calls it, until there is none. `taken` counts the tiles that CTAs have
    /// taken after their first, and is zero before and after a launch.
    pub(crate) fn next(&self, number: Reg<u32>, taken: Global<u32>) -> Reg<u32> {
        if self.kernel.cluster > 1 {
            return number + grid_dim().x / self.kernel.cluster;
        }
        let before = taken.atomic_add(1u32);
        // Of `tiles` calls in all, each CTA's last finds none: nobody calls after this one.
        if before == self.tiles - 1u32 {
            taken.store_with(0, Access::new().ordered(Ordering::Relaxed(Scope::Device)));
        }
        before + grid_dim().x
    }

    /// A tile by its number.
    pub(crate) fn tile(&self, number: Reg<u32>) -> Tile {
        let [heads, _, sequences] = self.problem.heads;
        let section = number / (self.problem.section * self.tiles_each);
        let first_head = section * self.problem.section;
        let heads_here = self.problem.section.min(heads * sequences - first_head);
        let within = number - first_head * self.tiles_each;
        let head = first_head + within % heads_here;
        let first_row = (self.tiles_each - 1u32 - within / heads_here) * self.rows;
        let sequence = self.sequence(head / heads);
        let (begin, end) = self.blocks(&sequence, first_row);
        let first_row = first_row + self.cluster.m() * self.kernel.rows();
        Tile { sequence, head: head % heads, first_row, begin, end }
    }

    fn sequence(&self, number: Reg<u32>) -> Sequence {
        if !self.kernel.packed {
            return Sequence { number, lengths: self.problem.lengths, starts: [constant(0u32); 2] };
        }
        let range = |offsets: Global<u32>| {
            let start = offsets.at(number).load();
            (start, offsets.at(number + 1u32).load() - start)
        };
        let (first_query, queries) = range(self.problem.query_offsets);
        let (first_key, keys) = match self.kernel.page_size {
            Some(_) => (constant(0u32), self.problem.keys.at(number).load()),
            None => range(self.problem.keys),
        };
        Sequence { number, lengths: [queries, keys], starts: [first_query, first_key] }
    }

    /// The blocks of keys that some query of a cluster's tile sees.
    fn blocks(&self, sequence: &Sequence, first_row: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let (_, end) = self.visible(sequence, first_row + (self.rows - 1));
        let end = (end.max(1) as u32).div_ceil(self.kernel.block);
        if !self.kernel.mask.left {
            return (constant(0u32), end);
        }
        let (begin, _) = self.visible(sequence, first_row);
        ((begin as u32 / self.kernel.block).min(end - 1u32), end)
    }

    /// The blocks from `begin` to before `end` that the `rows` rows from `first_row` on see whole.
    pub(crate) fn whole_blocks(
        &self,
        sequence: &Sequence,
        (first_row, rows): (Reg<u32>, u32),
        (begin, end): (Reg<u32>, Reg<u32>),
    ) -> (Reg<u32>, Reg<u32>) {
        let (_, first_end) = self.visible(sequence, first_row);
        let whole_end = (first_end as u32 / self.kernel.block).clamp(begin, end);
        if !self.kernel.mask.left {
            return (begin, whole_end);
        }
        let (last_begin, _) = self.visible(sequence, first_row + (rows - 1));
        ((last_begin as u32).div_ceil(self.kernel.block).clamp(begin, whole_end), whole_end)
    }

    /// The keys that the query `row` sees: from the first to before the second, between 0 and the
    /// number of keys.
    pub(crate) fn visible(&self, sequence: &Sequence, row: Reg<u32>) -> (Reg<i32>, Reg<i32>) {
        let [queries, keys] = sequence.lengths.map(|length| length as i32);
        let [left, right] = self.problem.window.map(|keys| keys as i32);
        let position = row as i32 + (keys - queries);
        let (mut begin, mut end) = (constant(0i32), keys);
        if self.kernel.mask.left {
            begin = (position - left).clamp(0, keys);
        }
        if self.kernel.mask.right {
            end = (position + right + 1i32).clamp(0, keys);
        }
        (begin, end)
    }
}
