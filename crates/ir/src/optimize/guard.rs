//! Turns branches around a few simple instructions into guards on them.
//!
//! Only if it is clearly safe: the instructions compute, load or store, none has a guard of its
//! own, and none changes the condition. A barrier or a shuffle stays in its branch.

use crate::access;
use crate::kernel::{Body, Instruction, Kernel, Register, Statement};

/// The most instructions of both branches together.
const LIMIT: usize = 3;

/// Rewrites the kernel; whether anything changed.
pub(super) fn run(kernel: &mut Kernel) -> bool {
    convert(&mut kernel.body)
}

fn convert(body: &mut Body) -> bool {
    let mut changed = false;
    let mut rewritten = Body::with_capacity(body.len());
    for mut statement in std::mem::take(body) {
        match &mut statement {
            Statement::If { condition, then, otherwise, .. } => {
                changed |= convert(then);
                changed |= convert(otherwise);
                if then.len() + otherwise.len() <= LIMIT
                    && then.iter().chain(&*otherwise).all(|inner| can_guard(inner, *condition))
                {
                    changed = true;
                    rewritten.extend(guarded(std::mem::take(then), *condition, true));
                    rewritten.extend(guarded(std::mem::take(otherwise), *condition, false));
                    continue;
                }
            }
            Statement::Loop { body, step, .. } => {
                changed |= convert(body);
                changed |= convert(step);
            }
            Statement::Block { body, .. } => changed |= convert(body),
            _ => {}
        }
        rewritten.push(statement);
    }
    *body = rewritten;
    changed
}

fn can_guard(statement: &Statement, condition: Register) -> bool {
    let Statement::Instruction(instruction) = statement else { return false };
    let is_memory = ["ld.", "st."].iter().any(|base| instruction.opcode.starts_with(base));
    instruction.guard.is_none()
        && (access::is_pure(instruction) || is_memory)
        && access::writes(instruction).all(|register| register != condition)
}

fn guarded(body: Body, condition: Register, value: bool) -> impl Iterator<Item = Statement> {
    body.into_iter().map(move |statement| match statement {
        Statement::Instruction(instruction) => {
            Statement::Instruction(Instruction { guard: Some((condition, value)), ..instruction })
        }
        other => other,
    })
}
