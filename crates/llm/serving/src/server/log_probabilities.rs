//! Log-probabilities as the API writes them.

use serde_json::{Map, Value, json};
use warpwright_llm_step::{Sampled, Token};

use crate::tokenizer::Tokenizer;

/// The smallest number that is written: JSON has no infinity.
const LOWEST: f32 = -9999.0;

fn text(tokenizer: &Tokenizer, token: Token) -> String {
    String::from_utf8_lossy(tokenizer.bytes(token)).into_owned()
}

fn entry(tokenizer: &Tokenizer, token: Token, log_probability: f32) -> Value {
    json!({
        "token": text(tokenizer, token),
        "logprob": log_probability.max(LOWEST),
        "bytes": tokenizer.bytes(token),
    })
}

/// `logprobs` of a chat choice.
pub(super) fn chat(tokenizer: &Tokenizer, tokens: &[Sampled]) -> Value {
    let content: Vec<Value> = tokens
        .iter()
        .map(|sampled| {
            let mut value = entry(tokenizer, sampled.token, sampled.log_probability);
            let top = sampled.top.iter().map(|(token, probability)| entry(tokenizer, *token, *probability));
            value["top_logprobs"] = top.collect();
            value
        })
        .collect();
    json!({ "content": content, "refusal": null })
}

/// `logprobs` of a completion. `unknown` is the first token of an echoed prompt, which follows
/// none. `offset` is where in the text of the choice the first token begins, in characters; it
/// becomes the end of the last.
pub(super) fn completion(
    tokenizer: &Tokenizer,
    unknown: Option<Token>,
    tokens: &[Sampled],
    offset: &mut usize,
) -> Value {
    let (mut texts, mut own, mut tops, mut offsets) = (vec![], vec![], vec![], vec![]);
    let mut locate = |token: Token| {
        offsets.push(*offset);
        // A character may be several tokens: the one with its first byte counts.
        *offset += tokenizer.bytes(token).iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        text(tokenizer, token)
    };
    if let Some(token) = unknown {
        texts.push(locate(token));
        own.push(Value::Null);
        tops.push(Value::Null);
    }
    for sampled in tokens {
        texts.push(locate(sampled.token));
        own.push(json!(sampled.log_probability.max(LOWEST)));
        let top = sampled
            .top
            .iter()
            .map(|(token, probability)| (text(tokenizer, *token), json!(probability.max(LOWEST))));
        tops.push(Value::Object(Map::from_iter(top)));
    }
    json!({ "tokens": texts, "token_logprobs": own, "top_logprobs": tops, "text_offset": offsets })
}

/// `prompt_logprobs`: null for the first token, then an object by token for each.
pub(super) fn prompt(tokenizer: &Tokenizer, tokens: &[Sampled]) -> Value {
    let entries = tokens.iter().map(|sampled| {
        let all = sampled.top.iter().copied().chain([(sampled.token, sampled.log_probability)]);
        let object = all.map(|(token, probability)| {
            let value =
                json!({ "logprob": probability.max(LOWEST), "decoded_token": text(tokenizer, token) });
            (token.to_string(), value)
        });
        Value::Object(Map::from_iter(object))
    });
    std::iter::once(Value::Null).chain(entries).collect()
}
