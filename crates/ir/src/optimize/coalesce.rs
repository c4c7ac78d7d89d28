//! Writes a result straight into the variable it is assigned to: `op t; mov x, t` becomes `op x`.
//!
//! `t` must not occur anywhere else in the kernel. Only instructions that do not mention `x` may be
//! between the two, so that writing `x` early makes no difference and no branch leaves in between.
//! A wait for the tensor cores must not be between them either, since they may read `x` until it.

use crate::access;
use crate::kernel::{Body, Instruction, Kernel, Register, Statement};

/// How many instructions before a `mov` are searched for the one that computes its source.
const REACH: usize = 32;

/// Rewrites the kernel; whether anything changed.
pub(super) fn run(kernel: &mut Kernel) -> bool {
    let mut mentions = vec![0u32; kernel.registers.len()];
    access::count_mentions(&kernel.body, &mut mentions);
    let Kernel { body, registers, .. } = kernel;
    let is_alike = |a: Register, b: Register| registers[a.0 as usize] == registers[b.0 as usize];
    coalesce(body, &mentions, &is_alike)
}

fn coalesce(body: &mut Body, mentions: &[u32], is_alike: &dyn Fn(Register, Register) -> bool) -> bool {
    let mut changed = false;
    let mut kept = Body::with_capacity(body.len());
    for mut statement in std::mem::take(body) {
        match &mut statement {
            Statement::Instruction(instruction) => {
                if let Some((variable, temporary)) = access::copy(instruction)
                    && variable != temporary
                    && mentions[temporary.0 as usize] == 2
                    && is_alike(variable, temporary)
                    && let Some(source) = computation(&kept, temporary, variable)
                {
                    rename(&mut kept[source], temporary, variable);
                    changed = true;
                    continue;
                }
            }
            Statement::If { then, otherwise, .. } => {
                changed |= coalesce(then, mentions, is_alike);
                changed |= coalesce(otherwise, mentions, is_alike);
            }
            Statement::Loop { body, step, .. } => {
                changed |= coalesce(body, mentions, is_alike);
                changed |= coalesce(step, mentions, is_alike);
            }
            Statement::Block { body, .. } => changed |= coalesce(body, mentions, is_alike),
            _ => {}
        }
        kept.push(statement);
    }
    *body = kept;
    changed
}

/// The instruction among `before` that writes `temporary`, if `variable` can replace it there.
fn computation(before: &[Statement], temporary: Register, variable: Register) -> Option<usize> {
    for (index, statement) in before.iter().enumerate().rev().take(REACH) {
        let Statement::Instruction(instruction) = statement else { return None };
        if access::writes(instruction).any(|written| written == temporary) {
            let is_alone = access::writes(instruction).all(|written| written != variable);
            let can_rename = instruction.guard.is_none() && !access::accumulates(instruction) && is_alone;
            return can_rename.then_some(index);
        }
        let mentions_variable = access::mentioned(instruction).any(|register| register == variable)
            || instruction.guard.is_some_and(|(guard, _)| guard == variable);
        if mentions_variable || access::ends_late_reads(instruction) {
            return None;
        }
    }
    None
}

fn rename(statement: &mut Statement, from: Register, to: Register) {
    let Statement::Instruction(Instruction { operands, destinations, .. }) = statement else { return };
    for operand in operands.iter_mut().take(*destinations) {
        access::for_each_register_mut(operand, &mut |register| {
            if *register == from {
                *register = to;
            }
        });
    }
}
