//! `/v1/responses`: items and events.

use serde_json::{Value, json};

use super::client::{Client, expected, greedy};
use crate::model::model;

const PATH: &str = "/v1/responses";
const CALL: &str =
    "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n</function>\n</tool_call>";

/// The object without what differs each time.
fn fixed(mut object: Value) -> Value {
    fn clean(value: &mut Value) {
        match value {
            Value::Object(object) => {
                for key in ["id", "call_id", "item_id", "created_at"] {
                    if let Some(value) = object.get_mut(key) {
                        *value = value
                            .as_str()
                            .and_then(|id| id.split(['-', '_']).next())
                            .unwrap_or("time")
                            .into();
                    }
                }
                // How much of the prompt another answer left in the cache.
                object.remove("input_tokens_details");
                object.values_mut().for_each(clean);
            }
            Value::Array(values) => values.iter_mut().for_each(clean),
            _ => {}
        }
    }
    clean(&mut object);
    object
}

/// The response, after it was found to be the one that its stream ends with.
async fn respond(client: &Client, body: &Value) -> (Value, Vec<Value>) {
    let whole = fixed(client.answer(PATH, body).await);
    let stream: Vec<Value> = client.stream(PATH, body).await.into_iter().map(fixed).collect();
    assert_eq!(stream.last().unwrap()["response"], whole, "{body}");
    for (number, event) in stream.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    (whole, stream)
}

#[tokio::test]
async fn text_is_that_of_the_model_alone() {
    let client = Client::new();
    let body = json!({ "input": "the man", "temperature": 0, "max_output_tokens": 30, "instructions": "in" });
    let (whole, stream) = respond(&client, &body).await;
    let prompt =
        "<|im_start|>system\nin<|im_end|>\n<|im_start|>user\nthe man<|im_end|>\n<|im_start|>assistant\n";
    let mut wanted = greedy("", 30);
    wanted.prompt = model().tokenizer.encode(prompt, false).unwrap();
    let (tokens, text) = expected(&wanted);
    assert_eq!(whole["output"][0]["content"][0]["text"], text);
    let deltas = stream.iter().filter(|event| event["type"] == "response.output_text.delta");
    assert_eq!(deltas.filter_map(|event| event["delta"].as_str()).collect::<String>(), text);
    let length = tokens.len() == 30;
    assert_eq!(whole["status"], if length { "incomplete" } else { "completed" });
    assert_eq!(whole["usage"]["input_tokens"], wanted.prompt.len());
    assert_eq!(whole["usage"]["output_tokens"], tokens.len());
    assert_eq!((&whole["instructions"], &whole["max_output_tokens"]), (&json!("in"), &json!(30)));
}

#[tokio::test]
async fn reasoning_text_and_calls_are_items() {
    let client =
        Client::answering("<|im_start|>assistant\n<think>\n", &format!("Hm.\n</think>\n\nI look.\n\n{CALL}"));
    let tool = json!({ "type": "function", "name": "weather", "parameters": { "type": "object",
        "properties": { "city": { "type": "string" } } } });
    let body =
        json!({ "input": "Weather?", "tools": [tool], "chat_template_kwargs": { "enable_thinking": true } });
    let (whole, stream) = respond(&client, &body).await;
    insta::assert_json_snapshot!("items", whole["output"]);
    // Deltas of one text are one line.
    let mut lines: Vec<String> = Vec::new();
    for event in &stream {
        let kind = event["type"].as_str().unwrap();
        if lines.last().is_none_or(|last| last != kind || !kind.ends_with("delta")) {
            lines.push(kind.to_owned());
        }
    }
    insta::assert_snapshot!("events", lines.join("\n"));
}

#[tokio::test]
async fn items_of_the_input_are_messages() {
    let client = Client::new();
    let input = json!([
        { "role": "user", "content": [{ "type": "input_text", "text": "Weather?" }] },
        { "type": "reasoning", "summary": [] },
        { "type": "function_call", "call_id": "a", "name": "weather", "arguments": "{\"city\": \"Ulm\"}" },
        { "type": "function_call_output", "call_id": "a", "output": "rain" },
        { "type": "message", "role": "user", "content": "the" },
    ]);
    let call = json!({ "id": "a", "type": "function", "function": { "name": "weather", "arguments": "{\"city\": \"Ulm\"}" } });
    let messages = json!([
        { "role": "user", "content": "Weather?" },
        { "role": "assistant", "content": "", "tool_calls": [call] },
        { "role": "tool", "content": "rain", "tool_call_id": "a" },
        { "role": "user", "content": "the" },
    ]);
    let chat = json!({ "messages": messages, "temperature": 0, "max_tokens": 30 });
    let answer = client.answer("/v1/chat/completions", &chat).await;
    let body = json!({ "input": input, "temperature": 0, "max_output_tokens": 30 });
    let (whole, _) = respond(&client, &body).await;
    assert_eq!(whole["output"][0]["content"][0]["text"], answer["choices"][0]["message"]["content"]);
    assert_eq!(whole["usage"]["input_tokens"], answer["usage"]["prompt_tokens"]);
}

#[tokio::test]
async fn usage_counts_reasoning_and_log_probabilities_are_listed() {
    let client = Client::answering("<|im_start|>assistant\n<think>\n", "Hm.\n</think>\n\nYes.");
    let body = json!({ "input": "x", "chat_template_kwargs": { "enable_thinking": true },
        "include": ["message.output_text.logprobs"], "top_logprobs": 2 });
    let (whole, stream) = respond(&client, &body).await;
    let reasoning = whole["usage"]["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
    let tokens = whole["usage"]["output_tokens"].as_u64().unwrap();
    assert!(0 < reasoning && reasoning < tokens, "{}", whole["usage"]);
    let listed = whole["output"][1]["content"][0]["logprobs"].as_array().unwrap();
    let text: String = listed.iter().filter_map(|entry| entry["token"].as_str()).collect();
    assert!(
        text.contains("Yes.")
            && !text.contains("Hm")
            && listed[0]["top_logprobs"].as_array().unwrap().len() == 2,
        "{text}"
    );
    let deltas = stream.iter().filter(|event| event["type"] == "response.output_text.delta");
    let streamed: Vec<&Value> = deltas.flat_map(|event| event["logprobs"].as_array().unwrap()).collect();
    assert_eq!(streamed, listed.iter().collect::<Vec<_>>());
    // Without, the lists are there and empty.
    let (whole, _) = respond(&client, &json!({ "input": "x", "temperature": 0 })).await;
    assert!(whole["usage"]["output_tokens_details"]["reasoning_tokens"].is_u64());
}
