//! Operators, attributes and items, as Python has them.

use std::cmp::Ordering;

use super::error::{Error, Result, fail};
use super::interpreter::Interpreter;
use super::syntax::{Binary, Comparison};
use super::value::Value;
use super::{format, write};

/// `value[start:end:step]`.
pub(super) fn slice(run: &mut Interpreter, value: &Value, bounds: &[Value; 3]) -> Result<Value> {
    let mut numbers = [None; 3];
    for (number, bound) in numbers.iter_mut().zip(bounds) {
        *number = match (bound, bound.as_int()) {
            (Value::None, _) => None,
            (_, Some(bound)) => Some(bound),
            _ => return fail("a bound of a slice is no integer"),
        };
    }
    let select = |length: usize| -> Result<Vec<usize>> {
        let length = length as i128;
        let step = numbers[2].unwrap_or(1);
        if step == 0 {
            return fail("the step of a slice is 0");
        }
        let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
        let place = |bound: Option<i128>, default: i128| match bound {
            None => default,
            Some(bound) if bound < 0 => bound.saturating_add(length).max(low),
            Some(bound) => bound.min(high),
        };
        let start = place(numbers[0], if step > 0 { low } else { high });
        let end = place(numbers[1], if step > 0 { high } else { low });
        let mut selected = Vec::new();
        let mut at = start;
        while if step > 0 { at < end } else { at > end } {
            selected.push(at as usize);
            at = at.saturating_add(step);
        }
        Ok(selected)
    };
    let pick = |items: &[Value]| -> Result<Vec<Value>> {
        Ok(select(items.len())?.into_iter().filter_map(|index| items.get(index).cloned()).collect())
    };
    match value {
        Value::Text(text) => {
            let characters: Vec<char> = text.text.chars().collect();
            run.spend(characters.len() / 4)?;
            run.made(
                select(characters.len())?.into_iter().filter_map(|index| characters.get(index)).collect(),
            )
        }
        Value::List(items) => {
            run.spend(items.items.len())?;
            Value::list(pick(&items.items)?).map_err(Error::Failed)
        }
        Value::Tuple(items) => Value::tuple(pick(&items.items)?).map_err(Error::Failed),
        other => fail(format!("{} has no slices", other.kind())),
    }
}

pub(super) fn negative(value: &Value) -> Result<Value> {
    match (value, value.as_int()) {
        (Value::Float(number), _) => Ok(Value::Float(-number)),
        (_, Some(number)) => Ok(Value::Int(-number)),
        _ => fail(format!("{} has no negative", value.kind())),
    }
}

pub(super) fn binary(run: &mut Interpreter, operator: Binary, left: &Value, right: &Value) -> Result<Value> {
    if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
        return integers(operator, a, b);
    }
    if let (Some(a), Some(b)) = (left.as_float(), right.as_float()) {
        return floats(operator, a, b);
    }
    match (operator, left, right) {
        (Binary::Add, Value::Text(a), Value::Text(b)) => {
            run.room(a.text.len() + b.text.len())?;
            if a.is_safe == b.is_safe {
                let text: String = [a.text.as_ref(), b.text.as_ref()].concat();
                return Ok(if a.is_safe { Value::markup(text) } else { Value::text(text) });
            }
            let escape = |text: &super::value::Text| {
                if text.is_safe { text.text.to_string() } else { write::escaped(&text.text) }
            };
            Ok(Value::markup(escape(a) + &escape(b)))
        }
        (Binary::Add, Value::List(a), Value::List(b)) => {
            run.spend(a.items.len() + b.items.len())?;
            Value::list([&a.items[..], &b.items[..]].concat()).map_err(Error::Failed)
        }
        (Binary::Add, Value::Tuple(a), Value::Tuple(b)) => {
            run.spend(a.items.len() + b.items.len())?;
            Value::tuple([&a.items[..], &b.items[..]].concat()).map_err(Error::Failed)
        }
        (Binary::Multiply, Value::Text(text), number) | (Binary::Multiply, number, Value::Text(text))
            if number.as_int().is_some() =>
        {
            let times = usize::try_from(number.as_int().unwrap_or(0).max(0)).unwrap_or(usize::MAX);
            run.room(text.text.len().saturating_mul(times))?;
            let repeated = text.text.repeat(times);
            Ok(if text.is_safe { Value::markup(repeated) } else { Value::text(repeated) })
        }
        (Binary::Multiply, Value::List(items), number) | (Binary::Multiply, number, Value::List(items))
            if number.as_int().is_some() =>
        {
            let times = usize::try_from(number.as_int().unwrap_or(0).max(0)).unwrap_or(usize::MAX);
            Value::list(repeated(run, &items.items, times)?).map_err(Error::Failed)
        }
        (Binary::Multiply, Value::Tuple(items), number) | (Binary::Multiply, number, Value::Tuple(items))
            if number.as_int().is_some() =>
        {
            let times = usize::try_from(number.as_int().unwrap_or(0).max(0)).unwrap_or(usize::MAX);
            Value::tuple(repeated(run, &items.items, times)?).map_err(Error::Failed)
        }
        (Binary::Remainder, Value::Text(text), value) => {
            let result = format::printf(run, &text.text, value, text.is_safe)?;
            Ok(if text.is_safe { Value::markup(result) } else { Value::text(result) })
        }
        _ => {
            fail(format!("{} and {} do not go together in `{}`", left.kind(), right.kind(), symbol(operator)))
        }
    }
}

fn repeated(run: &mut Interpreter, items: &[Value], times: usize) -> Result<Vec<Value>> {
    run.spend(items.len().saturating_mul(times))?;
    // Nothing is nothing, however often.
    let times = if items.is_empty() { 0 } else { times };
    Ok((0..times).flat_map(|_| items.iter().cloned()).collect())
}

fn symbol(operator: Binary) -> &'static str {
    match operator {
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::FloorDivide => "//",
        Binary::Remainder => "%",
        Binary::Power => "**",
    }
}

fn integers(operator: Binary, a: i128, b: i128) -> Result<Value> {
    let is_division = matches!(operator, Binary::Divide | Binary::FloorDivide | Binary::Remainder);
    if is_division && b == 0 {
        return fail("a division by zero");
    }
    let floor = |a: i128, b: i128| {
        a.checked_div_euclid(b)
            .map(|quotient| if b < 0 && a.rem_euclid(b) != 0 { quotient - 1 } else { quotient })
    };
    let result = match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::FloorDivide => floor(a, b),
        Binary::Remainder => floor(a, b).and_then(|quotient| Some(a - quotient.checked_mul(b)?)),
        Binary::Power if b >= 0 => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        Binary::Divide | Binary::Power => return floats(operator, a as f64, b as f64),
    };
    result.map(Value::Int).map_or_else(|| fail("a number is too large"), Ok)
}

fn floats(operator: Binary, a: f64, b: f64) -> Result<Value> {
    let is_division = matches!(operator, Binary::Divide | Binary::FloorDivide | Binary::Remainder);
    if is_division && b == 0.0 {
        return fail("a division by zero");
    }
    let is_wrong = a == 0.0 && b < 0.0 || a < 0.0 && b.fract() != 0.0 || a.powf(b).is_infinite();
    if operator == Binary::Power && a.is_finite() && b.is_finite() && is_wrong {
        return fail("a power has no value");
    }
    Ok(Value::Float(match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        Binary::FloorDivide => {
            let whole = (a - a % b) / b;
            // The quotient is rounded towards zero; Python rounds it down.
            let is_above = a % b != 0.0 && (b < 0.0) != (a % b < 0.0);
            let floor = if is_above { whole.round() - 1.0 } else { whole.round() };
            if floor == 0.0 { 0f64.copysign(a / b) } else { floor }
        }
        Binary::Remainder => remainder(a, b),
        Binary::Power => a.powf(b),
    }))
}

pub(super) fn compare(
    run: &mut Interpreter,
    comparison: Comparison,
    left: &Value,
    right: &Value,
) -> Result<bool> {
    let ordered = |test: fn(Ordering) -> bool| match order(left, right)? {
        Some(ordering) => Ok(test(ordering)),
        None => Ok(false),
    };
    match comparison {
        Comparison::Equal => Ok(left.equals(right)),
        Comparison::NotEqual => Ok(!left.equals(right)),
        Comparison::Less => ordered(Ordering::is_lt),
        Comparison::LessOrEqual => ordered(Ordering::is_le),
        Comparison::Greater => ordered(Ordering::is_gt),
        Comparison::GreaterOrEqual => ordered(Ordering::is_ge),
        Comparison::In => contains(run, right, left),
        Comparison::NotIn => contains(run, right, left).map(|found| !found),
    }
}

/// Which value comes first. `None` for what compares with nothing.
pub(super) fn order(left: &Value, right: &Value) -> Result<Option<Ordering>> {
    if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
        return Ok(Some(a.cmp(&b)));
    }
    if let (Some(a), Some(b)) = (left.as_float(), right.as_float()) {
        return Ok(a.partial_cmp(&b));
    }
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => Ok(Some(a.text.cmp(&b.text))),
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            for (a, b) in a.items.iter().zip(&b.items) {
                if !a.equals(b) {
                    return order(a, b);
                }
            }
            Ok(Some(a.items.len().cmp(&b.items.len())))
        }
        _ => fail(format!("{} and {} have no order", left.kind(), right.kind())),
    }
}

/// `value in container`.
pub(super) fn contains(run: &mut Interpreter, container: &Value, value: &Value) -> Result<bool> {
    match container {
        Value::Text(text) => match value.as_text() {
            Some(part) => {
                run.spend(text.text.len() / 64)?;
                Ok(text.text.contains(part.as_ref()))
            }
            None => fail(format!("{} cannot be in a text", value.kind())),
        },
        Value::Dict(dict) => match value {
            // They are keys in Python, but none that a dictionary here can have.
            Value::Undefined | Value::Namespace(_) | Value::Generator(_) | Value::Callable(_) => Ok(false),
            value => Ok(dict.map.contains_key(&value.key().map_err(Error::Failed)?)),
        },
        other => Ok(run.items(other)?.iter().any(|item| item.equals(value))),
    }
}

/// The remainder with the sign of the divisor.
fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    match rest == 0.0 {
        true => 0f64.copysign(b),
        false if (b < 0.0) != (rest < 0.0) => rest + b,
        false => rest,
    }
}
