//! A kernel under the checker, with a barrier and without it. The page is `docs/checking.md`.

use std::error::Error;
use std::io::Write;

use warpwright::prelude::*;
use warpwright::runtime::Device;

struct HandOver {
    barrier: bool,
}

impl HandOver {
    /// The first warp writes a tile, and the second reads it.
    #[kernel]
    fn run(&self, x: &Global<f32>, y: &mut Global<f32>) {
        launch::threads(64);
        let tile = shared_array::<f32>(32);
        let thread = thread_idx().x;
        if thread < 32 {
            tile[thread] = x[thread];
        }
        if self.barrier {
            sync_threads();
        }
        if thread >= 32 {
            y[thread - 32] = tile[thread - 32];
        }
    }
}

fn hand_over(device: &Device, barrier: bool) -> Result<(), Box<dyn Error>> {
    let kernel = device.compile(&HandOver { barrier }.run()?)?;
    let x = device.buffer_from(&[1.0f32; 32])?;
    let mut y = device.uninitialized::<f32>(32)?;
    kernel.launch(&device.stream()?, 1, (&x, &mut y))?;
    if y.to_vec()? == [1.0; 32] { Ok(()) } else { Err("the kernel's result is wrong".into()) }
}

/// Runs the kernel under the checker of an emulated device.
pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let device = device.clone().checked()?;
    for barrier in [true, false] {
        match hand_over(&device, barrier) {
            Ok(()) => writeln!(out, "barrier {barrier}: right and clean")?,
            Err(error) => writeln!(out, "barrier {barrier}: {error}")?,
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::named("emu:h200")?, &mut std::io::stdout())
}
