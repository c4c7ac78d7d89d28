//! `bench`: times the engine's steps, without a server.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use warpwright_llm_engine::{DecodePlan, Limits};
use warpwright_llm_step::{Chunk, Executor, Page, Sampling, Slot, Step, Tokens};

use crate::model::Model;

/// Times decodes of batches, and a prompt.
#[derive(Debug, Args)]
pub struct Bench {
    #[command(flatten)]
    model: Model,
    /// Sequences of a decode.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,128")]
    batch: Vec<u32>,
    /// Tokens of each sequence before the first decode.
    #[arg(long, default_value_t = 1024)]
    prompt: u32,
    /// Decodes that are timed.
    #[arg(long, default_value_t = 64)]
    steps: u32,
    /// Tokens of a prompt that is timed alone; 0 times none.
    #[arg(long, default_value_t = 8192)]
    prefill: u32,
    /// Print the launches and the bytes of a decode, and run nothing.
    #[arg(long)]
    plan: bool,
}

/// Tokens of a page.
const PAGE: u32 = 64;
/// Steps that are submitted before the first result is read.
const AHEAD: usize = 2;

impl Bench {
    /// Runs the verb.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let checkpoint = self.model.checkpoint()?;
        for batch in self.batch.iter().filter(|_| self.plan) {
            print_plan(&DecodePlan::new(&checkpoint, self.model.data_type(), *batch, self.prompt)?, *batch);
        }
        if self.plan {
            return Ok(());
        }
        let most = self.batch.iter().copied().max().unwrap_or(1).max(1);
        // A run before the timed one, and one step more.
        let context = (self.prompt + 2 * self.steps + 2).max(self.prefill);
        let of_sequence = (self.prompt + 2 * self.steps + 2).div_ceil(PAGE);
        let pages = (most * of_sequence).max(context.div_ceil(PAGE));
        let tokens = self.prefill.max(self.prompt).max(most);
        let limits =
            Limits { page_tokens: PAGE, pages, slots: most, sequences: most, tokens, context, drafts: 0 };
        let begin = Instant::now();
        let mut engine = self.model.engine(&checkpoint, limits)?;
        println!("loaded in {:.1} s", begin.elapsed().as_secs_f64());
        if self.prefill > 0 {
            self.time_prefill(&mut engine)?;
        }
        for batch in &self.batch {
            let seconds = self.time_decode(&mut engine, *batch, of_sequence)?;
            let plan = DecodePlan::new(&checkpoint, self.model.data_type(), *batch, self.prompt)?;
            println!(
                "decode {batch:7}: {:8.3} ms  {:8.1} tok/s  {:4} launches  {:7.3} GB  {:6.3} TB/s",
                seconds * 1e3,
                f64::from(*batch) / seconds,
                plan.count(),
                plan.bytes() as f64 / 1e9,
                plan.bytes() as f64 / 1e12 / seconds,
            );
        }
        Ok(())
    }

    fn time_prefill(&self, engine: &mut impl Executor) -> anyhow::Result<()> {
        let vocabulary = engine.capacity().vocabulary;
        let mut best = f64::INFINITY;
        for round in 0..4 {
            let pages = (0..self.prefill.div_ceil(PAGE)).map(Page).collect();
            let step = Step { copies: vec![], chunks: vec![prompt(0, pages, self.prefill, vocabulary)] };
            let begin = Instant::now();
            engine.submit(step)?;
            engine.wait()?;
            if round > 0 {
                best = best.min(begin.elapsed().as_secs_f64());
            }
        }
        let rate = f64::from(self.prefill) / best;
        println!("prefill {:6}: {:8.2} ms  {rate:8.0} tok/s", self.prefill, best * 1e3);
        Ok(())
    }

    fn time_decode(&self, engine: &mut impl Executor, batch: u32, of_sequence: u32) -> anyhow::Result<f64> {
        let vocabulary = engine.capacity().vocabulary;
        let pages =
            |sequence: u32| (sequence * of_sequence..(sequence + 1) * of_sequence).map(Page).collect();
        let at_once = (engine.capacity().tokens / self.prompt.max(1)).max(1);
        for first in (0..batch).step_by(at_once as usize) {
            let sequences = first..batch.min(first + at_once);
            let chunks = sequences.map(|sequence| prompt(sequence, pages(sequence), self.prompt, vocabulary));
            engine.submit(Step { copies: vec![], chunks: chunks.collect() })?;
            engine.wait()?;
        }
        let step = |number: u32| {
            let chunk = |sequence| Chunk {
                sampling: Some(Sampling::greedy()),
                ..chunk(sequence, self.prompt + number, Tokens::Last, pages(sequence))
            };
            Step { copies: vec![], chunks: (0..batch).map(chunk).collect() }
        };
        let mut run = |steps: std::ops::Range<u32>| -> anyhow::Result<f64> {
            let begin = Instant::now();
            let mut ahead = VecDeque::new();
            for number in steps {
                engine.submit(step(number))?;
                ahead.push_back(number);
                if ahead.len() > AHEAD {
                    engine.wait()?;
                    ahead.pop_front();
                }
            }
            for _ in ahead {
                engine.wait().context("a step that was submitted")?;
            }
            Ok(begin.elapsed().as_secs_f64())
        };
        run(0..self.steps)?;
        Ok(run(self.steps..2 * self.steps)? / f64::from(self.steps))
    }
}

fn print_plan(plan: &DecodePlan, batch: u32) {
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    println!(
        "decode {batch:7}: {:4} launches  {:7.3} GB: {:.3} of weights, {:.3} of states, {:.3} of keys and values",
        plan.count(),
        gigabytes(plan.bytes()),
        gigabytes(plan.weights),
        gigabytes(plan.states),
        gigabytes(plan.keys)
    );
    for (kernel, count) in &plan.launches {
        println!("{count:6} {kernel}");
    }
}

/// A prompt whose next token is sampled.
fn prompt(sequence: u32, pages: Vec<Page>, length: u32, vocabulary: u32) -> Chunk {
    let tokens = (0..length).map(|at| (at * 7919 + sequence * 104_729) % vocabulary).collect();
    Chunk { sampling: Some(Sampling::greedy()), ..chunk(sequence, 0, Tokens::Known(tokens), pages) }
}

fn chunk(sequence: u32, position: u32, tokens: Tokens, pages: Vec<Page>) -> Chunk {
    Chunk { slot: Slot(sequence), position, tokens, pages, sampling: None, draft: 0, score: None }
}
