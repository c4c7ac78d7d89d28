//! Runs the statements of a template, and calls its macros and loops.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::callable::{Callable, Given, Loop, Scope};
use super::error::{Error, Result};
use super::interpreter::{Interpreter, STEPS_PER_ROUND};
use super::syntax::{Expression, Filter, For, Macro, Node, Statement, Target};
use super::value::{Key, Value};
use super::write;

/// What follows a statement.
#[derive(PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

impl Interpreter {
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
