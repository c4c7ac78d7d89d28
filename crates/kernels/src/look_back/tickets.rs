//! Tickets: the order in which CTAs take tiles, and the launch that a published word belongs to.

use warpwright::prelude::*;
use warpwright::runtime::Compiled;

use crate::operations::{OperationError, Operations, Result};

/// Bits of a status, below the index of the launch.
const STATUS_BITS: u32 = 2;

/// A dynamic tile scheduler: hands out the tiles of a launch in order.
///
/// A CTA holds several tickets at once: that of its tile, and those of the tiles in flight. It
/// takes one more for each tile it has processed, and stops when its tile is past the last one.
pub(crate) struct TileQueue {
    counter: Global<u64>,
    tiles: Reg<u32>,
    held: u32,
    /// Tickets that one thread took, broadcast to the CTA.
    shown: Shared<u64>,
}

/// A tile and the index of the launch.
#[derive(Clone, Copy, DeviceValue)]
pub(crate) struct Ticket {
    /// The tile, or one past the last.
    pub(crate) tile: Reg<u32>,
    /// The index of the launch, shifted above the status.
    pub launch: Reg<u32>,
}

impl Ticket {
    /// The ticket of a value of the counter.
    #[track_caller]
    fn of(count: Reg<u64>) -> Self {
        Self { tile: count.convert(), launch: (count >> 32u32).convert::<u32>() << STATUS_BITS }
    }

    /// Takes the next ticket of `counter` for the CTA, in a launch of `tiles` CTAs with one tile
    /// each.
    #[device]
    pub(crate) fn take(counter: &Global<u64>, tiles: Reg<u32>) -> Self {
        let taken = shared_array::<u64>(1);
        if thread_idx().x == 0 {
            let ticket = counter.atomic_add(1u64);
            taken.store(ticket);
            begin_next_launch(counter, ticket, tiles - 1);
        }
        sync_threads();
        Self::of(taken.load())
    }
}

/// Sets the counter to the first ticket of the next launch if `ticket` is the last of this one.
#[device]
fn begin_next_launch(counter: &Global<u64>, ticket: Reg<u64>, last: Reg<u32>) {
    if ticket.convert::<u32>() == last {
        let next_launch = ((ticket >> 32u32) + 1) << 32u32;
        counter.store_with(next_launch, Access::new().ordered(AccessOrdering::Relaxed(Scope::Device)));
    }
}

impl TileQueue {
    /// The scheduler of `tiles` tiles with a counter, for CTAs that hold `held` tickets at once.
    #[track_caller]
    pub(crate) fn new(counter: &Global<u64>, tiles: Reg<u32>, held: u32) -> Self {
        Self { counter: *counter, tiles, held, shown: shared_array(held + 1) }
    }

    /// Whether a ticket has a tile.
    #[track_caller]
    pub(crate) fn has(&self, ticket: Ticket) -> Reg<bool> {
        ticket.tile.lt(self.tiles)
    }

    /// Takes the next ticket. Called by one thread, which can do other work before it
    /// [`show`](Self::show)s the ticket: the atomic has latency.
    #[track_caller]
    pub(crate) fn take(&self) -> Reg<u64> {
        self.counter.atomic_add(1u64)
    }

    /// Broadcasts a ticket, which the threads of the CTA [`see`](Self::see) after the next barrier.
    /// Called by the thread that took it.
    #[track_caller]
    pub(crate) fn show(&self, ticket: Reg<u64>) {
        self.show_in(self.held, ticket);
    }

    #[device]
    fn show_in(&self, slot: u32, ticket: Reg<u64>) {
        begin_next_launch(&self.counter, ticket, self.tiles + (grid_dim().x * self.held - 1));
        self.shown.at(slot).store(ticket);
    }

    /// The ticket that was broadcast before the last barrier.
    #[track_caller]
    pub(crate) fn see(&self) -> Ticket {
        Ticket::of(self.shown.at(self.held).load())
    }

    /// The first tickets of the CTA, as many as it holds.
    #[device]
    pub(crate) fn first(&self) -> Vec<Ticket> {
        if thread_idx().x == 0 {
            let tickets: Vec<_> = (0..self.held).map(|_| self.take()).collect();
            for (slot, ticket) in tickets.into_iter().enumerate() {
                self.show_in(slot as u32, ticket);
            }
        }
        sync_threads();
        (0..self.held).map(|slot| Ticket::of(self.shown.at(slot).load())).collect()
    }
}

impl Operations {
    /// The grid of persistent CTAs for `tiles` tiles, with `held` tickets per CTA.
    ///
    /// # Errors
    /// The tickets exceed 32 bits.
    pub(crate) fn persistent_grid<Args>(
        &self,
        what: &'static str,
        kernel: &Compiled<Args>,
        tiles: u64,
        held: u32,
    ) -> Result<u32> {
        let reason = || format!("it has {tiles} tiles, more than 2^32; do it in parts");
        let grid = persistent_grid(tiles, self.resident(kernel)?, held);
        grid.ok_or_else(|| OperationError::Shape { what, reason: reason() })
    }
}

/// The grid of persistent CTAs for `tiles` tiles, where `resident` CTAs fit the device. `None`
/// where the tickets, `held` per CTA, exceed 32 bits.
pub(crate) fn persistent_grid(tiles: u64, resident: u32, held: u32) -> Option<u32> {
    let tickets = tiles + u64::from(resident) * u64::from(held);
    let grid = u32::try_from(tiles).unwrap_or(u32::MAX).min(resident);
    (tickets < u64::from(u32::MAX)).then_some(grid)
}
