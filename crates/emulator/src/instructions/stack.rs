//! `alloca`, `stacksave` and `stackrestore` (PTX ISA, "Stack Manipulation Instructions").

use warpwright_events::{FaultKind, LANES, lanes};
use warpwright_ptx::syntax::Statement;

use crate::decode::{DecodeError, Decoded, Decoder, File, Row};
use crate::execution::effect::{Effect, Execution};
use crate::launch::failure::Failure;
use crate::operation::kind::Kind;
use crate::registers::{Slot, blend};

/// The alignment of `alloca` without one.
const DEFAULT_ALIGNMENT: u64 = 8;

/// Whether any of the statements is an `alloca`. What it allocates is freed when its function
/// returns.
pub(crate) fn allocates(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Block(inner) => allocates(inner),
        Statement::Instruction(instruction) => instruction.opcode.base() == "alloca",
        _ => false,
    })
}

/// An operation that saves the top of the stack in a long.
pub(crate) fn save(to: Slot) -> Kind {
    Kind::Effect(Box::new(Save(Value { file: File::Long, slot: to })))
}

/// An operation that restores the top of the stack from a long.
pub(crate) fn restore(from: Slot) -> Kind {
    Kind::Effect(Box::new(Restore(Value { file: File::Long, slot: from })))
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let file = File::of(i.ty()?);
    let operand = |slot| Value { file, slot };
    if i.base() == "stackrestore" {
        let top = operand(d.source_at(i, 0)?);
        return d.effect(Restore(top));
    }
    let destination = operand(d.destination_at(i, 0)?);
    if i.base() == "stacksave" {
        return d.effect(Save(destination));
    }
    let size = operand(d.source_at(i, 1)?);
    d.effect(Allocate { size, alignment: alignment(i)?, destination })
}

fn alignment(i: &Row<'_>) -> Result<u64, DecodeError> {
    match i.literal(2) {
        _ if i.operands.len() == 2 => Ok(DEFAULT_ALIGNMENT),
        Ok(bytes) if bytes > 0 && bytes.count_ones() == 1 => Ok(bytes as u64),
        _ => Err(DecodeError::new("The alignment of `alloca` is a power of two.")),
    }
}

/// A register of 32 or 64 bits.
#[derive(Clone, Copy)]
struct Value {
    file: File,
    slot: Slot,
}

impl Value {
    fn read(self, execution: &Execution<'_>) -> [u64; LANES] {
        match self.file {
            File::Long => *execution.registers.long(self.slot),
            _ => execution.registers.word(self.slot).map(u64::from),
        }
    }

    fn write(self, execution: &mut Execution<'_>, mask: u32, values: [u64; LANES]) {
        match self.file {
            File::Long => blend(execution.registers.long_mut(self.slot), mask, values),
            _ => blend(execution.registers.word_mut(self.slot), mask, values.map(|value| value as u32)),
        }
    }
}

struct Allocate {
    size: Value,
    alignment: u64,
    destination: Value,
}

impl Effect for Allocate {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.changes_nothing();
        let sizes = self.size.read(execution);
        let limit = u64::from(execution.launch.arch.capability.local_bytes_per_thread);
        let most = limit.saturating_sub(execution.local.size());
        let mut addresses = [0; LANES];
        for lane in lanes(mask) {
            let address = execution.local.allocate(lane, sizes[lane], self.alignment, most);
            addresses[lane] = address.ok_or_else(|| {
                Failure::new(
                    FaultKind::StackOverflow,
                    1 << lane,
                    format!("`alloca` of {} bytes exceeds the thread's local memory.", sizes[lane]),
                )
                .note(format!("a thread has {limit} bytes of it, for frames and `alloca`"))
            })?;
        }
        self.destination.write(execution, mask, addresses);
        Ok(())
    }
}

struct Save(Value);

impl Effect for Save {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.changes_nothing();
        let tops = std::array::from_fn(|lane| execution.local.top(lane));
        self.0.write(execution, mask, tops);
        Ok(())
    }
}

struct Restore(Value);

impl Effect for Restore {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.changes_nothing();
        let tops = self.0.read(execution);
        for lane in lanes(mask) {
            execution.local.restore(lane, tops[lane]).ok_or_else(|| {
                Failure::new(
                    FaultKind::IllegalInstruction,
                    1 << lane,
                    format!("`stackrestore` of {:#x}, which is no earlier top of the stack.", tops[lane]),
                )
                .note("the value is one of `stacksave` in the same function, or in one that calls it")
            })?;
        }
        Ok(())
    }
}
