//! A prefix sum in one pass: each block draws a tile, publishes its sum, and looks back at the tiles before it.

use warpwright::lang::access::Ordering;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device};

use crate::faults::first::{Error, Mistaken};

const THREADS: u32 = 64;
const LENGTH: u32 = 1500;
const TILES: u32 = LENGTH.div_ceil(THREADS);
/// What the state of a tile is: its own sum is published, or that of it and all tiles before it.
const SUM: u32 = 1;
const PREFIX: u32 = 2;

impl Mistaken {
    /// The state of a tile is no longer 0 when another block reads its sums.
    fn publish(self, state: Global<u32>, value: u32) {
        let release = Access::new().ordered(match self.name() {
            "published without a release" => Ordering::Relaxed(Scope::Device),
            "published within the block" => Ordering::Release(Scope::Block),
            "published by a plain store" => Ordering::Weak,
            "published by a volatile store" => Ordering::Volatile,
            _ => Ordering::Release(Scope::Device),
        });
        state.store_with(value, release);
    }

    /// The state of a tile once it is not 0.
    fn observe(self, state: Global<u32>) -> Reg<u32> {
        let acquire = Access::new().ordered(match self.name() {
            "observed without an acquire" => Ordering::Relaxed(Scope::Device),
            "observed within the block" => Ordering::Acquire(Scope::Block),
            "observed by a plain load" => Ordering::Weak,
            _ => Ordering::Acquire(Scope::Device),
        });
        if !self.is("observed once") {
            wait_until(|| state.load_with(acquire).ne(0u32));
        }
        state.load_with(acquire)
    }

    /// Tiles are drawn from `drawn`; `sums` has the sum of each tile, and `prefixes` the sum of all up to it.
    #[kernel]
    fn look_back(
        &self,
        x: &Global<u32>,
        drawn: &mut Global<u32>,
        states: &mut Global<u32>,
        sums: &mut Global<u32>,
        prefixes: &mut Global<u32>,
        y: &mut Global<u32>,
        length: u32,
    ) {
        launch::threads(THREADS);
        let (tile_of_block, before) = (shared_array::<u32>(1), shared_array::<u32>(1));
        let thread = thread_idx().x;
        if self.is("each thread draws") {
            tile_of_block[0] = drawn.atomic_add(1);
        } else if self.is("each warp draws") {
            if thread % 32 == 0 {
                tile_of_block[0] = drawn.atomic_add(1);
            }
        } else if self.is("drawn without an atomic") {
            if thread == 0 {
                tile_of_block[0] = drawn[0];
                drawn[0] += 1;
            }
        } else if thread == 0 {
            tile_of_block[0] = drawn.atomic_add(1);
        }
        if !self.is("no barrier behind the draw") {
            sync_threads();
        }
        let tile = tile_of_block[0];
        let i = tile * THREADS + thread;
        let mut value = constant(0u32);
        if self.is("loads past the end") {
            value = x[i];
        } else if i < length {
            value = x[i];
        }
        let sum = block::inclusive_sum(value);
        if thread == THREADS - 1 {
            let state = *states + tile;
            if self.is("published before the sum is stored") {
                self.publish(state, SUM);
                sums[tile] = sum;
            } else {
                sums[tile] = sum;
                self.publish(state, SUM);
            }
            let mut all = constant(0u32);
            let mut next = tile;
            while next > 0 {
                next -= if self.is("looks back two tiles") { 2 } else { 1 };
                let seen = self.observe(*states + next);
                if seen == PREFIX {
                    all += prefixes[next];
                    next = constant(0u32);
                } else {
                    all += sums[next];
                }
            }
            if self.is("prefix in place of the sum") {
                sums[tile] = all + sum;
                prefixes[tile] = all + sum;
                self.publish(state, PREFIX);
            } else if self.is("published before the prefix is stored") {
                self.publish(state, PREFIX);
                prefixes[tile] = all + sum;
            } else {
                prefixes[tile] = all + sum;
                self.publish(state, PREFIX);
            }
            before[0] = all;
        }
        if !self.is("no barrier behind the look-back") {
            sync_threads();
        }
        if self.is("stores past the end") {
            y[i] = before[0] + sum;
        } else if i < length {
            y[i] = before[0] + sum;
        }
    }

    /// Sets the states of all tiles to 0, and the number of drawn tiles.
    #[kernel]
    fn clear(&self, drawn: &mut Global<u32>, states: &mut Global<u32>) {
        launch::threads(THREADS);
        let thread = thread_idx().x;
        if thread == 0 && !self.is("draws not cleared") {
            drawn[0] = constant(0u32);
        }
        let first = if self.is("half of the states cleared") { TILES / 2 } else { 0 };
        if thread >= first && thread < TILES {
            states[thread] = constant(0u32);
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let x: Vec<u32> = (0..LENGTH).map(|i| i * 7 % 31).collect();
    let (clear, scan) = (device.compile(&mistaken.clear()?)?, device.compile(&mistaken.look_back()?)?);
    let (stream, other) = (device.stream()?, device.stream()?);
    let there = device.buffer_from(&x)?;
    let tiles = if mistaken.is("states of a tile too few") { TILES - 1 } else { TILES };
    let uninitialized = |length: u32| device.uninitialized::<u32>(length as usize);
    let (mut drawn, mut states) = (uninitialized(1)?, uninitialized(TILES)?);
    let (mut sums, mut prefixes) = (uninitialized(tiles)?, uninitialized(TILES)?);
    let mut y = uninitialized(LENGTH)?;
    let clear = |drawn: &mut Buffer<u32>, states: &mut Buffer<u32>| match mistaken.name() {
        "cleared in another stream" => clear.launch(&other, 1, (drawn, states)),
        _ => clear.launch(&stream, 1, (drawn, states)),
    };
    let blocks = match mistaken.name() {
        "one block too few" => TILES - 1,
        "one block too many" => TILES + 1,
        _ => TILES,
    };
    let length = if mistaken.is("length of all tiles") { TILES * THREADS } else { LENGTH };
    for _ in 0..2 {
        if !mistaken.is("cleared after the scan") && !mistaken.is("not cleared") {
            clear(&mut drawn, &mut states)?;
        }
        let arguments = (&there, &mut drawn, &mut states, &mut sums, &mut prefixes, &mut y, length);
        scan.launch(&stream, blocks, arguments)?;
        if mistaken.is("cleared after the scan") {
            clear(&mut drawn, &mut states)?;
        }
    }
    let mut sum = 0;
    let expected: Vec<u32> = x.iter().map(|value| (sum += value, sum).1).collect();
    assert_eq!(y.to_vec()?, expected, "{}", mistaken.name());
    Ok(())
}
