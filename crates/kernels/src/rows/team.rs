//! The threads that share a row, and what they tell one another.
//!
//! A reduction goes up level by level: the lanes of a warp by shuffles, the warps of a CTA through shared memory, the CTAs of a
//! cluster through one another's shared memory. At each level every thread ends with the whole:
//!
//! ```text
//! lanes    butterfly: 5 exchanges                                   all lanes have their warp's value
//! warps    one value a warp to shared memory, barrier, each lane
//!          reads one, butterfly                                     all threads have their CTA's value
//! CTAs     one value a CTA to every peer, whose mbarrier counts
//!          them, each lane reads one, butterfly                     all threads have the row's value
//! ```
//!
//! Values go to peers by `st.async`, which an mbarrier there counts. A cluster barrier would do too, but its arrival is a release: it waits
//! for all that the CTA has stored, and that is the row before.

use warpwright::lang::fence::fence_mbarrier_init;
use warpwright::lang::mbarrier::Mbarriers;
use warpwright::prelude::*;

use super::plan::Plan;

/// Values that are exchanged together at most.
const MOST_VALUES: u32 = 2;
/// Partial values of one level at most: the warps of a CTA.
const MOST_PARTIALS: u32 = 32;

/// The threads that share a row.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Team {
    plan: Plan,
    /// This thread's rank among its CTA's threads for the row.
    pub(super) rank: Reg<u32>,
    /// The CTA's rank in its cluster.
    pub(super) cta: Reg<u32>,
    warps: Option<Exchange>,
    ctas: Option<Exchange>,
    /// For each of the two turns, when the peers' values are there.
    arrived: Option<Mbarriers>,
    parity: Reg<u32>,
}

/// Where a level's partial values meet. There are two such places, used in turn: a value of one reduction may still be read while another's are
/// written.
#[derive(Clone, Copy, DeviceValue)]
struct Exchange {
    places: Shared<f32>,
    turn: Reg<u32>,
}

impl Exchange {
    #[track_caller]
    fn new() -> Self {
        let places = shared_array::<f32>((2 * MOST_PARTIALS * MOST_VALUES) as usize);
        Self { places, turn: constant(0u32).duplicate() }
    }

    /// This turn's place.
    #[track_caller]
    fn place(&self) -> Shared<f32> {
        self.places.at(self.turn * (MOST_PARTIALS * MOST_VALUES))
    }
}

/// How two values become one, `K` at a time: a share of partial values is merged over a number of neighbouring lanes.
pub(super) trait Merge<const K: usize> {
    /// What changes no value it is merged with.
    const NEUTRAL: [f32; K];

    /// The merged values of `lanes` neighbouring lanes, in all of them.
    fn over_lanes(&self, values: [Reg<f32>; K], lanes: u32) -> [Reg<f32>; K];
}

/// The sum.
pub(super) struct Sum;

impl Merge<1> for Sum {
    const NEUTRAL: [f32; 1] = [0.0];

    #[track_caller]
    fn over_lanes(&self, [value]: [Reg<f32>; 1], lanes: u32) -> [Reg<f32>; 1] {
        [butterfly(value, lanes, |a, b| a + b)]
    }
}

/// Exchanges in which every lane ends with the value of all `lanes` neighbours.
#[track_caller]
pub(super) fn butterfly(
    mut value: Reg<f32>,
    lanes: u32,
    merge: impl Fn(Reg<f32>, Reg<f32>) -> Reg<f32>,
) -> Reg<f32> {
    let mut distance = lanes / 2;
    while distance > 0 {
        value = merge(value, value.shuffle_xor(distance));
        distance /= 2;
    }
    value
}

impl Team {
    /// This thread's team; says what the launch must be.
    #[track_caller]
    pub(super) fn new(plan: Plan) -> Self {
        launch::threads(plan.cta_threads());
        launch::blocks_per_sm(plan.ctas_per_sm);
        if plan.ctas > 1 {
            launch::cluster(plan.ctas, 1, 1);
        }
        let rank = thread_idx().x;
        let rank = if plan.rows > 1 { rank % plan.threads } else { rank };
        let cta = if plan.ctas > 1 { cluster_rank() } else { constant(0) };
        let warps = (plan.threads > 32).then(Exchange::new);
        let ctas = (plan.ctas > 1).then(Exchange::new);
        let arrived = (plan.ctas > 1).then(|| Mbarriers::new(2));
        if let Some(arrived) = arrived {
            initialise(arrived);
        }
        Self { plan, rank, cta, warps, ctas, arrived, parity: constant(0u32).duplicate() }
    }

    /// Merges what each thread has into what all of them have together.
    #[track_caller]
    pub(super) fn reduce<M: Merge<K>, const K: usize>(
        &mut self,
        merge: &M,
        values: [Reg<f32>; K],
    ) -> [Reg<f32>; K] {
        let of_cta = self.reduce_cta(merge, values);
        self.reduce_ctas(merge, of_cta)
    }

    /// Merges what each thread has into what its CTA's have together.
    #[device]
    pub(super) fn reduce_cta<M: Merge<K>, const K: usize>(
        &mut self,
        merge: &M,
        values: [Reg<f32>; K],
    ) -> [Reg<f32>; K] {
        let mut values = merge.over_lanes(values, self.plan.threads.min(32));
        if let Some(exchange) = &mut self.warps {
            let (here, lane) = (exchange.place(), self.rank % 32);
            if lane == 0 {
                here.at(self.rank / 32 * K as u32).store_vector(values);
            }
            sync_threads();
            values = take(merge, here, lane, self.plan.threads / 32);
            exchange.turn = exchange.turn ^ 1;
        }
        values
    }

    /// Merges what each CTA has into what the cluster has.
    #[device]
    pub(super) fn reduce_ctas<M: Merge<K>, const K: usize>(
        &mut self,
        merge: &M,
        mut values: [Reg<f32>; K],
    ) -> [Reg<f32>; K] {
        let ctas = self.plan.ctas;
        if let (Some(exchange), Some(arrived)) = (&mut self.ctas, self.arrived) {
            let (here, arrived) = (exchange.place(), arrived.at(exchange.turn));
            if self.rank == 0 {
                arrived.arrive_and_expect(ctas * K as u32 * 4);
            }
            if self.rank < ctas {
                let there = here.at(self.cta * K as u32).map_to_block(self.rank);
                there.store_vector_async(values, arrived.at_rank(self.rank));
            }
            arrived.wait_parity(self.parity);
            values = take(merge, here, self.rank % 32, ctas);
            self.parity = self.parity ^ exchange.turn;
            exchange.turn = exchange.turn ^ 1;
        }
        values
    }
}

/// Merges `count` partial values that lie in shared memory: each lane takes one.
#[device]
fn take<M: Merge<K>, const K: usize>(
    merge: &M,
    from: Shared<f32>,
    lane: Reg<u32>,
    count: u32,
) -> [Reg<f32>; K] {
    let width = count.next_power_of_two();
    let share = lane % width;
    let mut values = M::NEUTRAL.map(|value| constant(value).duplicate());
    if count == width {
        values = from.at(share * K as u32).load_vector::<K>();
    } else if share < count {
        values = from.at(share * K as u32).load_vector::<K>();
    }
    merge.over_lanes(values, width)
}

/// Makes barriers of one arrival a phase; the cluster synchronises before it uses them.
#[device]
fn initialise(barriers: Mbarriers) {
    if thread_idx().x == 0 {
        for barrier in barriers.iter() {
            barrier.init(1);
        }
        fence_mbarrier_init();
    }
}
