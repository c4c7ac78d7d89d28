//! A histogram of a cluster: bins in shared memory, of which each block adds its part over all blocks.

use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

const THREADS: u32 = 64;
const BINS: u32 = 64;
const BLOCKS: u32 = 2;
const CLUSTERS: u32 = 2;
const LENGTH: u32 = 1000;

impl Mistaken {
    #[kernel]
    fn merged(&self, keys: &Global<u32>, counts: &mut Global<u32>, length: u32) {
        launch::threads(THREADS);
        launch::cluster(BLOCKS, 1, 1);
        let bins = shared_array::<u32>(BINS);
        let taken = shared_array::<u32>(BINS);
        let arrived = Mbarrier::new();
        let (thread, rank) = (thread_idx().x, cluster_rank());
        if thread == 0 {
            arrived.init(if self.is("counts the threads of all blocks") {
                BLOCKS * THREADS
            } else {
                THREADS
            });
            fence_mbarrier_init();
        }
        if self.is("half of the bins cleared") {
            if thread < BINS / 2 {
                bins[thread] = constant(0u32);
            }
        } else if !self.is("bins not cleared") {
            bins[thread] = constant(0u32);
        }
        if self.is("no barrier after clearing") {
            cluster_arrive_relaxed();
            cluster_wait();
        } else {
            cluster_sync();
        }
        let first = block_idx().x * THREADS + thread;

        let end = if self.is("one key too many") { length + 1 } else { length };
        let mut i = first;
        while i < end {
            let key = keys[i];
            let bin = if self.is("a key past the bins") { key % (BINS + 1) } else { key % BINS };
            if self.is("bins counted plainly") {
                bins[bin] += 1u32;
            } else {
                bins.at(bin).reduce_add(1);
            }
            i += BLOCKS * CLUSTERS * THREADS;
        }
        if self.is("sends before the block has counted") {
        } else if self.is("warps meet for the block") {
            sync_warp(ALL_LANES);
        } else {
            sync_threads();
        }
        let peer = if self.is("sends past the cluster") { rank + 1 } else { rank ^ 1 };
        taken.map_to_block(peer)[thread] = bins[thread];
        if self.is("arrives at its own") {
            arrived.arrive();
        } else if self.is("arrives for its block") {
            arrived.at_rank(rank ^ 1).arrive();
        } else if self.is("one thread arrives") {
            if thread == 0 {
                arrived.at_rank(rank ^ 1).arrive_in(Scope::Cluster);
            }
        } else if self.is("arrives before it sends") {
            arrived.at_rank(rank ^ 1).arrive_in(Scope::Cluster);
            taken.map_to_block(peer)[thread] = bins[thread];
        } else {
            arrived.at_rank(rank ^ 1).arrive_in(Scope::Cluster);
        }
        if self.is("waits for the other parity") {
            arrived.wait_parity_in(1, Scope::Cluster);
        } else if self.is("block barrier for the wait") {
            sync_threads();
        } else {
            arrived.wait_parity_in(0, Scope::Cluster);
        }
        let sum = bins[thread] + taken[thread];
        if self.is("every block adds the sum plainly") {
            counts[thread] = counts[thread] + sum;
        } else if self.is("one block adds plainly") {
            if rank == 0 {
                counts[thread] += sum;
            }
        } else if rank == 0 {
            counts.at(thread).reduce_add(sum);
        }
        cluster_sync();
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let keys: Vec<u32> = (0..LENGTH).map(|i| i * 7919 % 1009).collect();
    let kernel = device.compile(&mistaken.merged()?)?;
    let there = device.buffer_from(&keys)?;
    let mut counts = if mistaken.is("counts not cleared") {
        device.uninitialized::<u32>(BINS as usize)?
    } else {
        device.zeros::<u32>(BINS as usize)?
    };
    kernel.launch(&device.stream()?, BLOCKS * CLUSTERS, (&there, &mut counts, LENGTH))?;
    let found = counts.to_vec()?;
    let mut expected = vec![0u32; BINS as usize];
    keys.iter().for_each(|key| expected[(key % BINS) as usize] += 1);
    assert_eq!(found, expected, "{}", mistaken.name());
    Ok(())
}
