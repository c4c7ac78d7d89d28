//! Streams, events and host buffers: copies and kernels in order. The page is `docs/streams.md`.

use std::error::Error;
use std::io::Write;

use warpwright::prelude::*;
use warpwright::runtime::Device;

const LENGTH: u32 = 1000;

/// y = 2 * x.
#[kernel]
fn double(x: &Global<f32>, y: &mut Global<f32>, length: u32) {
    launch::threads(128);
    let i = block_idx().x * 128 + thread_idx().x;
    if i < length {
        y[i] = 2.0 * x[i];
    }
}

/// Doubles numbers of the host in rounds: one stream copies, the other computes.
pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let kernel = device.compile(&double()?)?;
    let (copies, compute) = (device.stream()?, device.stream()?);
    let mut numbers = device.host_buffer::<f32>(LENGTH as usize)?;
    let mut results = device.host_buffer::<f32>(LENGTH as usize)?;
    let mut x = device.uninitialized::<f32>(LENGTH as usize)?;
    let mut y = device.uninitialized::<f32>(LENGTH as usize)?;

    for round in 0..3 {
        for (i, number) in numbers.as_mut_slice()?.iter_mut().enumerate() {
            *number = (round * 10_000 + i) as f32;
        }
        copies.copy_to_device(&mut x, &mut numbers)?;
        compute.wait(&copies.record()?)?; // the kernel begins when the copy has ended
        kernel.launch(&compute, LENGTH.div_ceil(128), (&x, &mut y, LENGTH))?;
        copies.wait(&compute.record()?)?; // the copy begins when the kernel has ended
        copies.copy_to_host(&mut results, &y)?;
        let doubled = results.as_slice()?; // waits for the copy
        writeln!(out, "round {round}: {} to {}", doubled[0], doubled[LENGTH as usize - 1])?;
    }

    let (start, end) = (device.event()?, device.event()?);
    compute.record_into(&start)?;
    kernel.launch(&compute, LENGTH.div_ceil(128), (&x, &mut y, LENGTH))?;
    compute.record_into(&end)?;
    end.synchronize()?;
    let time = end.since(&start)?;
    writeln!(out, "the kernel took less than a second: {}", time.as_secs() == 0)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
