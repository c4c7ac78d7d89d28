//! Bulk asynchronous copies (PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk", and their groups and
//! prefetches).

use warpwright_events::{AsyncKind, Awaited, Event, FaultKind, LANES, MemorySpace, lanes, split_shared};
use warpwright_ptx::syntax::{Instruction, Number, Operand, Type};

use super::atomic::named_update;
use super::memory_words::policy;
use super::{mbarrier, tensor_copy};
use crate::cta::asynchronous::progress;
use crate::cta::asynchronous::reduction::Reduction;
use crate::cta::asynchronous::transfer::{ALL_BYTES, Completion, Global, Issuer, Motion, Signal, Transfer};
use crate::decode::{DecodeError, Decoder, Words, unsupported};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::addresses;
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};
use crate::operation::kind::Kind;
use crate::registers::Slot;

/// `cp.async.bulk...` and `cp.reduce.async.bulk...`, after the words `async` and `bulk`.
pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    if w.take("commit_group") {
        d.emit(Kind::Effect(Box::new(Commit)));
        return Ok(());
    }
    if w.take("wait_group") {
        let only_reads = w.take("read");
        let latest = match i.operands.as_slice() {
            [Operand::Number(Number::Integer(latest))] => u32::try_from(*latest).ok(),
            _ => None,
        };
        let latest =
            latest.ok_or_else(|| DecodeError::new("`cp.async.bulk.wait_group` takes a number of groups."))?;
        d.emit(Kind::Effect(Box::new(Wait { latest, only_reads })));
        return Ok(());
    }
    if w.take("tensor") {
        return tensor_copy::decode(d, i, w);
    }
    if w.take("prefetch") {
        return prefetch(d, i, w);
    }
    copy(d, i, w)
}

/// `cp.async.bulk.prefetch.L2.global{.L2::cache_hint} [address], size{, policy}`: only its operands
/// are decoded.
fn prefetch(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("L2");
    w.take("global");
    let hinted = w.take("L2::cache_hint");
    let address = d.memory(d.operand(&i.operands, 0)?)?;
    let size = d.source(d.operand(&i.operands, 1)?, Type::U32)?;
    if hinted {
        policy(d, i.operands.get(2))?;
    }
    d.expect_operands(i, 2 + usize::from(hinted))?;
    d.emit(Kind::Effect(Box::new(Prefetch { address, size })));
    Ok(())
}

/// The sides of a copy, in the order of the opcode's words.
fn sides(w: &mut Words<'_>) -> Result<(Space, Space), DecodeError> {
    let mut side = || {
        w.choose(&[
            ("global", Space::Global),
            ("shared::cluster", Space::ClusterShared),
            ("shared::cta", Space::Shared),
        ])
        .ok_or_else(|| DecodeError::new("A bulk copy names the spaces of its target and its source."))
    };
    Ok((side()?, side()?))
}

/// The modifiers after source and destination: the completion, and the destination CTAs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    pub(super) on_mbarrier: bool,
    pub(super) multicast: bool,
    pub(super) hinted: bool,
    /// `.cta_group::2`: the mbarrier may be that of the other CTA of the pair.
    pub(super) of_pair: bool,
}

pub(super) fn manner(w: &mut Words<'_>) -> Result<Manner, DecodeError> {
    let on_mbarrier = w.take("mbarrier::complete_tx::bytes");
    if on_mbarrier == w.take("bulk_group") {
        return Err(DecodeError::new(
            "A bulk copy is completed by `.mbarrier::complete_tx::bytes` or by `.bulk_group`.",
        ));
    }
    let of_pair = w.choose(&[("cta_group::1", false), ("cta_group::2", true)]).unwrap_or(false);
    let (multicast, hinted) = (w.take("multicast::cluster"), w.take("L2::cache_hint"));
    Ok(Manner { on_mbarrier, multicast, hinted, of_pair })
}

fn copy(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let reduces = i.opcode.has("reduce");
    let (target_space, source_space) = sides(w)?;
    let manner = manner(w)?;
    let route = match (target_space, source_space, manner.on_mbarrier) {
        (Space::ClusterShared | Space::Shared, Space::Global, true) if !reduces => Route::Load,
        (Space::Global, Space::Shared, false) => Route::Store,
        (Space::ClusterShared, Space::Shared, true) => Route::Peer,
        _ => {
            return Err(DecodeError::new(
                "A bulk copy between these spaces with this completion does not \
         exist.",
            ));
        }
    };
    let mut reduction = None;
    if reduces {
        let operation = named_update(w)?;
        w.take("noftz");
        let ty = w.ty()?;
        let found = match route {
            Route::Store => Reduction::in_global(operation, ty),
            _ => Reduction::in_shared(operation, ty),
        };
        reduction = Some(found.ok_or_else(|| unsupported(i, ty))?);
    }
    let target = d.memory(d.operand(&i.operands, 0)?)?;
    let source = d.memory(d.operand(&i.operands, 1)?)?;
    let size = d.source(d.operand(&i.operands, 2)?, Type::U32)?;
    let mut rest = i.operands[3..].iter();
    let mut next = || rest.next().ok_or_else(|| DecodeError::new("The copy lacks an operand."));
    let mbarrier = if manner.on_mbarrier { Some(SignalOperand::new(d, next()?, manner)?) } else { None };
    let mask = if manner.multicast { Some(d.source(next()?, Type::U16)?) } else { None };
    if manner.hinted {
        policy(d, Some(next()?))?;
    }
    let is_masked = route == Route::Store && !reduces && w.take("cp_mask");
    let bytes = if is_masked { Some(d.source(next()?, Type::U16)?) } else { None };
    if rest.next().is_some() {
        return Err(DecodeError::new("The copy has too many operands."));
    }
    d.emit(Kind::Effect(Box::new(Copy { route, target, source, size, mbarrier, mask, bytes, reduction })));
    Ok(())
}

/// Source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// Global to shared memory.
    Load,
    /// Shared to global memory.
    Store,
    /// Shared memory to that of a CTA of the cluster.
    Peer,
}

struct Copy {
    route: Route,
    target: AddressOperand,
    source: AddressOperand,
    size: Slot,
    mbarrier: Option<SignalOperand>,
    /// The destination CTAs.
    mask: Option<Slot>,
    /// Which of each 16 bytes are stored.
    bytes: Option<Slot>,
    reduction: Option<Reduction>,
}

impl Effect for Copy {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let (targets, sources) = (addresses(execution, &self.target), addresses(execution, &self.source));
        let sizes = *execution.registers.word(self.size);
        for lane in lanes(mask) {
            let (target, source, bytes) = (targets[lane], sources[lane], sizes[lane]);
            let (from, to) = match self.route {
                Route::Load => (MemorySpace::Global, MemorySpace::Shared),
                Route::Store => (MemorySpace::Shared, MemorySpace::Global),
                Route::Peer => (MemorySpace::Shared, MemorySpace::Shared),
            };
            for (what, number, site) in [
                ("target address", target, Some(to)),
                ("source address", source, Some(from)),
                ("size", bytes.into(), None),
            ] {
                if !number.is_multiple_of(16) {
                    let message =
                        format!("The {what} of a bulk copy is {number:#x}; it must be a multiple of 16.");
                    let failure = Failure::new(FaultKind::Misaligned, 1 << lane, message);
                    return Err(match site {
                        Some(site) => failure.at(site, number),
                        None => failure,
                    });
                }
            }
            let motion = match self.route {
                Route::Load => Motion::Load {
                    from: Global::Linear { address: source, bytes },
                    to: split_shared(target).1 as u32,
                    ranks: target_ranks(execution, self.mask, lane, target)?,
                },
                Route::Store => Motion::Store {
                    from: own_offset(execution, lane, source)?,
                    to: Global::Linear { address: target, bytes },
                    reduction: self.reduction,
                    mask: self.bytes.map_or(ALL_BYTES, |slot| execution.registers.word(slot)[lane] as u16),
                },
                Route::Peer => {
                    let (rank, to) = split_shared(target);
                    let from = own_offset(execution, lane, source)?;
                    Motion::Peer { from, to: to as u32, rank, bytes, reduction: self.reduction }
                }
            };
            begin(execution, lane, motion, self.mbarrier.as_ref(), None)?;
        }
        Ok(())
    }
}

/// The destination CTAs of a copy to shared memory: those of its mask, or the one its address
/// names.
pub(super) fn target_ranks(
    execution: &Execution<'_>,
    mask: Option<Slot>,
    lane: usize,
    target: u64,
) -> Result<u16, Box<Failure>> {
    let ctas = execution.launch.ctas_per_cluster();
    let in_cluster = |ranks: u32| ranks != 0 && ranks >> ctas == 0;
    let ranks = match mask {
        Some(slot) => execution.registers.word(slot)[lane] & 0xffff,
        None => 1u32.checked_shl(split_shared(target).0).unwrap_or(0),
    };
    if in_cluster(ranks) {
        return Ok(ranks as u16);
    }
    let message = match mask {
        Some(_) => {
            format!("The copy writes to the CTAs of the mask {ranks:#x}, and the cluster has {ctas} CTAs.")
        }
        None => {
            format!("The copy writes to shared address {target:#x}, of a CTA that the cluster does not have.")
        }
    };
    Err(Failure::new(FaultKind::OutOfBounds, 1 << lane, message))
}

/// The offset of an address that must be in the CTA's own shared memory.
pub(super) fn own_offset(execution: &Execution<'_>, lane: usize, address: u64) -> Result<u32, Box<Failure>> {
    let (rank, offset) = split_shared(address);
    if rank == execution.block.rank {
        return Ok(offset as u32);
    }
    let message =
        format!("A copy reads the CTA's own shared memory; {address:#x} is in the CTA of rank {rank}.");
    Err(Failure::new(FaultKind::OutOfBounds, 1 << lane, message))
}

/// The mbarriers that a copy signals.
pub(super) struct SignalOperand {
    address: AddressOperand,
    multicast: bool,
    of_pair: bool,
}

impl SignalOperand {
    pub(super) fn new(
        d: Decoder<'_, '_, '_>,
        operand: &Operand,
        manner: Manner,
    ) -> Result<Self, DecodeError> {
        Ok(Self { address: d.memory(operand)?, multicast: manner.multicast, of_pair: manner.of_pair })
    }

    /// PTX ISA, "cp.async.bulk.tensor": the signal of a multicast goes to the same offset in each
    /// destination CTA, or in the CTA of its pair whose rank is even or odd as the operand's.
    fn signal(&self, rank: u32) -> Signal {
        match (self.multicast, self.of_pair) {
            (false, _) => Signal::Rank(rank),
            (true, false) => Signal::Destination,
            (true, true) => Signal::OfPair(rank % 2),
        }
    }
}

/// Issues a lane's copy, completed on an mbarrier or else in the lane's bulk group; `map` is the
/// address of its tensor map, if that is in global memory.
pub(super) fn begin(
    execution: &mut Execution<'_>,
    lane: usize,
    motion: Motion,
    barrier: Option<&SignalOperand>,
    map: Option<u64>,
) -> Result<(), Box<Failure>> {
    let (warp, pc) = (execution.warp, execution.pc);
    let completion = match barrier {
        Some(operand) => {
            let objects = mbarrier::objects(execution, &operand.address, Space::ClusterShared, 1 << lane)?;
            let object = objects[lane];
            Completion::Mbarriers { offset: object.offset, signal: operand.signal(object.rank) }
        }
        None => Completion::Group(execution.block.transfers.open_group(warp, lane)),
    };
    let transfer = Transfer::new(Issuer { warp, lane: lane as u8, pc }, motion, completion, map);
    let launch = execution.launch;
    progress::issue(&mut execution.cluster(), launch, transfer)
}

struct Commit;

impl Effect for Commit {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let (launch, warp) = (execution.launch, execution.warp);
        execution
            .block
            .observer
            .report(Event::AsyncCommit { actor: execution.actor(mask), kind: AsyncKind::Bulk });
        execution.block.transfers.commit(warp, mask);
        progress::drift(&mut execution.cluster(), launch)
    }
}

struct Wait {
    latest: u32,
    only_reads: bool,
}

impl Effect for Wait {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let (launch, warp) = (execution.launch, execution.warp);
        let (latest, only_reads) = (self.latest, self.only_reads);
        let awaited = if only_reads { Awaited::Sources } else { Awaited::Everything };
        let actor = execution.actor(mask);
        execution.block.observer.report(Event::AsyncWait {
            actor,
            kind: AsyncKind::Bulk,
            latest: Some(latest),
            awaited,
        });
        progress::wait_group(&mut execution.cluster(), launch, (warp, mask), latest, only_reads)
    }
}

struct Prefetch {
    address: AddressOperand,
    size: Slot,
}

impl Effect for Prefetch {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let addresses: [u64; LANES] = addresses(execution, &self.address);
        let sizes = *execution.registers.word(self.size);
        match lanes(mask).find(|&lane| !(addresses[lane] | u64::from(sizes[lane])).is_multiple_of(16)) {
            Some(lane) => Err(Failure::new(
                FaultKind::Misaligned,
                1 << lane,
                format!(
                    "A bulk prefetch of {} bytes at {:#x}: address and size must be multiples of 16.",
                    sizes[lane], addresses[lane]
                ),
            )),
            None => Ok(()),
        }
    }
}
