//! Attention's kernel for e4m3 broken on purpose: the checkers find each error.

use std::error::Error;

use warpwright::prelude::*;
use warpwright::runtime::{Argument, Buffer, Device, Launch, LaunchRecord, Schedule, TensorMap, TileMaps};
use warpwright_kernels::attention::{
    Attention, AttentionScales, Fp8AttentionBuffers, Mask, ScaleGranularity, TransposeV,
};
use warpwright_kernels::operations::Operations;

use crate::emulated::hopper;
use crate::mutants::mutated;

/// One CTA has three tiles of 192 queries, more than stages of Q, each with six blocks of 128 keys, more
/// than stages of K and V. The last block is cut.
const QUERIES: u32 = 192;
const KEYS: u32 = 700;
const HEADS: u32 = 3;
const D: u32 = 128;

/// The blocks of the packed sequence in V transposed.
const BLOCKS: u32 = KEYS / 128 + 1;

struct Call {
    /// Where V is transposed.
    transpose_v: TransposeV,
    q: Buffer<e4m3>,
    k: Buffer<e4m3>,
    transposed: Buffer<e4m3>,
    scales: Buffer<f32>,
    o: Buffer<bf16>,
    lse: Buffer<f32>,
    taken: Buffer<u32>,
    offsets: [Buffer<u32>; 2],
    nothing: Buffer<f32>,
}

impl Call {
    fn new(device: &Device, transpose_v: TransposeV) -> Result<Self, Box<dyn Error>> {
        let elements = |rows: u32| (rows * HEADS * D) as usize;
        Ok(Self {
            transpose_v,
            q: device.zeros(elements(QUERIES))?,
            k: device.zeros(elements(KEYS))?,
            transposed: device.zeros(elements(BLOCKS * 128))?,
            scales: device.buffer_from(&[1.0; HEADS as usize])?,
            o: device.zeros(elements(QUERIES))?,
            lse: device.zeros((QUERIES * HEADS) as usize)?,
            taken: device.zeros(1)?,
            offsets: [device.buffer_from(&[0, QUERIES])?, device.buffer_from(&[0, KEYS])?],
            nothing: device.zeros(1)?,
        })
    }

    /// The launches of the operation, with their PTX.
    fn records(&mut self, device: &Device) -> Result<Vec<LaunchRecord>, Box<dyn Error>> {
        let (operations, stream) = (Operations::new(device), device.stream()?);
        let attention = Attention::new(1, QUERIES, HEADS, D).keys(KEYS).mask(Mask::Causal);
        let granularity = ScaleGranularity::Head;
        let scales = AttentionScales { granularity, q: &self.scales, k: &self.scales, v: &self.scales };
        let buffers = Fp8AttentionBuffers {
            offsets: Some(self.offsets.each_ref()),
            ..Fp8AttentionBuffers::new([&self.q, &self.k, &self.k], scales, &mut self.o)
        };
        let attention = attention.packed(QUERIES, KEYS);
        let launch = || operations.attention_fp8_by(&stream, &attention, self.transpose_v, buffers);
        let (ran, records) = device.log_launches(launch);
        ran?;
        Ok(records)
    }

    /// The map of boxes of `box_rows` rows, of a matrix (row, head, d).
    fn map(buffer: &Buffer<e4m3>, rows: u32, box_rows: u32) -> Result<TensorMap, Box<dyn Error>> {
        let tile = TmaTile::new::<e4m3>((box_rows, D), Major::K)?;
        let maps = TileMaps::new((rows.into(), D.into()), &tile)?.pitched((HEADS * D).into());
        Ok(maps.batched(HEADS.into(), D.into()).of(buffer)?)
    }

    /// The map of V transposed: (head, d, key).
    fn transposed_map(&self) -> Result<TensorMap, Box<dyn Error>> {
        let (tile, keys) = (TmaTile::new::<e4m3>((D, 128), Major::K)?, u64::from(BLOCKS * 128));
        let maps = TileMaps::new((D.into(), keys), &tile)?;
        Ok(maps.batched(HEADS.into(), u64::from(D) * keys).of(&self.transposed)?)
    }

    /// Launches the kernel of that PTX, which transposes V before the forward kernel.
    fn transpose(&self, device: &Device, record: &LaunchRecord, ptx: &str) -> Result<(), Box<dyn Error>> {
        let (v, transposed) = (Self::map(&self.k, KEYS, 128)?, self.transposed_map()?);
        let arguments = [
            Argument::tensor_map(&v),
            Argument::tensor_map(&transposed),
            Argument::scalar(HEADS),
            Argument::scalar(BLOCKS),
            Argument::scalar(1u32),
            Argument::buffer(&self.offsets[1]),
        ];
        let function = device.load_ptx(ptx)?.function(&record.kernel)?;
        function.launch(&device.stream()?, record.launch, &arguments[..])?;
        Ok(())
    }

    /// Launches the forward kernel of that PTX in one CTA.
    fn launch(&self, device: &Device, record: &LaunchRecord, ptx: &str) -> Result<(), Box<dyn Error>> {
        let (q, k) = (Self::map(&self.q, QUERIES, 192)?, Self::map(&self.k, KEYS, 128)?);
        let v = match self.transpose_v {
            TransposeV::Before => self.transposed_map()?,
            TransposeV::Inside => Self::map(&self.k, KEYS, 128)?,
        };
        let words = |words: &[u32]| {
            Argument::bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
        };
        let strides = [0, 0, u64::from(HEADS * D), u64::from(D)];
        let strides: Vec<u8> = strides.iter().flat_map(|stride| stride.to_le_bytes()).collect();
        let [queries, keys] = &self.offsets;
        let arguments = [
            Argument::tensor_map(&q),
            Argument::tensor_map(&k),
            Argument::tensor_map(&v),
            Argument::buffer(&self.o),
            Argument::buffer(&self.lse),
            Argument::buffer(&self.taken),
            words(&[QUERIES, KEYS]),
            words(&[HEADS, 1, 1]),
            words(&[0, 0]),
            Argument::scalar(HEADS),
            Argument::scalar(1.0f32),
            Argument::scalar(1.0f32),
            Argument::buffer(queries),
            Argument::buffer(keys),
            Argument::buffer(&self.nothing),
            Argument::scalar(0u32),
            Argument::buffer(&self.nothing),
            Argument::buffer(&self.nothing),
            Argument::bytes(strides),
            Argument::buffer(&self.scales),
            Argument::buffer(&self.scales),
            Argument::buffer(&self.scales),
            words(&[1, 1]),
        ];
        let launch = Launch { grid: 1.into(), ..record.launch };
        device.load_ptx(ptx)?.function(&record.kernel)?.launch(&device.stream()?, launch, &arguments[..])?;
        Ok(())
    }
}

/// A line of the PTX that holds a text, the `which`-th of them, and what becomes of the text.
type Mutant = (&'static str, usize, &'static str);

/// The waits are, in the order of the PTX: 2 and 3 of the producer for a stage of K and of V; 19 and 21 of
/// the warps that transpose, for V and for a stage of what they pass on; 22 and 23 of a consumer for Q and
/// the first K; 24, 26 and 28 for a transposed block that is followed by one seen in part, by one seen
/// whole, and by none; 25 and 27 for K beside these; 29 and 30 for Q and K of the next tile.
///
/// Waits and fences that are not here change nothing in this launch. The producer waits for Q after V of
/// the tile before, and waits 5 to 18 keep the CTA until its stages are released. Of products with a
/// fence each and no register written in between, the first is enough.
const MUTANTS: &[Mutant] = &[
    // The producer, or a warp that transposes, fills a stage before it is released.
    ("mbarrier.try_wait.parity", 2, "setp"),
    ("mbarrier.try_wait.parity", 3, "setp"),
    ("mbarrier.try_wait.parity", 21, "setp"),
    // A stage is read before its bytes have arrived, or before it is transposed.
    ("mbarrier.try_wait.parity", 19, "setp"),
    ("mbarrier.try_wait.parity", 22, "setp"),
    ("mbarrier.try_wait.parity", 23, "setp"),
    ("mbarrier.try_wait.parity", 24, "setp"),
    ("mbarrier.try_wait.parity", 25, "setp"),
    ("mbarrier.try_wait.parity", 26, "setp"),
    ("mbarrier.try_wait.parity", 27, "setp"),
    ("mbarrier.try_wait.parity", 28, "setp"),
    ("mbarrier.try_wait.parity", 29, "setp"),
    ("mbarrier.try_wait.parity", 30, "setp"),
    // A stage of K or V is not released, is not passed on, or expects no bytes.
    ("mbarrier.arrive.shared.b64", 0, "// mbarrier.arrive.shared.b64"),
    ("mbarrier.arrive.shared.b64", 4, "// mbarrier.arrive.shared.b64"),
    ("mbarrier.arrive.shared.b64", 5, "// mbarrier.arrive.shared.b64"),
    ("mbarrier.arrive.expect_tx", 2, "// mbarrier.arrive.expect_tx"),
    ("mbarrier.arrive.expect_tx", 5, "// mbarrier.arrive.expect_tx"),
    // V is exchanged before the keys past the end are zeros, passed on before all warps are done, and read
    // through the async proxy.
    ("bar.sync 15, 96", 0, "// bar.sync 15, 96"),
    ("bar.sync 15, 96", 1, "// bar.sync 15, 96"),
    ("fence.proxy.async", 0, "// fence.proxy.async"),
    // A unit of V is written before all lanes have read it.
    ("bar.warp.sync", 0, "// bar.warp.sync"),
    ("bar.warp.sync", 15, "// bar.warp.sync"),
    // Turns are not given, or not awaited.
    ("bar.arrive", 0, "// bar.arrive"),
    ("bar.arrive", 2, "// bar.arrive"),
    ("bar.sync", 8, "// bar.sync"),
    // Scores and weights are written before their products.
    ("wgmma.fence", 0, "// wgmma.fence"),
    ("wgmma.fence", 4, "// wgmma.fence"),
    // Accumulators are read, and stages released, while products are in flight.
    ("wgmma.wait_group", 0, "// wgmma.wait_group"),
    ("wgmma.wait_group", 4, "// wgmma.wait_group"),
    ("wgmma.wait_group", 5, "// wgmma.wait_group"),
    ("wgmma.wait_group", 6, "// wgmma.wait_group"),
];

/// Those of the kernel that transposes V before.
const TRANSPOSE_MUTANTS: &[Mutant] = &[
    // V is read, and the workspace written, before the predecessor ends.
    ("griddepcontrol.wait", 0, "// griddepcontrol.wait"),
    // The block is read before the mbarrier exists, before its bytes have arrived, or without their count.
    ("bar.sync 0", 0, "// bar.sync 0"),
    ("mbarrier.try_wait.parity", 0, "setp"),
    ("mbarrier.arrive.expect_tx", 0, "// mbarrier.arrive.expect_tx"),
    // As in the forward kernel; and the block is stored.
    ("bar.sync 1, 96", 0, "// bar.sync 1, 96"),
    ("bar.sync 1, 96", 1, "// bar.sync 1, 96"),
    ("fence.proxy.async", 0, "// fence.proxy.async"),
    ("bar.warp.sync", 0, "// bar.warp.sync"),
    ("bar.warp.sync", 15, "// bar.warp.sync"),
    // The CTA ends while its block is being stored.
    ("cp.async.bulk.wait_group.read", 0, "// cp.async.bulk.wait_group.read"),
];

/// Those of the forward kernel after it, where it differs: it waits for V itself. Of the waits, 3 is the
/// producer's for a stage of V; 18, 20 and 22 are a consumer's for V of a block that is followed by one seen in
/// part, by one seen whole, and by none.
const BEFORE_MUTANTS: &[Mutant] = &[
    // V is read before the kernel before has written it.
    ("griddepcontrol.wait", 0, "// griddepcontrol.wait"),
    // A stage of V is filled before it is released, or read before its bytes have arrived.
    ("mbarrier.try_wait.parity", 3, "setp"),
    ("mbarrier.try_wait.parity", 18, "setp"),
    ("mbarrier.try_wait.parity", 20, "setp"),
    ("mbarrier.try_wait.parity", 22, "setp"),
    // It is not released, or expects no bytes.
    ("mbarrier.arrive.shared.b64", 1, "// mbarrier.arrive.shared.b64"),
    ("mbarrier.arrive.shared.b64", 3, "// mbarrier.arrive.shared.b64"),
    ("mbarrier.arrive.shared.b64", 6, "// mbarrier.arrive.shared.b64"),
    ("mbarrier.arrive.expect_tx", 2, "// mbarrier.arrive.expect_tx"),
];

/// A launch of a kernel's PTX.
type LaunchOf = fn(&Call, &Device, &LaunchRecord, &str) -> Result<(), Box<dyn Error>>;

/// Launches each mutant of the PTX of `record`, and panics unless one of the devices reports it, and none the
/// PTX as it is.
fn expect_found(
    devices: &[Device],
    (transpose_v, record): (TransposeV, &LaunchRecord),
    launch_of: LaunchOf,
    mutants: &[Mutant],
) -> Result<(), Box<dyn Error>> {
    let launch =
        |device: &Device, ptx: &str| launch_of(&Call::new(device, transpose_v)?, device, record, ptx);
    for device in devices {
        launch(device, &record.ptx)?;
    }
    let mut missed = Vec::new();
    for (text, which, change) in mutants {
        let mutant = mutated(&record.ptx, text, *which, change);
        // A finding names the line of the kernel.
        let found =
            |device: &Device| launch(device, &mutant).is_err_and(|error| error.to_string().contains(".rs:"));
        if !devices.iter().any(found) {
            missed.push(format!("{text}, {which}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    Ok(())
}

/// Devices that see a copy that is late, and one that is early.
fn devices() -> Result<[Device; 2], Box<dyn Error>> {
    let device = |schedule| hopper(schedule)?.checked_behind_writers();
    Ok([device(Schedule::Latest)?, device(Schedule::Eager)?])
}

#[test]
fn broken_kernels_for_fp8_are_found() -> Result<(), Box<dyn Error>> {
    let devices = devices()?;
    let records = Call::new(&devices[0], TransposeV::Inside)?.records(&devices[0])?;
    let [forward] = &records[..] else { panic!("{} launches", records.len()) };
    expect_found(&devices, (TransposeV::Inside, forward), Call::launch, MUTANTS)
}

#[test]
fn broken_kernels_for_fp8_with_v_transposed_before_are_found() -> Result<(), Box<dyn Error>> {
    let devices = devices()?;
    let records = Call::new(&devices[0], TransposeV::Before)?.records(&devices[0])?;
    let [transpose, forward] = &records[..] else { panic!("{} launches", records.len()) };
    expect_found(&devices, (TransposeV::Before, transpose), Call::transpose, TRANSPOSE_MUTANTS)?;
    expect_found(&devices, (TransposeV::Before, forward), Call::launch, BEFORE_MUTANTS)
}
