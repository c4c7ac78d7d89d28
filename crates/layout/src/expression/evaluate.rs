//! The evaluator.

use super::Value;
use super::operations::{Arguments, OPERATIONS};
use super::syntax::Tree;
use crate::atom::COPY_TABLE;
use crate::{All, ComposedLayout, Coordinate, Error, Int, Layout, Offset, Stage, Stride, Tiler, Tuple};

/// Evaluates a parsed expression.
pub(super) fn evaluate(tree: &Tree) -> Result<Value, Error> {
    match tree {
        Tree::Integer(value) => Ok((*value).into()),
        Tree::All => Ok(Value::Coordinate(Coordinate::from(All))),
        Tree::Word(name) => Ok(Int::device(hash(name), name.as_str()).into()),
        Tree::Basis(scale, path) => {
            let scale = evaluate(scale)?.int()?;
            Ok(Value::Strides(Tuple::Leaf(Stride { scale, basis: path.clone() })))
        }
        Tree::List(items, tuple) => list(items, *tuple),
        Tree::Tiler(items) => {
            let modes = items.iter().map(|item| evaluate(item)?.tiler());
            Ok(Value::Tiler(Tiler::Modes(modes.collect::<Result<_, _>>()?)))
        }
        Tree::Layout(shape, stride) => {
            Ok(Layout::new(evaluate(shape)?.tuple()?, evaluate(stride)?.strides()?)?.into())
        }
        Tree::Call(name, parameters, arguments) => call(name, parameters, arguments),
        Tree::Apply(function, coordinate) => {
            apply(&evaluate(function)?, &list(coordinate, coordinate.len() != 1)?)
        }
        Tree::Chain(parts) => chain(parts),
        Tree::Arithmetic(operator, left, right) => arithmetic(*operator, &evaluate(left)?, &evaluate(right)?),
    }
}

/// A device value's handle: the same name is the same value.
fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn list(items: &[Tree], tuple: bool) -> Result<Value, Error> {
    let values = items.iter().map(evaluate).collect::<Result<Vec<_>, _>>()?;
    if let ([value], false) = (values.as_slice(), tuple) {
        return Ok(match value {
            Value::Coordinate(coordinate) => Value::Coordinate(Tuple::Node(vec![coordinate.clone()])),
            Value::Strides(strides) => Value::Strides(Tuple::Node(vec![strides.clone()])),
            other => other.clone(),
        });
    }
    if values.iter().any(|value| matches!(value, Value::Layout(_) | Value::Ownership(_) | Value::Tiler(_))) {
        let modes = values.iter().map(Value::tiler).collect::<Result<_, _>>()?;
        return Ok(Value::Tiler(Tiler::Modes(modes)));
    }
    if values.iter().any(|value| matches!(value, Value::Strides(_))) {
        let modes = values.iter().map(Value::strides).collect::<Result<_, _>>()?;
        return Ok(Value::Strides(Tuple::Node(modes)));
    }
    Ok(Value::Coordinate(Tuple::Node(values.iter().map(Value::coordinate).collect::<Result<_, _>>()?)))
}

fn call(name: &str, parameters: &[Tree], arguments: &[Tree]) -> Result<Value, Error> {
    let Some(operation) = OPERATIONS.iter().find(|operation| operation.name == name) else {
        return Err(unknown(name));
    };
    let parameters =
        parameters.iter().map(|parameter| evaluate(parameter)?.known()).collect::<Result<_, _>>()?;
    let words: Vec<String> = arguments.iter().filter_map(word).collect();
    let values = arguments.iter().map(|argument| match word(argument) {
        Some(name) => Ok(Int::device(hash(&name), name).into()),
        None => evaluate(argument),
    });
    let values = values.collect::<Result<Vec<_>, Error>>()?;
    let arguments = Arguments { name: operation.name, parameters, values, words };
    if arguments.values.len() > operation.most_arguments() {
        return Err(arguments.wrong_count());
    }
    (operation.apply)(&arguments)
}

/// A name that stands for itself: a word, or the name of a copy atom with its width.
fn word(tree: &Tree) -> Option<String> {
    match tree {
        Tree::Word(word) => Some(word.clone()),
        Tree::Call(name, parameters, arguments) if arguments.is_empty() && !parameters.is_empty() => {
            let Tree::Integer(width) = parameters[0] else { return None };
            let name = format!("{name}<{width}>");
            COPY_TABLE.iter().any(|row| row.name == name).then_some(name)
        }
        _ => None,
    }
}

fn unknown(name: &str) -> Error {
    let nearest = OPERATIONS.iter().map(|operation| operation.name).min_by_key(|known| distance(known, name));
    let legal =
        nearest.map_or(String::new(), |nearest| format!("one of the operations; the nearest is {nearest}"));
    Error::bad_argument("a call", name.chars().take(40).collect::<String>(), legal)
}

/// The edit distance of two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(40).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn apply(function: &Value, coordinate: &Value) -> Result<Value, Error> {
    let coordinate = match coordinate.coordinate()? {
        Tuple::Node(modes) if modes.len() == 1 => modes[0].clone(),
        coordinate => coordinate,
    };
    match function {
        Value::Swizzle(swizzle) => Ok(swizzle.apply(Value::Coordinate(coordinate).known()?).into()),
        Value::Layout(layout) if coordinate.keeps_a_mode() => Ok(layout.slice(&coordinate)?.0.into()),
        function if coordinate.keeps_a_mode() => Ok(function.composed()?.slice(&coordinate)?.into()),
        Value::Coordinate(_) => Err(function.is_not("a layout to apply")),
        function => Ok(function.composed()?.evaluate(&coordinate.origin())?.into()),
    }
}

/// `A o offset o B`, from the right: an integer between two functions shifts.
fn chain(parts: &[Tree]) -> Result<Value, Error> {
    let values = parts.iter().map(evaluate).collect::<Result<Vec<_>, _>>()?;
    let Some((last, before)) = values.split_last() else { return Ok(0i64.into()) };
    let mut result = last.clone();
    for value in before.iter().rev() {
        result = match value {
            Value::Coordinate(offset) if offset.depth() == 0 => shift(&value.int()?, result)?,
            Value::Coordinate(_) => {
                let composed = result.composed()?;
                composed.shifted(Offset::Coordinate(value.tuple()?))?.into()
            }
            value => compose(value, &result)?,
        };
    }
    Ok(result)
}

fn shift(by: &Int, value: Value) -> Result<Value, Error> {
    let composed = value.composed()?;
    Ok(match composed.outer().is_empty() {
        true => composed.shifted(by.clone())?.into(),
        false if by.is(0) => composed.into(),
        false => ComposedLayout::after(composed, Stage::Shift(by.clone())).into(),
    })
}

fn arithmetic(operator: char, left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Value::Strides(Tuple::Leaf(basis)), scale, '*')
    | (scale, Value::Strides(Tuple::Leaf(basis)), '*') = (left, right, operator)
    {
        return Ok(Value::Strides(Tuple::Leaf(basis.times(&scale.int()?)?)));
    }
    let (left, right) = (left.int()?, right.int()?);
    Ok(match operator {
        '+' => left.plus(&right)?,
        '-' => left.minus(&right)?,
        '*' => left.times(&right)?,
        '/' => left.divided_by(&right)?,
        _ => left.modulo(&right)?,
    }
    .into())
}

/// `a o b`.
pub(super) fn compose(a: &Value, b: &Value) -> Result<Value, Error> {
    match (a, b) {
        (Value::Swizzle(swizzle), b) => Ok(b.composed()?.after(*swizzle).into()),
        (Value::Composed(a), b) => Ok(a.compose(b.tiler()?)?.into()),
        (a, Value::Composed(b)) => Ok(b.clone().after(a.layout()?).into()),
        (a, Value::Swizzle(_)) => {
            Err(a.is_not("a swizzle's left: compose layouts after swizzles as `swizzle o layout`"))
        }
        (a, b) => Ok(a.layout()?.compose(b.tiler()?)?.into()),
    }
}
