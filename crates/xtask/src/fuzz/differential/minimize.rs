//! The least program that still differs.

use super::program::{Program, Statement, Trips};
use super::run::{Case, Difference, Pair};

/// Programs tried for one difference: each is assembled.
const MOST_ATTEMPTS: u32 = 100;

/// Removes what the difference does not need.
pub(super) fn minimize(pair: &Pair, case: Case, difference: Difference) -> (Case, Difference) {
    let (mut least, mut seen) = (case, difference);
    let mut attempts = 0;
    loop {
        let mut at = 0;
        let mut is_smaller = false;
        while attempts < MOST_ATTEMPTS {
            let Some(smaller) = without(&least.program, at) else { break };
            attempts += 1;
            let smaller = least.with(smaller);
            match pair.compare(&[&smaller]) {
                Ok(differences) if !differences.is_empty() => {
                    seen = differences[0].clone();
                    least = smaller;
                    is_smaller = true;
                }
                _ => at += 1,
            }
        }
        if !is_smaller || attempts >= MOST_ATTEMPTS {
            return (least, seen);
        }
    }
}

/// The program with its change of a number made; `None` after the last one.
fn without(program: &Program, at: usize) -> Option<Program> {
    let mut program = program.clone();
    let mut left = at;
    reduce(&mut program.statements, &mut left).then_some(program)
}

/// Makes the change that is `left` changes further on. The large ones are first.
fn reduce(statements: &mut Vec<Statement>, left: &mut usize) -> bool {
    let mut take = || {
        let is_this = *left == 0;
        *left = left.wrapping_sub(1);
        is_this
    };
    // Half of the statements, then each.
    if statements.len() > 3 {
        let middle = statements.len() / 2;
        if take() {
            statements.drain(middle..);
            return true;
        }
        if take() {
            statements.drain(..middle);
            return true;
        }
    }
    for at in (0..statements.len()).rev() {
        let replacements: Vec<Vec<Statement>> = match &statements[at] {
            Statement::Instruction(_) => vec![Vec::new()],
            Statement::If { then, otherwise, .. } => vec![Vec::new(), then.clone(), otherwise.clone()],
            Statement::Switch { bodies, .. } => std::iter::once(Vec::new()).chain(bodies.clone()).collect(),
            Statement::Loop { body, .. } => vec![Vec::new(), body.clone()],
        };
        for replacement in replacements {
            if *left == 0 {
                statements.splice(at..=at, replacement);
                return true;
            }
            *left -= 1;
        }
        let is_reduced = match &mut statements[at] {
            Statement::Instruction(_) => false,
            Statement::If { then, otherwise, .. } => reduce(then, left) || reduce(otherwise, left),
            Statement::Switch { bodies, .. } => bodies.iter_mut().any(|body| reduce(body, left)),
            Statement::Loop { trips, body } => {
                let is_long = trips.most() > 1;
                if is_long && *left == 0 {
                    *trips = Trips::Fixed(1);
                    return true;
                }
                *left -= usize::from(is_long);
                reduce(body, left)
            }
        };
        if is_reduced {
            return true;
        }
    }
    false
}
