//! Row 22: the shared memory of other CTAs of the cluster.

use warpwright::prelude::*;

use crate::faults::fault::{Twin, faults, input, run};

faults! {
    peer_synchronized_with_itself_alone: [22], "race", run(2, 32, |i| input(i ^ 32));
    peer_that_has_exited: [22], "peer-not-resident", run(2, 32, |i| input(i ^ 32));
    arrival_at_a_peers_mbarrier_too_early: [22, 10], "barrier", run(2, 32, |i| input(i ^ 32));
    arrival_for_the_cta_alone: [22, 25], "race", run(2, 32, |i| input(i ^ 32));
    arrival_that_releases_to_its_own_cta: [22, 25], "race", run(2, 32, |i| input(i ^ 32));
    cluster_barrier_that_orders_nothing: [22], "race", run(2, 32, |i| input(i ^ 32));
    peers_slot_overwritten: [22, 16], "race", run(2, 32, |i| 2 * input(i ^ 32) + 1);
    multicast_that_one_peer_does_not_expect: [22, 12], "barrier", run(2, 32, |i| input(i % 32));
}

impl Twin {
    /// Each CTA of a pair reads what the other one has written, and meets its own threads only.
    #[kernel]
    fn peer_synchronized_with_itself_alone(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::cluster(2, 1, 1);
        let row = shared_array::<u32>(32);
        let (thread, rank) = (thread_idx().x, cluster_rank());
        cluster_sync();
        row[thread] = input[rank * 32 + thread]; // (2)
        if self.mended {
            cluster_sync();
        } else {
            sync_threads();
        }
        output[rank * 32 + thread] = row.map_to_block(rank ^ 1)[thread]; // (1)
        cluster_sync();
    }

    /// The same; a CTA may be gone when the other one reads from it.
    #[kernel]
    fn peer_that_has_exited(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::cluster(2, 1, 1);
        let row = shared_array::<u32>(32);
        let (thread, rank) = (thread_idx().x, cluster_rank());
        row[thread] = input[rank * 32 + thread];
        cluster_sync();
        output[rank * 32 + thread] = row.map_to_block(rank ^ 1)[thread]; // (1)
        if self.mended {
            cluster_sync();
        }
    }

    /// Each CTA tells the other one's mbarrier, which may not be initialized yet.
    #[kernel]
    fn arrival_at_a_peers_mbarrier_too_early(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::cluster(2, 1, 1);
        let (row, arrived) = (shared_array::<u32>(32), Mbarrier::new());
        let (thread, rank) = (thread_idx().x, cluster_rank());
        cluster_sync();
        if thread == 0 {
            arrived.init(32);
            fence_mbarrier_init();
        }
        if self.mended {
            cluster_sync();
        } else {
            sync_threads();
        }
        row.map_to_block(rank ^ 1)[thread] = input[rank * 32 + thread];
        arrived.at_rank(rank ^ 1).arrive_in(Scope::Cluster); // (1)
        arrived.wait_parity_in(0, Scope::Cluster);
        output[rank * 32 + thread] = row[thread];
        cluster_sync();
    }

    /// Each CTA writes to the other one and arrives at its mbarrier; the wait is for the CTA's own
    /// threads.
    #[kernel]
    fn arrival_for_the_cta_alone(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::cluster(2, 1, 1);
        let (row, arrived) = (shared_array::<u32>(32), Mbarrier::new());
        let (thread, rank) = (thread_idx().x, cluster_rank());
        if thread == 0 {
            arrived.init(32);
            fence_mbarrier_init();
        }
        cluster_sync();
        if self.mended {
            row.map_to_block(rank ^ 1)[thread] = input[rank * 32 + thread];
            arrived.at_rank(rank ^ 1).arrive_in(Scope::Cluster);
        } else {
            arrived.at_rank(rank ^ 1).arrive_in(Scope::Cluster);
            row.map_to_block(rank ^ 1)[thread] = input[rank * 32 + thread]; // (1)
        }
        arrived.wait_parity_in(0, Scope::Cluster);
        output[rank * 32 + thread] = row[thread]; // (2)
        cluster_sync();
    }

    /// Each CTA writes to the other one and then arrives there, with PTX's default scope.
    #[kernel]
    fn arrival_that_releases_to_its_own_cta(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::cluster(2, 1, 1);
        let (row, arrived) = (shared_array::<u32>(32), Mbarrier::new());
        let (thread, rank) = (thread_idx().x, cluster_rank());
        if thread == 0 {
            arrived.init(32);
            fence_mbarrier_init();
        }
        cluster_sync();
        row.map_to_block(rank ^ 1)[thread] = input[rank * 32 + thread]; // (2)
        if self.mended {
            arrived.at_rank(rank ^ 1).arrive_in(Scope::Cluster);
        } else {
            arrived.at_rank(rank ^ 1).arrive(); // (2)
        }
        arrived.wait_parity_in(0, Scope::Cluster);
        output[rank * 32 + thread] = row[thread]; // (1)
        cluster_sync();
    }

    /// Each CTA of a pair reads what the other one has written; they meet, and release nothing.
    #[kernel]
    fn cluster_barrier_that_orders_nothing(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::cluster(2, 1, 1);
        let row = shared_array::<u32>(32);
        let (thread, rank) = (thread_idx().x, cluster_rank());
        row[thread] = input[rank * 32 + thread]; // (2)
        if self.mended {
            cluster_arrive();
        } else {
            cluster_arrive_relaxed();
        }
        cluster_wait();
        output[rank * 32 + thread] = row.map_to_block(rank ^ 1)[thread]; // (1)
        cluster_sync();
    }

    /// Each CTA writes to the other one in two rounds, the second of which does not wait until the
    /// first has been read.
    #[kernel]
    fn peers_slot_overwritten(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::cluster(2, 1, 1);
        let row = shared_array::<u32>(32);
        let (thread, rank) = (thread_idx().x, cluster_rank());
        let mut sum = constant(0u32);
        cluster_sync();
        for round in 0..constant(2u32) {
            row.map_to_block(rank ^ 1)[thread] = input[rank * 32 + thread] + round; // (1)
            cluster_sync();
            sum += row[31 - thread]; // (2)
            if self.mended {
                cluster_sync();
            }
        }
        output[rank * 32 + 31 - thread] = sum;
        cluster_sync();
    }

    /// One CTA loads a row for both; the other one does not know how many bytes to expect.
    #[kernel]
    fn multicast_that_one_peer_does_not_expect(&self, input: &Global<u32>, output: &mut Global<u32>) {
        launch::cluster(2, 1, 1);
        let (row, full) = (dynamic_shared_aligned::<u32>(32, 128), Mbarrier::new());
        let (thread, rank) = (thread_idx().x, cluster_rank());
        if thread == 0 {
            full.init(1);
            fence_mbarrier_init();
        }
        cluster_sync();
        if thread == 0 {
            // What is no constant is not compared when the kernel is built.
            let bytes = constant(128u32);
            if self.mended {
                full.arrive_and_expect(bytes);
            } else if rank == 0 {
                full.arrive_and_expect(bytes);
            } else {
                full.arrive(); // (2)
            }
            if rank == 0 {
                bulk::Load::new(*input, 32).multicast(3u16).start(row, full); // (1)
            }
        }
        full.wait_parity(0);
        output[rank * 32 + thread] = row[thread];
        cluster_sync();
    }
}
