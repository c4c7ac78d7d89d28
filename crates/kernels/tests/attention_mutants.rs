//! Attention's forward kernel broken on purpose: the checkers find each error.

use std::error::Error;

use warpwright::arch::tensor_map::{Description, ElementType, Requirement, Swizzle};
use warpwright::prelude::*;
use warpwright::runtime::{Argument, Buffer, Device, Launch, LaunchRecord, Schedule, TensorMap};
use warpwright_kernels::attention::{Attention, AttentionBuffers, Mask, PagedCache, Pages};
use warpwright_kernels::operations::Operations;

use crate::emulated::hopper;
use crate::mutants::mutated;

/// One CTA has three tiles of 128 queries, more than stages of Q, each with four blocks of 128 keys,
/// more than stages of K and V. The last block is cut, and holds two pages; some queries see a part of
/// the one before, and all see the others.
const QUERIES: u32 = 128;
const KEYS: u32 = 428;
/// Keys of one block: no stage of K or V is filled again before one of Q.
const ONE_BLOCK: u32 = 128;
const HEADS: u32 = 3;
const D: u32 = 128;
const CACHE: PagedCache = PagedCache { page_size: 64, pages: 7, pages_per_sequence: 7 };

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
    fn new(device: &Device, keys: u32) -> Result<Self, Box<dyn Error>> {
        let [queries, heads, d] = [QUERIES, HEADS, D].map(|extent| extent as usize);
        Ok(Self {
            q: device.zeros(queries * heads * d)?,
            pool: device.zeros(CACHE.keys() * heads * d)?,
            o: device.zeros(queries * heads * d)?,
            lse: device.zeros(queries * heads)?,
            taken: device.zeros(1)?,
            offsets: device.buffer_from(&[0, QUERIES])?,
            table: device.buffer_from(&[4u32, 0, 3, 6, 1, 2, 5])?,
            lengths: device.buffer_from(&[keys])?,
            nothing: device.zeros(1)?,
        })
    }

    /// The launch of the operation, with its PTX.
    fn record(&mut self, device: &Device) -> Result<LaunchRecord, Box<dyn Error>> {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        let attention = Attention::new(1, QUERIES, HEADS, D).mask(Mask::Causal).paged(QUERIES, CACHE);
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

/// A line of the PTX that holds a text, the `which`-th of them, what becomes of the text, and the
/// keys of the launch.
type Mutant = (&'static str, usize, &'static str, u32);

/// The waits are, in the order of the PTX: 0 of the producer for the number of a tile, 2 for a stage of
/// K, 3 of V; 12 of a consumer for Q, 13 for the first block of K, 14 before the values past the end
/// become zeros, 15 for K of a block that is seen in part, 17 and 18 for K and V of one that is seen
/// whole, 19 for V of the last block, 20 and 21 for Q and K of the next tile.
///
/// Waits and fences that are not here change nothing in these launches. Wait 1 of the producer repeats
/// wait 0, and wait 5 repeats wait 4, which the release of V implies: it follows the number of the next
/// tile. Waits 6 to 11 keep the CTA until its peers in a cluster have released its stages, and it has
/// none. Wait 16 repeats wait 14. The fence of the second of two products follows that of the first, with
/// no register written in between. Phases that change before the first stage is used again change by 0.
const MUTANTS: &[Mutant] = &[
    // The producer fills a stage before it is released.
    ("mbarrier.try_wait.parity", 0, "setp", ONE_BLOCK),
    ("mbarrier.try_wait.parity", 2, "setp", KEYS),
    ("mbarrier.try_wait.parity", 3, "setp", KEYS),
    // A consumer reads a stage before its bytes have arrived.
    ("mbarrier.try_wait.parity", 12, "setp", KEYS),
    ("mbarrier.try_wait.parity", 13, "setp", KEYS),
    ("mbarrier.try_wait.parity", 14, "setp", KEYS),
    ("mbarrier.try_wait.parity", 15, "setp", KEYS),
    ("mbarrier.try_wait.parity", 17, "setp", KEYS),
    ("mbarrier.try_wait.parity", 18, "setp", KEYS),
    ("mbarrier.try_wait.parity", 19, "setp", KEYS),
    ("mbarrier.try_wait.parity", 20, "setp", KEYS),
    ("mbarrier.try_wait.parity", 21, "setp", KEYS),
    // The producer waits for the wrong phase, and a consumer at a block that is seen in part.
    ("xor.b32", 2, "and.b32", KEYS),
    ("xor.b32", 22, "and.b32", KEYS),
    // A stage is not released, or expects no bytes.
    ("mbarrier.arrive.shared.b64", 0, "// mbarrier.arrive.shared.b64", KEYS),
    ("mbarrier.arrive.expect_tx", 1, "// mbarrier.arrive.expect_tx", KEYS),
    // A stage of Q is released before all threads have read the number of its tile.
    ("bar.sync", 3, "// bar.sync", ONE_BLOCK),
    // A stage of K is released, and the scores are read, while the product is in flight.
    ("wgmma.wait_group.sync.aligned 0", 0, "// wgmma.wait_group.sync.aligned 0", KEYS),
    // Accumulators and fragments of a block that is seen in part are written before its products.
    ("wgmma.fence", 1, "// wgmma.fence", KEYS),
    // Zeros for values past the end, which a product reads by the async proxy, and of other threads.
    ("fence.proxy.async", 0, "// fence.proxy.async", KEYS),
    ("bar.sync 8, 256", 0, "// bar.sync 8, 256", KEYS),
    // The first turn is not given, and that of a block that is seen in part neither given nor awaited.
    ("bar.arrive", 0, "// bar.arrive", KEYS),
    ("bar.arrive", 1, "// bar.arrive", KEYS),
    ("bar.sync", 5, "// bar.sync", KEYS),
];

#[test]
fn broken_forward_kernels_are_found() -> Result<(), Box<dyn Error>> {
    let devices = [Schedule::Latest, Schedule::Eager].map(|schedule| hopper(schedule)?.checked());
    let devices = devices.into_iter().collect::<Result<Vec<_>, _>>()?;
    let record = Call::new(&devices[0], KEYS)?.record(&devices[0])?;
    for device in &devices {
        for keys in [KEYS, ONE_BLOCK] {
            Call::new(device, keys)?.launch(device, &record, &record.ptx)?;
        }
    }
    let mut missed = Vec::new();
    for (text, which, change, keys) in MUTANTS {
        let mutant = mutated(&record.ptx, text, *which, change);
        let mut said = String::new();
        for device in &devices {
            let outcome = Call::new(device, *keys)?.launch(device, &record, &mutant);
            said += &outcome.err().map(|error| error.to_string()).unwrap_or_default();
        }
        // A finding names the line of the kernel.
        if !said.contains(".rs:") {
            missed.push(format!("{text}, {which}: no line in: {said}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    Ok(())
}
