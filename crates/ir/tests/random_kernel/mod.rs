//! Random small kernels, and an interpreter for them: what a pass or the writer must not change.

#![allow(dead_code)] // each test uses its part

use std::borrow::Cow;

use proptest::prelude::*;
use warpwright_ir::{
    Body, Instruction, Kernel, Label, Location, Operand, Register, RegisterClass, Statement,
};

/// 32-bit registers of a random kernel: numbers 0 to 5.
const WORDS: u32 = 6;
/// Predicates of a random kernel: the numbers after the words.
const PREDICATES: u32 = 3;
/// Loop rounds after which an interpreter stops. No pass changes how many rounds there are.
pub(crate) const ROUNDS: usize = 40;

/// A kernel before its labels are known to be in scope.
#[derive(Clone, Debug)]
pub(crate) enum Sketch {
    Operation { kind: u8, to: u8, from: [u8; 2], guard: Option<(u8, bool)> },
    Store(u8),
    If(u8, Vec<Sketch>, Vec<Sketch>),
    Loop(Vec<Sketch>, Vec<Sketch>),
    Block(Vec<Sketch>),
    Break(u8),
    Continue(u8),
    Return,
}

fn operation() -> impl Strategy<Value = Sketch> {
    let guard = prop_oneof![4 => Just(None), 1 => any::<(u8, bool)>().prop_map(Some)];
    (any::<u8>(), any::<u8>(), any::<[u8; 2]>(), guard)
        .prop_map(|(kind, to, from, guard)| Sketch::Operation { kind, to, from, guard })
}

fn sketches() -> impl Strategy<Value = Vec<Sketch>> {
    let leaf = prop_oneof![
        10 => operation(),
        3 => any::<u8>().prop_map(Sketch::Store),
        2 => any::<u8>().prop_map(Sketch::Break),
        1 => any::<u8>().prop_map(Sketch::Continue),
        1 => Just(Sketch::Return),
    ];
    let statement = leaf.prop_recursive(4, 48, 6, |inner| {
        let body = || prop::collection::vec(inner.clone(), 0..6);
        let step = prop::collection::vec(operation(), 0..3);
        prop_oneof![
            4 => (any::<u8>(), body(), body()).prop_map(|(on, then, otherwise)| Sketch::If(on, then, otherwise)),
            2 => (body(), step).prop_map(|(body, step)| Sketch::Loop(body, step)),
            1 => body().prop_map(Sketch::Block),
        ]
    });
    prop::collection::vec(statement, 1..12)
}

/// Kernels that begin by giving every register a value, and store words to a global pointer.
pub(crate) fn kernels() -> impl Strategy<Value = Kernel> {
    sketches().prop_map(|sketch| {
        let mut kernel = Kernel { name: "random".to_owned(), ..Kernel::default() };
        kernel.registers = vec![RegisterClass::B32; WORDS as usize];
        kernel.registers.extend([RegisterClass::Predicate; PREDICATES as usize]);
        kernel.registers.push(RegisterClass::B64);
        let mut body = vec![operate("mov.u64", 1, vec![Operand::Register(POINTER), Operand::Integer(0)])];
        for word in 0..WORDS {
            let operands = vec![Operand::Register(Register(word)), Operand::Integer(word.into())];
            body.push(operate("mov.u32", 1, operands));
        }
        for predicate in 0..PREDICATES {
            let operands = vec![
                predicate_register(predicate as u8),
                Operand::Register(Register(0)),
                Operand::Integer(0),
            ];
            body.push(operate("setp.eq.u32", 1, operands));
        }
        body.extend(grow(&sketch, &mut kernel.labels, &mut Vec::new()));
        kernel.body = body;
        kernel
    })
}

const POINTER: Register = Register(WORDS + PREDICATES);
const HERE: Location = Location { file: "random.rs", line: 1, column: 1 };

fn word(choice: u8) -> Operand {
    Operand::Register(Register(u32::from(choice) % WORDS))
}

fn predicate_register(choice: u8) -> Operand {
    Operand::Register(predicate(choice))
}

fn predicate(choice: u8) -> Register {
    Register(WORDS + u32::from(choice) % PREDICATES)
}

fn operate(opcode: &'static str, destinations: usize, operands: Vec<Operand>) -> Statement {
    let opcode = Cow::Borrowed(opcode);
    Statement::Instruction(Instruction { guard: None, opcode, destinations, operands, location: HERE })
}

fn grow(sketches: &[Sketch], labels: &mut u32, open: &mut Vec<(Label, bool)>) -> Body {
    sketches.iter().filter_map(|sketch| grow_one(sketch, labels, open)).collect()
}

fn grow_one(sketch: &Sketch, labels: &mut u32, open: &mut Vec<(Label, bool)>) -> Option<Statement> {
    let mut fresh = |is_loop, open: &mut Vec<(Label, bool)>| {
        *labels += 1;
        open.push((Label(*labels - 1), is_loop));
        Label(*labels - 1)
    };
    Some(match sketch {
        Sketch::Operation { kind, to, from: [a, b], guard } => {
            let mut statement = match kind % 9 {
                0 | 1 => operate("mov.u32", 1, vec![word(*to), word(*a)]),
                2 => operate("mov.u32", 1, vec![word(*to), Operand::Integer((*a).into())]),
                3 => operate("add.u32", 1, vec![word(*to), word(*a), word(*b)]),
                4 => operate("sub.u32", 1, vec![word(*to), word(*a), word(*b)]),
                5 => operate("add.u32", 1, vec![word(*to), word(*a), Operand::Integer(1)]),
                6 => operate("setp.lt.u32", 1, vec![predicate_register(*to), word(*a), word(*b)]),
                7 => operate("mov.pred", 1, vec![predicate_register(*to), predicate_register(*a)]),
                _ => operate("selp.u32", 1, vec![word(*to), word(*a), word(*b), predicate_register(*b)]),
            };
            if let Statement::Instruction(instruction) = &mut statement {
                instruction.guard = guard.map(|(choice, value)| (predicate(choice), value));
            }
            statement
        }
        Sketch::Store(from) => {
            let address =
                Operand::Address { base: Box::new(Operand::Register(POINTER)), offset: 0, rest: Vec::new() };
            operate("st.global.u32", 0, vec![address, word(*from)])
        }
        Sketch::If(on, then, otherwise) => Statement::If {
            condition: predicate(*on),
            then: grow(then, labels, open),
            otherwise: grow(otherwise, labels, open),
            location: HERE,
        },
        Sketch::Loop(body, step) => {
            let label = fresh(true, open);
            let body = grow(body, labels, open);
            open.pop();
            Statement::Loop { label, body, step: grow(step, labels, open), location: HERE }
        }
        Sketch::Block(body) => {
            let label = fresh(false, open);
            let body = grow(body, labels, open);
            open.pop();
            Statement::Block { label, body }
        }
        Sketch::Break(choice) => {
            let index = usize::from(*choice).checked_rem(open.len())?;
            Statement::Break(open[index].0, HERE)
        }
        Sketch::Continue(choice) => {
            let loops: Vec<Label> =
                open.iter().filter(|(_, is_loop)| *is_loop).map(|(label, _)| *label).collect();
            Statement::Continue(loops[usize::from(*choice).checked_rem(loops.len())?], HERE)
        }
        Sketch::Return => Statement::Return(HERE),
    })
}

/// The words of one thread, by register number, and what it stored.
#[derive(Default)]
pub(crate) struct Thread {
    pub(crate) values: std::collections::HashMap<String, u32>,
    pub(crate) stores: Vec<u32>,
}

impl Thread {
    fn value(&self, name: &str) -> u32 {
        name.parse().unwrap_or_else(|_| self.values.get(name).copied().unwrap_or(0))
    }

    /// Runs one instruction on operands that are names or literals.
    pub(crate) fn step(&mut self, opcode: &str, operands: &[String]) {
        let of = |index: usize| self.value(&operands[index]);
        let result = match opcode {
            "mov.u32" | "mov.pred" | "mov.u64" => of(1),
            "add.u32" => of(1).wrapping_add(of(2)),
            "sub.u32" => of(1).wrapping_sub(of(2)),
            "setp.lt.u32" => u32::from(of(1) < of(2)),
            "setp.eq.u32" => u32::from(of(1) == of(2)),
            "selp.u32" => {
                if of(3) != 0 {
                    of(1)
                } else {
                    of(2)
                }
            }
            "st.global.u32" => return self.stores.push(of(1)),
            other => panic!("the interpreter does not know {other}"),
        };
        self.values.insert(operands[0].clone(), result);
    }

    /// Whether a guard lets its instruction run.
    pub(crate) fn allows(&self, predicate: &str, value: bool) -> bool {
        (self.value(predicate) != 0) == value
    }
}

/// How a statement was left.
enum Way {
    On,
    Break(Label),
    Continue(Label),
    End,
}

/// What a kernel stores.
#[derive(Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) stores: Vec<u32>,
    /// Whether the run was cut off after [`ROUNDS`] loop rounds.
    pub(crate) was_cut: bool,
}

/// Runs a kernel, for at most [`ROUNDS`] loop rounds.
pub(crate) fn run(kernel: &Kernel) -> Run {
    let mut interpreter = Interpreter { thread: Thread::default(), rounds: 0 };
    interpreter.body(&kernel.body);
    Run { stores: interpreter.thread.stores, was_cut: interpreter.rounds > ROUNDS }
}

struct Interpreter {
    thread: Thread,
    rounds: usize,
}

impl Interpreter {
    fn body(&mut self, body: &[Statement]) -> Way {
        for statement in body {
            match self.statement(statement) {
                Way::On => {}
                way => return way,
            }
        }
        Way::On
    }

    fn statement(&mut self, statement: &Statement) -> Way {
        match statement {
            Statement::Instruction(instruction) => {
                let runs = (instruction.guard)
                    .is_none_or(|(predicate, value)| self.thread.allows(&name(predicate), value));
                if runs {
                    let operands: Vec<String> = instruction.operands.iter().map(spelling).collect();
                    self.thread.step(&instruction.opcode, &operands);
                }
                Way::On
            }
            Statement::If { condition, then, otherwise, .. } => {
                let body = if self.thread.allows(&name(*condition), true) { then } else { otherwise };
                self.body(body)
            }
            Statement::Loop { label, body, step, .. } => loop {
                self.rounds += 1;
                if self.rounds > ROUNDS {
                    return Way::End;
                }
                match self.body(body) {
                    Way::On => {}
                    Way::Continue(to) if to == *label => {}
                    Way::Break(to) if to == *label => return Way::On,
                    way => return way,
                }
                self.body(step);
            },
            Statement::Block { label, body } => match self.body(body) {
                Way::Break(to) if to == *label => Way::On,
                way => way,
            },
            Statement::Break(label, _) => Way::Break(*label),
            Statement::Continue(label, _) => Way::Continue(*label),
            Statement::Return(_) => Way::End,
            Statement::Print { .. } | Statement::Assert { .. } => Way::On,
        }
    }
}

fn name(register: Register) -> String {
    format!("r{}", register.0)
}

fn spelling(operand: &Operand) -> String {
    match operand {
        Operand::Register(register) => name(*register),
        Operand::Integer(value) => value.to_string(),
        Operand::Address { base, .. } => spelling(base),
        other => panic!("random kernels have no {other:?}"),
    }
}
