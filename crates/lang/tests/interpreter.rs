//! A tiny interpreter of the IR's scalar instructions, to compare staged kernels with the Rust they
//! were written as.

use std::collections::HashMap;

use warpwright_ir::{Body, Instruction, Kernel, Label, Operand, Register, Statement};

/// How a body was left.
#[derive(PartialEq)]
enum Exit {
    End,
    Break(Label),
    Continue(Label),
    Return,
}

/// One thread running a kernel.
pub struct Thread<'kernel> {
    registers: HashMap<Register, u64>,
    parameters: HashMap<&'kernel str, u64>,
    /// Global memory, by byte address; all accesses are of 4 bytes.
    memory: HashMap<u64, u64>,
    trace: Vec<u64>,
    fuel: u64,
}

/// The opcode that appends a register to the trace.
pub const OUT: &str = "out";

/// Runs one thread of `kernel` on `arguments` and global memory; what it put out, and the memory.
pub fn run(kernel: &Kernel, arguments: &[u64], memory: HashMap<u64, u64>) -> (Vec<u64>, HashMap<u64, u64>) {
    let parameters =
        kernel.parameters.iter().map(|parameter| parameter.name.as_str()).zip(arguments.iter().copied());
    let mut thread = Thread {
        registers: HashMap::new(),
        parameters: parameters.collect(),
        memory,
        trace: Vec::new(),
        fuel: 1_000_000,
    };
    thread.body(&kernel.body);
    (thread.trace, thread.memory)
}

impl Thread<'_> {
    fn body(&mut self, body: &Body) -> Exit {
        for statement in body {
            let exit = self.statement(statement);
            if exit != Exit::End {
                return exit;
            }
        }
        Exit::End
    }

    fn statement(&mut self, statement: &Statement) -> Exit {
        self.fuel = self.fuel.checked_sub(1).expect("the kernel does not end");
        match statement {
            Statement::Instruction(instruction) => {
                self.instruction(instruction);
                Exit::End
            }
            Statement::If { condition, then, otherwise, .. } => {
                let taken = if self.register(*condition) != 0 { then } else { otherwise };
                self.body(taken)
            }
            Statement::Loop { label, body, step, .. } => loop {
                self.fuel = self.fuel.checked_sub(1).expect("the kernel does not end");
                match self.body(body) {
                    Exit::Break(to) if to == *label => return Exit::End,
                    Exit::Continue(to) if to == *label => {}
                    Exit::End => {}
                    other => return other,
                }
                match self.body(step) {
                    Exit::End => {}
                    Exit::Break(to) if to == *label => return Exit::End,
                    other => return other,
                }
            },
            Statement::Block { label, body } => match self.body(body) {
                Exit::Break(to) if to == *label => Exit::End,
                other => other,
            },
            Statement::Break(label, _) => Exit::Break(*label),
            Statement::Continue(label, _) => Exit::Continue(*label),
            Statement::Return(_) => Exit::Return,
            Statement::Print { .. } | Statement::Assert { .. } => Exit::End,
        }
    }

    fn register(&self, register: Register) -> u64 {
        *self.registers.get(&register).unwrap_or_else(|| panic!("{register:?} is read before it is written"))
    }

    fn operand(&self, operand: &Operand) -> u64 {
        match operand {
            Operand::Register(register) => self.register(*register),
            Operand::Not(register) => u64::from(self.register(*register) == 0),
            Operand::Integer(value) => *value as u64,
            Operand::F32(bits) => u64::from(*bits),
            Operand::F64(bits) => *bits,
            Operand::Address { base, offset, .. } => self.operand(base).wrapping_add_signed(*offset),
            Operand::Symbol(name) => self.parameters[name.as_str()],
            other => panic!("the interpreter has no {other:?}"),
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        if let Some((register, wanted)) = instruction.guard
            && (self.register(register) != 0) != wanted
        {
            return;
        }
        let sources: Vec<u64> = instruction.operands[instruction.destinations..]
            .iter()
            .map(|operand| self.operand(operand))
            .collect();
        if instruction.opcode == OUT {
            return self.trace.extend(sources);
        }
        if instruction.opcode.starts_with("st.global") {
            self.memory.insert(sources[0], sources[1]);
            return;
        }
        let Operand::Register(destination) = instruction.operands[0] else { panic!("{instruction:?}") };
        let value = if instruction.opcode.starts_with("ld.global") {
            self.memory[&sources[0]]
        } else {
            evaluate(&instruction.opcode, &sources)
        };
        self.registers.insert(destination, value);
    }
}

fn evaluate(opcode: &str, sources: &[u64]) -> u64 {
    let words: Vec<&str> = opcode.split('.').collect();
    let ty = words[words.len() - 1];
    let (a, b, c) = (
        sources.first().copied().unwrap_or_default(),
        sources.get(1).copied().unwrap_or_default(),
        sources.get(2).copied().unwrap_or_default(),
    );
    match words[0] {
        "ld" | "mov" | "cvta" => truncate(ty, a),
        "setp" => u64::from(compare(words[1], ty, a, b)),
        "selp" => truncate(ty, if c != 0 { a } else { b }),
        "not" if ty == "pred" => u64::from(a == 0),
        "and" if ty == "pred" => u64::from(a != 0 && b != 0),
        "or" if ty == "pred" => u64::from(a != 0 || b != 0),
        "xor" if ty == "pred" => u64::from((a != 0) != (b != 0)),
        "and" => truncate(ty, a & b),
        "or" => truncate(ty, a | b),
        "xor" => truncate(ty, a ^ b),
        "not" => truncate(ty, !a),
        "mad" if words[1] == "wide" => (extend(ty, a) * extend(ty, b)) as u64 + c,
        "shl" => truncate(ty, a.checked_shl(b as u32).unwrap_or(0)),
        "cvt" => convert(words[words.len() - 2], ty, a),
        operation => match ty {
            "f32" => {
                let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
                let c = f32::from_bits(c as u32);
                u64::from(
                    match operation {
                        "add" => a + b,
                        "sub" => a - b,
                        "mul" => a * b,
                        "div" => a / b,
                        "neg" => -a,
                        "fma" | "mad" => a.mul_add(b, c),
                        _ => panic!("the interpreter has no {opcode}"),
                    }
                    .to_bits(),
                )
            }
            _ => truncate(ty, integer(opcode, operation, extend(ty, a), extend(ty, b), extend(ty, c))),
        },
    }
}

fn integer(opcode: &str, operation: &str, a: i128, b: i128, c: i128) -> u64 {
    (match operation {
        "add" => a + b,
        "sub" => a - b,
        "mul" => a * b,
        "mad" => a * b + c,
        "div" => a.checked_div(b).unwrap_or(-1),
        "rem" => a.checked_rem(b).unwrap_or(a),
        "neg" => -a,
        "min" => a.min(b),
        "max" => a.max(b),
        "shr" => a >> b.min(127),
        _ => panic!("the interpreter has no {opcode}"),
    }) as u64
}

fn bits(ty: &str) -> u32 {
    ty[1..].parse().unwrap_or(64)
}

fn truncate(ty: &str, value: u64) -> u64 {
    if ty == "pred" {
        return u64::from(value != 0);
    }
    match bits(ty) {
        64 => value,
        bits => value & ((1 << bits) - 1),
    }
}

fn extend(ty: &str, value: u64) -> i128 {
    let unused = 64 - bits(ty);
    if ty.starts_with('s') {
        i128::from((value << unused) as i64 >> unused)
    } else {
        i128::from(truncate(ty, value))
    }
}

fn compare(relation: &str, ty: &str, a: u64, b: u64) -> bool {
    let order = match ty {
        "f32" => f32::from_bits(a as u32).partial_cmp(&f32::from_bits(b as u32)),
        _ => extend(ty, a).partial_cmp(&extend(ty, b)),
    };
    match relation {
        "eq" => order.is_some_and(|order| order.is_eq()),
        "ne" => order.is_some_and(|order| order.is_ne()),
        "neu" => order.is_none_or(|order| order.is_ne()),
        "lt" => order.is_some_and(|order| order.is_lt()),
        "le" => order.is_some_and(|order| order.is_le()),
        "gt" => order.is_some_and(|order| order.is_gt()),
        "ge" => order.is_some_and(|order| order.is_ge()),
        _ => panic!("the interpreter has no setp.{relation}"),
    }
}

fn convert(to: &str, from: &str, value: u64) -> u64 {
    match (to, from) {
        ("f32", "f32") => value,
        ("f32", _) => u64::from((extend(from, value) as f32).to_bits()),
        (_, "f32") => {
            let value = f32::from_bits(value as u32);
            let wide = value as i128;
            let (low, high) = if to.starts_with('s') {
                (-(1i128 << (bits(to) - 1)), (1i128 << (bits(to) - 1)) - 1)
            } else {
                (0, (1i128 << bits(to)) - 1)
            };
            truncate(to, wide.clamp(low, high) as u64)
        }
        _ => truncate(to, extend(from, value) as u64),
    }
}
