//! Tiny models with random weights, what transformers computes with them, and sequences of an engine.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, Engine, Limits};
use warpwright_llm_step::{Chunk, Executor, Output, Page, Sampling, Score, Slot, Step, Tokens};

/// The models of `tests/fixtures`.
pub(crate) const MODELS: [&str; 7] =
    ["llama", "mistral", "qwen2", "qwen3", "qwen3_5", "qwen3_5_narrow", "qwen3_5_moe"];

/// The seed of the oracle.
const SEED: u64 = 1;

/// What transformers computes.
#[derive(Deserialize)]
pub(crate) struct Expected {
    pub(crate) prompt: Vec<u32>,
    pub(crate) tokens: Vec<u32>,
    pub(crate) logprobs: Vec<f32>,
    #[serde(default)]
    pub(crate) of_prompt: Vec<f32>,
    /// The mean difference of log-probabilities of torch's own bf16 on the prompt.
    #[serde(default)]
    pub(crate) bf16: f32,
    /// As `of_prompt`, with weights that were quantized.
    #[serde(default)]
    pub(crate) of_prompt_fp8: Vec<f32>,
    #[serde(default)]
    pub(crate) of_prompt_int4: Vec<f32>,
    /// Two drafts of the MTP layer after each of the first tokens.
    #[serde(default)]
    pub(crate) drafts: Vec<Vec<u32>>,
}

pub(crate) fn folder(model: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(model)
}

pub(crate) fn expected(model: &str) -> Vec<Expected> {
    let text = std::fs::read(folder(model).join("expected.json")).expect("a fixture");
    serde_json::from_slice(&text).expect("what the oracle writes")
}

/// A folder with the configuration of a model, changed.
pub(crate) fn changed(model: &str, change: impl FnOnce(&mut serde_json::Value)) -> tempfile::TempDir {
    let text = std::fs::read(folder(model).join("config.json")).expect("a fixture");
    let mut config = serde_json::from_slice(&text).expect("JSON");
    change(&mut config);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    folder
}

pub(crate) const LIMITS: Limits =
    Limits { page_tokens: 16, pages: 32, slots: 5, sequences: 4, tokens: 128, context: 256, drafts: 0 };

pub(crate) fn engine(model: &str, data_type: DataType) -> Engine {
    engine_of(&folder(model), data_type)
}

/// The model of a folder, with random weights.
pub(crate) fn engine_of(folder: &Path, data_type: DataType) -> Engine {
    engine_with(folder, data_type, LIMITS)
}

pub(crate) fn engine_with(folder: &Path, data_type: DataType, limits: Limits) -> Engine {
    let checkpoint = random(folder);
    let device = Device::named("emu:h200").expect("an emulator");
    Engine::load(&checkpoint, &device, data_type, limits).expect("a model")
}

/// The checkpoint of a folder's configuration with the oracle's weights.
pub(crate) fn random(folder: &Path) -> Checkpoint {
    Checkpoint::random(folder, SEED).expect("a configuration")
}

/// A chunk of the sequence that has slot and pages number `sequence`.
pub(crate) fn chunk(sequence: u32, position: u32, tokens: Tokens) -> Chunk {
    let of_sequence = LIMITS.pages / LIMITS.sequences;
    // In descending order: pages that are not neighbors are right, too.
    let pages = (0..of_sequence).rev().map(|page| Page(sequence * of_sequence + page)).collect();
    Chunk { slot: Slot(sequence), position, tokens, pages, sampling: None, draft: 0, score: None }
}

pub(crate) fn greedy() -> Sampling {
    Sampling { log_probabilities: Some(0), ..Sampling::greedy() }
}

pub(crate) fn step(engine: &mut Engine, chunks: Vec<Chunk>) -> Vec<Output> {
    engine.submit(Step { copies: vec![], chunks }).expect("a step");
    engine.wait().expect("outputs")
}

/// The greedy tokens of a prompt that is given in parts, and the log-probabilities of the prompt's own
/// tokens.
pub(crate) fn generate(
    engine: &mut Engine,
    prompt: &[u32],
    part: usize,
    count: usize,
) -> (Vec<(u32, f32)>, Vec<f32>) {
    let (mut sampled, mut scored) = (vec![], vec![]);
    for first in (0..prompt.len()).step_by(part) {
        let end = prompt.len().min(first + part);
        let targets = prompt[first + 1..prompt.len().min(end + 1)].to_vec();
        let sampling = (end == prompt.len()).then(greedy);
        let known = Tokens::Known(prompt[first..end].to_vec());
        let chunk =
            Chunk { sampling, score: Some(Score { targets, top: 0 }), ..chunk(0, first as u32, known) };
        let output = step(engine, vec![chunk]).remove(0);
        sampled.extend(output.sampled.iter().map(|sampled| (sampled.token, sampled.log_probability)));
        scored.extend(output.scored.iter().map(|scored| scored.log_probability));
    }
    while sampled.len() < count {
        let position = (prompt.len() + sampled.len() - 1) as u32;
        let chunk = Chunk { sampling: Some(greedy()), ..chunk(0, position, Tokens::Last) };
        let output = step(engine, vec![chunk]).remove(0);
        sampled.extend(output.sampled.iter().map(|sampled| (sampled.token, sampled.log_probability)));
    }
    (sampled, scored)
}

/// The mean difference of log-probabilities.
pub(crate) fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).sum::<f32>() / found.len() as f32
}
