//! Every wrong field is an error object that names it.

use std::fmt::Write;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use warpwright_llm_serving::server::Limits;
use warpwright_llm_step::toy::Toy;

use super::client::Client;
use crate::model::CAPACITY;

fn with(base: &Value, change: &Value) -> Value {
    let mut body = base.as_object().unwrap().clone();
    for (key, value) in change.as_object().unwrap() {
        match value {
            Value::String(text) if text == "LEFT OUT" => drop(body.remove(key)),
            _ => drop(body.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(body)
}

/// What is wrong with fields that all endpoints share.
fn shared() -> Vec<Value> {
    vec![
        json!({ "model": "gpt-4" }),
        json!({ "model": 1 }),
        json!({ "temperature": -0.1 }),
        json!({ "temperature": 2.1 }),
        json!({ "temperature": "hot" }),
        json!({ "temperature": 1e300 }),
        json!({ "top_p": 0 }),
        json!({ "top_p": 1.01 }),
        json!({ "top_k": -2 }),
        json!({ "top_k": 5_000_000_000_u64 }),
        json!({ "min_p": 1.5 }),
        json!({ "presence_penalty": 3 }),
        json!({ "frequency_penalty": -3 }),
        json!({ "repetition_penalty": 0 }),
        json!({ "seed": "abc" }),
        json!({ "logit_bias": { "the": 1 } }),
        json!({ "logit_bias": { "1": 101 } }),
        json!({ "logit_bias": { "320": 1 } }),
        json!({ "logit_bias": [] }),
        json!({ "stop": "" }),
        json!({ "stop": 5 }),
        json!({ "stop": ["a", 5] }),
        json!({ "stop": vec!["a"; 17] }),
        json!({ "stop": "a".repeat(1025) }),
        json!({ "stop_token_ids": vec![1; 1025] }),
        json!({ "bad_words": ["a".repeat(1025)] }),
        json!({ "stop_token_ids": [320] }),
        json!({ "stop_token_ids": [-1] }),
        json!({ "min_tokens": 2000 }),
        json!({ "min_tokens": -1 }),
        json!({ "n": 0 }),
        json!({ "n": 129 }),
        json!({ "stream": "yes" }),
        json!({ "stream_options": { "include_usage": 1 } }),
        json!({ "stream_options": { "include_usage": true } }),
        json!({ "allowed_token_ids": [] }),
        json!({ "allowed_token_ids": [320] }),
        json!({ "bad_words": [""] }),
        json!({ "bad_words": vec!["a"; 65] }),
        json!({ "structured_outputs": { "choice": [] } }),
        json!({ "structured_outputs": { "choice": ["a"], "regex": "a" } }),
        json!({ "structured_outputs": { "regex": "(" } }),
        json!({ "structured_outputs": { "grammar": "start" } }),
    ]
}

fn of_completions() -> Vec<Value> {
    vec![
        json!({ "prompt": "LEFT OUT" }),
        json!({ "prompt": null }),
        json!({ "prompt": 5 }),
        json!({ "prompt": "" }),
        json!({ "prompt": [] }),
        json!({ "prompt": [[]] }),
        json!({ "prompt": [320] }),
        json!({ "prompt": ["a", 1] }),
        json!({ "prompt": "x".repeat(1024) }),
        json!({ "prompt": "x".repeat(1020), "max_tokens": 10 }),
        json!({ "prompt": vec!["a"; 65], "n": 2 }),
        json!({ "max_tokens": 0 }),
        json!({ "max_tokens": -1 }),
        json!({ "max_tokens": 4_000_000_000_u32 }),
        json!({ "max_tokens": 5_000_000_000_u64 }),
        json!({ "logprobs": 6 }),
        json!({ "prompt_logprobs": 6 }),
        json!({ "suffix": "end" }),
        json!({ "best_of": 2 }),
    ]
}

fn of_chats() -> Vec<Value> {
    let user = json!({ "role": "user", "content": "a" });
    let tool = json!({ "type": "function", "function": { "name": "f" } });
    vec![
        json!({ "messages": "LEFT OUT" }),
        json!({ "messages": [] }),
        json!({ "messages": "hello" }),
        json!({ "messages": ["hello"] }),
        json!({ "messages": [user, { "content": "no role" }] }),
        json!({ "messages": [{ "role": "poet", "content": "a" }] }),
        json!({ "messages": [{ "role": "user" }] }),
        json!({ "messages": [{ "role": "user", "content": 5 }] }),
        json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] }),
        json!({ "messages": [user, { "role": "system", "content": "late" }] }),
        json!({ "max_completion_tokens": 0 }),
        json!({ "max_tokens": 0 }),
        json!({ "tools": [{ "type": "web_search" }] }),
        json!({ "tools": [tool], "tool_choice": { "type": "allowed_tools", "allowed_tools": { "mode": "auto", "tools": [] } } }),
        json!({ "max_tokens": 1024 }),
        json!({ "logprobs": true, "top_logprobs": 6 }),
        json!({ "top_logprobs": 1 }),
        json!({ "tools": [5] }),
        json!({ "tools": [{ "type": "function", "function": {} }] }),
        json!({ "tools": [{ "type": "function", "function": { "name": "a b" } }] }),
        json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": "x" } }] }),
        json!({ "tool_choice": "required" }),
        json!({ "tool_choice": "sometimes" }),
        json!({ "tools": [tool], "tool_choice": { "function": { "name": "g" } } }),
        json!({ "tools": [tool], "tool_choice": "required", "response_format": { "type": "json_object" } }),
        json!({ "response_format": { "type": "yaml" } }),
        json!({ "response_format": { "type": "json_schema" } }),
        json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": { "type": "none" } } } }),
        json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": { "$ref": "#/nowhere" } } } }),
        json!({ "chat_template_kwargs": 5 }),
        json!({ "messages": [{ "role": "user", "content": "x".repeat(1100) }] }),
    ]
}

fn of_responses() -> Vec<Value> {
    vec![
        json!({ "tools": [{ "type": "web_search" }] }),
        json!({ "tools": [{ "type": "function", "name": "f" }, { "type": "code_interpreter", "container": {} }] }),
        json!({ "input": "LEFT OUT" }),
        json!({ "input": 5 }),
        json!({ "input": [] }),
        json!({ "input": [{ "type": "item_reference" }] }),
        json!({ "input": [5] }),
        json!({ "max_output_tokens": 0 }),
        json!({ "n": 2 }),
        json!({ "previous_response_id": "resp_1" }),
        json!({ "background": true }),
        json!({ "text": { "format": { "type": "yaml" } } }),
    ]
}

/// A text of a JSON value that fits into a line.
fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= 130 { text } else { format!("{}..", text.chars().take(60).collect::<String>()) }
}

#[tokio::test]
async fn every_wrong_field_is_an_error_that_names_it() {
    let client = Client::new();
    let completion = json!({ "prompt": "a", "max_tokens": 5 });
    let chat = json!({ "messages": [{ "role": "user", "content": "a" }], "max_tokens": 5 });
    let response = json!({ "input": "a", "max_output_tokens": 5 });
    let tokens = vec![json!({ "prompt": 5 }), json!({ "prompt": null }), json!({ "messages": [] })];
    let ids = vec![json!({ "tokens": "LEFT OUT" }), json!({ "tokens": [320] }), json!({ "tokens": "a" })];
    let table = [
        ("/v1/completions", &completion, shared()),
        ("/v1/completions", &completion, of_completions()),
        ("/v1/chat/completions", &chat, of_chats()),
        ("/v1/responses", &response, of_responses()),
        ("/tokenize", &Value::Object(Map::new()), tokens),
        ("/detokenize", &json!({ "tokens": [] }), ids),
    ];
    let mut page = String::new();
    for (path, base, changes) in &table {
        writeln!(page, "\n{path}").unwrap();
        for change in changes {
            let reply = client.post(path, with(base, change)).await;
            let error = &reply.json()["error"];
            assert!(reply.status.is_client_error(), "{change}: {} {}", reply.status, reply.text);
            assert!(
                error["message"].as_str().is_some_and(|message| message.ends_with('.')),
                "{change}: {error}"
            );
            let (param, code) = (error["param"].as_str(), error["code"].as_str());
            writeln!(
                page,
                "{}\n    {} {} {}: {}",
                short(change),
                reply.status.as_u16(),
                param.unwrap_or("-"),
                code.unwrap_or("-"),
                error["message"].as_str().unwrap_or_default()
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!("errors", page);
    assert_eq!(client.service.requests(), 0);
    // What is wrong with the fields that all share is wrong in conversations, too.
    for change in shared() {
        for (path, base) in [("/v1/chat/completions", &chat), ("/v1/responses", &response)] {
            let reply = client.post(path, with(base, &change)).await;
            assert!(reply.status.is_client_error(), "{change}: {} {}", reply.status, reply.text);
        }
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_object_is_an_error() {
    let client = Client::new();
    let deep = "[".repeat(100_000);
    for path in ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/tokenize", "/detokenize"] {
        for body in
            ["", "{", "[]", "5", "null", "{\"prompt\": \"\\ud800\"}", "{\"a\": 1e999}", "\u{0}", &deep]
        {
            let reply = client.post(path, body).await;
            assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path} {}", &body[..body.len().min(20)]);
            assert_eq!(reply.json()["error"]["type"], "invalid_request_error");
        }
    }
}

#[tokio::test]
async fn a_failed_engine_is_an_error_and_no_longer_healthy() {
    let client = Client::of(Toy::new(CAPACITY).fails_at(4), Limits::default());
    assert_eq!(client.get("/health").await.status, StatusCode::OK);
    let body = json!({ "prompt": "the", "max_tokens": 100, "ignore_eos": true });
    let reply = client.post("/v1/completions", &body).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("engine_failed"))
    );
    for path in ["/health", "/ready"] {
        assert_eq!(client.get(path).await.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    // In a stream, the error is the last event.
    let client = Client::of(Toy::new(CAPACITY).fails_at(4), Limits::default());
    let mut body = body;
    body["stream"] = true.into();
    let reply = client.post("/v1/completions", &body).await;
    let events = super::client::events(&reply.text);
    assert_eq!(events.last().unwrap()["error"]["code"], "engine_failed");
}
