//! Contraction: a product and the sum it is the only operand of become one fused multiply-add.
//!
//! PTX says which operations may be contracted: `add`, `sub` and `mul` of floats that name no
//! rounding (PTX ISA, "Floating Point Instructions"). ptxas would be free to contract them or not;
//! this pass decides, as nvcc does before ptxas, so that a GPU and the emulator compute the same.
//! The operations that it does not contract get `.rn`, which forbids ptxas to contract them.

use rustc_hash::FxHashMap;

use crate::access;
use crate::kernel::{Body, Instruction, Kernel, Location, Operand, Register, RegisterClass, Statement};

/// Contracts products and sums of `kernel` that name no rounding, and makes the others `.rn`.
pub fn contract(kernel: &mut Kernel) {
    let mut mentions = vec![0; kernel.registers.len()];
    access::count_mentions(&kernel.body, &mut mentions);
    let mut pass = Pass { mentions, registers: &mut kernel.registers };
    pass.body(&mut kernel.body);
}

/// The operations that PTX allows to contract.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Subtract,
    Multiply,
}

/// The operation and the type of an instruction that may be contracted.
fn contractible(instruction: &Instruction) -> Option<(Operation, &'static str)> {
    const TYPES: [&str; 6] = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"];
    let (name, ty) = instruction.opcode.split_once('.')?;
    let operation = match name {
        "add" => Operation::Add,
        "sub" => Operation::Subtract,
        "mul" => Operation::Multiply,
        _ => return None,
    };
    Some((operation, TYPES.into_iter().find(|known| *known == ty)?))
}

/// The products of a body that a later sum may take, by their registers.
#[derive(Default)]
struct Products {
    /// The product's statement, by its register.
    statements: FxHashMap<Register, usize>,
    /// The products that have a register as a factor.
    of_factor: FxHashMap<Register, Vec<Register>>,
}

impl Products {
    fn insert(&mut self, product: Register, statement: usize, factors: &[Operand]) {
        self.statements.insert(product, statement);
        for factor in factors.iter().flat_map(access::registers) {
            self.of_factor.entry(factor).or_default().push(product);
        }
    }

    /// A register gets another value: a sum further on cannot take products of it.
    fn forget(&mut self, written: Register) {
        for product in self.of_factor.remove(&written).unwrap_or_default() {
            self.statements.remove(&product);
        }
    }
}

struct Pass<'kernel> {
    /// How often each register occurs: the product of one sum occurs twice.
    mentions: Vec<u32>,
    registers: &'kernel mut Vec<RegisterClass>,
}

impl Pass<'_> {
    fn body(&mut self, body: &mut Body) {
        let mut products = Products::default();
        let mut rewritten: Vec<Option<Statement>> = Vec::with_capacity(body.len());
        for mut statement in std::mem::take(body) {
            match &mut statement {
                Statement::Instruction(instruction) => {
                    if let Some((operation @ (Operation::Add | Operation::Subtract), ty)) =
                        contractible(instruction)
                        && instruction.guard.is_none()
                    {
                        self.sum(instruction, (operation, ty), &products, &mut rewritten);
                    }
                    access::writes(instruction).for_each(|register| products.forget(register));
                    if let (Some((Operation::Multiply, _)), None, [Operand::Register(product), factors @ ..]) =
                        (contractible(instruction), instruction.guard, &instruction.operands[..])
                        && self.mentions[product.0 as usize] == 2
                    {
                        products.insert(*product, rewritten.len(), factors);
                    }
                }
                nested => {
                    access::for_each_write(std::slice::from_ref(nested), &mut |register| {
                        products.forget(register)
                    });
                    match nested {
                        Statement::If { then, otherwise, .. } => {
                            self.body(then);
                            self.body(otherwise);
                        }
                        Statement::Loop { body, step, .. } => {
                            self.body(body);
                            self.body(step);
                        }
                        Statement::Block { body, .. } => self.body(body),
                        _ => {}
                    }
                }
            }
            rewritten.push(Some(statement));
        }
        for statement in rewritten.into_iter().flatten() {
            self.finish(statement, body);
        }
    }

    /// Contracts a sum with the product that it takes, the left one if it takes two.
    fn sum(
        &mut self,
        sum: &mut Instruction,
        (operation, ty): (Operation, &'static str),
        products: &Products,
        before: &mut Vec<Option<Statement>>,
    ) {
        let [_, left, right] = &sum.operands[..] else { return };
        let taken = |operand: &Operand| match operand {
            Operand::Register(register) => products.statements.get(register).copied(),
            _ => None,
        };
        let is_product_of_type = |index: &usize| match &before[*index] {
            Some(Statement::Instruction(product)) => contractible(product).is_some_and(|(_, of)| of == ty),
            _ => false,
        };
        let from_left = taken(left).filter(is_product_of_type);
        let from_right = taken(right).filter(is_product_of_type);
        let (index, other) = match (from_left, from_right) {
            (Some(index), _) => (index, right.clone()),
            (None, Some(index)) => (index, left.clone()),
            (None, None) => return,
        };
        let Some(Statement::Instruction(product)) = before[index].take() else { return };
        let [_, a, b] = <[Operand; 3]>::try_from(product.operands).expect("a product has two factors");
        let (a, b, other) = match (operation, from_left) {
            (Operation::Subtract, Some(_)) => (a, b, self.negated(other, ty, sum.location, before)),
            (Operation::Subtract, None) if matches!(b, Operand::F32(_) | Operand::F64(_)) => {
                (a, self.negated(b, ty, sum.location, before), other)
            }
            (Operation::Subtract, None) => (self.negated(a, ty, sum.location, before), b, other),
            _ => (a, b, other),
        };
        sum.opcode = format!("fma.rn.{ty}").into();
        sum.operands.truncate(1);
        sum.operands.extend([a, b, other]);
    }

    /// `-operand`, which the assembler folds into the instruction that takes it.
    fn negated(
        &mut self,
        operand: Operand,
        ty: &str,
        location: Location,
        before: &mut Vec<Option<Statement>>,
    ) -> Operand {
        match operand {
            Operand::F32(bits) => Operand::F32(bits ^ 1 << 31),
            Operand::F64(bits) => Operand::F64(bits ^ 1 << 63),
            operand => {
                let result = self.fresh(class(ty));
                before.push(Some(instruction(format!("neg.{ty}"), vec![result.clone(), operand], location)));
                result
            }
        }
    }

    fn fresh(&mut self, class: RegisterClass) -> Operand {
        let register = Register(self.registers.len() as u32);
        self.registers.push(class);
        self.mentions.push(0);
        Operand::Register(register)
    }

    /// Appends a statement; a product or a sum that was not contracted becomes `.rn`.
    fn finish(&mut self, mut statement: Statement, body: &mut Body) {
        if let Statement::Instruction(uncontracted) = &mut statement
            && let Some((operation, ty)) = contractible(uncontracted)
        {
            if ty.starts_with("bf16") {
                self.lower_bfloat(uncontracted, operation, ty, body);
            } else {
                uncontracted.opcode = uncontracted.opcode.replacen('.', ".rn.", 1).into();
            }
        }
        body.push(statement);
    }

    /// sm_80 has no bf16 addition or multiplication. Its fused multiply-add computes both, exactly
    /// rounded: `a * 1 + b`, `b * -1 + a`, `a * b + -0`. Later architectures run `add.bf16` at the
    /// same rate.
    fn lower_bfloat(
        &mut self,
        uncontracted: &mut Instruction,
        operation: Operation,
        ty: &str,
        body: &mut Body,
    ) {
        let [destination, a, b] = &uncontracted.operands[..] else { return };
        let bits = match operation {
            Operation::Add => 0x3f80,
            Operation::Subtract => 0xbf80,
            Operation::Multiply => 0x8000,
        };
        let class = class(ty);
        let (word, bits) =
            if class == RegisterClass::B32 { ("b32", bits << 16 | bits) } else { ("b16", bits) };
        let constant = self.fresh(class);
        let operands = match operation {
            Operation::Add => [destination, a, &constant, b],
            Operation::Subtract => [destination, b, &constant, a],
            Operation::Multiply => [destination, a, b, &constant],
        };
        let operands = operands.map(Operand::clone).to_vec();
        let load = vec![constant, Operand::Integer(bits)];
        body.push(instruction(format!("mov.{word}"), load, uncontracted.location));
        uncontracted.opcode = format!("fma.rn.{ty}").into();
        uncontracted.operands = operands;
    }
}

fn class(ty: &str) -> RegisterClass {
    match ty {
        "f16" | "bf16" => RegisterClass::B16,
        "f64" => RegisterClass::B64,
        _ => RegisterClass::B32,
    }
}

fn instruction(opcode: String, operands: Vec<Operand>, location: Location) -> Statement {
    Statement::Instruction(Instruction {
        guard: None,
        opcode: opcode.into(),
        destinations: 1,
        operands,
        location,
    })
}
