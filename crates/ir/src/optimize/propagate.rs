//! Copy propagation, and the folding of branches whose condition is known.
//!
//! One walk in execution order carries the known facts about each register: that it equals another
//! register, or a constant. A write ends the facts about the register and about those that equal
//! it. Where paths join, only facts that hold on all of them remain. A loop body starts with the
//! facts that no write in the loop changes.

use rustc_hash::FxHashMap;

use crate::access;
use crate::kernel::{Body, Instruction, Kernel, Operand, Register, Statement};

/// The state at a point; `None` for unreachable code.
type Known = Option<Facts>;

/// Known facts about registers.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// Registers that equal another.
    copies: FxHashMap<Register, Register>,
    /// The registers that may equal each: what to look through when it is written.
    copied_to: FxHashMap<Register, Vec<Register>>,
    /// Registers that hold an integer; of a predicate, 0 or 1.
    integers: FxHashMap<Register, i128>,
}

impl Facts {
    /// A register gets another value.
    fn forget(&mut self, written: Register) {
        self.integers.remove(&written);
        self.copies.remove(&written);
        for copy in self.copied_to.remove(&written).unwrap_or_default() {
            if self.copies.get(&copy) == Some(&written) {
                self.copies.remove(&copy);
            }
        }
    }

    /// A register becomes the same as another.
    fn equate(&mut self, copy: Register, source: Register) {
        self.copies.insert(copy, source);
        self.copied_to.entry(source).or_default().push(copy);
    }

    /// Keeps what `other` knows as well.
    fn meet(&mut self, other: &Self) {
        self.copies.retain(|register, source| other.copies.get(register) == Some(source));
        self.integers.retain(|register, value| other.integers.get(register) == Some(value));
    }
}

/// Rewrites the kernel; whether anything changed.
pub(super) fn run(kernel: &mut Kernel) -> bool {
    let mut walk = Walk { changed: false };
    let body = std::mem::take(&mut kernel.body);
    kernel.body = walk.body(body, &mut Some(Facts::default()));
    walk.changed
}

struct Walk {
    changed: bool,
}

impl Walk {
    fn body(&mut self, body: Body, known: &mut Known) -> Body {
        let mut rewritten = Body::with_capacity(body.len());
        for statement in body {
            self.statement(statement, known, &mut rewritten);
        }
        rewritten
    }

    fn statement(&mut self, statement: Statement, known: &mut Known, into: &mut Body) {
        match statement {
            Statement::Instruction(mut instruction) => {
                self.instruction(&mut instruction, known);
                into.push(Statement::Instruction(instruction));
            }
            Statement::If { mut condition, then, otherwise, location } => {
                let value = known.as_ref().and_then(|known| known.integers.get(&condition));
                if let Some(value) = value.copied() {
                    self.changed = true;
                    let taken = if value != 0 { then } else { otherwise };
                    return into.extend(self.body(taken, known));
                }
                self.replace(&mut condition, known);
                let mut known_then = known.clone();
                let then = self.body(then, &mut known_then);
                let otherwise = self.body(otherwise, known);
                meet(known, known_then);
                into.push(Statement::If { condition, then, otherwise, location });
            }
            Statement::Loop { label, body, step, location } => {
                // What no iteration changes holds before every iteration, before every step, and at
                // every exit.
                forget_written(known, &[&body, &step]);
                let body = self.body(body, &mut known.clone());
                let step = self.body(step, &mut known.clone());
                into.push(Statement::Loop { label, body, step, location });
            }
            Statement::Block { label, body } => {
                let mut inside = known.clone();
                forget_written(known, &[&body]);
                let body = self.body(body, &mut inside);
                into.push(Statement::Block { label, body });
            }
            Statement::Break(..) | Statement::Continue(..) | Statement::Return(_) => {
                *known = None;
                into.push(statement);
            }
            Statement::Print { format, mut arguments, location } => {
                arguments.iter_mut().for_each(|(register, _)| self.replace(register, known));
                into.push(Statement::Print { format, arguments, location });
            }
            Statement::Assert { mut condition, message, location } => {
                self.replace(&mut condition, known);
                into.push(Statement::Assert { condition, message, location });
            }
        }
    }

    fn instruction(&mut self, instruction: &mut Instruction, known: &mut Known) {
        access::for_each_read_mut(instruction, &mut |register| self.replace(register, known));
        let Some(known) = known else { return };
        let copy = access::copy(instruction);
        let integer = integer_result(instruction, known);
        access::writes(instruction).for_each(|register| known.forget(register));
        if let Some((to, from)) = copy.filter(|(to, from)| to != from) {
            known.equate(to, from);
        }
        known.integers.extend(integer);
    }

    fn replace(&mut self, register: &mut Register, known: &Known) {
        if let Some(source) = known.as_ref().and_then(|known| known.copies.get(register)) {
            *register = *source;
            self.changed = true;
        }
    }
}

fn meet(known: &mut Known, other: Known) {
    match (known.as_mut(), other) {
        (Some(known), Some(other)) => known.meet(&other),
        (None, other) => *known = other,
        (Some(_), None) => {}
    }
}

fn forget_written(known: &mut Known, bodies: &[&Body]) {
    let Some(known) = known else { return };
    for body in bodies {
        access::for_each_write(body, &mut |register| known.forget(register));
    }
}

/// The integer that an instruction is known to write: a literal, a copy of one, a comparison of
/// two.
fn integer_result(instruction: &Instruction, known: &Facts) -> Option<(Register, i128)> {
    let integer = |operand: &Operand| match operand {
        Operand::Integer(value) => Some(*value),
        Operand::Register(register) => known.integers.get(register).copied(),
        _ => None,
    };
    if instruction.guard.is_some() {
        return None;
    }
    let (base, rest) = instruction.opcode.split_once('.')?;
    match (base, rest, &instruction.operands[..]) {
        ("mov", "pred" | "u32" | "s32" | "b32" | "u64" | "s64" | "b64", [Operand::Register(to), from]) => {
            Some((*to, integer(from)?))
        }
        ("setp", comparison, [Operand::Register(to), a, b]) => {
            let (comparison, ty) = comparison.split_once('.')?;
            Some((*to, compare(comparison, ty, integer(a)?, integer(b)?)?.into()))
        }
        _ => None,
    }
}

/// The comparison as the hardware does it, on the bits that `ty` keeps.
fn compare(comparison: &str, ty: &str, a: i128, b: i128) -> Option<bool> {
    let narrow: fn(i128) -> i128 = match ty {
        "u32" | "b32" => |value| i128::from(value as u32),
        "s32" => |value| i128::from(value as i32),
        "u64" | "b64" => |value| i128::from(value as u64),
        "s64" => |value| i128::from(value as i64),
        _ => return None,
    };
    let (a, b) = (narrow(a), narrow(b));
    Some(match comparison {
        "eq" => a == b,
        "ne" => a != b,
        "lt" => a < b,
        "le" => a <= b,
        "gt" => a > b,
        "ge" => a >= b,
        _ => return None,
    })
}
