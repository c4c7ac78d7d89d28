//! `/v1/chat/completions`: templates, reasoning, tools and schemas.

use serde_json::{Value, json};
use warpwright_llm_serving::defaults::Defaults;
use warpwright_llm_step::log_probabilities;
use warpwright_llm_step::toy::Toy;

use super::client::{Client, expected, greedy, joined, last};
use crate::model::{CAPACITY, model};
use crate::scheduler::alone::Wanted;

const PATH: &str = "/v1/chat/completions";

/// The message of the first choice, with its end: from one answer, after it was found to equal its
/// stream.
async fn chat(client: &Client, body: &Value) -> (Value, Value) {
    let whole = client.answer(PATH, body).await;
    let stream = client.stream(PATH, body).await;
    assert_eq!(whole["object"], "chat.completion");
    assert!(stream.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
    for choice in whole["choices"].as_array().unwrap() {
        let index = choice["index"].as_u64().unwrap() as usize;
        let message = &choice["message"];
        for (part, path) in [("content", "/delta/content"), ("reasoning_content", "/delta/reasoning_content")]
        {
            assert_eq!(message[part].as_str().unwrap_or_default(), joined(&stream, index, path), "{body}");
        }
        assert_eq!(choice["finish_reason"], last(&stream, index, "/finish_reason"));
        let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| &call["function"]);
        assert_eq!(calls.cloned().collect::<Vec<_>>(), streamed_calls(&stream), "{body}");
    }
    let choice = &whole["choices"][0];
    (choice["message"].clone(), choice["finish_reason"].clone())
}

/// The functions of a stream's calls, as clients put them together.
fn streamed_calls(stream: &[Value]) -> Vec<Value> {
    let mut calls: Vec<Value> = Vec::new();
    for call in stream.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0)) {
        let index = call["index"].as_u64().unwrap() as usize;
        match calls.get_mut(index) {
            Some(so_far) => {
                let arguments = so_far["arguments"].as_str().unwrap().to_owned();
                so_far["arguments"] = (arguments + call["function"]["arguments"].as_str().unwrap()).into();
            }
            None => {
                assert!(index == calls.len() && call["id"].is_string() && call["type"] == "function");
                calls.push(call["function"].clone());
            }
        }
    }
    calls
}

fn of_prompt(prompt: &str, max_tokens: u32) -> Wanted {
    Wanted { prompt: model().tokenizer.encode(prompt, false).unwrap(), ..greedy("", max_tokens) }
}

const HELLO: &str = "<|im_start|>user\nthe man<|im_end|>\n<|im_start|>assistant\n";

#[tokio::test]
async fn a_conversation_is_its_template() {
    let client = Client::new();
    let user = json!({ "role": "user", "content": "the man" });
    let parts = json!({ "role": "user", "content": [{ "type": "text", "text": "the" }, { "type": "text", "text": "man" }] });
    let begun = json!({ "role": "assistant", "content": "the and" });
    let cases = [
        (json!({ "messages": [user] }), HELLO.to_owned()),
        (json!({ "messages": [parts] }), HELLO.replace("the man", "the\nman")),
        (
            json!({ "messages": [{ "role": "developer", "content": "in" }, user] }),
            format!("<|im_start|>system\nin<|im_end|>\n{HELLO}"),
        ),
        (json!({ "messages": [user, begun], "continue_final_message": true }), format!("{HELLO}the and")),
        (
            json!({ "messages": [user], "chat_template_kwargs": { "enable_thinking": false } }),
            format!("{HELLO}<think>\n\n</think>\n\n"),
        ),
    ];
    for (mut body, prompt) in cases {
        body.as_object_mut().unwrap().extend([
            ("temperature".to_owned(), 0.into()),
            ("max_completion_tokens".to_owned(), 40.into()),
            ("max_tokens".to_owned(), 2.into()),
        ]);
        let wanted = of_prompt(&prompt, 40);
        let tokens = client.answer("/tokenize", &body).await;
        assert_eq!(tokens["tokens"], json!(wanted.prompt), "{body}");
        let (message, _) = chat(&client, &body).await;
        assert_eq!(message["content"], expected(&wanted).1, "{body}");
        assert_eq!(message["role"], "assistant");
    }
}

fn weather() -> Value {
    json!({ "type": "function", "function": { "name": "weather", "parameters": {
        "type": "object", "required": ["city"],
        "properties": { "city": { "enum": ["Ulm", "Bonn"] }, "days": { "type": "integer", "minimum": 1, "maximum": 9 } },
    } } })
}

const CALL: &str = "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>";

#[tokio::test]
async fn answers_are_split_into_reasoning_content_and_calls() {
    let called = json!([{ "name": "weather", "arguments": r#"{"city":"Ulm","days":3}"# }]);
    let thought = format!("Let me see.\n</think>\n\n{CALL}");
    let two = format!("I look. {CALL}\n{CALL}");
    let twice = json!([called[0], called[0]]);
    // Whether the model thinks, its answer, and the reasoning, the content, the calls and the end
    // that clients see.
    let cases = [
        (false, "Yes, the man.", Value::Null, json!("Yes, the man."), json!([]), "stop"),
        (true, "Hm, hm.\n</think>\n\nYes.", json!("Hm, hm."), json!("Yes."), json!([]), "stop"),
        (false, CALL, Value::Null, Value::Null, called.clone(), "tool_calls"),
        (true, &thought, json!("Let me see."), Value::Null, called, "tool_calls"),
        (false, &two, Value::Null, json!("I look."), twice, "tool_calls"),
        (
            false,
            "A <tool_call> that is none",
            Value::Null,
            json!("A <tool_call> that is none"),
            json!([]),
            "stop",
        ),
    ];
    for (thinks, answer, reasoning, content, calls, end) in cases {
        let ending = if thinks { "<|im_start|>assistant\n<think>\n" } else { "<|im_start|>assistant\n" };
        let client = Client::answering(ending, answer);
        let mut body =
            json!({ "messages": [{ "role": "user", "content": "Weather?" }], "tools": [weather()] });
        if thinks {
            body["chat_template_kwargs"] = json!({ "enable_thinking": true });
        }
        let (message, finish) = chat(&client, &body).await;
        assert_eq!(message["reasoning_content"], reasoning, "{answer:?}");
        assert_eq!(message["content"], content, "{answer:?}");
        let found: Vec<&Value> =
            message["tool_calls"].as_array().into_iter().flatten().map(|call| &call["function"]).collect();
        assert_eq!(json!(found), calls, "{answer:?}");
        assert_eq!(finish, end, "{answer:?}");
        if thinks {
            body["include_reasoning"] = false.into();
            assert_eq!(chat(&client, &body).await.0["reasoning_content"], Value::Null);
        }
        // Without tools, a call is text.
        body["tool_choice"] = "none".into();
        let (message, _) = chat(&client, &body).await;
        assert_eq!(message["tool_calls"], Value::Null, "{answer:?}");
    }
}

#[tokio::test]
async fn a_required_tool_is_called() {
    let client = Client::new();
    let other =
        json!({ "type": "function", "function": { "name": "time", "parameters": { "type": "object" } } });
    let named = json!({ "type": "function", "function": { "name": "weather" } });
    for seed in 0..6 {
        for (choice, names) in
            [(json!("required"), vec!["weather", "time"]), (named.clone(), vec!["weather"])]
        {
            // The end of the answer as soon as it is allowed.
            let body = json!({
                "messages": [{ "role": "user", "content": "the" }], "tools": [weather(), other], "tool_choice": choice,
                "seed": seed, "logit_bias": { "302": 100 }, "max_tokens": 400,
            });
            let (message, finish) = chat(&client, &body).await;
            let function = &message["tool_calls"][0]["function"];
            let name = function["name"].as_str().unwrap();
            assert!(names.contains(&name), "{message}");
            let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
            let valid = name == "time" || ["Ulm", "Bonn"].contains(&arguments["city"].as_str().unwrap());
            assert!(valid && finish == "tool_calls", "{message}");
        }
    }
}

#[tokio::test]
async fn allowed_tools_are_called_alone() {
    let client = Client::new();
    let other = json!({ "type": "function", "function": { "name": "time" } });
    let body = |allowed: Value| {
        json!({
            "messages": [{ "role": "user", "content": "the" }], "tools": [weather(), other], "tool_choice": allowed,
            "logit_bias": { "302": 100 }, "max_tokens": 400,
        })
    };
    let name = json!({ "type": "function", "function": { "name": "time" } });
    let allowed =
        json!({ "type": "allowed_tools", "allowed_tools": { "mode": "required", "tools": [name] } });
    let (message, _) = chat(&client, &body(allowed)).await;
    assert_eq!(message["tool_calls"][0]["function"], json!({ "name": "time", "arguments": "{}" }));
}

/// What OpenAI's client libraries send back: no arguments as an empty text, too.
#[tokio::test]
async fn calls_of_the_conversation_have_objects_as_arguments() {
    let client = Client::new();
    let body = |arguments: Value| {
        let call = json!({ "id": "a", "type": "function", "function": { "name": "weather", "arguments": arguments } });
        let called = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
        json!({ "messages": [{ "role": "user", "content": "the" }, called, { "role": "tool", "tool_call_id": "a", "content": "x" }] })
    };
    let none = client.answer("/tokenize", &body(json!({}))).await["tokens"].take();
    for same in [json!("{}"), json!(""), json!(null)] {
        assert_eq!(client.answer("/tokenize", &body(same.clone())).await["tokens"], none, "{same}");
    }
    for wrong in [json!("{oops"), json!("[]"), json!("5"), json!([1])] {
        let reply = client.post("/v1/chat/completions", body(wrong.clone())).await;
        assert_eq!(reply.status, 400, "{wrong}");
        assert_eq!(reply.json()["error"]["param"], "messages[1].tool_calls[0].function.arguments");
    }
}

#[tokio::test]
async fn an_answer_is_of_its_schema() {
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["name", "age"],
        "properties": { "name": { "enum": ["Ann", "Bob"] }, "age": { "type": "integer", "minimum": 0, "maximum": 99 } } });
    let check = |text: &str| {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
        assert!(
            ["Ann", "Bob"].contains(&value["name"].as_str().unwrap()) && value["age"].as_u64().unwrap() < 100
        );
    };
    let client = Client::new();
    for seed in 0..4 {
        let format = json!({ "type": "json_schema", "json_schema": { "name": "person", "strict": true, "schema": schema } });
        // White space is allowed anywhere; the bias keeps it short.
        let bias = json!({ "32": -100, "10": -100, "13": -100, "9": -100, "302": 100 });
        let body = json!({ "messages": [{ "role": "user", "content": "the" }], "response_format": format, "seed": seed,
            "logit_bias": bias });
        let (message, finish) = chat(&client, &body).await;
        check(message["content"].as_str().unwrap());
        assert_eq!(finish, "stop");
        let text = json!({ "format": { "type": "json_schema", "name": "person", "schema": schema } });
        let body = json!({ "input": "the", "text": text, "seed": seed, "logit_bias": bias });
        let response = client.answer("/v1/responses", &body).await;
        check(response["output"][0]["content"][0]["text"].as_str().unwrap());
    }
}

#[tokio::test]
async fn log_probabilities_list_tokens_and_alternatives() {
    let client = Client::new();
    let body = json!({ "messages": [{ "role": "user", "content": "the man" }], "logprobs": true, "top_logprobs": 3,
        "temperature": 0, "max_tokens": 20 });
    let whole = client.answer(PATH, &body).await;
    let stream = client.stream(PATH, &body).await;
    let content = whole["choices"][0]["logprobs"]["content"].as_array().unwrap();
    let parts = stream.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array());
    assert_eq!(parts.flatten().collect::<Vec<_>>(), content.iter().collect::<Vec<_>>());
    let mut tokens = of_prompt(HELLO, 20).prompt;
    let toy = Toy::new(CAPACITY);
    for (found, token) in content.iter().zip(expected(&of_prompt(HELLO, 20)).0) {
        let reference = log_probabilities(&toy.logits(&tokens), token, 3);
        assert_eq!(found["logprob"].as_f64().unwrap() as f32, reference.log_probability);
        assert_eq!(found["bytes"], json!(model().tokenizer.bytes(token)));
        let top = found["top_logprobs"].as_array().unwrap().iter();
        let top: Vec<f32> = top.map(|one| one["logprob"].as_f64().unwrap() as f32).collect();
        assert_eq!(top, reference.top.iter().map(|(_, value)| *value).collect::<Vec<_>>());
        tokens.push(token);
    }
}

#[tokio::test]
async fn many_conversations_at_once_do_not_mix() {
    let client = Client::new();
    let texts: Vec<String> =
        (0..24).map(|number| format!("the man {number} {}", "and ".repeat(number * 2))).collect();
    let requests = texts.iter().enumerate().map(|(number, text)| {
        let (client, stream) = (client.clone(), number % 2 == 0);
        let body =
            json!({ "messages": [{ "role": "user", "content": text }], "temperature": 0, "max_tokens": 60 });
        tokio::spawn(async move {
            if stream {
                joined(&client.stream(PATH, &body).await, 0, "/delta/content")
            } else {
                client.answer(PATH, &body).await["choices"][0]["message"]["content"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            }
        })
    });
    for (text, found) in texts.iter().zip(requests.collect::<Vec<_>>()) {
        let prompt = HELLO.replace("the man", text);
        assert_eq!(found.await.unwrap(), expected(&of_prompt(&prompt, 60)).1, "{text}");
    }
}

/// A conversation whose answer has to be this text.
fn forced(answer: &str) -> Value {
    json!({ "messages": [{ "role": "user", "content": "x" }], "max_tokens": 400, "temperature": 0,
        "structured_outputs": { "choice": [answer] }, "tools": [weather()] })
}

#[tokio::test]
async fn stop_strings_count_in_content_alone() {
    let client = Client::new();
    let stopped = |answer: &str, stop: &str| {
        let mut body = forced(answer);
        body["stop"] = json!([stop]);
        let client = client.clone();
        async move { chat(&client, &body).await }
    };
    let (message, finish) = stopped("<think>\nStep: one\n</think>\n\nDone. Step: two", "Step:").await;
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("Step: one"), &json!("Done. ")));
    assert_eq!(finish, "stop");
    let (message, finish) = stopped(CALL, "Ulm").await;
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"city":"Ulm","days":3}"#);
    assert_eq!(finish, "tool_calls");
}

#[tokio::test]
async fn a_call_may_be_inside_of_reasoning_and_may_be_cut() {
    let client = Client::new();
    let (message, finish) = chat(&client, &forced(&format!("<think>\nI look it up.\n{CALL}"))).await;
    assert_eq!(message["reasoning_content"], "I look it up.");
    assert_eq!((&message["content"], &finish), (&Value::Null, &json!("tool_calls")));
    let mut body = forced(CALL);
    for most in 1..60 {
        body["max_tokens"] = most.into();
        let (message, finish) = chat(&client, &body).await;
        assert!(["", "<"].contains(&message["content"].as_str().unwrap_or_default()), "{message}");
        assert_eq!(finish, "length");
    }
}

#[tokio::test]
async fn a_named_function_is_called_once() {
    let client = Client::new();
    let named = json!({ "type": "function", "function": { "name": "weather" } });
    for (choice, parallel) in [(named, true), (json!("required"), false), (json!("auto"), false)] {
        let mut body = forced(&format!("{CALL}\n{CALL}"));
        body["tool_choice"] = choice.clone();
        body["parallel_tool_calls"] = parallel.into();
        if choice != "auto" {
            body.as_object_mut().unwrap().remove("structured_outputs");
            body["logit_bias"] = json!({ "302": -100 });
        }
        let (message, finish) = chat(&client, &body).await;
        assert_eq!(message["tool_calls"].as_array().unwrap().len(), 1, "{choice}: {message}");
        assert_eq!(finish, "tool_calls");
    }
}

#[tokio::test]
async fn what_a_request_leaves_out_is_as_the_model_recommends() {
    let defaults = Defaults {
        temperature: Some(0.5),
        top_p: Some(0.8),
        top_k: Some(9),
        min_p: Some(0.01),
        repetition_penalty: Some(1.2),
        max_tokens: Some(30),
    };
    let client = Client::recommending(defaults);
    let said = |fields: Value| {
        let mut body = json!({ "messages": [{ "role": "user", "content": "the man" }], "seed": 3 });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let content = |answer: Value| answer["choices"][0]["message"]["content"].clone();
    let recommended = client.answer(PATH, &said(json!({}))).await;
    assert!(recommended["usage"]["completion_tokens"].as_u64().unwrap() <= 30);
    let fields = json!({ "temperature": 0.5, "top_p": 0.8, "top_k": 9, "min_p": 0.01, "repetition_penalty": 1.2,
                         "max_tokens": 30 });
    let explicit = Client::new().answer(PATH, &said(fields)).await;
    assert_eq!(content(recommended), content(explicit));
    // A field of the request counts.
    let plain = json!({ "temperature": 1, "top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1, "max_tokens": 60 });
    let asked = client.answer(PATH, &said(plain)).await;
    let without = Client::new().answer(PATH, &said(json!({ "max_tokens": 60 }))).await;
    assert_eq!(content(asked), content(without));
    let models = client.get("/v1/models").await.json();
    assert_eq!(models["data"][0]["chat_defaults"], serde_json::to_value(defaults).unwrap());
}
