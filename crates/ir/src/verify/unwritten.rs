//! Why a register may have no value where it is read.

use std::fmt;

use crate::access;
use crate::kernel::{Instruction, Kernel, Location, Register, Statement, first_location};

/// A register that is read where not every path has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// The author's position of the fragment that it belongs to, if it belongs to one.
    pub fragment: Option<Location>,
    /// The branch or loop that writes it, if one does.
    pub written_in: Option<Location>,
    /// How the instruction adds to it, if it is the instruction's accumulator.
    pub accumulator: Option<Accumulator>,
}

/// An instruction that adds to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulator {
    /// `mma.sync`, which always adds.
    Always,
    /// `wgmma`, which adds if its predicate says so.
    ByPredicate,
}

impl Unwritten {
    /// What is known of `register`, which `instruction` (or a condition) at `read` reads.
    pub(super) fn of(
        kernel: &Kernel,
        register: Register,
        instruction: Option<&Instruction>,
        read: Location,
    ) -> Self {
        let fragment = fragment_of(kernel, register);
        let adds = instruction.filter(|found| access::writes(found).any(|other| other == register));
        let accumulator = adds.and_then(|found| match found.opcode.split('.').next()? {
            "mma" => Some(Accumulator::Always),
            _ => access::accumulates(found).then_some(Accumulator::ByPredicate),
        });
        Self { fragment, written_in: writer(&kernel.body, register, read), accumulator }
    }
}

/// Where the author made the fragment that a register belongs to.
pub(super) fn fragment_of(kernel: &Kernel, register: Register) -> Option<Location> {
    let holds = |first: Register, count: u32| (first.0..first.0 + count).contains(&register.0);
    kernel.fragments.iter().find(|made| holds(made.first, made.count)).map(|made| made.location)
}

/// The branch or loop before the read of a register that writes it.
fn writer(body: &[Statement], register: Register, read: Location) -> Option<Location> {
    for statement in body {
        let (parts, location): (&[&[Statement]], _) = match statement {
            Statement::Instruction(instruction) if is_read(instruction, register, read) => return None,
            Statement::If { then, otherwise, location, .. } => (&[then, otherwise], Some(*location)),
            Statement::Loop { body, step, location, .. } => (&[body, step], Some(*location)),
            Statement::Block { body, .. } => (&[body], first_location(body)),
            _ => continue,
        };
        if let Some(part) = parts.iter().find(|part| reads(part, register, read)) {
            return writer(part, register, read);
        }
        let mut writes = false;
        parts.iter().for_each(|part| access::for_each_write(part, &mut |other| writes |= other == register));
        if writes {
            return location;
        }
    }
    None
}

fn is_read(instruction: &Instruction, register: Register, read: Location) -> bool {
    instruction.location == read && access::reads(instruction).any(|other| other == register)
}

/// Whether the read is in `body`.
fn reads(body: &[Statement], register: Register, read: Location) -> bool {
    body.iter().any(|statement| match statement {
        Statement::Instruction(instruction) => is_read(instruction, register, read),
        Statement::If { then, otherwise, .. } => {
            reads(then, register, read) || reads(otherwise, register, read)
        }
        Statement::Loop { body, step, .. } => reads(body, register, read) || reads(step, register, read),
        Statement::Block { body, .. } => reads(body, register, read),
        _ => false,
    })
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fragment, written_in, accumulator } = self;
        let what = match (fragment, accumulator) {
            (Some(made), Some(_)) => format!("the accumulator that is made at {made} is added to here"),
            (Some(made), None) => format!("the fragment that is made at {made} is read here"),
            (None, Some(_)) => "an accumulator is added to here".to_owned(),
            (None, None) => "a value is read here".to_owned(),
        };
        match (written_in, fragment, accumulator) {
            (Some(branch), Some(_), _) => write!(
                f,
                "{what}, and only the branch or loop at {branch} writes it: let all threads of the warp execute what writes it, or \
                 `clear()` it before the branch or loop"
            ),
            (Some(branch), None, _) => write!(
                f,
                "{what} that is not assigned on every path to this line; assign it before the branch or loop at {branch}"
            ),
            (None, _, Some(Accumulator::ByPredicate)) => {
                write!(f, "{what}, and nothing has written it: `clear()` it before, or pass `Accumulate::No`")
            }
            (None, _, Some(Accumulator::Always)) => {
                write!(f, "{what}, and nothing has written it: `clear()` it before")
            }
            (None, Some(_), None) => {
                write!(
                    f,
                    "{what}, and nothing has written this part of it: load it, set its elements or `clear()` it before"
                )
            }
            (None, None, None) => {
                write!(f, "{what}, and nothing before this line assigns it; assign it first")
            }
        }
    }
}
