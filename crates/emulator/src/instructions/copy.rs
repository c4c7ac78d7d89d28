//! `cp.async` from global to shared memory (PTX ISA, "Data Movement and Conversion Instructions:
//! Asynchronous copy").

use warpwright_events::{
    AccessKind, Actor, AsyncKind, Awaited, ByteRange, Completion, Event, FULL, FaultKind, LANES,
    MbarrierAddress, MemorySpace, Proxy, lanes,
};
use warpwright_ptx::syntax::{Operand, Type};

use super::memory_words::policy;
use super::{address, mbarrier};
use crate::cta::asynchronous::lane_copy::{PendingArrival, PendingCopy};
use crate::decode::{DecodeError, Decoded, Decoder, File, Row};
use crate::execution::effect::{Effect, EffectBody, Execution, vectored_effect};
use crate::execution::resolve::{Located, Purpose, addresses, resolve};
use crate::launch::failure::Failure;
use crate::launch::schedule::Schedule;
use crate::memory::{AddressOperand, Space};
use crate::operation::kind::Kind;
use crate::registers::Slot;

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.has("commit_group") {
        return d.effect(Commit);
    }
    if i.has("wait_all") {
        return d.effect(Wait { latest: None });
    }
    if i.has("wait_group") {
        return d.effect(Wait { latest: Some(groups(i)?) });
    }
    if i.has("mbarrier") {
        let arrival = ArriveAfterCopies {
            address: d.memory_at(i, 0)?,
            space: address::space(i).unwrap_or(Space::Generic),
            counted: i.has("noinc"),
        };
        return d.effect(arrival);
    }
    copy(d, i)
}

/// A number of groups that may stay in flight.
pub(super) fn groups(i: &Row<'_>) -> Result<u32, DecodeError> {
    u32::try_from(i.literal(0)?).map_err(|_| DecodeError::new("A number of groups must not be negative."))
}

/// `cp.async.ca.shared.global [dst], [src], size{, source size}{, policy}`, or with a predicate
/// that ignores the source.
fn copy(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let (target, source, bytes) = (d.memory_at(i, 0)?, d.memory_at(i, 1)?, i.literal(2)?);
    if !matches!((bytes, i.has("cg")), (16, _) | (4 | 8, false)) {
        return Err(DecodeError::new(format!(
            "A copy of {bytes} bytes does not exist: .ca copies 4, 8 or 16 bytes, and .cg copies 16."
        )));
    }
    let hinted = i.has("L2::cache_hint");
    if hinted {
        policy(d, i)?;
    }
    let (mut source_bytes, mut ignored) = (None, None);
    match &i.operands[3..i.operands.len() - usize::from(hinted)] {
        [operand] if is_predicate(d, operand) => ignored = Some(d.predicate(operand)?),
        [operand] => source_bytes = Some(d.source(operand, Type::U32)?),
        _ => {}
    }
    d.emit(Kind::Effect(vectored_effect(Copy { target, source, bytes: bytes as u8, source_bytes, ignored })));
    Ok(())
}

fn is_predicate(d: Decoder<'_, '_, '_>, operand: &Operand) -> bool {
    match operand {
        Operand::Not(_) => true,
        Operand::Name(_) => d.register(operand).is_ok_and(|register| register.file == File::Predicate),
        _ => false,
    }
}

struct Copy {
    target: AddressOperand,
    source: AddressOperand,
    bytes: u8,
    /// The number of bytes that are read; the rest of the target is filled with zeros.
    source_bytes: Option<Slot>,
    /// If it holds, nothing is read.
    ignored: Option<(Slot, bool)>,
}

impl EffectBody for Copy {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let targets = addresses(execution, &self.target);
        let sources = addresses(execution, &self.source);
        let size = u64::from(self.bytes);
        let mut read = [self.bytes; LANES];
        if let Some(slot) = self.source_bytes {
            let sizes = execution.registers.word(slot);
            for lane in lanes(mask) {
                if sizes[lane] > u32::from(self.bytes) {
                    return Err(Failure::new(
                        FaultKind::IllegalInstruction,
                        1 << lane,
                        format!("A copy of {size} bytes reads {} from its source.", sizes[lane]),
                    ));
                }
                read[lane] = sizes[lane] as u8;
            }
        }
        if let Some((slot, negated)) = self.ignored {
            let bits = execution.registers.predicate(slot) ^ if negated { FULL } else { 0 };
            lanes(bits).for_each(|lane| read[lane] = 0);
        }
        let reading = lanes(mask).filter(|&lane| read[lane] > 0).fold(0, |bits, lane| bits | 1 << lane);
        let located_target = resolve(execution, Space::Shared, &targets, mask, size, Purpose::Copy)?;
        let located_source = match reading {
            0 => None,
            // A copy of fewer bytes than its size reads only those.
            _ if self.source_bytes.is_none() => {
                Some(resolve(execution, Space::Global, &sources, reading, size, Purpose::Copy)?)
            }
            _ => Some(self.resolve_short(execution, &sources, reading, &read)?),
        };
        if execution.block.observer.listens() {
            let (actor, block) = (execution.actor(mask), &execution.block);
            block.observer.report(Event::LaneCopies {
                actor,
                sources: &sources,
                targets: &targets,
                bytes: size,
                reading,
            });
            self.observe(execution, mask, &targets, &sources, &read);
        }
        if execution.launch.schedule == Schedule::Eager {
            for lane in lanes(mask) {
                let target = located_target.lane(lane, &targets);
                let source = match &located_source {
                    Some(source) if read[lane] > 0 => source.lane(lane, &sources),
                    _ => std::ptr::null_mut(),
                };
                // SAFETY: `resolve` found `bytes` bytes at the target, and `read` of them at the
                // source.
                unsafe { move_bytes(source, target, self.bytes, read[lane]) };
            }
            return Ok(());
        }
        let queue = &mut execution.block.copies[execution.warp as usize];
        for lane in lanes(mask) {
            queue.push(PendingCopy {
                lane: lane as u8,
                bytes: self.bytes,
                source_bytes: read[lane],
                group: queue.open_group(lane),
                source: sources[lane],
                target: targets[lane] as u32,
            });
        }
        queue.drift(execution.launch.schedule, execution.launch.memory, &mut execution.block.shared);
        mbarrier::settle(execution.block, execution.warp)
    }
}

impl Copy {
    #[cold]
    fn observe(
        &self,
        execution: &Execution<'_>,
        mask: u32,
        targets: &[u64; LANES],
        sources: &[u64; LANES],
        read: &[u8; LANES],
    ) {
        let block = &*execution.block;
        for lane in lanes(mask) {
            let ranges = [
                ByteRange {
                    space: MemorySpace::Shared,
                    first: targets[lane],
                    bytes: self.bytes.into(),
                    kind: AccessKind::Write,
                    part: None,
                },
                ByteRange {
                    space: MemorySpace::Global,
                    first: sources[lane],
                    bytes: read[lane].into(),
                    kind: AccessKind::Read,
                    part: None,
                },
            ];
            let ranges = if read[lane] > 0 { &ranges[..] } else { &ranges[..1] };
            let actor = Actor { lanes: 1 << lane, ..execution.actor(mask) };
            block.observer.report(Event::AsyncIssue {
                actor,
                proxy: Proxy::Generic,
                completion: Completion::Group(AsyncKind::Copy),
                ranges,
            });
        }
    }

    /// Finds sources of which only the first bytes are read; the address is aligned to the whole
    /// size all the same.
    #[cold]
    fn resolve_short(
        &self,
        execution: &mut Execution<'_>,
        sources: &[u64; LANES],
        reading: u32,
        read: &[u8; LANES],
    ) -> Result<Located, Box<Failure>> {
        let size = u64::from(self.bytes);
        let mut hosts = [std::ptr::null_mut(); LANES];
        for lane in lanes(reading) {
            let end = sources[lane].wrapping_add(u64::from(read[lane]));
            let host = execution.launch.memory.locate(execution.cache, sources[lane], end, false);
            match host {
                Some(host) if sources[lane].is_multiple_of(size) => hosts[lane] = host,
                _ => {
                    return resolve(execution, Space::Global, sources, 1 << lane, size, Purpose::Copy);
                }
            }
        }
        Ok(Located::Apart(Box::new(hosts)))
    }
}

/// # Safety
/// `target` points to `bytes` bytes that may be written, and `source` to `read` bytes, at most as
/// many.
#[inline(always)]
unsafe fn move_bytes(source: *const u8, target: *mut u8, bytes: u8, read: u8) {
    // SAFETY: the caller's promise; whole copies are of one machine word each.
    unsafe {
        match (bytes, read) {
            (16, 16) => target.cast::<u128>().write_unaligned(source.cast::<u128>().read_unaligned()),
            (8, 8) => target.cast::<u64>().write_unaligned(source.cast::<u64>().read_unaligned()),
            (4, 4) => target.cast::<u32>().write_unaligned(source.cast::<u32>().read_unaligned()),
            _ => {
                target.write_bytes(0, bytes.into());
                if read > 0 {
                    target.copy_from_nonoverlapping(source, read.into());
                }
            }
        }
    }
}

struct Commit;

impl Effect for Commit {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution
            .block
            .observer
            .report(Event::AsyncCommit { actor: execution.actor(mask), kind: AsyncKind::Copy });
        let queue = &mut execution.block.copies[execution.warp as usize];
        queue.commit(mask);
        queue.drift(execution.launch.schedule, execution.launch.memory, &mut execution.block.shared);
        mbarrier::settle(execution.block, execution.warp)
    }
}

struct Wait {
    /// The number of most recently committed groups that may stay in flight; `None` waits for all.
    latest: Option<u32>,
}

impl Effect for Wait {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let actor = execution.actor(mask);
        execution.block.observer.report(Event::AsyncWait {
            actor,
            kind: AsyncKind::Copy,
            latest: self.latest,
            awaited: Awaited::Everything,
        });
        let queue = &mut execution.block.copies[execution.warp as usize];
        queue.wait(mask, self.latest, execution.launch.memory, &mut execution.block.shared);
        mbarrier::settle(execution.block, execution.warp)
    }
}

/// `cp.async.mbarrier.arrive{.noinc}{.shared{::cta}}.b64 [mbarrier]`
struct ArriveAfterCopies {
    address: AddressOperand,
    space: Space,
    /// Whether the mbarrier's count already includes this arrival (`.noinc`).
    counted: bool,
}

impl Effect for ArriveAfterCopies {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let offsets = mbarrier::offsets(execution, &self.address, self.space, mask)?;
        for lane in lanes(mask) {
            if !self.counted {
                mbarrier::expect_one_more(execution.block, lane, offsets[lane])?;
            }
            let actor = Actor { lanes: 1 << lane, ..execution.actor(mask) };
            let object = MbarrierAddress { rank: execution.block.rank, offset: offsets[lane] };
            execution.block.observer.report(Event::MbarrierTrack {
                actor,
                mbarrier: object,
                kind: AsyncKind::Copy,
            });
            let arrival = PendingArrival { lane: lane as u8, barrier: offsets[lane] as u32 };
            execution.block.copies[execution.warp as usize].push_arrival(arrival);
        }
        mbarrier::settle(execution.block, execution.warp)
    }
}
