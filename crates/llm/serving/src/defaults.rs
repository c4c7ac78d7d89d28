//! How answers are drawn where a request does not say: what a model's files recommend.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::scheduler::Draw;

/// What a model's files say of sampling. `None`: they say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Defaults {
    /// Divides the logits; 0 takes the most probable token.
    pub temperature: Option<f64>,
    /// Keeps the most probable tokens up to this total probability.
    pub top_p: Option<f64>,
    /// Keeps this number of most probable tokens; 0 keeps all.
    pub top_k: Option<u32>,
    /// Drops tokens less probable than this fraction of the most probable one.
    pub min_p: Option<f64>,
    /// Divides the positive and multiplies the negative logits of tokens that occurred.
    pub repetition_penalty: Option<f64>,
    /// Tokens of an answer at most.
    pub max_tokens: Option<u32>,
}

/// A file of a model recommends what no request can have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{key}` is {value} in the model's {file}: it has to be {wanted}; correct or remove it")]
pub struct DefaultsError {
    file: &'static str,
    key: &'static str,
    value: Value,
    wanted: &'static str,
}

/// A recommendation: its names in `generation_config.json` and in a GGUF file, and its values.
struct Key {
    config: &'static str,
    gguf: Option<&'static str>,
    fits: fn(f64) -> bool,
    wanted: &'static str,
}

// The names in GGUF are llama.cpp's (`gguf-py/gguf/constants.py`).
const TEMPERATURE: Key = Key {
    config: "temperature",
    gguf: Some("general.sampling.temp"),
    fits: |x| (0.0..=100.0).contains(&x),
    wanted: "between 0 and 100",
};
const TOP_P: Key = Key {
    config: "top_p",
    gguf: Some("general.sampling.top_p"),
    fits: |x| x > 0.0 && x <= 1.0,
    wanted: "above 0 and at most 1",
};
const TOP_K: Key = Key {
    config: "top_k",
    gguf: Some("general.sampling.top_k"),
    // -1 keeps all tokens, as 0 does.
    fits: |x| x.fract() == 0.0 && (-1.0..=f64::from(u32::MAX)).contains(&x),
    wanted: "a whole number from -1 on",
};
const MIN_P: Key = Key {
    config: "min_p",
    gguf: Some("general.sampling.min_p"),
    fits: |x| (0.0..=1.0).contains(&x),
    wanted: "between 0 and 1",
};
const REPETITION_PENALTY: Key = Key {
    config: "repetition_penalty",
    gguf: Some("general.sampling.penalty_repeat"),
    fits: |x| x > 0.0 && x <= 100.0,
    wanted: "above 0 and at most 100",
};
const MAX_TOKENS: Key = Key {
    config: "max_new_tokens",
    gguf: None,
    fits: |x| x.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&x),
    wanted: "a whole number from 1 on",
};

impl Defaults {
    /// What improbable tokens are kept out with.
    pub const CHAT: Defaults = Defaults {
        temperature: Some(0.7),
        top_p: Some(0.9),
        top_k: None,
        min_p: None,
        repetition_penalty: None,
        max_tokens: None,
    };

    /// From `generation_config.json`; null if there is none.
    ///
    /// # Errors
    /// A value cannot be used.
    pub fn from_generation_config(config: &Value) -> Result<Defaults, DefaultsError> {
        Defaults::read("generation_config.json", |key| {
            config.get(key.config).map(|value| (key.config, value))
        })
    }

    /// From the metadata of a GGUF file.
    ///
    /// # Errors
    /// A value cannot be used.
    pub fn from_gguf(metadata: &Map<String, Value>) -> Result<Defaults, DefaultsError> {
        Defaults::read("metadata", |key| key.gguf.and_then(|name| Some((name, metadata.get(name)?))))
    }

    fn read<'v>(
        file: &'static str,
        value: impl Fn(&Key) -> Option<(&'static str, &'v Value)>,
    ) -> Result<Defaults, DefaultsError> {
        let number = |key: &Key| match value(key) {
            None | Some((_, Value::Null)) => Ok(None),
            Some((name, value)) => match value.as_f64().filter(|number| (key.fits)(*number)) {
                Some(number) => Ok(Some(number)),
                None => Err(DefaultsError { file, key: name, value: value.clone(), wanted: key.wanted }),
            },
        };
        // A conversion of -1 saturates to 0, which means the same.
        let whole = |key| number(key).map(|number| number.map(|number| number as u32));
        Ok(Defaults {
            temperature: number(&TEMPERATURE)?,
            top_p: number(&TOP_P)?,
            top_k: whole(&TOP_K)?,
            min_p: number(&MIN_P)?,
            repetition_penalty: number(&REPETITION_PENALTY)?,
            max_tokens: whole(&MAX_TOKENS)?,
        })
    }

    /// These, and `other` where they say nothing.
    pub fn or(self, other: Defaults) -> Defaults {
        Defaults {
            temperature: self.temperature.or(other.temperature),
            top_p: self.top_p.or(other.top_p),
            top_k: self.top_k.or(other.top_k),
            min_p: self.min_p.or(other.min_p),
            repetition_penalty: self.repetition_penalty.or(other.repetition_penalty),
            max_tokens: self.max_tokens.or(other.max_tokens),
        }
    }

    /// How tokens are drawn by these, and by the model's own probabilities where they say nothing.
    pub fn draw(&self, seed: u64) -> Draw {
        let greedy = Draw::greedy();
        Draw {
            temperature: usable_temperature(self.temperature.unwrap_or(1.0) as f32),
            top_p: self.top_p.map_or(greedy.top_p, |top_p| top_p as f32),
            top_k: self.top_k.unwrap_or(greedy.top_k),
            min_p: self.min_p.map_or(greedy.min_p, |min_p| min_p as f32),
            repetition_penalty: self
                .repetition_penalty
                .map_or(greedy.repetition_penalty, |penalty| penalty as f32),
            seed,
            ..greedy
        }
    }
}

/// The temperature that is used for this one: those between 0 and 0.01 count as 0.01, as in vLLM, because
/// smaller ones would overflow logits.
pub fn usable_temperature(temperature: f32) -> f32 {
    if temperature > 0.0 { temperature.max(0.01) } else { 0.0 }
}
