//! `generate`: continues a prompt.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use warpwright_llm_serving::defaults::Defaults;
use warpwright_llm_serving::model::Model as Texts;
use warpwright_llm_serving::scheduler::{Draw, Request};
use warpwright_llm_serving::service::Service;
use warpwright_llm_serving::tokenizer::{Detokenizer, Tokenizer};
use warpwright_llm_step::Sampled;

use crate::model::{Model, expect_tokens};
use crate::sampling::Sampling;
use crate::terminal;

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
    #[command(flatten)]
    sampling: Sampling,
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
        let limits = self.model.limits(1, None, 0);
        let capacity = limits.capacity_of(&checkpoint)?;
        let prompt = match (&self.prompt, &texts) {
            (Some(text), Some(texts)) => {
                texts.tokenizer.encode_within(text, true, capacity.context as usize, || true)?
            }
            _ => self.ids.clone(),
        };
        expect_tokens(&prompt, &capacity)?;
        let defaults = texts.as_ref().map_or(Defaults::CHAT, Texts::for_chat);
        let draw = if self.greedy { Draw::greedy() } else { self.sampling.draw(defaults) };
        let engine = self.model.engine(&checkpoint, limits)?;
        let mut ends = engine.ends().to_vec();
        ends.extend(texts.iter().flat_map(|texts| &texts.stops));
        // A tokenizer may have tokens that the model lacks.
        ends.retain(|end| *end < capacity.vocabulary);
        let service = Service::start(engine.into_executor(), self.model.scheduling(false), 1);
        let mut generation = service.submit(Request {
            prompt: prompt.clone(),
            max_tokens: self.tokens.max(1),
            min_tokens: 0,
            stop_tokens: if self.ignore_eos { vec![] } else { ends },
            draw,
            log_probabilities: Some(0),
            prompt_log_probabilities: None,
            guide: None,
        })?;
        let mut printer = texts.as_ref().filter(|_| !self.json).map(|texts| Printer::new(&texts.tokenizer));
        let begin = Instant::now();
        let runtime = tokio::runtime::Runtime::new()?;
        let (mut generated, mut prompted) = (Vec::new(), Duration::ZERO);
        while let Some(update) = runtime.block_on(generation.next()) {
            let sampled = update?.tokens;
            if let Some(printer) = &mut printer {
                printer.print(&sampled)?;
            }
            if generated.is_empty() {
                prompted = begin.elapsed();
            }
            generated.extend(sampled);
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
            "{} prompt tokens in {:.3} s, {} tokens at {:.1} per second in {} steps",
            prompt.len(),
            prompted.as_secs_f64(),
            tokens.len(),
            1.0 / decoded,
            service.status().counts.steps
        );
        Ok(())
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
            terminal::write(&self.detokenizer.push(self.tokenizer.bytes(token)))?;
        }
        Ok(())
    }
}
