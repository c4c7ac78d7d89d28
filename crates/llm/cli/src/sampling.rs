//! How a verb draws tokens.

use clap::Args;
use warpwright_llm_serving::defaults::Defaults;
use warpwright_llm_serving::scheduler::Draw;

/// How tokens are drawn.
#[derive(Debug, Args)]
pub(crate) struct Sampling {
    /// Divides the logits; 0 takes the most probable token each time. [default: as the model's files
    /// recommend, else 0.7]
    #[arg(long, value_name = "NUMBER", value_parser = |text: &str| number(text, 0.0, 100.0))]
    temperature: Option<f64>,
    /// Keeps the most probable tokens up to this total probability. [default: as the model's files
    /// recommend, else 0.9]
    #[arg(long, value_name = "NUMBER", value_parser = |text: &str| number(text, 1e-6, 1.0))]
    top_p: Option<f64>,
    /// Keeps this number of most probable tokens; 0 keeps all. [default: as the model's files recommend,
    /// else 0]
    #[arg(long, value_name = "N")]
    top_k: Option<u32>,
    /// Drops tokens less probable than this fraction of the most probable one. [default: as the model's
    /// files recommend, else 0]
    #[arg(long, value_name = "NUMBER", value_parser = |text: &str| number(text, 0.0, 1.0))]
    min_p: Option<f64>,
    /// Makes tokens that occurred less probable; 1 changes nothing. [default: as the model's files
    /// recommend, else 1]
    #[arg(long, value_name = "NUMBER", value_parser = |text: &str| number(text, 0.01, 100.0))]
    repetition_penalty: Option<f64>,
    /// The seed of random numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl Sampling {
    /// How the next answer is drawn; `defaults` where no flag says it.
    pub(crate) fn draw(&self, defaults: Defaults) -> Draw {
        let flags = Defaults {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            max_tokens: None,
        };
        flags.or(defaults).draw(self.seed)
    }
}

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{text} is not between {least} and {most}"))
}
