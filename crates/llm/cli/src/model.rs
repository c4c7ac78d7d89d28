//! The model of a verb, its texts, and a sequence that runs alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, value_parser};
use serde_json::{Map, Value};
use warpwright::arch::Arch;
use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, DecodePlan, Engine, EngineError, Limits, StateType, WarmUp};
use warpwright_llm_serving::defaults::Defaults;
use warpwright_llm_serving::model::{Model as Texts, generation_config};
use warpwright_llm_serving::scheduler::Options;
use warpwright_llm_serving::template::CHAT_ML;
use warpwright_llm_serving::tokenizer::GgufVocabulary;
use warpwright_llm_step::{Capacity, Chunk, Executor, Output, Page, Score, Slot, Step, Token, Tokens};

use crate::assemble::assemblers;
use crate::progress;

/// A model, and where it runs.
#[derive(Debug, Args)]
pub(crate) struct Model {
    /// A folder with config.json and safetensors, or a .gguf file.
    model: PathBuf,
    /// Weight type: f32, bf16, fp8 or int4. Activations are f32 with f32, else bf16.
    #[arg(long, default_value = "bf16", value_parser = data_type)]
    dtype: DataType,
    /// Type of the gated delta rule's states: f32, or bf16 with half the bytes and less precision. [default: the type in
    /// the model's configuration, f32 for Qwen 3.5]
    #[arg(long = "mamba-ssm-cache-dtype", value_name = "TYPE", value_parser = state_type)]
    state: Option<StateType>,
    /// Device: cuda:0, emu:h200, or auto for the first GPU or else the emulator.
    #[arg(long, env = "WARPWRIGHT_DEVICE", default_value = "auto")]
    device: String,
    /// Number of GPUs for tensor parallelism: 1, 2 or 4, starting at the device.
    #[arg(long = "tensor-parallel-size", value_name = "N", default_value = "1", value_parser = ranks)]
    tensor_parallel: u32,
    /// Use random weights with this seed; the model's folder needs only config.json.
    #[arg(long, value_name = "SEED")]
    random_weights: Option<u64>,
    /// Prompt tokens per step. [default: 512, and 2 for each answer of the step]
    #[arg(long, value_parser = value_parser!(u32).range(1..=1 << 20))]
    chunk: Option<u32>,
    /// Maximum tokens of a sequence, prompt and answer.
    #[arg(long = "max-model-len", default_value_t = 4096, value_parser = value_parser!(u32).range(1..=1 << 24))]
    context: u32,
    /// Tokens drafted per step by the model's MTP layer, 0 to 7. Drafts do not change the answer.
    #[arg(long = "num-speculative-tokens", default_value_t = 0, value_parser = value_parser!(u32).range(..=7))]
    drafts: u32,
    /// A folder with tokenizer.json and the chat template. [default: the model's own]
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    /// A file with a chat template in Jinja, or `chatml`. [default: the model's own]
    #[arg(long, value_name = "FILE")]
    chat_template: Option<PathBuf>,
}

fn data_type(name: &str) -> Result<DataType, String> {
    let found = DataType::ALL.into_iter().find(|data_type| data_type.name() == name);
    found.ok_or_else(|| format!("{name} is no type of weights; give f32, bf16, fp8 or int4"))
}

fn state_type(name: &str) -> Result<StateType, String> {
    let found = StateType::ALL.into_iter().find(|state| state.name() == name);
    found.ok_or_else(|| format!("{name} is no type of states; give f32 or bf16"))
}

fn ranks(number: &str) -> Result<u32, String> {
    match number.parse() {
        Ok(ranks @ (1 | 2 | 4)) => Ok(ranks),
        _ => Err(format!("{number} GPUs cannot compute together; give 1, 2 or 4")),
    }
}

/// Tokens of prompts in a step, and more for each answer of the step.
const CHUNK: (u32, u32) = (512, 2);

/// Tokens of a page of the KV cache.
const PAGE_TOKENS: u32 = 64;

impl Model {
    /// Opens the model's files.
    pub(crate) fn checkpoint(&self) -> anyhow::Result<Checkpoint> {
        self.checkpoint_by(|path| Checkpoint::open(path))
    }

    /// Opens the model's files for its shapes alone: a folder need not have weights.
    pub(crate) fn shapes(&self) -> anyhow::Result<Checkpoint> {
        self.checkpoint_by(|path| Checkpoint::shapes(path))
    }

    fn checkpoint_by(
        &self,
        open: impl FnOnce(&Path) -> Result<Checkpoint, EngineError>,
    ) -> anyhow::Result<Checkpoint> {
        let checkpoint = match self.random_weights {
            Some(seed) => Checkpoint::random(&self.model, seed)?,
            None => open(&self.model)?,
        };
        let Some(state) = self.state else { return Ok(checkpoint) };
        if !Limits::default().capacity_of(&checkpoint)?.stateful {
            bail!(
                "--mamba-ssm-cache-dtype is the type of the gated delta rule's states, and the model has none"
            );
        }
        Ok(checkpoint.with_states(state))
    }

    /// The GPU of the device's name; an H200 where it names none.
    pub(crate) fn arch(&self) -> anyhow::Result<&'static Arch> {
        Ok(Arch::named(self.device.strip_prefix("emu:").unwrap_or("h200"))?)
    }

    /// Loads the weights.
    pub(crate) fn engine(&self, checkpoint: &Checkpoint, limits: Limits) -> anyhow::Result<Engine> {
        let devices = self.devices()?;
        let load = || Engine::load_parallel(checkpoint, &devices, self.dtype, limits);
        Ok(self.show_progress(checkpoint, load)?)
    }

    /// Loads the weights, and makes all that steps need, as far as kernels are compiled after that time. The emulator
    /// compiles nothing, and is not warmed up.
    pub(crate) fn warm_engine(
        &self,
        checkpoint: &Checkpoint,
        limits: Limits,
        time: Duration,
    ) -> anyhow::Result<Engine> {
        let devices = self.devices()?;
        if time.is_zero() || devices.iter().any(|device| device.properties().is_emulated) {
            return self.engine(checkpoint, limits);
        }
        let warm_up = WarmUp { time, assemblers: assemblers(&self.device).map(Arc::new) };
        let load = || Engine::load_warm(checkpoint, &devices, self.dtype, limits, &warm_up);
        Ok(self.show_progress(checkpoint, load)?)
    }

    fn show_progress<T>(&self, checkpoint: &Checkpoint, load: impl FnOnce() -> T) -> T {
        let ranks = f64::from(self.tensor_parallel);
        progress::show(|| Some(checkpoint.loaded()? / ranks), load)
    }

    fn devices(&self) -> anyhow::Result<Vec<Device>> {
        Ok(match self.tensor_parallel {
            1 => vec![Device::named(&self.device)?],
            ranks => Device::peers(&self.device, ranks)?,
        })
    }

    /// What a decode launches, moves and computes on each GPU.
    pub(crate) fn plan(
        &self,
        checkpoint: &Checkpoint,
        batch: u32,
        context: u32,
    ) -> anyhow::Result<DecodePlan> {
        Ok(DecodePlan::of_rank(checkpoint, self.dtype, (batch, context), self.tensor_parallel)?)
    }

    /// Limits for sequences that run together, and share a cache of this number of tokens.
    pub(crate) fn limits(&self, sequences: u32, cache_tokens: Option<u32>, snapshots: u32) -> Limits {
        let (chunk, per_answer) = self.prompt_tokens();
        let chunk = chunk.saturating_add(per_answer * sequences);
        let pages =
            cache_tokens.unwrap_or(self.context.saturating_mul(sequences.min(4))).div_ceil(PAGE_TOKENS);
        Limits {
            page_tokens: PAGE_TOKENS,
            pages,
            slots: sequences + snapshots,
            sequences,
            tokens: match sequences * (1 + self.drafts) {
                answers if sequences > 1 => chunk + answers,
                answers => chunk.max(answers),
            },
            context: self.context,
            drafts: self.drafts,
        }
    }

    /// Loads the weights for one sequence.
    pub(crate) fn alone(&self, checkpoint: &Checkpoint) -> anyhow::Result<Alone> {
        let limits = self.limits(1, None, 0);
        let engine = self.engine(checkpoint, limits)?;
        Ok(Alone { engine, pages: (0..limits.pages).map(Page).collect(), position: 0 })
    }

    /// The type of the weights.
    pub(crate) fn data_type(&self) -> DataType {
        self.dtype
    }

    /// Tokens of prompts in a step, and more for each answer of the step.
    pub(crate) fn prompt_tokens(&self) -> (u32, u32) {
        self.chunk.map_or(CHUNK, |chunk| (chunk, 0))
    }

    /// How steps are scheduled.
    pub(crate) fn scheduling(&self, prefix_caching: bool) -> Options {
        let (prompt_tokens, prompt_tokens_per_answer) = self.prompt_tokens();
        Options { prompt_tokens, prompt_tokens_per_answer, prefix_caching, drafts: self.drafts }
    }

    /// Tokens that are drafted for each step.
    pub(crate) fn drafts(&self) -> u32 {
        self.drafts
    }

    /// The name of the file or the folder.
    pub(crate) fn name(&self) -> String {
        let path = self.model.canonicalize().unwrap_or_else(|_| self.model.clone());
        path.file_stem().map_or("model".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// The tokenizer, the chat template and the tokens that end an answer.
    pub(crate) fn texts(&self, name: &str, checkpoint: &Checkpoint) -> anyhow::Result<Texts> {
        let mut texts = self.own_texts(name, checkpoint)?;
        if let Some(path) = &self.chat_template {
            let source = match path.to_str() {
                Some("chatml") => CHAT_ML.to_owned(),
                _ => std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read the chat template `{}`", path.display()))?,
            };
            texts.template = texts.template.with_source(&source)?;
        }
        Ok(texts)
    }

    fn own_texts(&self, name: &str, checkpoint: &Checkpoint) -> anyhow::Result<Texts> {
        let beside = if self.model.is_dir() { Some(self.model.as_path()) } else { self.model.parent() };
        let folder = match (&self.tokenizer, beside) {
            (Some(folder), _) => Some(folder.as_path()),
            (None, Some(folder)) if folder.join("tokenizer.json").exists() => Some(folder),
            (None, _) => None,
        };
        let metadata = checkpoint.metadata();
        let texts = match folder {
            Some(folder) => with_folder(name, folder, metadata)?,
            None if self.random_weights.is_some() => {
                Texts::from_gguf(name, &GgufVocabulary::bytes(), Some(CHAT_ML))?
            }
            None if metadata.is_empty() => {
                bail!("the model has no tokenizer.json: give --tokenizer FOLDER")
            }
            None => of_metadata(name, metadata)?,
        };
        // The tokenizer's folder may be another one than the model's.
        let config = beside.map_or(Ok(Value::Null), generation_config)?;
        let own = Defaults::from_generation_config(&config)?.or(Defaults::from_gguf(metadata)?);
        Ok(Texts { defaults: own.or(texts.defaults), ..texts })
    }
}

/// From a tokenizer's folder, which a GGUF file may have beside it.
fn with_folder(name: &str, folder: &Path, metadata: &Map<String, Value>) -> anyhow::Result<Texts> {
    let mut texts = Texts::from_folder(name, folder)?;
    if let Some(token) = texts.tokenizer.differs_from(&GgufVocabulary::from_metadata(metadata)) {
        bail!(
            "{} is the tokenizer of another model than the GGUF file, which has another token {token}: move it, or give \
             the model's own with --tokenizer FOLDER",
            folder.join("tokenizer.json").display()
        );
    }
    let template = metadata.get("tokenizer.chat_template").and_then(Value::as_str);
    if let Some(source) = template.filter(|_| texts.template.is_missing()) {
        texts.template = texts.template.with_source(source)?;
    }
    Ok(texts)
}

/// From the metadata of a GGUF file.
fn of_metadata(name: &str, metadata: &Map<String, Value>) -> anyhow::Result<Texts> {
    let template = |key: &str| metadata.get(key).and_then(Value::as_str);
    let vocabulary = GgufVocabulary::from_metadata(metadata);
    let texts = Texts::from_gguf(name, &vocabulary, template("tokenizer.chat_template"))?;
    Ok(texts.with_tool_template(template("tokenizer.chat_template.tool_use"))?)
}

/// One sequence that has the engine to itself.
pub(crate) struct Alone {
    engine: Engine,
    pages: Vec<Page>,
    position: u32,
}

impl Alone {
    /// The most tokens of a step.
    pub(crate) fn step_tokens(&self) -> usize {
        self.engine.capacity().tokens as usize
    }

    /// Adds known tokens to the sequence.
    pub(crate) fn step(&mut self, tokens: Vec<Token>, score: Score) -> anyhow::Result<Output> {
        let (position, count) = (self.position, tokens.len() as u32);
        let chunk = Chunk {
            slot: Slot(0),
            position,
            tokens: Tokens::Known(tokens),
            pages: self.pages.clone(),
            sampling: None,
            draft: 0,
            score: Some(score),
        };
        self.engine.submit(Step { copies: vec![], chunks: vec![chunk] })?;
        let output = self.engine.wait()?.pop().context("a step of one chunk has one output")?;
        if let Some(reason) = output.failed {
            bail!("{reason}");
        }
        self.position += count;
        Ok(output)
    }
}

/// Refuses a prompt without tokens, one that does not fit, and tokens that the model does not have.
pub(crate) fn expect_tokens(tokens: &[u32], capacity: &Capacity) -> anyhow::Result<()> {
    let Capacity { context, vocabulary, .. } = *capacity;
    if tokens.is_empty() {
        bail!("the prompt has no tokens; give --ids 1,2,3 or a text");
    }
    if tokens.len() > context as usize {
        bail!(
            "the prompt has {} tokens, and a sequence at most {context}: the smaller one of --max-model-len and the \
             model's positions",
            tokens.len()
        );
    }
    if let Some(token) = tokens.iter().find(|token| **token >= vocabulary) {
        bail!("token {token} is not in the model's vocabulary of {vocabulary}");
    }
    Ok(())
}
