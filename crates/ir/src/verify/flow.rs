//! Checks statements: labels, conditions, names, and that every register is written before it is
//! read.
//!
//! A register is written at a point if every path to the point writes it. One walk in order
//! suffices, since control flow is structured: the paths into a later iteration of a loop have
//! written at least what the path into its first iteration has. So a loop body is checked once,
//! with the state at its entry.

use std::mem::discriminant;

use rustc_hash::{FxHashMap, FxHashSet};
use warpwright_arch::{Capability, instructions};

use super::fault::{Fault, VerifyError};
use super::operand::{Forms, check_instruction};
use super::unwritten::{Unwritten, fragment_of};
use crate::access;
use crate::kernel::{
    Instruction, Kernel, Label, Location, Operand, Register, RegisterClass, Statement, first_location,
};
use crate::register_set::RegisterSet;

/// Registers that are written on every path; `None` for unreachable code.
type Written = Option<RegisterSet>;

/// The state where two paths join.
fn meet(a: Written, b: Written) -> Written {
    match (a, b) {
        (Some(mut a), Some(b)) => {
            a.intersect(&b);
            Some(a)
        }
        (a, b) => a.or(b),
    }
}

/// A loop or block that encloses the current statement.
struct Enclosing {
    label: Label,
    is_loop: bool,
    at_break: Written,
    at_continue: Written,
}

pub(super) struct Walk<'a> {
    kernel: &'a Kernel,
    capability: &'static Capability,
    symbols: &'a FxHashSet<&'a str>,
    enclosing: Vec<Enclosing>,
    /// The forms of each name seen so far.
    forms: FxHashMap<String, Forms>,
    /// For each predicate that has been written, whether that was once, to false: a `wgmma` by it reads
    /// no accumulator.
    known_false: FxHashMap<Register, bool>,
    /// Registers already reported.
    reported: FxHashSet<Register>,
    /// Fragments already reported, by where they are made.
    reported_fragments: FxHashSet<Location>,
    pub(super) errors: Vec<VerifyError>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        capability: &'static Capability,
        symbols: &'a FxHashSet<&'a str>,
    ) -> Self {
        Self {
            kernel,
            capability,
            symbols,
            enclosing: Vec::new(),
            forms: FxHashMap::default(),
            known_false: FxHashMap::default(),
            reported: FxHashSet::default(),
            reported_fragments: FxHashSet::default(),
            errors: Vec::new(),
        }
    }

    pub(super) fn kernel(&mut self) {
        self.body(&self.kernel.body, Some(RegisterSet::empty(self.kernel)));
    }

    /// Reports a fault, once for each line: a line of the author is many instructions.
    fn error(&mut self, location: Location, fault: Fault) {
        let is_same = |known: &Fault| match fault {
            // A line may read several fragments.
            Fault::ReadBeforeWritten(_) => *known == fault,
            _ => discriminant(known) == discriminant(&fault),
        };
        if !self.errors.iter().any(|known| known.location == location && is_same(&known.fault)) {
            self.errors.push(VerifyError { location, fault });
        }
    }

    fn body(&mut self, body: &[Statement], entry: Written) -> Written {
        body.iter().fold(entry, |written, statement| self.statement(statement, written))
    }

    fn statement(&mut self, statement: &Statement, mut written: Written) -> Written {
        match statement {
            Statement::Instruction(instruction) => {
                self.instruction(instruction, &mut written);
                written
            }
            Statement::If { condition, then, otherwise, location } => {
                self.condition(*condition, *location, &written);
                let after_then = self.body(then, written.clone());
                let after_otherwise = self.body(otherwise, written);
                meet(after_then, after_otherwise)
            }
            Statement::Loop { label, body, step, location } => {
                self.enter(*label, true, Some(*location));
                let end = self.body(body, written);
                let at_continue = self.enclosing.last_mut().and_then(|own| own.at_continue.take());
                self.body(step, meet(end, at_continue));
                self.enclosing.pop().and_then(|own| own.at_break)
            }
            Statement::Block { label, body } => {
                self.enter(*label, false, first_location(body));
                let end = self.body(body, written);
                meet(end, self.enclosing.pop().and_then(|own| own.at_break))
            }
            Statement::Break(label, location) => {
                self.leave(*label, *location, written, false);
                None
            }
            Statement::Continue(label, location) => {
                self.leave(*label, *location, written, true);
                None
            }
            Statement::Return(_) => None,
            Statement::Print { format, arguments, location } => {
                self.print(format, arguments, *location, &written);
                written
            }
            Statement::Assert { condition, location, .. } => {
                self.condition(*condition, *location, &written);
                written
            }
        }
    }

    fn enter(&mut self, label: Label, is_loop: bool, location: Option<Location>) {
        if let Some(location) = location
            && self.enclosing.iter().any(|open| open.label == label)
        {
            self.error(location, Fault::NestedLabel);
        }
        self.enclosing.push(Enclosing { label, is_loop, at_break: None, at_continue: None });
    }

    fn leave(&mut self, label: Label, location: Location, written: Written, is_continue: bool) {
        let Some(target) = self.enclosing.iter_mut().rev().find(|open| open.label == label) else {
            return self.error(location, Fault::UnknownLabel);
        };
        if !is_continue {
            target.at_break = meet(target.at_break.take(), written);
        } else if target.is_loop {
            target.at_continue = meet(target.at_continue.take(), written);
        } else {
            self.error(location, Fault::ContinueOutsideLoop);
        }
    }

    fn instruction(&mut self, instruction: &Instruction, written: &mut Written) {
        let location = instruction.location;
        let mut is_sound = true;
        for register in access::mentioned(instruction) {
            is_sound &= self.declared(register, location);
        }
        is_sound &= self.known_symbols(&instruction.operands, location);
        if !is_sound {
            return;
        }
        if let Some((guard, _)) = instruction.guard {
            self.condition(guard, location, written);
        }
        if !self.forms.contains_key(&*instruction.opcode) {
            self.forms.insert(instruction.opcode.to_string(), instructions::forms_of(&instruction.opcode));
        }
        let forms = &self.forms[&*instruction.opcode];
        if let Err(fault) = check_instruction(self.kernel, instruction, forms, self.capability) {
            self.error(location, fault);
        }
        let overwritten = if self.overwrites(instruction) { instruction.destinations } else { 0 };
        let overwritten: Vec<_> =
            instruction.operands[..overwritten].iter().flat_map(access::registers).collect();
        for register in access::reads(instruction).filter(|register| !overwritten.contains(register)) {
            self.read(register, Some(instruction), location, written);
        }
        if let Some(written) = written {
            access::writes(instruction).for_each(|register| written.insert(register));
        }
        self.note_predicates(instruction);
    }

    /// Whether a `wgmma` does not read its accumulator: its predicate is known to be false. PTX ISA,
    /// "wgmma.mma_async", scale-d.
    fn overwrites(&self, instruction: &Instruction) -> bool {
        access::accumulates(instruction)
            && instruction.operands.iter().any(|operand| match operand {
                Operand::Register(register) => self.known_false.get(register) == Some(&true),
                _ => false,
            })
    }

    /// Notes which predicates hold false. One that a loop assigns later has been false when the `wgmma`
    /// first ran, which wrote the accumulator.
    fn note_predicates(&mut self, instruction: &Instruction) {
        let is_false = instruction.opcode == "mov.pred"
            && instruction.guard.is_none()
            && matches!(instruction.operands[..], [_, Operand::Integer(0)]);
        for register in access::writes(instruction) {
            if self.kernel.registers[register.0 as usize] == RegisterClass::Predicate {
                self.known_false.entry(register).and_modify(|known| *known = false).or_insert(is_false);
            }
        }
    }

    fn declared(&mut self, register: Register, location: Location) -> bool {
        let is_declared = (register.0 as usize) < self.kernel.registers.len();
        if !is_declared {
            self.error(location, Fault::UnknownRegister(register.0));
        }
        is_declared
    }

    fn known_symbols(&mut self, operands: &[Operand], location: Location) -> bool {
        let mut all_known = true;
        for operand in operands {
            match operand {
                Operand::Symbol(name) if !self.symbols.contains(name.as_str()) => {
                    self.error(location, Fault::UnknownSymbol(name.clone()));
                    all_known = false;
                }
                Operand::Address { base, rest, .. } => {
                    all_known &= self.known_symbols(std::slice::from_ref(base), location);
                    all_known &= self.known_symbols(rest, location);
                }
                Operand::Vector(elements) => all_known &= self.known_symbols(elements, location),
                _ => {}
            }
        }
        all_known
    }

    /// Reports a register that is not written on every path, each fragment once.
    fn read(
        &mut self,
        register: Register,
        instruction: Option<&Instruction>,
        location: Location,
        written: &Written,
    ) {
        let Some(written) = written else { return };
        if written.contains(register) || !self.reported.insert(register) {
            return;
        }
        let fragment = fragment_of(self.kernel, register);
        if fragment.is_some_and(|fragment| !self.reported_fragments.insert(fragment)) {
            return;
        }
        let unwritten = Unwritten::of(self.kernel, register, instruction, location);
        self.error(location, Fault::ReadBeforeWritten(unwritten));
    }

    fn condition(&mut self, register: Register, location: Location, written: &Written) {
        if !self.declared(register, location) {
            return;
        }
        let class = self.kernel.registers[register.0 as usize];
        if class != RegisterClass::Predicate {
            self.error(location, Fault::NotAPredicate(class));
        }
        self.read(register, None, location, written);
    }

    fn print(&mut self, format: &str, arguments: &[(Register, bool)], location: Location, written: &Written) {
        for (register, _) in arguments {
            if !self.declared(*register, location) {
                continue;
            }
            let class = self.kernel.registers[register.0 as usize];
            if !matches!(class, RegisterClass::B32 | RegisterClass::B64) {
                self.error(location, Fault::PrintArgument(class));
            }
            self.read(*register, None, location, written);
        }
        let conversions = format.matches('%').count() - 2 * format.matches("%%").count();
        // A `*` may take a width from the values: such strings are left alone.
        if !format.contains('*') && conversions != arguments.len() {
            self.error(location, Fault::PrintCount { conversions, arguments: arguments.len() });
        }
    }
}
