//! What is known of registers beyond their class, so that operations on them can be compared.

use rustc_hash::FxHashSet;
use warpwright_ir::{Kernel, Location, Register};

use super::Recorder;
use super::state::{Columns, Stages};
use crate::cta_group::CtaGroup;

impl Recorder {
    /// The variable whose value a register holds, or the register itself.
    fn variable_of(&self, mut register: Register) -> Register {
        while let Some(variable) = self.facts.copies.get(&register) {
            register = *variable;
        }
        register
    }

    /// Notes the stages that a register counts, or that the memory at a base register has. Returns
    /// what was noted before.
    pub(crate) fn note_stages(&mut self, register: Register, stages: Stages) -> Option<Stages> {
        let variable = self.variable_of(register);
        self.facts.stages.insert(variable, stages)
    }

    /// The stages that a register counts, or that the memory at a base register has.
    pub(crate) fn stages_of(&self, register: Register) -> Option<Stages> {
        self.facts.stages.get(&self.variable_of(register)).copied()
    }

    /// Notes that a register holds the index of one of `count` threads, and of whose.
    pub(crate) fn note_threads(&mut self, index: Register, count: u32, whose: &'static str) {
        self.facts.threads.insert(index, (count, whose));
    }

    /// The number of threads that a register counts, and whose they are.
    pub(crate) fn threads_of(&self, index: Register) -> Option<(u32, &'static str)> {
        self.facts.threads.get(&index).copied()
    }

    /// Notes the columns of tensor memory whose address is written to a pointer's memory.
    pub(crate) fn note_allocation_of_columns(&mut self, holder: (Register, i64), columns: u32) {
        self.facts.holders.insert(holder, columns);
    }

    /// The columns whose address is in a pointer's memory.
    pub(crate) fn columns_in(&self, holder: (Register, i64)) -> Option<u32> {
        self.facts.holders.get(&holder).copied()
    }

    /// Notes the columns from the address in a register on.
    pub(crate) fn note_columns(&mut self, address: Register, columns: Columns) {
        self.facts.columns.insert(address, columns);
    }

    /// The columns from the address in a register on.
    pub(crate) fn columns_at(&self, address: Register) -> Option<Columns> {
        self.facts.columns.get(&address).copied()
    }

    /// The CTAs by which the kernel uses tensor memory: those of its first use.
    pub(crate) fn cta_group(&mut self, group: CtaGroup) -> CtaGroup {
        *self.facts.group.get_or_insert(group)
    }

    /// Evaluates `demand` on the finished kernel: the author may state the launch after it.
    pub(crate) fn demand_at_end(
        &mut self,
        location: Location,
        demand: impl FnOnce(&Kernel) -> Option<String> + 'static,
    ) {
        self.notes.demands.push((location, Box::new(demand)));
    }

    /// Evaluates the demands, and reports the mistakes.
    /// A mistake in the launch that several lines meet is reported at the first.
    pub(super) fn meet_demands(&mut self) {
        let mut known = FxHashSet::default();
        for (location, demand) in std::mem::take(&mut self.notes.demands) {
            if let Some(mistake) = demand(&self.kernel).filter(|mistake| known.insert(mistake.clone())) {
                self.error(location, mistake);
            }
        }
    }
}
