//! Tests: what may follow `is`.

use super::callable::Given;
use super::error::{Error, Result};
use super::interpreter::Interpreter;
use super::syntax::{Binary, Comparison};
use super::value::Value;
use super::{operators, write};

impl Interpreter {
    pub(super) fn test(&mut self, name: &str, value: &Value, given: Given) -> Result<bool> {
        let fail = |message: String| Err(Error::Failed(message));
        let argument = || match given.positional.first() {
            Some(argument) => Ok(argument),
            None => Err(Error::Failed(format!("the test `{name}` lacks an argument"))),
        };
        let comparison = match name {
            "eq" | "equalto" | "==" => Some(Comparison::Equal),
            "ne" | "!=" => Some(Comparison::NotEqual),
            "lt" | "lessthan" | "<" => Some(Comparison::Less),
            "le" | "<=" => Some(Comparison::LessOrEqual),
            "gt" | "greaterthan" | ">" => Some(Comparison::Greater),
            "ge" | ">=" => Some(Comparison::GreaterOrEqual),
            "in" => Some(Comparison::In),
            _ => None,
        };
        if let Some(comparison) = comparison {
            return operators::compare(self, comparison, value, argument()?);
        }
        Ok(match name {
            "defined" => !matches!(value, Value::Undefined),
            "undefined" => matches!(value, Value::Undefined),
            "none" => matches!(value, Value::None),
            "boolean" => matches!(value, Value::Bool(_)),
            "true" => matches!(value, Value::Bool(true)),
            "false" => matches!(value, Value::Bool(false)),
            "integer" => matches!(value, Value::Int(_)),
            "float" => matches!(value, Value::Float(_)),
            "number" => value.as_float().is_some(),
            "string" => matches!(value, Value::Text(_)),
            "mapping" => matches!(value, Value::Dict(_)),
            // Python asks for a length and for items, which an undefined value has.
            "sequence" => {
                matches!(
                    value,
                    Value::Text(_) | Value::List(_) | Value::Tuple(_) | Value::Dict(_) | Value::Undefined
                )
            }
            "iterable" => matches!(
                value,
                Value::Text(_)
                    | Value::List(_)
                    | Value::Tuple(_)
                    | Value::Dict(_)
                    | Value::View(..)
                    | Value::Generator(_)
                    | Value::Undefined
            ),
            // An undefined value can be called, to fail then.
            "callable" => matches!(value, Value::Callable(_) | Value::Loop(_) | Value::Undefined),
            "escaped" => matches!(value, Value::Text(text) if text.is_safe),
            "even" | "odd" | "divisibleby" => {
                let by = if name == "divisibleby" { argument()?.clone() } else { Value::Int(2) };
                let rest = operators::binary(self, Binary::Remainder, value, &by)?;
                rest.equals(&Value::Int((name == "odd").into()))
            }
            "lower" | "upper" => {
                let text = write::string(self, value)?;
                let is_wanted = |c: char| if name == "lower" { c.is_lowercase() } else { c.is_uppercase() };
                let is_other = |c: char| if name == "lower" { c.is_uppercase() } else { c.is_lowercase() };
                text.chars().any(is_wanted) && !text.chars().any(is_other)
            }
            "sameas" => value.is_same(argument()?),
            "filter" | "test" if matches!(value, Value::List(_) | Value::Dict(_) | Value::View(..)) => {
                return fail(format!("{} is no name", value.kind()));
            }
            "filter" => value.as_text().is_some_and(|name| super::filters::NAMES.contains(&name.as_ref())),
            "test" => value.as_text().is_some_and(|name| NAMES.contains(&name.as_ref())),
            _ => return fail(format!("there is no test `{name}`")),
        })
    }
}

/// All tests.
const NAMES: [&str; 39] = [
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];
