//! The fields that all generating endpoints share.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use warpwright_llm_step::Token;

use super::App;
use super::answer::Usage;
use super::error::ApiError;
use crate::defaults::{Defaults, usable_temperature};
use crate::guide::{Grammar, TokenGuide};
use crate::scheduler::{Draw, Guide, Refused};
use crate::text::StopStrings;

/// Texts that end an answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "neither a text nor a list of texts")]
enum Stop {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// What a stream adds.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
pub(super) struct StreamOptions {
    /// Whether the last chunk carries the usage.
    #[serde(default)]
    pub(super) include_usage: bool,
    /// Whether the others carry the usage so far, as in vLLM. They have null without.
    #[serde(default)]
    continuous_usage_stats: bool,
}

impl StreamOptions {
    /// Adds the usage so far to a chunk that is not the last.
    pub(super) fn add_usage(&self, chunk: &mut Value, usage: &Usage) {
        if self.include_usage {
            chunk["usage"] = if self.continuous_usage_stats { usage.json() } else { Value::Null };
        }
    }
}

/// A grammar by its kind: exactly one of the fields.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub(super) struct StructuredOutputs {
    /// A JSON schema.
    json: Option<Value>,
    /// A regular expression.
    regex: Option<String>,
    /// Texts of which the answer is one.
    choice: Option<Vec<String>>,
    /// A grammar in Lark syntax.
    grammar: Option<String>,
}

/// How to sample, when to stop, and how to answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(super) struct SamplingFields {
    /// The model. Left out, the one that is served.
    pub(super) model: Option<String>,
    /// 0 to 2; 0 takes the most probable token, and what is between 0 and 0.01 counts as 0.01. Left out,
    /// this and the next three are as the model's files recommend, and temperature is 1 where they do not.
    pub(super) temperature: Option<f32>,
    /// Above 0, at most 1.
    pub(super) top_p: Option<f32>,
    /// -1 and 0 keep all tokens.
    pub(super) top_k: Option<i64>,
    /// 0 to 1.
    pub(super) min_p: Option<f32>,
    /// -2 to 2.
    pub(super) presence_penalty: Option<f32>,
    /// -2 to 2.
    pub(super) frequency_penalty: Option<f32>,
    /// Above 0. 1 changes nothing.
    pub(super) repetition_penalty: Option<f32>,
    /// The seed of random numbers. Random if left out.
    pub(super) seed: Option<i64>,
    /// From token to a bias between -100 and 100.
    pub(super) logit_bias: Option<BTreeMap<String, f32>>,
    /// The only tokens that the answer may have.
    allowed_token_ids: Option<Vec<Token>>,
    /// Texts that the answer may not have, at most 64 of 1,024 bytes.
    bad_words: Option<Vec<String>>,
    /// Texts that end the answer, at most 16 of 1,024 bytes.
    stop: Option<Stop>,
    /// Tokens that end the answer, at most 1,024.
    pub(super) stop_token_ids: Option<Vec<Token>>,
    /// Whether the stop string is part of the answer.
    include_stop_str_in_output: Option<bool>,
    /// Whether the model's own ends are ignored.
    pub(super) ignore_eos: Option<bool>,
    /// Tokens before which nothing ends the answer.
    pub(super) min_tokens: Option<u32>,
    /// Whether special tokens are left out of the text. True if left out.
    pub(super) skip_special_tokens: Option<bool>,
    /// The number of answers.
    n: Option<u32>,
    /// Whether the answer comes in pieces.
    pub(super) stream: Option<bool>,
    /// What the stream adds.
    pub(super) stream_options: Option<StreamOptions>,
    /// `{"type": "text"}`, `{"type": "json_object"}`, or `{"type": "json_schema", "json_schema":
    /// {"schema": ..}}`.
    pub(super) response_format: Option<Value>,
    /// A grammar that is no JSON schema.
    structured_outputs: Option<StructuredOutputs>,
    /// Whether the answer lists its tokens.
    pub(super) return_token_ids: Option<bool>,
}

const MOST_STOPS: usize = 16;
const MOST_BAD_WORDS: usize = 64;
/// Bytes of such a text. Each token of an answer is compared with all of them.
const LONGEST_TEXT: usize = 1024;
const MOST_STOP_TOKENS: usize = 1024;

impl SamplingFields {
    /// Whether the model is the one that is served, and options of a stream come with one.
    pub(super) fn check(&self, app: &App) -> Result<(), ApiError> {
        if self.stream_options.is_some() && !self.stream.unwrap_or(false) {
            let message = "`stream_options` is allowed with `stream` only.";
            return Err(ApiError::invalid("stream_options", message));
        }
        match &self.model {
            Some(name) if *name != app.model.name => Err(app.no_such_model(name).at("model")),
            _ => Ok(()),
        }
    }

    /// How tokens are drawn. What the request leaves out is as the model's files recommend. Without a seed,
    /// one is drawn.
    pub(super) fn draw(&self, defaults: &Defaults) -> Result<Draw, ApiError> {
        let default = defaults.draw(self.seed.map_or_else(random, i64::cast_unsigned));
        let between = |name: &'static str, value: Option<f32>, default: f32, low: f32, high: f32| match value
        {
            None => Ok(default),
            Some(value) if (low..=high).contains(&value) => Ok(value),
            Some(value) => {
                Err(ApiError::invalid(name, format!("`{name}` is {value}, not between {low} and {high}.")))
            }
        };
        let top_p = between("top_p", self.top_p, default.top_p, 0.0, 1.0)?;
        if top_p == 0.0 {
            return Err(ApiError::invalid("top_p", "`top_p` is 0: it has to be above 0."));
        }
        let repetition_penalty =
            between("repetition_penalty", self.repetition_penalty, default.repetition_penalty, 0.0, 100.0)?;
        if repetition_penalty == 0.0 {
            let message = "`repetition_penalty` is 0: it has to be above 0.";
            return Err(ApiError::invalid("repetition_penalty", message));
        }
        let top_k = match self.top_k {
            None => default.top_k,
            Some(-1) => 0,
            Some(top_k) => u32::try_from(top_k).map_err(|_| {
                ApiError::invalid("top_k", format!("`top_k` is {top_k}: use -1 to keep all."))
            })?,
        };
        Ok(Draw {
            temperature: usable_temperature(between(
                "temperature",
                self.temperature,
                default.temperature,
                0.0,
                2.0,
            )?),
            top_k,
            top_p,
            min_p: between("min_p", self.min_p, default.min_p, 0.0, 1.0)?,
            seed: default.seed,
            presence_penalty: between("presence_penalty", self.presence_penalty, 0.0, -2.0, 2.0)?,
            frequency_penalty: between("frequency_penalty", self.frequency_penalty, 0.0, -2.0, 2.0)?,
            repetition_penalty,
            logit_bias: self.bias()?.into_iter().collect(),
        })
    }

    fn bias(&self) -> Result<BTreeMap<Token, f32>, ApiError> {
        let wrong = |message: String| ApiError::invalid("logit_bias", message);
        let bias = self.logit_bias.iter().flatten();
        bias.map(|(token, bias)| {
            let number = token
                .parse()
                .map_err(|_| wrong(format!("`logit_bias` names the token {token:?}, not a number.")))?;
            if !(-100.0..=100.0).contains(bias) {
                return Err(wrong(format!(
                    "`logit_bias` of token {token} is {bias}, not between -100 and 100."
                )));
            }
            Ok((number, *bias))
        })
        .collect()
    }

    /// Whether the tokens that the request names exist.
    pub(super) fn check_tokens(&self, app: &App) -> Result<(), ApiError> {
        if self.stop_token_ids.as_ref().is_some_and(|tokens| tokens.len() > MOST_STOP_TOKENS) {
            let message = format!("`stop_token_ids` are at most {MOST_STOP_TOKENS} tokens.");
            return Err(ApiError::invalid("stop_token_ids", message));
        }
        let vocabulary = app.service.limits().vocabulary;
        let of_bias = self.logit_bias.iter().flatten().filter_map(|(token, _)| token.parse().ok());
        let of_bias = of_bias.map(|token: Token| ("logit_bias", token));
        let ends = self.stop_token_ids.iter().flatten().map(|token| ("stop_token_ids", *token));
        match of_bias.chain(ends).find(|(_, token)| *token >= vocabulary) {
            None => Ok(()),
            Some((field, token)) => Err(ApiError::from(Refused::NoSuchToken { token, vocabulary }).at(field)),
        }
    }

    /// The number of answers.
    pub(super) fn choices(&self, most: usize) -> Result<usize, ApiError> {
        let n = self.n.unwrap_or(1) as usize;
        if n == 0 || n > most {
            return Err(ApiError::invalid("n", format!("`n` is {n}, not between 1 and {most}.")));
        }
        Ok(n)
    }

    /// The stop strings.
    pub(super) fn stop_strings(&self) -> Result<StopStrings, ApiError> {
        let stops = match self.stop.clone() {
            None => vec![],
            Some(Stop::One(stop)) => vec![stop],
            Some(Stop::Many(stops)) => stops,
        };
        if stops.len() > MOST_STOPS || stops.iter().any(|stop| stop.is_empty() || stop.len() > LONGEST_TEXT) {
            let message = format!(
                "`stop` is at most {MOST_STOPS} texts of at most {LONGEST_TEXT} bytes, none of them empty."
            );
            return Err(ApiError::invalid("stop", message));
        }
        Ok(StopStrings::new(stops, self.include_stop_str_in_output.unwrap_or(false)))
    }

    /// Whether tokens are forbidden, and the guide that does.
    pub(super) fn tokens(
        &self,
        app: &App,
        guide: Option<Box<dyn Guide>>,
    ) -> Result<Option<Box<dyn Guide>>, ApiError> {
        let allowed = self.allowed_token_ids.as_deref().filter(|tokens| !tokens.is_empty());
        let vocabulary = app.service.limits().vocabulary;
        if self.allowed_token_ids.as_ref().is_some_and(Vec::is_empty)
            || allowed.is_some_and(|tokens| tokens.iter().any(|token| *token >= vocabulary))
        {
            let message = format!("`allowed_token_ids` are tokens below {vocabulary}, at least one.");
            return Err(ApiError::invalid("allowed_token_ids", message));
        }
        let words = self.bad_words.as_deref().unwrap_or_default();
        let is_wrong = |word: &String| word.trim().is_empty() || word.len() > LONGEST_TEXT;
        if words.len() > MOST_BAD_WORDS || words.iter().any(is_wrong) {
            let message = format!(
                "`bad_words` are at most {MOST_BAD_WORDS} texts of at most {LONGEST_TEXT} bytes, none of them empty."
            );
            return Err(ApiError::invalid("bad_words", message));
        }
        if allowed.is_none() && words.is_empty() {
            return Ok(guide);
        }
        // A word has other tokens after a space.
        let texts =
            words.iter().flat_map(|word| [word.trim_start().to_owned(), format!(" {}", word.trim_start())]);
        let rows = texts.map(|text| app.model.tokenizer.encode(&text, false));
        let rows: Vec<Vec<Token>> = rows.collect::<Result<_, _>>()?;
        Ok(Some(Box::new(TokenGuide::new(guide, vocabulary, allowed, rows))))
    }

    /// The grammar that the answer has to follow, and the field that gives it.
    pub(super) fn grammar(&self) -> Result<Option<(&'static str, Grammar)>, ApiError> {
        let format = match &self.response_format {
            None | Some(Value::Null) => None,
            Some(format) => response_format(format)?,
        };
        let structured = self.structured_outputs.clone().unwrap_or_default();
        let structured = [
            structured.json.map(Grammar::JsonSchema),
            structured.regex.map(Grammar::Regex),
            structured.choice.map(Grammar::Choice),
            structured.grammar.map(Grammar::Lark),
        ];
        let structured = structured.into_iter().flatten().map(|grammar| ("structured_outputs", grammar));
        let mut given = format.map(|grammar| ("response_format", grammar)).into_iter().chain(structured);
        match (given.next(), given.next()) {
            (Some((field, Grammar::Choice(choices))), None) if choices.is_empty() => {
                Err(ApiError::invalid(field, "`structured_outputs.choice` is empty."))
            }
            (grammar, None) => Ok(grammar),
            _ => {
                let message = "The request gives several grammars: `response_format` and `structured_outputs` \
                               together may give one.";
                Err(ApiError::invalid("structured_outputs", message))
            }
        }
    }
}

fn response_format(format: &Value) -> Result<Option<Grammar>, ApiError> {
    // The responses endpoint has the schema beside the type, the chat endpoint one level down.
    let schema = format.pointer("/json_schema/schema").or_else(|| format.get("schema"));
    match (format["type"].as_str(), schema) {
        (Some("text"), _) => Ok(None),
        (Some("json_object"), _) => Ok(Some(Grammar::JsonObject)),
        (Some("json_schema"), Some(schema)) => Ok(Some(Grammar::JsonSchema(schema.clone()))),
        (Some("json_schema"), None) => {
            Err(ApiError::invalid("response_format", "`response_format.json_schema.schema` is missing."))
        }
        _ => {
            let message = "`response_format.type` is one of text, json_object and json_schema.";
            Err(ApiError::invalid("response_format", message))
        }
    }
}

/// A random number for seeds and names. It is no secret.
pub(super) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0u8)
}
