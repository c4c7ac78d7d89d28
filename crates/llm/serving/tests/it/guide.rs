//! Answers that a grammar allows, drawn at random.

use serde_json::{Value, json};
use warpwright_llm_serving::guide::{Grammar, Grammars, tool_calls};
use warpwright_llm_serving::scheduler::Guide;
use warpwright_llm_serving::text::{Parser, ParserOptions, Part, Tool};
use warpwright_llm_step::{Sampling, Token, sample};

use crate::model::{CAPACITY, model};

/// An answer of at most `most` tokens, drawn uniformly among what the guide allows, and whether it
/// ended.
fn random_answer(guide: &mut dyn Guide, seed: u64, most: u64) -> (String, bool) {
    let model = model();
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

#[test]
fn required_tool_calls_parse() {
    let tool = Tool {
        name: "weather".to_owned(),
        parameters: json!({ "type": "object", "required": ["city"], "properties": {
            "city": { "type": "string" }, "days": { "type": "integer" },
        } }),
    };
    let grammar = tool_calls(std::slice::from_ref(&tool));
    let grammars = grammars();
    for seed in 0..4 {
        let mut guide = grammars.guide(&grammar, false).unwrap();
        let (text, ended) = random_answer(&mut *guide, seed, 2000);
        let tools = vec![tool.clone()];
        let mut parser = Parser::new(ParserOptions { tools, reasoning: true, starts_in_reasoning: false });
        let mut parts = parser.push(&text);
        parts.extend(parser.finish());
        assert!(ended && parts.iter().all(|part| matches!(part, Part::ToolCall(_))), "{text:?} {parts:?}");
        assert!(
            matches!(&parts[0], Part::ToolCall(call) if call.name == "weather" && call.arguments.contains("city")),
            "{text:?}"
        );
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
