//! Registers whose value is undefined, because a shuffle took it from a lane that does not take part,
//! or a load took it from shared memory that nothing has written.

use std::collections::HashMap;

use warpwright_events::Register;

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
    /// Loads of unwritten shared memory, and their lanes, until the report of their execution.
    pub(crate) unwritten_loads: Vec<(u32, u32)>,
}

impl UndefinedRegisters {
    pub(crate) fn is_empty(&self) -> bool {
        self.registers.is_empty() && self.unwritten_loads.is_empty()
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
        self.registers.retain(|_, known| {
            known.lanes &= !lanes;
            known.lanes != 0
        });
    }
}
