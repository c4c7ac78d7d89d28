//! The rotary embedding: frequencies, and how a model's context is extended.

use serde_json::Value;
use warpwright_kernels::rope::Pairing;

use super::family::Family;
use super::fields::{Fields, MOST};
use crate::error::{EngineError, Result};

/// The rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rotary {
    /// Columns of a head that are rotated.
    pub(crate) dim: u32,
    pub(crate) pairing: Pairing,
    /// The angle of one position for each pair.
    pub(crate) frequencies: Vec<f64>,
    /// What cosines and sines are multiplied by.
    pub(crate) scale: f64,
    /// Positions that a scaling extends the model to; 0 where it says none.
    pub(crate) extended: u32,
}

/// Names of parameters. Any other one is refused: it may change the frequencies, as the factors of LongRoPE do, or
/// have the parameters of one kind of layers.
const NAMES: [&str; 19] = [
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "factor",
    "original_max_position_embeddings",
    "low_freq_factor",
    "high_freq_factor",
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "truncate",
    // Says how the model was trained.
    "finetuned",
    // Positions of images; those of text are the same on every axis.
    "mrope_section",
    "mrope_interleaved",
    // Of GGUF alone.
    "attention_factor_multiplier",
    "frequency_divisors",
];

/// `rope_parameters`, or `rope_scaling` as older configurations have it.
fn parameters(text: Fields<'_>) -> Result<Option<Fields<'_>>> {
    let [new, old] = [text.fields("rope_parameters")?, text.fields("rope_scaling")?];
    if let (Some(new), Some(old)) = (new, old)
        && new.0 != old.0
    {
        let reason = "rope_parameters and rope_scaling differ; leave rope_scaling out".to_owned();
        return Err(EngineError::Config(reason));
    }
    let found = new.or(old);
    let mut names = found.iter().flat_map(|fields| fields.0.as_object()).flat_map(|object| object.keys());
    match names.find(|name| !NAMES.contains(&name.as_str())) {
        Some(name) => Err(EngineError::Config(format!(
            "{name:?} of the rotary embedding is not one that the engine knows"
        ))),
        None => Ok(found),
    }
}

impl Rotary {
    /// Of `rope_parameters`, or of `rope_theta` and `rope_scaling`.
    pub(super) fn read(text: Fields<'_>, family: &Family, head_dim: u32) -> Result<Self> {
        let parameters = parameters(text)?;
        let number =
            |name: &str, default: f64| match parameters.filter(|fields| fields.optional(name).is_some()) {
                Some(fields) => fields.float_or(name, default),
                None => text.float_or(name, default),
            };
        let required = |name: &str| match parameters.and_then(|fields| fields.optional(name)) {
            Some(_) => number(name, 1.0),
            None => Err(EngineError::Config(format!("{name} of the rotary embedding is missing"))),
        };
        let factor = number("partial_rotary_factor", family.rotated)?;
        let dim = text.number_or("rotary_dim", Some((f64::from(head_dim) * factor) as u32))?;
        if dim > head_dim || !dim.is_multiple_of(2) {
            return Err(EngineError::Config(format!(
                "{dim} columns of {head_dim} are rotated; the engine rotates an even number of a head's"
            )));
        }
        let theta = number("rope_theta", 1e4)?;
        let frequencies = (0..dim / 2).map(|i| theta.powf(-2.0 * f64::from(i) / f64::from(dim)));
        let kind = match parameters {
            Some(parameters) => parameters.text("rope_type")?.or(parameters.text("type")?),
            None => None,
        };
        // Of GGUF alone.
        let mut scale = number("attention_factor_multiplier", 1.0)?;
        let mut extended = 0;
        let mut frequencies: Vec<f64> = match kind {
            // Dynamic scaling begins behind the model's positions, which the context does not pass.
            None | Some("default" | "mrope" | "dynamic") => frequencies.collect(),
            Some("linear") => {
                let factor = required("factor")?;
                frequencies.map(|f| f / factor).collect()
            }
            Some("llama3") => {
                let (low, high) = (required("low_freq_factor")?, required("high_freq_factor")?);
                let (factor, before) = (required("factor")?, required("original_max_position_embeddings")?);
                if low >= high {
                    let reason =
                        format!("low_freq_factor is {low}; expected less than high_freq_factor, {high}");
                    return Err(EngineError::Config(reason));
                }
                // The slow frequencies are divided by the factor, the fast ones are kept.
                let scaled = |f: f64| {
                    let turns = before * f / std::f64::consts::TAU;
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    kept * f + (1.0 - kept) * f / factor
                };
                frequencies.map(scaled).collect()
            }
            Some("yarn") => {
                let truncates = parameters.map_or(Ok(true), |fields| fields.flag_or("truncate", true))?;
                let yarn = Yarn::read(text, truncates, &number)?;
                scale *= yarn.scale;
                extended = (yarn.before * yarn.factor).min(f64::from(MOST)) as u32;
                frequencies.enumerate().map(|(i, f)| yarn.scaled(i, f, theta, dim)).collect()
            }
            Some(other) => {
                return Err(EngineError::Config(format!(
                    "rope_type is {other:?}; the engine computes default, linear, dynamic, llama3 and yarn"
                )));
            }
        };
        if let Some(divisors) = parameters.and_then(|fields| fields.optional("frequency_divisors")) {
            divide(&mut frequencies, divisors)?;
        }
        let pairing =
            if text.flag_or("rope_interleaved", false)? { Pairing::Neighbors } else { Pairing::Halves };
        Ok(Self { dim, pairing, frequencies, scale, extended })
    }

    /// Cosines, then sines, of each position.
    pub(crate) fn table(&self, positions: u32) -> Vec<f32> {
        let row = |position: u32| {
            let angles = self.frequencies.iter().map(move |frequency| f64::from(position) * frequency);
            let scaled = |value: f64| (self.scale * value) as f32;
            angles
                .clone()
                .map(move |angle| scaled(angle.cos()))
                .chain(angles.map(move |angle| scaled(angle.sin())))
        };
        (0..positions).flat_map(row).collect()
    }
}

/// YaRN (arXiv 2309.00071): pairs that turn often keep their frequency, those that turn seldom have it divided, and
/// what is between is mixed. As transformers and llama.cpp compute it.
struct Yarn {
    factor: f64,
    /// Positions of the model before it was extended.
    before: f64,
    /// Turns within these positions from which a frequency is kept, and up to which it is divided.
    turns: (f64, f64),
    /// Whether the bounds between pairs are whole pairs.
    truncates: bool,
    /// What cosines and sines are multiplied by.
    scale: f64,
}

impl Yarn {
    fn read(text: Fields<'_>, truncates: bool, number: &impl Fn(&str, f64) -> Result<f64>) -> Result<Self> {
        let positions = f64::from(text.number_or("max_position_embeddings", Some(32768))?);
        let before = number("original_max_position_embeddings", positions)?;
        let factor = number("factor", positions / before)?;
        let turns = (number("beta_fast", 32.0)?, number("beta_slow", 1.0)?);
        if turns.0 <= turns.1 {
            let reason = format!("beta_fast is {}; expected more than beta_slow, {}", turns.0, turns.1);
            return Err(EngineError::Config(reason));
        }
        let of = |multiplier: f64| if factor <= 1.0 { 1.0 } else { 0.1 * multiplier * factor.ln() + 1.0 };
        // 0 stands for a multiplier that is not there.
        let (own, all) = (number("mscale", 0.0)?, number("mscale_all_dim", 0.0)?);
        let default = if own > 0.0 && all > 0.0 { of(own) / of(all) } else { of(1.0) };
        Ok(Self { factor, before, turns, truncates, scale: number("attention_factor", default)? })
    }

    /// The frequency of a pair.
    fn scaled(&self, pair: usize, frequency: f64, theta: f64, dim: u32) -> f64 {
        let dim = f64::from(dim);
        // The pair that turns so often within the positions.
        let pair_of =
            |turns: f64| dim * (self.before / (turns * std::f64::consts::TAU)).ln() / (2.0 * theta.ln());
        let (mut low, mut high) = (pair_of(self.turns.0), pair_of(self.turns.1));
        if self.truncates {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(dim - 1.0));
        let divided = ((pair as f64 - low) / (high - low).max(1e-3)).clamp(0.0, 1.0);
        (1.0 - divided) * frequency + divided * frequency / self.factor
    }
}

/// Divides each frequency by its own factor.
fn divide(frequencies: &mut [f64], divisors: &Value) -> Result<()> {
    let divisors: Option<Vec<f64>> =
        divisors.as_array().and_then(|all| all.iter().map(Value::as_f64).collect());
    let divisors = divisors.filter(|all| all.len() == frequencies.len() && all.iter().all(|one| *one > 0.0));
    let divisors = divisors.ok_or_else(|| {
        EngineError::Config(format!(
            "rope_freqs.weight has other than {} numbers above 0, one for each pair of rotated columns",
            frequencies.len()
        ))
    })?;
    frequencies.iter_mut().zip(divisors).for_each(|(frequency, divisor)| *frequency /= divisor);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rotary(mut configuration: Value) -> Result<Rotary> {
        let head_dim = configuration["head_dim"].take().as_u64().unwrap_or(64);
        Rotary::read(Fields(&configuration), Family::named("llama")?, head_dim as u32)
    }

    /// transformers computes in float32.
    #[test]
    fn frequencies_are_those_of_transformers() {
        let golden: Vec<Value> =
            serde_json::from_str(include_str!("../../tests/fixtures/rotary.json")).expect("JSON");
        for one in golden {
            let rotary = rotary(one["configuration"].clone()).expect("a rotary embedding");
            let of = |value: &Value| value.as_f64().expect("a number");
            let is_close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
            assert!(is_close(rotary.scale, of(&one["scale"])), "{one}");
            let frequencies = one["frequencies"].as_array().expect("a list");
            assert_eq!(rotary.frequencies.len(), frequencies.len(), "{one}");
            for (found, wanted) in rotary.frequencies.iter().zip(frequencies) {
                assert!(is_close(*found, of(wanted)), "{found} and {wanted} of {one}");
            }
        }
    }

    #[test]
    fn what_is_not_computed_is_refused() {
        let kinds = "the engine computes default, linear, dynamic, llama3 and yarn";
        let cases = [
            (
                json!({ "rope_scaling": { "type": "longrope", "factor": 4.0 } }),
                format!("rope_type is \"longrope\"; {kinds}"),
            ),
            (
                json!({ "rope_parameters": { "rope_type": "proportional" } }),
                format!("rope_type is \"proportional\"; {kinds}"),
            ),
            (
                json!({ "rope_parameters": { "long_factor": [1.0], "rope_theta": 1e4 } }),
                "\"long_factor\" of the rotary embedding is not one that the engine knows".to_owned(),
            ),
            (
                json!({ "rope_parameters": { "full_attention": { "rope_type": "yarn", "factor": 4.0 } } }),
                "\"full_attention\" of the rotary embedding is not one that the engine knows".to_owned(),
            ),
            (
                json!({ "rope_parameters": { "rope_theta": 1e6 }, "rope_scaling": { "type": "yarn", "factor": 4.0 } }),
                "rope_parameters and rope_scaling differ; leave rope_scaling out".to_owned(),
            ),
            (
                json!({ "rope_scaling": { "type": "linear" } }),
                "factor of the rotary embedding is missing".to_owned(),
            ),
            (
                json!({ "rope_scaling": { "type": "llama3", "factor": 8.0, "low_freq_factor": 1.0 } }),
                "high_freq_factor of the rotary embedding is missing".to_owned(),
            ),
        ];
        for (configuration, message) in cases {
            let refused = rotary(configuration).err().map(|error| error.to_string());
            assert_eq!(refused, Some(format!("the model's configuration: {message}")));
        }
    }
}
