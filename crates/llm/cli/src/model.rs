//! The model of a verb, and a sequence that runs alone.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, Engine, Limits};
use warpwright_llm_step::{Chunk, Executor, Output, Page, Sampling, Score, Slot, Step, Tokens};

/// A model, and where it runs.
#[derive(Debug, Args)]
pub(crate) struct Model {
    /// A folder with config.json and safetensors, or a .gguf file.
    model: PathBuf,
    /// The type of activations and weights.
    #[arg(long, default_value = "bf16", value_parser = data_type)]
    dtype: DataType,
    /// cuda:0, emu:h200, or auto: the first GPU, else the emulator.
    #[arg(long, env = "WARPWRIGHT_DEVICE", default_value = "auto")]
    device: String,
    /// Random weights of this seed; the model's folder needs config.json only.
    #[arg(long, value_name = "SEED")]
    random_weights: Option<u64>,
    /// Tokens of a step.
    #[arg(long, default_value_t = 512)]
    chunk: u32,
    /// Tokens of the sequence at most.
    #[arg(long, default_value_t = 4096)]
    context: u32,
    /// Tokens that the model's MTP layer drafts for each step, 0 to 7. They change no token.
    #[arg(long, default_value_t = 0)]
    drafts: u32,
}

fn data_type(name: &str) -> Result<DataType, String> {
    match name {
        "f32" => Ok(DataType::F32),
        "bf16" => Ok(DataType::Bf16),
        other => Err(format!("{other} is no type of weights; give f32 or bf16")),
    }
}

impl Model {
    /// Loads the model.
    pub(crate) fn engine(&self, limits: Limits) -> anyhow::Result<Engine> {
        let checkpoint = match self.random_weights {
            Some(seed) => Checkpoint::random(&self.model, seed)?,
            None => Checkpoint::open(&self.model)?,
        };
        Ok(Engine::load(&checkpoint, &Device::named(&self.device)?, self.dtype, limits)?)
    }

    /// Loads the model for one sequence.
    pub(crate) fn load(&self) -> anyhow::Result<Alone> {
        let page_tokens = 64;
        let pages = self.context.div_ceil(page_tokens);
        let (tokens, context, drafts) = (self.chunk, self.context, self.drafts);
        let limits = Limits { page_tokens, pages, tokens, context, drafts, ..Limits::default() };
        let engine = self.engine(limits)?;
        Ok(Alone { engine, pages: (0..pages).map(Page).collect(), position: 0, drafts })
    }
}

/// One sequence that has the engine to itself.
pub(crate) struct Alone {
    engine: Engine,
    pages: Vec<Page>,
    position: u32,
    /// Tokens to draft after one token.
    drafts: u32,
}

impl Alone {
    /// The tokens that end a text.
    pub(crate) fn ends(&self) -> &[u32] {
        self.engine.ends()
    }

    /// The most tokens of a step.
    pub(crate) fn step_tokens(&self) -> usize {
        self.engine.capacity().tokens as usize
    }

    /// Adds tokens to the sequence. Those that are sampled before the last one are added, too.
    pub(crate) fn step(
        &mut self,
        tokens: Tokens,
        sampling: Option<Sampling>,
        score: Option<Score>,
    ) -> anyhow::Result<Output> {
        let (position, count) = (self.position, tokens.len());
        let room = self.engine.capacity().context.saturating_sub(position + count);
        let draft = if count == 1 && sampling.is_some() { self.drafts.min(room) } else { 0 };
        let pages = self.pages.clone();
        let chunk = Chunk { slot: Slot(0), position, tokens, pages, sampling, draft, score };
        self.engine.submit(Step { copies: vec![], chunks: vec![chunk] })?;
        let output = self.engine.wait()?.pop().context("a step of one chunk has one output")?;
        self.position += count + (output.sampled.len() as u32).saturating_sub(1);
        Ok(output)
    }

    /// Adds a prompt. Returns the output of its last chunk.
    pub(crate) fn prompt(&mut self, tokens: &[u32], sampling: &Sampling) -> anyhow::Result<Output> {
        let mut output = Output::default();
        let parts: Vec<&[u32]> = tokens.chunks(self.step_tokens()).collect();
        for (index, part) in parts.iter().enumerate() {
            let sampling = (index + 1 == parts.len()).then(|| sampling.clone());
            output = self.step(Tokens::Known(part.to_vec()), sampling, None)?;
        }
        Ok(output)
    }
}

/// Refuses a prompt without tokens.
pub(crate) fn expect_tokens(tokens: &[u32]) -> anyhow::Result<()> {
    if tokens.is_empty() {
        bail!("there are no tokens; give --ids 1,2,3");
    }
    Ok(())
}
