//! Arguments and results of calls.

use warpwright_ptx::syntax::{Operand, Type};

use crate::decode::{DecodeError, Decoder, File, Symbol};
use crate::execution::effect::Execution;
use crate::operation::call::Passed;

/// One result, which the call writes unless it is ignored.
pub(super) fn passed_back(
    d: Decoder<'_, '_, '_>,
    operand: &Operand,
    formal: Option<Type>,
) -> Result<Option<Passed>, DecodeError> {
    if *operand == Operand::Sink {
        return Ok(None);
    }
    if let Operand::Name(name) = operand
        && let Symbol::Register(register) = d.symbol(name)?
    {
        d.note_use(register, true);
    }
    passed(d, operand, formal).map(Some)
}

/// One argument or result: a register, a `.param` variable, or a literal of the formal's type.
pub(super) fn passed(
    d: Decoder<'_, '_, '_>,
    operand: &Operand,
    formal: Option<Type>,
) -> Result<Passed, DecodeError> {
    if let Operand::Name(name) = operand
        && let Symbol::Local { offset, size } = d.symbol(name)?
    {
        return Ok(Passed::Bytes { offset, size });
    }
    let register = d.wide_source(operand, formal.unwrap_or(Type::B64))?;
    match register.file {
        File::Word => Ok(Passed::Word(register.slot)),
        File::Long => Ok(Passed::Long(register.slot)),
        File::Predicate => Ok(Passed::Predicate(register.slot)),
        File::Quad => Err(DecodeError::new("A 128-bit register cannot be passed.")),
    }
}

/// The value of an argument in a lane.
pub(super) fn argument(execution: &Execution<'_>, lane: usize, passed: Passed) -> u64 {
    match passed {
        Passed::Word(slot) => execution.registers.word(slot)[lane].into(),
        Passed::Long(slot) => execution.registers.long(slot)[lane],
        Passed::Predicate(slot) => u64::from(execution.registers.predicate(slot) >> lane & 1),
        Passed::Bytes { offset, size } => {
            let mut bytes = [0; 8];
            let at = u64::from(execution.registers.base().local + offset);
            execution.local.read(lane, at, &mut bytes[..size.min(8) as usize]);
            u64::from_le_bytes(bytes)
        }
    }
}

/// Writes the result of a call in a lane, unless it is ignored.
pub(super) fn set_result(execution: &mut Execution<'_>, lane: usize, result: Option<Passed>, value: u64) {
    match result {
        Some(Passed::Word(slot)) => execution.registers.word_mut(slot)[lane] = value as u32,
        Some(Passed::Long(slot)) => execution.registers.long_mut(slot)[lane] = value,
        Some(Passed::Predicate(slot)) => {
            execution.registers.set_predicate(slot, 1 << lane, u32::from(value != 0) << lane);
        }
        Some(Passed::Bytes { offset, size }) => {
            let at = u64::from(execution.registers.base().local + offset);
            execution.local.write(lane, at, &value.to_le_bytes()[..size.min(8) as usize]);
        }
        None => {}
    }
}
