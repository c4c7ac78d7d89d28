//! Answers that a grammar allows, drawn at random.

use serde_json::{Value, json};
use warpwright_llm_serving::guide::{Grammar, Grammars, TokenGuide, tool_calls};
use warpwright_llm_serving::model::Model;
use warpwright_llm_serving::scheduler::Guide;
use warpwright_llm_serving::text::{CallForm, Parser, ParserOptions, Part, Tool};
use warpwright_llm_step::{Sampling, Token, sample};

use crate::model::{CAPACITY, model};

/// An answer of at most `most` tokens, drawn uniformly among what the guide allows, and whether it
/// ended.
fn random_answer(guide: &mut dyn Guide, seed: u64, most: u64) -> (String, bool) {
    random_answer_of(&model(), guide, seed, most)
}

/// The same, of a model.
pub(crate) fn random_answer_of(model: &Model, guide: &mut dyn Guide, seed: u64, most: u64) -> (String, bool) {
    let mut tokens: Vec<Token> = Vec::new();
    // Prefer the ends of strings and objects, so that answers end.
    let logit = |token| match model.tokenizer.bytes(token) {
        _ if model.stops.contains(&token) => 9.0,
        b"<" => 9.0,
        b"\"" | b"}" | b"]" | b"\n" => 3.0,
        _ => 0.0,
    };
    let logits: Vec<f32> = (0..CAPACITY.vocabulary).map(logit).collect();
    for offset in 0..most {
        let allowed = Some(guide.allowed());
        let sampling = Sampling { allowed, temperature: 1.0, seed, offset, ..Sampling::greedy() };
        let token = sample(&logits, &sampling).token;
        if model.stops.contains(&token) {
            return (model.tokenizer.decode(&tokens, false), true);
        }
        guide.advance(token);
        tokens.push(token);
    }
    (model.tokenizer.decode(&tokens, false), false)
}

fn grammars() -> Grammars {
    let model = model();
    Grammars::new(&model.tokenizer, CAPACITY.vocabulary, &model.stops).unwrap()
}

#[test]
fn answers_are_of_their_schema() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "age"],
        "properties": { "name": { "enum": ["Ann", "Bob"] }, "age": { "type": "integer", "minimum": 0, "maximum": 99 } },
    });
    let grammars = grammars();
    for seed in 0..8 {
        let mut guide = grammars.guide(&Grammar::JsonSchema(schema.clone()), false).unwrap();
        let (text, ended) = random_answer(&mut *guide, seed, 400);
        assert!(ended, "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(value["name"] == "Ann" || value["name"] == "Bob", "{text}");
        assert!(value["age"].as_u64().unwrap() < 100, "{text}");
    }
}

#[test]
fn other_grammars_hold() {
    let grammars = grammars();
    let draw = |grammar: Grammar| random_answer(&mut *grammars.guide(&grammar, false).unwrap(), 3, 400);
    assert!(["yes", "no"].contains(&draw(Grammar::Choice(vec!["yes".into(), "no".into()])).0.as_str()));
    let digits = draw(Grammar::Regex("[0-9]{3}".into())).0;
    assert!(digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{digits}");
    let (object, ended) = draw(Grammar::JsonObject);
    assert!(
        object.starts_with('{') && (!ended || serde_json::from_str::<Value>(&object).unwrap().is_object())
    );
}

/// The answers of a request share what their grammar is compiled to, and each goes its own way.
#[test]
fn another_guide_goes_its_own_way() {
    let grammars = grammars();
    let schema =
        json!({ "type": "object", "required": ["a"], "properties": { "a": { "enum": ["x", "y"] } } });
    for grammar in [
        Grammar::JsonSchema(schema),
        Grammar::Regex("[ab]{9}".into()),
        Grammar::Choice(vec!["yes".into(), "no".into(), "never".into()]),
    ] {
        for after_reasoning in [false, true] {
            let guide = grammars.guide(&grammar, after_reasoning).unwrap();
            let rows = vec![vec![Token::from(b'q')]];
            let guide: Box<dyn Guide> =
                Box::new(TokenGuide::new(Some(guide), CAPACITY.vocabulary, None, rows));
            let expected = random_answer(&mut *guide.another(), 5, 100);
            let mut other = guide.another();
            let first = (0..CAPACITY.vocabulary).find(|token| other.allowed().allows(*token)).unwrap();
            other.advance(first);
            assert_eq!(random_answer(&mut *guide.another(), 5, 100), expected, "{grammar:?}");
            // From the middle, too.
            assert_eq!(
                random_answer(&mut *other.another(), 7, 100),
                random_answer(&mut *other, 7, 100),
                "{grammar:?}"
            );
        }
    }
}

/// Chains of references and rules are walked by recursion.
#[test]
fn long_chains_end_no_process() {
    const LINKS: usize = 1500;
    let last = json!({ "type": "string" });
    let chain = |link: &dyn Fn(Value) -> Value| {
        let mut schema = json!({ "$ref": "#/0" });
        for i in 0..LINKS {
            schema[i.to_string()] = link(json!({ "$ref": format!("#/{}", i + 1) }));
        }
        schema[LINKS.to_string()] = last.clone();
        Grammar::JsonSchema(schema)
    };
    let rules = |name: &str, before: &str| {
        let rule = |i| format!("{name}{i}: {before}{name}{}\n", i + 1);
        let rules: String = (0..LINKS).map(rule).collect();
        Grammar::Lark(format!("start: {name}0\n{rules}{name}{LINKS}: \"a\""))
    };
    let grammars = grammars();
    for grammar in [
        chain(&|next| next),
        chain(&|next| json!({ "properties": { "a": next } })),
        chain(&|next| json!({ "items": next })),
        chain(&|next| json!({ "anyOf": [next] })),
        rules("r", ""),
        rules("r", "\"x\" "),
        rules("A", ""),
        rules("A", "\"x\" "),
    ] {
        drop(grammars.guide(&grammar, false));
    }
}

#[test]
fn schemas_that_take_long_to_compile_are_refused() {
    let text = json!({ "type": "string" });
    let many = |prefix: &str, count: usize| -> Value {
        (0..count).map(|i| (format!("{prefix}{i}"), text.clone())).collect::<serde_json::Map<_, _>>().into()
    };
    let all_of: Vec<Value> = (0..5000).map(|i| json!({ "properties": { format!("p{i}"): text } })).collect();
    let texts: Vec<Value> =
        (0..24).map(|i| json!({ "type": "string", "pattern": format!("a{{{i}}}.*b") })).collect();
    let grammars = grammars();
    let patterns = "its `patternProperties` need more than 10000 comparisons";
    let optional = "its objects have too many properties that are not required";
    for (schema, message) in [
        (json!({ "patternProperties": many("^p", 5000) }), patterns),
        (json!({ "patternProperties": many("^p", 50), "properties": many("q", 500) }), patterns),
        (json!({ "properties": many("p", 5000) }), optional),
        (json!({ "allOf": all_of }), optional),
        (
            json!({ "$defs": { "a": { "properties": many("p", 900) }, "b": { "properties": many("q", 900) } },
            "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/b" }] }),
            optional,
        ),
        (json!({ "allOf": vec![json!({ "$ref": "#" }); 20] }), "its `allOf` are too large"),
        (json!({ "allOf": texts }), "its `allOf` has more than 8 schemas with a `pattern` or a `format`"),
        (
            json!({ "allOf": texts.iter().map(|text| json!({ "properties": { "a": text } })).collect::<Vec<_>>() }),
            "its `allOf` has more than 8 schemas with a `pattern` or a `format`",
        ),
    ] {
        for grammar in [Grammar::Lark(format!("start: \"a\" %json {schema}")), Grammar::JsonSchema(schema)] {
            let error = grammars.guide(&grammar, false).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
    let tool = Tool { name: "f".to_owned(), parameters: json!({ "patternProperties": many("^p", 5000) }) };
    let error = tool_calls(&CallForm::default(), &[tool], false, &model().tokenizer).unwrap_err().to_string();
    assert!(error.starts_with(patterns), "{error}");
    let apart: serde_json::Map<String, Value> = (0..30).map(|i| (format!("^p{i}$"), text.clone())).collect();
    let required: Vec<String> = (0..2000).map(|i| format!("p{i}")).collect();
    for schema in [
        json!({ "properties": many("p", 2000), "required": required, "additionalProperties": false }),
        json!({ "patternProperties": apart, "properties": many("q", 100) }),
    ] {
        assert!(grammars.guide(&Grammar::JsonSchema(schema), false).is_ok());
    }
}

#[test]
fn required_tool_calls_parse() {
    let tool = Tool {
        name: "weather".to_owned(),
        parameters: json!({ "type": "object", "required": ["city"], "properties": {
            "city": { "type": "string" }, "days": { "type": "integer" },
        } }),
    };
    let grammar =
        tool_calls(&CallForm::default(), std::slice::from_ref(&tool), true, &model().tokenizer).unwrap();
    let grammars = grammars();
    for seed in 0..4 {
        let mut guide = grammars.guide(&grammar, false).unwrap();
        let (text, ended) = random_answer(&mut *guide, seed, 2000);
        let tools = vec![tool.clone()];
        let mut parser =
            Parser::new(ParserOptions { tools: tools.into(), reasoning: true, ..ParserOptions::default() });
        let mut parts = parser.push(&text);
        parts.extend(parser.finish());
        assert!(
            ended && parts.iter().all(|part| matches!(part, Part::Call(_) | Part::Arguments(_))),
            "{text:?} {parts:?}"
        );
        assert_eq!(parts[0], Part::Call("weather".to_owned()), "{text:?}");
        assert!(matches!(&parts[1], Part::Arguments(text) if text.contains("city")), "{text:?}");
    }
}

#[test]
fn reasoning_is_free() {
    let think_end = model().tokenizer.token("</think>").unwrap();
    let mut guide = grammars().guide(&Grammar::Choice(vec!["yes".into()]), true).unwrap();
    let x = Token::from(b'x');
    assert!(guide.allowed().allows(x));
    guide.advance(x);
    guide.advance(think_end);
    assert!(!guide.allowed().allows(x));
    assert_eq!(random_answer(&mut *guide, 1, 9), ("yes".to_owned(), true));
}

#[test]
fn wrong_grammars_are_errors() {
    let grammars = grammars();
    for grammar in [
        Grammar::JsonSchema(json!({ "type": "none" })),
        Grammar::Regex("(".into()),
        Grammar::Lark("start".into()),
    ] {
        assert!(!grammars.guide(&grammar, false).unwrap_err().to_string().is_empty(), "{grammar:?}");
    }
}

#[test]
fn a_pattern_beside_the_property_that_it_matches_leaves_no_trap() {
    let grammars = grammars();
    let digit = json!({ "type": "integer", "minimum": 0, "maximum": 9 });
    for (patterns, begin) in [
        (json!({ "^n$": { "type": "integer", "minimum": 5 } }), "n"),
        (json!({ "^(n|m)$": digit }), "n"),
        (json!({ "^[mn]$": digit, "^n": digit }), "n"),
        (json!({ "^x[ab]*$": digit }), "x"),
    ] {
        let schema = json!({ "type": "object", "properties": { "n": digit, "m": digit }, "required": ["n"],
            "additionalProperties": false, "patternProperties": patterns });
        for seed in 0..8 {
            // Keys and commas are as likely as the end.
            let mut guide = match grammars.guide(&Grammar::JsonSchema(schema.clone()), false) {
                Ok(guide) => guide,
                // Patterns that overlap are refused.
                Err(error) => {
                    assert!(patterns.as_object().unwrap().len() > 1, "{error}");
                    continue;
                }
            };
            let (text, ended) = random_answer(&mut *guide, seed, 400);
            assert!(ended, "{patterns} {text:?}");
            let value: Value = serde_json::from_str(&text).unwrap();
            let fits = |key: &String| ["n", "m"].contains(&key.as_str()) || key.starts_with(begin);
            assert!(value.as_object().unwrap().keys().all(fits), "{text:?}");
            if patterns["^n$"].is_object() {
                assert!(value["n"].as_u64().unwrap() >= 5, "both schemas hold: {text:?}");
            }
        }
    }
}

/// A model that likes nothing but white space writes no more of it than between the tokens of pretty JSON.
#[test]
fn white_space_between_tokens_is_bounded() {
    let schema = json!({ "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": { "a": { "type": "array", "items": { "enum": [1] }, "minItems": 1, "maxItems": 2 } } });
    let model = model();
    for grammar in [Grammar::JsonSchema(schema), Grammar::Lark("start: %json {\"enum\": [[1]]}".into())]
        .into_iter()
        .take(1)
    {
        let mut guide = grammars().guide(&grammar, false).unwrap();
        let likes = |token| {
            let bytes = model.tokenizer.bytes(token);
            if !bytes.is_empty() && bytes.iter().all(u8::is_ascii_whitespace) { 50.0 } else { 0.0 }
        };
        let logits: Vec<f32> = (0..CAPACITY.vocabulary).map(likes).collect();
        let mut text = String::new();
        // Twelve spaces and a line break in each of some gaps.
        for offset in 0..160 {
            let allowed = Some(guide.allowed());
            let sampling = Sampling { allowed, temperature: 0.5, seed: 1, offset, ..Sampling::greedy() };
            let token = sample(&logits, &sampling).token;
            if model.stops.contains(&token) {
                break;
            }
            guide.advance(token);
            text += &model.tokenizer.decode(&[token], false);
        }
        let value =
            text.split('>').rev().nth(6).map_or(text.as_str(), |value| value.split('<').next().unwrap());
        assert!(serde_json::from_str::<Value>(value).is_ok(), "{text:?}");
    }
}

#[test]
fn every_one_of_many_choices_can_be_drawn() {
    let grammars = grammars();
    let many: Vec<String> = (0..100_000).map(|number| format!("the man {number}")).collect();
    let mut guide = grammars.guide(&Grammar::Choice(many.clone()), false).unwrap();
    let (text, ended) = random_answer(&mut *guide, 7, 60);
    assert!(ended && many.contains(&text), "{text:?}");
    let few: Vec<String> = ["a", "ab", "grüße", "grün"].map(str::to_owned).to_vec();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut guide = grammars.guide(&Grammar::Choice(few.clone()), false).unwrap();
        let (text, ended) = random_answer(&mut *guide, seed, 60);
        assert!(ended && few.contains(&text), "{text:?}");
        seen.insert(text);
    }
    assert!(seen.len() > 2, "{seen:?}");
}

#[test]
fn errors_of_grammars_say_what_a_client_can_do() {
    let grammars = grammars();
    let overlap =
        json!({ "oneOf": [{ "type": "integer", "minimum": 1 }, { "type": "integer", "maximum": 5 }] });
    let large =
        json!({ "enum": (0..200_000).map(|number| format!("{number} {number}")).collect::<Vec<_>>() });
    for (schema, expected) in [(overlap, "anyOf"), (large, "bytes")] {
        let Err(error) = grammars.guide(&Grammar::JsonSchema(schema), false) else { continue };
        let error = error.to_string();
        assert!(error.contains(expected) && !error.contains("panic") && error.len() < 300, "{error}");
    }
}

/// A model that has no end of its own ends with its grammar.
#[test]
fn a_model_without_an_end_gets_one() {
    let model = model();
    let grammars = Grammars::new(&model.tokenizer, CAPACITY.vocabulary, &[]).unwrap();
    let end = grammars.ends()[0];
    for grammar in [Grammar::Choice(vec!["a".into()]), Grammar::Regex("a".into())] {
        let mut guide = grammars.guide(&grammar, false).unwrap();
        assert!(guide.allowed().allows(Token::from(b'a')) && !guide.allowed().allows(end));
        guide.advance(Token::from(b'a'));
        assert!(guide.allowed().allows(end) && !guide.allowed().allows(Token::from(b'a')));
    }
}
