//! `/v1/completions`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use warpwright_llm_step::Token;

use super::answer::{Answer, Delta, Usage, collect, content, merge};
use super::encode::{Client, encode};
use super::error::ApiError;
use super::fields::{SamplingFields, StreamOptions};
use super::generate::Generate;
use super::sse::{self, Events};
use super::{App, body, log_probabilities, name, now};
use crate::text::ParserOptions;

/// A prompt, or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "neither a text, nor a list of tokens, nor a list of those")]
enum Prompt {
    /// A text.
    Text(String),
    /// Tokens.
    Tokens(Vec<Token>),
    /// Several texts.
    Texts(Vec<String>),
    /// Several lists of tokens.
    TokenLists(Vec<Vec<Token>>),
}

impl Prompt {
    fn count(&self) -> usize {
        match self {
            Prompt::Text(_) | Prompt::Tokens(_) => 1,
            Prompt::Texts(texts) => texts.len(),
            Prompt::TokenLists(lists) => lists.len(),
        }
    }
}

/// The fields of a text to continue.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(super) struct CompletionFields {
    /// The prompt, or several: texts, or lists of tokens.
    prompt: Prompt,
    /// The most tokens of the answer. 16 if left out.
    max_tokens: Option<u32>,
    /// Whether the prompt begins the answer.
    echo: Option<bool>,
    /// Lists log-probabilities with this number of alternatives.
    logprobs: Option<u32>,
    /// Lists log-probabilities of the prompt with this number of alternatives.
    prompt_logprobs: Option<u32>,
    /// Not supported.
    suffix: Option<String>,
    /// Not supported beyond `n`.
    best_of: Option<u32>,
    /// Whether tokens such as Llama's first are added to a text. True if left out.
    add_special_tokens: Option<bool>,
}

const DEFAULT_TOKENS: u32 = 16;

impl CompletionFields {
    /// Refuses what is not supported, and an answer of no token without a prompt to show.
    fn check(&self, n: usize) -> Result<(), ApiError> {
        if self.suffix.as_ref().is_some_and(|suffix| !suffix.is_empty()) {
            return Err(ApiError::invalid("suffix", "`suffix` is not supported."));
        }
        if self.best_of.is_some_and(|best_of| best_of as usize != n) {
            return Err(ApiError::invalid("best_of", "`best_of` is not supported: use `n`."));
        }
        if self.max_tokens == Some(0) && !self.echo.unwrap_or(false) && self.prompt_logprobs.is_none() {
            let message = "`max_tokens` is 0, which needs `echo` or `prompt_logprobs`.";
            return Err(ApiError::invalid("max_tokens", message));
        }
        Ok(())
    }

    /// The prompts: their texts and tokens.
    fn prompts(&self, app: &App, client: &Client) -> Result<Vec<(String, Vec<Token>)>, ApiError> {
        let tokenizer = &app.model.tokenizer;
        let add_special = self.add_special_tokens.unwrap_or(true);
        let of_text = |text: &String| {
            let tokens = encode(app, text, add_special, app.service.limits().context, client);
            Ok((text.clone(), tokens.map_err(|error| error.or_at("prompt"))?))
        };
        let of_tokens = |tokens: &Vec<Token>| Ok((tokenizer.decode(tokens, true), tokens.clone()));
        match &self.prompt {
            Prompt::Text(text) => Ok(vec![of_text(text)?]),
            Prompt::Tokens(tokens) => Ok(vec![of_tokens(tokens)?]),
            Prompt::Texts(texts) => texts.iter().map(of_text).collect(),
            Prompt::TokenLists(lists) => lists.iter().map(of_tokens).collect(),
        }
    }
}

/// What a response needs to know of its request.
struct Completion {
    app: Arc<App>,
    id: String,
    created: u64,
    /// The prompt of each choice.
    prompts: Vec<(String, Vec<Token>)>,
    fields: CompletionFields,
    token_ids: bool,
    options: StreamOptions,
    usage: Usage,
}

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (completion, answers, streams) = body::begin(&app, body, Completion::begin).await?;
    if streams {
        return Ok(sse::respond(app.limits.stream_time(), |events| completion.stream(answers, events)));
    }
    completion.whole(answers).await
}

impl Completion {
    /// Begins the answers of a body. Returns whether they are streamed, too.
    fn begin(
        app: Arc<App>,
        body: &Value,
        client: &Client,
    ) -> Result<(Completion, Vec<Answer>, bool), ApiError> {
        let fields: CompletionFields = body::fields(body)?;
        let sampling: SamplingFields = body::fields(body)?;
        sampling.check(&app)?;
        app.check_alternatives("logprobs", fields.logprobs)?;
        app.check_alternatives("prompt_logprobs", fields.prompt_logprobs)?;
        let n = sampling.choices(app.limits.choices)?;
        fields.check(n)?;
        let choices = fields.prompt.count() * n;
        if choices == 0 || choices > app.limits.choices {
            let most = app.limits.choices;
            let message = format!("The request wants {choices} answers, not 1 to {most}.");
            return Err(ApiError::invalid("prompt", message));
        }
        let prompts = fields.prompts(&app, client)?;
        let echo = fields.echo.unwrap_or(false);
        let generate = Generate {
            prompts: prompts.iter().map(|(_, tokens)| tokens.clone()).collect(),
            max_tokens: Some(fields.max_tokens.unwrap_or(DEFAULT_TOKENS)),
            log_probabilities: fields.logprobs,
            prompt_log_probabilities: fields.prompt_logprobs.or(fields.logprobs.filter(|_| echo)),
            grammar: sampling.grammar()?,
            parser: ParserOptions::default(),
            one_call: false,
        };
        let answers = generate.start(&app, &sampling).map_err(|error| error.or_at("prompt"))?;
        let prompt = prompts.iter().map(|(_, tokens)| tokens.len()).sum();
        let completion = Completion {
            app,
            id: name("cmpl-"),
            created: now(),
            prompts: prompts.iter().flat_map(|prompt| std::iter::repeat_n(prompt, n)).cloned().collect(),
            fields,
            token_ids: sampling.return_token_ids.unwrap_or(false),
            options: sampling.stream_options.unwrap_or_default(),
            usage: Usage { prompt, ..Usage::default() },
        };
        Ok((completion, answers, sampling.stream.unwrap_or(false)))
    }

    fn object(&self, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.app.model.name,
            "choices": choices,
        })
    }

    async fn whole(mut self, answers: Vec<Answer>) -> Result<Response, ApiError> {
        let wholes = collect(answers, &mut self.usage).await?;
        let choices = wholes.into_iter().enumerate().map(|(index, whole)| self.choice(index, whole, &mut 0));
        let mut object = self.object(choices.collect());
        object["usage"] = self.usage.json();
        Ok(Json(object).into_response())
    }

    async fn stream(mut self, answers: Vec<Answer>, events: Events) {
        let mut characters = vec![0; answers.len()];
        let mut deltas = std::pin::pin!(merge(answers));
        while let Some((index, delta)) = deltas.next().await {
            match delta {
                Ok(delta) => {
                    self.usage.add(&delta);
                    let choice = self.choice(index, delta, &mut characters[index]);
                    let mut object = self.object(vec![choice]);
                    self.options.add_usage(&mut object, &self.usage);
                    events.data(&object).await;
                }
                Err(error) => return events.data(&error.body()).await,
            }
        }
        if self.options.include_usage {
            let mut object = self.object(vec![]);
            object["usage"] = self.usage.json();
            events.data(&object).await;
        }
        events.done().await;
    }

    /// A choice, or the part of it that `delta` brings. `characters` is where the text of its first
    /// token begins; it becomes the end of the last.
    fn choice(&self, index: usize, delta: Delta, characters: &mut usize) -> Value {
        let tokenizer = &self.app.model.tokenizer;
        let (text, tokens) = &self.prompts[index];
        let mut own = delta.text(content);
        let ids = delta.ids();
        let mut sampled = delta.tokens;
        let mut unknown = None;
        let mut prompt_logprobs = Value::Null;
        if let Some(prompt) = delta.prompt {
            if self.fields.prompt_logprobs.is_some() {
                prompt_logprobs = log_probabilities::prompt(tokenizer, &prompt.log_probabilities);
            }
            if self.fields.echo.unwrap_or(false) {
                own.insert_str(0, text);
                sampled.splice(0..0, prompt.log_probabilities);
                unknown = tokens.first().copied();
            }
        }
        let finished = delta.finished.as_ref();
        let logprobs = match self.fields.logprobs {
            Some(_) => log_probabilities::completion(tokenizer, unknown, &sampled, characters),
            None => Value::Null,
        };
        let mut choice = json!({
            "index": index,
            "text": own,
            "logprobs": logprobs,
            "finish_reason": finished.map(|reason| reason.name()),
            "stop_reason": finished.map(|reason| reason.stop_reason()),
        });
        if self.fields.prompt_logprobs.is_some() {
            choice["prompt_logprobs"] = prompt_logprobs;
        }
        if self.token_ids {
            choice["token_ids"] = ids.into();
        }
        choice
    }
}
