//! `generate`: continues a prompt.

use std::io::Write;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use warpwright_llm_serving::tokenizer::{Detokenizer, Tokenizer};
use warpwright_llm_step::{Sampled, Sampling, Tokens};

use crate::model::{Model, expect_tokens};

/// Continues a prompt.
#[derive(Debug, Args)]
pub struct Generate {
    #[command(flatten)]
    model: Model,
    /// The prompt's tokens.
    #[arg(long, value_delimiter = ',', required_unless_present = "prompt")]
    ids: Vec<u32>,
    /// The prompt as a text. The answer is printed as a text, too.
    #[arg(long, value_name = "TEXT", conflicts_with = "ids")]
    prompt: Option<String>,
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
        let checkpoint = self.model.checkpoint()?;
        let texts = match &self.prompt {
            Some(_) => Some(self.model.texts(&self.model.name(), &checkpoint)?),
            None => None,
        };
        let prompt = match (&self.prompt, &texts) {
            (Some(text), Some(texts)) => texts.tokenizer.encode(text, true)?,
            _ => self.ids.clone(),
        };
        expect_tokens(&prompt)?;
        let mut sequence = self.model.alone(&checkpoint)?;
        let mut ends = sequence.ends().to_vec();
        ends.extend(texts.iter().flat_map(|texts| &texts.stops));
        let temperature = if self.greedy { 0.0 } else { self.temperature };
        let sampling = |offset: usize| Sampling {
            temperature,
            seed: self.seed,
            offset: offset as u64,
            log_probabilities: Some(0),
            ..Sampling::greedy()
        };
        let mut printer = texts.as_ref().filter(|_| !self.json).map(|texts| Printer::new(&texts.tokenizer));
        let begin = Instant::now();
        let mut generated = sequence.prompt(&prompt, &sampling(0))?.sampled;
        let prompted = begin.elapsed();
        let (mut steps, mut printed) = (0, 0);
        loop {
            let done = self.is_done(&mut generated, &ends);
            if let Some(printer) = &mut printer {
                printer.print(&generated[printed..])?;
                printed = generated.len();
            }
            if done {
                break;
            }
            let sampling = sampling(generated.len());
            generated.extend(sequence.step(Tokens::Last, Some(sampling), None)?.sampled);
            steps += 1;
        }
        let tokens: Vec<u32> = generated.iter().map(|sampled| sampled.token).collect();
        if self.json {
            let log_probabilities: Vec<f32> =
                generated.iter().map(|sampled| sampled.log_probability).collect();
            let mut object = json!({ "tokens": tokens, "logprobs": log_probabilities });
            if let Some(texts) = &texts {
                object["text"] = texts.tokenizer.decode(&tokens, true).into();
            }
            println!("{object}");
        } else if printer.is_some() {
            println!();
        } else {
            println!("{}", tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        }
        let decoded = (begin.elapsed() - prompted).as_secs_f64() / (tokens.len() - 1).max(1) as f64;
        eprintln!(
            "{} prompt tokens in {:.3} s, {} tokens at {:.1} per second in {steps} steps",
            prompt.len(),
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

/// Prints tokens as they come.
struct Printer<'l> {
    tokenizer: &'l Tokenizer,
    detokenizer: Detokenizer,
}

impl<'l> Printer<'l> {
    fn new(tokenizer: &'l Tokenizer) -> Self {
        Self { tokenizer, detokenizer: Detokenizer::default() }
    }

    fn print(&mut self, sampled: &[Sampled]) -> std::io::Result<()> {
        let tokens = sampled.iter().map(|sampled| sampled.token);
        for token in tokens.filter(|token| !self.tokenizer.is_special(*token)) {
            print!("{}", self.detokenizer.push(self.tokenizer.bytes(token)));
        }
        std::io::stdout().flush()
    }
}
