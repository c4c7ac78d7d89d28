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
//! for all that the CTA has stored, and that is the row before. Where the whole grid shares a row, its CTAs are no cluster, and values go through
//! global memory: [`Exchange`].

use warpwright::lang::fence::fence_mbarrier_init;
use warpwright::lang::mbarrier::Mbarriers;
use warpwright::prelude::*;

use super::exchange::Exchange;
use super::plan::{Plan, Turnover};
use super::row::pairwise;

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
    /// Where the values of warps meet, and of CTAs: in turns, since a value of one row may still be read while another's are written.
    warps: Option<Shared<f32>>,
    ctas: Option<Shared<f32>>,
    /// For each turn of the CTAs, when the peers' values are there.
    arrived: Option<Mbarriers>,
    /// The row's number among those of this team.
    pub(super) round: Reg<u32>,
    /// Where the values of CTAs meet that are no cluster.
    pub(super) exchange: Option<Exchange>,
}

/// Turns of the places where the values of warps meet: a barrier lies between one and the next.
const WARP_TURNS: u32 = 2;

/// Turns of the places where the values of CTAs meet.
///
/// Who has all values of a row knows that every CTA has sent its own, and so is done with what it waited for before that. That is the
/// row before; where rows are staggered, a CTA waits for a row's values when it has sent the next one's, and the row is three before.
const fn cta_turns(turnover: Turnover) -> u32 {
    match turnover {
        Turnover::Stagger => 4,
        _ => 2,
    }
}

/// How two values become one, `K` at a time: a share of partial values is merged over a number of neighbouring lanes.
pub(super) trait Merge<const K: usize> {
    /// What changes no value it is merged with.
    const NEUTRAL: [f32; K];

    /// The merged values of `lanes` neighbouring lanes, in all of them; what each of them has is of a `part`. A lane has one value or more: its
    /// i-th is of the part whose number is the lane's and i times `lanes`.
    fn over_lanes(&self, values: &[[Reg<f32>; K]], lanes: u32, part: Part) -> [Reg<f32>; K];
}

/// What a value is of that a lane has before lanes merge theirs: of itself, or of what has the lane's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The lane's own elements.
    Lane,
    /// Those of a warp.
    Warp,
    /// Those of a CTA.
    Cta,
}

/// The sum.
pub(super) struct Sum;

impl Merge<1> for Sum {
    const NEUTRAL: [f32; 1] = [0.0];

    #[track_caller]
    fn over_lanes(&self, values: &[[Reg<f32>; 1]], lanes: u32, _: Part) -> [Reg<f32>; 1] {
        let own: Vec<_> = values.iter().map(|[value]| *value).collect();
        [butterfly(pairwise(&own, |a, b| a + b), lanes, |a, b| a + b)]
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
    /// This thread's team; says what the launch must be. `exchange` is memory where the values of CTAs meet that are no cluster.
    #[track_caller]
    pub(super) fn new(plan: Plan, exchange: &Global<u64>) -> Self {
        launch::threads(plan.cta_threads());
        launch::blocks_per_sm(plan.ctas_per_sm);
        let spreads = plan.turnover == Turnover::Spread;
        let is_cluster = plan.ctas > 1 && !spreads;
        if is_cluster {
            launch::cluster(plan.ctas, 1, 1);
        }
        let rank = thread_idx().x;
        let rank = if plan.rows > 1 { rank % plan.threads } else { rank };
        let cta = match (is_cluster, spreads) {
            (true, _) => cluster_rank(),
            (_, true) => block_idx().x,
            _ => constant(0),
        };
        let places = |turns: u32| shared_array::<f32>(turns * MOST_PARTIALS * MOST_VALUES);
        let warps = (plan.threads > 32).then(|| places(WARP_TURNS));
        let ctas = is_cluster.then(|| places(cta_turns(plan.turnover)));
        let arrived = is_cluster.then(|| Mbarriers::new(cta_turns(plan.turnover)));
        if let Some(arrived) = arrived {
            initialise(arrived);
        }
        let exchange = spreads.then(|| Exchange::new(plan, *exchange));
        Self { plan, rank, cta, warps, ctas, arrived, round: constant(0u32).duplicate(), exchange }
    }

    /// The same, once the launches before this one have ended.
    #[track_caller]
    pub(super) fn begin(self) -> Self {
        Self { exchange: self.exchange.map(Exchange::begin), ..self }
    }

    /// The number of this team among those of its CTA.
    #[track_caller]
    pub(super) fn number(&self) -> Reg<u32> {
        thread_idx().x / self.plan.threads
    }

    /// Lanes that share a row, of one warp.
    pub(super) fn lanes(&self) -> u32 {
        self.plan.threads.min(32)
    }

    /// Merges what each thread has into what its CTA's have together.
    #[track_caller]
    pub(super) fn reduce_cta<M: Merge<K>, const K: usize>(
        &self,
        merge: &M,
        values: [Reg<f32>; K],
    ) -> [Reg<f32>; K] {
        self.reduce_warps(merge, merge.over_lanes(&[values], self.lanes(), Part::Lane))
    }

    /// Merges what each warp has into what the CTA's have together.
    #[device]
    pub(super) fn reduce_warps<M: Merge<K>, const K: usize>(
        &self,
        merge: &M,
        mut values: [Reg<f32>; K],
    ) -> [Reg<f32>; K] {
        if let Some(places) = self.warps {
            let (here, lane) = (place(places, self.round % WARP_TURNS), self.rank % 32);
            if lane == 0 {
                here.at(self.rank / 32 * K as u32).store_vector(values);
            }
            sync_threads();
            values = take(merge, here, lane, self.plan.threads / 32, Part::Warp);
        }
        values
    }

    /// Merges what each CTA has of a row, which has that number, into what all of them have.
    #[track_caller]
    pub(super) fn reduce_ctas<M: Merge<K>, const K: usize>(
        &self,
        merge: &M,
        values: [Reg<f32>; K],
        row: Reg<u32>,
    ) -> [Reg<f32>; K] {
        if self.plan.ctas == 1 {
            return values;
        }
        self.send(values, row);
        self.receive(merge, self.round, row)
    }

    /// Sends the CTA's values of this round's row, which has that number, to every CTA that shares it.
    #[device]
    pub(super) fn send<const K: usize>(&self, values: [Reg<f32>; K], row: Reg<u32>) {
        if let Some(exchange) = self.exchange {
            exchange.send(values, row);
        }
        let ctas = self.plan.ctas;
        if let (Some(places), Some(arrived)) = (self.ctas, self.arrived) {
            let turn = self.round % cta_turns(self.plan.turnover);
            let (here, arrived) = (place(places, turn), arrived.at(turn));
            if self.rank == 0 {
                arrived.arrive_and_expect(ctas * K as u32 * 4);
            }
            if self.rank < ctas {
                let there = here.at(self.cta * K as u32).map_to_block(self.rank);
                there.store_vector_async(values, arrived.at_rank(self.rank));
            }
        }
    }

    /// Waits for all CTAs' values of the row of a round, which has that number, and merges them.
    #[device]
    pub(super) fn receive<M: Merge<K>, const K: usize>(
        &self,
        merge: &M,
        round: Reg<u32>,
        row: Reg<u32>,
    ) -> [Reg<f32>; K] {
        if let Some(exchange) = self.exchange {
            return exchange.receive(merge, row);
        }
        let mut values = neutral(merge);
        if let (Some(places), Some(arrived)) = (self.ctas, self.arrived) {
            let turns = cta_turns(self.plan.turnover);
            arrived.at(round % turns).wait_parity(round / turns % 2);
            values = take(merge, place(places, round % turns), self.rank % 32, self.plan.ctas, Part::Cta);
        }
        values
    }
}

/// Where the values of a turn are.
#[track_caller]
fn place(places: Shared<f32>, turn: Reg<u32>) -> Shared<f32> {
    places.at(turn * (MOST_PARTIALS * MOST_VALUES))
}

/// What changes no value.
#[track_caller]
pub(super) fn neutral<M: Merge<K>, const K: usize>(_: &M) -> [Reg<f32>; K] {
    M::NEUTRAL.map(|value| constant(value).duplicate())
}

/// Merges `count` partial values that lie in shared memory: each lane takes one.
#[device]
fn take<M: Merge<K>, const K: usize>(
    merge: &M,
    from: Shared<f32>,
    lane: Reg<u32>,
    count: u32,
    part: Part,
) -> [Reg<f32>; K] {
    let width = count.next_power_of_two();
    let share = lane % width;
    let mut values = neutral(merge);
    if count == width {
        values = from.at(share * K as u32).load_vector::<K>();
    } else if share < count {
        values = from.at(share * K as u32).load_vector::<K>();
    }
    merge.over_lanes(&[values], width, part)
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
