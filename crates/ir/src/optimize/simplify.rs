//! Strength reduction of integer arithmetic with a constant operand.
//!
//! ptxas divides by a literal as by any number, with a reciprocal and corrections (seen in the SASS
//! that ptxas 13.0 makes for sm_90a): a shift, a mask or a multiplication is a fraction of it. What
//! adds zero or multiplies by one is a move.

use crate::kernel::{Body, Instruction, Kernel, Operand, Register, RegisterClass, Statement};

/// Rewrites the kernel; whether anything changed.
pub(super) fn run(kernel: &mut Kernel) -> bool {
    let mut pass = Pass { registers: &mut kernel.registers, changed: false };
    let body = std::mem::take(&mut kernel.body);
    kernel.body = pass.body(body);
    pass.changed
}

struct Pass<'kernel> {
    registers: &'kernel mut Vec<RegisterClass>,
    changed: bool,
}

impl Pass<'_> {
    fn body(&mut self, body: Body) -> Body {
        let mut rewritten = Body::with_capacity(body.len());
        for statement in body {
            match statement {
                Statement::Instruction(instruction) => self.instruction(instruction, &mut rewritten),
                Statement::If { condition, then, otherwise, location } => {
                    let (then, otherwise) = (self.body(then), self.body(otherwise));
                    rewritten.push(Statement::If { condition, then, otherwise, location });
                }
                Statement::Loop { label, body, step, location } => {
                    let (body, step) = (self.body(body), self.body(step));
                    rewritten.push(Statement::Loop { label, body, step, location });
                }
                Statement::Block { label, body } => {
                    rewritten.push(Statement::Block { label, body: self.body(body) });
                }
                other => rewritten.push(other),
            }
        }
        rewritten
    }

    fn instruction(&mut self, instruction: Instruction, into: &mut Body) {
        match self.simpler(&instruction) {
            Some(simpler) => {
                self.changed = true;
                into.extend(simpler.into_iter().map(Statement::Instruction));
            }
            None => into.push(Statement::Instruction(instruction)),
        }
    }

    /// A cheaper replacement of the instruction, if one exists.
    fn simpler(&mut self, instruction: &Instruction) -> Option<Vec<Instruction>> {
        if !instruction.operands.iter().any(|operand| matches!(operand, Operand::Integer(_))) {
            return None;
        }
        let words: Vec<&str> = instruction.opcode.split('.').collect();
        let operands = instruction.operands.as_slice();
        let with = |opcode: String, operands: Vec<Operand>| Instruction {
            opcode: opcode.into(),
            operands,
            ..instruction.clone()
        };
        let one = |opcode: String, operands: Vec<Operand>| Some(vec![with(opcode, operands)]);
        let (&base, &ty) = (words.first()?, words.last()?);
        let bits = integer_bits(ty)?;
        let copy = |to: &Operand, from: &Operand| one(format!("mov.b{bits}"), vec![to.clone(), from.clone()]);
        match (base, words.len(), operands) {
            ("add" | "sub" | "or" | "xor" | "shl" | "shr", 2, [to, a, Operand::Integer(0)]) => copy(to, a),
            ("add" | "or" | "xor", 2, [to, Operand::Integer(0), b]) => copy(to, b),
            ("mul", 3, [to, a, Operand::Integer(1)]) if words[1] == "lo" => copy(to, a),
            ("mul", 3, [to, _, zero @ Operand::Integer(0)]) if words[1] == "lo" => copy(to, zero),
            ("mad", 3, [to, a, Operand::Integer(1), c]) if words[1] == "lo" => {
                one(format!("add.{ty}"), vec![to.clone(), a.clone(), c.clone()])
            }
            ("mad", 3, [to, _, Operand::Integer(0), c]) if words[1] == "lo" => copy(to, c),
            ("div", 2, [to, a, Operand::Integer(1)]) => copy(to, a),
            ("div", 2, [to, a, Operand::Integer(divisor)]) if ty.starts_with('u') => {
                match power_of_two(*divisor) {
                    Some(log) => one(format!("shr.{ty}"), vec![to.clone(), a.clone(), Operand::Integer(log)]),
                    None if bits == 32 => {
                        let (factor, shift) = reciprocal(*divisor)?;
                        Some(quotient(&with, to, a, factor, shift))
                    }
                    None => None,
                }
            }
            ("rem", 2, [to, a, Operand::Integer(divisor)]) if ty.starts_with('u') => {
                match power_of_two(*divisor) {
                    Some(_) => {
                        let mask = Operand::Integer(divisor - 1);
                        one(format!("and.b{bits}"), vec![to.clone(), a.clone(), mask])
                    }
                    None if bits == 32 => {
                        let (factor, shift) = reciprocal(*divisor)?;
                        let whole = Operand::Register(self.fresh(RegisterClass::B32));
                        let mut steps = quotient(&with, &whole, a, factor, shift);
                        let operands = vec![whole.clone(), whole.clone(), Operand::Integer(*divisor)];
                        steps.push(with("mul.lo.u32".to_owned(), operands));
                        steps.push(with("sub.u32".to_owned(), vec![to.clone(), a.clone(), whole]));
                        Some(steps)
                    }
                    None => None,
                }
            }
            _ => None,
        }
    }

    fn fresh(&mut self, class: RegisterClass) -> Register {
        self.registers.push(class);
        Register(self.registers.len() as u32 - 1)
    }
}

/// `a * factor >> (32 + shift)`.
fn quotient(
    with: &impl Fn(String, Vec<Operand>) -> Instruction,
    to: &Operand,
    a: &Operand,
    factor: i128,
    shift: i128,
) -> Vec<Instruction> {
    let high = with("mul.hi.u32".to_owned(), vec![to.clone(), a.clone(), Operand::Integer(factor)]);
    let mut steps = vec![high];
    if shift > 0 {
        steps.push(with("shr.u32".to_owned(), vec![to.clone(), to.clone(), Operand::Integer(shift)]));
    }
    steps
}

/// The width of an integer type that fills its register.
fn integer_bits(ty: &str) -> Option<u32> {
    matches!(ty, "u32" | "s32" | "b32" | "u64" | "s64" | "b64").then(|| ty[1..].parse().ok()).flatten()
}

fn power_of_two(value: i128) -> Option<i128> {
    (value > 0 && value & (value - 1) == 0).then(|| i128::from(value.trailing_zeros()))
}

/// (factor, shift) such that `n / divisor == (n * factor) >> (32 + shift)` for every 32-bit `n`, if
/// the factor has 32 bits.
///
/// The factor is `2^(32 + shift) / divisor` rounded up; the quotient is exact when rounding added
/// at most `2^shift` to `factor * divisor` (Granlund and Montgomery, "Division by Invariant
/// Integers using Multiplication").
fn reciprocal(divisor: i128) -> Option<(i128, i128)> {
    if !(3..1 << 32).contains(&divisor) {
        return None;
    }
    (0..32).find_map(|shift| {
        let power = 1i128 << (32 + shift);
        let factor = (power + divisor - 1) / divisor;
        (factor < 1 << 32 && factor * divisor - power <= 1 << shift).then_some((factor, shift))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide_exactly() {
        let mut found = 0;
        for divisor in (3..2000).chain([65_535, 65_537, 1_000_003, u32::MAX.into()]) {
            let Some((factor, shift)) = reciprocal(divisor) else { continue };
            found += 1;
            let near = |multiple: i128| [multiple - 1, multiple, multiple + 1];
            let last = i128::from(u32::MAX) / divisor * divisor;
            let numbers = [0, divisor, divisor * 2, last, last - divisor].into_iter().flat_map(near);
            for number in numbers.chain([i128::from(u32::MAX), 1 << 31]) {
                if (0..1 << 32).contains(&number) {
                    assert_eq!((number * factor) >> (32 + shift), number / divisor, "{number} / {divisor}");
                }
            }
        }
        assert!(found > 1000, "most divisors have a reciprocal of 32 bits");
    }
}
