//! `/v1/responses`: the same answers in the form of OpenAI's newer API. Nothing is stored.

mod item;
mod request;
mod stream;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::answer::{Answer, Delta, FinishReason, Usage, collect};
use super::encode::Client;
use super::error::ApiError;
use super::fields::SamplingFields;
use super::{App, body, log_probabilities, name, now, sse};
use item::Item;
pub(super) use request::ResponsesFields;
use stream::Stream;

/// A response while it is made.
struct Response {
    id: String,
    created: u64,
    model: String,
    /// Fields of the request that the response repeats.
    repeated: Value,
    usage: Usage,
    app: Arc<App>,
    /// Whether the tokens of the text are listed.
    lists: bool,
    /// Finished items.
    output: Vec<Value>,
}

/// Whether an answer is whole.
fn status(reason: Option<&FinishReason>) -> &'static str {
    match reason {
        Some(FinishReason::Length | FinishReason::Abort) => "incomplete",
        _ => "completed",
    }
}

/// Fields of a conversation that have another name here.
const RENAMED: [(&str, &str); 3] = [
    ("messages", "input"),
    ("max_completion_tokens", "max_output_tokens"),
    ("response_format", "text.format"),
];

/// The fields that a response repeats, and what they are if left out.
fn repeated(body: &Value) -> Value {
    let mut object = json!({
        "instructions": null, "max_output_tokens": null, "metadata": {}, "temperature": 1.0,
        "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [], "top_p": 1.0, "parallel_tool_calls": true,
    });
    for (key, value) in object.as_object_mut().into_iter().flatten() {
        if let Some(given) = body.get(key).filter(|given| !given.is_null()) {
            *value = given.clone();
        }
    }
    object
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    body: Body,
) -> Result<axum::response::Response, ApiError> {
    let (response, answers, streams) = body::begin(&app, body, Response::begin).await?;
    if streams {
        return Ok(sse::respond(app.limits.stream_time(), |events| {
            Stream::new(response, events).run(answers)
        }));
    }
    response.whole(answers).await
}

impl Response {
    /// Begins the answer of a body. Returns whether it is streamed, too.
    fn begin(
        app: Arc<App>,
        body: &Value,
        client: &Client,
    ) -> Result<(Response, Vec<Answer>, bool), ApiError> {
        let fields: ResponsesFields = body::fields(body)?;
        let mut sampling: SamplingFields = body::fields(body)?;
        if let Some(format) = fields.text.as_ref().and_then(|text| text.get("format")) {
            sampling.response_format = Some(format.clone());
        }
        if sampling.choices(app.limits.choices)? != 1 {
            return Err(ApiError::invalid("n", "A response has one answer: `n` is not supported."));
        }
        let lists = fields.lists_log_probabilities()?;
        let (answers, prompt) = fields.chat()?.start(&app, &sampling, client).map_err(|error| {
            RENAMED.iter().fold(error, |error, (chat, response)| error.rename(chat, response))
        })?;
        let response = Response {
            id: name("resp_"),
            created: now(),
            model: app.model.name.clone(),
            repeated: repeated(body),
            usage: Usage { prompt, ..Usage::default() },
            lists,
            app,
            output: Vec::new(),
        };
        Ok((response, answers, sampling.stream.unwrap_or(false)))
    }

    /// The log-probabilities of the text of a part of the answer: an empty list if none are wanted.
    fn logprobs(&self, delta: &Delta) -> Vec<Value> {
        if !self.lists {
            return Vec::new();
        }
        match log_probabilities::chat(&self.app.model.tokenizer, &delta.content_tokens())["content"].take() {
            Value::Array(tokens) => tokens,
            _ => Vec::new(),
        }
    }

    fn object(&self, status: &str, incomplete: Option<&str>) -> Value {
        let mut object = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": self.model,
            "output": self.output,
            "incomplete_details": incomplete.map(|reason| json!({ "reason": reason })),
            "error": null,
            "usage": {
                "input_tokens": self.usage.prompt,
                "input_tokens_details": { "cached_tokens": self.usage.cached },
                "output_tokens": self.usage.answer,
                "output_tokens_details": { "reasoning_tokens": self.usage.reasoning },
                "total_tokens": self.usage.prompt + self.usage.answer,
            },
        });
        for (key, value) in self.repeated.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        object
    }

    fn finished(&self, reason: Option<&FinishReason>) -> Value {
        match reason {
            Some(FinishReason::Length) => self.object(status(reason), Some("max_output_tokens")),
            Some(FinishReason::Abort) => self.object(status(reason), Some("aborted")),
            _ => self.object(status(reason), None),
        }
    }

    async fn whole(mut self, answers: Vec<Answer>) -> Result<axum::response::Response, ApiError> {
        let whole = collect(answers, &mut self.usage).await?.pop().unwrap_or_default();
        let logprobs = self.logprobs(&whole);
        let items = Item::all(&self.app, whole.parts, logprobs);
        self.output = items.iter().map(|item| item.object("completed")).collect();
        // Only the last item can be cut.
        if let Some(last) = self.output.last_mut() {
            last["status"] = status(whole.finished.as_ref()).into();
        }
        Ok(axum::Json(self.finished(whole.finished.as_ref())).into_response())
    }
}
