//! Runs the statements of a template, within bounds of time and memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;

use super::syntax::{Arguments, Comparison, Expression, Filter, For, Macro, Node, Statement, Target};
use super::value::{Key, Value};
use super::{Error, operators, write};

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

    fn get(&self, name: &str) -> Option<Value> {
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
    changed: Rc<RefCell<Option<Vec<Value>>>>,
    /// The statement and its surroundings, if it may call itself.
    statement: Option<(Arc<For>, Rc<Scope>)>,
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

/// What follows a statement.
#[derive(PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// A run of a template.
pub(super) struct Interpreter {
    /// Steps that are left. A step is an expression, or some bytes of text.
    steps: u64,
    /// The most bytes of a text.
    longest: usize,
    depth: usize,
    pub(super) line: usize,
}

/// Steps that a round of a loop counts as, for its scope.
const STEPS_PER_ROUND: usize = 10;
/// Bytes that count as a step.
const BYTES_PER_STEP: usize = 16;
/// How deep expressions, blocks and macros are nested at most.
const DEEPEST: usize = 1000;

type Result<T> = std::result::Result<T, Error>;

impl Interpreter {
    pub(super) fn new(steps: u64, longest: usize) -> Interpreter {
        Interpreter { steps, longest, depth: 0, line: 1 }
    }

    /// Counts work.
    pub(super) fn spend(&mut self, steps: usize) -> Result<()> {
        match self.steps.checked_sub(steps as u64) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(Error::Failed("it takes too long on this conversation".to_owned())),
        }
    }

    /// Counts bytes of a text that is about to be made.
    pub(super) fn room(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.longest {
            return Err(Error::Failed(format!("it makes a text of more than {} bytes", self.longest)));
        }
        self.spend(bytes / BYTES_PER_STEP + 1)
    }

    pub(super) fn made(&mut self, text: String) -> Result<Value> {
        self.room(text.len())?;
        Ok(Value::text(text))
    }

    fn nested<T>(&mut self, run: impl FnOnce(&mut Interpreter) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Error::Failed("it calls itself without end".to_owned()));
        }
        let result = run(self);
        self.depth -= 1;
        result
    }

    /// Runs statements.
    pub(super) fn run(&mut self, body: &[Node], scope: &Rc<Scope>, out: &mut String) -> Result<()> {
        self.body(body, scope, out).map(|_| ())
    }

    fn body(&mut self, body: &[Node], scope: &Rc<Scope>, out: &mut String) -> Result<Flow> {
        for node in body {
            self.line = node.line;
            let flow = self.statement(&node.statement, scope, out)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn put(&mut self, text: &str, out: &mut String) -> Result<()> {
        if out.len() + text.len() > self.longest {
            self.room(out.len() + text.len())?;
        }
        self.spend(text.len() / BYTES_PER_STEP + 1)?;
        out.push_str(text);
        Ok(())
    }

    fn captured(&mut self, body: &[Node], scope: &Rc<Scope>) -> Result<String> {
        let mut text = String::new();
        self.nested(|run| run.body(body, &Scope::new(Some(scope.clone())), &mut text))?;
        Ok(text)
    }

    fn statement(&mut self, statement: &Statement, scope: &Rc<Scope>, out: &mut String) -> Result<Flow> {
        match statement {
            Statement::Text(text) => self.put(text, out)?,
            Statement::Output(expression) => {
                let value = self.value(expression, scope)?;
                match value.as_text() {
                    Some(text) => self.put(text, out)?,
                    None => {
                        let text = write::string(self, &value)?;
                        self.put(&text, out)?;
                    }
                }
            }
            Statement::For(statement) => {
                let items = self.value(&statement.items, scope)?;
                return self.nested(|run| run.for_loop(statement, items, scope, 1, out));
            }
            Statement::If(branches) => {
                for (condition, body) in branches {
                    let holds = match condition {
                        Some(condition) => self.value(condition, scope)?.is_true(),
                        None => true,
                    };
                    if holds {
                        return self.nested(|run| run.body(body, scope, out));
                    }
                }
            }
            Statement::Set(target, expression) => {
                let value = self.value(expression, scope)?;
                self.assign(target, value, scope)?;
            }
            Statement::SetBlock(target, filters, body) => {
                let text = self.captured(body, scope)?;
                let value = self.filtered(text, filters, scope)?;
                self.assign(target, value, scope)?;
            }
            Statement::Macro(definition) => {
                let callable = Callable::Macro(definition.clone(), scope.clone());
                scope.set(&definition.name, Value::Callable(Rc::new(callable)));
            }
            Statement::Call(call, body) => {
                let Expression::Call(callee, arguments) = call else { return Ok(Flow::Next) };
                let callee = self.value(callee, scope)?;
                let mut given = self.given(arguments, scope)?;
                let caller = Callable::Macro(body.clone(), scope.clone());
                given.named.push(("caller".to_owned(), Value::Callable(Rc::new(caller))));
                let value = self.call(&callee, given)?;
                let text = write::string(self, &value)?;
                self.put(&text, out)?;
            }
            Statement::FilterBlock(filters, body) => {
                let text = self.captured(body, scope)?;
                let value = self.filtered(text, filters, scope)?;
                let text = write::string(self, &value)?;
                self.put(&text, out)?;
            }
            Statement::With(variables, body) => {
                let inner = Scope::new(Some(scope.clone()));
                for (target, expression) in variables {
                    let value = self.value(expression, scope)?;
                    self.assign(target, value, &inner)?;
                }
                return self.nested(|run| run.body(body, &inner, out));
            }
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn filtered(&mut self, text: String, filters: &[Filter], scope: &Rc<Scope>) -> Result<Value> {
        let mut value = self.made(text)?;
        for filter in filters {
            let given = self.given(&filter.arguments, scope)?;
            value = self.filter(&filter.name, value, given)?;
        }
        Ok(value)
    }

    fn assign(&mut self, target: &Target, value: Value, scope: &Rc<Scope>) -> Result<()> {
        match target {
            Target::Name(name) => scope.set(name, value),
            Target::Attribute(name, attribute) => match scope.get(name) {
                Some(Value::Namespace(namespace)) => {
                    namespace.set(attribute, value).map_err(Error::Failed)?
                }
                _ => return Err(Error::Failed(format!("`{name}` is no namespace"))),
            },
            Target::Tuple(targets) => {
                let values = self.items(&value)?;
                if values.len() != targets.len() {
                    let message = format!("{} values do not fit {} names", values.len(), targets.len());
                    return Err(Error::Failed(message));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value, scope)?;
                }
            }
        }
        Ok(())
    }

    fn for_loop(
        &mut self,
        statement: &Arc<For>,
        items: Value,
        scope: &Rc<Scope>,
        depth: usize,
        out: &mut String,
    ) -> Result<Flow> {
        let mut items = self.items(&items)?;
        if let Some(condition) = &statement.condition {
            let mut kept = Vec::new();
            for item in items {
                let inner = Scope::new(Some(scope.clone()));
                self.assign(&statement.target, item.clone(), &inner)?;
                if self.value(condition, &inner)?.is_true() {
                    kept.push(item);
                }
            }
            items = kept;
        }
        if items.is_empty() {
            let inner = Scope::new(Some(scope.clone()));
            return self.body(&statement.otherwise, &inner, out);
        }
        let changed = Rc::new(RefCell::new(None));
        for index in 0..items.len() {
            self.spend(STEPS_PER_ROUND)?;
            let inner = Scope::new(Some(scope.clone()));
            self.assign(&statement.target, items[index].clone(), &inner)?;
            let of_loop = Loop {
                index,
                length: items.len(),
                depth,
                previous: index
                    .checked_sub(1)
                    .and_then(|index| items.get(index))
                    .cloned()
                    .unwrap_or(Value::Undefined),
                next: items.get(index + 1).cloned().unwrap_or(Value::Undefined),
                changed: changed.clone(),
                statement: statement.is_recursive.then(|| (statement.clone(), scope.clone())),
            };
            inner.set("loop", Value::Loop(Rc::new(of_loop)));
            if self.body(&statement.body, &inner, out)? == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    /// The values that iteration gives.
    pub(super) fn items(&mut self, value: &Value) -> Result<Vec<Value>> {
        let items = match value {
            Value::List(items) | Value::Tuple(items) | Value::View(_, items) => items.items.clone(),
            Value::Generator(items) => items.take().into(),
            Value::Dict(dict) => dict.map.keys().map(Key::value).collect(),
            Value::Text(text) => {
                self.spend(text.text.len())?;
                text.text.chars().map(|character| Value::text(character.to_string())).collect()
            }
            Value::Undefined => Vec::new(),
            other => return Err(Error::Failed(format!("{} cannot be iterated", other.kind()))),
        };
        self.spend(items.len())?;
        Ok(items)
    }

    pub(super) fn value(&mut self, expression: &Expression, scope: &Rc<Scope>) -> Result<Value> {
        self.spend(1)?;
        self.nested(|run| run.evaluate(expression, scope))
    }

    fn evaluate(&mut self, expression: &Expression, scope: &Rc<Scope>) -> Result<Value> {
        Ok(match expression {
            Expression::None => Value::None,
            Expression::Bool(value) => Value::Bool(*value),
            Expression::Int(number) => Value::Int(*number),
            Expression::Float(number) => Value::Float(*number),
            Expression::Text(text) => Value::text(text.clone()),
            Expression::Name(name) => match scope.get(name) {
                Some(value) => value,
                None => super::functions::global(name),
            },
            Expression::List(items) => Value::list(self.values(items, scope)?).map_err(Error::Failed)?,
            Expression::Tuple(items) => Value::tuple(self.values(items, scope)?).map_err(Error::Failed)?,
            Expression::Dict(entries) => {
                let mut map = IndexMap::new();
                for (key, value) in entries {
                    let key = self.value(key, scope)?.key().map_err(Error::Failed)?;
                    map.insert(key, self.value(value, scope)?);
                }
                Value::dict(map).map_err(Error::Failed)?
            }
            Expression::Attribute(value, name) => {
                let value = self.value(value, scope)?;
                operators::attribute(&value, name)?
            }
            Expression::Item(value, key) => {
                let (value, key) = (self.value(value, scope)?, self.value(key, scope)?);
                operators::item(&value, &key)?
            }
            Expression::Slice(value, bounds) => {
                let value = self.value(value, scope)?;
                let mut given = [Value::None, Value::None, Value::None];
                for (bound, given) in bounds.iter().zip(&mut given) {
                    if let Some(bound) = bound {
                        *given = self.value(bound, scope)?;
                    }
                }
                operators::slice(self, &value, &given)?
            }
            Expression::Call(callee, arguments) => {
                let callee = self.value(callee, scope)?;
                let given = self.given(arguments, scope)?;
                self.call(&callee, given)?
            }
            Expression::Filter(value, filter) => {
                let value = self.value(value, scope)?;
                let given = self.given(&filter.arguments, scope)?;
                self.filter(&filter.name, value, given)?
            }
            Expression::Test(value, test) => {
                let value = self.value(value, scope)?;
                let given = self.given(&test.arguments, scope)?;
                Value::Bool(self.test(&test.name, &value, given)?)
            }
            Expression::Not(value) => Value::Bool(!self.value(value, scope)?.is_true()),
            Expression::Negative(value) => operators::negative(&self.value(value, scope)?)?,
            Expression::Positive(value) => {
                let value = self.value(value, scope)?;
                match (value.as_int(), &value) {
                    (Some(number), _) => Value::Int(number),
                    (None, Value::Float(_)) => value,
                    _ => return Err(Error::Failed(format!("{} has no sign", value.kind()))),
                }
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.value(left, scope)?, self.value(right, scope)?);
                operators::binary(self, *operator, &left, &right)?
            }
            Expression::Compare(left, rest) => Value::Bool(self.holds(left, rest, scope)?),
            Expression::And(left, right) => {
                let left = self.value(left, scope)?;
                if left.is_true() { self.value(right, scope)? } else { left }
            }
            Expression::Or(left, right) => {
                let left = self.value(left, scope)?;
                if left.is_true() { left } else { self.value(right, scope)? }
            }
            Expression::Concat(parts) => {
                let mut text = String::new();
                for part in parts {
                    let value = self.value(part, scope)?;
                    let part = write::string(self, &value)?;
                    self.put(&part, &mut text)?;
                }
                self.made(text)?
            }
            Expression::If(condition, value, otherwise) => {
                if self.value(condition, scope)?.is_true() {
                    self.value(value, scope)?
                } else if let Some(otherwise) = otherwise {
                    self.value(otherwise, scope)?
                } else {
                    Value::Undefined
                }
            }
        })
    }

    /// Whether all comparisons of a chain hold: `a < b < c`.
    fn holds(
        &mut self,
        left: &Expression,
        rest: &[(Comparison, Expression)],
        scope: &Rc<Scope>,
    ) -> Result<bool> {
        let mut left = self.value(left, scope)?;
        for (comparison, right) in rest {
            let right = self.value(right, scope)?;
            if !self.compare(*comparison, &left, &right)? {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    fn values(&mut self, expressions: &[Expression], scope: &Rc<Scope>) -> Result<Vec<Value>> {
        expressions.iter().map(|expression| self.value(expression, scope)).collect()
    }

    fn compare(&mut self, comparison: Comparison, left: &Value, right: &Value) -> Result<bool> {
        // Comparing reads both.
        let bytes = |value: &Value| value.as_text().map_or(0, |text| text.len());
        self.spend(bytes(left).min(bytes(right)) / BYTES_PER_STEP)?;
        operators::compare(self, comparison, left, right)
    }

    fn given(&mut self, arguments: &Arguments, scope: &Rc<Scope>) -> Result<Given> {
        let mut given = Given { positional: self.values(&arguments.positional, scope)?, named: Vec::new() };
        if let Some(list) = &arguments.list {
            let list = self.value(list, scope)?;
            given.positional.extend(self.items(&list)?);
        }
        for (name, expression) in &arguments.named {
            given.named.push((name.clone(), self.value(expression, scope)?));
        }
        if let Some(dict) = &arguments.dict {
            let Value::Dict(dict) = self.value(dict, scope)? else {
                return Err(Error::Failed("`**` needs a dictionary".to_owned()));
            };
            for (key, value) in &dict.map {
                let Key::Text(name) = key else {
                    return Err(Error::Failed("a name of an argument is no text".to_owned()));
                };
                given.named.push((name.as_ref().to_owned(), value.clone()));
            }
        }
        Ok(given)
    }

    /// Calls a value.
    pub(super) fn call(&mut self, callee: &Value, given: Given) -> Result<Value> {
        self.nested(|run| match callee {
            Value::Callable(callable) => match &**callable {
                Callable::Global(name) => run.function(name, given),
                Callable::Method(value, name) => run.method(value, name, given),
                Callable::Macro(definition, scope) => run.call_macro(definition, scope, given),
                Callable::Cycler(..) => Err(Error::Failed("a cycler cannot be called".to_owned())),
                Callable::Joiner(text, was_called) => {
                    Ok(if was_called.replace(true) { text.clone() } else { Value::text("") })
                }
            },
            Value::Loop(of_loop) => {
                let (Some((statement, scope)), Some(items)) = (&of_loop.statement, given.positional.first())
                else {
                    return Err(Error::Failed("`loop` can be called in a recursive loop only".to_owned()));
                };
                let mut text = String::new();
                run.for_loop(statement, items.clone(), scope, of_loop.depth + 1, &mut text)?;
                run.made(text)
            }
            other => Err(Error::Failed(format!("{} cannot be called", other.kind()))),
        })
    }

    fn call_macro(&mut self, definition: &Arc<Macro>, scope: &Rc<Scope>, given: Given) -> Result<Value> {
        let wrong =
            |message: String| Err(Error::Failed(format!("the macro `{}` {message}", definition.name)));
        let inner = Scope::new(Some(scope.clone()));
        let parameters = &definition.parameters;
        let mut named = given.named;
        let mut take =
            |name: &str| named.iter().position(|(found, _)| found == name).map(|at| named.remove(at).1);
        for (position, (name, default)) in parameters.iter().enumerate() {
            let by_name = take(name);
            let value = match (given.positional.get(position), by_name) {
                (Some(_), Some(_)) => return wrong(format!("gets `{name}` twice")),
                (Some(value), None) => value.clone(),
                (None, Some(value)) => value,
                (None, None) => match default {
                    Some(default) => self.value(default, &inner)?,
                    None => Value::Undefined,
                },
            };
            inner.set(name, value);
        }
        let caller = take("caller");
        let extra: Vec<Value> = given.positional.into_iter().skip(parameters.len()).collect();
        if definition.reads("varargs") {
            inner.set("varargs", Value::tuple(extra).map_err(Error::Failed)?);
        } else if !extra.is_empty() {
            return wrong(format!("takes {} arguments", parameters.len()));
        }
        if definition.reads("kwargs") {
            let entries = named.into_iter().map(|(name, value)| (Key::Text(name.into()), value));
            inner.set("kwargs", Value::dict(entries.collect()).map_err(Error::Failed)?);
        } else if let Some((name, _)) = named.first() {
            return wrong(format!("has no parameter `{name}`"));
        }
        match caller {
            Some(caller) => inner.set("caller", caller),
            None if definition.reads("caller") => inner.set("caller", Value::Undefined),
            None => {}
        }
        let mut text = String::new();
        let line = self.line;
        self.body(&definition.body, &inner, &mut text)?;
        self.line = line;
        self.made(text)
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
