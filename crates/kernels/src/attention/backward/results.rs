//! How consumers write dQ, dK and dV to global memory.

use warpwright::arch::limits::WARPGROUP_SIZE;
use warpwright::lang::control::wait_until;
use warpwright::prelude::*;

use super::configuration::{GradientForm, KEYS};
use super::unit::Unit;
use crate::attention::accumulator::{column_of, row_of};
use crate::attention::problem::{AttentionElement, MaskBounds};

/// Where dQ in f32, its turns, dK and dV go.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Results<T> {
    pub(super) dq: Global<f32>,
    pub(super) turns: Global<u32>,
    pub(super) dk: Global<T>,
    pub(super) dv: Global<T>,
}

/// dQ in f32 of the heads of Q that share the unit's head of K: blocks of queries, each in the order
/// of the threads' registers, 4 elements of a thread next to each other.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct QuerySums {
    sums: Global<f32>,
    /// Elements of a block, and the threads that have them.
    elements: u32,
    threads: u32,
    /// Who adds when, if the order is fixed.
    pub(super) turns: Option<Turns>,
}

#[device]
impl QuerySums {
    /// dQ of a unit: blocks of `rows` queries by `columns`, of which a warpgroup has one of `parts`.
    pub(super) fn new<T: AttentionElement>(
        results: Results<T>,
        (unit, form): (Unit, GradientForm),
        (rows, columns): (u32, u32),
        parts: u32,
    ) -> Self {
        let (first_block, elements) = (unit.first_block(), rows * columns);
        Self {
            sums: results.dq.at(first_block as u64 * u64::from(elements)),
            elements,
            threads: parts * WARPGROUP_SIZE,
            turns: form.deterministic.then(|| Turns {
                counters: results.turns.at(first_block * parts),
                parts,
                rows,
                unit,
                mask: form.mask,
            }),
        }
    }

    /// Adds the warpgroup's part of block `number`; `thread` is the index among all `threads`.
    pub(super) fn add(self, part: &Fragment<f32>, number: Reg<u32>, thread: Reg<u32>, role: Role) {
        if let Some(turns) = self.turns {
            turns.wait(number, thread / 128, role);
        }
        let target = self.sums.at(number as u64 * u64::from(self.elements)).at(thread * 4u32);
        for i in (0..part.len()).step_by(4) {
            let values = [0, 1, 2, 3].map(|j: u32| part.get(i + j));
            target.at(i * self.threads).reduce_add_vector(values, Atomicity::default());
        }
        if let Some(turns) = self.turns {
            turns.pass(number, thread / 128, role);
        }
    }
}

/// Turns of the units that add to one block of dQ: those of later keys come first.
///
/// A unit waits only for units that begin before it, since CTAs start in the order of their indices
/// and the last keys have the lowest. Of a causal mask a unit's first block is the first that sees
/// its keys, so that no unit waits for one that has much to do before.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Turns {
    /// The number of units that have added: (block of queries, part of the columns).
    counters: Global<u32>,
    parts: u32,
    /// Queries of a block.
    rows: u32,
    unit: Unit,
    mask: MaskBounds,
}

#[device]
impl Turns {
    /// Waits until all units of later keys have added to the block.
    fn wait(self, number: Reg<u32>, part: Reg<u32>, role: Role) {
        let [queries, keys] = self.unit.problem.lengths;
        let mut last = keys.div_ceil(KEYS) - 1u32;
        if self.mask.right {
            // The block's last query sees the keys up to its position + right.
            let query = (number % self.unit.line_blocks * self.rows + (self.rows - 1)) as i32;
            let key = query + (keys as i32 - queries as i32) + self.unit.problem.window[1] as i32;
            last = last.min(key.max(0) as u32 / KEYS);
        }
        if role.leads_warpgroup() {
            let acquire = Access::new().ordered(AccessOrdering::Acquire(Scope::Device));
            wait_until(|| self.counter(number, part).load_with(acquire).eq(last - self.unit.block));
        }
        role.sync_warpgroup();
    }

    fn pass(self, number: Reg<u32>, part: Reg<u32>, role: Role) {
        role.sync_warpgroup();
        if role.leads_warpgroup() {
            let release = Atomicity::new(AtomicOrdering::Release, Scope::Device);
            self.counter(number, part).reduce_add_with(1u32, release);
        }
    }

    fn counter(self, number: Reg<u32>, part: Reg<u32>) -> Global<u32> {
        self.counters.at(number * self.parts + part)
    }
}

/// The keys of which a warpgroup has dK and dV.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct KeyRows {
    pub(super) unit: Unit,
    /// The warpgroup's first key, and the thread's index in it.
    pub(super) first: Reg<u32>,
    pub(super) thread: Reg<u32>,
}

#[device]
impl KeyRows {
    /// Stores dK or dV, times `scale`, at its strides. Columns past the first `d` do not exist in
    /// memory.
    pub(super) fn store<T: AttentionElement>(
        self,
        gradient: &Fragment<f32>,
        scale: Reg<f32>,
        (target, strides, d): (Global<T>, [Reg<u64>; 4], u32),
    ) {
        let row = self.first + self.thread / 32 * 16 + self.thread % 32 / 4;
        let rows = [row, row + 8u32];
        let [_, keys] = self.unit.problem.lengths;
        for half in 0..2 {
            if rows[half] < keys {
                let column = self.thread % 4 * 2;
                let start = self.unit.key_element(strides, rows[half]);
                let target = target.at(start + column as u64).cast::<u32>();
                let of_row = |i: &u32| row_of(*i) == half && column_of(*i) < d;
                for i in (0..gradient.len()).step_by(2).filter(of_row) {
                    let [low, high] = [i, i + 1].map(|i| gradient.get(i) * scale);
                    target.at(column_of(i) / 2).store(T::pack(low, high));
                }
            }
        }
    }
}
