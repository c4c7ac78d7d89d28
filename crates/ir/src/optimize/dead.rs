//! Removes unused computations, unreachable statements, and empty branches.
//!
//! One walk against the order of execution carries the registers that are read later. A loop is
//! walked until what is read at its beginning no longer grows; only then does the walk remove.

use crate::access;
use crate::kernel::{Body, Instruction, Kernel, Label, Statement};
use crate::register_set::RegisterSet;
use rustc_hash::FxHashMap;

/// Rewrites the kernel; whether anything changed.
pub(super) fn run(kernel: &mut Kernel) -> bool {
    let nothing = RegisterSet::empty(kernel);
    let mut walk = Walk {
        at_break: FxHashMap::default(),
        at_continue: FxHashMap::default(),
        nothing: nothing.clone(),
        removes: true,
        changed: false,
    };
    walk.body(&mut kernel.body, nothing);
    walk.changed
}

struct Walk {
    /// What is read after each loop and block around the statement at hand.
    at_break: FxHashMap<Label, RegisterSet>,
    /// What is read in the step of each loop and after.
    at_continue: FxHashMap<Label, RegisterSet>,
    nothing: RegisterSet,
    /// Whether dead statements go, rather than only being looked through.
    removes: bool,
    changed: bool,
}

impl Walk {
    /// What is read from the body's beginning on, if `live` is read after it. What is dead is
    /// removed.
    fn body(&mut self, body: &mut Body, mut live: RegisterSet) -> RegisterSet {
        if let Some(end) = body.iter().position(leaves)
            && self.removes
            && end + 1 < body.len()
        {
            self.changed = true;
            body.truncate(end + 1);
        }
        let mut dead = Vec::new();
        for (index, statement) in body.iter_mut().enumerate().rev() {
            let (is_dead, before) = self.statement(statement, live);
            live = before;
            if is_dead && self.removes {
                dead.push(index);
            }
        }
        if !dead.is_empty() {
            self.changed = true;
            let mut index = 0;
            // The last one found is the first.
            body.retain(|_| {
                let goes = dead.last() == Some(&index);
                if goes {
                    dead.pop();
                }
                index += 1;
                !goes
            });
        }
        live
    }

    /// Whether the statement is unused, and what is read from it on.
    fn statement(&mut self, statement: &mut Statement, mut live: RegisterSet) -> (bool, RegisterSet) {
        match statement {
            Statement::Instruction(instruction) => {
                let is_dead = is_dead(instruction, &live);
                if !(is_dead && self.removes) {
                    before(instruction, &mut live);
                }
                (is_dead, live)
            }
            Statement::If { condition, then, otherwise, .. } => {
                let live_then = self.body(then, live.clone());
                live = self.body(otherwise, live);
                live.unite(&live_then);
                let is_dead = then.is_empty() && otherwise.is_empty();
                if !(is_dead && self.removes) {
                    live.insert(*condition);
                }
                (is_dead, live)
            }
            Statement::Loop { label, body, step, .. } => {
                self.at_break.insert(*label, live);
                (false, self.repetition(*label, body, step))
            }
            Statement::Block { label, body } => {
                self.at_break.insert(*label, live.clone());
                live = self.body(body, live);
                let is_dead =
                    body.is_empty() || matches!(&body[..], [Statement::Break(to, _)] if to == label);
                (is_dead, live)
            }
            Statement::Break(label, _) => (false, self.after(&self.at_break, *label)),
            Statement::Continue(label, _) => (false, self.after(&self.at_continue, *label)),
            Statement::Return(_) => (false, self.nothing.clone()),
            Statement::Print { arguments, .. } => {
                arguments.iter().for_each(|(register, _)| live.insert(*register));
                (false, live)
            }
            Statement::Assert { condition, .. } => {
                live.insert(*condition);
                (false, live)
            }
        }
    }

    fn after(&self, places: &FxHashMap<Label, RegisterSet>, label: Label) -> RegisterSet {
        places.get(&label).unwrap_or(&self.nothing).clone()
    }

    /// What is read from a loop's beginning on: first without removing anything, until what is read
    /// there no longer grows; then once more, to remove.
    fn repetition(&mut self, label: Label, body: &mut Body, step: &mut Body) -> RegisterSet {
        let removes = std::mem::replace(&mut self.removes, false);
        let mut at_start = self.nothing.clone();
        loop {
            let again = self.round(label, body, step, at_start.clone());
            if again == at_start {
                break;
            }
            at_start.unite(&again);
        }
        self.removes = removes;
        if removes { self.round(label, body, step, at_start) } else { at_start }
    }

    fn round(
        &mut self,
        label: Label,
        body: &mut Body,
        step: &mut Body,
        at_start: RegisterSet,
    ) -> RegisterSet {
        let at_step = self.body(step, at_start);
        self.at_continue.insert(label, at_step.clone());
        self.body(body, at_step)
    }
}

/// Whether the instruction can be removed.
fn is_dead(instruction: &Instruction, live: &RegisterSet) -> bool {
    let is_read = access::writes(instruction).any(|register| live.contains(register));
    let copies_itself = access::copy(instruction).is_some_and(|(to, from)| to == from);
    (!is_read || copies_itself) && access::is_pure(instruction)
}

/// Turns what is read after the instruction into what is read from it on.
fn before(instruction: &Instruction, live: &mut RegisterSet) {
    // Where the guard fails, the old value stays: only an unguarded write ends the need for it.
    match instruction.guard {
        Some((guard, _)) => live.insert(guard),
        None => access::writes(instruction).for_each(|register| live.remove(register)),
    }
    access::reads(instruction).for_each(|register| live.insert(register));
}

/// Whether nothing after the statement in its body is reached.
fn leaves(statement: &Statement) -> bool {
    matches!(statement, Statement::Break(..) | Statement::Continue(..) | Statement::Return(_))
}
