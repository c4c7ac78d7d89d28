//! Random small kernels, and an interpreter for them: what a pass or the writer must not change.

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
    Operation {
        kind: u8,
        to: u8,
        from: [u8; 2],
        guard: Option<(u8, bool)>,
    },
    /// As the kernel language assigns: a computation into a temporary, what else there is, a `mov`
    /// to the variable.
    Assign {
        kind: u8,
        to: u8,
        from: [u8; 2],
        guard: Option<(u8, bool)>,
        between: Vec<Sketch>,
    },
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

fn assignment() -> impl Strategy<Value = Sketch> {
    let guard = prop_oneof![6 => Just(None), 1 => any::<(u8, bool)>().prop_map(Some)];
    let between = prop::collection::vec(operation(), 0..3);
    (any::<u8>(), any::<u8>(), any::<[u8; 2]>(), guard, between)
        .prop_map(|(kind, to, from, guard, between)| Sketch::Assign { kind, to, from, guard, between })
}

fn sketches() -> impl Strategy<Value = Vec<Sketch>> {
    let leaf = prop_oneof![
        8 => operation(),
        4 => assignment(),
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
        let mut grower = Grower { kernel, open: Vec::new() };
        body.extend(grower.body(&sketch));
        Kernel { body, ..grower.kernel }
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

/// Makes statements of sketches, with the labels and temporaries they need.
struct Grower {
    kernel: Kernel,
    /// Loops and blocks around the sketch at hand, with whether each is a loop.
    open: Vec<(Label, bool)>,
}

impl Grower {
    fn body(&mut self, sketches: &[Sketch]) -> Body {
        sketches.iter().flat_map(|sketch| self.statements(sketch)).collect()
    }

    fn statements(&mut self, sketch: &Sketch) -> Body {
        if let Sketch::Assign { kind, to, from, guard, between } = sketch {
            let temporary = Operand::Register(Register(self.kernel.registers.len() as u32));
            self.kernel.registers.push(RegisterClass::B32);
            let computation = operation_on(kind % 6, temporary.clone(), *from, *guard);
            let assignment = operate("mov.u32", 1, vec![word(*to), temporary]);
            return [vec![computation], self.body(between), vec![assignment]].concat();
        }
        self.statement(sketch).into_iter().collect()
    }

    /// The statement of a sketch; `None` where it would leave a loop and there is none.
    fn statement(&mut self, sketch: &Sketch) -> Option<Statement> {
        Some(match sketch {
            Sketch::Operation { kind, to, from, guard } => {
                let to = if matches!(kind % 9, 6 | 7) { predicate_register(*to) } else { word(*to) };
                operation_on(kind % 9, to, *from, *guard)
            }
            Sketch::Assign { .. } => return None,
            Sketch::Store(from) => {
                let address = Operand::Address {
                    base: Box::new(Operand::Register(POINTER)),
                    offset: 0,
                    rest: Vec::new(),
                };
                operate("st.global.u32", 0, vec![address, word(*from)])
            }
            Sketch::If(on, then, otherwise) => Statement::If {
                condition: predicate(*on),
                then: self.body(then),
                otherwise: self.body(otherwise),
                location: HERE,
            },
            Sketch::Loop(body, step) => {
                let (label, body) = self.inside(true, body);
                Statement::Loop { label, body, step: self.body(step), location: HERE }
            }
            Sketch::Block(body) => {
                let (label, body) = self.inside(false, body);
                Statement::Block { label, body }
            }
            Sketch::Break(choice) => {
                let index = usize::from(*choice).checked_rem(self.open.len())?;
                Statement::Break(self.open[index].0, HERE)
            }
            Sketch::Continue(choice) => {
                let loops = self.open.iter().filter(|(_, is_loop)| *is_loop);
                let loops: Vec<Label> = loops.map(|(label, _)| *label).collect();
                Statement::Continue(loops[usize::from(*choice).checked_rem(loops.len())?], HERE)
            }
            Sketch::Return => Statement::Return(HERE),
        })
    }

    fn inside(&mut self, is_loop: bool, body: &[Sketch]) -> (Label, Body) {
        let label = Label(self.kernel.labels);
        self.kernel.labels += 1;
        self.open.push((label, is_loop));
        let body = self.body(body);
        self.open.pop();
        (label, body)
    }
}

/// One of nine operations; the seventh and eighth write a predicate, all others a word.
fn operation_on(kind: u8, to: Operand, [a, b]: [u8; 2], guard: Option<(u8, bool)>) -> Statement {
    let mut statement = match kind {
        0 | 1 => operate("mov.u32", 1, vec![to, word(a)]),
        2 => operate("mov.u32", 1, vec![to, Operand::Integer(a.into())]),
        3 => operate("add.u32", 1, vec![to, word(a), word(b)]),
        4 => operate("sub.u32", 1, vec![to, word(a), word(b)]),
        5 => operate("add.u32", 1, vec![to, word(a), Operand::Integer(1)]),
        6 => operate("setp.lt.u32", 1, vec![to, word(a), word(b)]),
        7 => operate("mov.pred", 1, vec![to, predicate_register(a)]),
        _ => operate("selp.u32", 1, vec![to, word(a), word(b), predicate_register(b)]),
    };
    if let Statement::Instruction(instruction) = &mut statement {
        instruction.guard = guard.map(|(choice, value)| (predicate(choice), value));
    }
    statement
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
