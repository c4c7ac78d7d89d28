//! Filters of lists and other values with items.

use std::cmp::Ordering;

use indexmap::IndexMap;

use super::super::attributes::at_path;
use super::super::callable::Given;
use super::super::error::{Error, Result, fail};
use super::super::interpreter::Interpreter;
use super::super::operators;
use super::super::syntax::Binary;
use super::super::value::Value;
use super::list;

impl Interpreter {
    /// Filters of lists and other values with items.
    pub(super) fn item_filter(&mut self, name: &str, value: Value, mut given: Given) -> Result<Value> {
        match name {
            "length" | "count" => match &value {
                Value::Text(text) => Ok(Value::Int(text.text.chars().count() as i128)),
                Value::List(items) | Value::Tuple(items) | Value::View(_, items) => {
                    Ok(Value::Int(items.items.len() as i128))
                }
                Value::Dict(dict) => Ok(Value::Int(dict.map.len() as i128)),
                Value::Undefined => Ok(Value::Int(0)),
                other => fail(format!("{} has no length", other.kind())),
            },
            "list" => list(self.items(&value)?),
            "first" => match &value {
                Value::Generator(items) => Ok(items.borrow_mut().pop_front().unwrap_or(Value::Undefined)),
                _ => Ok(self.items(&value)?.into_iter().next().unwrap_or(Value::Undefined)),
            },
            "last" => match &value {
                Value::Generator(_) => fail("a generator has no end to begin at"),
                _ => Ok(self.items(&value)?.into_iter().next_back().unwrap_or(Value::Undefined)),
            },
            "reverse" => match &value {
                Value::Text(text) => {
                    let text = text.text.chars().rev().collect();
                    self.made(text)
                }
                Value::Generator(_) => list(self.items(&value)?.into_iter().rev().collect()),
                _ => Ok(Value::generator(self.items(&value)?.into_iter().rev())),
            },
            "join" => {
                let separator = given.take(0, "d").unwrap_or(Value::text(""));
                let separator = self.text_of(&separator)?;
                let items = self.items(&value)?;
                let items = match given.take(1, "attribute").filter(|path| !matches!(path, Value::None)) {
                    Some(path) => items.iter().map(|item| at_path(item, &path)).collect::<Result<_>>()?,
                    None => items,
                };
                self.joined(&items, &separator, true)
            }
            "items" => match &value {
                Value::Undefined => Ok(Value::generator([])),
                Value::Dict(_) => {
                    let view = self.method(&value, "items", Given::default())?;
                    Ok(Value::generator(self.items(&view)?))
                }
                other => fail(format!("{} has no items", other.kind())),
            },
            "dictsort" => self.dictionary_sorted(&value, given),
            "sort" => {
                let keys = Keys::new(&mut given, (1, 2));
                let is_reversed = given.take(0, "reverse").is_some_and(|value| value.is_true());
                let items = self.items(&value)?;
                list(self.sorted(items, &keys, is_reversed)?)
            }
            "unique" => {
                let keys = Keys::new(&mut given, (0, 1));
                let mut seen = IndexMap::new();
                for item in self.items(&value)? {
                    let key = keys.of(self, &item)?.key().map_err(Error::Failed)?;
                    seen.entry(key).or_insert(item);
                }
                Ok(Value::generator(seen.into_values()))
            }
            "min" => self.extreme(&value, given, Ordering::Less),
            "max" => self.extreme(&value, given, Ordering::Greater),
            "sum" => self.summed(&value, given),
            "groupby" => self.grouped(&value, given),
            "batch" | "slice" => self.parts(name, &value, given),
            "map" => self.mapped(&value, given),
            "select" | "reject" => {
                let mut kept = Vec::new();
                for item in self.items_if_true(&value)? {
                    if self.passes(&item, &given.positional)? == (name == "select") {
                        kept.push(item);
                    }
                }
                Ok(Value::generator(kept))
            }
            "selectattr" | "rejectattr" => {
                let Some((path, test)) = given.positional.split_first() else {
                    return fail(format!("`{name}` needs a name"));
                };
                let mut kept = Vec::new();
                for item in self.items_if_true(&value)? {
                    let found = at_path(&item, path)?;
                    if self.passes(&found, test)? == (name == "selectattr") {
                        kept.push(item);
                    }
                }
                Ok(Value::generator(kept))
            }
            _ => fail(format!("there is no filter `{name}`")),
        }
    }

    fn extreme(&mut self, value: &Value, mut given: Given, wanted: Ordering) -> Result<Value> {
        let keys = Keys::new(&mut given, (0, 1));
        let mut best: Option<(Value, Value)> = None;
        for item in self.items(value)? {
            let key = keys.of(self, &item)?;
            let is_better = match &best {
                Some((best, _)) => operators::order(&key, best)? == Some(wanted),
                None => true,
            };
            if is_better {
                best = Some((key, item));
            }
        }
        Ok(best.map_or(Value::Undefined, |(_, item)| item))
    }

    fn summed(&mut self, value: &Value, mut given: Given) -> Result<Value> {
        let path = given.take(0, "attribute").filter(|path| !matches!(path, Value::None));
        let mut sum = given.take(1, "start").unwrap_or(Value::Int(0));
        for item in self.items(value)? {
            let item = path.as_ref().map_or(Ok(item.clone()), |path| at_path(&item, path))?;
            sum = operators::binary(self, Binary::Add, &sum, &item)?;
        }
        Ok(sum)
    }

    fn grouped(&mut self, value: &Value, mut given: Given) -> Result<Value> {
        let Some(path) = given.take(0, "attribute") else {
            return fail("`groupby` needs an attribute");
        };
        let default = given.take(1, "default").filter(|value| !matches!(value, Value::None));
        let keys = Keys { path: Some(path), folds_case: true, default, is_row: false };
        let items = self.items(value)?;
        let sorted = self.sorted(items, &keys, false)?;
        let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
        for item in sorted {
            let key = keys.of(self, &item)?;
            match groups.last_mut() {
                Some((last, _, group)) if last.equals(&key) => group.push(item),
                _ => {
                    let plain = Keys { folds_case: false, ..keys.clone() }.of(self, &item)?;
                    groups.push((key, plain, vec![item]));
                }
            }
        }
        let pairs = groups
            .into_iter()
            .map(|(_, key, group)| Value::tuple(vec![key, list(group)?]).map_err(Error::Failed));
        list(pairs.collect::<Result<_>>()?)
    }

    fn passes(&mut self, value: &Value, test: &[Value]) -> Result<bool> {
        let Some((name, arguments)) = test.split_first() else { return Ok(value.is_true()) };
        let Some(name) = name.as_text() else { return fail("a test has a name") };
        self.spend(1)?;
        self.test(name, value, Given { positional: arguments.to_vec(), named: Vec::new() })
    }

    /// The items of a value, none of one that is not true: so `map` and `select` read them.
    fn items_if_true(&mut self, value: &Value) -> Result<Vec<Value>> {
        if value.is_true() { self.items(value) } else { Ok(Vec::new()) }
    }

    fn mapped(&mut self, value: &Value, mut given: Given) -> Result<Value> {
        let items = self.items_if_true(value)?;
        let named = |given: &Given, name: &str| {
            given.named.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
        };
        let mut mapped = Vec::new();
        if given.positional.is_empty()
            && let Some(path) = named(&given, "attribute")
        {
            let default = named(&given, "default");
            for item in items {
                let found = at_path(&item, &path)?;
                mapped.push(match (found, &default) {
                    (Value::Undefined, Some(default)) => default.clone(),
                    (found, _) => found,
                });
            }
            return Ok(Value::generator(mapped));
        }
        if given.positional.is_empty() {
            return fail("`map` needs a filter or an attribute");
        }
        let filter = given.positional.remove(0);
        let Some(filter) = filter.as_text() else { return fail("a filter has a name") };
        for item in items {
            self.spend(1)?;
            let given = Given { positional: given.positional.clone(), named: given.named.clone() };
            mapped.push(self.filter(filter, item, given)?);
        }
        Ok(Value::generator(mapped))
    }

    fn sorted(&mut self, items: Vec<Value>, keys: &Keys, is_reversed: bool) -> Result<Vec<Value>> {
        let keyed = items.into_iter().map(|item| {
            let key = keys.of(self, &item)?;
            Ok((if keys.is_row { list(vec![key])? } else { key }, item))
        });
        let mut keyed = keyed.collect::<Result<Vec<_>>>()?;
        self.spend(keyed.len() * 8)?;
        let mut wrong = None;
        let mut order = |a: &Value, b: &Value| match operators::order(a, b) {
            Ok(order) => order.unwrap_or(Ordering::Equal),
            Err(error) => {
                wrong = Some(error);
                Ordering::Equal
            }
        };
        if is_reversed {
            keyed.sort_by(|(a, _), (b, _)| order(b, a));
        } else {
            keyed.sort_by(|(a, _), (b, _)| order(a, b));
        }
        match wrong {
            Some(error) => Err(error),
            None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
        }
    }

    fn dictionary_sorted(&mut self, value: &Value, mut given: Given) -> Result<Value> {
        let Value::Dict(_) = value else { return fail(format!("{} is no dictionary", value.kind())) };
        let is_exact = given.take(0, "case_sensitive").is_some_and(|value| value.is_true());
        let by =
            match given.take(1, "by").as_ref().and_then(Value::as_text).map(|by| by.to_string()).as_deref() {
                None | Some("key") => 0,
                Some("value") => 1,
                Some(_) => return fail("`dictsort` sorts by `key` or `value`"),
            };
        let is_reversed = given.take(2, "reverse").is_some_and(|value| value.is_true());
        let view = self.method(value, "items", Given::default())?;
        let keys = Keys { path: Some(Value::Int(by)), folds_case: !is_exact, default: None, is_row: false };
        let items = self.items(&view)?;
        list(self.sorted(items, &keys, is_reversed)?)
    }

    fn parts(&mut self, name: &str, value: &Value, mut given: Given) -> Result<Value> {
        let number = given.take(0, if name == "batch" { "linecount" } else { "slices" });
        let number =
            number.and_then(|number| usize::try_from(number.as_int()?).ok()).filter(|number| *number > 0);
        let Some(number) = number else { return fail(format!("`{name}` needs a number")) };
        let fill = given.take(1, "fill_with").filter(|value| !matches!(value, Value::None));
        let items = self.items(value)?;
        let mut parts = Vec::new();
        if name == "batch" {
            for part in items.chunks(number) {
                let mut part = part.to_vec();
                if let Some(fill) = &fill {
                    self.spend(number)?;
                    part.resize(number, fill.clone());
                }
                parts.push(list(part)?);
            }
        } else {
            self.spend(number)?;
            let (each, longer) = (items.len() / number, items.len() % number);
            let mut rest = &items[..];
            for index in 0..number {
                let (part, after) = rest.split_at(each + usize::from(index < longer));
                rest = after;
                let mut part = part.to_vec();
                if index >= longer && longer > 0 {
                    part.extend(fill.clone());
                }
                parts.push(list(part)?);
            }
        }
        Ok(Value::generator(parts))
    }
}

/// What values are sorted and compared by.
#[derive(Clone)]
struct Keys {
    path: Option<Value>,
    folds_case: bool,
    default: Option<Value>,
    /// Whether keys are compared as rows, in which equal ones need no order.
    is_row: bool,
}

impl Keys {
    /// From `case_sensitive` and `attribute` at these positions.
    fn new(given: &mut Given, (case, attribute): (usize, usize)) -> Keys {
        let is_exact = given.take(case, "case_sensitive").is_some_and(|value| value.is_true());
        let path = given.take(attribute, "attribute").filter(|path| !matches!(path, Value::None));
        Keys { path, folds_case: !is_exact, default: None, is_row: true }
    }

    fn of(&self, run: &mut Interpreter, item: &Value) -> Result<Value> {
        run.spend(1)?;
        // Several paths with commas make a row of keys.
        if let Some(paths) = self.path.as_ref().and_then(Value::as_text).filter(|paths| paths.contains(',')) {
            let keys = paths
                .split(',')
                .map(|path| Keys { path: Some(Value::text(path)), ..self.clone() }.of(run, item));
            return list(keys.collect::<Result<_>>()?);
        }
        let mut key = self.path.as_ref().map_or(Ok(item.clone()), |path| at_path(item, path))?;
        if let (Value::Undefined, Some(default)) = (&key, &self.default) {
            key = default.clone();
        }
        Ok(match &key {
            Value::Text(text) if self.folds_case => Value::text(text.text.to_lowercase()),
            _ => key,
        })
    }
}
