//! Attention's forward kernel broken on purpose: the checkers find each error.

use std::error::Error;

use warpwright::arch::tensor_map::{Description, ElementType, Requirement, Swizzle};
use warpwright::prelude::*;
use warpwright::runtime::{Argument, Buffer, Device, Launch, LaunchRecord, Schedule, TensorMap};
use warpwright_kernels::attention::{Attention, AttentionBuffers, PagedCache, Pages};
use warpwright_kernels::operations::Operations;

use crate::emulated::hopper;
use crate::mutants::mutated;

/// One CTA has three tiles of 128 queries, more than stages of Q, each with three blocks of 128 keys,
/// more than stages of K and V. The last block is cut, and holds two pages.
const QUERIES: u32 = 128;
const KEYS: u32 = 300;
const HEADS: u32 = 3;
const D: u32 = 128;
const CACHE: PagedCache = PagedCache { page_size: 64, pages: 5, pages_per_sequence: 5 };

struct Call {
    q: Buffer<bf16>,
    pool: Buffer<bf16>,
    o: Buffer<bf16>,
    lse: Buffer<f32>,
    taken: Buffer<u32>,
    offsets: Buffer<u32>,
    table: Buffer<u32>,
    lengths: Buffer<u32>,
    nothing: Buffer<f32>,
}

impl Call {
    fn new(device: &Device) -> Result<Self, Box<dyn Error>> {
        let [queries, heads, d] = [QUERIES, HEADS, D].map(|extent| extent as usize);
        Ok(Self {
            q: device.zeros(queries * heads * d)?,
            pool: device.zeros(CACHE.keys() * heads * d)?,
            o: device.zeros(queries * heads * d)?,
            lse: device.zeros(queries * heads)?,
            taken: device.zeros(1)?,
            offsets: device.buffer_from(&[0, QUERIES])?,
            table: device.buffer_from(&[4u32, 0, 3, 1, 2])?,
            lengths: device.buffer_from(&[KEYS])?,
            nothing: device.zeros(1)?,
        })
    }

    /// The launch of the operation, with its PTX.
    fn record(&mut self, device: &Device) -> Result<LaunchRecord, Box<dyn Error>> {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        let attention = Attention::new(1, QUERIES, HEADS, D).paged(QUERIES, CACHE);
        let buffers = AttentionBuffers {
            offsets: Some([&self.offsets, &self.offsets]),
            pages: Some(Pages { table: &self.table, lengths: &self.lengths }),
            ..AttentionBuffers::new(&self.q, &self.pool, &self.pool, &mut self.o)
        };
        let (ran, mut records) = device.log_launches(|| operations.attention(&stream, &attention, buffers));
        ran?;
        Ok(records.pop().expect("the launch"))
    }

    /// The map of boxes of `rows` rows, of a matrix (matrices, rows, heads, d).
    fn map(buffer: &Buffer<bf16>, extents: &[u32], rows: u32) -> Result<TensorMap, Box<dyn Error>> {
        let bytes = |elements: u32| u64::from(elements) * 2;
        let boxes: Vec<u32> = [64, rows, 1, 1][..extents.len()].to_vec();
        let strides = [HEADS * D, D, HEADS * D * CACHE.page_size].map(bytes);
        let description = Description {
            extents: extents.iter().copied().map(u64::from).collect(),
            strides: strides[..extents.len() - 1].to_vec(),
            ..Requirement::tiled(ElementType::Bf16, &boxes)
                .swizzled(Swizzle::Bytes128)
                .row_major(0, &vec![1; extents.len()])
        };
        Ok(TensorMap::new(buffer, description)?)
    }

    /// Launches the kernel of that PTX in one CTA.
    fn launch(&self, device: &Device, record: &LaunchRecord, ptx: &str) -> Result<(), Box<dyn Error>> {
        let q = Self::map(&self.q, &[D, QUERIES, HEADS], QUERIES)?;
        let pool = Self::map(&self.pool, &[D, CACHE.page_size, HEADS, CACHE.pages], CACHE.page_size)?;
        let words = |words: &[u32]| {
            Argument::bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
        };
        let strides = [0, 0, u64::from(HEADS * D), u64::from(D)];
        let strides: Vec<u8> = strides.iter().flat_map(|stride| stride.to_le_bytes()).collect();
        let arguments = [
            Argument::tensor_map(&q),
            Argument::tensor_map(&pool),
            Argument::tensor_map(&pool),
            Argument::buffer(&self.o),
            Argument::buffer(&self.lse),
            Argument::buffer(&self.taken),
            words(&[QUERIES, KEYS]),
            words(&[HEADS, 1, 1]),
            words(&[0, 0]),
            Argument::scalar(HEADS),
            Argument::scalar(1.0f32),
            Argument::scalar(1.0f32),
            Argument::buffer(&self.offsets),
            Argument::buffer(&self.lengths),
            Argument::buffer(&self.table),
            Argument::scalar(CACHE.pages_per_sequence),
            Argument::buffer(&self.nothing),
            Argument::buffer(&self.nothing),
            Argument::bytes(strides),
        ];
        let launch = Launch { grid: 1.into(), ..record.launch };
        device.load_ptx(ptx)?.function(&record.kernel)?.launch(&device.stream()?, launch, &arguments[..])?;
        Ok(())
    }
}

/// A line of the PTX that holds a text, the `which`-th of them, and what becomes of the text.
type Mutant = (&'static str, usize, &'static str);

/// The waits are, in the order of the PTX: 2 of the producer for a stage of K, 3 of V; 12 of a consumer
/// for Q, 13 for the first block of K, 14 before the values past the end become zeros.
const MUTANTS: &[Mutant] = &[
    // The producer fills a stage before it is released.
    ("mbarrier.try_wait.parity", 2, "setp"),
    ("mbarrier.try_wait.parity", 3, "setp"),
    // A consumer reads a stage before its bytes have arrived.
    ("mbarrier.try_wait.parity", 12, "setp"),
    ("mbarrier.try_wait.parity", 13, "setp"),
    ("mbarrier.try_wait.parity", 14, "setp"),
    // The producer waits for the wrong phase.
    ("xor.b32", 2, "and.b32"),
    // A stage is not released, or expects no bytes.
    ("mbarrier.arrive.shared.b64", 0, "// mbarrier.arrive.shared.b64"),
    ("mbarrier.arrive.expect_tx", 1, "// mbarrier.arrive.expect_tx"),
    // A stage of K is released, and the scores are read, while the product is in flight.
    ("wgmma.wait_group.sync.aligned 0", 0, "// wgmma.wait_group.sync.aligned 0"),
    // Zeros for values past the end, which a product reads by the async proxy, and of other threads.
    ("fence.proxy.async", 0, "// fence.proxy.async"),
    ("bar.sync 8, 256", 0, "// bar.sync 8, 256"),
    // The first turn is not given.
    ("bar.arrive", 0, "// bar.arrive"),
];

#[test]
fn broken_forward_kernels_are_found() -> Result<(), Box<dyn Error>> {
    let device = hopper(Schedule::Latest)?.checked()?;
    let record = Call::new(&device)?.record(&device)?;
    Call::new(&device)?.launch(&device, &record, &record.ptx)?;
    let mut missed = Vec::new();
    for (text, which, change) in MUTANTS {
        let mutant = mutated(&record.ptx, text, *which, change);
        let outcome = Call::new(&device)?.launch(&device, &record, &mutant);
        let said = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        // A finding names the line of the kernel.
        if !said.contains(".rs:") {
            missed.push(format!("{text}, {which}: no line in: {said}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    Ok(())
}
