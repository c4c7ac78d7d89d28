//! `/v1/chat/completions`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::answer::{Answer, Delta, Usage, collect, content, merge, reasoning};
use super::chat_request::ChatFields;
use super::encode::Client;
use super::error::ApiError;
use super::fields::{SamplingFields, StreamOptions};
use super::sse::{self, Events};
use super::{App, body, log_probabilities, name, now};
use crate::text::{Part, ToolCall};

/// What a response needs to know of its request.
struct Chat {
    app: Arc<App>,
    id: String,
    created: u64,
    logprobs: bool,
    reasoning: bool,
    token_ids: bool,
    options: StreamOptions,
    usage: Usage,
}

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (chat, answers, streams) = body::begin(&app, body, Chat::begin).await?;
    if streams {
        Ok(sse::respond(app.limits.stream_time(), |events| chat.stream(answers, events)))
    } else {
        chat.whole(answers).await
    }
}

impl Chat {
    /// Begins the answers of a body. Returns whether they are streamed, too.
    fn begin(app: Arc<App>, body: &Value, client: &Client) -> Result<(Chat, Vec<Answer>, bool), ApiError> {
        let fields: ChatFields = body::fields(body)?;
        let sampling: SamplingFields = body::fields(body)?;
        let (answers, prompt) = fields.start(&app, &sampling, client)?;
        let chat = Chat {
            id: name("chatcmpl-"),
            created: now(),
            logprobs: fields.logprobs.unwrap_or(false),
            reasoning: fields.include_reasoning.unwrap_or(true),
            token_ids: sampling.return_token_ids.unwrap_or(false),
            options: sampling.stream_options.unwrap_or_default(),
            usage: Usage { prompt, ..Usage::default() },
            app,
        };
        Ok((chat, answers, sampling.stream.unwrap_or(false)))
    }

    fn object(&self, kind: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id, "object": kind, "created": self.created, "model": self.app.model.name, "choices": choices,
        })
    }

    async fn whole(mut self, answers: Vec<Answer>) -> Result<Response, ApiError> {
        let wholes = collect(answers, &mut self.usage).await?;
        let choices = wholes.iter().enumerate().map(|(index, whole)| self.choice(index, whole)).collect();
        let mut object = self.object("chat.completion", choices);
        object["usage"] = self.usage.json();
        Ok(Json(object).into_response())
    }

    fn choice(&self, index: usize, whole: &Delta) -> Value {
        let text = whole.text(content);
        let thoughts = whole.text(reasoning);
        let calls: Vec<Value> = whole.calls().into_iter().map(|call| call_object(&self.app, call)).collect();
        let mut message = json!({
            "role": "assistant",
            "content": if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() },
            "refusal": null,
        });
        if self.reasoning && !thoughts.is_empty() {
            message["reasoning_content"] = thoughts.into();
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        let finished = whole.finished.as_ref();
        let mut choice = json!({
            "index": index,
            "message": message,
            "logprobs": if self.logprobs {
                log_probabilities::chat(&self.app.model.tokenizer, &whole.tokens)
            } else {
                Value::Null
            },
            "finish_reason": finished.map(|reason| reason.name()),
            "stop_reason": finished.map(|reason| reason.stop_reason()),
        });
        if self.token_ids {
            choice["token_ids"] = whole.ids().into();
        }
        choice
    }

    async fn stream(mut self, answers: Vec<Answer>, events: Events) {
        for index in 0..answers.len() {
            let delta = json!({ "role": "assistant", "content": "" });
            self.send(&events, self.chunk_choice(index, delta)).await;
        }
        let mut called = vec![0; answers.len()];
        let mut deltas = std::pin::pin!(merge(answers));
        while let Some((index, delta)) = deltas.next().await {
            match delta {
                Ok(delta) => {
                    self.usage.add(&delta);
                    self.send_delta(&events, index, delta, &mut called[index]).await;
                }
                Err(error) => return events.data(&error.body()).await,
            }
        }
        if self.options.include_usage {
            let mut object = self.object("chat.completion.chunk", vec![]);
            object["usage"] = self.usage.json();
            events.data(&object).await;
        }
        events.done().await;
    }

    /// Sends a chunk for each part. Log-probabilities go with the first.
    async fn send_delta(&self, events: &Events, index: usize, delta: Delta, called: &mut usize) {
        let mut chunks: Vec<Value> = Vec::new();
        for part in &delta.parts {
            let delta = match part {
                Part::Content(text) => json!({ "content": text }),
                Part::Reasoning(text) if self.reasoning => json!({ "reasoning_content": text }),
                // Its tokens are listed nevertheless.
                Part::Reasoning(_) => json!({}),
                Part::Call(name) => {
                    *called += 1;
                    let call = ToolCall { name: name.clone(), ..ToolCall::default() };
                    let mut call = call_object(&self.app, call);
                    call["index"] = (*called - 1).into();
                    json!({ "tool_calls": [call] })
                }
                Part::Arguments(text) => {
                    let index = called.saturating_sub(1);
                    json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] })
                }
            };
            chunks.push(self.chunk_choice(index, delta));
        }
        if let Some(reason) = &delta.finished {
            let mut choice = self.chunk_choice(index, json!({}));
            choice["finish_reason"] = reason.name().into();
            choice["stop_reason"] = reason.stop_reason();
            chunks.push(choice);
        }
        if chunks.is_empty() {
            chunks.push(self.chunk_choice(index, json!({})));
        }
        if let Some(first) = chunks.first_mut() {
            if self.logprobs {
                first["logprobs"] = log_probabilities::chat(&self.app.model.tokenizer, &delta.tokens);
            }
            if self.token_ids {
                first["token_ids"] = delta.ids().into();
            }
        }
        for choice in chunks {
            self.send(events, choice).await;
        }
    }

    fn chunk_choice(&self, index: usize, delta: Value) -> Value {
        json!({ "index": index, "delta": delta, "logprobs": null, "finish_reason": null })
    }

    async fn send(&self, events: &Events, choice: Value) {
        let mut object = self.object("chat.completion.chunk", vec![choice]);
        self.options.add_usage(&mut object, &self.usage);
        events.data(&object).await;
    }
}

/// A call as the API has it.
fn call_object(app: &App, call: ToolCall) -> Value {
    json!({
        "id": app.call_id(),
        "type": "function",
        "function": { "name": call.name, "arguments": call.arguments },
    })
}
