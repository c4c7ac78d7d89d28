//! What a model's files recommend is what a request that says nothing gets.

use serde_json::{Value, json};
use warpwright_llm_serving::defaults::Defaults;
use warpwright_llm_serving::scheduler::Draw;

use crate::model::model;

/// `generation_config.json`, and the metadata of a GGUF file that say the same.
fn said(config: &Value, gguf: &Value) -> Defaults {
    let defaults = Defaults::from_generation_config(config).unwrap();
    let of_gguf = Defaults::from_gguf(gguf.as_object().unwrap()).unwrap();
    assert_eq!(Defaults { max_tokens: None, ..defaults }, of_gguf);
    defaults
}

#[test]
fn files_of_models_say_how_tokens_are_drawn() {
    let nothing = said(&json!({ "eos_token_id": 2, "temperature": null }), &json!({ "general.name": "a" }));
    assert_eq!(nothing, Defaults::default());
    assert_eq!(nothing.draw(7), Draw { temperature: 1.0, seed: 7, ..Draw::greedy() });

    let qwen = json!({ "do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "max_new_tokens": 9,
                       "min_p": 0.1, "repetition_penalty": 1.05 });
    let gguf = json!({ "general.sampling.temp": 0.6, "general.sampling.top_k": 20,
                       "general.sampling.top_p": 0.95, "general.sampling.min_p": 0.1,
                       "general.sampling.penalty_repeat": 1.05 });
    let qwen = said(&qwen, &gguf);
    let draw = Draw { temperature: 0.6, top_k: 20, top_p: 0.95, min_p: 0.1, ..Draw::greedy() };
    assert_eq!(qwen.draw(0), Draw { repetition_penalty: 1.05, ..draw });
    assert_eq!(qwen.max_tokens, Some(9));

    let all = said(
        &json!({ "temperature": 0, "top_k": -1 }),
        &json!({ "general.sampling.temp": 0.0, "general.sampling.top_k": -1 }),
    );
    assert_eq!(all.draw(0), Draw::greedy());
}

#[test]
fn what_cannot_be_used_is_refused() {
    let wrong = [
        ("temperature", json!(-0.5), "general.sampling.temp"),
        ("temperature", json!("warm"), "general.sampling.temp"),
        ("top_p", json!(0), "general.sampling.top_p"),
        ("top_p", json!(1.5), "general.sampling.top_p"),
        ("top_k", json!(2.5), "general.sampling.top_k"),
        ("top_k", json!(-2), "general.sampling.top_k"),
        ("min_p", json!([0.1]), "general.sampling.min_p"),
        ("repetition_penalty", json!(0), "general.sampling.penalty_repeat"),
        ("max_new_tokens", json!(0), ""),
        ("max_new_tokens", json!(1e12), ""),
    ];
    for (key, value, gguf) in wrong {
        let error = Defaults::from_generation_config(&json!({ key: value })).unwrap_err().to_string();
        let expected = format!("`{key}` is {value} in the model's generation_config.json: it has to be ");
        assert!(error.starts_with(&expected), "{error}");
        let error = Defaults::from_gguf(json!({ gguf: value }).as_object().unwrap());
        assert_eq!(error.is_err(), !gguf.is_empty(), "{gguf} {value}");
    }
}

#[test]
fn a_chat_is_bounded_and_draws_no_improbable_token() {
    let mut model = model();
    assert!(model.thinks());
    let own = Defaults { temperature: Some(0.2), ..Defaults::default() };
    model.defaults = own;
    assert_eq!(model.for_chat(), Defaults { top_p: Some(0.9), ..own });
}
