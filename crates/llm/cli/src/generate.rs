//! `generate`: continues a prompt.

use std::time::Instant;

use clap::Args;
use serde_json::json;
use warpwright_llm_step::{Sampled, Sampling, Tokens};

use crate::model::{Model, expect_tokens};

/// Continues a prompt.
#[derive(Debug, Args)]
pub struct Generate {
    #[command(flatten)]
    model: Model,
    /// The prompt's tokens.
    #[arg(long, value_delimiter = ',')]
    ids: Vec<u32>,
    /// Tokens to generate at most.
    #[arg(short = 'n', long, default_value_t = 128)]
    tokens: u32,
    /// Take the most probable token each time.
    #[arg(long)]
    greedy: bool,
    /// Divides the logits.
    #[arg(long, default_value_t = 1.0)]
    temperature: f32,
    /// The seed of random numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Continue after a token that ends a text.
    #[arg(long)]
    ignore_eos: bool,
    /// Print tokens and log-probabilities as JSON.
    #[arg(long)]
    json: bool,
}

impl Generate {
    /// Runs the verb.
    pub fn run(self) -> anyhow::Result<()> {
        expect_tokens(&self.ids)?;
        let mut sequence = self.model.load()?;
        let temperature = if self.greedy { 0.0 } else { self.temperature };
        let sampling = |offset: u64| Sampling {
            temperature,
            seed: self.seed,
            offset,
            log_probabilities: Some(0),
            ..Sampling::greedy()
        };
        let begin = Instant::now();
        let mut generated = sequence.prompt(&self.ids, &sampling(0))?.sampled;
        let prompted = begin.elapsed();
        let mut steps = 0;
        while !self.is_done(&mut generated, sequence.ends()) {
            let sampling = sampling(generated.len() as u64);
            generated.extend(sequence.step(Tokens::Last, Some(sampling), None)?.sampled);
            steps += 1;
        }
        let tokens: Vec<u32> = generated.iter().map(|sampled| sampled.token).collect();
        if self.json {
            let log_probabilities: Vec<f32> =
                generated.iter().map(|sampled| sampled.log_probability).collect();
            println!("{}", json!({ "tokens": tokens, "logprobs": log_probabilities }));
        } else {
            println!("{}", tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        }
        let decoded = (begin.elapsed() - prompted).as_secs_f64() / (tokens.len() - 1).max(1) as f64;
        eprintln!(
            "{} prompt tokens in {:.3} s, {} tokens at {:.1} per second in {steps} steps",
            self.ids.len(),
            prompted.as_secs_f64(),
            tokens.len(),
            1.0 / decoded
        );
        Ok(())
    }

    /// Whether the text ends. What a step sampled past the end is dropped.
    fn is_done(&self, generated: &mut Vec<Sampled>, ends: &[u32]) -> bool {
        let is_end = |sampled: &Sampled| !self.ignore_eos && ends.contains(&sampled.token);
        let end = generated.iter().position(is_end).map(|at| at + 1);
        generated.truncate(end.unwrap_or(usize::MAX).min(self.tokens as usize));
        end.is_some() || generated.len() >= self.tokens as usize
    }
}
