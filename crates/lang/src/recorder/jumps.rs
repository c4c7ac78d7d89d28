//! Statements that leave the body they are in.

use warpwright_ir::{Instruction, Label, Statement};

/// Whether an instruction ends its thread.
pub(super) fn ends_thread(instruction: &Instruction) -> bool {
    matches!(instruction.opcode.as_ref(), "exit" | "trap")
}

/// Whether a statement leaves the body before its end; `inside` are the labels of loops and blocks in
/// it.
pub(super) fn leaves(body: &[Statement], inside: &mut Vec<Label>) -> bool {
    body.iter().any(|statement| match statement {
        Statement::Break(label, _) | Statement::Continue(label, _) => !inside.contains(label),
        Statement::Return(_) => true,
        Statement::Instruction(instruction) => ends_thread(instruction),
        Statement::If { then, otherwise, .. } => leaves(then, inside) || leaves(otherwise, inside),
        Statement::Loop { label, body, .. } | Statement::Block { label, body } => {
            inside.push(*label);
            let leaves = leaves(body, inside);
            inside.pop();
            leaves
        }
        _ => false,
    })
}
