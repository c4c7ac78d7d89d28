//! y = a * x + y: from a kernel in Rust to a checked result.

use warpwright::compare::{Tolerance, compare};
use warpwright::prelude::*;
use warpwright::runtime::Device;

/// What is known when the kernel is built.
struct Axpy {
    threads: u32,
}

impl Axpy {
    /// y = a * x + y. The arguments are device values.
    #[kernel]
    fn run(&self, a: f32, x: &Global<f32>, y: &mut Global<f32>, length: u32) {
        launch::threads(self.threads);
        let i = block_idx().x * self.threads + thread_idx().x;
        if i < length {
            y[i] = a * x[i] + y[i];
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let axpy = Axpy { threads: 256 };
    let device = Device::default()?; // the GPU, or the emulator where there is none
    let kernel = device.compile(&axpy.run()?)?;

    let length = 100_000u32;
    let x = device.buffer_from(&(0..length).map(|i| i as f32).collect::<Vec<_>>())?;
    let mut y = device.buffer_from(&vec![1.0f32; length as usize])?;
    let stream = device.stream()?;
    kernel.launch(&stream, length.div_ceil(axpy.threads), (2.0, &x, &mut y, length))?;

    let expected: Vec<f32> = (0..length).map(|i| 2.0 * i as f32 + 1.0).collect();
    let right = compare(&y.to_vec()?, &expected, Tolerance::EXACT)?; // NaN is wrong
    println!("{}: all {} elements are right", device.name(), right.elements);
    Ok(())
}
