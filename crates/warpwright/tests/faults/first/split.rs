//! Row sums split over several blocks: partial sums, a ticket, and the last block of a row adds them.

use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

const THREADS: u32 = 64;
const PARTS: u32 = 4;
const ROWS: u32 = 3;
const COLUMNS: u32 = THREADS * PARTS;

impl Mistaken {
    /// y[row] is the sum of a row of x; block (part, row) adds its part.
    #[kernel]
    fn split(
        &self,
        x: &Global<u32>,
        partial: &mut Global<u32>,
        tickets: &mut Global<u32>,
        y: &mut Global<u32>,
    ) {
        launch::threads(THREADS);
        let (thread, part, row) = (thread_idx().x, block_idx().x, block_idx().y);
        let is_last = shared_array::<u32>(1);
        let from = part * THREADS + row * COLUMNS;
        let value = if self.is("one row too many") { x[from + COLUMNS + thread] } else { x[from + thread] };
        let slot = if self.is("partial sums of all rows at one place") { part } else { row * PARTS + part };
        if self.is("each thread stores its own") {
            partial[slot] = value;
        } else if self.is("sum of a warp for that of a block") {
            let sum = warp::reduce_sum(value);
            if thread % 32 == 0 {
                partial[slot] = sum;
            }
        } else {
            let sum = block::reduce_sum(value);
            if self.is("another thread publishes") {
                if thread == 63 {
                    partial[slot] = sum;
                }
            } else if thread == 0 {
                partial[slot] = sum;
            }
        }
        let ticket = if self.is("one ticket for all rows") { *tickets } else { *tickets + row };
        if self.is("every thread takes a ticket") {
            fence_device();
            is_last[0] = ticket.atomic_add(1);
        } else if self.is("block fence") {
            if thread == 0 {
                fence_block();
                is_last[0] = ticket.atomic_add(1);
            }
        } else if self.is("no fence") {
            if thread == 0 {
                is_last[0] = ticket.atomic_add(1);
            }
        } else if self.is("fence behind the ticket") {
            if thread == 0 {
                is_last[0] = ticket.atomic_add(1);
                fence_device();
            }
        } else if self.is("ticket without an atomic") {
            if thread == 0 {
                fence_device();
                let old = tickets[row];
                tickets[row] = old + 1;
                is_last[0] = old;
            }
        } else if self.is("ticket of the block's scope") {
            if thread == 0 {
                let of_block = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Block);
                is_last[0] = ticket.atomic_add_with(1, of_block);
            }
        } else if thread == 0 {
            fence_device();
            is_last[0] = ticket.atomic_add(1);
            fence_device();
        }
        if !self.is("no barrier behind the ticket") {
            sync_threads();
        }
        let last = if self.is("never the last") { PARTS } else { PARTS - 1 };
        if is_last[0] == last {
            let lane = thread;
            let read = if self.is("adds a part too many") { PARTS + 1 } else { PARTS };
            if thread < 32 {
                let mut mine = constant(0u32);
                if self.is("parts through the read-only path") {
                    if lane < read {
                        mine = (*partial + (row * PARTS + lane)).load_read_only();
                    }
                } else if lane < read {
                    mine = partial[row * PARTS + lane];
                }
                mine = warp::reduce_sum(mine);
                if self.is("all lanes add to the result") {
                    y[row] = y[row] + mine;
                } else if thread == 0 {
                    y[row] = mine;
                    tickets[row] = constant(0u32);
                }
            }
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let x: Vec<u32> = (0..ROWS * COLUMNS).map(|i| i * 7 % 31).collect();
    let kernel = device.compile(&mistaken.split()?)?;
    let stream = device.stream()?;
    let x_there = device.buffer_from(&x)?;
    let mut partial = device.uninitialized::<u32>((ROWS * PARTS) as usize)?;
    let mut tickets = if mistaken.is("tickets not cleared") {
        device.uninitialized::<u32>(ROWS as usize)?
    } else {
        device.zeros::<u32>(ROWS as usize)?
    };
    let mut y = device.uninitialized::<u32>(ROWS as usize)?;
    let grid = if mistaken.is("axes exchanged") { (ROWS, PARTS) } else { (PARTS, ROWS) };
    kernel.launch(&stream, grid, (&x_there, &mut partial, &mut tickets, &mut y))?;
    let found = y.to_vec()?;
    let sum = |row: u32| x[(row * COLUMNS) as usize..][..COLUMNS as usize].iter().sum::<u32>();
    let expected: Vec<u32> = (0..ROWS).map(sum).collect();
    assert_eq!(found, expected, "{}", mistaken.name());
    Ok(())
}
