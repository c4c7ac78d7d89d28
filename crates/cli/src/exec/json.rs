//! A JSON value that knows where it stands, so that every complaint names the place:
//! `args[1].buffer.dtype`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::suggestion::did_you_mean;

/// Reads JSON in which no object has a key twice: `serde_json` would keep the last one.
pub(crate) fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).map(|Distinct(value)| value)
}

/// A value whose objects have distinct keys.
struct Distinct(Value);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(DistinctVisitor).map(Self)
    }
}

struct DistinctVisitor;

impl<'de> Visitor<'de> for DistinctVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Distinct(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` appears twice in an object")));
            }
            let Distinct(value) = fields.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// A value and its path from the root.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    path: String,
}

/// What is wrong at a place of a JSON file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The place; empty for the whole.
    pub(crate) path: String,
    /// What is wrong, and what would be right.
    pub(crate) message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for Complaint {}

type Result<T> = std::result::Result<T, Complaint>;

impl<'a> Node<'a> {
    /// The whole file.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// A complaint about this place.
    pub(crate) fn complain(&self, message: impl Into<String>) -> Complaint {
        Complaint { path: self.path.clone(), message: message.into() }
    }

    /// The place, from the root.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The value as it stands.
    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// The value in words, for complaints.
    pub(crate) fn describe(&self) -> String {
        match self.value {
            Value::Null => "null".to_owned(),
            Value::Array(items) => format!("an array of {}", items.len()),
            Value::Object(_) => "an object".to_owned(),
            other => other.to_string(),
        }
    }

    fn wrong(&self, wanted: &str) -> Complaint {
        self.complain(format!("expected {wanted}, not {}", self.describe()))
    }

    /// Refuses a value that is not an object, or has a field that is not among `known`.
    pub(crate) fn object(&self, known: &[&str]) -> Result<()> {
        let Value::Object(fields) = self.value else { return Err(self.wrong("an object")) };
        match fields.keys().find(|field| !known.contains(&field.as_str())) {
            Some(unknown) => Err(self.unknown(unknown, known)),
            None => Ok(()),
        }
    }

    /// A complaint about a field that this object does not have.
    fn unknown(&self, field: &str, known: &[&str]) -> Complaint {
        let guess = did_you_mean(field, known.iter().copied());
        let expected = known.join(", ");
        self.complain(match guess.as_str() {
            "" => format!("unknown field `{field}`; expected one of {expected}"),
            guess => format!("unknown field `{field}`{guess} The fields are {expected}"),
        })
    }

    /// The fields of an object whose keys are names of the author's, in the order of the names.
    pub(crate) fn named(&self) -> Result<Vec<(&'a str, Self)>> {
        let Value::Object(fields) = self.value else { return Err(self.wrong("an object")) };
        let node = |(name, value): (&'a String, &'a Value)| {
            let path = format!("{}.{name}", self.path);
            (name.as_str(), Self { value, path })
        };
        Ok(fields.iter().map(node).collect())
    }

    /// The field of that name, if there is one.
    pub(crate) fn optional(&self, field: &str) -> Option<Self> {
        let path = if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) };
        self.value.get(field).map(|value| Self { value, path })
    }

    /// The field of that name.
    pub(crate) fn field(&self, field: &str) -> Result<Self> {
        self.optional(field).ok_or_else(|| self.complain(format!("the field `{field}` is missing")))
    }

    /// The one field of an object that has one, of the names in `choices`.
    pub(crate) fn choice(&self, choices: &[&'static str]) -> Result<(&'static str, Self)> {
        self.choice_beside(None, choices)
    }

    /// The one field of an object that has one, of the names in `choices`, beside a field that it
    /// may have too.
    pub(crate) fn choice_beside(
        &self,
        beside: Option<&'static str>,
        choices: &[&'static str],
    ) -> Result<(&'static str, Self)> {
        self.object(&beside.iter().chain(choices).copied().collect::<Vec<_>>())?;
        let mut present = choices.iter().filter_map(|name| self.optional(name).map(|node| (*name, node)));
        match (present.next(), present.next()) {
            (Some(only), None) => Ok(only),
            _ => {
                let beside = beside.map_or(String::new(), |name| format!(" beside `{name}`"));
                Err(self.complain(format!("expected exactly one of {}{beside}", choices.join(", "))))
            }
        }
    }

    /// A string.
    pub(crate) fn string(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong("a string"))
    }

    /// An unsigned integer.
    pub(crate) fn unsigned(&self) -> Result<u64> {
        self.value.as_u64().ok_or_else(|| self.wrong("a non-negative integer"))
    }

    /// True or false.
    pub(crate) fn boolean(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// An unsigned integer of 32 bits.
    pub(crate) fn unsigned_32(&self) -> Result<u32> {
        self.unsigned()?.try_into().map_err(|_| self.wrong("an integer below 2^32"))
    }

    /// An array's items.
    pub(crate) fn items(&self) -> Result<Vec<Self>> {
        let Value::Array(items) = self.value else { return Err(self.wrong("an array")) };
        let node = |(index, value)| Self { value, path: format!("{}[{index}]", self.path) };
        Ok(items.iter().enumerate().map(node).collect())
    }

    /// One to three extents; those left out are 1.
    pub(crate) fn extents(&self) -> Result<[u32; 3]> {
        let items = self.items()?;
        if items.is_empty() || items.len() > 3 {
            return Err(self.complain(format!("expected one to three extents, not {}", items.len())));
        }
        let mut extents = [1; 3];
        for (extent, item) in extents.iter_mut().zip(&items) {
            *extent = item.unsigned_32()?;
        }
        Ok(extents)
    }
}
