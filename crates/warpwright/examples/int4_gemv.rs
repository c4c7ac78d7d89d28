//! y = W·x with weights of 4 bits: a warp for each row, vector loads, and a warp reduction. The
//! chapter is `book/src/simt/warps_and_blocks.md`.
//!
//! `cargo run --release -p warpwright --example int4_gemv`

use std::error::Error;

use warpwright::prelude::*;
use warpwright::runtime::Device;

/// The weights along a row that share a scale.
const GROUP: u32 = 32;

/// What is known when the kernel is built.
struct Gemv {
    /// The warps of a CTA; each computes one row.
    warps: u32,
}

impl Gemv {
    /// W is (rows, depth), row-major; `depth` is a multiple of 32.
    ///
    /// A group of 32 weights is 16 bytes, the low nibble of each byte first. A nibble n is the weight
    /// n - 8, times the group's scale.
    #[kernel]
    fn run(
        &self,
        weights: &Global<u8>,
        scales: &Global<f16>,
        x: &Global<f16>,
        y: &mut Global<f32>,
        rows: u32,
        depth: u32,
    ) {
        launch::threads(self.warps * 32);
        let (warp, lane) = (thread_idx().x / 32, lane_id());
        let row = block_idx().x * self.warps + warp;
        if row < rows {
            let groups = depth / GROUP;
            let mut sum = constant(0.0f32);
            for group in (lane..groups).step_by(32) {
                // 64 bits: a product of two u32 wraps at 2^32.
                let at = row as u64 * groups as u64 + group as u64;
                let words = weights.at(at * 16).cast::<u32>().load_vector::<4>();
                let mut dot = constant(0.0f32);
                for (i, word) in (0..).zip(words) {
                    let activations = x.at(group * GROUP + i * 8).load_vector::<8>();
                    for (j, activation) in (0..).zip(activations) {
                        let nibble = (word >> (j * 4)) & 15;
                        dot += (nibble as f32 - 8.0) * activation as f32;
                    }
                }
                sum += dot * scales[at] as f32;
            }
            // All 32 lanes of the warp are here: `row` is the same in each of them.
            let sum = warp::reduce_sum(sum);
            if lane == 0 {
                y[row] = sum;
            }
        }
    }
}

/// The elements of the kernel's output that are wrong.
pub(crate) fn wrong_elements(device: &Device, (rows, depth): (u32, u32)) -> Result<usize, Box<dyn Error>> {
    let noise = |i: u32| (i + 7).wrapping_mul(2_654_435_761) >> 16;
    let number = |i: u32| f16::from_f32(noise(i) as f32 / 32768.0 - 1.0);
    let weights: Vec<u8> = (0..rows * depth / 2).map(|i| noise(i) as u8).collect();
    let scales: Vec<f16> = (0..rows * depth / GROUP).map(|i| number(i * 3)).collect();
    let x: Vec<f16> = (0..depth).map(|i| number(i * 5)).collect();

    let gemv = Gemv { warps: 4 };
    let kernel = device.compile(&gemv.run()?)?;
    let (weights_there, scales_there, x_there) =
        (device.buffer_from(&weights)?, device.buffer_from(&scales)?, device.buffer_from(&x)?);
    let mut y = device.uninitialized::<f32>(rows as usize)?;
    let arguments = (&weights_there, &scales_there, &x_there, &mut y, rows, depth);
    kernel.launch(&device.stream()?, rows.div_ceil(gemv.warps), arguments)?;

    let is_right = |row: usize, found: f32| {
        let term = |k: usize| {
            let i = row * depth as usize + k;
            let nibble = weights[i / 2] >> (i % 2 * 4) & 15;
            (f64::from(nibble) - 8.0) * scales[i / GROUP as usize].to_f64() * x[k].to_f64()
        };
        let terms: Vec<f64> = (0..depth as usize).map(term).collect();
        let magnitude: f64 = terms.iter().map(|term| term.abs()).sum();
        (f64::from(found) - terms.iter().sum::<f64>()).abs() <= 1e-6 * magnitude
    };
    Ok(y.to_vec()?.iter().enumerate().filter(|(row, found)| !is_right(*row, **found)).count())
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default()?;
    for shape in [(1, 32), (37, 1056), (256, 4096)] {
        match wrong_elements(&device, shape)? {
            0 => println!("{}: {shape:?}: every element is right", device.name()),
            wrong => return Err(format!("{shape:?}: {wrong} elements are wrong").into()),
        }
    }
    Ok(())
}
