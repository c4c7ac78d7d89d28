//! Evaluates expressions.

use std::rc::Rc;

use indexmap::IndexMap;

use super::callable::{Given, Scope};
use super::error::{Error, Result};
use super::functions::global;
use super::interpreter::{BYTES_PER_STEP, Interpreter};
use super::syntax::{Arguments, Comparison, Expression};
use super::value::{Key, Value};
use super::{attributes, operators, write};

impl Interpreter {
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
                None => global(name),
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
                attributes::attribute(&value, name)?
            }
            Expression::Item(value, key) => {
                let (value, key) = (self.value(value, scope)?, self.value(key, scope)?);
                attributes::item(&value, &key)?
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

    pub(super) fn given(&mut self, arguments: &Arguments, scope: &Rc<Scope>) -> Result<Given> {
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
}
