//! Decode attention: every output and LSE against f64, by tensor copies and by `cp.async`. Unused
//! keys of the pools are NaN.

use warpwright::arch::tensor_map::{Description, ElementType, Requirement, Swizzle};
use warpwright::emulator::Schedule;
use warpwright::prelude::*;
use warpwright::runtime::{
    Argument, Buffer, Device, Error, Launch, LaunchCounts, LaunchRecord, Stream, TensorMap,
};
use warpwright_kernels::attention::PagedCache;
use warpwright_kernels::attention::decode::{DecodeBuffers, DecodeOptions, DecodeShape, Heads};
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_testing::one_in;

use crate::SUITE;
use crate::mutants::mutated;
use crate::walk::{on_emulators, run};

/// No key, one, and where boxes of 16 keys and tiles of several boxes begin and end.
const LENGTHS: &[u32] = &[0, 1, 15, 16, 17, 127, 129, 1000];

/// Heads, types, pages, options, and splits over CTAs: heads that 14 and 40 share, too.
const CASES: &[&str] = &[
    "--batch 5 --keys 300 --ragged true --ctas 7 --window 137 --softcap 5 --sink true --queries 2 --gates true",
    "--batch 3 --keys 300 --ragged true --type f16 --window 1",
    "--batch 2 --keys 200 --query-heads 16 --key-heads 4 --head-dim 256 --ctas 3",
    "--batch 2 --keys 200 --query-heads 4 --key-heads 4 --head-dim 128 --type f16 --page-size 64 --box-keys 32 --ctas 3",
    "--batch 2 --keys 200 --head-dim 96 --page-size 128 --box-keys 64 --ctas 2 --window 150",
    "--batch 2 --keys 200 --ragged true --query-heads 8 --key-heads 1 --head-dim 192 --queries 5 --page-size 256",
    "--batch 2 --keys 100 --ragged true --query-heads 32 --key-heads 4 --queries 8 --evict normal --ctas 3",
    "--batch 200 --keys 40 --ragged true --key-heads 1 --ctas 9 --stages 2",
    "--batch 2 --keys 3 --queries 8 --query-heads 1 --key-heads 1 --sink true --gates true",
    "--batch 1 --keys 440 --key-warps 1 --ctas 28",
    // A group of CTAs whose result is no whole number of a warp's elements.
    "--batch 3 --keys 129 --queries 17 --query-heads 8 --key-heads 2 --head-dim 64",
    "--batch 2 --keys 320 --key-warps 1 --ctas 80 --key-heads 1 --head-dim 96",
    "--batch 3 --keys 300 --ragged true --key-warps 1 --ctas 44 --key-heads 4 --head-dim 128",
];

#[test]
fn every_length_is_right() {
    let commands: Vec<String> =
        LENGTHS.iter().map(|keys| format!("decode-attention --batch 1 --keys {keys} --ctas 5")).collect();
    on_emulators(&SUITE, &commands.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn every_kind_of_attention_is_right_and_checks_clean() {
    for (name, schedule) in [("emu:h200", Schedule::Latest), ("emu:a100", Schedule::Random(5))] {
        let device = Device::with_schedule(name, schedule).and_then(Device::checked).expect("an emulator");
        one_in(2, CASES).for_each(|case| run(&SUITE, &device, &format!("decode-attention {case}")));
    }
}

/// The first call makes the stream's counters, which are zero before and after each: at once, not when
/// the graph is launched.
#[test]
fn a_captured_call_and_others_share_a_workspace() -> Result<(), OperationError> {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let mut call = Call::new(&device)?;
    let keys = (0..call.shape.pool_elements()).map(|i| bf16::from_f32((i % 7) as f32 - 3.0));
    call.values.copy_from(&keys.collect::<Vec<_>>())?;
    let graph = stream.capture(|stream| call.run(&operations, stream))?;
    let eager = call.outcome(|call| call.run(&operations, &stream).map(drop));
    assert!(eager.iter().any(|value| *value != bf16::ZERO) && !eager.iter().any(|value| value.is_nan()));
    for _ in 0..2 {
        assert_eq!(call.outcome(|_| Ok(graph.launch(&stream).map(drop)?)), eager);
    }
    Ok(())
}

/// A call with buffers of its own, of one sequence of 1000 keys.
struct Call {
    shape: DecodeShape,
    queries: Buffer<bf16>,
    keys: Buffer<bf16>,
    values: Buffer<bf16>,
    table: Buffer<u32>,
    lengths: Buffer<u32>,
    output: Buffer<bf16>,
    lse: Buffer<f32>,
}

impl Call {
    fn new(device: &Device) -> Result<Self, Error> {
        let heads = Heads { query_heads: 4, key_heads: 2, head_dim: 64 };
        let cache = PagedCache { page_size: 64, pages: 16, pages_per_sequence: 16 };
        let shape = DecodeShape { heads, batch: 1, queries: 1, cache };
        Ok(Self {
            shape,
            queries: device.zeros(shape.query_elements())?,
            keys: device.zeros(shape.pool_elements())?,
            values: device.zeros(shape.pool_elements())?,
            table: device.buffer_from(&(0..16).rev().collect::<Vec<u32>>())?,
            lengths: device.buffer_from(&[1000u32])?,
            output: device.zeros(shape.query_elements())?,
            lse: device.zeros(shape.query_rows())?,
        })
    }

    fn run(&mut self, operations: &Operations, stream: &Stream) -> Result<LaunchCounts, OperationError> {
        let buffers = DecodeBuffers {
            queries: &self.queries,
            keys: &self.keys,
            values: &self.values,
            table: &self.table,
            lengths: &self.lengths,
            gates: None,
            output: &mut self.output,
            lse: &mut self.lse,
        };
        operations.decode_attention(stream, &self.shape, DecodeOptions::default(), buffers)
    }

    /// The output of a call with other contents of the output before.
    fn outcome(&mut self, launch: impl FnOnce(&mut Self) -> Result<(), OperationError>) -> Vec<bf16> {
        self.output.copy_from(&vec![bf16::NAN; self.shape.query_elements()]).expect("writable");
        launch(self).expect("it runs");
        self.output.to_vec().expect("readable")
    }

    /// The map of a pool, where the launch passes one.
    fn map(&self, pool: &Buffer<bf16>) -> Result<TensorMap, Error> {
        let DecodeShape { heads, cache: PagedCache { page_size, pages, .. }, .. } = self.shape;
        let [key, head] =
            [heads.key_heads * heads.head_dim, heads.head_dim].map(|elements| u64::from(elements) * 2);
        let boxes = Requirement::tiled(ElementType::Bf16, &[heads.head_dim, 16, 1, 1, 1]);
        let extents = [heads.head_dim, page_size, 1, heads.key_heads, pages];
        let description = Description {
            extents: extents.map(u64::from).to_vec(),
            strides: vec![key, head, head, key * u64::from(page_size)],
            ..boxes.swizzled(Swizzle::Bytes128).row_major(0, &[1; 5])
        };
        TensorMap::new(pool, description)
    }

    /// Launches a kernel of that PTX, in three CTAs: each fills the ring more than once, and two
    /// share each head.
    fn launch(&self, device: &Device, record: &LaunchRecord, ptx: &str) -> Result<LaunchCounts, Error> {
        let (workspace, arrived) = (device.zeros::<f32>(1 << 12)?, device.zeros::<u32>(6)?);
        let sizes: Vec<u8> = [1, 16, 1u32 << 20, 1].iter().flat_map(|size| size.to_le_bytes()).collect();
        let scales: Vec<u8> = [1.0f32, 0.0].iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let pools = [&self.keys, &self.values];
        let maps = match ptx.contains("cp.async.bulk.tensor") {
            true => pools.map(|pool| self.map(pool)).into_iter().collect::<Result<_, _>>()?,
            false => Vec::new(),
        };
        let [keys, values] = match &maps[..] {
            [keys, values] => [keys, values].map(Argument::tensor_map),
            _ => pools.map(Argument::buffer),
        };
        let arguments = [
            keys,
            values,
            Argument::buffer(&self.queries),
            Argument::buffer(&self.table),
            Argument::buffer(&self.lengths),
            // There is no sink, and there are no gates.
            Argument::buffer(&self.queries),
            Argument::buffer(&self.queries),
            Argument::bytes([0; 12]),
            Argument::bytes(sizes),
            Argument::bytes(scales),
            Argument::buffer(&self.output),
            Argument::buffer(&self.lse),
            Argument::buffer(&workspace),
            Argument::buffer(&arrived),
        ];
        let launch = Launch { grid: 3.into(), ..record.launch };
        let kernel = device.load_ptx(ptx)?.function(&record.kernel)?;
        kernel.launch(&device.stream()?, launch, &arguments[..])
    }
}

/// A line of the PTX that holds a text, the `which`-th of them, what becomes of the text, and a part
/// of the finding.
type Mutant = (&'static str, usize, &'static str, &'static str);

/// By `cp.async`.
const ASYNC_COPY_MUTANTS: &[Mutant] = &[
    // A consumer reads a stage before its bytes have arrived, or does not release it.
    ("mbarrier.test_wait.parity.shared.b64 %p", 2, "setp.eq.u32 %p", "in flight"),
    ("mbarrier.arrive.shared.b64", 0, "// mbarrier.arrive.shared.b64", "deadlock"),
    // The producer fills a stage that is still read, or does not count its copies.
    ("mbarrier.test_wait.parity.shared.b64 %p", 0, "setp.eq.u32 %p", "completes two phases"),
    ("cp.async.mbarrier.arrive.noinc", 0, "// cp.async.mbarrier.arrive.noinc", "deadlock"),
    // Results of warps are combined before they are stored, and counted before they are.
    ("bar.sync 1", 0, "// bar.sync 1", "race"),
    ("bar.sync 1", 2, "// bar.sync 1", "race"),
    // Whether the CTA is the last is read before it is known.
    ("bar.sync 1", 3, "// bar.sync 1", "race"),
    // The last CTA does not acquire what the others have stored.
    ("atom.acq_rel.gpu", 0, "atom.relaxed.gpu", "race"),
];

/// By tensor copies.
const TENSOR_COPY_MUTANTS: &[Mutant] = &[
    ("mbarrier.try_wait.parity.shared.b64 %p", 2, "setp.eq.u32 %p", "in flight"),
    ("mbarrier.arrive.shared.b64", 0, "// mbarrier.arrive.shared.b64", "deadlock"),
    ("mbarrier.try_wait.parity.shared.b64 %p", 0, "setp.eq.u32 %p", "takes 1 arrival"),
    // A stage expects no bytes, or they do not come.
    ("mbarrier.arrive.expect_tx", 0, "// mbarrier.arrive.expect_tx", "deadlock"),
    ("cp.async.bulk.tensor", 0, "// cp.async.bulk.tensor", "deadlock"),
];

#[test]
fn broken_kernels_are_found() -> Result<(), Box<dyn std::error::Error>> {
    let mut missed = Vec::new();
    for (name, mutants) in [("emu:a100", ASYNC_COPY_MUTANTS), ("emu:h200", TENSOR_COPY_MUTANTS)] {
        let device = Device::with_schedule(name, Schedule::Latest)?.checked()?;
        let mut call = Call::new(&device)?;
        let operations = Operations::new(&device);
        let (ran, records) = device.log_launches(|| call.run(&operations, &device.stream()?));
        ran?;
        let record = records.last().expect("the launch");
        call.launch(&device, record, &record.ptx)?;
        for (text, which, change, finding) in mutants {
            let outcome =
                Call::new(&device)?.launch(&device, record, &mutated(&record.ptx, text, *which, change));
            let said = outcome.err().map(|error| error.to_string()).unwrap_or_default();
            if !said.contains(finding) {
                missed.push(format!("{name}: {text}, {which}: no {finding} in: {said}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    Ok(())
}
