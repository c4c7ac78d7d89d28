//! `/tokenize` and `/detokenize`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use warpwright_llm_step::Token;

use super::chat_request::ChatFields;
use super::encode::encode;
use super::error::ApiError;
use super::{App, body};

/// A text, or the fields of a conversation.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(super) struct TokenizeFields {
    /// A text. Without it, `messages` and the other fields of a conversation.
    prompt: Option<String>,
    /// Whether tokens such as Llama's first are added to a text. True if left out.
    add_special_tokens: Option<bool>,
    /// Whether `token_strs` has the text of each token, as in vLLM.
    return_token_strs: Option<bool>,
}

/// Tokens to decode.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(super) struct DetokenizeFields {
    /// The tokens.
    tokens: Vec<Token>,
}

/// The longest text that is counted, in contexts.
const MOST_CONTEXTS: u32 = 8;

pub(super) async fn tokenize(State(app): State<Arc<App>>, body: Body) -> Result<Json<Value>, ApiError> {
    body::begin(&app, body, |app, body, client| {
        let fields: TokenizeFields = body::fields(body)?;
        let (text, add_special) = match fields.prompt {
            Some(text) => (text, fields.add_special_tokens.unwrap_or(true)),
            None if body.get("messages").is_none() => {
                let message = "`prompt` or `messages` is missing.";
                return Err(ApiError::invalid("prompt", message));
            }
            None => (body::fields::<ChatFields>(body)?.prompt(&app)?, false),
        };
        let context = app.service.limits().context;
        let tokens = encode(&app, &text, add_special, context.saturating_mul(MOST_CONTEXTS), client)?;
        let text = |token: &Token| String::from_utf8_lossy(app.model.tokenizer.bytes(*token)).into_owned();
        let texts =
            fields.return_token_strs.unwrap_or(false).then(|| tokens.iter().map(text).collect::<Vec<_>>());
        Ok(Json(
            json!({ "count": tokens.len(), "max_model_len": context, "tokens": tokens, "token_strs": texts }),
        ))
    })
    .await
}

pub(super) async fn detokenize(State(app): State<Arc<App>>, body: Body) -> Result<Json<Value>, ApiError> {
    body::begin(&app, body, |app, body, _| {
        let fields: DetokenizeFields = body::fields(body)?;
        let vocabulary = app.service.limits().vocabulary;
        if let Some(token) = fields.tokens.iter().find(|token| **token >= vocabulary) {
            let message = format!("Token {token} does not exist: the vocabulary has {vocabulary} tokens.");
            return Err(ApiError::invalid("tokens", message));
        }
        Ok(Json(json!({ "prompt": app.model.tokenizer.decode(&fields.tokens, false) })))
    })
    .await
}
