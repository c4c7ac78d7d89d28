//! Plans of launches: all that does not depend on where the matrices are is made once and kept.

use std::path::Path;
use std::sync::Arc;

use warpwright::arch::Capability;
use warpwright::prelude::bf16;
use warpwright::runtime::{Buffer, Device, DeviceProperties, LaunchCounts, Stream, TensorMap, TileMaps};

use super::config::{Algorithm, Configuration, TmaInstruction, mma_sync_computes};
use super::cost::Cost;
use super::heuristic;
use super::maps::{CopyScratch, OperandMaps, Reading, copied, scale_maps};
use super::tune::{self, Key};
use crate::gemm::device::epilogue::{Fused, FusedEpilogue};
use crate::gemm::device::kernel::{Batching, MmaSyncKernel, Tcgen05Kernel, TmaKernel, WgmmaKernel};
use crate::gemm::device::mainloop::mma_sync::{MmaSyncConfiguration, MmaSyncGemm, pairs};
use crate::gemm::device::mainloop::mma_sync_promotion::ByteOperands;
use crate::gemm::device::mainloop::tma::{StreamK, TmaGemm};
use crate::gemm::device::staging::StagedBatch;
use crate::gemm::device::unpack::UnpackedOperand;
use crate::gemm::problem::batching::{Batch, GemmProblem, Problem};
use crate::gemm::problem::epilogue::{EpilogueValues, LinearParts, NUMBERS, PresentArguments};
use crate::gemm::problem::error::GemmError;
use crate::gemm::problem::narrow::{SCALE_TILE, VectorScaling};
use crate::gemm::problem::scales::Granularity;
use crate::gemm::problem::types::{GemmOutput, with_operands, with_output, with_scaled_operands, with_type};
use crate::operations::{OperationError, Operations, Result, Scratch, both};

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

/// The caller's algorithm, or the tuned one, or the heuristic's.
///
/// A cache that cannot be read counts as empty: it only makes a GEMM faster. `warpwright run gemm
/// --explain` reports what is wrong with it.
pub(crate) fn choose(
    problem: &GemmProblem,
    algorithm: Option<Algorithm>,
    properties: &DeviceProperties,
    file: Option<&Path>,
) -> Result<Algorithm> {
    let capability = properties.capability;
    expect_kernel(problem, capability)?;
    if let Some(algorithm) = algorithm {
        algorithm.check(problem, capability)?;
        return Ok(algorithm);
    }
    let tuned = |file| tuned(problem, properties, file).ok().flatten();
    let ranked = || heuristic::algorithms(problem, capability, properties.sm_count)[0];
    Ok(file.and_then(tuned).unwrap_or_else(ranked))
}

/// Refuses types and block scales that no kernel of the device computes.
pub fn expect_kernel(problem: &GemmProblem, capability: &Capability) -> Result<(), GemmError> {
    let target = capability.target;
    let by_tma = TmaInstruction::of(capability).is_some_and(|instruction| instruction.scales(problem));
    match by_tma || mma_sync_computes(problem, capability) {
        true => Ok(()),
        false if problem.vector_scales.is_some() => Err(GemmError::NoVectorScales { target }),
        false if problem.scales.is_some() => Err(GemmError::NoBlockScales { target }),
        false => Err(GemmError::NoTmaInstruction { types: problem.types.inputs(), target }),
    }
}

/// The tuned algorithm of a file, if its kernel is the one that was timed. An emulator has none.
pub fn tuned(
    problem: &GemmProblem,
    properties: &DeviceProperties,
    file: &Path,
) -> Result<Option<Algorithm>, tune::TuneError> {
    if properties.is_emulated || problem.along_m {
        return Ok(None);
    }
    let capability = properties.capability;
    tune::find(file, &Key::of(&properties.product, problem), |algorithm, hash| {
        let is_legal = algorithm.check(problem, capability).is_ok();
        is_legal && ptx_hash(problem, algorithm, capability).is_ok_and(|own| own == hash)
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

/// A kernel with all that its launches share.
pub(crate) struct Plan {
    ptx: Arc<str>,
    launch: Box<Launch>,
}

type Launch =
    dyn Fn(&Operations, &Stream, Buffers<'_>, EpilogueValues<'_>) -> Result<LaunchCounts> + Send + Sync;

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
                let gemm = MmaSyncGemm { gate: problem.gate, ..mma_sync_gemm(problem, configuration) };
                let fused = Fused { gemm, epilogue, present, transposed: false };
                mma_sync::<C, E>(operations, problem, fused)
            }
            Algorithm::Wgmma(configuration) | Algorithm::Tcgen05(configuration) => {
                let mut reading = Reading::new(problem, configuration);
                if Cost::splits_equally(configuration, problem, operations.device().properties().sm_count) {
                    reading.gemm.stream_k = Some(StreamK::Equal);
                }
                let (gemm, transposed) = (reading.gemm, configuration.transposed);
                let fused = Fused { gemm, epilogue, present, transposed };
                by_tma::<C, E>(operations, problem, configuration, &reading, fused)
            }
        }
    }

    pub(crate) fn launch(
        &self,
        operations: &Operations,
        stream: &Stream,
        buffers: Buffers<'_>,
        epilogue: EpilogueValues<'_>,
    ) -> Result<LaunchCounts> {
        (self.launch)(operations, stream, buffers, epilogue)
    }
}

/// The matrix, the numbers, and the vectors of the rows and of the columns.
type PassedEpilogue<'l, C> =
    (&'l Buffer<C>, [f32; NUMBERS], &'l Buffer<f32>, &'l Buffer<f32>, &'l Buffer<f32>);

/// What a launch passes for
/// [`EpilogueParameters`](crate::gemm::device::epilogue::EpilogueParameters): `nothing` for absent
/// arguments.
fn passed<'l, C: GemmOutput>(
    EpilogueValues { numbers, rows, columns, matrix, .. }: EpilogueValues<'l>,
    nothing: &'l Buffer<f32>,
) -> PassedEpilogue<'l, C> {
    let matrix = matrix.map_or(nothing.cast(), Buffer::cast);
    let [rows, columns, more] = [rows, columns[0], columns[1]].map(|vector| vector.unwrap_or(nothing));
    (matrix, numbers, rows, columns, more)
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

/// CTAs of a grid along its second and third axis. (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability".)
const MAX_GRID_ROWS: u32 = 65_535;

/// The `mma.sync` main loop for a problem.
fn mma_sync_gemm(problem: &GemmProblem, configuration: MmaSyncConfiguration) -> MmaSyncGemm {
    let GemmProblem { types, scales, along_m: any_row, .. } = *problem;
    match problem.vector_scaling() {
        Some(scaling) => MmaSyncGemm::narrow(problem.batch, scaling, configuration),
        None if types.input_bytes() == 1 => {
            let StagedBatch { batch, .. } = StagedBatch::of(problem);
            let operands = ByteOperands { types: [types.a, types.b], scales, any_row };
            let gemm = MmaSyncGemm::of_bytes(batch, operands, configuration);
            MmaSyncGemm { exact: gemm.exact && !any_row, ..gemm }
        }
        // Groups have any number of rows.
        None if problem.along_m => {
            MmaSyncGemm { exact: false, ..MmaSyncGemm::new(problem.batch.problem.into(), configuration) }
        }
        None => MmaSyncGemm::new(problem.batch, configuration),
    }
}

/// The plan of a launch of the `mma.sync` kernel.
fn mma_sync<C: GemmOutput, E: FusedEpilogue<C>>(
    operations: &Operations,
    problem: &GemmProblem,
    fused: Fused<MmaSyncGemm, E>,
) -> Result<Plan> {
    let Batch { problem: Problem { m, n, k, .. }, count, a_stride, b_stride, c_stride } = problem.batch;
    // A group along m may have all rows. The problems fill the grid's second axis; if they are too
    // many, the third.
    let (tiles, layers) = (fused.gemm.grid(m, n), count.div_ceil(MAX_GRID_ROWS));
    let grid = [tiles, count.div_ceil(layers), layers];
    let kernel = MmaSyncKernel { fused, batching: Batching::of(problem) };
    if let Some(scaling) = problem.vector_scaling() {
        return mma_sync_of_narrow::<C, E>(operations, problem, scaling, kernel, grid);
    }
    if problem.types.input_bytes() == 1 {
        return mma_sync_of_bytes::<C, E>(operations, problem, kernel, grid);
    }
    with_type!(problem.types.a, T in [Bf16 bf16, F16 f16] => {
        let compiled = operations.kernel(kernel, MmaSyncKernel::<E>::gemm::<T, C>)?;
        let ptx = compiled.function().ptx().clone();
        let launch = move |operations: &Operations, stream: &Stream, buffers: Buffers<'_>, epilogue: EpilogueValues<'_>| {
            operations.with_scratch(stream, |Workspace { nothing, .. }: &mut Workspace| {
                let nothing = &*nothing.at_least(operations.device(), 1)?;
                let Buffers { a, b, c, offsets, .. } = buffers;
                let problem = ([m, n, k, count], c_stride, offsets.unwrap_or(nothing.cast()));
                let (a, b, c) = (a.cast::<T>(), b.cast::<T>(), c.cast_mut::<C>());
                let arguments = (a, b, c, passed::<C>(epilogue, nothing), problem, a_stride, b_stride);
                Ok(compiled.launch(stream, grid, arguments)?)
            })
        };
        Ok(Plan { ptx, launch: Box::new(launch) })
    })
}

/// The same of narrow operands with scales, after copies of those of 6 bits.
fn mma_sync_of_narrow<C: GemmOutput, E: FusedEpilogue<C>>(
    operations: &Operations,
    problem: &GemmProblem,
    scaling: VectorScaling,
    kernel: MmaSyncKernel<E>,
    grid: [u32; 3],
) -> Result<Plan> {
    let compiled = operations.kernel(kernel, MmaSyncKernel::<E>::scaled_gemm::<C>)?;
    let ptx = compiled.function().ptx().clone();
    let Batch { problem: Problem { m, n, k, .. }, count, a_stride, b_stride, c_stride } = problem.batch;
    let own = problem.batch.own();
    let stride = |own: bool, rows: u32| match own {
        true => u64::from(rows.div_ceil(SCALE_TILE.0) * SCALE_TILE.0) * u64::from(scaling.tiles(k)),
        false => 0,
    };
    let scale_strides = [stride(own.0, m), stride(own.1, n)];
    let [(a_count, _), (b_count, _)] = problem.batch.matrices();
    let a_copy = UnpackedOperand::of(scaling, scaling.a, (m, k), a_count);
    let b_copy = UnpackedOperand::of(scaling, scaling.b, (n, k), b_count);
    let step = |copy: &Option<UnpackedOperand>, own: bool, rows: u32, stride: u64| match copy {
        Some(_) if own => u64::from(rows) * u64::from(k),
        _ => stride,
    };
    let (a_stride, b_stride) = (step(&a_copy, own.0, m, a_stride), step(&b_copy, own.1, n, b_stride));
    let launch = move |operations: &Operations,
                       stream: &Stream,
                       buffers: Buffers<'_>,
                       epilogue: EpilogueValues<'_>| {
        let Buffers { a, b, c, scales, .. } = buffers;
        let [a_scales, b_scales] = scales.expect("the operands have scales");
        operations.with_scratch(stream, |[a_scratch, b_scratch]: &mut CopyScratch| {
            let read = |copy: Option<UnpackedOperand>, operand, scratch| match copy {
                None => Ok((operand, LaunchCounts::default())),
                Some(copy) => copy.launch(operations, stream, operand, scratch),
            };
            let (a, a_counts) = read(a_copy, a, a_scratch)?;
            let (b, b_counts) = read(b_copy, b, b_scratch)?;
            let counts = operations.with_scratch(stream, |Workspace { nothing, .. }: &mut Workspace| {
                let nothing = &*nothing.at_least(operations.device(), 1)?;
                let scales = (a_scales.cast::<u32>(), b_scales.cast::<u32>(), scale_strides);
                // Pairs of bytes.
                let problem = ([m, n, k / 2, count], c_stride, nothing.cast::<u32>());
                let (a, b, c) = (a.cast::<bf16>(), b.cast::<bf16>(), c.cast_mut::<C>());
                let epilogue = passed::<C>(epilogue, nothing);
                let arguments = (a, b, scales, c, epilogue, problem, a_stride / 2, b_stride / 2);
                Ok::<_, OperationError>(compiled.launch(stream, grid, arguments)?)
            })?;
            Ok(both(both(a_counts, b_counts), counts))
        })
    };
    Ok(Plan { ptx, launch: Box::new(launch) })
}

/// The same of operands of 8 bits, after copies of those whose k is not contiguous or whose rows do
/// not begin at multiples of 16 bytes.
fn mma_sync_of_bytes<C: GemmOutput, E: FusedEpilogue<C>>(
    operations: &Operations,
    problem: &GemmProblem,
    kernel: MmaSyncKernel<E>,
    grid: [u32; 3],
) -> Result<Plan> {
    let compiled = operations.kernel(kernel, MmaSyncKernel::<E>::byte_gemm::<C>)?;
    let ptx = compiled.function().ptx().clone();
    let GemmProblem { types, scales: granularities, .. } = *problem;
    let StagedBatch { batch, copies: [a_copy, b_copy] } = StagedBatch::of(problem);
    let Batch { problem: Problem { m, n, k, .. }, count, a_stride, b_stride, c_stride } = batch;
    let own = if problem.along_m { (false, true) } else { batch.own() };
    let of_operand = |granularity: Option<Granularity>, rows: u32, own: bool| match granularity {
        None => (0, 0),
        Some(granularity) => {
            let (blocks, pitch) = granularity.extents((rows, k));
            (pitch, if own { u64::from(blocks) * u64::from(pitch) } else { 0 })
        }
    };
    let (a_pitch, a_scales) = of_operand(granularities.map(|(a, _)| a), m, own.0);
    let (b_pitch, b_scales) = of_operand(granularities.map(|(_, b)| b), n, own.1);
    let launch = move |operations: &Operations,
                       stream: &Stream,
                       buffers: Buffers<'_>,
                       epilogue: EpilogueValues<'_>| {
        let Buffers { a, b, c, scales, offsets } = buffers;
        operations.with_scratch(stream, |[a_scratch, b_scratch]: &mut CopyScratch| {
            let (a, a_counts) = copied(a_copy, types.a, operations, stream, a, a_scratch)?;
            let (b, b_counts) = copied(b_copy, types.b, operations, stream, b, b_scratch)?;
            let counts = operations.with_scratch(stream, |Workspace { nothing, .. }: &mut Workspace| {
                let nothing = &*nothing.at_least(operations.device(), 1)?;
                let [of_a, of_b] = scales.unwrap_or([nothing.cast(), nothing.cast()]);
                let scales =
                    (of_a.cast::<f32>(), of_b.cast::<f32>(), [a_pitch, b_pitch], [a_scales, b_scales]);
                let problem = ([m, n, pairs(k), count], c_stride, offsets.unwrap_or(nothing.cast()));
                let (a, b, c) = (a.cast::<bf16>(), b.cast::<bf16>(), c.cast_mut::<C>());
                let epilogue = passed::<C>(epilogue, nothing);
                let arguments = (a, b, scales, c, epilogue, problem, k, a_stride / 2, b_stride / 2);
                Ok::<_, OperationError>(compiled.launch(stream, grid, arguments)?)
            })?;
            Ok(both(both(a_counts, b_counts), counts))
        })
    };
    Ok(Plan { ptx, launch: Box::new(launch) })
}

/// What all launches of a kernel that TMA feeds share, whatever its types.
struct TmaLaunches {
    transposed: bool,
    operands: OperandMaps,
    /// The maps of the kernel's A scales and B scales.
    scales: Option<[TileMaps<u8>; 2]>,
    /// The maps of C, if TMA stores it.
    c: Option<TileMaps<u8>>,
    /// Accumulators and counters of the workspace.
    workspace: (usize, usize),
    /// (m, n, k) of the kernel's own problem and the number of problems, and C's stride.
    problem: ([u32; 4], u64),
}

/// The arguments of its launch.
struct TmaArguments<'l> {
    operands: &'l [TensorMap; 2],
    scales: Option<&'l [TensorMap; 2]>,
    c_map: &'l mut TensorMap,
    c: &'l mut Buffer<u8>,
    epilogue: EpilogueValues<'l>,
    nothing: &'l Buffer<f32>,
    parts: &'l mut Buffer<f32>,
    arrived: &'l mut Buffer<u32>,
    problem: ([u32; 4], u64, &'l Buffer<u32>),
}

type TmaStart = dyn Fn(&Stream, TmaArguments<'_>) -> Result<LaunchCounts> + Send + Sync;

impl TmaLaunches {
    /// The plan of launches that `start` starts.
    fn plan(
        self,
        ptx: Arc<str>,
        start: impl Fn(&Stream, TmaArguments<'_>) -> Result<LaunchCounts> + Send + Sync + 'static,
    ) -> Plan {
        let start: Box<TmaStart> = Box::new(start);
        let launch = move |operations: &Operations,
                           stream: &Stream,
                           buffers: Buffers<'_>,
                           epilogue: EpilogueValues<'_>| {
            self.launch(operations, stream, buffers, epilogue, &*start)
        };
        Plan { ptx, launch: Box::new(launch) }
    }

    fn launch(
        &self,
        operations: &Operations,
        stream: &Stream,
        buffers: Buffers<'_>,
        epilogue: EpilogueValues<'_>,
        start: &TmaStart,
    ) -> Result<LaunchCounts> {
        let Buffers { a, b, c, scales, offsets } = buffers;
        let operands = if self.transposed { [b, a] } else { [a, b] };
        self.operands.mapped(operations, stream, operands, |operands| {
            let scales = scale_maps(&self.scales, scales, self.transposed)?;
            // What the kernel does not use is some map.
            let mut c_map = match &self.c {
                Some(maps) => maps.of(&mut *c)?,
                None => operands[0].clone(),
            };
            operations.with_scratch(stream, |Workspace { parts, arrived, nothing }: &mut Workspace| {
                let ((accumulators, counters), device) = (self.workspace, operations.device());
                let nothing = &*nothing.at_least(device, 1)?;
                let arguments = TmaArguments {
                    operands,
                    scales: scales.as_ref(),
                    c_map: &mut c_map,
                    c,
                    epilogue,
                    nothing,
                    parts: parts.at_least(device, accumulators)?,
                    arrived: arrived.at_least_kept(stream, counters)?,
                    problem: (self.problem.0, self.problem.1, offsets.unwrap_or(nothing.cast())),
                };
                start(stream, arguments)
            })
        })
    }
}

/// The plan of a launch of a kernel that TMA feeds.
fn by_tma<C: GemmOutput, E: FusedEpilogue<C>>(
    operations: &Operations,
    problem: &GemmProblem,
    configuration: Configuration,
    reading: &Reading,
    fused: Fused<TmaGemm, E>,
) -> Result<Plan> {
    let (Batch { count, c_stride, .. }, batching) = (problem.batch, Batching::of(problem));
    let tma_store = problem.batch.tma_stores(C::BYTES);
    let capacity = if batching == Batching::AlongM { count.next_power_of_two() } else { 0 };
    let kernel = TmaKernel { fused, batching, own: reading.own, capacity, tma_store };
    let most = GemmProblem { batch: most_tiles(problem, configuration), ..*problem };
    let cost = Cost::of(configuration, &most, operations.device().properties().sm_count);
    let Problem { m, n, k, .. } = reading.staged.batch.problem;
    let matrices = (batching == Batching::Batched).then_some((count, c_stride));
    let launches = TmaLaunches {
        transposed: configuration.transposed,
        operands: OperandMaps::new(reading)?,
        scales: reading.scale_maps()?,
        c: tma_store.then(|| reading.c_maps(matrices)).transpose()?,
        workspace: if configuration.stream_k { cost.workspace() } else { (1, 1) },
        problem: ([m, n, k, count], c_stride),
    };
    if problem.scales.is_none() && problem.vector_scales.is_none() {
        return with_operands!(reading.types, A, B => {
            let compiled = match configuration.schedule.group() {
                Some(_) => {
                    operations.kernel(Tcgen05Kernel(kernel), Tcgen05Kernel::<E>::gemm::<A, B, C>)?
                }
                None => operations.kernel(WgmmaKernel(kernel), WgmmaKernel::<E>::gemm::<A, B, C>)?,
            };
            let (shape, ptx) = (compiled.shape(cost.ctas).overlapping(), compiled.function().ptx().clone());
            Ok(launches.plan(ptx, move |stream, launch| {
                let TmaArguments { operands: [a, b], c_map, c, parts, arrived, problem, .. } = launch;
                let (c, epilogue) = (c.cast_mut::<C>(), passed::<C>(launch.epilogue, launch.nothing));
                Ok(compiled.launch(stream, shape, ((a, b), c_map, c, epilogue, parts, arrived, problem))?)
            }))
        });
    }
    let compiled = match configuration.schedule.group() {
        Some(_) if problem.vector_scales.is_some() => {
            operations.kernel(Tcgen05Kernel(kernel), Tcgen05Kernel::<E>::scaled_gemm::<u8, u8, C>)?
        }
        Some(_) => with_scaled_operands!(reading.types, A, B => {
            operations.kernel(Tcgen05Kernel(kernel), Tcgen05Kernel::<E>::scaled_gemm::<A, B, C>)?
        }),
        None => with_scaled_operands!(reading.types, A, B => {
            operations.kernel(WgmmaKernel(kernel), WgmmaKernel::<E>::scaled_gemm::<A, B, C>)?
        }),
    };
    let (shape, ptx) = (compiled.shape(cost.ctas).overlapping(), compiled.function().ptx().clone());
    Ok(launches.plan(ptx, move |stream, launch| {
        let TmaArguments { operands: [a, b], c_map, c, parts, arrived, problem, .. } = launch;
        let [a_scales, b_scales] = launch.scales.expect("the operands have scales");
        let (c, epilogue) = (c.cast_mut::<C>(), passed::<C>(launch.epilogue, launch.nothing));
        let arguments = ((a, b), (a_scales, b_scales), c_map, c, epilogue, parts, arrived, problem);
        Ok(compiled.launch(stream, shape, arguments)?)
    }))
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

#[cfg(test)]
mod tests {
    use std::fs;

    use warpwright::arch::DataType::{Bf16, E4m3, E5m2, F32};

    use super::*;
    use crate::gemm::problem::scales::Granularity::{Block, Row};
    use crate::gemm::problem::types::{GemmTypes, MatrixLayout};

    const BF16: GemmTypes = GemmTypes { a: Bf16, b: Bf16, c: F32 };

    fn keep(file: &Path, problem: &GemmProblem, properties: &DeviceProperties, algorithm: Algorithm) {
        let hash = ptx_hash(problem, algorithm, properties.capability).expect("a kernel");
        tune::keep(file, &Key::of("a GPU", problem), algorithm, hash, 1.0).expect("kept");
    }

    /// An emulated H200, and the GPU.
    fn devices() -> [DeviceProperties; 2] {
        let emulator = Device::named("emu:h200").expect("an emulator").properties().clone();
        let product = "a GPU".to_owned();
        [emulator.clone(), DeviceProperties { is_emulated: false, product, ..emulator }]
    }

    #[test]
    fn a_tuned_algorithm_precedes_the_heuristic() {
        let (file, _directory) = tune::temporary_file("launch");
        let [emulator, gpu] = devices();
        let ampere = Capability::for_target("sm_80").expect("it is known");
        let older = DeviceProperties { capability: ampere, ..gpu.clone() };
        let ranked = |problem: &GemmProblem| heuristic::algorithms(problem, gpu.capability, gpu.sm_count);
        let chosen_from = |problem: &GemmProblem, properties, file| {
            choose(problem, None, properties, file).expect("an algorithm")
        };
        let problem = Problem::new(600, 520, 200);
        for batch in [Batch::from(problem), Batch::new(problem, 3), Batch::new(problem, 3).sharing_b()] {
            let problem = GemmProblem::new(batch, BF16);
            let (all, chosen) =
                (ranked(&problem), |properties| chosen_from(&problem, properties, Some(&file)));
            assert_eq!(chosen(&gpu), all[0], "nothing is kept for it yet");
            let mma_sync = Algorithm::MmaSync(MmaSyncConfiguration { tile: (64, 128), stages: 3, raster: 4 });
            for kept in [all[4], mma_sync] {
                keep(&file, &problem, &gpu, kept);
                assert_eq!(chosen(&gpu), kept);
            }
            keep(&file, &problem, &older, mma_sync);
            assert_eq!(chosen(&older), mma_sync, "an older GPU finds algorithms by mma.sync");
            keep(&file, &problem, &gpu, all[4]);
            let default = Algorithm::MmaSync(MmaSyncConfiguration::default());
            assert_eq!(chosen(&older), default, "what it cannot launch counts as nothing");
            assert_eq!(chosen(&emulator), all[0], "a GPU's time says nothing about its emulator");
            tune::keep(&file, &Key::of("a GPU", &problem), all[4], 1, 1.0).expect("kept");
            assert_eq!(chosen(&gpu), all[0], "another kernel was timed");
            assert_eq!(chosen_from(&problem, &gpu, None), all[0]);
        }
        fs::write(&file, "not what tune writes").expect("writable");
        let problem = GemmProblem::new(problem, BF16);
        assert_eq!(chosen_from(&problem, &gpu, Some(&file)), ranked(&problem)[0], "the file is no good");
    }

    #[test]
    fn block_scales_have_tuned_algorithms_of_their_own() {
        let (file, _directory) = tune::temporary_file("launch-scaled");
        let [emulator, gpu] = devices();
        let types = GemmTypes { a: E4m3, b: E5m2, c: Bf16 };
        let problem = GemmProblem {
            scales: Some((Row, Block)),
            ..GemmProblem::new(Problem::new(700, 900, 1000), types)
        };
        let all = heuristic::algorithms(&problem, gpu.capability, gpu.sm_count);
        let chosen = |problem: &GemmProblem, properties| {
            choose(problem, None, properties, Some(&file)).expect("an algorithm")
        };
        assert_eq!(chosen(&problem, &gpu), all[0], "there is no file yet");
        keep(&file, &problem, &gpu, all[5]);
        assert_eq!(chosen(&problem, &gpu), all[5]);
        assert_eq!(chosen(&problem, &emulator), all[0], "a GPU's time says nothing about its emulator");
        let other = GemmProblem { types: GemmTypes { b: E4m3, ..types }, ..problem };
        assert_eq!(chosen(&other, &gpu), all[0], "another type of B");
    }

    #[test]
    fn operands_are_copied_if_that_is_faster() {
        let device = Device::named("emu:h200").expect("an emulator");
        let (capability, sms) = (device.properties().capability, device.properties().sm_count);
        let uses_wgmma = |problem: Problem, a, c| {
            let problem = GemmProblem::new(problem, GemmTypes { a, b: a, c });
            heuristic::algorithms(&problem, capability, sms)[0].is_wgmma()
        };
        assert!(uses_wgmma(Problem::new(4096, 4096, 4097), Bf16, Bf16));
        let columns = Problem { a: MatrixLayout::ColumnMajor, ..Problem::new(8191, 8192, 8192) };
        assert!(uses_wgmma(columns, Bf16, Bf16));
        assert!(!uses_wgmma(Problem::new(131, 67, 37), Bf16, Bf16));
        assert!(uses_wgmma(Problem::new(3, 3, 3), E4m3, Bf16), "mma.sync has no 8-bit floats here");
    }
}
