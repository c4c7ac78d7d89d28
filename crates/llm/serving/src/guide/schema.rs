//! JSON schemas, as the library of grammars has to see them.

use llguidance::derivre::{RegexAst, RegexBuilder};
use serde_json::{Map, Value, json};

/// White space that a value may have between two tokens: a line break with its indentation at most. With more, a model
/// that likes white space would write nothing else. JSON that is nested deeper is indented less.
const SPACE: &str = r"[ \t]|\n[ \t]{0,12}";
/// Steps in which a pattern is compared with names. Patterns of schemas take some hundred.
const STEPS: u64 = 100_000;

/// The same schema with bounded white space, and without patterns that allow no name beside the properties: after a comma
/// no name would be left to follow.
pub(super) fn prepared(schema: &Value) -> Value {
    // `true` allows all, as an empty object does.
    let mut schema = if *schema == Value::Bool(true) { json!({}) } else { schema.clone() };
    prepare(&mut schema);
    if let Value::Object(object) = &mut schema {
        object.insert("x-guidance".to_owned(), json!({ "whitespace_pattern": SPACE }));
    }
    schema
}

fn prepare(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            drop_patterns(object);
            for (key, value) in object.iter_mut() {
                // What these hold are values, not schemas.
                if !["const", "enum", "default", "examples"].contains(&key.as_str()) {
                    prepare(value);
                }
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(prepare),
        _ => {}
    }
}

/// Moves patterns that match nothing but properties into the properties.
fn drop_patterns(object: &mut Map<String, Value>) {
    let Some(Value::Object(mut patterns)) = object.get("patternProperties").cloned() else { return };
    let Some(Value::Object(mut properties)) = object.get("properties").cloned() else { return };
    let names: Vec<String> = properties.keys().cloned().collect();
    patterns.retain(|pattern, of_pattern| {
        let matched: Vec<&String> = names.iter().filter(|name| is_within(&literal(name), pattern)).collect();
        let all = matched.iter().map(|name| RegexAst::Literal((*name).clone())).collect();
        if matched.is_empty() || !matches_only(pattern, RegexAst::Or(all)) {
            return true;
        }
        for name in matched {
            properties[name] = json!({ "allOf": [properties[name], of_pattern] });
        }
        false
    });
    object.insert("properties".to_owned(), Value::Object(properties));
    match patterns.is_empty() {
        true => object.remove("patternProperties"),
        false => object.insert("patternProperties".to_owned(), Value::Object(patterns)),
    };
}

fn literal(name: &str) -> RegexAst {
    RegexAst::Literal(name.to_owned())
}

fn is_within(name: &RegexAst, pattern: &str) -> bool {
    contains(name, &RegexAst::SearchRegex(pattern.to_owned()))
}

fn matches_only(pattern: &str, names: RegexAst) -> bool {
    contains(&RegexAst::SearchRegex(pattern.to_owned()), &names)
}

/// Whether `large` matches all that `small` matches. False for patterns that are wrong or too large to tell.
fn contains(small: &RegexAst, large: &RegexAst) -> bool {
    let mut builder = RegexBuilder::new();
    let Ok(both) = builder.mk_contained_in_ast(small, large) else { return false };
    builder.to_regex_limited(both, STEPS).is_ok_and(|mut regex| regex.always_empty())
}
