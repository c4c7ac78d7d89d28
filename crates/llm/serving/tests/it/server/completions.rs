//! `/v1/completions`: what the model alone would answer, streamed or not.

use serde_json::{Value, json};
use warpwright_llm_serving::scheduler::Draw;
use warpwright_llm_step::toy::Toy;
use warpwright_llm_step::{Token, log_probabilities};

use super::client::{Client, expected, greedy, joined, last};
use crate::model::{CAPACITY, model};
use crate::scheduler::alone::Wanted;

const PATH: &str = "/v1/completions";

/// The text of a choice and why it ended: from one answer, after it was found to equal its stream.
async fn complete(client: &Client, body: &Value) -> Vec<Value> {
    let whole = client.answer(PATH, body).await;
    let stream = client.stream(PATH, body).await;
    let choices = whole["choices"].as_array().unwrap().clone();
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], index);
        assert_eq!(choice["text"], joined(&stream, index, "/text"), "{body}");
        for path in ["/finish_reason", "/stop_reason"] {
            assert_eq!(*choice.pointer(path).unwrap(), last(&stream, index, path), "{body}");
        }
    }
    choices
}

#[tokio::test]
async fn answers_are_those_of_the_model_alone() {
    let client = Client::new();
    let base = |change: &dyn Fn(&mut Wanted)| {
        let mut wanted = greedy("the man and the", 60);
        wanted.draw.temperature = 0.9;
        wanted.draw.seed = 7;
        change(&mut wanted);
        wanted
    };
    let fields = json!({ "prompt": "the man and the", "max_tokens": 60, "temperature": 0.9, "seed": 7 });
    let stops = model().stops;
    let cases: Vec<(Value, Wanted)> = vec![
        (json!({}), base(&|_| {})),
        (json!({ "temperature": 0 }), base(&|w| w.draw = Draw::greedy())),
        // Everything below 0.01 is 0.01.
        (json!({ "temperature": 1e-30 }), base(&|w| w.draw.temperature = 0.01)),
        (json!({ "temperature": 2.0 }), base(&|w| w.draw.temperature = 2.0)),
        (json!({ "seed": -3 }), base(&|w| w.draw.seed = (-3i64).cast_unsigned())),
        (json!({ "top_k": 3 }), base(&|w| w.draw.top_k = 3)),
        (json!({ "top_k": -1, "top_p": 0.2 }), base(&|w| w.draw.top_p = 0.2)),
        (json!({ "min_p": 0.5 }), base(&|w| w.draw.min_p = 0.5)),
        (json!({ "presence_penalty": 1.5 }), base(&|w| w.draw.presence_penalty = 1.5)),
        (json!({ "frequency_penalty": 2 }), base(&|w| w.draw.frequency_penalty = 2.0)),
        (json!({ "repetition_penalty": 1.8 }), base(&|w| w.draw.repetition_penalty = 1.8)),
        (
            json!({ "logit_bias": { "65": 5, "66": 5.5, "300": -100, "302": -100 } }),
            base(&|w| w.draw.logit_bias = vec![(65, 5.0), (66, 5.5), (300, -100.0), (302, -100.0)]),
        ),
        (json!({ "max_tokens": 1 }), base(&|w| w.max_tokens = 1)),
        (
            json!({ "ignore_eos": true, "max_tokens": 400 }),
            base(&|w| {
                (w.stop_tokens, w.max_tokens) = (vec![], 400);
            }),
        ),
        (
            json!({ "stop_token_ids": (32..128).collect::<Vec<Token>>() }),
            base(&|w| {
                w.stop_tokens.extend(32..128);
            }),
        ),
        (
            json!({ "stop_token_ids": (32..128).collect::<Vec<Token>>(), "min_tokens": 20 }),
            base(&|w| {
                w.stop_tokens.extend(32..128);
                w.min_tokens = 20;
            }),
        ),
    ];
    for (change, wanted) in cases {
        let mut body = fields.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body["return_token_ids"] = true.into();
        let (tokens, text) = expected(&wanted);
        let choice = &complete(&client, &body).await[0];
        assert_eq!(choice["token_ids"], json!(tokens), "{body}");
        assert_eq!(choice["text"], text, "{body}");
        let end = tokens.last().unwrap();
        let own = stops.contains(end) && wanted.stop_tokens.contains(end);
        let (reason, stop) = match wanted.stop_tokens.contains(end) {
            true => ("stop", if own { Value::Null } else { json!(end) }),
            false => ("length", Value::Null),
        };
        assert_eq!((&choice["finish_reason"], &choice["stop_reason"]), (&json!(reason), &stop), "{body}");
    }
    assert_eq!(client.service.requests(), 0);
}

/// The text of a token may wait for the next, as here for the end of a stop string; its number does
/// not.
#[tokio::test]
async fn numbers_of_tokens_are_sent_at_once() {
    let client = Client::new();
    let text = expected(&greedy("the man and the", 60)).1;
    let stop = format!("{}never", &text[..text.len() / 2]);
    let body = json!({ "prompt": "the man and the", "max_tokens": 60, "temperature": 0, "stop": [stop],
        "return_token_ids": true });
    let stream = client.stream(PATH, &body).await;
    let counts = stream.iter().map(|event| event["choices"][0]["token_ids"].as_array().unwrap().len());
    assert_eq!(counts.collect::<Vec<_>>(), [1; 60]);
    assert_eq!(joined(&stream, 0, "/text"), text);
}

#[tokio::test]
async fn a_prompt_is_text_or_tokens_one_or_several() {
    let client = Client::new();
    let tokenizer = model().tokenizer;
    let texts = ["the", "and in the man"];
    let tokens: Vec<Vec<Token>> = texts.iter().map(|text| tokenizer.encode(text, true).unwrap()).collect();
    let alone: Vec<String> = texts.iter().map(|text| expected(&greedy(text, 20)).1).collect();
    for (prompt, wanted) in [
        (json!(texts[0]), vec![0]),
        (json!(tokens[1]), vec![1]),
        (json!(texts), vec![0, 1]),
        (json!(tokens), vec![0, 1]),
    ] {
        let body = json!({ "prompt": prompt, "max_tokens": 20, "temperature": 0 });
        let choices = complete(&client, &body).await;
        let found: Vec<&str> = choices.iter().map(|choice| choice["text"].as_str().unwrap()).collect();
        assert_eq!(found, wanted.iter().map(|at| alone[*at].as_str()).collect::<Vec<_>>(), "{prompt}");
    }
}

#[tokio::test]
async fn stop_strings_end_answers_wherever_tokens_end() {
    let client = Client::new();
    let mut wanted = greedy("the", 100);
    wanted.stop_tokens = vec![];
    let (_, text) = expected(&wanted);
    let characters: Vec<char> = text.chars().collect();
    assert!(characters.len() > 20, "{text:?}");
    let base = json!({ "prompt": "the", "max_tokens": 100, "temperature": 0, "ignore_eos": true });
    for (start, length) in [(0, 1), (3, 4), (10, 2), (characters.len() - 3, 3)] {
        let stop: String = characters[start..start + length].iter().collect();
        let before = &text[..text.find(&stop).unwrap()];
        for (include, expected) in [(false, before.to_owned()), (true, format!("{before}{stop}"))] {
            let mut body = base.clone();
            body["stop"] = json!(["not in the text", stop]);
            body["include_stop_str_in_output"] = include.into();
            let choice = &complete(&client, &body).await[0];
            assert_eq!(choice["text"], expected, "{body}");
            assert_eq!((&choice["finish_reason"], &choice["stop_reason"]), (&json!("stop"), &json!(stop)));
        }
    }
    let mut body = base;
    body["stop"] = "not in the text".into();
    assert_eq!(complete(&client, &body).await[0]["text"], text);
    // No stop string counts in the least tokens.
    body["stop"] = characters[0].to_string().into();
    body["min_tokens"] = 100.into();
    let choice = &complete(&client, &body).await[0];
    assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!(text), &json!("length")));
}

#[tokio::test]
async fn choices_differ_by_their_seeds() {
    let client = Client::new();
    let body = json!({ "prompt": "the", "max_tokens": 20, "n": 3, "seed": 40 });
    for (index, choice) in complete(&client, &body).await.iter().enumerate() {
        let mut wanted = greedy("the", 20);
        wanted.draw = Draw { temperature: 1.0, seed: 40 + index as u64, ..Draw::greedy() };
        assert_eq!(choice["text"], expected(&wanted).1, "choice {index}");
    }
    let unseeded = json!({ "prompt": "the", "max_tokens": 20 });
    let (a, b) = (client.answer(PATH, &unseeded).await, client.answer(PATH, &unseeded).await);
    assert_ne!(a["choices"][0]["text"], b["choices"][0]["text"]);
}

/// A list of a choice's `logprobs`: of the answer, or of all parts of its stream.
fn list(objects: &[Value], name: &str) -> Vec<Value> {
    let lists = objects.iter().filter_map(|object| object["choices"][0]["logprobs"][name].as_array());
    lists.flatten().cloned().collect()
}

#[tokio::test]
async fn log_probabilities_are_those_of_the_raw_logits() {
    let client = Client::new();
    let body = json!({
        "prompt": "the man", "max_tokens": 12, "temperature": 0, "logprobs": 2, "echo": true,
        "logit_bias": { "65": 20 },
    });
    let whole = [client.answer(PATH, &body).await];
    let stream = client.stream(PATH, &body).await;
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(list(&whole, name), list(&stream, name), "{name}");
    }
    let mut wanted = greedy("the man", 12);
    wanted.draw.logit_bias = vec![(65, 20.0)];
    let (answer, text) = expected(&wanted);
    assert_eq!(whole[0]["choices"][0]["text"], format!("the man{text}"));
    let toy = Toy::new(CAPACITY);
    let all = [wanted.prompt.clone(), answer].concat();
    let found = list(&whole, "token_logprobs");
    assert_eq!(found.len(), all.len());
    assert_eq!(found[0], Value::Null);
    for at in 1..all.len() {
        let reference = log_probabilities(&toy.logits(&all[..at]), all[at], 2);
        assert_eq!(found[at].as_f64().unwrap() as f32, reference.log_probability, "token {at}");
        let top = list(&whole, "top_logprobs")[at].as_object().unwrap().clone();
        for (token, value) in reference.top {
            let text = String::from_utf8_lossy(model().tokenizer.bytes(token)).into_owned();
            // Tokens of incomplete characters have the same text.
            let found = top.get(&text).and_then(Value::as_f64).map(|found| found as f32);
            assert!(text.contains('\u{fffd}') || found == Some(value), "token {at}: {top:?}");
        }
    }
    let offsets = list(&whole, "text_offset");
    assert_eq!(offsets[..2], [json!(0), json!(3)]);
}

#[tokio::test]
async fn a_prompt_can_be_scored_without_an_answer() {
    let body = json!({ "prompt": "the man", "max_tokens": 0, "prompt_logprobs": 1 });
    let answer = Client::new().answer(PATH, &body).await;
    let choice = &answer["choices"][0];
    let prompt = greedy("the man", 0).prompt;
    let scored = choice["prompt_logprobs"].as_array().unwrap();
    assert_eq!((scored.len(), &scored[0], &choice["text"]), (prompt.len(), &Value::Null, &json!("")));
    let toy = Toy::new(CAPACITY);
    for at in 1..prompt.len() {
        let reference = log_probabilities(&toy.logits(&prompt[..at]), prompt[at], 1);
        let found = &scored[at][prompt[at].to_string()]["logprob"];
        assert_eq!(found.as_f64().unwrap() as f32, reference.log_probability, "token {at}");
        assert!(scored[at][reference.top[0].0.to_string()].is_object());
    }
    assert_eq!(answer["usage"]["completion_tokens"], 0);
}

#[tokio::test]
async fn usage_counts_tokens_and_what_the_cache_had() {
    let client = Client::new();
    let prompt = "the man and the ".repeat(20);
    let length = greedy(&prompt, 0).prompt.len();
    let body = json!({ "prompt": prompt, "max_tokens": 7, "temperature": 0, "ignore_eos": true, "n": 1 });
    let usage = client.answer(PATH, &body).await["usage"].clone();
    assert_eq!(
        usage,
        json!({ "prompt_tokens": length, "completion_tokens": 7, "total_tokens": length + 7,
        "prompt_tokens_details": { "cached_tokens": 0 }, "completion_tokens_details": { "reasoning_tokens": 0 } })
    );
    let mut body = body;
    body["stream_options"] = json!({ "include_usage": true });
    let stream = client.stream(PATH, &body).await;
    let end = stream.last().unwrap();
    assert_eq!(end["choices"], json!([]));
    assert_eq!(end["usage"]["completion_tokens"], 7);
    let cached = end["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() as usize;
    assert!(cached > 0 && cached < length && cached.is_multiple_of(16), "{cached} of {length}");
    // Chunks before the last have the usage so far, null or none.
    let of_chunks = |stream: Vec<Value>| -> Vec<Option<Value>> {
        let chunks = stream.iter().filter(|chunk| chunk["choices"] != json!([]));
        chunks.map(|chunk| chunk.get("usage").cloned()).collect()
    };
    let chat =
        json!({ "messages": [{ "role": "user", "content": "the" }], "max_tokens": 7, "temperature": 0 });
    for (path, mut body) in [(PATH, body), ("/v1/chat/completions", chat)] {
        body["stream_options"] = json!({ "include_usage": true });
        let nulls = of_chunks(client.stream(path, &body).await);
        assert!(nulls.iter().all(|usage| *usage == Some(Value::Null)), "{nulls:?}");
        body["stream_options"]["continuous_usage_stats"] = true.into();
        let usages = of_chunks(client.stream(path, &body).await);
        let tokens =
            |usage: &Option<Value>| usage.as_ref().and_then(|usage| usage["completion_tokens"].as_u64());
        let counts: Vec<u64> = usages.iter().map(|usage| tokens(usage).unwrap()).collect();
        assert!(counts.is_sorted() && counts.last() > counts.first(), "{counts:?}");
        body["stream_options"] = json!({ "include_usage": false });
        let none = of_chunks(client.stream(path, &body).await);
        assert!(none.iter().all(Option::is_none), "{none:?}");
    }
}

#[tokio::test]
async fn a_grammar_restricts_the_answer() {
    let client = Client::new();
    for (grammar, pattern) in [
        (json!({ "structured_outputs": { "choice": ["yes", "no"] } }), "yes|no"),
        (json!({ "structured_outputs": { "regex": "[0-9]{3}-[ab]" } }), "ddd-l"),
        (json!({ "structured_outputs": { "grammar": "start: \"x\" \"y\"" } }), "xy"),
        (json!({ "structured_outputs": { "json": { "enum": [12, "b"] } } }), "12|\"b\""),
    ] {
        let mut body = json!({ "prompt": "the", "max_tokens": 30, "seed": 1 });
        body.as_object_mut().unwrap().extend(grammar.as_object().unwrap().clone());
        let choice = &complete(&client, &body).await[0];
        let text = choice["text"].as_str().unwrap();
        let form: String = text
            .chars()
            .map(|c| {
                if c.is_ascii_digit() {
                    'd'
                } else if "ab".contains(c) {
                    'l'
                } else {
                    c
                }
            })
            .collect();
        assert!(pattern.split('|').any(|one| one == text || one == form), "{grammar}: {text:?}");
        assert_eq!(choice["finish_reason"], "stop");
    }
}

#[tokio::test]
async fn tokens_are_allowed_and_words_forbidden() {
    let client = Client::new();
    let tokenizer = model().tokenizer;
    let letters: Vec<Token> = "abc".bytes().map(Token::from).collect();
    let seeds = 0..6;
    for seed in seeds {
        let body = json!({ "prompt": "the", "max_tokens": 40, "seed": seed, "allowed_token_ids": letters, "return_token_ids": true });
        let answer = client.answer("/v1/completions", &body).await;
        let text = answer["choices"][0]["text"].as_str().unwrap();
        assert!(text.len() == 40 && text.bytes().all(|byte| b"abc".contains(&byte)), "{text}");
        let mut body = body;
        body["bad_words"] = json!(["ab", "c"]);
        let answer = client.answer("/v1/completions", &body).await;
        let text = answer["choices"][0]["text"].as_str().unwrap();
        assert!(text.len() == 40 && !text.contains("ab") && !text.contains('c'), "{text}");
    }
    let word = tokenizer.encode(" the", false).unwrap();
    let body = json!({ "prompt": "the", "max_tokens": 60, "logit_bias": { word[0].to_string(): 100 }, "bad_words": ["the"] });
    let answer = client.answer("/v1/completions", &body).await;
    assert!(!answer["choices"][0]["text"].as_str().unwrap().contains("the"), "{answer}");
}
