//! The weight-only GEMV broken on purpose: the checkers find each error.

use std::error::Error;

use warpwright::prelude::*;
use warpwright::runtime::{Argument, Buffer, Device, Launch, LaunchRecord, Schedule};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::weight_only_gemv::{QuantizedWeights, WeightFormat};

use crate::emulated::hopper;
use crate::mutants::mutated;

const GROUP: u32 = 128;

/// A product of int4, and the CTAs of its launch.
#[derive(Clone, Copy)]
struct Shape {
    n: u32,
    k: u32,
    batch: u32,
    ctas: u32,
}

/// One CTA has three tiles, more than sets of sums. Each of its 8 warps has 2 k-blocks of a tile, and in
/// all more than its 3 stages.
const ONE_CTA: Shape = Shape { n: 48, k: 4096, batch: 1, ctas: 1 };
/// Eight vectors as long take two CTAs, a cluster, of 16 warps and 2 stages. They have one tile.
const CLUSTER: Shape = Shape { n: 16, k: 14_336, batch: 8, ctas: 2 };

struct Call {
    shape: Shape,
    weights: Buffer<u8>,
    scales: Buffer<bf16>,
    x: Buffer<bf16>,
    y: Buffer<bf16>,
}

impl Call {
    fn new(device: &Device, shape: Shape) -> Result<Self, Box<dyn Error>> {
        let [n, k, batch] = [shape.n, shape.k, shape.batch].map(|extent| extent as usize);
        Ok(Self {
            shape,
            weights: device.zeros(n * k / 2)?,
            scales: device.zeros(n * k / GROUP as usize)?,
            x: device.zeros(batch * k)?,
            y: device.zeros(batch * n)?,
        })
    }

    /// The launch of the operation, with its PTX.
    fn record(&mut self, device: &Device) -> Result<LaunchRecord, Box<dyn Error>> {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        let weights = QuantizedWeights {
            n: self.shape.n,
            k: self.shape.k,
            format: WeightFormat::Int4,
            weights: &self.weights,
            group: GROUP,
            scales: &self.scales,
            zero_points: None,
            constant: true,
        };
        let (ran, mut records) =
            device.log_launches(|| operations.weight_only_gemv(&stream, weights, &self.x, &mut self.y));
        ran?;
        Ok(records.pop().expect("the launch"))
    }

    /// Launches the kernel of that PTX.
    fn launch(&self, device: &Device, record: &LaunchRecord, ptx: &str) -> Result<(), Box<dyn Error>> {
        let arguments = [
            Argument::buffer(&self.weights),
            Argument::buffer(&self.scales),
            Argument::buffer(&self.weights),
            Argument::buffer(&self.x),
            Argument::scalar(self.shape.n),
            Argument::scalar(self.shape.batch),
            Argument::buffer(&self.y),
        ];
        let launch = Launch { grid: self.shape.ctas.into(), ..record.launch };
        device.load_ptx(ptx)?.function(&record.kernel)?.launch(&device.stream()?, launch, &arguments[..])?;
        Ok(())
    }
}

/// Lines of the PTX that change together: a text that a line holds, the `which`-th of them, and what
/// becomes of the text.
type Mutant = &'static [(&'static str, usize, &'static str)];

const OF_ONE_CTA: &[Mutant] = &[
    // A warp reads a stage before its bytes have arrived, or those that other lanes have copied.
    &[("cp.async.wait_group 1", 0, "cp.async.wait_group 2")],
    &[("bar.warp.sync", 0, "// bar.warp.sync")],
    // A warp reads the same stage again, and fills it at once.
    &[("selp.u32", 9, "// selp.u32")],
    // Copies of the main loop belong to the group of the next ones.
    &[("cp.async.commit_group", 2, "// cp.async.commit_group")],
    // Warps add sums before the others have stored theirs.
    &[("bar.sync 0", 1, "// bar.sync 0")],
    // They store those of a tile while others add those of the one before.
    &[("mov.b32", 32, "// mov.b32")],
];

/// Warps of this launch read vectors that others have stored; with one vector, each reads its own.
const OF_CLUSTER: &[Mutant] = &[
    &[("cp.async.wait_group 0", 0, "cp.async.wait_group 1")],
    &[("bar.sync 0", 0, "// bar.sync 0")],
    // A CTA adds the sums of the other one before they are stored, and after the other one has ended.
    &[("barrier.cluster.arrive", 0, "// arrive"), ("barrier.cluster.wait", 0, "// wait")],
    &[("barrier.cluster.arrive", 1, "// arrive"), ("barrier.cluster.wait", 1, "// wait")],
];

#[test]
fn broken_products_are_found() -> Result<(), Box<dyn Error>> {
    let devices = [Schedule::Latest, Schedule::Eager].map(|schedule| hopper(schedule)?.checked());
    let devices = devices.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut missed = Vec::new();
    for (shape, mutants) in [(ONE_CTA, OF_ONE_CTA), (CLUSTER, OF_CLUSTER)] {
        let record = Call::new(&devices[0], shape)?.record(&devices[0])?;
        for device in &devices {
            Call::new(device, shape)?.launch(device, &record, &record.ptx)?;
        }
        for lines in mutants {
            let mutant = lines.iter().fold(record.ptx.to_string(), |ptx, (text, which, change)| {
                mutated(&ptx, text, *which, change)
            });
            let mut said = String::new();
            for device in &devices {
                let outcome = Call::new(device, shape)?.launch(device, &record, &mutant);
                said += &outcome.err().map(|error| error.to_string()).unwrap_or_default();
            }
            // A finding names the line of the kernel.
            if !said.contains(".rs:") {
                missed.push(format!("{lines:?}: no line in: {said}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    Ok(())
}
