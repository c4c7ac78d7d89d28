//! Instructions whose guard the driver's assembler ignores.
//!
//! Seen in the code that ptxas 13.0 makes for sm_90 of each form with a guard, and measured on an H100.

use crate::syntax::{Instruction, Module, Statement};

/// An instruction that changes its destination on a GPU even where its guard is false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredGuard {
    /// The function that it is in.
    pub function: String,
    /// The line of the text, from 1.
    pub line: u32,
    /// The instruction, with its guard.
    pub text: String,
}

/// The instructions of a module whose guard the driver's assembler ignores, in order.
pub fn ignored_guards(module: &Module) -> Vec<IgnoredGuard> {
    let mut found = Vec::new();
    for function in &module.functions {
        for statement in function.body.iter().flatten() {
            visit(statement, &mut |instruction| {
                if instruction.guard.is_some() && is_unguarded(instruction) {
                    found.push(IgnoredGuard {
                        function: function.name.clone(),
                        line: instruction.line,
                        text: instruction.to_string(),
                    });
                }
            });
        }
    }
    found
}

fn visit(statement: &Statement, on: &mut impl FnMut(&Instruction)) {
    match statement {
        Statement::Instruction(instruction) => on(instruction),
        Statement::Block(statements) => statements.iter().for_each(|statement| visit(statement, on)),
        _ => {}
    }
}

/// Whether ptxas makes an unconditional sequence of the instruction, or of its end: the conversion of
/// `set` to a floating type then converts what the destination held.
fn is_unguarded(instruction: &Instruction) -> bool {
    let words: Vec<&str> = instruction.opcode.modifiers().collect();
    match (instruction.opcode.base(), words.as_slice()) {
        ("testp", _) => true,
        ("set", [.., to, from]) => {
            matches!(*to, "f32" | "f16" | "bf16") || matches!(*from, "f16" | "bf16") && !to.ends_with("x2")
        }
        ("vadd4" | "vsub4", ["u32", "u32", "u32", "add"]) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_that_the_assembler_ignores_are_found_in_blocks_and_functions() {
        let text = "
            .version 8.7
            .target sm_90
            .address_size 64
            .func f()
            {
                .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b16 %h<3>;
                { @%p0 testp.finite.f32 %p1, %r0; }
                testp.finite.f32 %p1, %r0;
                @!%p0 set.lt.f32.s32 %r0, %r1, %r2;
                @%p0 set.lt.u32.f32 %r0, %r1, %r2;
                @%p0 set.lt.u32.f16 %r0, %h1, %h2;
                @%p0 set.lt.f16x2.f16x2 %r0, %r1, %r2;
                @%p0 vadd4.u32.u32.u32.add %r0, %r1, %r2, %r3;
                @%p0 vadd4.u32.u32.u32.sat %r0, %r1, %r2, %r3;
                ret;
            }";
        let found = ignored_guards(&crate::parse(text).expect("the module is right"));
        let texts: Vec<_> = found.iter().map(|guard| (guard.line, guard.text.as_str())).collect();
        assert_eq!(
            texts,
            [
                (8, "@%p0 testp.finite.f32 %p1, %r0;"),
                (10, "@!%p0 set.lt.f32.s32 %r0, %r1, %r2;"),
                (12, "@%p0 set.lt.u32.f16 %r0, %h1, %h2;"),
                (14, "@%p0 vadd4.u32.u32.u32.add %r0, %r1, %r2, %r3;"),
            ]
        );
        assert!(found.iter().all(|guard| guard.function == "f"));
    }
}
