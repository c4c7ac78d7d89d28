//! The prediction of a launch.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use warpwright_arch::limits::WARP_SIZE;
use warpwright_arch::{Arch, KernelResources};
use warpwright_events::{
    ClusterObserver, Code, Instruction, LaunchInfo, LaunchObserver, ResidentClusters, Source as Place,
};

use crate::gpu::{Assumption, Gpu};
use crate::model::{Outcome, Shape, simulate};
use crate::program::Program;
use crate::recorder::LaunchRecorder;
use crate::source::{Recorded, Scheduled, Source};
use crate::stall::{STALLS, Stall};
use crate::timeline::Slice;

/// Bytes of traces after which the rest of a grid is predicted from the CTAs before.
const TRACE_BYTES: u64 = 4 << 30;

/// Records a launch, and predicts its time on a GPU.
#[derive(Debug)]
pub struct LaunchTiming {
    recorder: LaunchRecorder,
    gpu: Gpu,
    /// Registers per thread that are estimated.
    registers: u32,
    traced_ctas: u32,
    /// The result of a launch that was scheduled.
    outcome: Mutex<Option<Outcome>>,
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
    pub source: Option<Place>,
    /// Instructions of the hardware that were issued.
    pub issued: u64,
    /// Cycles in which warps were at this instruction, by the reason that they did not issue it.
    pub stalls: BTreeMap<Stall, u64>,
}

impl LaunchTiming {
    /// Timing of a launch on a GPU.
    pub fn new(launch: &LaunchInfo, arch: &'static Arch) -> Self {
        let is_scheduled = launch.code.instructions.iter().any(Instruction::depends_on_order);
        let recorder = LaunchRecorder::new(launch, TRACE_BYTES, is_scheduled);
        let registers = launch.estimated_registers();
        Self { recorder, gpu: Gpu::new(arch), registers, traced_ctas: 0, outcome: Mutex::default() }
    }

    /// The same, with the [`timeline`](Prediction::timeline) of the CTAs with linear indices below this.
    pub fn tracing(self, ctas: u32) -> Self {
        Self { traced_ctas: ctas, ..self }
    }

    /// The same on a GPU with changes.
    pub fn assuming(self, assumptions: &[Assumption]) -> Self {
        let gpu = assumptions.iter().fold(self.gpu, |gpu, &assumption| gpu.assuming(assumption));
        Self { gpu, ..self }
    }

    /// CTAs that an SM holds.
    fn ctas_per_sm(&self) -> u32 {
        let launch = self.recorder.launch();
        let resources = KernelResources {
            threads_per_cta: launch.threads_per_cta(),
            registers_per_thread: self.registers,
            shared_bytes: launch.shared_bytes,
        };
        self.gpu.arch.capability.occupancy(&resources).map_or(1, |found| found.ctas_per_sm.max(1))
    }

    fn simulate(&self, source: &mut dyn Source) -> Outcome {
        let launch = self.recorder.launch();
        let shape = Shape {
            ctas: launch.ctas_per_cluster(),
            warps_per_cta: launch.threads_per_cta().div_ceil(WARP_SIZE),
            ctas_per_sm: self.ctas_per_sm(),
            shared_bytes: launch.shared_bytes.into(),
        };
        let program = Program::new(&launch.code, self.recorder.predication(), self.gpu.arch);
        let clock = f64::from(self.gpu.arch.boost_mhz) * 1e6;
        simulate(&program, &self.gpu, clock, source, shape, self.traced_ctas)
    }

    /// The prediction, once the launch has ended.
    pub fn prediction(&self) -> Prediction {
        let (launch, Gpu { arch, timing, .. }) = (self.recorder.launch(), &self.gpu);
        let code: &Code = &launch.code;
        let scheduled = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        // CTAs that were not recorded take as long as the others. A scheduled launch has all that were not cancelled.
        let ctas = scheduled.is_none().then(|| launch.ctas());
        let outcome = scheduled.unwrap_or_else(|| self.simulate(&mut Recorded::new(self.recorder.take())));
        let simulated_ctas = outcome.simulated_ctas;
        let boost = f64::from(arch.boost_mhz);
        let not_recorded = ctas.map_or(1.0, |ctas| ctas as f64 / simulated_ctas.max(1) as f64);
        let cycles = (outcome.cycles as f64 * not_recorded) as u64;
        let partitions = u64::from(arch.sm_count * arch.capability.partitions_per_sm);
        let tensor_busy = outcome.tensor_cycles as f64 / (outcome.cycles.max(1) * partitions) as f64;
        // The power limit lowers the clock when the tensor cores are busy for longer than a part of the time.
        let free = timing.busy_at_full_clock.value;
        let beyond = (tensor_busy.min(1.0) - free).max(0.0) / (1.0 - free);
        let clock_mhz = boost * (1.0 - (1.0 - timing.clock_when_multiplying.value) * beyond);
        let is_programmatic =
            code.instructions.iter().any(|instruction| instruction.name().starts_with("griddepcontrol"));
        let launch_time = if is_programmatic {
            timing.programmatic_launch_microseconds
        } else {
            timing.launch_microseconds
        };
        Prediction {
            kernel: code.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            microseconds: cycles as f64 / clock_mhz + launch_time.value,
            cycles,
            simulated_ctas,
            clock_mhz,
            tensor_busy,
            device_bytes: outcome.device_bytes,
            l2_bytes: outcome.l2_bytes,
            registers_per_thread: self.registers,
            ctas_per_sm: self.ctas_per_sm(),
            released: outcome.released,
            timeline: timeline(code, &outcome),
            instructions: instructions(code, &outcome),
        }
    }
}

/// The time of a copy or a fill of device memory by the driver, which reads and writes so many bytes.
pub fn transfer_microseconds(arch: &Arch, read: u64, written: u64) -> f64 {
    let timing = arch.timing();
    let [read, written] = [(read, timing.device_reads), (written, timing.device_writes)]
        .map(|(bytes, part)| bytes as f64 / (arch.bytes_per_second * part.value));
    (read + written) * 1e6 + timing.launch_microseconds.value
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

    fn schedules(&self) -> bool {
        self.recorder.is_scheduled()
    }

    fn schedule(&self, clusters: &mut dyn ResidentClusters) {
        let outcome = self.simulate(&mut Scheduled::new(clusters, &self.recorder));
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    fn cluster(&self, ctas: &[u32]) -> Box<dyn ClusterObserver> {
        self.recorder.cluster(ctas)
    }
}
