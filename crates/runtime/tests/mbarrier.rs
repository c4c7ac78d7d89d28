//! Every operation that arrives at an mbarrier or waits for it, on the emulated H200 with checkers
//! and on a GPU that has clusters: a phase completes with the last arrival and the last byte, not
//! earlier, and later phases do not wait for threads that dropped out.

use warpwright_lang::access::Scope;
use warpwright_lang::block::sync_threads;
use warpwright_lang::cluster::{
    cluster_arrive_diverged, cluster_rank, cluster_sync, cluster_sync_diverged, cluster_wait_diverged,
};
use warpwright_lang::fence::fence_mbarrier_init;
use warpwright_lang::mbarrier::{Arrival, Mbarrier, PhaseEnd};
use warpwright_lang::pointer::Global;
use warpwright_lang::special::{block_idx, thread_idx};
use warpwright_lang::{Reg, device, kernel, launch};

use crate::with_clusters::devices;

/// The memory order of the arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Default,
    Ordered(Scope),
    Relaxed(Scope),
}

const ORDERS: [Order; 5] = [
    Order::Default,
    Order::Ordered(Scope::Block),
    Order::Ordered(Scope::Cluster),
    Order::Relaxed(Scope::Block),
    Order::Relaxed(Scope::Cluster),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    One,
    Two,
    TwoWithoutEnding,
    OneWithBytes,
}

/// How 32 threads arrive.
#[derive(Clone, Copy, Debug)]
struct Arrivals {
    order: Order,
    kind: Kind,
    drop: bool,
    /// From the other CTA of the pair.
    remote: bool,
}

/// Transaction bytes that each expecting arrival adds.
const BYTES: u32 = 4;

impl Arrivals {
    fn arrival(self) -> Arrival {
        let arrival = if self.drop { Arrival::new().dropping() } else { Arrival::new() };
        let arrival = match self.kind {
            Kind::One => arrival,
            Kind::Two => arrival.times(2),
            Kind::TwoWithoutEnding => arrival.times(2).without_ending(),
            Kind::OneWithBytes => arrival.expecting(BYTES),
        };
        match self.order {
            Order::Default => arrival,
            Order::Ordered(scope) => arrival.releasing(scope),
            Order::Relaxed(scope) => arrival.relaxed(scope),
        }
    }

    /// The arrival count of each thread.
    fn times(self) -> u32 {
        if matches!(self.kind, Kind::Two | Kind::TwoWithoutEnding) { 2 } else { 1 }
    }

    /// The 32 threads arrive at the barrier of the first CTA, then one more thread arrives, then
    /// one more. `seen` records whether the phase is complete: bit 0 before the last arrival, bit 1
    /// after it and before the bytes, bit 2 after everything; bits 3 to 5 are the same for the next
    /// phase, without the threads that dropped out.
    #[kernel]
    fn run(&self, seen: &mut Global<u32>) {
        launch::threads(32);
        launch::cluster(2, 1, 1);
        let barrier = Mbarrier::new();
        let thread = thread_idx().x;
        if thread == 0 {
            barrier.init(32 * self.times() + 1);
            fence_mbarrier_init();
        }
        cluster_sync();
        let bits = self.phase(barrier, 0) | self.phase(barrier, 1) << 3;
        if cluster_rank() == 0 {
            seen[thread] = bits;
        }
    }

    /// One phase. Only the barrier of the first CTA is used; that of the second never completes.
    #[device]
    fn phase(&self, barrier: Mbarrier, parity: u32) -> Reg<u32> {
        let comes = cluster_rank() == u32::from(self.remote);
        if comes {
            self.arrive(barrier, parity);
        }
        cluster_sync();
        let before = barrier.test_wait_parity(parity).to_u32();
        cluster_sync();
        if (cluster_rank() == 0) & (thread_idx().x == 0) {
            barrier.arrive();
        }
        cluster_sync();
        let between = barrier.test_wait_parity(parity).to_u32();
        cluster_sync();
        if comes {
            self.complete(barrier, parity);
        }
        cluster_sync();
        let after = barrier.test_wait_parity(parity).to_u32();
        cluster_sync();
        before | between << 1 | after << 2
    }

    /// Whether the 32 threads arrive in the phase of this parity.
    fn come(self, parity: u32) -> bool {
        parity == 0 || !self.drop
    }

    fn arrive(self, barrier: Mbarrier, parity: u32) {
        match (self.come(parity), self.remote) {
            (false, _) => {}
            (true, false) => drop_value(barrier.arrive_as(self.arrival())),
            (true, true) => barrier.at_rank(0).arrive_as(self.arrival()),
        }
    }

    fn complete(self, barrier: Mbarrier, parity: u32) {
        if self.come(parity) && self.kind == Kind::OneWithBytes {
            match self.remote {
                false => barrier.complete_in(BYTES, Scope::Block),
                true => barrier.at_rank(0).complete(BYTES),
            }
        }
    }

    fn is_legal(self) -> bool {
        let plain = matches!(self.order, Order::Default | Order::Ordered(Scope::Block));
        self.kind != Kind::TwoWithoutEnding || (plain && !self.remote)
    }

    /// What a phase reports.
    fn expected(self, parity: u32) -> u32 {
        if self.come(parity) && self.kind == Kind::OneWithBytes { 0b100 } else { 0b110 }
    }
}

/// The state that the arrival returns is unused.
fn drop_value(_: Reg<u64>) {}

#[test]
fn phases_end_with_the_last_of_every_kind_of_arrival() {
    let kinds = [Kind::One, Kind::Two, Kind::TwoWithoutEnding, Kind::OneWithBytes];
    let mut ran = 0;
    for device in devices() {
        for (order, kind) in ORDERS.into_iter().flat_map(|order| kinds.map(|kind| (order, kind))) {
            for (drop, remote) in [(false, false), (false, true), (true, false), (true, true)] {
                let arrivals = Arrivals { order, kind, drop, remote };
                if !arrivals.is_legal() {
                    continue;
                }
                let staged = arrivals.run().unwrap_or_else(|errors| panic!("{arrivals:?}: {errors}"));
                let kernel = device.compile(&staged).expect("it compiles");
                let mut seen = device.uninitialized::<u32>(32).expect("it fits");
                let stream = device.stream().expect("a stream");
                kernel.launch(&stream, 2, (&mut seen,)).expect("it fits");
                let seen = seen.to_vec().unwrap_or_else(|error| panic!("{arrivals:?}: {error}"));
                let expected = arrivals.expected(0) | arrivals.expected(1) << 3;
                assert!(
                    seen.iter().all(|&bits| bits == expected),
                    "{arrivals:?}: {seen:?}, not {expected:#b}"
                );
                ran += 1;
            }
        }
    }
    assert!(ran >= 5 * 3 * 4 + 2 * 2, "every order, kind and place: {ran}");
}

/// How a thread tests for the end of a phase.
#[derive(Clone, Copy, Debug)]
struct Wait {
    order: Order,
    by_parity: bool,
    limited: bool,
}

impl Wait {
    fn end(self, state: Reg<u64>) -> PhaseEnd {
        let end = if self.by_parity { PhaseEnd::of_parity(0) } else { PhaseEnd::of_state(state) };
        match self.order {
            Order::Default => end,
            Order::Ordered(scope) => end.acquiring(scope),
            Order::Relaxed(scope) => end.relaxed(scope),
        }
    }

    fn limited_end(self, state: Reg<u64>) -> PhaseEnd {
        let end = self.end(state);
        if self.limited { end.within(200) } else { end }
    }

    /// Bits 0 and 1: a test and an attempt before the last arrival; bits 2 and 3: the same after a
    /// wait.
    #[kernel]
    fn run(&self, seen: &mut Global<u32>) {
        launch::threads(64);
        launch::cluster(1, 1, 1);
        let barrier = Mbarrier::new();
        let thread = thread_idx().x;
        if thread == 0 {
            barrier.init(65);
        }
        sync_threads();
        let state = barrier.arrive();
        let tested = barrier.test(self.end(state)).to_u32();
        let attempted = barrier.attempt(self.limited_end(state)).to_u32();
        // The store needs the result, so that the attempt ends before the last arrival: on an H200 a
        // `bar.sync` passes an attempt in flight, whose result the arrival after it still decides.
        seen[thread] = tested | attempted << 1;
        sync_threads();
        if thread == 0 {
            barrier.arrive();
        }
        barrier.wait_for(self.limited_end(state));
        let tested_after = barrier.test(self.end(state)).to_u32();
        let attempted_after = barrier.attempt(self.limited_end(state)).to_u32();
        seen[thread] = seen[thread] | tested_after << 2 | attempted_after << 3;
    }
}

#[test]
fn waits_of_every_kind_see_the_end_of_a_phase_and_not_before() {
    for device in devices() {
        for (order, by_parity) in ORDERS.into_iter().flat_map(|order| [(order, false), (order, true)]) {
            for limited in [false, true] {
                let wait = Wait { order, by_parity, limited };
                let staged = wait.run().unwrap_or_else(|errors| panic!("{wait:?}: {errors}"));
                let kernel = device.compile(&staged).expect("it compiles");
                let mut seen = device.uninitialized::<u32>(64).expect("it fits");
                let stream = device.stream().expect("a stream");
                kernel.launch(&stream, 1, (&mut seen,)).expect("it fits");
                let seen = seen.to_vec().unwrap_or_else(|error| panic!("{wait:?}: {error}"));
                assert!(seen.iter().all(|&bits| bits == 0b1100), "{wait:?}: {seen:?}");
            }
        }
    }
}

/// The threads of two CTAs synchronize in a branch that half of each warp takes, then in the other
/// branch.
#[kernel]
fn meets_in_branches(output: &mut Global<u32>) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let value = warpwright_lang::shared::shared_array::<u32>(32);
    let thread = thread_idx().x;
    value[thread] = cluster_rank() * 100 + thread;
    if thread % 2 == 0 {
        cluster_sync_diverged();
    } else {
        cluster_arrive_diverged();
        cluster_wait_diverged();
    }
    output[block_idx().x * 32 + thread] = value.map_to_block(cluster_rank() ^ 1)[thread];
    cluster_sync();
}

#[test]
fn clusters_meet_where_warps_have_come_apart() {
    let expected: Vec<u32> = (100..132).chain(0..32).collect();
    for device in devices() {
        let kernel = device.compile(&meets_in_branches().expect("it has no mistakes")).expect("it compiles");
        let mut output = device.uninitialized::<u32>(64).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel.launch(&stream, 2, (&mut output,)).expect("it fits");
        assert_eq!(output.to_vec().unwrap_or_else(|error| panic!("{error}")), expected);
    }
}
