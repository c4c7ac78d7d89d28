//! Functions that CUDA's driver provides to every module: `vprintf`, `__assertfail`, and the heap.

use warpwright_events::{FaultKind, lanes};
use warpwright_ptx::syntax::{Operand, Type};

use super::control;
use super::print::{AssertionFailure, Print};
use crate::decode::{DecodeError, Decoder};
use crate::execution::effect::{Effect, Execution};
use crate::launch::failure::Failure;
use crate::memory::{HEAP_ALIGNMENT, HeapError};
use crate::operation::call::Passed;

/// The effect of calling a function that the module declares and does not define.
pub(super) fn effect(
    d: Decoder<'_, '_, '_>,
    name: &str,
    results: &[Operand],
    arguments: &[Operand],
) -> Result<Box<dyn Effect>, DecodeError> {
    let mut passed = Vec::new();
    for argument in arguments {
        passed.push(control::passed(d, argument, Some(Type::B64))?);
    }
    let result = match results.first() {
        Some(result) => control::passed_back(d, result, Some(Type::B64))?,
        None => None,
    };
    match (name, passed.as_slice()) {
        ("vprintf", &[format, values]) => Ok(Box::new(Print { format, values, result })),
        ("__assertfail", &[message, file, line, function, ..]) => {
            Ok(Box::new(AssertionFailure { message, file, line, function }))
        }
        ("malloc", &[size]) => Ok(Box::new(Allocate { size, alignment: None, result })),
        ("__nv_aligned_device_malloc", &[size, alignment]) => {
            Ok(Box::new(Allocate { size, alignment: Some(alignment), result }))
        }
        ("free", &[address]) => Ok(Box::new(Free { address })),
        _ => Err(DecodeError::undefined(name)),
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

/// `malloc`, which returns 0 where the heap has too few bytes.
struct Allocate {
    size: Passed,
    alignment: Option<Passed>,
    result: Option<Passed>,
}

impl Effect for Allocate {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        for lane in lanes(mask) {
            let size = argument(execution, lane, self.size);
            let alignment = self.alignment.map_or(HEAP_ALIGNMENT, |passed| argument(execution, lane, passed));
            let address = if alignment.is_power_of_two() {
                execution.launch.memory.allocate_in_heap(size, alignment)
            } else {
                None
            };
            set_result(execution, lane, self.result, address.unwrap_or(0));
        }
        Ok(())
    }
}

struct Free {
    address: Passed,
}

impl Effect for Free {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        for lane in lanes(mask) {
            let address = argument(execution, lane, self.address);
            // As in C, to free a null pointer does nothing.
            if address == 0 {
                continue;
            }
            let memory = execution.launch.memory;
            let (kind, message) = match memory.free_in_heap(address) {
                Ok(()) => continue,
                Err(HeapError::FreedTwice) => {
                    (FaultKind::UseAfterFree, format!("`free` of {address:#x}, which was freed before."))
                }
                Err(HeapError::NotABlock) => (
                    FaultKind::OutOfBounds,
                    format!("`free` of {address:#x}, which `malloc` did not return."),
                ),
            };
            return Err(Failure::new(kind, 1 << lane, message).note(memory.describe(address)));
        }
        Ok(())
    }
}
