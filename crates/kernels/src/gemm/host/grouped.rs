//! Launches of problems with unlike extents: which of them share a launch, and the table that the
//! kernel reads.
//!
//! ```text
//! a record a problem:   maps of A, B and C | m, n, k | addresses of C, scales and bias | alpha, beta | maps of scales
//! ```
//!
//! The host writes the table and the stream copies it before the launch; a CTA finds its tile's
//! record and reads its maps there.

use std::sync::Arc;

use warpwright::lang::pointer::In;
use warpwright::runtime::{Buffer, Compiled, HostBuffer, LaunchCounts, Stream, TensorMap, TileMaps};

use super::choice;
use super::config::{Algorithm, Configuration};
use super::heuristic;
use super::launch::{self, Buffers, Call};
use super::maps::{CopyScratch, OperandCopies, Reading, mapped};
use crate::gemm::device::epilogue::Fused;
use crate::gemm::device::grouped_kernel::GroupedKernel;
use crate::gemm::device::problems::{RECORD_EXTENTS, RECORD_SCALES, record_bytes};
use crate::gemm::device::staging::StagedBatch;
use crate::gemm::problem::batching::{GemmProblem, MAX_GROUPS, Problem};
use crate::gemm::problem::epilogue::{LinearParts, PresentArguments};
use crate::gemm::problem::error::GemmError;
use crate::gemm::problem::scales::Scaling;
use crate::gemm::problem::types::{MatrixLayout, with_operands, with_output};
use crate::operations::{OperationError, Operations, Result, Scratch, both};

/// A problem of a group, with its buffers. All members have the same types.
pub(crate) type Member<'a> = Call<'a, LinearParts>;

/// What members of a launch have in common: the layouts of the staged operands and the parts of the
/// epilogue.
type Kind = (MatrixLayout, MatrixLayout, LinearParts, PresentArguments);

impl Member<'_> {
    fn problem(&self) -> Problem {
        self.problem.batch.problem
    }

    fn kind(&self) -> Kind {
        let Problem { a, b, .. } = StagedBatch::of(&self.problem).batch.problem;
        (a, b, self.operation, self.epilogue.present())
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
type PlannedLaunch<'a> = Box<dyn FnOnce(&Operations, &Stream) -> Result<LaunchCounts> + 'a>;

/// Computes all members. Whatever is refused is refused before the first launch.
pub fn run<'a>(operations: &Operations, stream: &Stream, members: Vec<Member<'a>>) -> Result<LaunchCounts> {
    let (working, idle): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|member| member.problem().has_work());
    let properties = operations.device().properties();
    let (capability, sms) = (properties.capability, properties.sm_count);
    let mut launches: Vec<PlannedLaunch<'a>> = Vec::new();
    for ((types, algorithm), alike) in by_key(working, |member| (member.problem.types, member.algorithm)) {
        choice::expect_kernel(&alike[0].problem, capability)?;
        let problems: Vec<Problem> = alike.iter().map(Member::problem).collect();
        if let Some(algorithm) = algorithm {
            algorithm.check(&heuristic::average(&problems, types), capability)?;
        }
        let chosen = || heuristic::grouped_algorithms(&problems, types, capability, sms)[0];
        match algorithm.unwrap_or_else(chosen) {
            algorithm @ Algorithm::MmaSync(_) => {
                for member in alike {
                    launches.push(single(operations, member, algorithm)?);
                }
            }
            Algorithm::Wgmma(configuration) | Algorithm::Tcgen05(configuration) if configuration.splits() => {
                let reason =
                    "tiles of a group are not split: use a configuration without stream-K and split-K"
                        .to_owned();
                return Err(GemmError::Algorithm { algorithm: configuration.to_string(), reason }.into());
            }
            Algorithm::Wgmma(configuration) | Algorithm::Tcgen05(configuration) => {
                for (_, alike) in by_key(alike, Member::kind) {
                    let mut left = alike.into_iter().peekable();
                    while left.peek().is_some() {
                        let members = left.by_ref().take(MAX_GROUPS).collect();
                        let group = Group::new(operations, members, configuration)?;
                        launches.push(Box::new(move |operations, stream| group.launch(operations, stream)));
                    }
                }
            }
        }
    }
    let counts = launches.into_iter().try_fold(LaunchCounts::default(), |counts, launch| {
        Ok::<_, OperationError>(both(counts, launch(operations, stream)?))
    })?;
    idle.into_iter().try_for_each(|member| stream.fill_zero(member.buffers.c))?;
    Ok(counts)
}

/// Plans the launch of one member by itself.
fn single<'a>(
    operations: &Operations,
    member: Member<'a>,
    algorithm: Algorithm,
) -> Result<PlannedLaunch<'a>> {
    let Call { problem, buffers, operation, epilogue, .. } = member;
    let plan = with_output!(problem.types.c, C => {
        launch::plan::<C, _>(operations, problem, Some(algorithm), operation, epilogue.present())
    })?;
    Ok(Box::new(move |operations, stream| plan.launch(operations, stream, buffers, epilogue)))
}

/// The launch of members of one kind.
struct Group<'m> {
    members: Vec<Member<'m>>,
    /// The maps of each.
    maps: Vec<Arc<MemberMaps>>,
    transposed: bool,
    compiled: Arc<Compiled<(In<u8>, u32)>>,
    ctas: u32,
    table_bytes: usize,
}

/// The maps of members of one shape, in the kernel's order of A and B.
struct MemberMaps {
    copies: OperandCopies,
    /// Of A and B, and of their scales.
    maps: [Option<[TileMaps<u8>; 2]>; 2],
    /// Of C, if TMA stores it.
    c: Option<TileMaps<u8>>,
    /// (m, n, k) of the problem as the kernel computes it.
    extents: (u32, u32, u32),
}

impl<'m> Group<'m> {
    fn new(operations: &Operations, members: Vec<Member<'m>>, configuration: Configuration) -> Result<Self> {
        let Call { problem, operation, epilogue, .. } = members[0];
        let tma = members.iter().all(|member| member.problem().tma_stores(problem.types.output_bytes()));
        let maps_of = |member: &Member<'_>| {
            operations
                .remembered::<MemberMaps, _, _>((member.problem, configuration, tma), |(problem, ..)| {
                    MemberMaps::new(problem, configuration, tma)
                })
        };
        let maps: Vec<_> = members.iter().map(maps_of).collect::<Result<_>>()?;
        let Reading { gemm, types, .. } = Reading::new(&problem, configuration);
        // As many CTAs as there are tiles, or as the device holds.
        let group = gemm.cluster.0 * gemm.cluster.1;
        let (high, wide) = (gemm.tile.0 * gemm.cluster.0, gemm.tile.1 * gemm.cluster.1);
        let tiles = maps.iter().map(|maps: &Arc<MemberMaps>| {
            let (m, n, _) = maps.extents;
            m.div_ceil(high).saturating_mul(n.div_ceil(wide))
        });
        let clusters = operations.device().properties().sm_count / group;
        let ctas = group * tiles.fold(0, u32::saturating_add).min(clusters);
        let (capacity, transposed) = ((members.len() as u32).next_power_of_two(), configuration.transposed);
        let fused = Fused { gemm, epilogue: operation, present: epilogue.present(), transposed };
        let kernel = GroupedKernel { fused, capacity, tma_store: tma };
        let compiled = with_operands!(types, A, B => {
            with_output!(types.c, C => operations.kernel(kernel, GroupedKernel::gemm::<A, B, C>))
        })?;
        let table_bytes = capacity as usize * record_bytes(types.scaling != Scaling::None);
        Ok(Self { members, maps, transposed, compiled, ctas, table_bytes })
    }

    /// The table, after the copies of the operands that need some.
    fn records(
        &self,
        operations: &Operations,
        stream: &Stream,
        GroupCopies(copies): &mut GroupCopies,
    ) -> Result<(Vec<u8>, LaunchCounts)> {
        copies.resize_with(copies.len().max(self.members.len()), CopyScratch::default);
        let (mut records, mut counts) = (Vec::new(), LaunchCounts::default());
        for ((member, maps), scratch) in self.members.iter().zip(&self.maps).zip(copies) {
            let Buffers { a, b, .. } = member.buffers;
            let operands = if self.transposed { [b, a] } else { [a, b] };
            let (operands, copied) = maps.copies.made(operations, stream, operands, scratch)?;
            counts = both(counts, copied);
            let scales = member.buffers.scales.map(|[a, b]| if self.transposed { [b, a] } else { [a, b] });
            records.extend(maps.record(operands, scales, member)?);
        }
        Ok((records, counts))
    }

    fn launch(&self, operations: &Operations, stream: &Stream) -> Result<LaunchCounts> {
        let (records, copied) = operations
            .with_scratch(stream, |copies: &mut GroupCopies| self.records(operations, stream, copies))?;
        operations.with_scratch(stream, |scratch: &mut TableScratch| {
            let table = scratch.filled(stream, &records, self.table_bytes)?;
            let count = self.members.len() as u32;
            let shape = self.compiled.shape(self.ctas);
            Ok(both(copied, self.compiled.launch(stream, shape, (table, count))?))
        })
    }
}

impl MemberMaps {
    fn new(problem: &GemmProblem, configuration: Configuration, tma: bool) -> Result<Self> {
        let reading = Reading::new(problem, configuration);
        let Problem { m, n, k, .. } = reading.staged.batch.problem;
        let c = tma.then(|| reading.c_maps(None)).transpose()?;
        let copies = OperandCopies::staged(reading.staged.copies, reading.types);
        let maps = [Some(reading.operand_maps()?), reading.scale_maps()?];
        Ok(Self { copies, maps, c, extents: (m, n, k) })
    }

    /// The record of a member whose operands have those maps.
    fn record(
        &self,
        operands: [&Buffer<u8>; 2],
        scales: Option<[&Buffer<u8>; 2]>,
        member: &Member<'_>,
    ) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        let append = |record: &mut Vec<u8>, maps: Option<[TensorMap; 2]>| {
            maps.iter().flatten().for_each(|map| record.extend_from_slice(map.as_bytes()));
        };
        append(&mut record, mapped(&self.maps[0], operands)?);
        if let Some(c) = &self.c {
            record.extend_from_slice(c.of(&*member.buffers.c)?.as_bytes());
        }
        record.resize(RECORD_EXTENTS, 0);
        let (m, n, k) = self.extents;
        [m, n, k, 0].iter().for_each(|extent| record.extend_from_slice(&extent.to_le_bytes()));
        let [first, second] = member.epilogue.columns;
        let vectors = [member.epilogue.rows, first, second].map(|vector| vector.map_or(0, Buffer::address));
        for address in [member.buffers.c.address()].into_iter().chain(vectors) {
            record.extend_from_slice(&address.to_le_bytes());
        }
        member.epilogue.numbers.iter().for_each(|number| record.extend_from_slice(&number.to_le_bytes()));
        record.resize(RECORD_SCALES, 0);
        if let Some(scales) = scales {
            append(&mut record, mapped(&self.maps[1], scales)?);
        }
        Ok(record)
    }
}

/// The copies of members' operands.
#[derive(Default)]
struct GroupCopies(Vec<CopyScratch>);

/// The table in host memory and on the device.
#[derive(Default)]
struct TableScratch {
    host: Option<HostBuffer<u8>>,
    table: Scratch<u8>,
}

impl TableScratch {
    /// Copies records to a table of `bytes` bytes, in stream order.
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
