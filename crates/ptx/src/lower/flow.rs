//! Structured control flow as labels and branches.

use std::collections::HashMap;

use warpwright_ir::{Body, Instruction, Label, Location, Register, Statement};

/// A predicate and the value it must have.
pub(super) type Condition = (Register, bool);

/// One step of a kernel with its control flow made linear.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step<'kernel> {
    /// A branch target.
    Target(Target),
    /// A branch, optionally conditional.
    Branch(Option<Condition>, Target, Location),
    /// Ends the thread, optionally on a condition.
    Return(Option<Condition>, Location),
    /// An instruction that is written as it is.
    Instruction(&'kernel Instruction),
    /// Calls the system's `printf`.
    Print(&'kernel str, &'kernel [(Register, bool)], Location),
    /// Prints that an assertion failed and traps.
    Fail(&'kernel str, Location),
}

/// A branch target: a construct and a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) part: Part,
    pub(super) construct: u32,
}

/// The parts of a construct that are branched to; their order is of no account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// The start of an iteration.
    Loop,
    /// The step of a loop, the target of `continue`.
    Step,
    /// The second branch of an `if`.
    Else,
    /// The end of a construct.
    End,
}

/// How many instructions a loop may compute its condition with, for the computation to be written
/// twice so that the branch back is the conditional one.
const ROTATION_LIMIT: usize = 8;

/// The steps of `body`.
pub(super) fn linearize(body: &Body) -> Vec<Step<'_>> {
    let mut flow = Flow { steps: Vec::new(), constructs: 0, loops: HashMap::new() };
    flow.body(body);
    flow.steps
}

struct Flow<'kernel> {
    steps: Vec<Step<'kernel>>,
    constructs: u32,
    /// The construct number of each loop and block around the statement at hand.
    loops: HashMap<Label, u32>,
}

impl<'kernel> Flow<'kernel> {
    fn body(&mut self, body: &'kernel [Statement]) {
        for statement in body {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &'kernel Statement) {
        match statement {
            Statement::Instruction(instruction) => self.steps.push(Step::Instruction(instruction)),
            Statement::If { condition, then, otherwise, location } => {
                self.choice(*condition, then, otherwise, *location);
            }
            Statement::Loop { label, body, step, location } => self.repetition(*label, body, step, *location),
            Statement::Block { label, body } => {
                let construct = self.open(*label);
                self.body(body);
                self.steps.push(Step::Target(Target { part: Part::End, construct }));
            }
            Statement::Break(..) | Statement::Continue(..) | Statement::Return(_) => {
                let exit = self.exit(statement, None).expect("these statements leave");
                self.steps.push(exit);
            }
            Statement::Print { format, arguments, location } => {
                self.steps.push(Step::Print(format, arguments, *location));
            }
            Statement::Assert { condition, message, location } => {
                let end = Target { part: Part::End, construct: self.construct() };
                self.steps.push(Step::Branch(Some((*condition, true)), end, *location));
                self.steps.push(Step::Fail(message, *location));
                self.steps.push(Step::Target(end));
            }
        }
    }

    fn construct(&mut self) -> u32 {
        self.constructs += 1;
        self.constructs
    }

    fn open(&mut self, label: Label) -> u32 {
        let construct = self.construct();
        self.loops.insert(label, construct);
        construct
    }

    /// The single step of a statement that leaves, under `condition`; `None` for other statements.
    fn exit(&self, statement: &Statement, condition: Option<Condition>) -> Option<Step<'kernel>> {
        let target = |part, label| Target { part, construct: self.loops[label] };
        match statement {
            Statement::Break(label, at) => Some(Step::Branch(condition, target(Part::End, label), *at)),
            Statement::Continue(label, at) => Some(Step::Branch(condition, target(Part::Step, label), *at)),
            Statement::Return(at) => Some(Step::Return(condition, *at)),
            _ => None,
        }
    }

    fn choice(
        &mut self,
        condition: Register,
        then: &'kernel [Statement],
        otherwise: &'kernel [Statement],
        location: Location,
    ) {
        if let [leave] = then
            && let Some(exit) = self.exit(leave, Some((condition, true)))
        {
            self.steps.push(exit);
            return self.body(otherwise);
        }
        if let [leave] = otherwise
            && let Some(exit) = self.exit(leave, Some((condition, false)))
        {
            self.steps.push(exit);
            return self.body(then);
        }
        let construct = self.construct();
        let (second, end) = (Target { part: Part::Else, construct }, Target { part: Part::End, construct });
        match (then.is_empty(), otherwise.is_empty()) {
            (true, true) => {}
            (false, true) => {
                self.steps.push(Step::Branch(Some((condition, false)), end, location));
                self.body(then);
            }
            (true, false) => {
                self.steps.push(Step::Branch(Some((condition, true)), end, location));
                self.body(otherwise);
            }
            (false, false) => {
                self.steps.push(Step::Branch(Some((condition, false)), second, location));
                self.body(then);
                self.steps.push(Step::Branch(None, end, location));
                self.steps.push(Step::Target(second));
                self.body(otherwise);
            }
        }
        self.steps.push(Step::Target(end));
    }

    fn repetition(
        &mut self,
        label: Label,
        body: &'kernel [Statement],
        step: &'kernel [Statement],
        location: Location,
    ) {
        let construct = self.open(label);
        let (start, end) = (Target { part: Part::Loop, construct }, Target { part: Part::End, construct });
        let next = Target { part: Part::Step, construct };
        // A loop that is nothing but its test already branches back on the condition.
        let entry = EntryTest::of(label, body)
            .filter(|entry| !(entry.kept.is_empty() && entry.rest.is_empty() && step.is_empty()));
        if let Some(entry) = entry {
            // while c { rest }  ==  if c { do { rest } while c }
            let (condition, value) = entry.stays_while;
            self.body(entry.computation);
            self.steps.push(Step::Branch(Some((condition, !value)), end, entry.location));
            self.steps.push(Step::Target(start));
            self.body(entry.kept);
            self.body(entry.rest);
            self.steps.push(Step::Target(next));
            self.body(step);
            self.body(entry.computation);
            self.steps.push(Step::Branch(Some(entry.stays_while), start, entry.location));
        } else {
            self.steps.push(Step::Target(start));
            self.body(body);
            self.steps.push(Step::Target(next));
            self.body(step);
            self.steps.push(Step::Branch(None, start, location));
        }
        self.steps.push(Step::Target(end));
    }
}

/// The beginning of a loop that computes a condition and leaves unless it holds.
struct EntryTest<'kernel> {
    computation: &'kernel [Statement],
    stays_while: Condition,
    /// The branch of the test that does not leave.
    kept: &'kernel [Statement],
    rest: &'kernel [Statement],
    location: Location,
}

impl<'kernel> EntryTest<'kernel> {
    fn of(label: Label, body: &'kernel [Statement]) -> Option<Self> {
        let length = body.iter().position(|statement| !matches!(statement, Statement::Instruction(_)))?;
        let Statement::If { condition, then, otherwise, location } = &body[length] else {
            return None;
        };
        let leaves = |branch: &[Statement]| matches!(branch, [Statement::Break(to, _)] if *to == label);
        let (stays_while, kept) = if leaves(then) {
            ((*condition, false), otherwise)
        } else if leaves(otherwise) {
            ((*condition, true), then)
        } else {
            return None;
        };
        let (computation, rest) = (&body[..length], &body[length + 1..]);
        (length <= ROTATION_LIMIT).then_some(Self {
            computation,
            stays_while,
            kept,
            rest,
            location: *location,
        })
    }
}
