//! The kernels of attention's gradients broken on purpose: the checkers find each error.

use std::error::Error;

use warpwright::arch::tensor_map::{Description, ElementType, Requirement, Swizzle};
use warpwright::prelude::*;
use warpwright::runtime::{Argument, Buffer, Device, LaunchRecord, Schedule, TensorMap};
use warpwright_kernels::attention::{Attention, GradientBuffers};
use warpwright_kernels::operations::Operations;

use crate::emulated::hopper;
use crate::mutants::mutated;

/// A CTA, or a cluster, goes through eight blocks of queries, all of which see all keys: four of each
/// head, more than stages.
const QUERIES: u32 = 256;
const KEYS: u32 = 128;
const HEADS: u32 = 2;

/// A kernel: the elements of its heads, and the rows of a copy of Q and of K.
#[derive(Clone, Copy)]
struct Kernel {
    d: u32,
    query_box: u32,
    key_box: u32,
}

const NARROW: Kernel = Kernel { d: 128, query_box: 64, key_box: 128 };
/// The two CTAs of a cluster load a half each.
const WIDE: Kernel = Kernel { d: 256, query_box: 32, key_box: 64 };

struct Call {
    kernel: Kernel,
    q: Buffer<bf16>,
    k: Buffer<bf16>,
    v: Buffer<bf16>,
    o: Buffer<bf16>,
    lse: Buffer<f32>,
    gradients: [Buffer<bf16>; 3],
    sums: Buffer<f32>,
    nothing: Buffer<u32>,
}

impl Call {
    fn new(device: &Device, kernel: Kernel) -> Result<Self, Box<dyn Error>> {
        let [of_queries, of_keys, rows] =
            [QUERIES * HEADS * kernel.d, KEYS * kernel.d, QUERIES * HEADS].map(|count| count as usize);
        Ok(Self {
            kernel,
            q: device.zeros(of_queries)?,
            k: device.zeros(of_keys)?,
            v: device.zeros(of_keys)?,
            o: device.zeros(of_queries)?,
            lse: device.zeros(rows)?,
            gradients: [device.zeros(of_queries)?, device.zeros(of_keys)?, device.zeros(of_keys)?],
            sums: device.zeros(of_queries)?,
            nothing: device.zeros(2)?,
        })
    }

    /// The launch of the backward kernel, with its PTX.
    fn record(&mut self, device: &Device) -> Result<LaunchRecord, Box<dyn Error>> {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        let attention = Attention::new(1, QUERIES, HEADS, self.kernel.d).keys(KEYS).kv_heads(1);
        let inputs = [&self.q, &self.k, &self.v];
        let buffers = GradientBuffers::new(inputs, (&self.o, &self.lse), &self.q, self.gradients.each_mut());
        let (ran, records) =
            device.log_launches(|| operations.attention_gradients(&stream, &attention, buffers));
        ran?;
        let backward = |record: &LaunchRecord| record.kernel.contains("backward");
        Ok(records.into_iter().find(backward).expect("the launch"))
    }

    /// The map of boxes of `rows` rows, of a matrix (row, head, d).
    fn map(&self, buffer: &Buffer<bf16>, extents: [u32; 2], rows: u32) -> Result<TensorMap, Box<dyn Error>> {
        let [all, heads] = extents.map(u64::from);
        let d = u64::from(self.kernel.d);
        let row = d * 2;
        let description = Description {
            extents: vec![d, all, heads, 1],
            strides: vec![heads * row, row, all * heads * row],
            ..Requirement::tiled(ElementType::Bf16, &[64, rows, 1, 1])
                .swizzled(Swizzle::Bytes128)
                .row_major(0, &[1; 4])
        };
        Ok(TensorMap::new(buffer, description)?)
    }

    /// The map of lse and delta: (head, query).
    fn row_map(buffer: &Buffer<f32>) -> Result<TensorMap, Box<dyn Error>> {
        let description =
            Requirement::tiled(ElementType::F32, &[64, 1]).row_major(0, &[HEADS.into(), QUERIES.into()]);
        Ok(TensorMap::new(buffer, description)?)
    }

    /// Launches the kernel of that PTX in one CTA or cluster.
    fn launch(&self, device: &Device, record: &LaunchRecord, ptx: &str) -> Result<(), Box<dyn Error>> {
        let Kernel { d, query_box, key_box } = self.kernel;
        let q = self.map(&self.q, [QUERIES, HEADS], query_box)?;
        let [k, v] = [&self.k, &self.v].map(|buffer| self.map(buffer, [KEYS, 1], key_box));
        let (k, v, rows) = (k?, v?, Self::row_map(&self.lse)?);
        let words = |words: [u32; 2]| Argument::bytes(words.map(u32::to_le_bytes).concat());
        let strides =
            |strides: [u32; 4]| Argument::bytes(strides.map(|s| u64::from(s).to_le_bytes()).concat());
        let [_, d_k, d_v] = &self.gradients;
        let arguments = [
            Argument::tensor_map(&q),
            Argument::tensor_map(&k),
            Argument::tensor_map(&v),
            Argument::tensor_map(&q),
            Argument::tensor_map(&rows),
            Argument::tensor_map(&rows),
            Argument::buffer(&self.sums),
            Argument::buffer(&self.nothing),
            Argument::buffer(d_k),
            Argument::buffer(d_v),
            words([QUERIES, KEYS]),
            words([1, HEADS]),
            words([0, 0]),
            Argument::scalar(1.0f32),
            Argument::scalar(1.0f32),
            Argument::buffer(&self.nothing),
            Argument::scalar(1u32),
            Argument::scalar(1u32),
            Argument::buffer(&self.nothing),
            Argument::buffer(&self.nothing),
            strides([0, KEYS * d, d, d]),
            strides([0, KEYS * d, d, d]),
        ];

        device.load_ptx(ptx)?.function(&record.kernel)?.launch(
            &device.stream()?,
            record.launch,
            &arguments[..],
        )?;
        Ok(())
    }
}

/// A line of the PTX that holds a text, the `which`-th of them, and what becomes of the text.
type Mutant = (&'static str, usize, &'static str);

/// The waits are, in the order of the PTX: 1 of the producer for a stage of Q; 7 and 8 for K and V and
/// the first Q; 13 to 16 of warpgroup 0 for dO, for its tile, for Q, and for the peer's dS; 21 to 24 the
/// same of the last block; 25, 27 and 28 of warpgroup 1 for dO and for the peer's dS.
///
/// Waits and fences that are not here change nothing in this launch. The producer waits for a stage of
/// dO after one of Q, which is released later. Warpgroup 1 gets P from warpgroup 0, which has waited
/// for Q. Waits 9 to 12 and 17 to 20 are those of blocks that are seen in part.
const WIDE_MUTANTS: &[Mutant] = &[
    // The producer fills a stage before it is released, or leaves while its peer has not released all.
    ("mbarrier.try_wait.parity", 1, "setp"),
    ("mbarrier.try_wait.parity", 4, "setp"),
    // A consumer reads a stage before its bytes have arrived.
    ("mbarrier.try_wait.parity", 7, "setp"),
    ("mbarrier.try_wait.parity", 8, "setp"),
    ("mbarrier.try_wait.parity", 13, "setp"),
    ("mbarrier.try_wait.parity", 15, "setp"),
    ("mbarrier.try_wait.parity", 27, "setp"),
    // P is stored while dS of the block before is read; a CTA exits while its peer reads its dS.
    ("mbarrier.try_wait.parity", 14, "setp"),
    ("mbarrier.try_wait.parity", 24, "setp"),
    // dQ is computed before the peer's dS has arrived.
    ("mbarrier.try_wait.parity", 16, "setp"),
    ("mbarrier.try_wait.parity", 28, "setp"),
    // The wrong phase of Q's stages, of the tiles, and of the blocks.
    ("xor.b32", 3, "and.b32"),
    ("xor.b32", 23, "and.b32"),
    ("xor.b32", 29, "and.b32"),
    // dS is read before it is stored, and P; dS is sent before all threads have stored it.
    ("bar.sync 8, 256", 1, "// bar.sync 8, 256"),
    ("bar.sync 7, 256", 1, "// bar.sync 7, 256"),
    ("bar.sync", 10, "// bar.sync"),
    ("bar.arrive 7, 256", 1, "// bar.arrive 7, 256"),
    ("bar.arrive 8, 256", 1, "// bar.arrive 8, 256"),
    // dS is read by products and copies: by the async proxy.
    ("fence.proxy.async", 1, "// fence.proxy.async"),
    // P and dS are written to operands before their products.
    ("wgmma.fence", 5, "// wgmma.fence"),
    ("wgmma.fence", 21, "// wgmma.fence"),
    // The scores are read, and the tiles released, while products are in flight.
    ("wgmma.wait_group", 5, "// wgmma.wait_group"),
    ("wgmma.wait_group", 6, "// wgmma.wait_group"),
    ("wgmma.wait_group", 13, "// wgmma.wait_group"),
    ("wgmma.wait_group", 14, "// wgmma.wait_group"),
    // A stage, or a tile, is not released.
    ("mbarrier.arrive.shared::cluster", 3, "// mbarrier.arrive.shared::cluster"),
    ("mbarrier.arrive.shared::cluster", 4, "// mbarrier.arrive.shared::cluster"),
    ("mbarrier.arrive.shared::cluster", 5, "// mbarrier.arrive.shared::cluster"),
];

/// The waits are, in the order of the PTX: 1 and 2 of the producer for a stage of Q and of dO; 8 and 9 for
/// K and V and the first Q; 10 for the first dO; 13 and 14 for Q and dO of a block that is seen whole.
///
/// Waits and fences that are not here change nothing in this launch. The producer waits once for K and V,
/// and waits 3 to 7 keep the CTA until its stages are released. Others are those of blocks that are seen in
/// part, or of the second of two barriers with nothing between them.
const NARROW_MUTANTS: &[Mutant] = &[
    // The producer fills a stage before it is released.
    ("mbarrier.try_wait.parity", 1, "setp"),
    ("mbarrier.try_wait.parity", 2, "setp"),
    // A consumer reads a stage before its bytes have arrived.
    ("mbarrier.try_wait.parity", 8, "setp"),
    ("mbarrier.try_wait.parity", 9, "setp"),
    ("mbarrier.try_wait.parity", 10, "setp"),
    ("mbarrier.try_wait.parity", 13, "setp"),
    ("mbarrier.try_wait.parity", 14, "setp"),
    // The wrong phase of the producer's stages, and of the consumers'; the wrong tile of dS.
    ("xor.b32", 2, "and.b32"),
    ("xor.b32", 4, "and.b32"),
    ("xor.b32", 26, "and.b32"),
    ("xor.b32", 27, "and.b32"),
    ("xor.b32", 28, "and.b32"),
    // A stage is not released, or expects no bytes.
    ("mbarrier.arrive.shared.b64", 3, "// mbarrier.arrive.shared.b64"),
    ("mbarrier.arrive.shared.b64", 4, "// mbarrier.arrive.shared.b64"),
    ("mbarrier.arrive.expect_tx", 0, "// mbarrier.arrive.expect_tx"),
    ("mbarrier.arrive.expect_tx", 1, "// mbarrier.arrive.expect_tx"),
    ("mbarrier.arrive.expect_tx", 2, "// mbarrier.arrive.expect_tx"),
    // dS is read by products, through the async proxy, and before all threads have stored it.
    ("fence.proxy.async", 0, "// fence.proxy.async"),
    ("fence.proxy.async", 2, "// fence.proxy.async"),
    ("bar.sync", 3, "// bar.sync"),
    ("bar.sync", 5, "// bar.sync"),
    // The scores are written before their products.
    ("wgmma.fence", 0, "// wgmma.fence"),
    // Scores, dP, dQ and dK are read, and stages released, while products are in flight.
    ("wgmma.wait_group", 0, "// wgmma.wait_group"),
    ("wgmma.wait_group", 7, "// wgmma.wait_group"),
    ("wgmma.wait_group", 8, "// wgmma.wait_group"),
    ("wgmma.wait_group", 9, "// wgmma.wait_group"),
    ("wgmma.wait_group", 10, "// wgmma.wait_group"),
    ("wgmma.wait_group", 15, "// wgmma.wait_group"),
    ("wgmma.wait_group", 16, "// wgmma.wait_group"),
];

fn expect_found(kernel: Kernel, mutants: &[Mutant]) -> Result<(), Box<dyn Error>> {
    let devices = [Schedule::Latest, Schedule::Eager].map(|schedule| hopper(schedule)?.checked());
    let devices = devices.into_iter().collect::<Result<Vec<_>, _>>()?;
    let record = Call::new(&devices[0], kernel)?.record(&devices[0])?;
    for device in &devices {
        Call::new(device, kernel)?.launch(device, &record, &record.ptx)?;
    }
    let mut missed = Vec::new();
    for (text, which, change) in mutants {
        let mutant = mutated(&record.ptx, text, *which, change);
        let launch = |device: &Device| Call::new(device, kernel)?.launch(device, &record, &mutant);
        let found = |device: &Device| launch(device).is_err_and(|error| error.to_string().contains(".rs:"));
        // A finding names the line of the kernel.
        if !devices.iter().any(found) {
            missed.push(format!("{text}, {which}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    Ok(())
}

#[test]
fn broken_gradient_kernels_are_found() -> Result<(), Box<dyn Error>> {
    expect_found(NARROW, NARROW_MUTANTS)
}

#[test]
fn broken_gradient_kernels_of_wide_heads_are_found() -> Result<(), Box<dyn Error>> {
    expect_found(WIDE, WIDE_MUTANTS)
}
