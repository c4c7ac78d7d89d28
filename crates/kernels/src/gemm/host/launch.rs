//! Plans of launches: all that does not depend on where the matrices are is made once and kept.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use warpwright::arch::Capability;
use warpwright::lang::parameter::KernelParameter;
use warpwright::prelude::*;
use warpwright::runtime::{
    Buffer, Device, DeviceProperties, HostParameter, LaunchCounts, Storable, Stream, TensorMap, TileMaps,
};

use super::config::{Algorithm, Configuration, has_wgmma};
use super::heuristic::{self, Cost};
use super::tune::{self, Key};
use crate::gemm::device::epilogue::{Fused, FusedEpilogue};
use crate::gemm::device::kernel::{AlongM, BatchKind, Batched, ScaleKind, Single, WgmmaKernel};
use crate::gemm::device::mainloop::mma_sync::{MmaSyncConfiguration, MmaSyncGemm};
use crate::gemm::device::mainloop::promotion::TileScales;
use crate::gemm::device::mainloop::wgmma::WgmmaGemm;
use crate::gemm::device::staging::{OperandCopy, StagedBatch};
use crate::gemm::problem::batching::{Batch, Problem};
use crate::gemm::problem::epilogue::{LinearParts, NUMBERS, PresentArguments};
use crate::gemm::problem::error::GemmError;
use crate::gemm::problem::scales::{BlockScaled, Granularities, Unscaled};
use crate::gemm::problem::types::{
    self, GemmOutput, MmaSyncOperand, MmaSyncVisitor, MultipliesWith, Operand,
};
use crate::operations::{Operations, Result, Scratch, both};

/// What a kernel is planned for, beside its types and epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gemm) struct Planned {
    /// The problems; of groups along m, all rows and the different B.
    pub(in crate::gemm) batch: Batch,
    /// Whether they are groups along m.
    pub(in crate::gemm) along_m: bool,
    pub(in crate::gemm) scales: Option<Granularities>,
    /// The algorithm that the caller chose.
    pub(in crate::gemm) algorithm: Option<Algorithm>,
}

/// The arguments of a launch.
pub(in crate::gemm) struct Arguments<'l, A, B, C> {
    pub(in crate::gemm) a: &'l Buffer<A>,
    pub(in crate::gemm) b: &'l Buffer<B>,
    pub(in crate::gemm) c: &'l mut Buffer<C>,
    /// The block scales of A and B.
    pub(in crate::gemm) scales: Option<[&'l Buffer<f32>; 2]>,
    /// Of groups along m.
    pub(in crate::gemm) offsets: Option<&'l Buffer<u32>>,
    /// The epilogue's numbers, vectors and matrix.
    pub(in crate::gemm) numbers: [f32; NUMBERS],
    pub(in crate::gemm) vectors: [Option<&'l Buffer<f32>>; 3],
    pub(in crate::gemm) matrix: Option<&'l Buffer<C>>,
}

impl<'l, A, B, C> Arguments<'l, A, B, C> {
    /// Those of the problem whose C is the transpose.
    fn transposed(self) -> Arguments<'l, B, A, C> {
        let Self { a, b, c, scales, offsets, numbers, vectors, matrix } = self;
        let scales = scales.map(|[a, b]| [b, a]);
        Arguments { a: b, b: a, c, scales, offsets, numbers, vectors, matrix }
    }
}

/// A kernel with all that its launches share.
pub(in crate::gemm) struct Plan<A, B, C> {
    start: Start<A, B, C>,
    ptx: Arc<str>,
}

type Start<A, B, C> =
    Box<dyn Fn(&Operations, &Stream, Arguments<'_, A, B, C>) -> Result<LaunchCounts> + Send + Sync>;

impl<A, B, C> Plan<A, B, C>
where
    A: MultipliesWith<B>,
    B: MultipliesWith<A>,
    C: GemmOutput + Storable,
{
    /// Chooses the algorithm and compiles its kernel.
    pub(in crate::gemm) fn new<S: HostScales, E: FusedEpilogue<C>>(
        operations: &Operations,
        planned: Planned,
        epilogue: &E,
        present: PresentArguments,
    ) -> Result<Self> {
        let properties = operations.device().properties();
        let file = tune::default_file().ok();
        let algorithm = choose::<A, B, C, S>(planned, properties, file.as_deref())?;
        match algorithm {
            Algorithm::MmaSync(configuration) => {
                let plan = PlanMmaSync {
                    operations,
                    planned,
                    configuration,
                    epilogue,
                    present,
                    output: PhantomData,
                };
                let plan = A::visit_mma_sync(plan);
                plan.ok_or_else(|| no_wgmma::<A, B>(properties.capability))?
            }
            Algorithm::Wgmma(configuration) if configuration.transposed => {
                let Plan { start, ptx } =
                    plan_wgmma::<S, B, A, C, E>(operations, planned, configuration, epilogue, present)?;
                let start: Start<A, B, C> = Box::new(move |operations, stream, arguments| {
                    start(operations, stream, arguments.transposed())
                });
                Ok(Self { start, ptx })
            }
            Algorithm::Wgmma(configuration) => {
                plan_wgmma::<S, A, B, C, E>(operations, planned, configuration, epilogue, present)
            }
        }
    }

    /// Launches it.
    pub(in crate::gemm) fn launch(
        &self,
        operations: &Operations,
        stream: &Stream,
        arguments: Arguments<'_, A, B, C>,
    ) -> Result<LaunchCounts> {
        (self.start)(operations, stream, arguments)
    }
}

/// The caller's algorithm, or the tuned one, or the heuristic's.
///
/// A cache that cannot be read counts as none: its content makes a GEMM faster and nothing else. `warpwright run gemm --explain`
/// says what is wrong with it.
pub(in crate::gemm) fn choose<A, B, C, S>(
    planned: Planned,
    properties: &DeviceProperties,
    file: Option<&Path>,
) -> Result<Algorithm>
where
    A: MultipliesWith<B>,
    B: MultipliesWith<A>,
    C: GemmOutput + Storable,
    S: HostScales,
{
    let (batch, scales, capability) = (planned.batch, planned.scales, properties.capability);
    if scales.is_some() && !has_wgmma(capability) {
        return Err(GemmError::NoBlockScales { target: capability.target }.into());
    }
    if let Some(algorithm) = planned.algorithm {
        if algorithm.is_wgmma() && !has_wgmma(capability) {
            return Err(no_wgmma::<A, B>(capability).into());
        }
        algorithm.check(batch.size::<A, C>(scales), capability)?;
        return Ok(algorithm);
    }
    let tuned = |file| tuned::<A, B, C, S>(planned, properties, file).ok().flatten();
    if let Some(algorithm) = file.and_then(tuned) {
        return Ok(algorithm);
    }
    let batch = if planned.along_m { heuristic::equal_groups(batch) } else { batch };
    Ok(heuristic::algorithms::<A, C>(batch, scales, capability, properties.sm_count)[0])
}

/// The tuned algorithm of a file, if its kernel is the one that was timed. A GPU's time says nothing about its emulator.
pub(in crate::gemm) fn tuned<A, B, C, S>(
    planned: Planned,
    properties: &DeviceProperties,
    file: &Path,
) -> Result<Option<Algorithm>, tune::TuneError>
where
    A: MultipliesWith<B>,
    B: MultipliesWith<A>,
    C: GemmOutput + Storable,
    S: HostScales,
{
    if properties.is_emulated || planned.along_m {
        return Ok(None);
    }
    let (batch, capability) = (planned.batch, properties.capability);
    let key = Key::of::<A, B, C>(&properties.product, batch, planned.scales);
    tune::find(file, &key, |algorithm, hash| {
        let is_legal = algorithm.check(batch.size::<A, C>(planned.scales), capability).is_ok();
        is_legal && ptx_hash::<A, B, C, S>(planned, algorithm, capability).is_ok_and(|own| own == hash)
    })
}

/// The error of types that only `wgmma` multiplies.
pub(in crate::gemm) fn no_wgmma<A: Element, B: Element>(capability: &Capability) -> GemmError {
    GemmError::NoWgmma { types: types::names::<A, B>(), target: capability.target }
}

/// The hash of an algorithm's PTX, without an epilogue.
pub(in crate::gemm) fn ptx_hash<A, B, C, S>(
    planned: Planned,
    algorithm: Algorithm,
    capability: &'static Capability,
) -> Result<u64>
where
    A: MultipliesWith<B>,
    B: MultipliesWith<A>,
    C: GemmOutput + Storable,
    S: HostScales,
{
    let operations = Operations::new(&Device::dry_run(capability)?);
    let planned = Planned { algorithm: Some(algorithm), ..planned };
    let epilogue = LinearParts::default();
    let plan = Plan::<A, B, C>::new::<S, _>(&operations, planned, &epilogue, Default::default())?;
    Ok(tune::hash(&plan.ptx))
}

/// The kernel by `mma.sync` for what is planned.
fn fused_mma_sync<E>(
    planned: Planned,
    configuration: MmaSyncConfiguration,
    epilogue: E,
    present: PresentArguments,
) -> Fused<MmaSyncGemm, E> {
    let gemm = match planned.along_m {
        // Groups have any number of rows.
        true => MmaSyncGemm { exact: false, ..MmaSyncGemm::new(planned.batch.problem.into(), configuration) },
        false => MmaSyncGemm::new(planned.batch, configuration),
    };
    Fused { gemm, epilogue, present, transposed: false }
}

/// Plans launches of a kernel by `mma.sync`.
struct PlanMmaSync<'p, C, E> {
    operations: &'p Operations,
    planned: Planned,
    configuration: MmaSyncConfiguration,
    epilogue: &'p E,
    present: PresentArguments,
    output: PhantomData<C>,
}

/// CTAs of a grid along its second and third axis. (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability".)
const MAX_GRID_ROWS: u32 = 65_535;

impl<A, B, C, E> MmaSyncVisitor<A, B> for PlanMmaSync<'_, C, E>
where
    C: GemmOutput + Storable,
    E: FusedEpilogue<C>,
{
    type Output = Result<Plan<A, B, C>>;

    fn visit(self) -> Result<Plan<A, B, C>>
    where
        A: MmaSyncOperand,
        B: MmaSyncOperand,
    {
        let Self { operations, planned, configuration, epilogue, present, .. } = self;
        let fused = fused_mma_sync(planned, configuration, epilogue.clone(), present);
        let Batch { problem: Problem { m, n, k, .. }, count, a_stride, b_stride, c_stride } = planned.batch;
        // Any group along m may have all rows.
        let tiles = fused.gemm.grid(m, n);
        let no_matrix = no_matrix(operations)?;
        if planned.along_m {
            let compiled = operations.kernel(fused, Fused::<MmaSyncGemm, E>::along_m::<A, B, C>)?;
            let ptx = compiled.function().ptx().clone();
            let start: Start<A, B, C> = Box::new(move |operations, stream, arguments| {
                operations.with_scratch(stream, |workspace: &mut Workspace| {
                    let nothing = workspace.nothing(operations)?;
                    let Arguments { a, b, c, offsets, numbers, vectors, matrix, .. } = arguments;
                    let [rows, columns, more] = vectors.map(|vector| vector.unwrap_or(nothing));
                    let matrix = matrix.unwrap_or(&no_matrix);
                    let offsets = offsets.expect("groups along m have offsets");
                    let arguments = (a, b, c, matrix, numbers, rows, columns, more, n, k, offsets);
                    Ok(compiled.launch(stream, (tiles, count), arguments)?)
                })
            });
            return Ok(Plan { start, ptx });
        }
        if count == 1 {
            let compiled = operations.kernel(fused, Fused::<MmaSyncGemm, E>::single::<A, B, C>)?;
            let ptx = compiled.function().ptx().clone();
            let start: Start<A, B, C> = Box::new(move |operations, stream, arguments| {
                operations.with_scratch(stream, |workspace: &mut Workspace| {
                    let nothing = workspace.nothing(operations)?;
                    let Arguments { a, b, c, numbers, vectors, matrix, .. } = arguments;
                    let [rows, columns, more] = vectors.map(|vector| vector.unwrap_or(nothing));
                    let matrix = matrix.unwrap_or(&no_matrix);
                    let arguments = (a, b, c, matrix, numbers, rows, columns, more, m, n, k);
                    Ok(compiled.launch(stream, tiles, arguments)?)
                })
            });
            return Ok(Plan { start, ptx });
        }
        let compiled = operations.kernel(fused, Fused::<MmaSyncGemm, E>::batch::<A, B, C>)?;
        // The problems fill the grid's second axis, and if they are too many, the third.
        let layers = count.div_ceil(MAX_GRID_ROWS);
        let grid = [tiles, count.div_ceil(layers), layers];
        let strides = [a_stride, b_stride, c_stride];
        let ptx = compiled.function().ptx().clone();
        let start: Start<A, B, C> = Box::new(move |operations, stream, arguments| {
            operations.with_scratch(stream, |workspace: &mut Workspace| {
                let nothing = workspace.nothing(operations)?;
                let Arguments { a, b, c, numbers, vectors, matrix, .. } = arguments;
                let [rows, columns, more] = vectors.map(|vector| vector.unwrap_or(nothing));
                let matrix = matrix.unwrap_or(&no_matrix);
                let arguments = (a, b, c, matrix, numbers, rows, columns, more, m, n, k, strides, count);
                Ok(compiled.launch(stream, grid, arguments)?)
            })
        });
        Ok(Plan { start, ptx })
    }
}

/// What a launch passes for parameters `P`.
type Passed<'p, P> = <<P as KernelParameter>::Host as HostParameter>::Passed<'p>;

/// A kind of block scales, as launches pass it.
pub trait HostScales: ScaleKind<Parameters: KernelParameter<Host: HostParameter + 'static>> {
    fn pass(maps: &Option<[TensorMap; 2]>) -> Passed<'_, Self::Parameters>;
}

impl HostScales for Unscaled {
    fn pass(_: &Option<[TensorMap; 2]>) {}
}

impl HostScales for BlockScaled {
    fn pass(maps: &Option<[TensorMap; 2]>) -> (&TensorMap, &TensorMap) {
        let [a, b] = maps.as_ref().expect("the operands have block scales");
        (a, b)
    }
}

/// A kind of batching, as launches pass it.
trait HostBatching: BatchKind<Parameters: KernelParameter<Host: HostParameter + 'static>> {
    fn pass(batch: Batch, offsets: Option<&Buffer<u32>>) -> Passed<'_, Self::Parameters>;
}

impl HostBatching for Single {
    fn pass(_: Batch, _: Option<&Buffer<u32>>) {}
}

impl HostBatching for Batched {
    fn pass(batch: Batch, _: Option<&Buffer<u32>>) -> (u32, u64) {
        (batch.count, batch.c_stride)
    }
}

impl HostBatching for AlongM {
    fn pass(batch: Batch, offsets: Option<&Buffer<u32>>) -> (&Buffer<u32>, u32) {
        (offsets.expect("groups along m have offsets"), batch.count)
    }
}

/// A kernel by `wgmma` as it reads its operands: with C's transpose, its A is the problem's B.
#[derive(Clone, Copy)]
pub(in crate::gemm) struct Reading {
    /// The kernel's own batch.
    pub(in crate::gemm) staged: StagedBatch,
    /// Whether there is an A, and a B, for each problem.
    pub(in crate::gemm) own: (bool, bool),
    pub(in crate::gemm) gemm: WgmmaGemm,
}

impl Reading {
    pub(in crate::gemm) fn new<A: Element>(planned: Planned, configuration: Configuration) -> Self {
        let transposed = configuration.transposed;
        let batch = if transposed { planned.batch.transposed() } else { planned.batch };
        let staged = StagedBatch::of::<A>(batch);
        let (a, b) = match planned {
            Planned { along_m: true, .. } => (false, true),
            Planned { batch: Batch { count: 1, .. }, .. } => (false, false),
            _ => planned.batch.own(),
        };
        let own = if transposed { (b, a) } else { (a, b) };
        let gemm = configuration.gemm(staged.batch.problem, A::BYTES, planned.scales, planned.along_m);
        Self { staged, own, gemm }
    }

    /// The tensor maps of the block scales.
    pub(in crate::gemm) fn scale_maps(&self) -> Result<Option<[TileMaps<f32>; 2]>> {
        let Batch { problem: Problem { m, n, k, .. }, count, .. } = self.staged.batch;
        let maps = |scales: TileScales, rows: u32, own: bool, tile: u32| -> Result<TileMaps<f32>> {
            let (blocks, padded) = scales.granularity.extents((rows, k));
            let (matrix, tile) =
                ((padded.into(), blocks.into()), scales.tile(tile).map_err(GemmError::from)?);
            let stride = u64::from(blocks) * u64::from(padded);
            Ok(match own {
                true => TileMaps::of_many(matrix, (count.into(), stride), &tile)?,
                false => TileMaps::new(matrix, &tile)?,
            })
        };
        let WgmmaGemm { tile, scales, .. } = self.gemm;
        let Some(scales) = scales else { return Ok(None) };
        Ok(Some([maps(scales.a, m, self.own.0, tile.0)?, maps(scales.b, n, self.own.1, tile.1)?]))
    }
}

/// Plans launches of the kernel by `wgmma` whose own A and B those are.
fn plan_wgmma<S, A, B, C, E>(
    operations: &Operations,
    planned: Planned,
    configuration: Configuration,
    epilogue: &E,
    present: PresentArguments,
) -> Result<Plan<A, B, C>>
where
    S: HostScales,
    A: Operand,
    B: Operand,
    C: GemmOutput + Storable,
    E: FusedEpilogue<C>,
{
    let reading = Reading::new::<A>(planned, configuration);
    let fused = Fused {
        gemm: reading.gemm,
        epilogue: epilogue.clone(),
        present,
        transposed: configuration.transposed,
    };
    let count = planned.batch.count;
    match planned {
        Planned { along_m: true, .. } => {
            let batching = AlongM { capacity: count.next_power_of_two() };
            plan_batching::<S, _, A, B, C, E>(operations, planned, configuration, reading, fused, batching)
        }
        _ if count == 1 => {
            plan_batching::<S, _, A, B, C, E>(operations, planned, configuration, reading, fused, Single)
        }
        _ => {
            let batching = Batched { own: planned.batch.own() };
            plan_batching::<S, _, A, B, C, E>(operations, planned, configuration, reading, fused, batching)
        }
    }
}

fn plan_batching<S, K, A, B, C, E>(
    operations: &Operations,
    planned: Planned,
    configuration: Configuration,
    reading: Reading,
    fused: Fused<WgmmaGemm, E>,
    batching: K,
) -> Result<Plan<A, B, C>>
where
    S: HostScales,
    K: HostBatching,
    A: Operand,
    B: Operand,
    C: GemmOutput + Storable,
    E: FusedEpilogue<C>,
{
    let batch = planned.batch;
    let Problem { m, n, k, .. } = reading.staged.batch.problem;
    let sms = operations.device().properties().sm_count;
    let size = most_tiles(planned, configuration).size::<A, C>(planned.scales);
    let cost = Cost::of(configuration, size, sms);
    let operands = OperandMaps::<A, B>::new(&reading)?;
    let scale_maps = reading.scale_maps()?;
    let workspace = if configuration.stream_k { cost.workspace() } else { (1, 1) };
    let no_matrix = no_matrix(operations)?;
    let kernel = WgmmaKernel { fused, batching, scales: PhantomData::<S> };
    // Launches with all but the way to C.
    let ready = move |operations: &Operations,
                      stream: &Stream,
                      arguments: Arguments<'_, A, B, C>,
                      launch: &dyn Fn(Ready<'_, C>) -> Result<LaunchCounts>| {
        let Arguments { a, b, c, scales, offsets, numbers, vectors, matrix } = arguments;
        let scales = match (&scale_maps, scales) {
            (Some([a_maps, b_maps]), Some([a, b])) => Some([a_maps.of(a)?, b_maps.of(b)?]),
            _ => None,
        };
        operands.mapped(operations, stream, (a, b), |maps| {
            operations.with_scratch(stream, |scratch: &mut Workspace| {
                let (parts, arrived, nothing) = scratch.of_size(operations, stream, workspace)?;
                let vectors = vectors.map(|vector| vector.unwrap_or(nothing));
                let matrix = matrix.unwrap_or(&no_matrix);
                launch(Ready { maps, scales, c, matrix, numbers, vectors, parts, arrived, offsets })
            })
        })
    };
    if batch.tma_stores::<C>() {
        let (matrix, tile) = ((m.into(), n.into()), reading.gemm.c_tile::<C>().map_err(GemmError::from)?);
        let c_maps: TileMaps<C> = match planned.along_m || batch.count == 1 {
            true => TileMaps::new(matrix, &tile)?,
            false => TileMaps::of_many(matrix, (batch.count.into(), batch.c_stride), &tile)?,
        };
        let compiled = operations.kernel(kernel, WgmmaKernel::<E, K, S>::tma::<A, B, C>)?;
        let shape = compiled.shape(cost.ctas).overlapping();
        let ptx = compiled.function().ptx().clone();
        let start: Start<A, B, C> = Box::new(move |operations, stream, arguments| {
            ready(operations, stream, arguments, &|ready| {
                let Ready { maps: [a, b], scales, c, matrix, numbers, vectors, parts, arrived, offsets } =
                    ready;
                let ([rows, columns, more], c_map) = (vectors, c_maps.of(c)?);
                let (scales, batching) = (S::pass(&scales), K::pass(batch, offsets));
                let arguments = (
                    &a, &b, scales, &c_map, c, matrix, numbers, rows, columns, more, parts, arrived, m, n, k,
                    batching,
                );
                Ok(compiled.launch(stream, shape, arguments)?)
            })
        });
        Ok(Plan { start, ptx })
    } else {
        let compiled = operations.kernel(kernel, WgmmaKernel::<E, K, S>::registers::<A, B, C>)?;
        let shape = compiled.shape(cost.ctas).overlapping();
        let ptx = compiled.function().ptx().clone();
        let start: Start<A, B, C> = Box::new(move |operations, stream, arguments| {
            ready(operations, stream, arguments, &|ready| {
                let Ready { maps: [a, b], scales, c, matrix, numbers, vectors, parts, arrived, offsets } =
                    ready;
                let [rows, columns, more] = vectors;
                let (scales, batching) = (S::pass(&scales), K::pass(batch, offsets));
                let arguments = (
                    &a, &b, scales, c, matrix, numbers, rows, columns, more, parts, arrived, m, n, k,
                    batching,
                );
                Ok(compiled.launch(stream, shape, arguments)?)
            })
        });
        Ok(Plan { start, ptx })
    }
}

/// The arguments of a launch, mapped and with a workspace.
struct Ready<'r, C> {
    maps: [TensorMap; 2],
    scales: Option<[TensorMap; 2]>,
    c: &'r mut Buffer<C>,
    matrix: &'r Buffer<C>,
    numbers: [f32; NUMBERS],
    vectors: [&'r Buffer<f32>; 3],
    parts: &'r mut Buffer<f32>,
    arrived: &'r mut Buffer<u32>,
    offsets: Option<&'r Buffer<u32>>,
}

/// A batch with as many tiles as groups along m can have: one tile of each is not full.
fn most_tiles(planned: Planned, configuration: Configuration) -> Batch {
    let Batch { problem, count, .. } = planned.batch;
    if !planned.along_m {
        return planned.batch;
    }
    let Configuration { tile, cluster, transposed, .. } = configuration;
    let high = if transposed { tile.1 * cluster.1 } else { tile.0 * cluster.0 };
    let rows_of_tiles = problem.m / high + count.min(problem.m).max(1);
    Batch::new(Problem { m: 1, ..problem }, rows_of_tiles)
}

/// An operand as a kernel reads it: its copy, if it must have one, and the tensor maps.
struct ReadOperand<T> {
    copy: Option<OperandCopy>,
    maps: TileMaps<T>,
}

impl<T: Storable> ReadOperand<T> {
    /// The operand of `extent` rows or columns besides k, loaded in tiles; `matrices`: how many of which each problem has its own,
    /// and elements from one to the next, as the maps' third axis.
    fn new(
        (extent, k): (u32, u32),
        matrices: Option<(u32, u64)>,
        copy: Option<OperandCopy>,
        tile: Result<TmaTile, warpwright::layout::Error>,
    ) -> Result<Self> {
        let (matrix, tile) = ((extent.into(), k.into()), tile.map_err(GemmError::from)?);
        let maps = match matrices {
            Some((count, stride)) => TileMaps::of_many(matrix, (count.into(), stride), &tile)?,
            None => TileMaps::new(matrix, &tile)?,
        };
        let maps = match copy {
            Some(copy) => maps.pitched(copy.pitch.into()),
            None => maps,
        };
        Ok(Self { copy, maps })
    }

    /// The map of an operand, or of the copy that is made of it in `scratch`.
    fn map(
        &self,
        operations: &Operations,
        stream: &Stream,
        operand: &Buffer<T>,
        scratch: &mut Scratch<T>,
    ) -> Result<(TensorMap, LaunchCounts)> {
        let Some(copy) = self.copy else { return Ok((self.maps.of(operand)?, LaunchCounts::default())) };
        let copied = scratch.at_least(operations.device(), copy.length())?;
        let counts = copy.launch(operations, stream, operand, copied)?;
        Ok((self.maps.of(copied)?, counts))
    }
}

/// Both operands as a kernel reads them.
pub(in crate::gemm) struct OperandMaps<A, B> {
    a: ReadOperand<A>,
    b: ReadOperand<B>,
}

/// The copies of A and of B.
pub(in crate::gemm) struct CopyScratch<A, B>(Scratch<A>, Scratch<B>);

impl<A, B> Default for CopyScratch<A, B> {
    fn default() -> Self {
        Self(Scratch::default(), Scratch::default())
    }
}

impl<A: Operand, B: Operand> OperandMaps<A, B> {
    pub(in crate::gemm) fn new(reading: &Reading) -> Result<Self> {
        let Reading { staged: StagedBatch { batch, copies: [a_copy, b_copy] }, own, gemm } = *reading;
        let Problem { m, n, k, .. } = batch.problem;
        let [a_matrices, b_matrices] = batch.matrices();
        Ok(Self {
            a: ReadOperand::new((m, k), own.0.then_some(a_matrices), a_copy, gemm.a_tile::<A>())?,
            b: ReadOperand::new((n, k), own.1.then_some(b_matrices), b_copy, gemm.b_tile::<B>())?,
        })
    }

    /// Calls `launch` with the maps of A and B, after the copies.
    fn mapped(
        &self,
        operations: &Operations,
        stream: &Stream,
        operands: (&Buffer<A>, &Buffer<B>),
        launch: impl FnOnce([TensorMap; 2]) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        if self.a.copy.is_none() && self.b.copy.is_none() {
            let (maps, _) = self.maps(operations, stream, operands, &mut CopyScratch::default())?;
            return launch(maps);
        }
        operations.with_scratch(stream, |scratch: &mut CopyScratch<A, B>| {
            let (maps, counts) = self.maps(operations, stream, operands, scratch)?;
            Ok(both(counts, launch(maps)?))
        })
    }

    /// The maps of A and B; copies are made in `scratch`.
    pub(in crate::gemm) fn maps(
        &self,
        operations: &Operations,
        stream: &Stream,
        (a, b): (&Buffer<A>, &Buffer<B>),
        CopyScratch(a_scratch, b_scratch): &mut CopyScratch<A, B>,
    ) -> Result<([TensorMap; 2], LaunchCounts)> {
        let (a, a_counts) = self.a.map(operations, stream, a, a_scratch)?;
        let (b, b_counts) = self.b.map(operations, stream, b, b_scratch)?;
        Ok(([a, b], both(a_counts, b_counts)))
    }
}

/// What stands for a matrix that an epilogue is not given.
fn no_matrix<C: Storable>(operations: &Operations) -> Result<Arc<Buffer<C>>> {
    struct NoMatrix;
    operations.remembered::<NoMatrix, _, _>((), |()| Ok(operations.device().uninitialized(1)?))
}

/// A stream's workspace: parts and counters of split tiles, and what stands for a vector that an epilogue does not read.
#[derive(Default)]
struct Workspace {
    parts: Scratch<f32>,
    /// The parts of each tile that have arrived: zero between launches.
    arrived: Scratch<u32>,
    nothing: Scratch<f32>,
}

impl Workspace {
    /// A workspace of accumulators and counters, and what stands for no vector.
    fn of_size(
        &mut self,
        operations: &Operations,
        stream: &Stream,
        (accumulators, counters): (usize, usize),
    ) -> Result<(&mut Buffer<f32>, &mut Buffer<u32>, &Buffer<f32>)> {
        let Self { parts, arrived, nothing } = self;
        let device = operations.device();
        Ok((
            parts.at_least(device, accumulators)?,
            arrived.at_least_kept(stream, counters)?,
            &*nothing.at_least(device, 1)?,
        ))
    }

    /// What stands for no vector.
    fn nothing(&mut self, operations: &Operations) -> Result<&Buffer<f32>> {
        Ok(self.nothing.at_least(operations.device(), 1)?)
    }
}

/// The plan for what is planned: made at the first call and kept.
pub(in crate::gemm) fn plan<A, B, C, S, E>(
    operations: &Operations,
    planned: Planned,
    epilogue: E,
    present: PresentArguments,
) -> Result<Arc<Plan<A, B, C>>>
where
    A: MultipliesWith<B>,
    B: MultipliesWith<A>,
    C: GemmOutput + Storable,
    S: HostScales,
    E: FusedEpilogue<C>,
{
    operations.remembered::<S, _, _>((planned, epilogue, present), |(planned, epilogue, present)| {
        Plan::new::<S, E>(operations, *planned, epilogue, *present)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::gemm::problem::scales::Granularity::{Block, Row};
    use crate::gemm::problem::types::MatrixLayout;

    fn planned(batch: Batch, scales: Option<Granularities>) -> Planned {
        Planned { batch, along_m: false, scales, algorithm: None }
    }

    fn keep<A, B, C, S>(file: &Path, planned: Planned, properties: &DeviceProperties, algorithm: Algorithm)
    where
        A: MultipliesWith<B>,
        B: MultipliesWith<A>,
        C: GemmOutput + Storable,
        S: HostScales,
    {
        let key = Key::of::<A, B, C>("a GPU", planned.batch, planned.scales);
        let hash = ptx_hash::<A, B, C, S>(planned, algorithm, properties.capability).expect("a kernel");
        tune::keep(file, &key, algorithm, hash, 1.0).expect("kept");
    }

    #[test]
    fn a_tuned_algorithm_precedes_the_heuristic() {
        let (file, _directory) = tune::temporary_file("launch");
        let emulator = Device::named("emu:h200").expect("an emulator").properties().clone();
        let gpu = DeviceProperties { is_emulated: false, product: "a GPU".to_owned(), ..emulator.clone() };
        let problem = Problem::new(600, 520, 200);
        for batch in [Batch::from(problem), Batch::new(problem, 3), Batch::new(problem, 3).sharing_b()] {
            let planned = planned(batch, None);
            let chosen = |properties| {
                choose::<bf16, bf16, f32, Unscaled>(planned, properties, Some(&file)).expect("an algorithm")
            };
            let all = heuristic::algorithms::<bf16, f32>(batch, None, gpu.capability, gpu.sm_count);
            assert_eq!(chosen(&gpu), all[0], "nothing is kept for it yet");
            let mma_sync = MmaSyncConfiguration { tile: (64, 128), stages: 3, raster: 4 };
            let mma_sync = Algorithm::MmaSync(mma_sync);
            for kept in [all[4], mma_sync] {
                keep::<bf16, bf16, f32, Unscaled>(&file, planned, &gpu, kept);
                assert_eq!(chosen(&gpu), kept);
            }
            let ampere = Capability::for_target("sm_80").expect("it is known");
            let older = DeviceProperties { capability: ampere, ..gpu.clone() };
            keep::<bf16, bf16, f32, Unscaled>(&file, planned, &older, mma_sync);
            assert_eq!(chosen(&older), mma_sync, "an older GPU finds algorithms by mma.sync");
            keep::<bf16, bf16, f32, Unscaled>(&file, planned, &gpu, all[4]);
            let default = Algorithm::MmaSync(MmaSyncConfiguration::default());
            assert_eq!(chosen(&older), default, "what it cannot launch counts as nothing");
            assert_eq!(chosen(&emulator), all[0], "a GPU's time says nothing about its emulator");
            let key = Key::of::<bf16, bf16, f32>("a GPU", batch, None);
            tune::keep(&file, &key, all[4], 1, 1.0).expect("kept");
            assert_eq!(chosen(&gpu), all[0], "another kernel was timed");
            let without = choose::<bf16, bf16, f32, Unscaled>(planned, &gpu, None).expect("an algorithm");
            assert_eq!(without, all[0]);
        }
        fs::write(&file, "not what tune writes").expect("writable");
        let all = heuristic::algorithms::<bf16, f32>(problem.into(), None, gpu.capability, gpu.sm_count);
        let planned = planned(problem.into(), None);
        let chosen = choose::<bf16, bf16, f32, Unscaled>(planned, &gpu, Some(&file)).expect("an algorithm");
        assert_eq!(chosen, all[0], "the file is no good");
    }

    #[test]
    fn so_it_does_with_block_scales() {
        let (file, _directory) = tune::temporary_file("launch-scaled");
        let emulator = Device::named("emu:h200").expect("an emulator").properties().clone();
        let gpu = DeviceProperties { is_emulated: false, product: "a GPU".to_owned(), ..emulator.clone() };
        let (batch, scales) = (Batch::from(Problem::new(700, 900, 1000)), Some((Row, Block)));
        let all = heuristic::algorithms::<e4m3, bf16>(batch, scales, gpu.capability, gpu.sm_count);
        let planned = planned(batch, scales);
        let chosen = |properties| {
            choose::<e4m3, e5m2, bf16, BlockScaled>(planned, properties, Some(&file)).expect("an algorithm")
        };
        assert_eq!(chosen(&gpu), all[0], "there is no file yet");
        keep::<e4m3, e5m2, bf16, BlockScaled>(&file, planned, &gpu, all[5]);
        assert_eq!(chosen(&gpu), all[5]);
        assert_eq!(chosen(&emulator), all[0], "a GPU's time says nothing about its emulator");
        let other = choose::<e4m3, e4m3, bf16, BlockScaled>(planned, &gpu, Some(&file));
        assert_eq!(other.expect("an algorithm"), all[0], "another type of B");
    }

    #[test]
    fn operands_are_copied_where_that_pays() {
        let device = Device::named("emu:h200").expect("an emulator");
        let (capability, sms) = (device.properties().capability, device.properties().sm_count);
        let first =
            |problem: Problem| heuristic::algorithms::<bf16, bf16>(problem.into(), None, capability, sms)[0];
        assert!(first(Problem::new(4096, 4096, 4097)).is_wgmma());
        assert!(first(Problem { a: MatrixLayout::ColumnMajor, ..Problem::new(8191, 8192, 8192) }).is_wgmma());
        assert!(!first(Problem::new(131, 67, 37)).is_wgmma());
        let narrow =
            heuristic::algorithms::<e4m3, bf16>(Problem::new(3, 3, 3).into(), None, capability, sms)[0];
        assert!(narrow.is_wgmma(), "mma.sync has no 8-bit floats here");
    }
}
