//! What the names of a module mean.

use std::collections::HashMap;

use warpwright_arch::{SpecialRegister, Target};

use crate::syntax::{
    AddressBase, Function, Module, Operand, StateSpace, Statement, Type, Variable, is_numbered,
};

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

/// The names that a statement may use, and what the module is for.
pub(super) struct Names<'a, 'm> {
    pub(super) version: (u32, u32),
    /// The target, if the table knows its architecture.
    pub(super) target: Option<Target>,
    module: &'a Scope<'m>,
    /// The open braces of a function, innermost last.
    pub(super) scopes: Vec<Scope<'m>>,
    /// The parameters of the function.
    pub(super) parameters: &'m [Variable],
}

impl<'a, 'm> Names<'a, 'm> {
    /// The names of a module, outside of functions.
    pub(super) fn new(module: &Module, scope: &'a Scope<'m>) -> Self {
        let target = module.target.first().and_then(|word| Target::parse(word));
        Self {
            version: module.version,
            target: target.filter(|target| target.ptx_version().is_some()),
            module: scope,
            scopes: Vec::new(),
            parameters: &[],
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

    /// Refuses operands that name nothing.
    pub(super) fn declared(&self, operands: &[Operand]) -> Result<(), String> {
        operands.iter().try_for_each(|operand| match operand {
            Operand::Name(name) | Operand::Not(name) | Operand::Offset(name, _) => self.declared_name(name),
            Operand::Pair(a, b) => {
                [a, b].into_iter().try_for_each(|own| self.declared(std::slice::from_ref(own)))
            }
            Operand::Vector(all) | Operand::List(all) => self.declared(all),
            Operand::Address(address) => {
                if let AddressBase::Name(name) = &address.base {
                    self.declared_name(name)?;
                }
                self.declared(&address.rest)
            }
            Operand::Number(_) | Operand::Sink => Ok(()),
        })
    }

    pub(super) fn declared_name(&self, name: &str) -> Result<(), String> {
        if self.meaning(name).is_some() {
            return Ok(());
        }
        let Some(special) = SpecialRegister::named(name) else {
            return Err(format!("`{name}` is not declared."));
        };
        match self.target {
            Some(target) if !special.exists_on(self.version, target) => {
                Err(format!("`{name}` exists in {}.", special.since()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a component selects bytes or halves, as video instructions do: `b0`, `h1`, `b7531`.
fn is_part(component: &str) -> bool {
    let digits = component.strip_prefix(['b', 'h']).unwrap_or("");
    (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte))
}

/// The names of a vector's elements.
const COMPONENTS: [&str; 8] = ["x", "y", "z", "w", "r", "g", "b", "a"];
