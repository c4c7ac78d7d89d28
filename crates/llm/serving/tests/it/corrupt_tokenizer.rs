//! Tokenizers of corrupt files: refused, or they tokenize without a panic.

use serde_json::{Value, json};
use warpwright_llm_serving::tokenizer::{GgufVocabulary, Tokenizer};
use warpwright_llm_step::random::Random;

/// Files of each kind.
const FILES: usize = 120;

/// Replaces a value somewhere in `value`.
fn mutate(value: &mut Value, random: &mut Random) {
    let values = [
        json!(0),
        json!(-1),
        json!(4_000_000_000u64),
        json!(u64::MAX),
        json!(1e300),
        json!("x"),
        json!(""),
        json!(null),
        json!([]),
        json!({}),
        json!(true),
        json!("▁"),
        json!("<0xFF>"),
        json!("(("),
    ];
    let count = match &*value {
        Value::Array(all) => all.len(),
        Value::Object(all) => all.len(),
        _ => 0,
    };
    if count == 0 || random.index(8) == 0 {
        *value = values[random.index(values.len())].clone();
        return;
    }
    let at = random.index(count);
    match value {
        Value::Array(all) => mutate(&mut all[at], random),
        Value::Object(all) => {
            if let Some((_, inner)) = all.iter_mut().nth(at) {
                mutate(inner, random);
            }
        }
        _ => {}
    }
}

fn run(tokenizer: &Tokenizer) {
    for text in ["", " Hello  world <s> 12345 ▁", "naïve 日本語 🦀\n\n<0x41>"] {
        if let Ok(tokens) = tokenizer.encode(text, true) {
            tokenizer.decode(&tokens, true);
            tokens.iter().for_each(|token| drop(tokenizer.bytes(*token).to_vec()));
        }
    }
}

#[test]
fn corrupt_tokenizers_are_refused_or_run() {
    let fixture: Value = serde_json::from_str(include_str!("../fixtures/tokenizers.json")).unwrap();
    let mut random = Random::new(1);
    let (mut refused, mut of_files) = (0, 0);
    for file in fixture["files"].as_object().unwrap().values() {
        let whole = file["json"].to_string();
        for round in 0..FILES {
            let mut json = file["json"].clone();
            mutate(&mut json, &mut random);
            let mut text = if round % 6 == 0 { whole.clone() } else { json.to_string() }.into_bytes();
            if round % 6 == 0 {
                text.truncate(random.index(whole.len()));
            }
            of_files += 1;
            match Tokenizer::from_json(&text) {
                Ok(tokenizer) => run(&tokenizer),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > of_files / 6 && refused < of_files, "{refused} of {of_files}");
    assert!(Tokenizer::from_json("[".repeat(1_000_000).as_bytes()).is_err());
    for (model, vocabulary) in fixture["vocabularies"].as_object().unwrap() {
        for _ in 0..FILES {
            let mut all = json!({
                "model": model, "pre": "llama-bpe", "tokens": vocabulary["tokens"], "token_type": vocabulary["types"],
                "scores": vocabulary["scores"], "merges": vocabulary["merges"], "bos_token_id": 1, "eos_token_id": 2,
                "unknown_token_id": 0, "add_bos_token": true,
            });
            mutate(&mut all, &mut random);
            let of_key = |(key, value): (&String, &Value)| (format!("tokenizer.ggml.{key}"), value.clone());
            let Some(all) = all.as_object() else { continue };
            let metadata = all.iter().map(of_key).collect();
            if let Ok(tokenizer) = Tokenizer::from_gguf(&GgufVocabulary::from_metadata(&metadata)) {
                run(&tokenizer);
            }
        }
    }
}
