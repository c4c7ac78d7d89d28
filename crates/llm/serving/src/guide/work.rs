//! The work of compiling JSON schemas, which grows with the square of the properties of one object.

use serde_json::Value;

use super::GrammarError;

/// The most comparisons of patterns with each other and with properties, in all objects. Each takes some 50 us.
const MOST_COMPARISONS: usize = 10_000;
/// The most pairs of properties of an object that are not required, in all objects. Each takes some 0.6 us.
const MOST_PAIRS: usize = 1_000_000;
/// The most schemas and properties that are merged into others, in all objects.
const MOST_MERGED: usize = 100_000;
/// The most schemas that are merged into one and have a `pattern`: the time doubles with each.
const MOST_TEXTS: usize = 8;
/// How deep schemas are followed for the properties that an object gets of them.
const DEEPEST: usize = 16;

/// What an object has, together with the schemas of its `allOf`.
#[derive(Clone, Copy, Default)]
struct Counts {
    patterns: usize,
    properties: usize,
    required: usize,
    /// Schemas with a `pattern` or a `format`, of their own or of a property.
    texts: usize,
}

/// Refuses schemas that take long to compile.
pub(super) fn check<'l>(schemas: impl IntoIterator<Item = &'l Value>) -> Result<(), GrammarError> {
    let (mut comparisons, mut pairs, mut merged) = (0usize, 0usize, 0usize);
    for root in schemas {
        let mut left = vec![root];
        while let Some(schema) = left.pop() {
            match schema {
                Value::Array(schemas) => left.extend(schemas),
                Value::Object(object) => {
                    left.extend(object.values());
                    let Counts { patterns, properties, required, texts } =
                        counts(root, schema, 0, &mut merged);
                    let optional = properties.saturating_sub(required);
                    comparisons = comparisons.saturating_add(patterns * (patterns + properties));
                    pairs = pairs.saturating_add(optional * optional);
                    if texts > MOST_TEXTS {
                        return Err(GrammarError(format!(
                            "its `allOf` has more than {MOST_TEXTS} schemas with a `pattern` or a `format`; write one \
                             `pattern`"
                        )));
                    }
                }
                _ => {}
            }
            if merged > MOST_MERGED {
                return Err(GrammarError("its `allOf` are too large".to_owned()));
            }
            if comparisons > MOST_COMPARISONS {
                return Err(GrammarError(format!(
                    "its `patternProperties` need more than {MOST_COMPARISONS} comparisons with each other and with \
                     `properties`; give fewer"
                )));
            }
            if pairs > MOST_PAIRS {
                let most = MOST_PAIRS.isqrt();
                return Err(GrammarError(format!(
                    "its objects have too many properties that are not required: an object may have {most}, or several \
                     as much together; make them required, or leave some out"
                )));
            }
        }
    }
    Ok(())
}

fn counts(root: &Value, schema: &Value, depth: usize, merged: &mut usize) -> Counts {
    let length = |name: &str| match &schema[name] {
        Value::Object(object) => object.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    };
    let mut all = Counts {
        patterns: length("patternProperties"),
        properties: length("properties"),
        required: length("required"),
        texts: usize::from(has_text(schema)),
    };
    *merged += all.properties * depth.min(1);
    let parts = schema["allOf"].as_array().into_iter().flatten();
    // A reference alone is compiled once, where its target is.
    let is_merged = depth > 0 || all.properties > 0 || schema["allOf"].is_array();
    let target = schema["$ref"].as_str().filter(|_| is_merged);
    let target = target.and_then(|text| root.pointer(text.strip_prefix('#')?));
    if depth < DEEPEST {
        for part in parts.chain(target) {
            *merged += 1;
            if *merged > MOST_MERGED {
                break;
            }
            let Counts { patterns, properties, required, texts } = counts(root, part, depth + 1, merged);
            all.texts += texts;
            all.patterns += patterns;
            all.properties += properties;
            all.required += required;
        }
    }
    all
}

/// Whether a schema bounds texts, its own, of its items or of a property.
fn has_text(schema: &Value) -> bool {
    let bounds = |schema: &Value| schema["pattern"].is_string() || schema["format"].is_string();
    let properties = schema["properties"].as_object();
    bounds(schema) || bounds(&schema["items"]) || properties.is_some_and(|all| all.values().any(bounds))
}
