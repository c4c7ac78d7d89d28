//! `mbarrier` instructions (PTX ISA, "Parallel Synchronization and Communication Instructions:
//! mbarrier").

use warpwright_events::{
    Actor, Event, FaultKind, LANES, MbarrierAddress, MemorySpace, Scope, lanes, split_shared,
};
use warpwright_ptx::syntax::Operand;

use super::address;
use crate::cta::asynchronous::progress;
use crate::cta::block::Block;
use crate::cta::mbarrier::{Arrivals, Change, Initialization, MOST_ARRIVALS, Mbarrier};
use crate::cta::mbarrier_update::{complete_tx, running};
use crate::cta::tensor_memory::pipeline;
use crate::decode::{DecodeError, Decoded, Decoder, Row};
use crate::execution::effect::{Effect, Execution, Test, Watched};
use crate::execution::resolve::addresses;
use crate::lanes::one;
use crate::launch::failure::Failure;
use crate::launch::schedule::Schedule;
use crate::memory::{AddressOperand, Space};
use crate::operation::kind::Kind;
use crate::registers::Slot;

/// The operation on the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Initialize,
    Invalidate,
    /// `complete` unless it is marked `.noComplete`; `expect` if it first adds expected bytes.
    Arrive {
        drop: bool,
        complete: bool,
        expect: bool,
    },
    /// Adds expected bytes.
    Expect,
    /// Bytes have arrived.
    Complete,
    /// Whether the phase of a state, or of a parity, has ended.
    Test {
        parity: bool,
    },
}

impl Action {
    /// Whether the object may be another CTA's.
    fn reaches_peers(self) -> bool {
        matches!(self, Action::Arrive { complete: true, .. } | Action::Expect | Action::Complete)
    }
}

struct Instruct {
    action: Action,
    /// Whether arrivals release and waits acquire: unless they are `.relaxed`.
    orders: bool,
    /// The scope at which they do.
    scope: Scope,
    address: AddressOperand,
    space: Space,
    /// The count of arrivals or bytes, or the parity.
    word: Option<Slot>,
    /// The state, written by arrivals and read by tests.
    state: Option<Slot>,
    truth: Option<Slot>,
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.has("pending_count") {
        return d
            .scalar(i, one(|state: u64| Mbarrier::from_bits(state).map_or(0, |barrier| barrier.pending)));
    }
    let action = action(i)?;
    let place = i.signature().destinations;
    let mut instruct = Instruct {
        action,
        orders: !i.has("relaxed"),
        // PTX ISA, "mbarrier.arrive": without a scope, .cta applies.
        scope: if i.has("cluster") { Scope::Cluster } else { Scope::Cta },
        address: d.memory_at(i, place)?,
        space: address::space(i).unwrap_or(Space::Generic),
        word: None,
        state: None,
        truth: None,
    };
    let last = if i.operands.len() > place + 1 { Some(d.source_at(i, place + 1)?) } else { None };
    if let Action::Test { parity } = action {
        instruct.truth = Some(d.destination_at(i, 0)?);
        *(if parity { &mut instruct.word } else { &mut instruct.state }) = last;
        // A third source of `try_wait` is how long it may suspend the thread.
        if i.operands.len() > 3 {
            d.source_at(i, 3)?;
        }
        d.emit(Kind::Test(Box::new(instruct)));
        return Ok(());
    }
    instruct.word = last;
    if place > 0 && i.operands[0] != Operand::Sink {
        instruct.state = Some(d.destination_at(i, 0)?);
    }
    d.effect(instruct)
}

fn action(i: &Row<'_>) -> Result<Action, DecodeError> {
    let (parity, expect, complete) = (i.has("parity"), i.has("expect_tx"), !i.has("noComplete"));
    let actions = [
        ("arrive", Action::Arrive { drop: false, complete, expect }),
        ("arrive_drop", Action::Arrive { drop: true, complete, expect }),
        ("expect_tx", Action::Expect),
        ("init", Action::Initialize),
        ("inval", Action::Invalidate),
        ("complete_tx", Action::Complete),
        ("test_wait", Action::Test { parity }),
        ("try_wait", Action::Test { parity }),
    ];
    i.must("operation", &actions)
}

/// The objects that the lanes of a mask name.
pub(super) fn objects(
    execution: &Execution<'_>,
    operand: &AddressOperand,
    space: Space,
    mask: u32,
) -> Result<[MbarrierAddress; LANES], Box<Failure>> {
    let addresses = addresses(execution, operand);
    let mut objects = [MbarrierAddress { rank: 0, offset: 0 }; LANES];
    for lane in lanes(mask) {
        let mut address = addresses[lane];
        if space == Space::Generic && operand.space.is_none() {
            let (found, shared) = Space::of(address);
            if found != Space::ClusterShared {
                let message = format!(
                    "An mbarrier must be in shared memory; {address:#x} is in {} memory.",
                    found.name()
                );
                return Err(Failure::new(FaultKind::OutOfBounds, 1 << lane, message));
            }
            address = shared;
        }
        let (rank, offset) = split_shared(address);
        let size = execution.block.shared.size();
        if !offset.is_multiple_of(8) || offset + 8 > size {
            return Err(no_mbarrier(lane, address, size));
        }
        objects[lane] = MbarrierAddress { rank, offset };
    }
    Ok(objects)
}

/// An mbarrier is at a misaligned address, or outside the CTA's `size` bytes of shared memory.
#[cold]
fn no_mbarrier(lane: usize, address: u64, size: u64) -> Box<Failure> {
    let (kind, message) = if address.is_multiple_of(8) {
        let message =
            format!("An mbarrier at shared address {address:#x} is outside the CTA's shared memory.");
        (FaultKind::OutOfBounds, message)
    } else {
        let message = format!("An mbarrier at shared address {address:#x} is not a multiple of 8 bytes.");
        (FaultKind::Misaligned, message)
    };
    Failure::new(kind, 1 << lane, message)
        .at(MemorySpace::Shared, address)
        .note(format!("the CTA has {size} bytes of it, static and dynamic"))
}

/// The offsets of the objects that the lanes of a mask name, which must be the CTA's own.
pub(super) fn offsets(
    execution: &Execution<'_>,
    operand: &AddressOperand,
    space: Space,
    mask: u32,
) -> Result<[u64; LANES], Box<Failure>> {
    let objects = objects(execution, operand, space, mask)?;
    let own = execution.block.rank;
    if let Some(lane) = lanes(mask).find(|&lane| objects[lane].rank != own) {
        let rank = objects[lane].rank;
        let message = format!(
            "This operation needs an mbarrier of the CTA itself, of rank {own}; {:#x} is in the CTA of rank {rank}.",
            objects[lane].shared()
        );
        return Err(Failure::new(FaultKind::OutOfBounds, 1 << lane, message));
    }
    Ok(objects.map(|object| object.offset))
}

/// Adds one pending arrival to the current phase.
pub(super) fn expect_one_more(block: &mut Block, lane: usize, offset: u64) -> Result<(), Box<Failure>> {
    let barrier = block.mbarrier(offset).map_err(at(lane))?;
    block.shared.write_u64(offset, Mbarrier { pending: barrier.pending + 1, ..barrier }.to_bits());
    Ok(())
}

/// Performs the arrivals whose copies are now complete.
pub(crate) fn settle(block: &mut Block, warp: u32) -> Result<(), Box<Failure>> {
    if block.copies[warp as usize].is_empty() {
        return Ok(());
    }
    for arrival in block.copies[warp as usize].take_arrivals() {
        let object = MbarrierAddress { rank: block.rank, offset: arrival.barrier.into() };
        block.observer.report(Event::MbarrierTrackedArrive {
            warp,
            lane: arrival.lane.into(),
            mbarrier: object,
        });
        let change = Change::Arrive { count: 1, drop: false, expect: 0 };
        block.change_mbarrier(arrival.barrier.into(), change).map_err(at(arrival.lane.into()))?;
    }
    Ok(())
}

/// Adds the lane to a failure.
pub(super) fn at(lane: usize) -> impl Fn(Box<Failure>) -> Box<Failure> {
    move |mut failure| {
        failure.lanes |= 1 << lane;
        failure
    }
}

impl Effect for Instruct {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let words = self.word.map(|slot| *execution.registers.word(slot));
        if self.action.reaches_peers() && self.space != Space::Shared {
            let objects = objects(execution, &self.address, self.space, mask)?;
            for lane in lanes(mask) {
                self.change(execution, (lane, mask), objects[lane], words.map(|words| words[lane]))
                    .map_err(at(lane))?;
            }
            return Ok(());
        }
        let offsets = offsets(execution, &self.address, self.space, mask)?;
        for lane in lanes(mask) {
            let word = words.map(|words| words[lane]);
            let object = MbarrierAddress { rank: execution.block.rank, offset: offsets[lane] };
            let actor = Actor { lanes: 1 << lane, ..execution.actor(mask) };
            match self.action {
                Action::Initialize => {
                    let count = word.unwrap_or(0);
                    execution.block.observer.report(Event::MbarrierInit { actor, mbarrier: object, count });
                    let initialization = Initialization { pc: actor.pc, count };
                    initialize(execution.block, offsets[lane], initialization)
                }
                Action::Invalidate => {
                    execution.block.observer.report(Event::MbarrierInvalidate { actor, mbarrier: object });
                    execution.block.invalidate_mbarrier(offsets[lane])
                }
                _ => self.change(execution, (lane, mask), object, word),
            }
            .map_err(at(lane))?;
        }
        Ok(())
    }
}

fn initialize(block: &mut Block, offset: u64, initialization: Initialization) -> Result<(), Box<Failure>> {
    let count = initialization.count;
    if count == 0 || count > MOST_ARRIVALS {
        return Err(Failure::new(
            FaultKind::Barrier,
            0,
            format!("An mbarrier is initialized for {count} arrivals; it takes 1 to {MOST_ARRIVALS}."),
        ));
    }
    block.initialize_mbarrier(offset, initialization);
    Ok(())
}

impl Instruct {
    /// One lane arrives, expects bytes, or completes bytes; those of a mask execute the
    /// instruction.
    fn change(
        &self,
        execution: &mut Execution<'_>,
        (lane, together): (usize, u32),
        object: MbarrierAddress,
        word: Option<u32>,
    ) -> Result<(), Box<Failure>> {
        let change = match self.action {
            Action::Arrive { drop, expect: true, .. } => {
                Change::Arrive { count: 1, drop, expect: word.unwrap_or(0) }
            }
            Action::Arrive { drop, .. } => Change::Arrive { count: word.unwrap_or(1), drop, expect: 0 },
            Action::Expect => Change::Expect { bytes: word.unwrap_or(0) },
            _ => return complete_tx(&mut execution.cluster(), object, word.unwrap_or(0)),
        };
        let (rank, warp, pc) = (execution.block.rank, execution.warp, execution.pc);
        if self.state.is_some() && object.rank != rank {
            return Err(Failure::new(
                FaultKind::Barrier,
                0,
                format!(
                    "An arrival that returns a state needs an mbarrier of the CTA itself, of rank {rank}; {:#x} is in \
                     the CTA of rank {}.",
                    object.shared(),
                    object.rank
                ),
            ));
        }
        let actor = Actor { lanes: 1 << lane, ..execution.actor(0) };
        let arrives = matches!(change, Change::Arrive { .. });
        execution.block.observer.report(Event::MbarrierArrive {
            actor,
            mbarrier: object,
            release: (self.orders && arrives).then_some(self.scope),
            together,
        });
        if let Change::Arrive { expect: bytes, .. } | Change::Expect { bytes } = change
            && bytes > 0
        {
            execution.block.observer.report(Event::MbarrierExpect { actor, mbarrier: object, bytes });
        }
        let mut cluster = execution.cluster();
        let block = running(&mut cluster, object)?;
        if let Change::Arrive { count, .. } = change {
            check_count(count)?;
            if matches!(self.action, Action::Arrive { complete: false, .. })
                && block.mbarrier(object.offset)?.pending <= count
            {
                return Err(Failure::new(
                    FaultKind::Barrier,
                    0,
                    "An arrival marked .noComplete would complete the phase of its mbarrier.",
                ));
            }
        }
        let before = block.change_mbarrier(object.offset, change)?;
        if let Change::Arrive { count, .. } = change {
            block.note_arrival(object.offset, before, Arrivals { rank, warp, pc, count });
        }
        if let Some(slot) = self.state {
            execution.registers.long_mut(slot)[lane] = before.to_bits();
        }
        Ok(())
    }
}

impl Test for Instruct {
    /// Whether the phases that the lanes test have completed.
    fn test(&self, execution: &mut Execution<'_>, mask: u32) -> Result<bool, Box<Failure>> {
        let parity = self.action == Action::Test { parity: true };
        let offsets = offsets(execution, &self.address, self.space, mask)?;
        let mut truths = 0;
        execution.polled = true;
        if execution.block.transfers.is_empty() && !execution.block.tensor_pipeline.may_arrive() {
            execution.changes_nothing();
        }
        for lane in lanes(mask) {
            let barrier = execution.block.mbarrier(offsets[lane]).map_err(at(lane))?;
            let phase = if parity {
                self.word.is_some_and(|slot| execution.registers.word(slot)[lane] & 1 != 0)
            } else {
                self.state.is_some_and(|slot| execution.registers.long(slot)[lane] >> 63 != 0)
            };
            let ended = barrier.parity != phase;
            truths |= u32::from(ended) << lane;
            let object = MbarrierAddress { rank: execution.block.rank, offset: offsets[lane] };
            let actor = Actor { lanes: 1 << lane, ..execution.actor(mask) };
            execution.block.observer.report(Event::MbarrierTest {
                actor,
                mbarrier: object,
                ended,
                acquires: self.orders,
            });
            if ended && let Some(record) = execution.block.mbarriers.get_mut(&offsets[lane]) {
                record.observe(object.rank, actor.warp);
            }
            if !ended {
                execution.watched = Some(Watched::Mbarrier { address: object, parity: phase });
            }
            if execution.launch.schedule != Schedule::Eager {
                execution.block.transfers.note_test(offsets[lane], !ended);
            }
        }
        if let Some(slot) = self.truth {
            execution.registers.set_predicate(slot, mask, truths);
        }
        let launch = execution.launch;
        progress::drift(&mut execution.cluster(), launch)?;
        pipeline::drift(&mut execution.cluster(), launch)?;
        Ok(truths != 0)
    }
}

/// PTX ISA, "mbarrier.arrive": the count of arrivals is from 1 to 2^20 - 1.
fn check_count(count: u32) -> Result<(), Box<Failure>> {
    if count == 0 || count > MOST_ARRIVALS {
        return Err(Failure::new(
            FaultKind::Barrier,
            0,
            format!("An arrival counts {count}; it may count 1 to {MOST_ARRIVALS}."),
        ));
    }
    Ok(())
}
