//! Plans of launches: all that does not depend on where the matrices are is made once and kept.

use std::array::from_fn;
use std::sync::Arc;

use warpwright::arch::Capability;
use warpwright::runtime::{Buffer, Device, LaunchCounts, Stream, TensorMap, TileMaps};

use super::choice::choose;
use super::config::{Algorithm, Configuration};
use super::cost::Cost;
use super::maps::{OperandCopies, Reading, mapped};
use super::tune;
use crate::gemm::device::epilogue::{Fused, FusedEpilogue};
use crate::gemm::device::kernel::{Batching, Tcgen05Kernel, TmaKernel, WgmmaKernel};
use crate::gemm::device::mainloop::mma_sync::MmaSyncGemm;
use crate::gemm::device::mainloop::tma::TmaGemm;
use crate::gemm::device::schedule::{Split, StreamK};
use crate::gemm::problem::batching::{Batch, GemmProblem, Problem};
use crate::gemm::problem::epilogue::{EpilogueValues, LinearParts, NUMBERS, PresentArguments};
use crate::gemm::problem::scales::Scaling;
use crate::gemm::problem::types::{GemmOutput, Operand, with_blockwise_operands, with_operands, with_output};
use crate::operations::{Operations, Result, Scratch};

/// A GEMM with its buffers, whose types are those of `problem`.
pub struct Call<'l, E> {
    /// What is computed.
    pub problem: GemmProblem,
    /// The algorithm that the caller chose.
    pub algorithm: Option<Algorithm>,
    /// The matrices.
    pub buffers: Buffers<'l>,
    /// The epilogue that the kernel is staged with.
    pub operation: E,
    /// The epilogue's arguments.
    pub epilogue: EpilogueValues<'l>,
}

/// The matrices of a GEMM.
pub struct Buffers<'l> {
    /// A, in bytes.
    pub a: &'l Buffer<u8>,
    /// B, in bytes.
    pub b: &'l Buffer<u8>,
    /// C, in bytes.
    pub c: &'l mut Buffer<u8>,
    /// The scales of A and B.
    pub scales: Option<[&'l Buffer<u8>; 2]>,
    /// The first row of each group along m, and the number of all rows.
    pub offsets: Option<&'l Buffer<u32>>,
}

/// Launches a GEMM into C of type `C`.
pub fn launch<C: GemmOutput, E: FusedEpilogue<C>>(
    operations: &Operations,
    stream: &Stream,
    call: Call<'_, E>,
) -> Result<LaunchCounts> {
    let Call { problem, algorithm, buffers, operation, epilogue } = call;
    let plan = plan::<C, E>(operations, problem, algorithm, operation, epilogue.present())?;
    plan.launch(operations, stream, buffers, epilogue)
}

/// The plan for a problem: made at the first call and kept.
pub(crate) fn plan<C: GemmOutput, E: FusedEpilogue<C>>(
    operations: &Operations,
    problem: GemmProblem,
    algorithm: Option<Algorithm>,
    epilogue: E,
    present: PresentArguments,
) -> Result<Arc<Plan>> {
    let key = (problem, algorithm, epilogue, present);
    operations.remembered::<Plan, _, _>(key, |(problem, algorithm, epilogue, present)| {
        Plan::new::<C, E>(operations, problem, *algorithm, epilogue, *present)
    })
}

/// The hash of an algorithm's PTX, without an epilogue and gates.
pub fn ptx_hash(problem: &GemmProblem, algorithm: Algorithm, capability: &'static Capability) -> Result<u64> {
    let operations = Operations::new(&Device::dry_run(capability)?);
    let (algorithm, none, present) = (Some(algorithm), LinearParts::default(), Default::default());
    let problem = &GemmProblem { gate: None, ..*problem };
    let plan = with_output!(problem.types.c, C => Plan::new::<C, _>(&operations, problem, algorithm, &none, present))?;
    Ok(tune::hash(&plan.ptx))
}

/// A kernel with all that its launches share, whatever its types.
pub(crate) struct Plan {
    pub(super) ptx: Arc<str>,
    /// Whether the kernel computes C's transpose: its A is the problem's B.
    pub(super) transposed: bool,
    /// The copies of the kernel's A and B.
    pub(super) copies: OperandCopies,
    /// The tensor maps of A and B, and of their scales, if TMA reads them.
    pub(super) maps: [Option<[TileMaps<u8>; 2]>; 2],
    /// The maps of C, if TMA stores it.
    pub(super) c_maps: Option<TileMaps<u8>>,
    /// Accumulators and counters of the workspace.
    pub(super) workspace: (usize, usize),
    /// (m, n, k) of the kernel's own problem and the number of problems, and C's stride.
    pub(super) problem: ([u32; 4], u64),
    pub(super) start: Box<Start>,
}

/// Launches a kernel.
pub(super) type Start = dyn Fn(&Stream, Arguments<'_>) -> Result<LaunchCounts> + Send + Sync;

/// What a launch passes.
pub(super) struct Arguments<'l> {
    /// A and B as the kernel reads them, and their scales.
    pub(super) operands: [&'l Buffer<u8>; 2],
    pub(super) scales: [&'l Buffer<u8>; 2],
    /// The tensor maps of both.
    pub(super) maps: [Option<[TensorMap; 2]>; 2],
    pub(super) c_map: Option<TensorMap>,
    pub(super) c: &'l mut Buffer<u8>,
    pub(super) epilogue: EpilogueValues<'l>,
    pub(super) nothing: &'l Buffer<f32>,
    pub(super) parts: &'l mut Buffer<f32>,
    pub(super) arrived: &'l mut Buffer<u32>,
    pub(super) problem: ([u32; 4], u64, &'l Buffer<u32>),
}

/// A stream's workspace: parts and counters of split tiles, and a buffer that is passed for absent
/// arguments.
#[derive(Default)]
struct Workspace {
    parts: Scratch<f32>,
    /// The parts of each tile that have arrived: zero between launches.
    arrived: Scratch<u32>,
    nothing: Scratch<f32>,
}

impl Plan {
    /// Chooses the algorithm and compiles its kernel.
    fn new<C: GemmOutput, E: FusedEpilogue<C>>(
        operations: &Operations,
        problem: &GemmProblem,
        algorithm: Option<Algorithm>,
        epilogue: &E,
        present: PresentArguments,
    ) -> Result<Self> {
        let file = tune::default_file().ok();
        let epilogue = epilogue.clone();
        let present = PresentArguments { is_gated: problem.gate.is_some(), ..present };
        match choose(problem, algorithm, operations.device().properties(), file.as_deref())? {
            Algorithm::MmaSync(configuration) => {
                let gemm = MmaSyncGemm::new(problem, configuration);
                let fused = Fused { gemm, epilogue, present, transposed: false };
                Self::of_mma_sync::<C, E>(operations, problem, fused)
            }
            Algorithm::Wgmma(configuration) | Algorithm::Tcgen05(configuration) => {
                let mut reading = Reading::new(problem, configuration);
                if Cost::splits_equally(configuration, problem, operations.device().properties().sm_count) {
                    reading.gemm.split = Split::StreamK(StreamK::Equal);
                }
                let (gemm, transposed) = (reading.gemm, configuration.transposed);
                let fused = Fused { gemm, epilogue, present, transposed };
                Self::of_tma::<C, E>(operations, problem, configuration, &reading, fused)
            }
        }
    }

    /// The plan of a kernel that TMA feeds.
    fn of_tma<C: GemmOutput, E: FusedEpilogue<C>>(
        operations: &Operations,
        problem: &GemmProblem,
        configuration: Configuration,
        reading: &Reading,
        fused: Fused<TmaGemm, E>,
    ) -> Result<Self> {
        let (Batch { count, c_stride, .. }, batching) = (problem.batch, Batching::of(problem));
        let tma_store = problem.batch.tma_stores(C::BYTES);
        let capacity = if batching == Batching::AlongM { count.next_power_of_two() } else { 0 };
        let kernel = TmaKernel { fused, batching, own: reading.own, capacity, tma_store };
        let most = GemmProblem { batch: most_tiles(problem, configuration), ..*problem };
        let cost = Cost::of(configuration, &most, operations.device().properties().sm_count);
        let (ptx, start) = match reading.types.scaling {
            Scaling::None => with_operands!(reading.types, A, B => {
                tma_kernel::<A, B, C, E, 2>(operations, kernel, cost.ctas)
            }),
            Scaling::Blockwise(..) => with_blockwise_operands!(reading.types, A, B => {
                tma_kernel::<A, B, C, E, 4>(operations, kernel, cost.ctas)
            }),
            Scaling::BlockScaled(_) => tma_kernel::<u8, u8, C, E, 4>(operations, kernel, cost.ctas),
        }?;
        let Problem { m, n, k, .. } = reading.staged.batch.problem;
        let matrices = (batching == Batching::Batched).then_some((count, c_stride));
        Ok(Self {
            ptx,
            transposed: configuration.transposed,
            copies: OperandCopies::staged(reading.staged.copies, reading.types),
            maps: [Some(reading.operand_maps()?), reading.scale_maps()?],
            c_maps: tma_store.then(|| reading.c_maps(matrices)).transpose()?,
            workspace: if configuration.stream_k { cost.workspace() } else { (1, 1) },
            problem: ([m, n, k, count], c_stride),
            start,
        })
    }

    pub(crate) fn launch(
        &self,
        operations: &Operations,
        stream: &Stream,
        buffers: Buffers<'_>,
        epilogue: EpilogueValues<'_>,
    ) -> Result<LaunchCounts> {
        let Buffers { a, b, c, scales, offsets } = buffers;
        let (operands, scales) = match self.transposed {
            true => ([b, a], scales.map(|[a, b]| [b, a])),
            false => ([a, b], scales),
        };
        self.copies.with(operations, stream, operands, |operands| {
            operations.with_scratch(stream, |Workspace { parts, arrived, nothing }: &mut Workspace| {
                let device = operations.device();
                let nothing = &*nothing.at_least(device, 1)?;
                let scales = scales.unwrap_or([nothing.cast(), nothing.cast()]);
                let maps = [mapped(&self.maps[0], operands)?, mapped(&self.maps[1], scales)?];
                let c_map = match &self.c_maps {
                    Some(maps) => Some(maps.of(&mut *c)?),
                    // What the kernel does not use is some map.
                    None => maps[0].as_ref().map(|[a, _]| a.clone()),
                };
                let arguments = Arguments {
                    operands,
                    scales,
                    maps,
                    c_map,
                    c,
                    epilogue,
                    nothing,
                    parts: parts.at_least(device, self.workspace.0)?,
                    arrived: arrived.at_least_kept(stream, self.workspace.1)?,
                    problem: (self.problem.0, self.problem.1, offsets.unwrap_or(nothing.cast())),
                };
                (self.start)(stream, arguments)
            })
        })
    }
}

/// The kernel that TMA feeds: of `MAPS` tensor maps of operands and scales.
fn tma_kernel<A: Operand, B: Operand, C: GemmOutput, E: FusedEpilogue<C>, const MAPS: usize>(
    operations: &Operations,
    kernel: TmaKernel<E>,
    ctas: u32,
) -> Result<(Arc<str>, Box<Start>)> {
    let compiled = match kernel.fused.gemm.schedule.group() {
        Some(_) => operations.kernel(Tcgen05Kernel(kernel), Tcgen05Kernel::<E>::gemm::<A, B, C, MAPS>)?,
        None => operations.kernel(WgmmaKernel(kernel), WgmmaKernel::<E>::gemm::<A, B, C, MAPS>)?,
    };
    let (shape, ptx) = (compiled.shape(ctas).overlapping(), compiled.function().ptx().clone());
    let start = move |stream: &Stream, launch: Arguments<'_>| {
        let Arguments { maps, c_map, c, parts, arrived, problem, .. } = launch;
        let maps: [&TensorMap; MAPS] = from_fn(|at| &maps[at / 2].as_ref().expect("TMA reads it")[at % 2]);
        let (c_map, c) = (&mut c_map.expect("a map"), c.cast_mut::<C>());
        let epilogue = passed::<C>(launch.epilogue, launch.nothing);
        Ok(compiled.launch(stream, shape, (maps, c_map, c, epilogue, parts, arrived, problem))?)
    };
    Ok((ptx, Box::new(start)))
}

/// The matrix, the numbers, and the vectors of the rows and of the columns.
type PassedEpilogue<'l, C> =
    (&'l Buffer<C>, [f32; NUMBERS], &'l Buffer<f32>, &'l Buffer<f32>, &'l Buffer<f32>);

/// What a launch passes for
/// [`EpilogueParameters`](crate::gemm::device::epilogue::EpilogueParameters): `nothing` for absent
/// arguments.
pub(super) fn passed<'l, C: GemmOutput>(
    EpilogueValues { numbers, rows, columns, matrix, .. }: EpilogueValues<'l>,
    nothing: &'l Buffer<f32>,
) -> PassedEpilogue<'l, C> {
    let matrix = matrix.map_or(nothing.cast(), Buffer::cast);
    let [rows, columns, more] = [rows, columns[0], columns[1]].map(|vector| vector.unwrap_or(nothing));
    (matrix, numbers, rows, columns, more)
}

/// A batch with as many tiles as groups along m can have: one tile of each is not full.
fn most_tiles(problem: &GemmProblem, configuration: Configuration) -> Batch {
    let GemmProblem { batch, along_m, .. } = *problem;
    if !along_m {
        return batch;
    }
    let Configuration { tile, cluster, transposed, .. } = configuration;
    let high = if transposed { tile.1 * cluster.1 } else { tile.0 * cluster.0 };
    let Batch { problem, count, .. } = batch;
    let rows_of_tiles = problem.m / high + count.min(problem.m).max(1);
    Batch::new(Problem { m: 1, ..problem }, rows_of_tiles)
}
