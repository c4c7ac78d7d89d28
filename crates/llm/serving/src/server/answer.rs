//! One answer: a generation, and the text that its tokens become.

use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{self, Stream, StreamExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use warpwright_llm_step::{Sampled, Token};

use super::App;
use super::error::ApiError;
use super::metrics::Times;
use crate::scheduler::{Finished, PromptDone, Request, Update};
use crate::service::Generation;
use crate::text::{Parser, ParserOptions, Part, Place, StopStrings, ToolCall};
use crate::tokenizer::Detokenizer;

/// How the tokens of an answer become text.
#[derive(Clone)]
pub(super) struct TextOptions {
    pub(super) stops: StopStrings,
    pub(super) parser: ParserOptions,
    pub(super) skip_special: bool,
    /// Whether a token is sent at once, although its text may wait for the next.
    pub(super) sends_tokens: bool,
    /// Whether the answer ends after its first tool call.
    pub(super) one_call: bool,
}

const ABORT: &str = "abort";

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FinishReason {
    /// The model ended it, or a stop token or string.
    Stop(Value),
    /// It is as long as it may be.
    Length,
    /// It ended with tool calls.
    ToolCalls,
    /// The server stopped, or the answer took too long.
    Abort,
}

impl FinishReason {
    /// The name in the API.
    pub(super) fn name(&self) -> &'static str {
        match self {
            FinishReason::Stop(_) => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::Abort => ABORT,
        }
    }

    /// The label in the metrics, where an answer that ends with tool calls is one that stopped.
    fn label(&self) -> &'static str {
        if *self == FinishReason::ToolCalls { "stop" } else { self.name() }
    }

    /// The stop token or string that was given in the request.
    pub(super) fn stop_reason(&self) -> Value {
        if let FinishReason::Stop(reason) = self { reason.clone() } else { Value::Null }
    }
}

/// A part of an answer, or all of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Delta {
    pub(super) prompt: Option<PromptDone>,
    pub(super) parts: Vec<Part>,
    /// The tokens of the parts, and their log-probabilities.
    pub(super) tokens: Vec<Sampled>,
    /// What each token is a part of.
    pub(super) places: Vec<Place>,
    pub(super) finished: Option<FinishReason>,
}

impl Delta {
    /// Appends the next part.
    fn append(&mut self, next: Delta) {
        self.prompt = next.prompt.or(self.prompt.take());
        self.parts.extend(next.parts);
        self.tokens.extend(next.tokens);
        self.places.extend(next.places);
        self.finished = next.finished.or(self.finished.take());
    }

    /// The text of the parts that `select` picks.
    pub(super) fn text(&self, select: impl Fn(&Part) -> Option<&str>) -> String {
        self.parts.iter().filter_map(select).collect()
    }

    /// The tool calls of the parts, each with as much of its arguments as there is.
    pub(super) fn calls(&self) -> Vec<ToolCall> {
        let mut calls: Vec<ToolCall> = Vec::new();
        for part in &self.parts {
            match part {
                Part::Call(name) => calls.push(ToolCall { name: name.clone(), ..ToolCall::default() }),
                Part::Arguments(text) => {
                    calls.iter_mut().last().into_iter().for_each(|call| call.arguments += text)
                }
                Part::Reasoning(_) | Part::Content(_) => {}
            }
        }
        calls
    }

    /// The tokens of content.
    pub(super) fn content_tokens(&self) -> Vec<Sampled> {
        let tokens = self.tokens.iter().zip(&self.places);
        tokens.filter(|(_, place)| **place == Place::Content).map(|(token, _)| token.clone()).collect()
    }

    /// The numbers of the tokens.
    pub(super) fn ids(&self) -> Vec<Token> {
        self.tokens.iter().map(|sampled| sampled.token).collect()
    }
}

/// An answer while it is generated.
pub(super) struct Answer {
    app: Arc<App>,
    generation: Generation,
    detokenizer: Detokenizer,
    stops: StopStrings,
    parser: Parser,
    skip_special: bool,
    sends_tokens: bool,
    one_call: bool,
    /// What waits for text.
    held: Delta,
    ended: bool,
    abort: watch::Receiver<bool>,
    times: Times,
    tokens: usize,
    /// Tokens that were read, and those whose text no stop string ends.
    taken: u32,
    least: u32,
}

impl Answer {
    /// Begins to generate.
    pub(super) fn start(app: &Arc<App>, request: Request, text: TextOptions) -> Result<Answer, ApiError> {
        let (prompt, most, least) = (request.prompt.len(), request.max_tokens, request.min_tokens);
        let generation = app.service.submit(request)?;
        app.metrics.arrived(prompt, most);
        Ok(Answer {
            generation,
            detokenizer: Detokenizer::default(),
            stops: text.stops,
            parser: Parser::new(text.parser),
            skip_special: text.skip_special,
            sends_tokens: text.sends_tokens,
            one_call: text.one_call,
            held: Delta::default(),
            ended: false,
            abort: app.abort.subscribe(),
            times: Times { arrived: Instant::now(), admitted: None, first: None, last: None },
            tokens: 0,
            taken: 0,
            least,
            app: app.clone(),
        })
    }

    /// The next part. `None` after the end.
    pub(super) async fn next(&mut self) -> Option<Result<Delta, ApiError>> {
        while !self.ended {
            let left = self.app.limits.answer_time.saturating_sub(self.times.arrived.elapsed());
            let update = tokio::select! {
                update = self.generation.next() => update,
                () = tokio::time::sleep(left) => None,
                _ = self.abort.wait_for(|abort| *abort) => None,
            };
            match update {
                Some(Ok(update)) => self.take(update),
                Some(Err(failed)) => {
                    self.app.metrics.finished("error", &self.times, self.tokens);
                    self.ended = true;
                    return Some(Err(failed.into()));
                }
                None => self.finish(FinishReason::Abort),
            }
            let held = &self.held;
            let has_tokens = self.sends_tokens && !held.tokens.is_empty();
            if !held.parts.is_empty() || held.finished.is_some() || has_tokens {
                return Some(Ok(std::mem::take(&mut self.held)));
            }
        }
        None
    }

    fn take(&mut self, update: Update) {
        if let Some(prompt) = update.prompt {
            self.times.admitted = prompt.admitted;
            self.held.prompt = Some(prompt);
        }
        self.measure(update.tokens.len());
        let stop = match update.finished {
            Some(Finished::Stop(token)) => Some(token),
            _ => None,
        };
        let last = update.tokens.len().saturating_sub(1);
        for (i, sampled) in update.tokens.into_iter().enumerate() {
            let token = sampled.token;
            self.held.tokens.push(sampled);
            self.taken += 1;
            // The token that ends an answer is no part of its text.
            let silent = (stop.is_some() && i == last) || self.is_left_out(token);
            self.held.places.push(if silent { Place::End } else { self.parser.place() });
            if silent {
                continue;
            }
            let text = self.detokenizer.push(self.app.model.tokenizer.bytes(token));
            let parts = self.parser.push(&text);
            if let Some(reason) = self.add(parts) {
                return self.end(reason);
            }
        }
        match update.finished {
            None => {}
            Some(Finished::Length) => self.finish(FinishReason::Length),
            Some(Finished::Stop(token)) => {
                let own = self.app.model.stops.contains(&token) || self.app.grammars.ends().contains(&token);
                self.finish(FinishReason::Stop(if own { Value::Null } else { token.into() }));
            }
        }
    }

    /// Whether a token is special, and neither wanted nor a part of a call.
    fn is_left_out(&self, token: Token) -> bool {
        let tokenizer = &self.app.model.tokenizer;
        let reads = || self.parser.reads(&String::from_utf8_lossy(tokenizer.bytes(token)));
        self.skip_special && tokenizer.is_special(token) && !reads()
    }

    /// Adds parts up to where the answer ends. Stop strings count in content after the least tokens, as in
    /// vLLM: not in reasoning and not in calls.
    fn add(&mut self, parts: Vec<Part>) -> Option<FinishReason> {
        for part in parts {
            match part {
                Part::Content(text) if self.taken <= self.least => self.add_content(text),
                Part::Content(text) => {
                    let (text, stop) = self.stops.push(&text);
                    self.add_content(text);
                    if let Some(stop) = stop {
                        return Some(FinishReason::Stop(stop.into()));
                    }
                }
                part => {
                    let held = self.stops.finish();
                    self.add_content(held);
                    self.held.parts.push(part);
                }
            }
        }
        (self.one_call && self.parser.complete_calls() > 0).then_some(FinishReason::ToolCalls)
    }

    fn add_content(&mut self, text: String) {
        if !text.is_empty() {
            self.held.parts.push(Part::Content(text));
        }
    }

    /// Ends the answer with what was held back.
    fn finish(&mut self, reason: FinishReason) {
        let rest = self.detokenizer.finish();
        let mut parts = self.parser.push(&rest);
        let is_cut = !matches!(reason, FinishReason::Stop(_));
        parts.extend(if is_cut { self.parser.cut() } else { self.parser.finish() });
        if let Some(reason) = self.add(parts) {
            return self.end(reason);
        }
        let held = self.stops.finish();
        self.add_content(held);
        self.end(reason);
    }

    /// Ends the answer where its text is.
    fn end(&mut self, reason: FinishReason) {
        let reason = match reason {
            FinishReason::Stop(_) if self.parser.complete_calls() > 0 => FinishReason::ToolCalls,
            other => other,
        };
        self.app.metrics.finished(reason.label(), &self.times, self.tokens);
        self.held.finished = Some(reason);
        self.ended = true;
    }

    fn measure(&mut self, tokens: usize) {
        let metrics = &self.app.metrics;
        metrics.generation_tokens.inc_by(tokens as u64);
        self.tokens += tokens;
        let now = Instant::now();
        for i in 0..tokens {
            match self.times.last {
                None => {
                    self.times.first = Some(now);
                    metrics.first_token(&self.times);
                }
                Some(last) if i == 0 => metrics.inter_token_latency.observe((now - last).as_secs_f64()),
                // Tokens of one step come together.
                Some(_) => metrics.inter_token_latency.observe(0.0),
            }
            self.times.last = Some(now);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // The client has disconnected.
        if !self.ended {
            self.app.metrics.finished(ABORT, &self.times, self.tokens);
        }
    }
}

/// The parts of several answers as they come, each with the index of its answer.
pub(super) fn merge(answers: Vec<Answer>) -> impl Stream<Item = (usize, Result<Delta, ApiError>)> {
    stream::select_all(answers.into_iter().enumerate().map(|(index, answer)| {
        Box::pin(stream::unfold(answer, move |mut answer| async move {
            let delta = answer.next().await?;
            Some(((index, delta), answer))
        }))
    }))
}

/// Waits for all of several answers.
pub(super) async fn collect(answers: Vec<Answer>, usage: &mut Usage) -> Result<Vec<Delta>, ApiError> {
    let mut wholes = vec![Delta::default(); answers.len()];
    let mut deltas = std::pin::pin!(merge(answers));
    while let Some((index, delta)) = deltas.next().await {
        let delta = delta?;
        usage.add(&delta);
        wholes[index].append(delta);
    }
    Ok(wholes)
}

/// The text of content.
pub(super) fn content(part: &Part) -> Option<&str> {
    if let Part::Content(text) = part { Some(text) } else { None }
}

/// The text of reasoning.
pub(super) fn reasoning(part: &Part) -> Option<&str> {
    if let Part::Reasoning(text) = part { Some(text) } else { None }
}

/// Token counts as the API has them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) prompt: usize,
    pub(super) cached: usize,
    pub(super) answer: usize,
    /// Tokens of the answer that are reasoning.
    pub(super) reasoning: usize,
}

impl Usage {
    /// Counts a part of an answer.
    pub(super) fn add(&mut self, delta: &Delta) {
        self.answer += delta.tokens.len();
        self.reasoning += delta.places.iter().filter(|place| **place == Place::Reasoning).count();
        self.cached += delta.prompt.as_ref().map_or(0, |prompt| prompt.cached as usize);
    }

    /// The object of the API.
    pub(super) fn json(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.answer,
            "total_tokens": self.prompt + self.answer,
            "prompt_tokens_details": { "cached_tokens": self.cached },
            "completion_tokens_details": { "reasoning_tokens": self.reasoning },
        })
    }
}
