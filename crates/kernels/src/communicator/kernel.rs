//! The kernel: a CTA for each chunk of a message.

use warpwright::lang::access::Ordering;
use warpwright::lang::control::wait_until;
use warpwright::prelude::*;

use crate::rows::{Chunk, RowElement};
use crate::vector;

/// Threads of a CTA.
pub(super) const THREADS: u32 = 256;
/// CTAs at most. All are resident on any GPU that has a peer, which keeps rounds short.
pub(super) const MAX_CTAS: u32 = 96;
/// Vectors of a thread in a round at most.
pub(super) const VECTORS: u32 = 4;
/// Bytes of a slot.
const SLOT_BYTES: u32 = THREADS * VECTORS * vector::WIDEST_BYTES;
/// Ranks at most: the GPUs of a host.
pub(super) const MAX_RANKS: usize = 8;
/// Slots of a CTA and a rank, which rounds use in turn.
const PARITIES: u32 = 2;

/// What a rank makes of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Collective {
    /// y = their sum.
    Reduce,
    /// y += their sum.
    ReduceAdd,
    /// Rows of y are the rows of all parts, side by side.
    Gather,
}

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CollectiveKernel {
    pub(super) ranks: u32,
    /// Elements of a vector, and vectors of a thread in each round.
    pub(super) lanes: u32,
    pub(super) vectors: u32,
    pub(super) operation: Collective,
    /// Whether the launch overlaps its predecessor.
    pub(super) overlaps: bool,
}

/// The words of a workspace before its slots: a flag for each CTA and rank, then a count of rounds for
/// each CTA.
pub(super) fn words(ranks: u32) -> u32 {
    MAX_CTAS * (ranks + 1)
}

/// Bytes of a workspace.
pub(super) fn workspace_bytes(ranks: u32) -> u32 {
    (4 * words(ranks)).next_multiple_of(vector::WIDEST_BYTES) + MAX_CTAS * PARITIES * ranks * SLOT_BYTES
}

impl CollectiveKernel {
    /// `x` is of `length` elements, in rows of `columns` for a gather. `workspaces` are those of all
    /// ranks, of which this is number `rank`.
    #[kernel]
    pub(super) fn run<T: RowElement>(
        &self,
        x: &Global<T>,
        y: &mut Global<T>,
        workspaces: [u64; MAX_RANKS],
        rank: u32,
        length: u32,
        columns: u32,
    ) {
        launch::threads(THREADS);
        let (thread, cta) = (thread_idx().x, block_idx().x);
        let all = &workspaces[..self.ranks as usize];
        let own = rank_of(all, rank);
        if self.overlaps {
            // What follows loads weights while this kernel waits for the other ranks.
            launch::grid_dependency_launch();
            launch::grid_dependency_wait();
        }
        let rounds = Global::<u32>::from_address_mut(own).at(cta + MAX_CTAS * self.ranks);
        let mut round = rounds.load();
        let of_cta = THREADS * self.lanes * self.vectors;
        for first in (cta * of_cta..length).step_by(grid_dim().x * of_cta) {
            let parity = round & (PARITIES - 1);
            let slots = (cta * PARITIES + parity) * self.ranks;
            round = round + 1u32;
            let mut parts = vec![];
            for vector in 0..self.vectors {
                let at = (vector * THREADS + thread) * self.lanes;
                if first + at < length {
                    let part = Chunk::load(x.at(first + at), self.lanes, Access::new());
                    for workspace in all {
                        part.store(self.slot(*workspace, slots + rank).at(at), Access::new());
                    }
                }
                parts.push(at);
            }
            self.exchange((all, own), cta, rank, round);
            for at in parts {
                if first + at < length {
                    let of_rank = |rank| self.slot::<T>(own, slots + rank).at(at);
                    if self.operation == Collective::Gather {
                        for rank in 0..self.ranks {
                            let to = self.gathered(*y, first + at, rank, columns);
                            Chunk::load(of_rank(rank), self.lanes, Access::new()).store(to, Access::new());
                        }
                    } else {
                        let received = (0..self.ranks).map(|rank| self.load(of_rank(rank)));
                        let adds = self.operation == Collective::ReduceAdd;
                        let held = adds.then(|| self.load(y.at(first + at)));
                        let sums = sum(received.chain(held));
                        Chunk::<T>::of(&sums).store(y.at(first + at), Access::new());
                    }
                }
            }
        }
        // All threads have read the count by the last exchange, or are of a CTA without a round.
        if thread == 0u32 {
            rounds.store(round);
        }
    }

    /// Where element `at` of a rank's part goes in the rows of all parts.
    #[track_caller]
    fn gathered<T: RowElement>(&self, y: Global<T>, at: Reg<u32>, rank: u32, columns: Reg<u32>) -> Global<T> {
        let (row, column) = (at / columns, at % columns);
        let of_all = columns * self.ranks;
        y.at(row.convert::<u64>() * of_all.convert::<u64>()).at(columns * rank + column)
    }

    /// The numbers of a vector.
    #[track_caller]
    fn load<T: RowElement>(&self, from: Global<T>) -> Vec<Reg<f32>> {
        Chunk::load(from, self.lanes, Access::new()).values()
    }

    /// A slot of a workspace.
    #[track_caller]
    fn slot<T: RowElement>(&self, workspace: Reg<u64>, number: Reg<u32>) -> Global<T> {
        let before = (4 * words(self.ranks)).next_multiple_of(vector::WIDEST_BYTES);
        let slots = Global::<T>::from_address_mut(workspace).byte_offset(before.into());
        slots.at(number * (SLOT_BYTES / T::BYTES))
    }
}

/// Ends the waits of all ranks for one that cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AbortKernel {
    pub(super) ranks: u32,
}

/// Rounds that a rank which cannot go on seems to be ahead: more than any rank makes afterwards, and
/// few enough that the count seems to be later.
const ROUNDS_AHEAD: u32 = 1 << 30;

impl AbortKernel {
    /// A thread for each CTA of the other kernel.
    #[kernel]
    pub(super) fn run(&self, workspaces: [u64; MAX_RANKS], rank: u32) {
        launch::threads(THREADS);
        const { assert!(MAX_CTAS <= THREADS) };
        let (all, cta) = (&workspaces[..self.ranks as usize], thread_idx().x);
        if cta < MAX_CTAS {
            let own = Global::<u32>::from_address_mut(rank_of(all, rank));
            let round = own.at(cta + MAX_CTAS * self.ranks).load() + ROUNDS_AHEAD;
            let release = Access::new().ordered(Ordering::Release(Scope::System));
            for workspace in all {
                let flags = Global::<u32>::from_address_mut(*workspace);
                flags.at(cta * self.ranks + rank).store_with(round, release);
            }
        }
    }
}

/// Begins the counts of all ranks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ResetKernel {
    pub(super) ranks: u32,
}

impl ResetKernel {
    /// One CTA, while no rank executes anything.
    #[kernel]
    pub(super) fn run(&self, workspaces: [u64; MAX_RANKS]) {
        launch::threads(THREADS);
        for workspace in &workspaces[..self.ranks as usize] {
            let counts = Global::<u32>::from_address_mut(*workspace);
            for at in (thread_idx().x..words(self.ranks)).step_by(THREADS) {
                counts.at(at).store(0u32);
            }
        }
    }
}

#[device]
impl CollectiveKernel {
    /// Publishes what the CTA has written in the round, and waits for the same of the other ranks.
    fn exchange(&self, (all, own): (&[Reg<u64>], Reg<u64>), cta: Reg<u32>, rank: Reg<u32>, round: Reg<u32>) {
        let release = Access::new().ordered(Ordering::Release(Scope::System));
        let acquire = Access::new().ordered(Ordering::Acquire(Scope::System));
        let flags = cta * self.ranks;
        let peer = thread_idx().x;
        sync_threads();
        if peer < self.ranks {
            let of_peer = Global::<u32>::from_address_mut(rank_of(all, peer));
            of_peer.at(flags + rank).store_with(round, release);
            let flag = Global::<u32>::from_address_mut(own).at(flags + peer);
            // The difference, so that counts may wrap around.
            wait_until(|| (flag.load_with(acquire) - round).bit_cast::<i32>().ge(0));
        }
        sync_threads();
    }
}

/// The elementwise sum of vectors, in their order.
#[track_caller]
fn sum(vectors: impl Iterator<Item = Vec<Reg<f32>>>) -> Vec<Reg<f32>> {
    let plus = |sums: Vec<Reg<f32>>, vector: Vec<Reg<f32>>| {
        sums.into_iter().zip(vector).map(|(sum, value)| sum + value).collect()
    };
    vectors.reduce(plus).unwrap_or_default()
}

/// The workspace of a rank.
#[track_caller]
fn rank_of(all: &[Reg<u64>], rank: Reg<u32>) -> Reg<u64> {
    let last = all[all.len() - 1];
    let others = all.iter().enumerate().take(all.len() - 1);
    others.fold(last, |found, (index, workspace)| rank.eq(index as u32).select(*workspace, found))
}
