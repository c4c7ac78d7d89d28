//! `st.bulk`: zeros for a range of the CTA's shared memory (PTX ISA, "st.bulk").

use warpwright_events::{FaultKind, MemorySpace, Strength, Value, lanes};

use super::address;
use crate::decode::{DecodeError, Decoded, Decoder, Row};
use crate::execution::effect::{Effect, Execution};
use crate::execution::resolve::{addresses, resolve_store};
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};
use crate::registers::Slot;

/// The unit of addresses and sizes.
const UNIT: u64 = 8;

/// `st.bulk{.weak}{.shared::cta} [address], size, 0`
pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    if i.literal(2)? != 0 {
        return Err(DecodeError::new("`st.bulk` stores zeros: its last operand is the constant 0."));
    }
    let address = d.memory_at(i, 0)?;
    let is_generic = address::space(i).is_none() && address.space.is_none();
    let size = d.source_at(i, 1)?;
    d.effect(Fill { address, is_generic, size })
}

struct Fill {
    address: AddressOperand,
    is_generic: bool,
    size: Slot,
}

impl Effect for Fill {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let mut targets = addresses(execution, &self.address);
        let sizes = *execution.registers.long(self.size);
        for lane in lanes(mask) {
            let failure = |kind, message| Err(Failure::new(kind, 1 << lane, message));
            if self.is_generic {
                let (space, shared) = Space::of(targets[lane]);
                if space != Space::ClusterShared {
                    let message = format!(
                        "`st.bulk` writes to shared memory; {:#x} is in {} memory.",
                        targets[lane],
                        space.name()
                    );
                    return failure(FaultKind::OutOfBounds, message);
                }
                targets[lane] = shared;
            }
            for (what, number) in [("address", targets[lane]), ("size", sizes[lane])] {
                if !number.is_multiple_of(UNIT) {
                    let message =
                        format!("The {what} of `st.bulk` is {number:#x}; it must be a multiple of {UNIT}.");
                    let failure = Failure::new(FaultKind::Misaligned, 1 << lane, message);
                    return Err(failure.at(MemorySpace::Shared, targets[lane]));
                }
            }
        }
        // A unit of each lane at a time: a range may end outside shared memory.
        for at in (0..lanes(mask).map(|lane| sizes[lane]).max().unwrap_or(0)).step_by(UNIT as usize) {
            let longer =
                lanes(mask).filter(|&lane| sizes[lane] > at).fold(0, |longer, lane| longer | 1 << lane);
            let units = targets.map(|target| target.wrapping_add(at));
            let located =
                resolve_store(execution, Space::Shared, &units, longer, UNIT, Strength::Weak, |_| {
                    Some(Box::new([Value::default(); 32]))
                })?;
            for lane in lanes(longer) {
                // SAFETY: `resolve_store` found `UNIT` bytes for each lane, that may be written.
                unsafe { located.lane(lane, &units).cast::<u64>().write_unaligned(0) };
            }
        }
        Ok(())
    }
}
