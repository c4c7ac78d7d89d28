//! Operands that an operation of its own computes: addresses of frames, and clocks.

use warpwright_events::LANES;

use super::names::File;
use crate::execution::effect::{Effect, Execution};
use crate::kernel::special::Clock;
use crate::launch::failure::Failure;
use crate::launch::time::Moment;
use crate::registers::{Slot, blend};

/// The address of a variable in the function's local frame.
struct FrameAddress {
    offset: i64,
    file: File,
    destination: Slot,
}

impl Effect for FrameAddress {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.changes_nothing();
        let address = u64::from(execution.registers.base().local).wrapping_add_signed(self.offset);
        write_all(execution, self.file, self.destination, mask, address);
        Ok(())
    }
}

pub(crate) fn frame_address(offset: i64, file: File, destination: Slot) -> Box<dyn Effect> {
    Box::new(FrameAddress { offset, file, destination })
}

struct ReadClock {
    clock: Clock,
    file: File,
    destination: Slot,
}

impl Effect for ReadClock {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.changes_nothing();
        execution.polled = true;
        let clock = &execution.launch.clock;
        clock.note_read();
        let moment = execution.block.time_stands_at.unwrap_or_else(|| Moment::Elapsed(clock.elapsed()));
        let now = self.clock.read(execution.launch, moment);
        write_all(execution, self.file, self.destination, mask, now);
        Ok(())
    }
}

pub(crate) fn read_clock(clock: Clock, file: File, destination: Slot) -> Box<dyn Effect> {
    Box::new(ReadClock { clock, file, destination })
}

fn write_all(execution: &mut Execution<'_>, file: File, slot: Slot, mask: u32, value: u64) {
    if file == File::Long {
        blend(execution.registers.long_mut(slot), mask, [value; LANES]);
    } else {
        blend(execution.registers.word_mut(slot), mask, [value as u32; LANES]);
    }
}
