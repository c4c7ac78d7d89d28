//! Values of templates: the values of Python that a template can see.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;

use super::callable::{Callable, Loop};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Undefined,
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Text),
    List(Rc<Items>),
    Tuple(Rc<Items>),
    /// What Python reads once: the result of `map` and its like.
    Generator(Rc<RefCell<VecDeque<Value>>>),
    /// `dict.items()` and its like.
    View(&'static str, Rc<Items>),
    Dict(Rc<Dict>),
    Namespace(Rc<Namespace>),
    Loop(Rc<Loop>),
    Callable(Rc<Callable>),
}

/// A text, and whether it is Markup.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) text: Arc<str>,
    pub(super) is_safe: bool,
}

/// Values in a row. Containers never change, as in jinja2's immutable sandbox.
#[derive(Debug)]
pub(super) struct Items {
    pub(super) items: Vec<Value>,
    depth: u32,
}

/// A dictionary, in the order of its keys' arrival.
#[derive(Debug)]
pub(super) struct Dict {
    pub(super) map: IndexMap<Key, Value>,
    depth: u32,
}

/// `namespace()`, the only value that changes.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) map: RefCell<IndexMap<String, Value>>,
    depth: Cell<u32>,
}

/// A key of a dictionary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    None,
    Int(i128),
    /// Bits of a float that is no integer.
    Float(u64),
    Bool(bool),
    Text(Arc<str>),
    Tuple(Vec<Key>),
}

/// How deep values are nested at most: they are dropped by recursion.
const DEEPEST: u32 = 400;

impl Value {
    pub(super) fn text(text: impl Into<Arc<str>>) -> Value {
        Value::Text(Text { text: text.into(), is_safe: false })
    }

    pub(super) fn markup(text: impl Into<Arc<str>>) -> Value {
        Value::Text(Text { text: text.into(), is_safe: true })
    }

    /// A list. Nested too deep it is refused.
    pub(super) fn list(items: Vec<Value>) -> Result<Value, String> {
        Ok(Value::List(Rc::new(Items::new(items)?)))
    }

    pub(super) fn tuple(items: Vec<Value>) -> Result<Value, String> {
        Ok(Value::Tuple(Rc::new(Items::new(items)?)))
    }

    pub(super) fn dict(map: IndexMap<Key, Value>) -> Result<Value, String> {
        let depth = deepest(map.values())?;
        Ok(Value::Dict(Rc::new(Dict { map, depth })))
    }

    pub(super) fn namespace(map: IndexMap<String, Value>) -> Result<Value, String> {
        let depth = Cell::new(deepest(map.values())?);
        Ok(Value::Namespace(Rc::new(Namespace { map: RefCell::new(map), depth })))
    }

    pub(super) fn generator(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Generator(Rc::new(RefCell::new(items.into_iter().collect())))
    }

    fn depth(&self) -> u32 {
        match self {
            Value::List(items) | Value::Tuple(items) | Value::View(_, items) => items.depth,
            Value::Dict(dict) => dict.depth,
            Value::Namespace(namespace) => namespace.depth.get(),
            Value::Generator(items) => items.borrow().iter().map(Value::depth).max().unwrap_or(0) + 1,
            _ => 0,
        }
    }

    /// From JSON.
    pub(super) fn from_json(json: &serde_json::Value) -> Result<Value, String> {
        Ok(match json {
            serde_json::Value::Null => Value::None,
            serde_json::Value::Bool(value) => Value::Bool(*value),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Value::Int(number.into()),
                (None, Some(number)) => Value::Int(number.into()),
                (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Value::text(text.as_str()),
            serde_json::Value::Array(items) => {
                Value::list(items.iter().map(Value::from_json).collect::<Result<_, _>>()?)?
            }
            serde_json::Value::Object(object) => {
                let entries = object
                    .iter()
                    .map(|(key, value)| Ok((Key::Text(key.as_str().into()), Value::from_json(value)?)));
                Value::dict(entries.collect::<Result<_, String>>()?)?
            }
        })
    }

    /// What `if` sees.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Undefined | Value::None => false,
            Value::Bool(value) => *value,
            Value::Int(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Text(text) => !text.text.is_empty(),
            Value::List(items) | Value::Tuple(items) | Value::View(_, items) => !items.items.is_empty(),
            Value::Dict(dict) => !dict.map.is_empty(),
            Value::Generator(_) | Value::Namespace(_) | Value::Loop(_) | Value::Callable(_) => true,
        }
    }

    /// The text, if it is one.
    pub(super) fn as_text(&self) -> Option<&Arc<str>> {
        if let Value::Text(text) = self { Some(&text.text) } else { None }
    }

    /// The number, if it is an integer or a truth value.
    pub(super) fn as_int(&self) -> Option<i128> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Bool(value) => Some((*value).into()),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(number) => Some(*number),
            other => other.as_int().map(|number| number as f64),
        }
    }

    /// Python's name of the type.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Undefined => "undefined",
            Value::None => "None",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Text(_) => "str",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Generator(_) => "generator",
            Value::View(kind, _) => kind,
            Value::Dict(_) => "dict",
            Value::Namespace(_) => "namespace",
            Value::Loop(_) => "loop",
            Value::Callable(_) => "function",
        }
    }

    /// Whether two values are equal, as `==` sees it.
    pub(super) fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => true,
            (Value::Text(a), Value::Text(b)) => a.text == b.text,
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
                equal_items(&a.items, &b.items)
            }
            (Value::Dict(a), Value::Dict(b)) => {
                a.map.len() == b.map.len()
                    && a.map
                        .iter()
                        .all(|(key, value)| b.map.get(key).is_some_and(|other| value.equals(other)))
            }
            (Value::Namespace(a), Value::Namespace(b)) => Rc::ptr_eq(a, b),
            (Value::Generator(a), Value::Generator(b)) => Rc::ptr_eq(a, b),
            (Value::Callable(a), Value::Callable(b)) => Rc::ptr_eq(a, b),
            (a, b) => match (a.as_int(), b.as_int()) {
                (Some(a), Some(b)) => a == b,
                _ => matches!((a.as_float(), b.as_float()), (Some(a), Some(b)) if a == b),
            },
        }
    }

    /// Whether two values are the same object, as `is` sees it.
    pub(super) fn is_same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Bool(_), _) | (_, Value::Bool(_)) => false,
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => Rc::ptr_eq(a, b),
            (Value::Dict(a), Value::Dict(b)) => Rc::ptr_eq(a, b),
            (Value::Int(_), Value::Float(_)) | (Value::Float(_), Value::Int(_)) => false,
            (a, b) => a.equals(b),
        }
    }

    /// The value as a key.
    pub(super) fn key(&self) -> Result<Key, String> {
        Ok(match self {
            Value::None => Key::None,
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(number) => Key::Int(*number),
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e30 => Key::Int(*number as i128),
            Value::Float(number) => Key::Float(number.to_bits()),
            Value::Text(text) => Key::Text(text.text.clone()),
            Value::Tuple(items) => Key::Tuple(items.items.iter().map(Value::key).collect::<Result<_, _>>()?),
            other => return Err(format!("{} is no key of a dictionary", other.kind())),
        })
    }
}

fn equal_items(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
}

impl Items {
    fn new(items: Vec<Value>) -> Result<Items, String> {
        Ok(Items { depth: deepest(&items)?, items })
    }

    /// The items of a view.
    pub(super) fn shared(items: Vec<Value>) -> Result<Rc<Items>, String> {
        Items::new(items).map(Rc::new)
    }
}

impl Namespace {
    pub(super) fn set(&self, name: &str, value: Value) -> Result<(), String> {
        self.depth.set(self.depth.get().max(deepest([&value])?));
        self.map.borrow_mut().insert(name.to_owned(), value);
        Ok(())
    }
}

impl Dict {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(&Key::Text(name.into()))
    }
}

impl Key {
    pub(super) fn value(&self) -> Value {
        match self {
            Key::None => Value::None,
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(number) => Value::Int(*number),
            Key::Float(bits) => Value::Float(f64::from_bits(*bits)),
            Key::Text(text) => Value::text(text.clone()),
            Key::Tuple(keys) => Value::tuple(keys.iter().map(Key::value).collect()).unwrap_or(Value::None),
        }
    }
}

/// The depth of what holds these values.
fn deepest<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<u32, String> {
    let depth = values.into_iter().map(Value::depth).max().unwrap_or(0) + 1;
    if depth > DEEPEST { Err(format!("a value is nested more than {DEEPEST} times")) } else { Ok(depth) }
}
