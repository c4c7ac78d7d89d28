//! What the host pays: for the first use of a kernel, and for each launch after it.

use std::time::{Duration, Instant};

use warpwright::prelude::*;
use warpwright::runtime::{self, Device, Stream};

use crate::gemm::Order;
use crate::gemm::epilogue::as_it_is;
use crate::gemm::hopper::{self, Consumers, HopperGemm};
use crate::gemm::multiply::Product;
use crate::gemm::products::Products;
use crate::operations::Operations;
use crate::registry::Result;
use crate::vector_add::VectorAdd;

/// The problem that is launched: one slot of a few tiles, so that the device keeps up with the host.
const LAUNCHED: (u32, u32, u32) = (256, 256, 64);
/// Launches between two waits for the device, fewer than its queue holds (1024): the host never waits in between.
const BURST: usize = 256;

/// The time that the first use of a kernel takes, in its parts. What the device's own start takes is no part of it.
#[derive(Clone, Copy, Debug)]
pub struct FirstUse {
    /// Running the kernel's method, which records it.
    pub stage: Duration,
    /// Verifying, optimising and writing PTX.
    pub write: Duration,
    /// Reading the PTX, and the driver's assembler, or its cache, and loader.
    pub load: Duration,
    /// How long the text is.
    pub ptx_bytes: usize,
}

impl FirstUse {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.stage + self.write + self.load
    }
}

/// The host's time for a launch.
#[derive(Clone, Debug)]
pub struct LaunchCost {
    /// What is launched.
    pub kernel: &'static str,
    /// What it takes.
    pub arguments: &'static str,
    /// The median.
    pub median: Duration,
    /// What 99 of 100 stay below.
    pub high: Duration,
    /// How many were timed.
    pub launches: usize,
}

/// Times the first use of the Hopper GEMM in this process.
///
/// # Errors
/// The device is no Hopper, or fails.
pub fn first_use(device: &Device) -> Result<FirstUse> {
    let capability = device.properties().capability;
    let begin = Instant::now();
    let kernel = PlainGemm.run()?;
    let staged = Instant::now();
    let text = runtime::ptx(&kernel, capability)?;
    let written = Instant::now();
    device.load_ptx(&text)?.function(kernel.name())?;
    Ok(FirstUse {
        stage: staged - begin,
        write: written - staged,
        load: written.elapsed(),
        ptx_bytes: text.len(),
    })
}

/// The kernel whose first use is timed.
struct PlainGemm;

impl PlainGemm {
    /// C = A·B.
    #[kernel]
    fn run(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        c: &TensorMap,
        slots: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
    ) {
        let products = Products::one(a, b, (m, n, k));
        PRODUCT.store_boxes::<bf16, bf16>(&products, c, (slots, arrived), &as_it_is());
    }
}

/// Its configuration: a large tile, a cluster of two, a ring of three slots.
const PRODUCT: HopperGemm = HopperGemm {
    a: Order::RowMajor,
    b: Order::ColumnMajor,
    c: Order::RowMajor,
    tile: (128, 256, 64),
    consumers: Consumers::Cooperate,
    cluster: (2, 1),
    stages: 3,
    raster: 8,
    split: false,
};

/// Times launches of a kernel with buffers, and of one with tensor maps.
///
/// # Errors
/// The device is no Hopper, or fails.
pub fn launch_costs(device: &Device, launches: usize) -> Result<Vec<LaunchCost>> {
    let stream = device.stream()?;
    let length = 4096u32;
    let (x, y) = (device.zeros::<f32>(length as usize)?, device.zeros::<f32>(length as usize)?);
    let mut z = device.uninitialized::<f32>(length as usize)?;
    let sum = VectorAdd { threads: 256 };
    let add = device.compile(&sum.run()?)?;
    let buffers = timed(&stream, device, launches, || {
        add.launch(&stream, length / sum.threads, sum.threads, (&x, &y, &mut z, length))?;
        Ok(())
    })?;

    let (m, n, k) = LAUNCHED;
    let [a, b, c] = [m * k, n * k, m * n].map(|count| device.zeros::<bf16>(count as usize));
    let (a, b, mut c) = (a?, b?, c?);
    let operations = Operations::new(device);
    let product = Product::new(m, n, k);
    let operation = timed(&stream, device, launches, || {
        operations.multiply(&stream, product, &a, &b, &mut c)?;
        Ok(())
    })?;
    let extents = |rows: u32, columns: u32| (u64::from(rows), u64::from(columns));
    let a = runtime::TensorMap::of_tile(&a, extents(m, k), &PRODUCT.a_tile::<bf16>()?)?;
    let b = runtime::TensorMap::of_tile(&b, extents(n, k), &PRODUCT.b_tile::<bf16>()?)?;
    let c = runtime::TensorMap::of_tile(&c, extents(m, n), &PRODUCT.c_tile::<bf16>()?)?;
    let multiply = device.compile(&PlainGemm.run()?)?;
    let (mut slots, mut arrived) = (device.zeros::<f32>(1)?, device.zeros::<u32>(1)?);
    let ctas = PRODUCT.cluster.0 * PRODUCT.cluster.1;
    let maps = timed(&stream, device, launches, || {
        multiply.launch(&stream, ctas, hopper::THREADS, (&a, &b, &c, &mut slots, &mut arrived, m, n, k))?;
        Ok(())
    })?;
    let cost = |kernel, arguments, [median, high]: [Duration; 2]| LaunchCost {
        kernel,
        arguments,
        median,
        high,
        launches,
    };
    Ok(vec![
        cost("vector-add", "three buffers and a scalar", buffers),
        cost(
            "gemm",
            "three tensor maps, two buffers and three scalars, clusters and 200 KB of shared memory",
            maps,
        ),
        cost("operations.multiply", "three buffers, of which it makes three tensor maps", operation),
    ])
}

/// The median of what the host takes for a launch, and the time that 99 of 100 stay below.
fn timed(
    stream: &Stream,
    device: &Device,
    launches: usize,
    mut launch: impl FnMut() -> Result<()>,
) -> Result<[Duration; 2]> {
    launch()?;
    let mut times = Vec::with_capacity(launches);
    while times.len() < launches {
        stream.synchronize()?;
        for _ in 0..BURST.min(launches - times.len()) {
            let begin = Instant::now();
            launch()?;
            times.push(begin.elapsed());
        }
    }
    device.synchronize()?;
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    Ok([at(50), at(99)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On the emulator the times mean nothing, but every step happens.
    #[test]
    fn every_part_is_timed() {
        let device = Device::with_schedule("emu:h200", runtime::Schedule::Eager).unwrap();
        let first = first_use(&device).unwrap();
        assert!(first.ptx_bytes > 0 && first.total() >= first.load);
        let costs = launch_costs(&device, 3).unwrap();
        assert!(costs.iter().all(|cost| cost.launches == 3 && cost.median <= cost.high), "{costs:?}");
    }
}
