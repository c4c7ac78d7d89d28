//! Root mean square normalization by clusters of 2 x 2 CTAs: two columns of CTAs share a row, two rows of
//! CTAs share the weights by multicast, and partial sums move by asynchronous stores.

use warpwright::lang::bulk;
use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

/// Columns of a CTA; a row has twice as many.
const PART: u32 = 128;
const COLUMNS: u32 = 2 * PART;
/// Rows of the matrix, and of a CTA.
const ROWS: u32 = 8;
const ROUNDS: u32 = 2;

impl Mistaken {
    /// y = x * weights / sqrt(mean(x^2)) of each row.
    #[kernel]
    fn norm(&self, x: &Global<f32>, weights: &Global<f32>, y: &mut Global<f32>, rows: u32) {
        launch::threads(PART);
        launch::cluster(2, 2, 1);
        let (thread, rank) = (thread_idx().x, cluster_rank());
        let (column, line) = (rank % 2, rank / 2);
        let x_part = dynamic_shared_aligned::<f32>(PART, 128);
        let weight_part = dynamic_shared_aligned::<f32>(PART, 128);
        let partial = shared_array::<f32>(2);
        let (full, weighted, summed) = (Mbarrier::new(), Mbarrier::new(), Mbarrier::new());
        if self.is("leaves before the cluster barrier") {
            if block_idx().y * ROUNDS >= rows {
                return;
            }
        }
        if thread == 0 {
            full.init(1);
            weighted.init(1);
            summed.init(1);
            if !self.is("no fence of the initialization") {
                fence_mbarrier_init();
            }
        }
        cluster_sync();
        if thread == 0 {
            let bytes = if self.is("expects its own half") { PART * 2 } else { PART * 4 };
            weighted.arrive_and_expect(bytes);
            let half = line * (PART / 2);
            let from = weights.at(column * PART + half);
            let load = bulk::Load::new(from, PART / 2);
            if self.is("mask of the row") {
                load.multicast(constant(0b11u16) << (line * 2)).start(weight_part.at(half), weighted);
            } else {
                load.multicast(constant(0b101u16) << column).start(weight_part.at(half), weighted);
            }
        }
        for round in 0..constant(ROUNDS) {
            let row = block_idx().y * ROUNDS + round;
            if thread == 0 {
                full.arrive_and_expect(PART * 4);
                bulk::load(x.at(row * COLUMNS + column * PART), PART, x_part, full);
                if self.is("expects in the first round alone") {
                    if round == 0 {
                        summed.arrive_and_expect(8);
                    }
                } else {
                    summed.arrive_and_expect(8);
                }
            }
            full.wait_parity(round);
            let value = x_part[thread];
            let sum = block::reduce_sum(value * value);
            if thread == 0 {
                for peer in 0..2u32 {
                    let to = line * 2 + peer;
                    if self.is("sums at one place") {
                        partial.at(0).map_to_block(to).store_async(sum, summed.at_rank(to));
                    } else if self.is("signals its own barrier") {
                        partial.at(column).map_to_block(to).store_async(sum, summed.at_rank(rank));
                    } else {
                        partial.at(column).map_to_block(to).store_async(sum, summed.at_rank(to));
                    }
                }
            }
            summed.wait_parity(round);
            let mean = (partial[0] + partial[1]) / COLUMNS as f32;
            weighted.wait_parity(0);
            y[row * COLUMNS + column * PART + thread] = value * mean.rsqrt() * weight_part[thread];
            if self.is("block barrier between rounds") {
                sync_threads();
            } else {
                cluster_sync();
            }
        }
    }
}

type Staged = Result<Kernel<(In<f32>, In<f32>, Out<f32>, u32)>, StagingErrors>;

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let kernel: Staged = mistaken.norm();
    let kernel = device.compile(&kernel?)?;
    let rows = if mistaken.is("leaves before the cluster barrier") { ROWS - ROUNDS } else { ROWS };
    let x: Vec<f32> = (0..ROWS * COLUMNS).map(|index| (index * 7919 % 31) as f32 - 15.0).collect();
    let weights: Vec<f32> = (0..COLUMNS).map(|index| (index % 7) as f32).collect();
    let (x_there, weights_there) = (device.buffer_from(&x)?, device.buffer_from(&weights)?);
    let mut y = device.uninitialized::<f32>((ROWS * COLUMNS) as usize)?;
    kernel.launch(&device.stream()?, (2, ROWS / ROUNDS), (&x_there, &weights_there, &mut y, rows))?;
    let found = y.to_vec()?;
    for (row, (values, found)) in x.chunks(COLUMNS as usize).zip(found.chunks(COLUMNS as usize)).enumerate() {
        let mean = values.iter().map(|value| value * value).sum::<f32>() / COLUMNS as f32;
        for (column, found) in found.iter().enumerate() {
            let expected = values[column] * weights[column] / mean.sqrt();
            assert!((found - expected).abs() <= 1e-4, "{}: ({row}, {column}): {found}", mistaken.name());
        }
    }
    Ok(())
}
