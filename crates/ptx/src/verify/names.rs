//! What the names of a module mean.

use std::collections::HashMap;

use crate::syntax::{Function, StateSpace, Statement, Type, Variable, is_numbered};

/// The meaning of a name.
#[derive(Clone, Copy)]
pub(super) enum Meaning<'m> {
    Register(Type),
    /// A register of several elements.
    VectorRegister(Type, u32),
    /// A variable in memory, or a parameter.
    Variable(StateSpace),
    Function(&'m Function),
    Label,
    /// A `.branchtargets` list.
    BranchTargets,
    /// A `.callprototype` or a `.calltargets` list.
    Prototype(&'m Statement),
}

impl Meaning<'_> {
    /// What it is, for messages: `a label`.
    pub(super) fn describe(self) -> String {
        match self {
            Self::Register(ty) => format!("a .{} register", ty.word()),
            Self::VectorRegister(ty, count) => format!("a .v{count} .{} register", ty.word()),
            Self::Variable(space) => format!("a variable in .{}", space.word()),
            Self::Function(_) => "a function".to_owned(),
            Self::Label => "a label".to_owned(),
            Self::BranchTargets => "a list of branch targets".to_owned(),
            Self::Prototype(_) => "a prototype".to_owned(),
        }
    }
}

/// The names of one pair of braces.
#[derive(Default)]
pub(super) struct Scope<'m> {
    names: HashMap<String, Meaning<'m>>,
    variables: HashMap<&'m str, &'m Variable>,
    /// `%r<100>`: prefix, count and meaning of each.
    runs: Vec<(&'m str, u32, Meaning<'m>)>,
}

impl<'m> Scope<'m> {
    /// Adds a name. Returns `false` if the scope has it already.
    #[must_use]
    pub(super) fn insert(&mut self, name: &str, meaning: Meaning<'m>) -> bool {
        let is_new = self.get(name).is_none();
        self.names.insert(name.to_owned(), meaning);
        is_new
    }

    /// Adds the registers or variables of a declaration. Returns `false` if the scope has one of the
    /// names already.
    #[must_use]
    pub(super) fn declare(&mut self, variable: &'m Variable) -> bool {
        let name = variable.name.as_str();
        let meaning = match (variable.space, variable.vector) {
            (StateSpace::Register, 1) => Meaning::Register(variable.ty),
            (StateSpace::Register, count) => Meaning::VectorRegister(variable.ty, count),
            (space, _) => Meaning::Variable(space),
        };
        let Some(count) = variable.numbered else {
            self.variables.insert(name, variable);
            return self.insert(name, meaning);
        };
        let has_prefix = self.runs.iter().any(|(prefix, ..)| *prefix == name);
        let is_new = !has_prefix && !self.names.keys().any(|own| is_numbered(own, name, count));
        self.runs.push((name, count, meaning));
        is_new
    }

    /// The declaration of a variable or register, unless it is one of a run.
    pub(super) fn variable(&self, name: &str) -> Option<&'m Variable> {
        self.variables.get(name).copied()
    }

    pub(super) fn get(&self, name: &str) -> Option<Meaning<'m>> {
        if let Some(meaning) = self.whole(name) {
            return Some(meaning);
        }
        let (vector, component) = name.rsplit_once('.')?;
        match self.whole(vector)? {
            Meaning::VectorRegister(ty, _) if COMPONENTS.contains(&component) => Some(Meaning::Register(ty)),
            // A part of an operand of a video instruction.
            Meaning::Register(ty) if is_part(component) => Some(Meaning::Register(ty)),
            _ => None,
        }
    }

    /// The meaning of a name without a component.
    fn whole(&self, name: &str) -> Option<Meaning<'m>> {
        let run = || self.runs.iter().find(|(prefix, count, _)| is_numbered(name, prefix, *count));
        self.names.get(name).copied().or_else(|| run().map(|(.., meaning)| *meaning))
    }
}

/// Whether a component selects bytes or halves, as video instructions do: `b0`, `h1`, `b7531`.
fn is_part(component: &str) -> bool {
    let digits = component.strip_prefix(['b', 'h']).unwrap_or("");
    (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte))
}

/// The names of a vector's elements.
const COMPONENTS: [&str; 8] = ["x", "y", "z", "w", "r", "g", "b", "a"];
