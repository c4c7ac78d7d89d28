//! Allocation of columns (PTX ISA, "Tensor Memory Allocation and Management Instructions").

use warpwright_events::{Cell, Event, FULL, FaultKind};

use super::cells::{agree, failure, uniform, whole};
use crate::cta::block::Block;
use crate::cta::tensor_memory::columns::is_legal;
use crate::execution::effect::{Attempt, Effect, Execution};
use crate::execution::resolve::{Purpose, addresses, resolve, split_generic};
use crate::launch::failure::Failure;
use crate::memory::{AddressOperand, Space};
use crate::registers::Slot;

/// `tcgen05.alloc`: waits until enough columns are free.
pub(super) struct Allocate {
    pub(super) group: u8,
    pub(super) address: AddressOperand,
    pub(super) space: Space,
    pub(super) columns: Slot,
}

impl Attempt for Allocate {
    fn attempt(&self, execution: &mut Execution<'_>, mask: u32) -> Result<bool, Box<Failure>> {
        whole(mask)?;
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        let columns = uniform(execution.registers.word(self.columns), "The number of columns")?;
        if !is_legal(columns) {
            return failure(
                FULL,
                format!(
                    "{columns} columns are requested; tensor memory is allocated in powers of two from 32 to 512."
                ),
            );
        }
        if let Some(at) = execution.block.tensor_memory.columns.relinquished {
            let mut found = Failure::new(
                FaultKind::TensorMemory,
                FULL,
                "Tensor-memory columns are requested after the CTA has relinquished its allocation permit.",
            );
            found.also.push((at, "relinquished here".to_owned()));
            found.help = Some("allocate everything before `tcgen05.relinquish_alloc_permit`".to_owned());
            return Err(found);
        }
        let mut addresses = addresses(execution, &self.address);
        let mut space = self.space;
        if space == Space::Generic {
            (space, _, addresses) = split_generic(&addresses, 1)[0];
        }
        if !matches!(space, Space::Shared | Space::ClusterShared) {
            return failure(
                FULL,
                format!(
                    "The address of the columns is written to shared memory, not to {} memory.",
                    space.name()
                ),
            );
        }
        let located = resolve(execution, space, &addresses, 1, 4, Purpose::Store)?;
        let Some(first) = execution.block.tensor_memory.allocate(columns) else { return Ok(false) };
        // SAFETY: `resolve` found four bytes that may be written.
        unsafe { located.lane(0, &addresses).cast::<u32>().write_unaligned(first) };
        let actor = execution.actor(mask);
        // The lanes execute it together (`.sync`), and each may read what one of them wrote.
        execution.block.observer.report(Event::WarpSync { actor });
        execution.block.observer.report(Event::TensorAllocate { actor, first, columns });
        Ok(true)
    }

    fn reason(&self, block: &Block, _: u32) -> String {
        format!(
            "waits for tensor-memory columns, of which {} are free: {}",
            block.tensor_memory.columns.free_columns(),
            block.tensor_memory.columns.in_words()
        )
    }
}

/// `tcgen05.dealloc`
pub(super) struct Free {
    pub(super) group: u8,
    pub(super) address: Slot,
    pub(super) columns: Slot,
}

impl Effect for Free {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        whole(mask)?;
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        let first = Cell::of(uniform(execution.registers.word(self.address), "The address")?);
        let columns = uniform(execution.registers.word(self.columns), "The number of columns")?;
        let held = &mut execution.block.tensor_memory.columns;
        if first.row != 0 || !held.free(first.column, columns) {
            let message = format!(
                "{columns} columns from column {} are freed, which were not allocated together.",
                first.column
            );
            return Err(Failure::new(FaultKind::TensorMemory, FULL, message).note(held.in_words()));
        }
        let actor = execution.actor(mask);
        execution.block.observer.report(Event::TensorFree { actor, first: first.column, columns });
        Ok(())
    }
}

/// `tcgen05.relinquish_alloc_permit`
pub(super) struct Relinquish {
    pub(super) group: u8,
}

impl Effect for Relinquish {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        whole(mask)?;
        let pc = execution.pc;
        agree(execution.block, self.group, pc)?;
        execution.block.tensor_memory.columns.relinquished.get_or_insert(pc);
        Ok(())
    }
}
