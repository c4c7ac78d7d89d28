//! What the host pays: for the first use of a kernel, and for each launch after it.

use std::time::{Duration, Instant};

use warpwright::arch::DataType::Bf16;
use warpwright::prelude::*;
use warpwright::runtime::{self, Device, Stream};
use warpwright_harness::Result;
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::device::epilogue::identity;
use warpwright_kernels::gemm::device::mainloop::tma::TmaGemm;
use warpwright_kernels::gemm::device::problems::Problems;
use warpwright_kernels::gemm::device::schedule::Schedule;
use warpwright_kernels::gemm::problem::epilogue::Activation;
use warpwright_kernels::gemm::problem::types::GemmTypes;
use warpwright_kernels::operations::Operations;

/// The small kernel that is launched: C = A + B, elementwise.
struct VectorAdd {
    threads: u32,
}

impl VectorAdd {
    #[kernel]
    fn run(&self, a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>, length: u32) {
        launch::threads(self.threads);
        let i = block_idx().x * self.threads + thread_idx().x;
        if i < length {
            c[i] = a[i] + b[i];
        }
    }
}

/// The problem that is launched: one stage of a few tiles, so that the device keeps up with the
/// host.
const LAUNCHED: (u32, u32, u32) = (256, 256, 64);
/// Launches between two waits for the device, fewer than its queue holds (1024): the host never
/// waits in between. A burst is timed as a whole, because reading the clock takes a part of the
/// time of a launch.
const BURST: usize = 256;

/// The time that the first use of a kernel takes, in its parts. What the device's own start takes
/// is no part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstUse {
    /// Running the kernel's method, which records it.
    pub(super) stage: Duration,
    /// Verifying, optimizing and writing PTX.
    pub(super) write: Duration,
    /// Reading the PTX, and the driver's assembler, or its cache, and loader.
    pub(super) load: Duration,
    /// How long the text is.
    pub(super) ptx_bytes: usize,
}

impl FirstUse {
    /// All of it.
    pub(super) fn total(&self) -> Duration {
        self.stage + self.write + self.load
    }
}

/// The host's time for a launch: of a burst, the mean.
#[derive(Clone, Debug)]
pub(super) struct LaunchCost {
    /// What is launched.
    pub(super) kernel: &'static str,
    /// What it takes.
    pub(super) arguments: &'static str,
    /// The median of the bursts.
    pub(super) median: Duration,
    /// The slowest burst.
    pub(super) highest: Duration,
    /// How many were timed.
    pub(super) launches: usize,
}

/// Times the first use of the Hopper GEMM in this process.
///
/// # Errors
/// The device is no Hopper, or fails.
pub(super) fn first_use(device: &Device) -> Result<FirstUse> {
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
        c: &mut TensorMap,
        parts: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
    ) {
        let problems = Problems::one(a, b, (m, n, k));
        GEMM.run_with::<bf16, bf16, bf16>(&problems, c, (parts, arrived), &identity());
    }
}

/// Its configuration: a large tile, a cluster of two CTAs, three stages.
const GEMM: TmaGemm = TmaGemm {
    cluster: (2, 1),
    stages: 3,
    ..TmaGemm::new(GemmTypes::new(Bf16, Bf16, Bf16), (128, 256, 64), Schedule::Cooperative)
};

/// A kernel that does nothing: what its launch takes is the driver's.
struct Nothing;

impl Nothing {
    #[kernel]
    fn run(&self) {}
}

/// Times launches of kernels without arguments, with buffers, and with tensor maps, and calls of
/// the operations that launch one.
///
/// # Errors
/// The device is no Hopper, or fails.
pub(super) fn launch_costs(device: &Device, launches: usize) -> Result<Vec<LaunchCost>> {
    let stream = device.stream()?;
    let mut costs = Vec::new();
    let mut time = |kernel, arguments, launch: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let [median, highest] = timed(&stream, launches, launch)?;
        costs.push(LaunchCost { kernel, arguments, median, highest, launches });
        Ok(())
    };

    let nothing = device.compile(&Nothing.run()?)?;
    time("nothing", "no arguments", &mut || {
        nothing.launch(&stream, nothing.shape(1).block(32), ())?;
        Ok(())
    })?;

    let length = 4096u32;
    let (x, y) = (device.zeros::<f32>(length as usize)?, device.zeros::<f32>(length as usize)?);
    let mut z = device.uninitialized::<f32>(length as usize)?;
    let sum = VectorAdd { threads: 256 };
    let add = device.compile(&sum.run()?)?;
    time("vector-add", "three buffers and a scalar", &mut || {
        add.launch(&stream, length / sum.threads, (&x, &y, &mut z, length))?;
        Ok(())
    })?;

    let (m, n, k) = LAUNCHED;
    let [a, b, c] = [m * k, n * k, m * n].map(|count| device.zeros::<bf16>(count as usize));
    let (a, b, mut c) = (a?, b?, c?);
    let bias = device.zeros::<f32>(n as usize)?;
    let operations = Operations::new(device);
    let gemm = Gemm::new(m, n, k);
    time("operations.gemm", "three buffers; it finds the kernel and three tensor maps", &mut || {
        operations.gemm(&stream, &gemm, &a, &b, &mut c)?;
        Ok(())
    })?;
    let with_bias = gemm.bias(&bias).activation(Activation::Relu);
    time("operations.gemm", "the same with a bias", &mut || {
        operations.gemm(&stream, &with_bias, &a, &b, &mut c)?;
        Ok(())
    })?;

    let multiply = device.compile(&PlainGemm.run()?)?;
    let a = multiply.tensor_map("a", &a, &[m.into(), k.into()])?;
    let b = multiply.tensor_map("b", &b, &[n.into(), k.into()])?;
    let mut c_map = multiply.tensor_map("c", &mut c, &[m.into(), n.into()])?;
    let (mut parts, mut arrived) = (device.zeros::<f32>(1)?, device.zeros::<u32>(1)?);
    let ctas = GEMM.cluster.0 * GEMM.cluster.1;
    time(
        "gemm",
        "three tensor maps, two buffers, three scalars; a cluster, 200 KB of shared memory",
        &mut || {
            multiply.launch(&stream, ctas, (&a, &b, &mut c_map, &mut parts, &mut arrived, m, n, k))?;
            Ok(())
        },
    )?;
    Ok(costs)
}

/// What the host takes for a launch: the median of the bursts, and the slowest.
fn timed(stream: &Stream, launches: usize, launch: &mut dyn FnMut() -> Result<()>) -> Result<[Duration; 2]> {
    launch()?;
    let mut bursts = Vec::new();
    let mut left = launches;
    while left > 0 {
        stream.synchronize()?;
        let burst = BURST.min(left);
        let begin = Instant::now();
        for _ in 0..burst {
            launch()?;
        }
        bursts.push(begin.elapsed() / burst as u32);
        left -= burst;
    }
    stream.synchronize()?;
    bursts.sort_unstable();
    Ok([bursts[bursts.len() / 2], bursts[bursts.len() - 1]])
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
        assert!(costs.iter().all(|cost| cost.launches == 3 && cost.median <= cost.highest), "{costs:?}");
    }
}
