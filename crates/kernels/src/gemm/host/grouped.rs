//! Launches of problems with unlike extents: which of them share a launch, and the table that the kernel reads.
//!
//! ```text
//! a record a problem:   maps of A, B and C | m, n, k | addresses of C, scales and bias | alpha, beta | maps of block scales
//! ```
//!
//! The host writes the table and the stream copies it before the launch; a CTA finds its tile's record and reads its maps there.

use std::marker::PhantomData;
use std::sync::Arc;

use warpwright::lang::pointer::In;
use warpwright::prelude::*;
use warpwright::runtime::{
    Buffer, Compiled, HostBuffer, LaunchCounts, Storable, Stream, TensorMap, TileMaps,
};

use super::config::{Algorithm, Configuration, has_wgmma};
use super::heuristic;
use super::launch::{self, Arguments, CopyScratch, HostScales, OperandMaps, Planned, Reading};
use crate::gemm::device::epilogue::Fused;
use crate::gemm::device::grouped::GroupedKernel;
use crate::gemm::device::problems::{RECORD_EXTENTS, RECORD_SCALES, record_bytes};
use crate::gemm::device::staging::StagedBatch;
use crate::gemm::problem::batching::{Batch, MAX_GROUPS, Problem};
use crate::gemm::problem::epilogue::{Epilogue, Linear, LinearParts, PresentArguments};
use crate::gemm::problem::error::GemmError;
use crate::gemm::problem::scales::{BlockScales, Granularities};
use crate::gemm::problem::types::{GemmOutput, MatrixLayout, MultipliesWith, Operand};
use crate::operations::{Operations, Result, Scratch, both};

/// A problem of a group, its matrices and its epilogue.
pub(in crate::gemm) struct Member<'a, A, B, C> {
    pub(in crate::gemm) problem: Problem,
    pub(in crate::gemm) a: &'a Buffer<A>,
    pub(in crate::gemm) b: &'a Buffer<B>,
    pub(in crate::gemm) c: &'a mut Buffer<C>,
    pub(in crate::gemm) linear: Linear<'a>,
    /// The block scales of A and B.
    pub(in crate::gemm) scales: Option<[BlockScales<'a>; 2]>,
    /// The algorithm that the caller chose.
    pub(in crate::gemm) algorithm: Option<Algorithm>,
}

/// What members of a launch have in common: the layouts of what is read, and the parts of the epilogue.
type Kind = (MatrixLayout, MatrixLayout, LinearParts, PresentArguments);

impl<'a, A: Operand, B: Operand, C: GemmOutput + Storable> Member<'a, A, B, C> {
    /// The same problem with A and B exchanged, for a kernel that computes C's transpose.
    fn exchanged(self) -> Member<'a, B, A, C> {
        let Self { problem, a, b, c, linear, scales, algorithm } = self;
        Member { problem, a: b, b: a, c, linear, scales: scales.map(|[a, b]| [b, a]), algorithm }
    }

    fn granularities(&self) -> Option<Granularities> {
        self.scales.map(|[a, b]| (a.granularity, b.granularity))
    }

    /// The parts of its epilogue.
    fn epilogue(&self) -> (LinearParts, PresentArguments) {
        let arguments = Epilogue::<C>::arguments(&self.linear);
        (arguments.epilogue, arguments.present())
    }

    fn kind(&self) -> Kind {
        let Problem { a, b, .. } = StagedBatch::of::<A>(self.problem.into()).batch.problem;
        let (epilogue, present) = self.epilogue();
        (a, b, epilogue, present)
    }

    /// Refuses buffers of wrong lengths, and epilogues without accumulators.
    fn check(&self) -> Result<()> {
        let batch = Batch::from(self.problem);
        batch.expect_lengths((self.a, self.b), self.c)?;
        self.scales.map_or(Ok(()), |scales| batch.expect_scales(scales))?;
        if self.problem.k == 0 && !Epilogue::<C>::is_identity(&self.linear) {
            return Err(GemmError::NoDepth.into());
        }
        let arguments: crate::gemm::problem::epilogue::EpilogueArguments<'_, C, _> = self.linear.arguments();
        arguments.check(batch, false, <Linear<'_> as Epilogue<C>>::VECTORS, self.c.len())
    }
}

/// Items by key, in the order of the first of each.
fn by_key<M, K: PartialEq>(items: impl IntoIterator<Item = M>, key: impl Fn(&M) -> K) -> Vec<(K, Vec<M>)> {
    let mut groups = Vec::<(K, Vec<M>)>::new();
    for item in items {
        let own = key(&item);
        match groups.iter_mut().find(|(known, _)| *known == own) {
            Some((_, group)) => group.push(item),
            None => groups.push((own, vec![item])),
        }
    }
    groups
}

/// A planned launch.
type Launch<'a> = Box<dyn FnOnce(&Operations, &Stream) -> Result<LaunchCounts> + 'a>;

/// Computes all members. Whatever is refused is refused before the first launch.
pub(in crate::gemm) fn run<'a, S, A, B, C>(
    operations: &Operations,
    stream: &Stream,
    members: Vec<Member<'a, A, B, C>>,
) -> Result<LaunchCounts>
where
    S: HostScales,
    A: MultipliesWith<B>,
    B: MultipliesWith<A>,
    C: GemmOutput + Storable,
{
    members.iter().try_for_each(Member::check)?;
    let (working, idle): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| member.problem.has_work());
    let properties = operations.device().properties();
    let (capability, sms) = (properties.capability, properties.sm_count);
    let mut launches: Vec<Launch<'a>> = Vec::new();
    for ((scales, algorithm), alike) in by_key(working, |member| (member.granularities(), member.algorithm)) {
        if scales.is_some() && !has_wgmma(capability) {
            return Err(GemmError::NoBlockScales { target: capability.target }.into());
        }
        let problems: Vec<Problem> = alike.iter().map(|member| member.problem).collect();
        if let Some(algorithm) = algorithm {
            if algorithm.is_wgmma() && !has_wgmma(capability) {
                return Err(launch::no_wgmma::<A, B>(capability).into());
            }
            algorithm.check(heuristic::average::<A, C>(&problems, scales), capability)?;
        }
        let chosen = || heuristic::grouped_algorithms::<A, C>(&problems, scales, capability, sms)[0];
        match algorithm.unwrap_or_else(chosen) {
            algorithm @ Algorithm::MmaSync(_) => {
                for member in alike {
                    launches.push(single::<S, A, B, C>(operations, member, algorithm)?);
                }
            }
            Algorithm::Wgmma(configuration) if configuration.stream_k => {
                let reason =
                    "tiles of a group are not split: use a configuration without stream-K".to_owned();
                return Err(GemmError::Algorithm { algorithm: configuration.to_string(), reason }.into());
            }
            Algorithm::Wgmma(configuration) if configuration.transposed => {
                let exchanged = alike.into_iter().map(Member::exchanged).collect();
                launches.extend(groups::<S, B, A, C>(operations, exchanged, configuration)?);
            }
            Algorithm::Wgmma(configuration) => {
                launches.extend(groups::<S, A, B, C>(operations, alike, configuration)?);
            }
        }
    }
    let counts = launches.into_iter().try_fold(LaunchCounts::default(), |counts, launch| {
        Ok::<_, crate::operations::OperationError>(both(counts, launch(operations, stream)?))
    })?;
    idle.into_iter().try_for_each(|member| stream.fill_zero(member.c))?;
    Ok(counts)
}

/// Plans the launch of one member by itself.
fn single<'a, S, A, B, C>(
    operations: &Operations,
    member: Member<'a, A, B, C>,
    algorithm: Algorithm,
) -> Result<Launch<'a>>
where
    S: HostScales,
    A: MultipliesWith<B>,
    B: MultipliesWith<A>,
    C: GemmOutput + Storable,
{
    let (batch, algorithm) = (member.problem.into(), Some(algorithm));
    let planned = Planned { batch, along_m: false, scales: member.granularities(), algorithm };
    let (epilogue, present) = member.epilogue();
    let plan = launch::plan::<A, B, C, S, _>(operations, planned, epilogue, present)?;
    Ok(Box::new(move |operations, stream| {
        let Member { a, b, c, linear, scales, .. } = member;
        let Linear { alpha, beta, row_scales, column_scales, bias, .. } = linear;
        let arguments = Arguments {
            a,
            b,
            c,
            scales: scales.map(|scales| scales.map(|scales| scales.scales)),
            offsets: None,
            numbers: [alpha, beta, 0.0, 0.0],
            vectors: [row_scales, column_scales, bias],
            matrix: None,
        };
        plan.launch(operations, stream, arguments)
    }))
}

/// Plans launches of members whose A and B are the kernel's own, as many in one as can be.
fn groups<'a, S, A, B, C>(
    operations: &Operations,
    members: Vec<Member<'a, A, B, C>>,
    configuration: Configuration,
) -> Result<Vec<Launch<'a>>>
where
    S: HostScales,
    A: Operand,
    B: Operand,
    C: GemmOutput + Storable,
{
    let mut launches: Vec<Launch<'a>> = Vec::new();
    for (_, alike) in by_key(members, Member::kind) {
        let mut left = alike.into_iter().peekable();
        while left.peek().is_some() {
            let group = Group::new::<S>(operations, left.by_ref().take(MAX_GROUPS).collect(), configuration)?;
            launches.push(Box::new(move |operations, stream| group.launch(operations, stream)));
        }
    }
    Ok(launches)
}

/// What is planned of a member.
fn planned(problem: Problem, scales: Option<Granularities>) -> Planned {
    Planned { batch: problem.into(), along_m: false, scales, algorithm: None }
}

/// The kernel for `count` members of that kind; `first` is one of their problems.
fn kernel<A: Element, S: HostScales>(
    (first, scales): (Problem, Option<Granularities>),
    count: usize,
    configuration: Configuration,
    (epilogue, present): (LinearParts, PresentArguments),
) -> GroupedKernel<S> {
    let gemm = Reading::new::<A>(planned(first, scales), configuration).gemm;
    let fused = Fused { gemm, epilogue, present, transposed: configuration.transposed };
    GroupedKernel { fused, capacity: (count as u32).next_power_of_two(), scales: PhantomData }
}

/// Whether TMA can store every C.
fn tma_stores<C: Element>(problems: &[Problem]) -> bool {
    problems.iter().all(|problem| problem.tma_stores::<C>())
}

/// The launch of members of one kind, whose A and B are the kernel's own.
struct Group<'m, A, B, C> {
    members: Vec<Member<'m, A, B, C>>,
    /// The maps of each.
    maps: Vec<Arc<MemberMaps<A, B, C>>>,
    compiled: Arc<Compiled<(In<u8>, u32)>>,
    ctas: u32,
    table_bytes: usize,
}

/// The maps of members of one shape.
struct MemberMaps<A, B, C> {
    operands: OperandMaps<A, B>,
    /// Of C, where TMA stores it.
    c: Option<TileMaps<C>>,
    /// Of the block scales.
    scales: Option<[TileMaps<f32>; 2]>,
    /// (m, n, k) of the problem as the kernel computes it.
    extents: (u32, u32, u32),
}

impl<'m, A: Operand, B: Operand, C: GemmOutput + Storable> Group<'m, A, B, C> {
    fn new<S: HostScales>(
        operations: &Operations,
        members: Vec<Member<'m, A, B, C>>,
        configuration: Configuration,
    ) -> Result<Self> {
        let scales = members[0].granularities();
        // The members' A is the kernel's, and so are the granularities: back to the problem's order.
        let scales = if configuration.transposed { scales.map(|(a, b)| (b, a)) } else { scales };
        let problems: Vec<Problem> = members.iter().map(|member| member.problem).collect();
        let of = (problems[0], scales);
        let kernel = kernel::<A, S>(of, problems.len(), configuration, members[0].epilogue());
        let (gemm, capacity) = (kernel.fused.gemm, kernel.capacity);
        let tma = tma_stores::<C>(&problems);
        let maps_of = |&problem: &Problem| {
            operations.remembered::<(A, B, C), _, _>((problem, scales, configuration, tma), |_| {
                MemberMaps::<A, B, C>::new(planned(problem, scales), configuration, tma)
            })
        };
        let maps: Vec<_> = problems.iter().map(maps_of).collect::<Result<_>>()?;
        // As many CTAs as there are tiles, or as the device holds.
        let group = gemm.cluster.0 * gemm.cluster.1;
        let (high, wide) = (gemm.tile.0 * gemm.cluster.0, gemm.tile.1 * gemm.cluster.1);
        let tiles = maps.iter().map(|maps: &Arc<MemberMaps<A, B, C>>| {
            let (m, n, _) = maps.extents;
            m.div_ceil(high).saturating_mul(n.div_ceil(wide))
        });
        let clusters = operations.device().properties().sm_count / group;
        let ctas = group * tiles.fold(0, u32::saturating_add).min(clusters);
        let compiled = match tma {
            true => operations.kernel(kernel, GroupedKernel::<S>::tma::<A, B, C>)?,
            false => operations.kernel(kernel, GroupedKernel::<S>::registers::<A, B, C>)?,
        };
        let table_bytes = capacity as usize * record_bytes(scales.is_some());
        Ok(Self { members, maps, compiled, ctas, table_bytes })
    }

    /// The table, after the copies of the operands that need some.
    fn records(
        &self,
        operations: &Operations,
        stream: &Stream,
        GroupCopies(copies): &mut GroupCopies<A, B>,
    ) -> Result<(Vec<u8>, LaunchCounts)> {
        copies.resize_with(copies.len().max(self.members.len()), CopyScratch::default);
        let (mut records, mut counts) = (Vec::new(), LaunchCounts::default());
        for ((member, maps), scratch) in self.members.iter().zip(&self.maps).zip(copies) {
            let (operands, copied) = maps.operands.maps(operations, stream, (member.a, member.b), scratch)?;
            counts = both(counts, copied);
            records.extend(maps.record(&operands, member)?);
        }
        Ok((records, counts))
    }

    fn launch(&self, operations: &Operations, stream: &Stream) -> Result<LaunchCounts> {
        let (records, copied) = operations.with_scratch(stream, |copies: &mut GroupCopies<A, B>| {
            self.records(operations, stream, copies)
        })?;
        operations.with_scratch(stream, |scratch: &mut TableScratch| {
            let table = scratch.filled(stream, &records, self.table_bytes)?;
            let count = self.members.len() as u32;
            let shape = self.compiled.shape(self.ctas);
            Ok(both(copied, self.compiled.launch(stream, shape, (table, count))?))
        })
    }
}

impl<A: Operand, B: Operand, C: GemmOutput + Storable> MemberMaps<A, B, C> {
    fn new(planned: Planned, configuration: Configuration, tma: bool) -> Result<Self> {
        let reading = Reading::new::<A>(planned, configuration);
        let Problem { m, n, k, .. } = reading.staged.batch.problem;
        let c = match tma {
            true => {
                let tile = reading.gemm.c_tile::<C>().map_err(GemmError::from)?;
                Some(TileMaps::new((m.into(), n.into()), &tile)?)
            }
            false => None,
        };
        let operands = OperandMaps::new(&reading)?;
        Ok(Self { operands, c, scales: reading.scale_maps()?, extents: (m, n, k) })
    }

    /// The record of a member whose operands have those maps.
    fn record(&self, operands: &[TensorMap; 2], member: &Member<'_, A, B, C>) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        operands.iter().for_each(|map| record.extend_from_slice(map.as_bytes()));
        if let Some(c) = &self.c {
            record.extend_from_slice(c.of(member.c)?.as_bytes());
        }
        record.resize(RECORD_EXTENTS, 0);
        let (m, n, k) = self.extents;
        [m, n, k, 0].iter().for_each(|extent| record.extend_from_slice(&extent.to_le_bytes()));
        let Linear { alpha, beta, row_scales, column_scales, bias, .. } = member.linear;
        let vectors = [row_scales, column_scales, bias].map(|vector| vector.map_or(0, Buffer::address));
        for address in [member.c.address()].into_iter().chain(vectors) {
            record.extend_from_slice(&address.to_le_bytes());
        }
        [alpha, beta, 0.0, 0.0].iter().for_each(|number| record.extend_from_slice(&number.to_le_bytes()));
        record.resize(RECORD_SCALES, 0);
        for (maps, scales) in self.scales.iter().flatten().zip(member.scales.iter().flatten()) {
            record.extend_from_slice(maps.of(scales.scales)?.as_bytes());
        }
        Ok(record)
    }
}

/// The copies of members' operands.
struct GroupCopies<A, B>(Vec<CopyScratch<A, B>>);

impl<A, B> Default for GroupCopies<A, B> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// The table on its way to the device, and there.
#[derive(Default)]
struct TableScratch {
    host: Option<HostBuffer<u8>>,
    table: Scratch<u8>,
}

impl TableScratch {
    /// The table of `bytes` bytes with these records, when the stream gets there.
    fn filled(&mut self, stream: &Stream, records: &[u8], bytes: usize) -> Result<&Buffer<u8>> {
        let device = stream.device();
        if self.host.as_ref().is_none_or(|host| host.len() < bytes) {
            self.host = Some(device.host_buffer(bytes)?);
        }
        let host = self.host.as_mut().expect("there is one now");
        host.as_mut_slice()?[..records.len()].copy_from_slice(records);
        let table = self.table.at_least(&device, host.len())?;
        stream.copy_to_device(table, host)?;
        Ok(table)
    }
}
