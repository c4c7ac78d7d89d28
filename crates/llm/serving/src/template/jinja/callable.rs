//! Variables, and the values that hold some: macros, `loop`, functions and their arguments.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;

use super::syntax::{For, Macro};
use super::value::Value;

/// Variables, and those around them.
#[derive(Debug)]
pub(super) struct Scope {
    variables: RefCell<IndexMap<String, Value>>,
    parent: Option<Rc<Scope>>,
}

impl Scope {
    pub(super) fn new(parent: Option<Rc<Scope>>) -> Rc<Scope> {
        Rc::new(Scope { variables: RefCell::new(IndexMap::new()), parent })
    }

    pub(super) fn set(&self, name: &str, value: Value) {
        self.variables.borrow_mut().insert(name.to_owned(), value);
    }

    pub(super) fn get(&self, name: &str) -> Option<Value> {
        let mut scope = Some(self);
        while let Some(here) = scope {
            if let Some(value) = here.variables.borrow().get(name) {
                return Some(value.clone());
            }
            scope = here.parent.as_deref();
        }
        None
    }
}

/// What can be called.
#[derive(Debug)]
pub(super) enum Callable {
    /// A function that every template has.
    Global(&'static str),
    /// A method of a value.
    Method(Value, String),
    /// A macro, where it was defined, and the macro that a `call` block gave to it.
    Macro(Arc<Macro>, Rc<Scope>),
    /// `cycler(..)`, and its position.
    Cycler(Vec<Value>, Cell<usize>),
    /// `joiner(..)`, and whether it was called.
    Joiner(Value, Cell<bool>),
}

/// `loop`.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) index: usize,
    pub(super) length: usize,
    pub(super) depth: usize,
    pub(super) previous: Value,
    pub(super) next: Value,
    pub(super) changed: Rc<RefCell<Option<Vec<Value>>>>,
    /// The statement and its surroundings, if it may call itself.
    pub(super) statement: Option<(Arc<For>, Rc<Scope>)>,
}

/// Evaluated arguments.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) positional: Vec<Value>,
    pub(super) named: Vec<(String, Value)>,
}

impl Given {
    /// The argument with this position or name.
    pub(super) fn take(&mut self, position: usize, name: &str) -> Option<Value> {
        if let Some(value) = self.positional.get(position) {
            return Some(value.clone());
        }
        self.named.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
    }
}

impl Loop {
    /// An attribute of `loop`.
    pub(super) fn attribute(&self, name: &str) -> Option<Value> {
        let int = |number: usize| Some(Value::Int(number as i128));
        match name {
            "index" => int(self.index + 1),
            "index0" => int(self.index),
            "revindex" => int(self.length - self.index),
            "revindex0" => int(self.length - self.index - 1),
            "first" => Some(Value::Bool(self.index == 0)),
            "last" => Some(Value::Bool(self.index + 1 == self.length)),
            "length" => int(self.length),
            "depth" => int(self.depth),
            "depth0" => int(self.depth - 1),
            "previtem" => Some(self.previous.clone()),
            "nextitem" => Some(self.next.clone()),
            _ => None,
        }
    }

    /// Whether these values differ from the last call's.
    pub(super) fn changed(&self, values: Vec<Value>) -> bool {
        let mut last = self.changed.borrow_mut();
        let is_same = last.as_ref().is_some_and(|last| {
            last.len() == values.len() && last.iter().zip(&values).all(|(a, b)| a.equals(b))
        });
        *last = Some(values);
        !is_same
    }
}
