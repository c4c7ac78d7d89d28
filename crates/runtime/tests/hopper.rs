//! Clusters, mbarriers and bulk copies in kernels of the language, on every device that has them.

use warpwright_lang::access::{Access, Ordering as AccessOrdering, Scope};
use warpwright_lang::async_copy::copy_async;
use warpwright_lang::block::sync_threads;
use warpwright_lang::cluster::{cluster_rank, cluster_sync};
use warpwright_lang::fence::fence_mbarrier_init;
use warpwright_lang::mbarrier::{Mbarrier, Mbarriers};
use warpwright_lang::pointer::Global;
use warpwright_lang::shared::shared_array;
use warpwright_lang::special::{block_idx, grid_dim, thread_idx};
use warpwright_lang::value::constant;
use warpwright_lang::{kernel, launch};

use crate::with_clusters::devices;

const CTAS: u32 = 4;
const THREADS: u32 = 64;

/// Each cluster sums 256 elements: its CTAs add their threads' values in the shared memory of the
/// first CTA, which all of them then read.
#[kernel]
fn cluster_sums(input: &Global<u32>, output: &mut Global<u32>) {
    launch::threads(THREADS);
    launch::cluster(CTAS, 1, 1);
    let sum = shared_array::<u32>(1);
    let (thread, at) = (thread_idx().x, block_idx().x * THREADS + thread_idx().x);
    if thread == 0 {
        sum[0] = constant(0u32);
    }
    cluster_sync();
    let first = sum.map_to_block(0);
    first.reduce_add(input[at]);
    cluster_sync();
    output[at] = first[0];
    cluster_sync();
}

#[test]
fn a_cluster_reduces_through_distributed_shared_memory() {
    let input: Vec<u32> = (0..3 * CTAS * THREADS).map(|i| i * i % 1009).collect();
    let sums: Vec<u32> = input
        .chunks((CTAS * THREADS) as usize)
        .flat_map(|cluster| vec![cluster.iter().sum::<u32>(); cluster.len()])
        .collect();
    for device in devices() {
        let kernel = device.compile(&cluster_sums().expect("it has no mistakes")).expect("it compiles");
        let input = device.buffer_from(&input).expect("it fits");
        let mut output = device.uninitialized::<u32>(sums.len()).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel
            .launch(&stream, kernel.shape(3 * CTAS).block(THREADS), (&input, &mut output))
            .expect("it fits");
        assert_eq!(output.to_vec().expect("readable"), sums);
    }
}

const STAGES: u32 = 3;

/// One warp passes `rounds` rows of 32 elements to another through a pipeline.
#[kernel]
fn hands_over(input: &Global<u32>, output: &mut Global<u32>, rounds: u32) {
    launch::threads(64);
    let ring = shared_array::<u32>(32 * STAGES);
    let (full, empty) = (Mbarriers::new(STAGES), Mbarriers::new(STAGES));
    let thread = thread_idx().x;
    if thread == 0 {
        for (full, empty) in full.iter().zip(empty.iter()) {
            full.init(32);
            empty.init(32);
        }
    }
    sync_threads();
    let mut stage = constant(0u32);
    let mut parity = constant(0u32);
    for round in 0..rounds {
        let lane = thread % 32;
        if thread < 32 {
            empty.at(stage).wait_parity(parity ^ 1);
            ring[stage * 32 + lane] = input[round * 32 + lane];
            full.at(stage).arrive();
        } else {
            full.at(stage).wait_parity(parity);
            output[round * 32 + lane] = ring[stage * 32 + lane] + round;
            empty.at(stage).arrive();
        }
        stage += 1;
        if stage == STAGES {
            stage = 0;
            parity ^= 1;
        }
    }
}

#[test]
fn a_producer_and_a_consumer_share_a_ring_of_slots() {
    for device in devices() {
        let kernel = device.compile(&hands_over().expect("it has no mistakes")).expect("it compiles");
        let stream = device.stream().expect("a stream");
        for rounds in [1u32, 2, 3, 4, 17] {
            let input: Vec<u32> = (0..32 * rounds).map(|i| i * 7 % 61).collect();
            let expected: Vec<u32> = input.iter().zip(0u32..).map(|(value, at)| value + at / 32).collect();
            let input = device.buffer_from(&input).expect("it fits");
            let mut output = device.uninitialized::<u32>(expected.len()).expect("it fits");
            kernel
                .launch(&stream, kernel.shape(1).block(64), (&input, &mut output, rounds))
                .expect("it fits");
            assert_eq!(output.to_vec().expect("readable"), expected, "{rounds} rounds");
        }
    }
}

/// Each CTA of a pair writes into the shared memory of the other, and arrives at the other's
/// barrier.
#[kernel]
fn writes_to_the_neighbor(output: &mut Global<u32>) {
    launch::threads(32);
    launch::cluster(2, 1, 1);
    let (inbox, arrived) = (shared_array::<u32>(32), Mbarrier::new());
    let (thread, rank) = (thread_idx().x, cluster_rank());
    if thread == 0 {
        arrived.init(32);
        fence_mbarrier_init();
    }
    cluster_sync();
    let other = rank ^ 1;
    inbox.map_to_block(other)[thread] = rank * 100 + thread;
    arrived.at_rank(other).arrive_in(Scope::Cluster);
    arrived.wait_parity_in(0, Scope::Cluster);
    output[block_idx().x * 32 + thread] = inbox[thread];
    cluster_sync();
}

#[test]
fn neighbors_write_to_each_other() {
    let expected: Vec<u32> = (100..132).chain(0..32).collect();
    for device in devices() {
        let kernel =
            device.compile(&writes_to_the_neighbor().expect("it has no mistakes")).expect("it compiles");
        let mut output = device.uninitialized::<u32>(64).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel.launch(&stream, kernel.shape(2).block(32), (&mut output,)).expect("it fits");
        assert_eq!(output.to_vec().expect("readable"), expected);
    }
}

/// Writes thread indices, after allowing the dependent launch to begin.
#[kernel]
fn counts(output: &mut Global<u32>) {
    let at = block_idx().x * 128 + thread_idx().x;
    launch::grid_dependency_launch();
    output[at] = at;
}

/// Squares what its predecessor wrote.
#[kernel]
fn squares(values: &mut Global<u32>) {
    let at = block_idx().x * 128 + thread_idx().x;
    launch::grid_dependency_wait();
    values[at] = values[at] * values[at];
}

#[test]
fn a_kernel_begins_before_the_one_it_depends_on_ends() {
    let expected: Vec<u32> = (0..128 * 128).map(|i: u32| i.wrapping_mul(i)).collect();
    for device in devices() {
        let counts = device.compile(&counts().expect("it has no mistakes")).expect("it compiles");
        let squares = device.compile(&squares().expect("it has no mistakes")).expect("it compiles");
        let mut values = device.uninitialized::<u32>(128 * 128).expect("it fits");
        let stream = device.stream().expect("a stream");
        counts.launch(&stream, counts.shape(128).block(128), (&mut values,)).expect("it fits");
        let overlapping = squares.shape(128).block(128).overlapping();
        squares.launch(&stream, overlapping, (&mut values,)).expect("it fits");
        assert_eq!(values.to_vec().expect("readable"), expected);
    }
}

/// Each CTA increments a counter, waits until all have done so, and writes the count.
#[kernel]
fn meets(arrived: &mut Global<u32>, seen: &mut Global<u32>) {
    launch::threads(32);
    let relaxed = Access::new().ordered(AccessOrdering::Relaxed(Scope::Device));
    if thread_idx().x == 0 {
        arrived.atomic_add(1u32);
        let mut count = constant(0u32).duplicate();
        while count < grid_dim().x {
            count = arrived.load_with(relaxed);
        }
        seen[block_idx().x] = count;
    }
}

#[test]
fn all_ctas_of_a_cooperative_grid_are_there_at_once() {
    for device in devices() {
        let meets = device.compile(&meets().expect("it has no mistakes")).expect("it compiles");
        let (mut arrived, mut seen) =
            (device.zeros(1).expect("it fits"), device.zeros(132).expect("it fits"));
        let stream = device.stream().expect("a stream");
        let together = meets.shape(132).block(32).cooperative();
        meets.launch(&stream, together, (&mut arrived, &mut seen)).expect("they fit");
        assert_eq!(seen.to_vec().expect("readable"), [132; 132]);

        let fit = 32 * device.properties().sm_count;
        let too_many = meets.shape(fit + 1).block(32).cooperative();
        let refused = meets.launch(&stream, too_many, (&mut arrived, &mut seen)).expect_err("one too many");
        let told = refused.to_string();
        assert!(
            told.contains(&format!("of {} CTAs exceeds the {fit} CTAs that can be resident", fit + 1)),
            "{told}"
        );
    }
}

/// Copies 32 elements by `cp.async`, whose completion arrives at an mbarrier.
#[kernel]
fn copies(input: &Global<f32>, output: &mut Global<f32>) {
    launch::threads(32);
    let (tile, full) = (shared_array::<f32>(32), Mbarrier::new());
    let thread = thread_idx().x;
    if thread == 0 {
        full.init(32);
    }
    sync_threads();
    copy_async(tile + thread, *input + thread, 1);
    full.arrive_after_copies();
    full.wait_parity(0);
    output[31 - thread] = tile[thread];
}

#[test]
fn copies_arrive_by_themselves() {
    let input: Vec<f32> = (0..32).map(|i| i as f32).collect();
    let expected: Vec<f32> = input.iter().rev().copied().collect();
    for device in devices() {
        let kernel = device.compile(&copies().expect("it has no mistakes")).expect("it compiles");
        let input = device.buffer_from(&input).expect("it fits");
        let mut output = device.uninitialized::<f32>(32).expect("it fits");
        let stream = device.stream().expect("a stream");
        kernel.launch(&stream, kernel.shape(1).block(32), (&input, &mut output)).expect("it fits");
        assert_eq!(output.to_vec().expect("readable"), expected);
    }
}
