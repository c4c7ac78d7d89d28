//! Bodies with random values anywhere: an answer or a client's error, never a failure of the server.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::client::Client;

/// Bodies that use every field.
fn bases() -> Vec<(&'static str, Value)> {
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": {
        "type": "object", "required": ["a"], "properties": { "a": { "type": "string" }, "b": { "enum": [1, 2] } } } } });
    let call =
        json!({ "id": "1", "type": "function", "function": { "name": "f", "arguments": "{\"a\": 1}" } });
    let sampling = json!({
        "model": "toy", "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "presence_penalty": 0.5,
        "frequency_penalty": 0.5, "repetition_penalty": 1.1, "seed": 1, "logit_bias": { "65": 1 }, "stop": ["x"],
        "stop_token_ids": [5], "include_stop_str_in_output": true, "ignore_eos": true, "min_tokens": 1,
        "skip_special_tokens": false, "n": 2, "stream": true, "stream_options": { "include_usage": true },
        "return_token_ids": true,
    });
    let with = |more: Value| {
        let mut body = sampling.as_object().unwrap().clone();
        body.extend(more.as_object().unwrap().clone());
        Value::Object(body)
    };
    let messages = json!([
        { "role": "system", "content": "a" }, { "role": "user", "content": [{ "type": "text", "text": "b" }] },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "1", "content": "c" },
    ]);
    let schema = json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "integer" } } } });
    vec![
        (
            "/v1/completions",
            with(json!({ "prompt": [[1, 2], [3]], "max_tokens": 3, "echo": true, "logprobs": 2,
            "prompt_logprobs": 1, "add_special_tokens": true, "structured_outputs": { "regex": "[ab]+" } })),
        ),
        (
            "/v1/chat/completions",
            with(json!({ "messages": messages, "max_tokens": 3, "logprobs": true,
            "top_logprobs": 2, "tools": [tool], "tool_choice": "required", "include_reasoning": false,
            "chat_template_kwargs": { "enable_thinking": true }, "add_generation_prompt": true })),
        ),
        (
            "/v1/chat/completions",
            with(json!({ "messages": messages, "max_tokens": 3, "continue_final_message": true,
            "response_format": { "type": "json_schema", "json_schema": { "name": "s", "schema": schema } } })),
        ),
        (
            "/v1/responses",
            with(json!({ "n": 1, "max_output_tokens": 3, "instructions": "a", "tools": [tool], "input": [
            { "role": "user", "content": [{ "type": "input_text", "text": "a" }] },
            { "type": "function_call", "call_id": "1", "name": "f", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "1", "output": "b" } ],
            "text": { "format": { "type": "json_schema", "name": "s", "schema": schema } } })),
        ),
        ("/tokenize", json!({ "prompt": "a", "add_special_tokens": true })),
        ("/detokenize", json!({ "tokens": [1, 2, 3] })),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec![0i64, 1, -1, 2, 64, 319, 320, 1 << 32]).prop_map(Value::from),
        prop::num::f64::ANY.prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "<think>",
            "<|im_end|>",
            "{%",
            "none",
            "json_object",
            "\u{0}",
            "(",
            "start: /a/"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(
                (prop::sample::select(vec!["type", "a", "role", "content", "schema", "65"]), inner),
                0..4
            )
            .prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>()
            )),
        ]
    })
}

/// Replaces the value that `at` leads to: a child for each number, until there is none.
fn replace(value: &mut Value, at: &[usize], with: Value) {
    let Some((first, rest)) = at.split_first() else {
        *value = with;
        return;
    };
    let child = match value {
        Value::Object(object) => {
            let number = first % object.len().max(1);
            object.values_mut().nth(number)
        }
        Value::Array(items) => {
            let number = first % items.len().max(1);
            items.get_mut(number)
        }
        _ => None,
    };
    match child {
        Some(child) => replace(child, rest, with),
        None => *value = with,
    }
}

#[test]
fn no_value_anywhere_fails_the_server() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(async { Client::new() });
    let bases = bases();
    for (path, body) in &bases {
        let reply = runtime.block_on(client.post(path, body));
        assert!(reply.status.is_success(), "{path}: {}", reply.text);
    }
    let config = ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() };
    let path = prop::collection::vec(any::<usize>(), 1..5);
    let mutations = prop::collection::vec((path, any_value()), 1..3);
    proptest!(config, |(base in 0..bases.len(), mutations in mutations)| {
        let (path, mut body) = bases[base].clone();
        for (at, value) in mutations {
            replace(&mut body, &at, value);
        }
        let reply = runtime.block_on(client.post(path, &body));
        let accepted = reply.status.is_success() || reply.status.is_client_error();
        prop_assert!(accepted && !reply.text.contains("internal_error"), "{} {}: {} {}", path, body, reply.status, reply.text);
    });
    assert!(client.service.failed().is_none());
    assert_eq!(client.service.requests(), 0);
}
