//! `mbarrier` instructions on the CTA's own shared memory.

use warpwright_ptx::syntax::{Instruction, Operand, Type};

use super::Decoder;
use crate::cta::Block;
use crate::decode::{AddressOperand, DecodeError, Words};
use crate::fault::FaultKind;
use crate::lanes::{Operands, one};
use crate::mbarrier::{MOST_ARRIVALS, Mbarrier};
use crate::memory::{Space, Trouble, addresses};
use crate::operation::{Effect, Execution, Kind};
use crate::registers::{LANES, Slot, lanes};

/// What an instruction does to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Initialise,
    Invalidate,
    Arrive {
        drop: bool,
        complete: bool,
    },
    /// Whether the phase of a state, or of a parity, has ended.
    Test {
        parity: bool,
    },
}

struct Instruct {
    action: Action,
    address: AddressOperand,
    space: Space,
    /// The count, or the parity.
    word: Option<Slot>,
    /// The state, written by arrivals and read by tests.
    state: Option<Slot>,
    truth: Option<Slot>,
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    if w.take("pending_count") {
        w.ty()?;
        let mut slots =
            Operands { d: d.destination(d.operand(&i.operands, 0)?, Type::U32)?, ..Operands::default() };
        slots.a = d.source(d.operand(&i.operands, 1)?, Type::B64)?;
        d.plain_lanes(
            slots,
            one(|state: u64| Mbarrier::from_bits(state).map_or(0, |barrier| barrier.pending)),
        );
        return Ok(());
    }
    let parity = w.take("parity");
    let complete = !w.take("noComplete");
    let action = w.choose(&[
        ("init", Action::Initialise),
        ("inval", Action::Invalidate),
        ("arrive", Action::Arrive { drop: false, complete }),
        ("arrive_drop", Action::Arrive { drop: true, complete }),
        ("test_wait", Action::Test { parity }),
        ("try_wait", Action::Test { parity }),
    ]);
    let action = action
        .ok_or_else(|| DecodeError::new("The emulator does not know this operation on an mbarrier."))?;
    w.choose(&[("acquire", ()), ("release", ()), ("relaxed", ())]);
    w.choose(&[("cta", ()), ("cluster", ())]);
    let space =
        w.choose(&[("shared", Space::Shared), ("shared::cta", Space::Shared)]).unwrap_or(Space::Generic);
    w.ty()?;
    let blank = AddressOperand { base: crate::decode::BaseOperand::Absolute, offset: 0, space: None };
    let mut instruct = Instruct { action, address: blank, space, word: None, state: None, truth: None };
    let operands = i.operands.as_slice();
    match (action, operands) {
        (Action::Initialise, [address, count]) => {
            instruct.address = d.memory(address)?;
            instruct.word = Some(d.source(count, Type::U32)?);
        }
        (Action::Invalidate, [address]) => instruct.address = d.memory(address)?,
        (Action::Arrive { .. }, [state, address, rest @ ..]) if rest.len() <= 1 => {
            if *state != Operand::Sink {
                instruct.state = Some(d.destination(state, Type::B64)?);
            }
            instruct.address = d.memory(address)?;
            if let [count] = rest {
                instruct.word = Some(d.source(count, Type::U32)?);
            }
        }
        // A third source of `try_wait` is how long it may suspend the thread.
        (Action::Test { parity }, [truth, address, phase, rest @ ..]) if rest.len() <= 1 => {
            instruct.truth = Some(d.destination(truth, Type::Pred)?);
            instruct.address = d.memory(address)?;
            if parity {
                instruct.word = Some(d.source(phase, Type::U32)?);
            } else {
                instruct.state = Some(d.source(phase, Type::B64)?);
            }
        }
        _ => {
            return Err(DecodeError::new(
                "The instruction does not have the operands that this operation takes.",
            ));
        }
    }
    d.emit(Kind::Effect(Box::new(instruct)));
    Ok(())
}

/// The offsets in shared memory of the objects that the lanes of a mask name.
pub(super) fn offsets(
    execution: &Execution<'_>,
    address: &AddressOperand,
    space: Space,
    mask: u32,
) -> Result<[u64; LANES], Box<Trouble>> {
    let mut offsets = addresses(execution, address);
    for lane in lanes(mask) {
        if space == Space::Generic && address.space.is_none() {
            let (found, offset) = Space::of(offsets[lane]);
            if found != Space::ClusterShared {
                return Err(Trouble::new(
                    FaultKind::OutOfBounds,
                    1 << lane,
                    format!(
                        "An mbarrier lies in shared memory; {:#x} is in {} memory.",
                        offsets[lane],
                        found.name()
                    ),
                ));
            }
            offsets[lane] = offset;
        }
        offsets[lane] = offsets[lane].wrapping_sub(execution.block.shared.base());
        if !offsets[lane].is_multiple_of(8) || offsets[lane].saturating_add(8) > execution.block.shared.size()
        {
            let kind =
                if offsets[lane].is_multiple_of(8) { FaultKind::OutOfBounds } else { FaultKind::Misaligned };
            let size = execution.block.shared.size();
            return Err(Trouble::new(
                kind,
                1 << lane,
                format!(
                    "An mbarrier takes 8 aligned bytes of shared memory; {:#x} is not such a place.",
                    offsets[lane]
                ),
            )
            .note(format!("the CTA has {size} bytes of it, static and dynamic")));
        }
    }
    Ok(offsets)
}

fn load(block: &mut Block, lane: usize, offset: u64) -> Result<Mbarrier, Box<Trouble>> {
    Mbarrier::from_bits(block.shared.read_u64(offset)).ok_or_else(|| {
        Trouble::new(
            FaultKind::Barrier,
            1 << lane,
            format!("There is no initialised mbarrier at shared address {offset:#x}."),
        )
    })
}

fn store(block: &mut Block, offset: u64, barrier: Mbarrier) {
    block.shared.write_u64(offset, barrier.to_bits());
}

/// Counts one more arrival in the present phase.
pub(super) fn expect_one_more(block: &mut Block, lane: usize, offset: u64) -> Result<(), Box<Trouble>> {
    let barrier = load(block, lane, offset)?;
    store(block, offset, Mbarrier { pending: barrier.pending + 1, ..barrier });
    Ok(())
}

fn arrive(
    block: &mut Block,
    lane: usize,
    offset: u64,
    count: u32,
    drop: bool,
) -> Result<Mbarrier, Box<Trouble>> {
    let before = load(block, lane, offset)?;
    let after = if drop { before.arrive_and_drop(count) } else { before.arrive(count) };
    let Some(after) = after else {
        return Err(Trouble::new(
            FaultKind::Barrier,
            1 << lane,
            format!(
                "The mbarrier at shared address {offset:#x} waits for {} more arrivals in this phase, and {count} arrive.",
                before.pending
            ),
        ));
    };
    store(block, offset, after);
    Ok(before)
}

/// Makes the arrivals that waited for copies which are made now.
pub(crate) fn settle(block: &mut Block, warp: u32) -> Result<(), Box<Trouble>> {
    if block.copies[warp as usize].is_empty() {
        return Ok(());
    }
    for arrival in block.copies[warp as usize].take_arrivals() {
        arrive(block, arrival.lane.into(), arrival.barrier.into(), 1, false)?;
    }
    Ok(())
}

impl Effect for Instruct {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        let offsets = offsets(execution, &self.address, self.space, mask)?;
        let words = self.word.map(|slot| *execution.registers.word(slot));
        let mut truths = 0;
        for lane in lanes(mask) {
            let offset = offsets[lane];
            match self.action {
                Action::Initialise => {
                    let count = words.map_or(0, |words| words[lane]);
                    if count == 0 || count > MOST_ARRIVALS {
                        return Err(Trouble::new(
                            FaultKind::Barrier,
                            1 << lane,
                            format!(
                                "An mbarrier is initialised for {count} arrivals; it takes 1 to {MOST_ARRIVALS}."
                            ),
                        ));
                    }
                    store(execution.block, offset, Mbarrier::new(count));
                }
                Action::Invalidate => {
                    load(execution.block, lane, offset)?;
                    execution.block.shared.write_u64(offset, u64::MAX);
                }
                Action::Arrive { drop, complete } => {
                    let count = words.map_or(1, |words| words[lane]);
                    let before = load(execution.block, lane, offset)?;
                    if !complete && before.pending <= count {
                        return Err(Trouble::new(
                            FaultKind::Barrier,
                            1 << lane,
                            "An arrival marked .noComplete would complete the phase of its mbarrier.",
                        ));
                    }
                    let before = arrive(execution.block, lane, offset, count, drop)?;
                    if let Some(slot) = self.state {
                        execution.registers.long_mut(slot)[lane] = before.to_bits();
                    }
                }
                Action::Test { parity } => {
                    let barrier = load(execution.block, lane, offset)?;
                    let phase = if parity {
                        words.is_some_and(|words| words[lane] & 1 != 0)
                    } else {
                        self.state.is_some_and(|slot| execution.registers.long(slot)[lane] >> 63 != 0)
                    };
                    truths |= u32::from(barrier.parity != phase) << lane;
                }
            }
        }
        if let Some(slot) = self.truth {
            execution.registers.set_predicate(slot, mask, truths);
            execution.polled = true;
        }
        Ok(())
    }
}
