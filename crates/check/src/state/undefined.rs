//! Registers whose value is undefined, because a shuffle took it from a lane that does not take part,
//! or a load took it from shared memory that nothing has written.

use std::collections::HashMap;

use warpwright_events::{Actor, Base, Class, Instruction, LANES, Register};

use crate::state::undefined_local::UndefinedLocal;

/// An undefined value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undefined {
    /// The lanes in which the register holds it.
    pub(crate) lanes: u32,
    pub(crate) origin: Origin,
}

/// Where an undefined value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A shuffle, the lanes that read, and the lanes that they read from.
    Shuffle { pc: u32, readers: u32, sources: u32 },
    /// A load of shared memory that nothing has written.
    Load { pc: u32 },
}

/// An access of local memory by an instruction.
#[derive(Clone, Debug)]
pub(crate) struct LocalAccess {
    pub(crate) pc: u32,
    pub(crate) addresses: [u64; LANES],
    pub(crate) bytes: u64,
}

/// The lanes that are noted with an instruction.
pub(crate) fn lanes_at(noted: &[(u32, u32)], pc: u32) -> u32 {
    noted.iter().filter(|(at, _)| *at == pc).fold(0, |mask, (_, lanes)| mask | lanes)
}

/// The undefined registers of a warp.
#[derive(Debug, Default)]
pub(crate) struct UndefinedRegisters {
    registers: HashMap<Register, Undefined>,
    /// Instructions that lanes have reached and not executed, until the report of their execution.
    pub(crate) predicated_off: Vec<(u32, u32)>,
    /// Bytes of local memory that hold undefined values.
    pub(crate) local: UndefinedLocal,
    /// Accesses of local memory, until the report of their execution.
    pub(crate) local_accesses: Vec<LocalAccess>,
    /// Selections, and the lanes that take the first operand, until the report of their execution.
    pub(crate) selections: Vec<(u32, u32)>,
    /// Loads of unwritten shared memory, and their lanes, until the report of their execution.
    pub(crate) unwritten_loads: Vec<(u32, u32)>,
}

impl UndefinedRegisters {
    pub(crate) fn is_empty(&self) -> bool {
        self.registers.is_empty() && self.unwritten_loads.is_empty() && self.local.is_empty()
    }

    /// Keeps the lanes whose guard turned an instruction off.
    pub(crate) fn guarded_off(&mut self, actor: Actor) {
        if !self.is_empty() {
            self.predicated_off.push((actor.pc, actor.lanes));
        }
    }

    /// Keeps the lanes that took the first source of a selection.
    pub(crate) fn selecting(&mut self, actor: Actor, first: u32) {
        if !self.is_empty() {
            self.selections.push((actor.pc, first));
        }
    }

    /// What is undefined in these lanes of any of some registers.
    pub(crate) fn of(&self, registers: &[Register], lanes: u32) -> Option<Undefined> {
        let known = registers.iter().filter_map(|register| self.registers.get(register));
        let found = known.filter(|known| known.lanes & lanes != 0);
        found
            .copied()
            .reduce(|a, b| Undefined { lanes: a.lanes | b.lanes, ..a })
            .map(|found| Undefined { lanes: found.lanes & lanes, ..found })
    }

    /// What is undefined in these lanes of the operand that each lane selects.
    pub(crate) fn selected(
        &self,
        operands: [Option<Register>; 2],
        lanes: u32,
        first: u32,
    ) -> Option<Undefined> {
        let [a, b] = [(operands[0], first), (operands[1], !first)]
            .map(|(operand, taken)| operand.and_then(|register| self.of(&[register], lanes & taken)));
        match (a, b) {
            (Some(a), Some(b)) => Some(Undefined { lanes: a.lanes | b.lanes, ..a }),
            (a, b) => a.or(b),
        }
    }

    /// Lanes store registers in local memory, or load them. Those of a vector are next to each
    /// other.
    pub(crate) fn access_local(&mut self, instruction: &Instruction, access: &LocalAccess, lanes: u32) {
        let stores = instruction.class == Class::Store;
        let is_base = |register: &Register| instruction.bases.first() == Some(&Base::Register(*register));
        let base = instruction.reads.first().filter(|register| is_base(register)).map_or(0, |_| 1);
        let moved = if stores { &instruction.reads[base..] } else { &instruction.writes };
        let bytes = access.bytes / moved.len().max(1) as u64;
        for (register, index) in moved.iter().zip(0..) {
            let addresses = access.addresses.map(|address| address + index * bytes);
            if stores {
                let value = self.of(&[*register], lanes);
                self.local.store(&addresses, bytes, lanes, value);
            } else {
                let value = self.local.load(&addresses, bytes, lanes);
                self.write(*register, lanes, value);
            }
        }
        if moved.is_empty() {
            self.local.store(&access.addresses, access.bytes, lanes, None);
        }
    }

    /// Lanes write a register; it is undefined in those of `value`.
    pub(crate) fn write(&mut self, register: Register, lanes: u32, value: Option<Undefined>) {
        let kept = self.registers.get(&register).map_or(0, |known| known.lanes & !lanes);
        match (value, self.registers.get_mut(&register)) {
            (Some(value), _) => {
                self.registers.insert(register, Undefined { lanes: kept | value.lanes, ..value });
            }
            (None, Some(_)) if kept == 0 => drop(self.registers.remove(&register)),
            (None, Some(known)) => known.lanes = kept,
            (None, None) => {}
        }
    }

    /// Lanes exit.
    pub(crate) fn exit(&mut self, lanes: u32) {
        self.local.exit(lanes);
        self.registers.retain(|_, known| {
            known.lanes &= !lanes;
            known.lanes != 0
        });
    }
}
