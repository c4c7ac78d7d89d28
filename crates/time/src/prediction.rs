//! The prediction of a launch.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use warpwright_arch::{Arch, KernelResources};
use warpwright_events::{ClusterObserver, Code, LaunchInfo, LaunchObserver, Source};

use crate::model::{Outcome, simulate};
use crate::program::Program;
use crate::recorder::LaunchRecorder;
use crate::stall::{STALLS, Stall};
use crate::timeline::Slice;

/// Bytes of traces after which the rest of a grid is predicted from the CTAs before.
const TRACE_BYTES: u64 = 4 << 30;

/// Records a launch, and predicts its time on a GPU.
#[derive(Debug)]
pub struct LaunchTiming {
    recorder: LaunchRecorder,
    arch: &'static Arch,
    traced_ctas: u32,
}

/// The predicted time of a launch, and where it goes.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// The kernel's name.
    pub kernel: String,
    /// CTAs along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y and z.
    pub block: [u32; 3],
    /// From the start of the launch to the start of the next one of the stream.
    pub microseconds: f64,
    /// SM cycles from the first instruction to the last.
    pub cycles: u64,
    /// CTAs that were simulated: all, unless the launch is so large that its trace does not fit in memory. The
    /// time of the others follows from theirs; bytes and instructions are those of the simulated ones.
    pub simulated_ctas: u64,
    /// The clock of the SMs in MHz, lowered for the power that tensor cores take.
    pub clock_mhz: f64,
    /// The part of the cycles in which the tensor cores are busy.
    pub tensor_busy: f64,
    /// Bytes of device memory that are read and written.
    pub device_bytes: u64,
    /// Bytes that the L2 cache serves.
    pub l2_bytes: u64,
    /// Registers per thread that the prediction assumes.
    pub registers_per_thread: u32,
    /// CTAs that an SM holds.
    pub ctas_per_sm: u32,
    /// Warps that waited for a barrier which the model never completed; 0 unless the kernel fails or its
    /// threads wait in a way that the model does not know.
    pub released: u64,
    /// The instructions that were issued, in the order of the code.
    pub instructions: Vec<TimedInstruction>,
    /// What happens when in the CTAs that are traced, in the order of its issue.
    #[serde(skip)]
    pub timeline: Vec<Slice>,
}

/// The cycles of one instruction.
#[derive(Clone, Debug, Serialize)]
pub struct TimedInstruction {
    /// The line of the PTX text.
    pub ptx_line: u32,
    /// The instruction.
    pub text: String,
    /// The position in the author's source.
    pub source: Option<Source>,
    /// Instructions of the hardware that were issued.
    pub issued: u64,
    /// Cycles in which warps were at this instruction, by the reason that they did not issue it.
    pub stalls: BTreeMap<Stall, u64>,
}

impl LaunchTiming {
    /// Timing of a launch on a GPU.
    pub fn new(launch: &LaunchInfo, arch: &'static Arch) -> Self {
        Self { recorder: LaunchRecorder::new(launch, TRACE_BYTES), arch, traced_ctas: 0 }
    }

    /// The same, with the [`timeline`](Prediction::timeline) of the CTAs with linear indices below this.
    pub fn tracing(self, ctas: u32) -> Self {
        Self { traced_ctas: ctas, ..self }
    }

    /// The prediction, once the launch has ended.
    pub fn prediction(&self) -> Prediction {
        let (launch, arch) = (self.recorder.launch(), self.arch);
        let code: &Code = &launch.code;
        let registers = launch.estimated_registers();
        let resources = KernelResources {
            threads_per_cta: launch.threads_per_cta(),
            registers_per_thread: registers,
            shared_bytes: launch.shared_bytes,
        };
        let ctas_per_sm = arch.capability.occupancy(&resources).map_or(1, |found| found.ctas_per_sm.max(1));
        let program = Program::new(code, arch);
        let traces = self.recorder.take();
        let simulated_ctas: u64 = traces.iter().map(|trace| u64::from(trace.ctas)).sum();
        let ctas = launch.ctas();
        let boost = f64::from(arch.boost_mhz);
        let outcome = simulate(
            &program,
            arch,
            boost * 1e6,
            traces,
            ctas_per_sm,
            u64::from(launch.shared_bytes),
            self.traced_ctas,
        );
        // CTAs that were not recorded take as long as the others.
        let cycles = (outcome.cycles as f64 * ctas as f64 / simulated_ctas.max(1) as f64) as u64;
        let partitions = u64::from(arch.sm_count * arch.capability.partitions_per_sm);
        let tensor_busy = outcome.tensor_cycles as f64 / (outcome.cycles.max(1) * partitions) as f64;
        let timing = arch.timing();
        let clock_mhz = boost * (1.0 - (1.0 - timing.clock_when_multiplying.value) * tensor_busy.min(1.0));
        Prediction {
            kernel: code.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            microseconds: cycles as f64 / clock_mhz + timing.launch_microseconds.value,
            cycles,
            simulated_ctas,
            clock_mhz,
            tensor_busy,
            device_bytes: outcome.device_bytes,
            l2_bytes: outcome.l2_bytes,
            registers_per_thread: registers,
            ctas_per_sm,
            released: outcome.released,
            timeline: timeline(code, &outcome),
            instructions: instructions(code, &outcome),
        }
    }
}

impl Prediction {
    /// CTAs of the grid.
    pub fn ctas(&self) -> u64 {
        self.grid.iter().map(|&extent| u64::from(extent)).product()
    }
}

/// The slices of the timeline, by the indices of [`instructions`].
fn timeline(code: &Code, outcome: &Outcome) -> Vec<Slice> {
    let issued = |instruction: &u32| {
        let operations = code.of_operation.iter().enumerate();
        operations.filter(|(_, of)| *of == instruction).any(|(operation, _)| outcome.issued[operation] > 0)
    };
    let all: BTreeSet<u32> = code.of_operation.iter().copied().collect();
    let places: HashMap<u32, u32> = all.into_iter().filter(issued).zip(0..).collect();
    let slices = outcome.timeline.slices.iter();
    slices
        .map(|slice| Slice { instruction: places[&code.of_operation[slice.instruction as usize]], ..*slice })
        .collect()
}

fn instructions(code: &Code, outcome: &Outcome) -> Vec<TimedInstruction> {
    let mut timed: BTreeMap<u32, ([u64; STALLS], u64)> = BTreeMap::new();
    for (operation, &index) in code.of_operation.iter().enumerate() {
        let (stalls, issued) = timed.entry(index).or_default();
        *issued += outcome.issued[operation];
        for (sum, more) in stalls.iter_mut().zip(outcome.stalls[operation]) {
            *sum += more;
        }
    }
    let timed = timed.into_iter().filter(|(_, (_, issued))| *issued > 0);
    let described = timed.map(|(index, (stalls, issued))| {
        let instruction = &code.instructions[index as usize];
        let stalls = Stall::ALL.into_iter().zip(stalls).filter(|(_, cycles)| *cycles > 0);
        TimedInstruction {
            ptx_line: instruction.line,
            text: instruction.text.to_string(),
            source: instruction.source.clone(),
            issued,
            stalls: stalls.collect(),
        }
    });
    described.collect()
}

impl LaunchObserver for LaunchTiming {
    fn wants_instructions(&self) -> bool {
        true
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn orders_strong_accesses(&self) -> bool {
        true
    }

    fn cluster(&self, ctas: &[u32]) -> Box<dyn ClusterObserver> {
        self.recorder.cluster(ctas)
    }
}
