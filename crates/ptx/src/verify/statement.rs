//! The statements of a function: its scopes, labels and instructions.

use super::declaration;
use super::error::{Subject, VerifyError};
use super::instruction::Spellings;
use super::names::{Meaning, Names, Scope};
use crate::syntax::{Function, Statement, Variable};

/// Checks the functions of a module.
pub(super) struct Statements<'a, 'm> {
    names: Names<'a, 'm>,
    spellings: Spellings<'m>,
    subject: Subject<'m>,
    errors: &'a mut Vec<VerifyError>,
}

impl<'a, 'm> Statements<'a, 'm> {
    pub(super) fn new(names: Names<'a, 'm>, errors: &'a mut Vec<VerifyError>) -> Self {
        Self { names, spellings: Spellings::new(), subject: Subject::default(), errors }
    }

    fn report(&mut self, line: u32, text: String, message: String) {
        self.errors.push(self.subject.error(line, text, message));
    }

    /// Checks a function.
    pub(super) fn function(&mut self, function: &'m Function) {
        self.subject = Subject(Some(&function.name));
        self.names.parameters = &function.parameters;
        if let Err(message) = declaration::function(function, self.names.version, self.names.target) {
            self.report(function.line, String::new(), message);
        }
        self.names.scopes.push(Scope::default());
        for variable in function.returns.iter().chain(&function.parameters) {
            self.declare(variable);
            if let Err(message) = declaration::parameter(variable, function) {
                self.report(variable.line, variable.to_string(), message);
            }
        }
        self.statements(function.body.as_deref().unwrap_or_default());
        self.names.scopes.clear();
    }

    fn scope(&mut self) -> &mut Scope<'m> {
        self.names.scopes.last_mut().expect("a function has a scope")
    }

    fn declare(&mut self, variable: &'m Variable) {
        // `_` is the name of a parameter that is not used.
        if variable.name != "_" && !self.scope().declare(variable) {
            let message = format!("`{}` is declared twice in one scope.", variable.name);
            self.report(variable.line, variable.to_string(), message);
        }
    }

    fn name(&mut self, name: &'m str, meaning: Meaning<'m>) {
        if !self.scope().insert(name, meaning) {
            let message = format!("`{name}` is declared twice in one scope.");
            self.report(0, format!("{name}:"), message);
        }
    }

    fn statements(&mut self, statements: &'m [Statement]) {
        // A label is known in its whole scope.
        for statement in statements {
            if let Statement::Label(name) = statement {
                self.name(name, Meaning::Label);
            }
        }
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &'m Statement) {
        match statement {
            Statement::Instruction(instruction) => {
                if let Err(message) = self.names.instruction(instruction, &mut self.spellings) {
                    self.report(instruction.line, instruction.to_string(), message);
                }
            }
            Statement::Variable(variable) => {
                self.declare(variable);
                let checked = declaration::of_function(variable)
                    .and_then(|()| declaration::variable(variable, &|name| self.names.meaning(name)));
                if let Err(message) = checked {
                    self.report(variable.line, variable.to_string(), message);
                }
            }
            Statement::Block(statements) => {
                self.names.scopes.push(Scope::default());
                self.statements(statements);
                self.names.scopes.pop();
            }
            Statement::CallPrototype { name, .. } | Statement::CallTargets { name, .. } => {
                self.name(name, Meaning::Prototype(statement));
            }
            Statement::BranchTargets { name, targets } => {
                self.name(name, Meaning::BranchTargets);
                for target in targets {
                    if !matches!(self.names.meaning(target), Some(Meaning::Label)) {
                        self.report(0, format!("{name}:"), format!("`{target}` is not a label."));
                    }
                }
            }
            _ => {}
        }
    }
}
