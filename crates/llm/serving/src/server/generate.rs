//! From the fields of a body to the answers of one prompt.

use std::sync::Arc;

use axum::http::StatusCode;
use warpwright_llm_step::Token;

use super::App;
use super::answer::{Answer, TextOptions};
use super::error::ApiError;
use super::fields::SamplingFields;
use crate::guide::Grammar;
use crate::scheduler::{Draw, Request};
use crate::text::ParserOptions;

/// A prompt, and what is generated after it.
pub(super) struct Generate {
    pub(super) prompt: Vec<Token>,
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
    /// Begins `n` answers. The seed of each is one more than that of the answer before.
    pub(super) fn start(&self, app: &Arc<App>, sampling: &SamplingFields) -> Result<Vec<Answer>, ApiError> {
        let draw = sampling.draw(&app.model.defaults)?;
        let text = TextOptions {
            stops: sampling.stop_strings()?,
            parser: self.parser.clone(),
            skip_special: sampling.skip_special_tokens.unwrap_or(true),
            sends_tokens: sampling.return_token_ids.unwrap_or(false),
            one_call: self.one_call,
        };
        sampling.check_tokens(app)?;
        let max_tokens = self.max_tokens(app)?;
        if sampling.min_tokens.is_some_and(|least| least > max_tokens) {
            let message = format!("`min_tokens` is more than the answer may have: {max_tokens} tokens.");
            return Err(ApiError::invalid("min_tokens", message));
        }
        let choices = sampling.choices(app.limits.choices)?;
        app.metrics.choices.observe(choices as f64);
        (0..choices)
            .map(|choice| {
                let draw = Draw { seed: draw.seed.wrapping_add(choice as u64), ..draw.clone() };
                Answer::start(app, self.request(app, sampling, draw, max_tokens)?, text.clone())
            })
            .collect()
    }

    /// The most tokens of an answer: those of the request, which have to fit into the context, or
    /// as many as the model's files recommend, or all that fit.
    fn max_tokens(&self, app: &App) -> Result<u32, ApiError> {
        let context = app.service.limits().context;
        let prompt = u32::try_from(self.prompt.len()).unwrap_or(u32::MAX);
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

    fn request(
        &self,
        app: &App,
        sampling: &SamplingFields,
        draw: Draw,
        max_tokens: u32,
    ) -> Result<Request, ApiError> {
        let own = if sampling.ignore_eos.unwrap_or(false) { &[][..] } else { &app.model.stops };
        let given = sampling.stop_token_ids.iter().flatten();
        // The grammar begins after the reasoning.
        let after_reasoning = self.parser.starts_in_reasoning;
        let guide = self.grammar.as_ref().map(|(field, grammar)| {
            app.grammars.guide(grammar, after_reasoning).map_err(|error| ApiError::grammar(field, &error))
        });
        // What ends a grammar ends the answer, whatever else does.
        let ends = if guide.is_some() { app.grammars.ends() } else { &[] };
        Ok(Request {
            prompt: self.prompt.clone(),
            max_tokens,
            min_tokens: sampling.min_tokens.unwrap_or(0),
            stop_tokens: own.iter().chain(given).chain(ends).copied().collect(),
            draw,
            log_probabilities: self.log_probabilities,
            prompt_log_probabilities: self.prompt_log_probabilities,
            guide: sampling.tokens(app, guide.transpose()?)?,
        })
    }
}
