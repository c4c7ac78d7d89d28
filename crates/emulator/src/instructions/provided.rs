//! Functions that CUDA's driver provides to every module: `vprintf`, `__assertfail`, and the heap.

use warpwright_events::{FaultKind, lanes};
use warpwright_ptx::syntax::{Operand, Type};

use super::passed::{argument, passed, passed_back, set_result};
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
    let arguments: Vec<_> =
        arguments.iter().map(|argument| passed(d, argument, Some(Type::B64))).collect::<Result<_, _>>()?;
    let result = match results.first() {
        Some(result) => passed_back(d, result, Some(Type::B64))?,
        None => None,
    };
    match (name, arguments.as_slice()) {
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
