//! Registers as variables.
//!
//! A handle is a value: in straight-line code an assignment replaces the handle in the author's
//! variable, and no other handle changes. Only where paths join must several assignments write one
//! register. Therefore, before a device-time `if` or loop that assigns a variable, the variable
//! gets a register of its own, which is written in place while that `if` or loop is open.

use warpwright_ir::{Instruction, Location, Operand, Register, RegisterClass, Statement};

use super::{Recorder, RegionId};

/// How a variable's register may be written.
enum Writing {
    /// The variable belongs to the innermost region: a new handle does.
    Replace,
    /// It has a register of its own.
    InPlace,
    /// It needs a register of its own from before the region at this depth.
    OwnBefore(usize),
    /// A loop has begun that did not expect the assignment.
    Unknown(usize),
}

impl Recorder {
    /// The value of `register` at this moment, in a register that is never written again.
    pub(crate) fn snapshot(&mut self, register: Register, location: Location) -> Register {
        if self.is_variable(register) { self.copy(register, location) } else { register }
    }

    /// A register for a new variable of the innermost region that begins with the value of
    /// `register`.
    pub(crate) fn declare(&mut self, register: Register, location: Location) -> Register {
        let is_here = self.depth(self.home(register)) == Some(self.regions.len() - 1);
        if is_here && !self.is_variable(register) { register } else { self.copy(register, location) }
    }

    /// Assigns `value` to the variable that holds `place`; returns what it holds from now on.
    pub(crate) fn assign(&mut self, place: Register, value: Register, location: Location) -> Register {
        let own = match self.writing(place) {
            Writing::Replace => return self.declare(value, location),
            Writing::InPlace => place,
            Writing::OwnBefore(depth) => self.own_before(depth, place, location),
            Writing::Unknown(depth) => {
                let begin = self.regions[depth].location;
                self.error_with_notes(
                    location,
                    "the device-time loop cannot carry this assignment to its next iteration: assign to a \
                     variable declared with `let mut` before the loop, whose type is made of device values \
                     (`#[derive(DeviceValue)]` on a struct), in the loop's own text or through `&mut` to a \
                     #[device] function",
                    vec![(begin, "the device-time loop begins here".to_owned())],
                );
                return value;
            }
        };
        self.mov(own, value, location);
        own
    }

    /// Gives the variable that holds `place` a register of its own, for a loop that is about to
    /// open as `region`.
    pub(crate) fn carry(&mut self, place: Register, region: RegionId, location: Location) -> Register {
        match self.writing(place) {
            Writing::Replace => {
                let own = self.copy(place, location);
                self.write_in(own, region);
                own
            }
            Writing::InPlace | Writing::Unknown(_) => place,
            Writing::OwnBefore(depth) => self.own_before(depth, place, location),
        }
    }

    /// A register around `region` (a loop or a block) that begins as `value` and that each exit of
    /// `region` writes.
    pub(crate) fn result_of(&mut self, region: RegionId, value: Register, location: Location) -> Register {
        let home = self.around(region);
        let result = self.fresh_in(self.class(value), home);
        self.write_in(result, region);
        self.mov(result, value, location);
        result
    }

    fn is_variable(&self, register: Register) -> bool {
        let written_for = self.number(register).and_then(|number| self.written_for[number]);
        written_for.is_some_and(|region| self.is_open(region))
    }

    /// Makes a register of this kernel a variable while `region` is open.
    fn write_in(&mut self, register: Register, region: RegionId) {
        if let Some(number) = self.number(register) {
            self.written_for[number] = Some(region);
        }
    }

    fn writing(&self, place: Register) -> Writing {
        if self.is_variable(place) {
            return Writing::InPlace;
        }
        // A value from a closed region has been reported where it was used.
        let Some(home) = self.depth(self.home(place)) else { return Writing::Replace };
        let since = &self.regions[home + 1..];
        match since.iter().position(|region| region.is_loop()) {
            _ if since.is_empty() => Writing::Replace,
            Some(at) => Writing::Unknown(home + 1 + at),
            None => Writing::OwnBefore(home + 1),
        }
    }

    fn own_before(&mut self, depth: usize, place: Register, location: Location) -> Register {
        let (home, region) = (self.regions[depth - 1].id, self.regions[depth].id);
        let own = self.fresh_in(self.class(place), home);
        self.write_in(own, region);
        let initialize = self.mov_statement(own, place, location);
        self.regions[depth - 1].body.push(initialize);
        own
    }

    fn copy(&mut self, register: Register, location: Location) -> Register {
        let copy = self.fresh(self.class(register));
        self.facts.copies.insert(copy, register);
        self.mov(copy, register, location);
        copy
    }

    fn mov(&mut self, destination: Register, source: Register, location: Location) {
        self.check_register_alive(source, location);
        let statement = self.mov_statement(destination, source, location);
        self.push(statement);
    }

    fn mov_statement(&self, destination: Register, source: Register, location: Location) -> Statement {
        Statement::Instruction(Instruction {
            guard: None,
            opcode: mov_opcode(self.class(destination)).into(),
            destinations: 1,
            operands: vec![Operand::Register(destination), Operand::Register(source)],
            location,
        })
    }
}

fn mov_opcode(class: RegisterClass) -> &'static str {
    match class {
        RegisterClass::Predicate => "mov.pred",
        RegisterClass::B16 => "mov.b16",
        RegisterClass::B32 => "mov.b32",
        RegisterClass::B64 => "mov.b64",
        RegisterClass::B128 => "mov.b128",
    }
}
