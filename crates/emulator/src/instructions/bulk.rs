//! Bulk asynchronous copies (PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk", and their groups and
//! prefetches).

use warpwright_events::{AsyncKind, Awaited, Event, FaultKind, LANES, MemorySpace, lanes, split_shared};
use warpwright_ptx::syntax::Operand;

use super::atomic::named_update;
use super::copy::groups;
use super::mbarrier;
use super::memory_words::policy;
use crate::cta::asynchronous::progress;
use crate::cta::asynchronous::reduction::Reduction;
use crate::cta::asynchronous::transfer::{ALL_BYTES, Completion, Global, Issuer, Motion, Signal, Transfer};
use crate::decode::{DecodeError, Decoded, Decoder, Row};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::addresses;
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};
use crate::registers::Slot;

/// `cp.async.bulk...` and `cp.reduce.async.bulk...`
pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.has("commit_group") {
        return d.effect(Commit);
    }
    if i.has("wait_group") {
        return d.effect(Wait { latest: groups(i)?, only_reads: i.has("read") });
    }
    if i.has("prefetch") {
        // Only its operands are decoded.
        if i.has("L2::cache_hint") {
            policy(d, i)?;
        }
        let prefetch = Prefetch { address: d.memory_at(i, 0)?, size: d.source_at(i, 1)? };
        return d.effect(prefetch);
    }
    copy(d, i)
}

/// The sides of a copy, in the order of the name's words: its target and its source.
fn sides(i: &Row<'_>) -> Result<(Space, Space), DecodeError> {
    let side = |word: &str| match word {
        "global" => Some(Space::Global),
        "shared::cluster" => Some(Space::ClusterShared),
        "shared::cta" => Some(Space::Shared),
        _ => None,
    };
    let mut sides = i.all(side);
    sides.next().zip(sides.next()).ok_or_else(|| i.names_no("target and source"))
}

/// Operands after target and source: `{, mbarrier}{, im2col}{, CTAs}{, policy}`.
pub(super) struct Ending {
    pub(super) mbarrier: Option<SignalOperand>,
    /// The offsets of a copy through a tensor map of type im2col.
    pub(super) offsets: Vec<Slot>,
    /// The destination CTAs.
    pub(super) mask: Option<Slot>,
    /// The position of the next operand.
    pub(super) next: usize,
}

/// Decodes the operands from position `next` on.
pub(super) fn ending(d: Decoder<'_, '_, '_>, i: &Row<'_>, next: usize) -> Result<Ending, DecodeError> {
    let mut ending = Ending { mbarrier: None, offsets: Vec::new(), mask: None, next };
    if i.has("mbarrier::complete_tx::bytes") {
        let (multicast, of_pair) = (i.has("multicast::cluster"), i.has("cta_group::2"));
        let address = d.memory_at(i, ending.next)?;
        ending.mbarrier = Some(SignalOperand { address, multicast, of_pair });
        ending.next += 1;
    }
    if let Some(Operand::Vector(_)) = i.operands.get(ending.next) {
        ending.offsets = d.sources_at(i, ending.next)?;
        ending.next += 1;
    }
    if i.has("multicast::cluster") {
        ending.mask = Some(d.source_at(i, ending.next)?);
        ending.next += 1;
    }
    if i.has("L2::cache_hint") {
        d.source_at(i, ending.next)?;
        ending.next += 1;
    }
    Ok(ending)
}

fn copy(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let route = match sides(i)? {
        (Space::Global, _) => Route::Store,
        (_, Space::Global) => Route::Load,
        _ => Route::Peer,
    };
    let mut reduction = None;
    if i.has("reduce") {
        let (operation, ty) = (named_update(i)?, i.ty()?);
        let found = match route {
            Route::Store => Reduction::in_global(operation, ty),
            _ => Reduction::in_shared(operation, ty),
        };
        reduction = Some(found.ok_or_else(|| i.unsupported())?);
    }
    let (target, source, size) = (d.memory_at(i, 0)?, d.memory_at(i, 1)?, d.source_at(i, 2)?);
    let Ending { mbarrier, mask, next, .. } = ending(d, i, 3)?;
    let bytes = if i.has("cp_mask") { Some(d.source_at(i, next)?) } else { None };
    d.effect(Copy { route, target, source, size, mbarrier, mask, bytes, reduction })
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
