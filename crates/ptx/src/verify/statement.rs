//! The statements of a function: its scopes, labels and instructions.

use std::collections::HashMap;

use warpwright_arch::Target;

use super::declaration;
use super::instruction::Spelling;
use super::names::{Meaning, Scope};
use super::{Subject, VerifyError};
use crate::syntax::{Function, Module, Statement, Variable};

/// The names of instructions met so far.
pub(super) type Spellings<'m> = HashMap<&'m str, Spelling>;

/// The names that a statement may use, and what the module is for.
pub(super) struct Names<'a, 'm> {
    pub(super) version: (u32, u32),
    pub(super) target: Option<Target>,
    pub(super) spellings: Spellings<'m>,
    pub(super) module: &'a Scope<'m>,
    scopes: Vec<Scope<'m>>,
    subject: Subject<'m>,
    /// The parameters of the function.
    parameters: &'m [Variable],
    errors: &'a mut Vec<VerifyError>,
}

impl<'a, 'm> Names<'a, 'm> {
    pub(super) fn new(module: &Module, scope: &'a Scope<'m>, errors: &'a mut Vec<VerifyError>) -> Self {
        let target = super::instruction::target_of(module.target.first());
        let version = module.version;
        Self {
            version,
            target,
            spellings: Spellings::new(),
            module: scope,
            scopes: Vec::new(),
            subject: Subject::default(),
            parameters: &[],
            errors,
        }
    }

    /// The meaning of a name here.
    pub(super) fn meaning(&self, name: &str) -> Option<Meaning<'m>> {
        self.scopes.iter().rev().chain([self.module]).find_map(|scope| scope.get(name))
    }

    /// The declaration of a variable or register that is known here.
    pub(super) fn variable(&self, name: &str) -> Option<&'m Variable> {
        let mut scopes = self.scopes.iter().rev().chain([self.module]);
        scopes.find(|scope| scope.get(name).is_some())?.variable(name)
    }

    /// Whether the name means a parameter of the function.
    pub(super) fn is_formal(&self, name: &str) -> bool {
        let own = self.variable(name);
        own.is_some_and(|own| self.parameters.iter().any(|formal| std::ptr::eq(own, formal)))
    }

    fn report(&mut self, line: u32, text: String, message: String) {
        self.errors.push(self.subject.error(line, text, message));
    }

    /// Checks a function.
    pub(super) fn function(&mut self, function: &'m Function) {
        self.subject = Subject(Some(&function.name));
        self.parameters = &function.parameters;
        if let Err(message) = declaration::function(function, self.version, self.target) {
            self.report(function.line, String::new(), message);
        }
        self.scopes.push(Scope::default());
        for variable in function.returns.iter().chain(&function.parameters) {
            self.declare(variable);
            if let Err(message) = declaration::parameter(variable, function) {
                self.report(variable.line, variable.to_string(), message);
            }
        }
        self.statements(function.body.as_deref().unwrap_or_default());
        self.scopes.clear();
    }

    fn scope(&mut self) -> &mut Scope<'m> {
        self.scopes.last_mut().expect("a function has a scope")
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
                if let Err(message) = self.instruction(instruction) {
                    self.report(instruction.line, instruction.to_string(), message);
                }
            }
            Statement::Variable(variable) => {
                self.declare(variable);
                let checked = declaration::of_function(variable)
                    .and_then(|()| declaration::variable(variable, &|name| self.meaning(name)));
                if let Err(message) = checked {
                    self.report(variable.line, variable.to_string(), message);
                }
            }
            Statement::Block(statements) => {
                self.scopes.push(Scope::default());
                self.statements(statements);
                self.scopes.pop();
            }
            Statement::CallPrototype { name, .. } | Statement::CallTargets { name, .. } => {
                self.name(name, Meaning::Prototype(statement));
            }
            Statement::BranchTargets { name, targets } => {
                self.name(name, Meaning::BranchTargets);
                for target in targets {
                    if !matches!(self.meaning(target), Some(Meaning::Label)) {
                        self.report(0, format!("{name}:"), format!("`{target}` is not a label."));
                    }
                }
            }
            _ => {}
        }
    }
}
