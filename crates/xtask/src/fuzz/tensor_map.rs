//! Tensor maps: descriptions at the edges of the rules, encoded for a device, and boxes that a
//! kernel copies through them.

use warpwright_arch::tensor_map::{Access, Description, ElementType, Fill, Interleave, L2Promotion, Swizzle};
use warpwright_arch::{Arch, CAPABILITIES};
use warpwright_harness::Random;
use warpwright_runtime::{Buffer, Device, Function, Launch, Schedule, Stream, TensorMap};

use super::Target;
use super::mutate::{number, once_in};

/// Bytes of the tensors' buffer.
const BUFFER_BYTES: usize = 1 << 16;
/// Bytes of shared memory: a barrier, then the box.
const SHARED_BYTES: u32 = 200 << 10;
const TILE_OFFSET: u32 = 1024;

pub(super) struct TensorMaps {
    buffer: Buffer<u8>,
    /// The kernels that copy boxes of one to five axes.
    kernels: Vec<Function>,
    stream: Stream,
}

/// Copies a box to shared memory and back.
fn kernel(rank: usize) -> String {
    let axes = ["%r1", "%r2", "%r3", "%r4", "%r5"][..rank].join(", ");
    let loads: String = (0..5).map(|axis| format!("ld.param.u32 %r{}, [c{axis}];\n", axis + 1)).collect();
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 memory[];\n\
         .visible .entry copy(.param .align 64 .b8 map[128], .param .u32 c0, .param .u32 c1, .param .u32 c2, \
         .param .u32 c3, .param .u32 c4, .param .u32 bytes)\n{{\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.reg .pred %p;\n\
         {loads}ld.param.u32 %r6, [bytes];\nmov.b64 %rd0, map;\ncvta.param.u64 %rd1, %rd0;\nmov.u32 %r0, memory;\n\
         add.u32 %r7, %r0, {TILE_OFFSET};\n\
         mbarrier.init.shared.b64 [%r0], 1;\nfence.mbarrier_init.release.cluster;\nfence.proxy.async;\n\
         mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r0], %r6;\n\
         cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r7], [%rd1, {{{axes}}}], [%r0];\n\
         again:\nmbarrier.try_wait.parity.shared.b64 %p, [%r0], 0;\n@!%p bra again;\n\
         cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%rd1, {{{axes}}}], [%r7];\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;\n}}\n"
    )
}

impl TensorMaps {
    pub(super) fn new() -> Self {
        let h200 = Arch::named("h200").expect("it is in the table");
        let device = Device::emulated_on_one_thread(h200, Schedule::Eager).expect("a thread can be started");
        let function = |rank| {
            let module = device.load_ptx(&kernel(rank)).expect("the kernel is right");
            module.function("copy").expect("the module has it")
        };
        let buffer = device.zeros(BUFFER_BYTES).expect("it fits");
        Self { buffer, kernels: (1..=5).map(function).collect(), stream: device.stream().expect("a stream") }
    }
}

/// The numbers of a case, in order; 0 once they are used up.
struct Numbers<'a>(std::str::SplitWhitespace<'a>);

impl Numbers<'_> {
    fn next(&mut self) -> u64 {
        self.0.next().and_then(|word| word.parse::<i128>().ok()).map_or(0, |number| number as u64)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize]
    }

    fn description(&mut self) -> Description {
        let rank = (self.next() % 7) as usize;
        let element = self.of(&ElementType::ALL);
        let is_tiled = !self.next().is_multiple_of(4);
        let offset = self.next();
        let list = |numbers: &mut Self| (0..rank).map(|_| numbers.next()).collect::<Vec<_>>();
        let extents = list(self);
        let packed = Description::row_major(
            element,
            offset,
            &extents.iter().rev().map(|e| *e.min(&(1 << 40))).collect::<Vec<_>>(),
            &[],
        );
        let strides = if self.next().is_multiple_of(2) { packed.strides.clone() } else { list(self) };
        let boxes = list(self);
        let steps = list(self);
        let access = if is_tiled {
            Access::Tiled { box_extents: boxes.iter().map(|extent| *extent as u32).collect() }
        } else {
            let corner = |all: &[u64]| all.iter().skip(2).map(|number| *number as i32).collect();
            let (lower, upper) = (corner(&boxes), corner(&steps));
            Access::Im2col { lower, upper, channels: self.next() as u32, pixels: self.next() as u32 }
        };
        let has_steps = self.next().is_multiple_of(4);
        Description {
            extents,
            strides,
            element_strides: steps.iter().map(|step| if has_steps { *step as u32 } else { 1 }).collect(),
            access,
            swizzle: self.of(&Swizzle::ALL),
            interleave: self.of(&[
                Interleave::None,
                Interleave::None,
                Interleave::Bytes16,
                Interleave::Bytes32,
            ]),
            l2_promotion: self.of(&L2Promotion::ALL),
            fill: self.of(&[Fill::Zeros, Fill::Nan]),
            ..packed
        }
    }
}

/// The numbers of a map that breaks few rules: of small extents, packed, tiled.
fn legal(random: &mut Random) -> Vec<String> {
    let rank = 1 + random.below(5);
    // The last ones, of 4 and 6 bits, have rules of their own.
    let types = if once_in(random, 8) { ElementType::ALL.len() as u64 } else { 13 };
    let element = random.below(types);
    let mut words = vec![rank, element, 1, 16 * random.below(3)];
    // The innermost rows are multiples of 16 bytes.
    words.extend(
        (0..rank).map(|axis| if axis == 0 { 16 * (1 + random.below(4)) } else { 1 + random.below(6) }),
    );
    words.push(0);
    words.extend((0..rank).map(|axis| if axis == 0 { 16 } else { 1 + random.below(4) }));
    words.extend((0..rank).map(|_| 1 + random.below(3)));
    let interleave = if once_in(random, 8) { random.below(4) } else { 0 };
    let swizzle = if once_in(random, 2) { 0 } else { random.below(7) };
    let fill = once_in(random, 8).into();
    words.extend([random.below(4), swizzle, interleave, random.below(4), fill]);
    words.iter().map(u64::to_string).collect()
}

impl Target for TensorMaps {
    fn make(&self, random: &mut Random) -> String {
        let mut words = legal(random);
        for _ in 0..random.below(3) {
            let at = random.below(words.len() as u64) as usize;
            words[at] = number(random);
        }
        // Coordinates around the tensor; along axis 0 mostly multiples of 16 bytes.
        words.extend((0..5).map(|axis| match (random.below(12), axis) {
            (0, _) => number(random),
            (1..8, 0) => (16 * random.below(5) as i64 - 16).to_string(),
            _ => (random.below(12) as i64 - 4).to_string(),
        }));
        words.join(" ")
    }

    fn read(&mut self, case: &str) -> Result<(), String> {
        let mut numbers = Numbers(case.split_whitespace());
        let description = numbers.description();
        description.check().map_err(|error| error.to_string())?;
        for capability in &CAPABILITIES {
            let _ = description.check_on(capability);
        }
        let bytes = description.transaction_bytes();
        let rank = description.rank();
        let is_tiled = matches!(description.access, Access::Tiled { .. });
        let map = TensorMap::new(&self.buffer, description).map_err(|error| error.to_string())?;
        let Some(kernel) = self.kernels.get(rank.wrapping_sub(1)).filter(|_| is_tiled) else { return Ok(()) };
        let [a, b, c, d, e]: [u32; 5] = std::array::from_fn(|_| numbers.next() as u32);
        let launch = Launch::new(1, 1).dynamic_shared(SHARED_BYTES);
        let launched = kernel.launch(&self.stream, launch, (&map, a, b, c, d, e, bytes as u32));
        launched.map(|_| ()).map_err(|error| {
            // What a kernel that failed may have half-written is not readable until it is overwritten.
            self.buffer.fill_zero().expect("it fits");
            error.to_string()
        })
    }
}
