//! Removes computations that nobody reads, statements that nothing reaches, and branches with nothing in them.
//!
//! One walk against the order of execution carries the registers that are read later. A loop is walked until what is
//! read at its beginning no longer grows; only then does the walk remove.

use std::collections::HashMap;

use crate::access;
use crate::kernel::{Body, Instruction, Kernel, Label, Register, Statement};
use crate::register_set::RegisterSet;

/// Rewrites the kernel; whether anything changed.
pub(super) fn run(kernel: &mut Kernel) -> bool {
    let nothing = RegisterSet::empty(kernel);
    let mut walk = Walk {
        at_break: HashMap::new(),
        at_continue: HashMap::new(),
        nothing,
        removes: true,
        changed: false,
    };
    let body = std::mem::take(&mut kernel.body);
    let (body, _) = walk.body(body, walk.nothing.clone());
    kernel.body = body;
    walk.changed
}

struct Walk {
    /// What is read after each loop and block around the statement at hand.
    at_break: HashMap<Label, RegisterSet>,
    /// What is read in the step of each loop and after.
    at_continue: HashMap<Label, RegisterSet>,
    nothing: RegisterSet,
    /// Whether dead statements go, rather than only being looked through.
    removes: bool,
    changed: bool,
}

impl Walk {
    /// The body with what is dead removed, and what is read from its beginning on; `live` is read after it.
    fn body(&mut self, mut body: Body, mut live: RegisterSet) -> (Body, RegisterSet) {
        if let Some(end) = body.iter().position(leaves)
            && self.removes
            && end + 1 < body.len()
        {
            self.changed = true;
            body.truncate(end + 1);
        }
        let mut kept = Body::with_capacity(body.len());
        for statement in body.into_iter().rev() {
            let (statement, before) = self.statement(statement, live);
            live = before;
            kept.extend(statement);
        }
        kept.reverse();
        (kept, live)
    }

    fn statement(&mut self, statement: Statement, mut live: RegisterSet) -> (Option<Statement>, RegisterSet) {
        match statement {
            Statement::Instruction(instruction) => self.instruction(instruction, live),
            Statement::If { condition, then, otherwise, location } => {
                let (then, live_then) = self.body(then, live.clone());
                let (otherwise, live_otherwise) = self.body(otherwise, live);
                live = live_then;
                live.unite(&live_otherwise);
                if self.removes && then.is_empty() && otherwise.is_empty() {
                    self.changed = true;
                    return (None, live);
                }
                live.insert(condition);
                (Some(Statement::If { condition, then, otherwise, location }), live)
            }
            Statement::Loop { label, body, step, location } => {
                self.at_break.insert(label, live);
                let (body, step, live) = self.repetition(label, body, step);
                (Some(Statement::Loop { label, body, step, location }), live)
            }
            Statement::Block { label, body } => {
                self.at_break.insert(label, live.clone());
                let (body, live) = self.body(body, live);
                let is_empty =
                    body.is_empty() || matches!(&body[..], [Statement::Break(to, _)] if *to == label);
                if self.removes && is_empty {
                    self.changed = true;
                    return (None, live);
                }
                (Some(Statement::Block { label, body }), live)
            }
            Statement::Break(label, _) => (Some(statement), self.after(&self.at_break, label)),
            Statement::Continue(label, _) => (Some(statement), self.after(&self.at_continue, label)),
            Statement::Return(_) => (Some(statement), self.nothing.clone()),
            Statement::Print { ref arguments, .. } => {
                arguments.iter().for_each(|(register, _)| live.insert(*register));
                (Some(statement), live)
            }
            Statement::Assert { condition, .. } => {
                live.insert(condition);
                (Some(statement), live)
            }
        }
    }

    fn after(&self, places: &HashMap<Label, RegisterSet>, label: Label) -> RegisterSet {
        places.get(&label).unwrap_or(&self.nothing).clone()
    }

    fn instruction(
        &mut self,
        instruction: Instruction,
        mut live: RegisterSet,
    ) -> (Option<Statement>, RegisterSet) {
        let is_read = access::writes(&instruction).any(|register| live.contains(register));
        let copies_itself = access::copy(&instruction).is_some_and(|(to, from)| to == from);
        if self.removes && access::is_pure(&instruction) && (!is_read || copies_itself) {
            self.changed = true;
            return (None, live);
        }
        // Where the guard fails, the old value stays: only an unguarded write ends the need for it.
        match instruction.guard {
            Some((guard, _)) => live.insert(guard),
            None => access::writes(&instruction).for_each(|register| live.remove(register)),
        }
        access::reads(&instruction).for_each(|register: Register| live.insert(register));
        (Some(Statement::Instruction(instruction)), live)
    }

    fn repetition(&mut self, label: Label, body: Body, step: Body) -> (Body, Body, RegisterSet) {
        let removes = std::mem::replace(&mut self.removes, false);
        let mut at_start = self.nothing.clone();
        loop {
            let (_, at_step) = self.body(step.clone(), at_start.clone());
            self.at_continue.insert(label, at_step.clone());
            let (_, again) = self.body(body.clone(), at_step);
            if again == at_start {
                break;
            }
            at_start.unite(&again);
        }
        self.removes = removes;
        let (step, at_step) = self.body(step, at_start);
        self.at_continue.insert(label, at_step.clone());
        let (body, at_start) = self.body(body, at_step);
        (body, step, at_start)
    }
}

/// Whether nothing after the statement in its body is reached.
fn leaves(statement: &Statement) -> bool {
    matches!(statement, Statement::Break(..) | Statement::Continue(..) | Statement::Return(_))
}
