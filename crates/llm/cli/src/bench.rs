//! `bench`: times the engine's steps, without a server.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, value_parser};
use serde_json::{Value, json};
use warpwright::arch::{Arch, Bound};
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DecodePlan, Engine, Limits, OperationCost};
use warpwright_llm_step::{Chunk, Executor, Output, Page, Sampling, Slot, Step, Tokens};

use crate::model::Model;

/// Times decodes of batches, and a prompt.
#[derive(Debug, Args)]
pub struct Bench {
    #[command(flatten)]
    model: Model,
    /// Batch sizes of timed decodes; 0 skips decodes.
    #[arg(long = "batch-size", value_delimiter = ',', default_value = "1,16,64,128",
        value_parser = value_parser!(u32).range(..=65_536))]
    batch: Vec<u32>,
    /// Prompt tokens of each sequence before the first decode.
    #[arg(long = "input-len", default_value_t = 1024, value_parser = value_parser!(u32).range(1..=LONGEST))]
    prompt: u32,
    /// Number of timed decodes: output tokens of each sequence.
    #[arg(long = "output-len", default_value_t = 64, value_parser = value_parser!(u32).range(1..=LONGEST))]
    steps: u32,
    /// Prompt lengths of timed prefills, each with its first output token; 0 skips prefills. [default: 8192, or the
    /// model's positions if they are fewer]
    #[arg(long, value_delimiter = ',', value_parser = value_parser!(u32).range(..=LONGEST))]
    prefill: Vec<u32>,
    /// Warm up as `serve` does: seconds in which the kernels of all steps are compiled, before graphs of decodes are
    /// captured. 0 compiles each kernel when a step needs it.
    #[arg(long, default_value_t = 0)]
    warm_up_seconds: u64,
    /// Print the launches, bytes and FLOPs of each operation of a decode, and run nothing. Times are bytes or FLOPs at the
    /// GPU's roof: once, and in all layers.
    #[arg(long)]
    plan: bool,
    /// Print each figure as a line of JSON.
    #[arg(long)]
    json: bool,
}

/// The most tokens of a length.
const LONGEST: i64 = 1 << 24;
/// Tokens of a prefill, if the model has as many positions.
const PREFILL: u32 = 8192;
/// Tokens of a page.
const PAGE: u32 = 64;
/// Steps that are submitted before the first result is read.
const AHEAD: usize = 2;

impl Bench {
    /// Runs the verb.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let checkpoint = if self.plan { self.model.shapes()? } else { self.model.checkpoint()? };
        let limits = self.fitted(&checkpoint)?;
        let plan = |batch| self.model.plan(&checkpoint, batch, self.prompt);
        if self.plan {
            let roofs = Roofs::new(self.model.arch()?);
            for batch in &self.batch {
                self.print_plan(&plan(*batch)?, *batch, &roofs);
            }
            return Ok(());
        }
        let begin = Instant::now();
        let time = Duration::from_secs(self.warm_up_seconds);
        let mut engine = self.model.warm_engine(&checkpoint, limits, time)?;
        let seconds = begin.elapsed().as_secs_f64();
        self.print(&format!("loaded in {seconds:.1} s"), json!({ "load_seconds": seconds }));
        for tokens in &self.prefill {
            let seconds = time_prefill(&mut engine, *tokens)?;
            let rate = f64::from(*tokens) / seconds;
            self.print(
                &format!("prefill {tokens:6}: {:8.2} ms  {rate:8.0} tok/s", seconds * 1e3),
                json!({ "prefill": tokens, "ms": seconds * 1e3, "tokens_per_second": rate }),
            );
        }
        for batch in &self.batch {
            let (seconds, tokens) = self.time_decode(&mut engine, *batch)?;
            match self.model.drafts() {
                0 => self.print_decode(*batch, seconds, &plan(*batch)?),
                drafts => self.print_drafts(*batch, (seconds, tokens), drafts),
            }
        }
        Ok(())
    }

    /// Tokens of a sequence: the prompt, a run before the timed one, and one step more.
    fn tokens_of_sequence(&self) -> u32 {
        self.prompt + 2 * self.steps * (1 + self.model.drafts()) + 2
    }

    /// Leaves lengths of 0 out, and refuses those that the model's positions do not hold.
    fn fitted(&mut self, checkpoint: &Checkpoint) -> anyhow::Result<Limits> {
        let positions = Limits { context: u32::MAX, ..Limits::default() }.capacity_of(checkpoint)?.context;
        if self.prefill.is_empty() {
            self.prefill.push(PREFILL.min(positions));
        }
        self.prefill.retain(|tokens| *tokens > 0);
        self.batch.retain(|batch| *batch > 0);
        let batch = self.batch.iter().copied().max().unwrap_or(0);
        let prefill = self.prefill.iter().copied().max().unwrap_or(0);
        let decode = if batch == 0 { 0 } else { self.tokens_of_sequence() };
        if prefill > positions {
            bail!(
                "a prefill of {prefill} tokens does not fit in the model's {positions} positions: give less --prefill"
            );
        }
        if decode > positions {
            bail!(
                "a decode needs {decode} tokens for --input-len and twice --output-len, which do not fit in the model's \
                 {positions} positions: give less"
            );
        }
        let context = decode.max(prefill).max(1);
        let pages = batch
            .checked_mul(decode.div_ceil(PAGE))
            .context("the batch has more tokens than a cache can have")?;
        let limits = self.model.limits(batch.max(1), None, 0);
        let tokens = prefill.max(self.prompt).max(batch * (1 + limits.drafts));
        Ok(Limits { page_tokens: PAGE, pages: pages.max(context.div_ceil(PAGE)), tokens, context, ..limits })
    }

    /// Prints a figure as a text, or as JSON with what it is of.
    fn print(&self, text: &str, figure: Value) {
        if !self.json {
            println!("{text}");
            return;
        }
        let mut line = json!({ "model": self.model.name(), "dtype": self.model.data_type().name() });
        if let (Some(line), Value::Object(figure)) = (line.as_object_mut(), figure) {
            line.extend(figure);
        }
        println!("{line}");
    }

    fn print_decode(&self, batch: u32, seconds: f64, plan: &DecodePlan) {
        let (rate, bandwidth) = (f64::from(batch) / seconds, plan.bytes() as f64 / 1e12 / seconds);
        self.print(
            &format!(
                "decode {batch:7}: {:8.3} ms  {rate:8.1} tok/s  {:4} launches  {:7.3} GB  {bandwidth:6.3} TB/s",
                seconds * 1e3,
                plan.count(),
                plan.bytes() as f64 / 1e9,
            ),
            json!({ "decode": batch, "context": self.prompt, "ms": seconds * 1e3, "tokens_per_second": rate,
                "launches": plan.count(), "bytes": plan.bytes(), "terabytes_per_second": bandwidth }),
        );
    }

    /// Prints a step with drafts: the tokens that count, of each sequence, are those of the model and its MTP layer.
    fn print_drafts(&self, batch: u32, (seconds, tokens): (f64, f64), drafts: u32) {
        let rate = tokens * f64::from(batch) / seconds;
        self.print(
            &format!(
                "decode {batch:7}: {:8.3} ms  {rate:8.1} tok/s  {tokens:.2} tokens a step with {drafts} drafts",
                seconds * 1e3
            ),
            json!({ "decode": batch, "drafts": drafts, "context": self.prompt, "ms": seconds * 1e3,
                "tokens_per_step": tokens, "tokens_per_second": rate }),
        );
    }

    fn print_plan(&self, plan: &DecodePlan, batch: u32, roofs: &Roofs) {
        let flops: u64 = plan.operations.iter().map(|operation| operation.flops).sum();
        let microseconds: f64 = plan.operations.iter().map(|operation| roofs.microseconds(operation)).sum();
        self.print(
            &format!(
                "decode {batch}: {} launches, {:.3} GB ({:.3} of weights, {:.3} of states, {:.3} of keys and \
                 values), {:.2} GFLOP; {:.3} ms at {}",
                plan.count(),
                plan.bytes() as f64 / 1e9,
                plan.weights as f64 / 1e9,
                plan.states as f64 / 1e9,
                plan.keys as f64 / 1e9,
                flops as f64 / 1e9,
                microseconds / 1e3,
                roofs.name,
            ),
            json!({ "decode": batch, "context": self.prompt, "launches": plan.count(), "bytes": plan.bytes(),
                "flops": flops, "ms_at_roof": microseconds / 1e3 }),
        );
        for operation in &plan.operations {
            let OperationCost { name, count, kernels, bytes, flops } = operation;
            let (microseconds, each) = (roofs.microseconds(operation), *count as f64);
            self.print(
                &format!(
                    "{count:4} x {:9.3} MB {:9.4} GFLOP {:8.2} us {:9.1} us  {name}: {}",
                    *bytes as f64 / each / 1e6,
                    *flops as f64 / each / 1e9,
                    microseconds / each,
                    microseconds,
                    kernels.join(", ")
                ),
                json!({ "decode": batch, "operation": name, "count": count, "kernels": kernels, "bytes": bytes,
                    "flops": flops, "us_at_roof": microseconds }),
            );
        }
    }

    /// The seconds of a decode of `batch` sequences, and the tokens of each.
    fn time_decode(&self, engine: &mut Engine, batch: u32) -> anyhow::Result<(f64, f64)> {
        let vocabulary = engine.capacity().vocabulary;
        let of_sequence = self.tokens_of_sequence().div_ceil(PAGE);
        let pages =
            |sequence: u32| (sequence * of_sequence..(sequence + 1) * of_sequence).map(Page).collect();
        let at_once = (engine.capacity().tokens / self.prompt.max(1)).max(1);
        for first in (0..batch).step_by(at_once as usize) {
            let sequences = first..batch.min(first + at_once);
            let chunks = sequences.map(|sequence| prompt(sequence, pages(sequence), self.prompt, vocabulary));
            engine.submit(Step { copies: vec![], chunks: chunks.collect() })?;
            engine.wait()?;
        }
        // With drafts, the position is one that the sequence does not pass.
        let draft = self.model.drafts();
        let step = |number: u32| {
            let chunk = |sequence| Chunk {
                sampling: Some(Sampling::greedy()),
                draft,
                ..chunk(sequence, self.prompt + number * (1 + draft), Tokens::Last, pages(sequence))
            };
            Step { copies: vec![], chunks: (0..batch).map(chunk).collect() }
        };
        let mut run = |steps: std::ops::Range<u32>| -> anyhow::Result<(f64, usize)> {
            let begin = Instant::now();
            let (mut ahead, mut tokens) = (VecDeque::new(), 0);
            let count = |outputs: Vec<Output>| -> anyhow::Result<usize> {
                match outputs.iter().find_map(|output| output.failed.as_ref()) {
                    Some(reason) => bail!("{reason}"),
                    None => Ok(outputs.iter().map(|output| output.sampled.len()).sum()),
                }
            };
            for number in steps {
                engine.submit(step(number))?;
                ahead.push_back(number);
                if ahead.len() > AHEAD {
                    tokens += count(engine.wait()?)?;
                    ahead.pop_front();
                }
            }
            for _ in ahead {
                tokens += count(engine.wait().context("a step that was submitted")?)?;
            }
            Ok((begin.elapsed().as_secs_f64(), tokens))
        };
        run(0..self.steps)?;
        let (seconds, tokens) = run(self.steps..2 * self.steps)?;
        Ok((seconds / f64::from(self.steps), tokens as f64 / f64::from(self.steps * batch)))
    }
}

/// What bounds the operations of a decode: reads of DRAM, and products in bf16.
struct Roofs {
    /// The GPU, and its rates.
    name: String,
    bytes_per_second: f64,
    flops_per_second: f64,
}

impl Roofs {
    fn new(arch: &Arch) -> Self {
        let roofs = arch.roofs();
        let of = |bound: Bound| {
            let roof = roofs.iter().find(|roof| roof.bound == bound);
            roof.map_or(f64::INFINITY, |roof| roof.per_second)
        };
        let (bytes_per_second, flops_per_second) = (of(Bound::DeviceMemoryReads), of(Bound::TensorBf16));
        let (terabytes, teraflops) = (bytes_per_second / 1e12, flops_per_second / 1e12);
        let name = format!("the roofs of {}, {terabytes:.2} TB/s and {teraflops:.0} TFLOP/s", arch.name);
        Self { name, bytes_per_second, flops_per_second }
    }

    /// The time of an operation in all layers.
    fn microseconds(&self, operation: &OperationCost) -> f64 {
        let of_bytes = operation.bytes as f64 / self.bytes_per_second;
        of_bytes.max(operation.flops as f64 / self.flops_per_second) * 1e6
    }
}

/// The least seconds of a prompt and the token after it, of three runs after one.
fn time_prefill(engine: &mut Engine, tokens: u32) -> anyhow::Result<f64> {
    let vocabulary = engine.capacity().vocabulary;
    let mut best = f64::INFINITY;
    for round in 0..4 {
        let pages = (0..tokens.div_ceil(PAGE)).map(Page).collect();
        let step = Step { copies: vec![], chunks: vec![prompt(0, pages, tokens, vocabulary)] };
        let begin = Instant::now();
        engine.submit(step)?;
        engine.wait()?;
        if round > 0 {
            best = best.min(begin.elapsed().as_secs_f64());
        }
    }
    Ok(best)
}
/// A prompt whose next token is sampled.
fn prompt(sequence: u32, pages: Vec<Page>, length: u32, vocabulary: u32) -> Chunk {
    let tokens = (0..length).map(|at| (at * 7919 + sequence * 104_729) % vocabulary).collect();
    Chunk { sampling: Some(Sampling::greedy()), ..chunk(sequence, 0, Tokens::Known(tokens), pages) }
}

fn chunk(sequence: u32, position: u32, tokens: Tokens, pages: Vec<Page>) -> Chunk {
    Chunk { slot: Slot(sequence), position, tokens, pages, sampling: None, draft: 0, score: None }
}
