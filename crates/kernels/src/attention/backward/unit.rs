//! What a CTA or a cluster computes: dK and dV of 128 keys of a head.
//!
//! ```text
//! causal: blocks of 128 keys              the order of the units of a section of two heads
//!   block 0   ########                    head 0 block 0, head 1 block 0, head 0 block 1, ..
//!   block 1     ######
//!   block 2       ####
//!   block 3         ##
//! ```
//!
//! In a section the longest units come first, so that those that end a launch are short. The Q, dO
//! and dQ of a section's heads stay in L2.

use warpwright::prelude::*;

use super::configuration::KEYS;
use super::range::{BackwardProblem, Keys, element};

/// 128 keys of a head of K and V.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Unit {
    pub(super) sequence: Reg<u32>,
    pub(super) kv_head: Reg<u32>,
    /// Its keys, in 128s of the sequence.
    pub(super) block: Reg<u32>,
    /// The problem of the sequence.
    pub(super) problem: BackwardProblem,
    /// The sequence's first query and first key in the matrices; 0 unless they are packed.
    pub(super) starts: [Reg<u32>; 2],
    /// The line of lse, delta and dQ that the first head of Q has, the sequence's first block of it,
    /// and the blocks of a line.
    pub(super) line: Reg<u32>,
    pub(super) line_start: Reg<u32>,
    pub(super) line_blocks: Reg<u32>,
    packed: bool,
}

/// The head and the number in it of unit `index`, of `heads` that have `units` each: the first units of
/// all heads of a section, then their second ones.
#[device]
fn in_section(
    index: Reg<u32>,
    section: Reg<u32>,
    (heads, units): (Reg<u32>, Reg<u32>),
) -> (Reg<u32>, Reg<u32>) {
    let first = index / (section * units) * section;
    let heads_here = section.min(heads - first);
    let within = index - first * units;
    (first + within % heads_here, within / heads_here)
}

#[device]
impl Unit {
    /// Unit `index` of a launch whose blocks have `rows` queries. The first of a head has its first keys,
    /// which most queries of a causal mask see; or, where the order of additions is fixed, the last keys,
    /// which have the first turn.
    pub(super) fn new(
        index: Reg<u32>,
        problem: BackwardProblem,
        (packed, deterministic): (bool, bool),
        rows: u32,
    ) -> Unit {
        let ([queries, keys], [kv_heads, group]) = (problem.lengths, problem.heads);
        let in_order = |index, blocks: Reg<u32>| if deterministic { blocks - 1u32 - index } else { index };
        if !packed {
            let blocks = keys.div_ceil(KEYS);
            let (matrix, number) = in_section(index, problem.section, (kv_heads * problem.sequences, blocks));
            return Unit {
                sequence: matrix / kv_heads,
                kv_head: matrix % kv_heads,
                block: in_order(number, blocks),
                problem,
                starts: [constant(0); 2],
                line: matrix * group,
                line_start: constant(0),
                line_blocks: queries.div_ceil(rows),
                packed,
            };
        }
        let [query_blocks, key_blocks] = problem.packed_blocks(rows);
        let blocks = key_blocks.count(keys);
        let (kv_head, number) = in_section(index, problem.section, (kv_heads, blocks));
        let number = in_order(number, blocks);
        let of_keys = key_blocks.sequence_of(number);
        let of_queries = query_blocks.sequence(of_keys.number);
        let block = number - of_keys.first_block;
        // A block without keys needs no queries.
        let is_empty = of_keys.count.le(block * KEYS);
        let lengths = [is_empty.select(0u32, of_queries.count), of_keys.count];
        Unit {
            sequence: of_keys.number,
            kv_head,
            block,
            problem: BackwardProblem { lengths, ..problem },
            starts: [of_queries.first, of_keys.first],
            line: kv_head * group,
            line_start: of_queries.first_block,
            line_blocks: query_blocks.count(queries),
            packed,
        }
    }

    pub(super) fn keys(self) -> Keys {
        Keys { first: self.block * KEYS, count: KEYS }
    }

    /// The matrix of a head: a map's third axis are heads, its fourth sequences that are not packed.
    pub(super) fn matrix(self, map: &TensorMap, head: Reg<u32>) -> MappedMatrix {
        let matrix = MappedMatrix::from(map).batch(head);
        if self.packed { matrix } else { matrix.batch(self.sequence) }
    }

    /// The index of the first element of a key in dK or dV.
    pub(super) fn key_element(self, strides: [Reg<u64>; 4], key: Reg<u32>) -> Reg<u64> {
        let sequence = if self.packed { constant(0u32) } else { self.sequence };
        element(strides, [sequence, self.starts[1] + key, self.kv_head])
    }

    /// The sequence's first block of queries of the unit's first head, among all.
    pub(super) fn first_block(self) -> Reg<u32> {
        self.line * self.line_blocks + self.line_start
    }
}
