//! CTAs that cooperate: a multicast in a cluster, and a barrier of the whole grid. The page is
//! `docs/cooperation.md`.

use std::error::Error;
use std::io::Write;

use warpwright::prelude::*;
use warpwright::runtime::Device;

const TILE: u32 = 128;

/// Each CTA of a pair loads half of a tile for both, and adds its rank to it.
#[kernel]
fn share(tile: &Global<u32>, output: &mut Global<u32>) {
    launch::threads(TILE);
    launch::cluster(2, 1, 1);
    let (shared, full) = (dynamic_shared_aligned::<u32>(TILE, 128), Mbarrier::new());
    let (thread, rank) = (thread_idx().x, cluster_rank());
    if thread == 0 {
        full.init(1);
        fence_mbarrier_init();
    }
    cluster_sync(); // both mbarriers are initialized before bytes arrive
    if thread == 0 {
        full.arrive_and_expect(TILE * 4); // the bytes of both halves
        let half = rank * (TILE / 2);
        bulk::Load::new(tile.at(half), TILE / 2).multicast(0b11).start(shared.at(half), full);
    }
    full.wait_parity(0);
    output[rank * TILE + thread] = shared[thread] + rank;
    cluster_sync(); // no CTA ends while its memory may still be written
}

/// Waits until all CTAs of the grid have called it, for the call number `round`. All threads call it, and
/// the launch is cooperative. `arrived` is 0 before the launch.
#[device]
fn grid_sync(arrived: &Global<u32>, round: u32) {
    sync_threads();
    if thread_idx().x == 0 {
        let all = grid_dim().x * (round + 1);
        arrived.reduce_add_with(1, Atomicity::new(AtomicOrdering::Release, Scope::Device));
        let acquire = Access::new().ordered(AccessOrdering::Acquire(Scope::Device));
        wait_until(|| arrived.load_with(acquire).ge(all));
    }
    sync_threads();
}

/// Divides the numbers by the sum of all of them.
#[kernel]
fn normalize(x: &mut Global<f32>, sums: &mut Global<f32>, arrived: &mut Global<u32>) {
    launch::threads(128);
    let i = block_idx().x * 128 + thread_idx().x;
    let sum = block::reduce_sum(x[i]);
    if thread_idx().x == 0 {
        sums[block_idx().x] = sum;
    }
    grid_sync(arrived, 0);
    let mut total = constant(0.0f32);
    for cta in 0..grid_dim().x {
        total += sums[cta];
    }
    x[i] = x[i] / total;
}

/// Runs both kernels.
pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let stream = device.stream()?;

    let kernel = device.compile(&share()?)?;
    let tile = device.buffer_from(&(0..TILE).collect::<Vec<_>>())?;
    let mut output = device.zeros::<u32>(2 * TILE as usize)?;
    kernel.launch(&stream, 2, (&tile, &mut output))?;
    let output = output.to_vec()?;
    writeln!(out, "CTA 0: {:?} .., CTA 1: {:?} ..", &output[..4], &output[128..132])?;

    let kernel = device.compile(&normalize()?)?;
    let mut x = device.buffer_from(&[0.5f32; 4 * 128])?;
    let (mut sums, mut arrived) = (device.zeros::<f32>(4)?, device.zeros::<u32>(1)?);
    kernel.launch(&stream, kernel.shape(4).cooperative(), (&mut x, &mut sums, &mut arrived))?;
    writeln!(out, "sum: {}", x.to_vec()?.iter().sum::<f32>())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::named("emu:h200")?, &mut std::io::stdout())
}
