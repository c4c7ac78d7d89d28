//! What one instruction does to mbarriers. PTX ISA, "mbarrier" and the instructions that complete on
//! one.

use warpwright_ir::{Instruction, Operand, Register};

use crate::cluster_launch::CANCEL_RESPONSE_BYTES;
use crate::recorder::Recorder;
use crate::recorder::state::CopyAccess;

/// What is done to an mbarrier by each thread that executes an instruction; `None` for numbers that are
/// known on the device only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Initialize(Option<u64>),
    Arrive(Option<u64>),
    /// Expects bytes, and arrives if that is said, too.
    Expect {
        bytes: Option<i64>,
        arrives: bool,
    },
    Complete {
        bytes: Option<i64>,
    },
    Wait,
}

/// The CTAs whose mbarriers an instruction reaches.
#[derive(Clone, Debug)]
pub(super) enum Receivers {
    /// That of the address.
    One,
    /// Those whose bits are set.
    Mask(Operand),
    All,
}

/// An instruction that uses an mbarrier.
pub(super) struct Use<'a> {
    pub(super) act: Act,
    /// The operand with the mbarrier's address.
    pub(super) barrier: &'a Operand,
    pub(super) receivers: Receivers,
}

fn constant(operand: &Operand) -> Option<i64> {
    match operand {
        Operand::Integer(value) => i64::try_from(*value).ok(),
        _ => None,
    }
}

impl Recorder {
    /// What an instruction does to an mbarrier, if it uses one.
    pub(super) fn mbarrier_use<'i>(&self, instruction: &'i Instruction) -> Option<Use<'i>> {
        let opcode = instruction.opcode.as_ref();
        let operands = &instruction.operands;
        let at = |position: usize| operands.get(position);
        let one = |act, barrier| Some(Use { act, barrier, receivers: Receivers::One });
        if opcode.starts_with("mbarrier.") || opcode.starts_with("cp.async.mbarrier.arrive") {
            let sources = &operands[instruction.destinations..];
            let position = sources.iter().position(|operand| matches!(operand, Operand::Address { .. }))?;
            return one(of_mbarrier(opcode, sources.get(position + 1))?, &sources[position]);
        }
        if opcode.starts_with("tcgen05.commit") {
            let receivers = at(1).map_or(Receivers::One, |mask| Receivers::Mask(mask.clone()));
            return Some(Use { act: Act::Arrive(Some(1)), barrier: at(0)?, receivers });
        }
        if !opcode.contains("complete_tx") {
            return None;
        }
        let complete = |bytes| Act::Complete { bytes };
        if opcode.starts_with("cp.async.bulk.tensor.") {
            let access = if opcode.contains("gather4") { CopyAccess::FourRows } else { CopyAccess::Tile };
            let bytes = self.box_bytes(at(1)?).map(|bytes| access.boxes() * bytes);
            // Behind the mbarrier are the offsets of im2col, then the mask.
            let mask = operands[3..].iter().find(|operand| !matches!(operand, Operand::Vector(_)));
            return Some(Use { act: complete(bytes), barrier: at(2)?, receivers: receivers(opcode, mask) });
        }
        if opcode.starts_with("cp.async.bulk.") || opcode.starts_with("cp.reduce.async.bulk.") {
            let act = complete(at(2).and_then(constant));
            return Some(Use { act, barrier: at(3)?, receivers: receivers(opcode, at(4)) });
        }
        if opcode.starts_with("st.async.") || opcode.starts_with("red.async.") {
            let bits: Option<i64> = opcode.rsplit('.').next()?.get(1..)?.parse().ok();
            let elements = if let Some(Operand::Vector(values)) = at(1) { values.len() as i64 } else { 1 };
            return one(complete(bits.map(|bits| bits / 8 * elements)), at(2)?);
        }
        let all = if opcode.contains("multicast") { Receivers::All } else { Receivers::One };
        let bytes = Some(i64::from(CANCEL_RESPONSE_BYTES));
        opcode.starts_with("clusterlaunchcontrol.try_cancel").then_some(Use {
            act: complete(bytes),
            barrier: at(1)?,
            receivers: all,
        })
    }

    /// The bytes of the boxes of the tensor map at an address, if they are stated.
    fn box_bytes(&self, map: &Operand) -> Option<i64> {
        let Operand::Address { base, .. } = map else { return None };
        let Operand::Register(base) = **base else { return None };
        let boxes = self.boxes(base)?;
        i64::try_from(boxes.row_major(0, &vec![1; boxes.rank()]).transaction_bytes()).ok()
    }
}

fn receivers(opcode: &str, mask: Option<&Operand>) -> Receivers {
    match mask.filter(|_| opcode.contains("multicast")) {
        Some(mask) => Receivers::Mask(mask.clone()),
        None => Receivers::One,
    }
}

/// What an instruction named for mbarriers does; `number` is the operand behind the address.
fn of_mbarrier(opcode: &str, number: Option<&Operand>) -> Option<Act> {
    let words: Vec<&str> = opcode.split('.').collect();
    let count = match number {
        None => Some(1),
        Some(number) => constant(number).and_then(|count| u64::try_from(count).ok()),
    };
    let bytes = number.and_then(constant);
    Some(match words[1] {
        "init" => Act::Initialize(count),
        "arrive" if words.contains(&"expect_tx") => Act::Expect { bytes, arrives: true },
        "arrive" => Act::Arrive(count),
        "expect_tx" => Act::Expect { bytes, arrives: false },
        "complete_tx" => Act::Complete { bytes },
        "test_wait" | "try_wait" => Act::Wait,
        // Without `.noinc` the phase waits for one arrival more.
        "async" if words.contains(&"noinc") => Act::Arrive(Some(1)),
        "async" => Act::Arrive(Some(0)),
        "arrive_drop" if words.contains(&"expect_tx") => Act::Expect { bytes: None, arrives: true },
        "arrive_drop" => Act::Arrive(None),
        "inval" => Act::Wait,
        _ => return None,
    })
}

/// The registers that an instruction reads.
pub(super) fn registers_read(instruction: &Instruction, visit: &mut dyn FnMut(Register)) {
    fn of(operand: &Operand, visit: &mut dyn FnMut(Register)) {
        match operand {
            Operand::Register(register) | Operand::Not(register) => visit(*register),
            Operand::Address { base, rest, .. } => {
                of(base, visit);
                rest.iter().for_each(|operand| of(operand, visit));
            }
            Operand::Vector(lanes) => lanes.iter().for_each(|operand| of(operand, visit)),
            _ => {}
        }
    }
    instruction.operands[instruction.destinations..].iter().for_each(|operand| of(operand, visit));
}
