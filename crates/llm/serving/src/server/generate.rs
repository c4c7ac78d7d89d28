//! From the fields of a body to the answers of one prompt.

use std::sync::Arc;

use axum::http::StatusCode;
use warpwright_llm_step::Token;

use super::App;
use super::answer::{Answer, TextOptions};
use super::error::ApiError;
use super::fields::SamplingFields;
use crate::guide::Grammar;
use crate::scheduler::{Draw, Guide, Request};
use crate::text::ParserOptions;

/// Prompts, and what is generated after each of them.
pub(super) struct Generate {
    pub(super) prompts: Vec<Vec<Token>>,
    pub(super) max_tokens: Option<u32>,
    pub(super) log_probabilities: Option<u32>,
    pub(super) prompt_log_probabilities: Option<u32>,
    /// The grammar, and the field that gives it.
    pub(super) grammar: Option<(&'static str, Grammar)>,
    pub(super) parser: ParserOptions,
    /// Whether an answer ends after its first tool call.
    pub(super) one_call: bool,
}

impl Generate {
    /// Begins `n` answers to each prompt. The seed of each is one more than that of the answer before. What costs time
    /// is made once and shared by all answers.
    pub(super) fn start(&self, app: &Arc<App>, sampling: &SamplingFields) -> Result<Vec<Answer>, ApiError> {
        let text = TextOptions {
            stops: sampling.stop_strings()?,
            parser: self.parser.clone(),
            skip_special: sampling.skip_special_tokens.unwrap_or(true),
            sends_tokens: sampling.return_token_ids.unwrap_or(false),
            one_call: self.one_call,
        };
        sampling.check_tokens(app)?;
        let choices = sampling.choices(app.limits.choices)?;
        let guide = self.guide(app, sampling)?;
        let mut answers = Vec::new();
        for prompt in &self.prompts {
            let draw = sampling.draw(&app.model.defaults)?;
            let max_tokens = self.max_tokens(app, prompt)?;
            if sampling.min_tokens.is_some_and(|least| least > max_tokens) {
                let message = format!("`min_tokens` is more than the answer may have: {max_tokens} tokens.");
                return Err(ApiError::invalid("min_tokens", message));
            }
            app.metrics.choices.observe(choices as f64);
            for choice in 0..choices {
                let request = Request {
                    prompt: prompt.clone(),
                    max_tokens,
                    min_tokens: sampling.min_tokens.unwrap_or(0),
                    stop_tokens: self.stop_tokens(app, sampling),
                    draw: Draw { seed: draw.seed.wrapping_add(choice as u64), ..draw.clone() },
                    log_probabilities: self.log_probabilities,
                    prompt_log_probabilities: self.prompt_log_probabilities,
                    guide: guide.as_ref().map(|guide| guide.another()),
                };
                answers.push(Answer::start(app, request, text.clone())?);
            }
        }
        Ok(answers)
    }

    /// The most tokens of an answer: those of the request, which have to fit into the context, or
    /// as many as the model's files recommend, or all that fit.
    fn max_tokens(&self, app: &App, prompt: &[Token]) -> Result<u32, ApiError> {
        let context = app.service.limits().context;
        let prompt = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
        let most = context.saturating_sub(prompt);
        match self.max_tokens {
            // A prompt that fills the context is refused by the scheduler.
            None => Ok(app.model.defaults.max_tokens.map_or(most, |tokens| tokens.min(most)).max(1)),
            Some(wanted) if wanted <= most || most == 0 => Ok(wanted),
            Some(wanted) => {
                let message = format!(
                    "The prompt has {prompt} tokens and the answer may have {wanted}, but the context is {context} \
                     tokens: shorten the prompt or request at most {most}."
                );
                Err(ApiError::status(StatusCode::BAD_REQUEST, "context_length_exceeded", message))
            }
        }
    }

    /// What the tokens of an answer are held to.
    fn guide(&self, app: &App, sampling: &SamplingFields) -> Result<Option<Box<dyn Guide>>, ApiError> {
        // The grammar begins after the reasoning.
        let after_reasoning = self.parser.starts_in_reasoning;
        let guide = self.grammar.as_ref().map(|(field, grammar)| {
            app.grammars.guide(grammar, after_reasoning).map_err(|error| ApiError::grammar(field, &error))
        });
        sampling.tokens(app, guide.transpose()?)
    }

    fn stop_tokens(&self, app: &App, sampling: &SamplingFields) -> Vec<Token> {
        let own = if sampling.ignore_eos.unwrap_or(false) { &[][..] } else { &app.model.stops };
        let given = sampling.stop_token_ids.iter().flatten();
        // What ends a grammar ends the answer, whatever else does.
        let ends = if self.grammar.is_some() { app.grammars.ends() } else { &[] };
        own.iter().chain(given).chain(ends).copied().collect()
    }
}
