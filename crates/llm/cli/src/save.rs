//! `save`: a model's weights as safetensors.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use warpwright_llm_engine::weights::Checkpoint;

/// Writes config.json and model.safetensors: matrices in bf16, vectors in f32. Of a GGUF file, quantized
/// weights are dequantized. With random weights, it makes a checkpoint to measure loading.
#[derive(Debug, Args)]
pub struct Save {
    /// A folder with config.json and safetensors, or a .gguf file.
    model: PathBuf,
    /// The folder to write to, which is made if it does not exist.
    folder: PathBuf,
    /// Random weights of this seed; the model's folder needs config.json only.
    #[arg(long, value_name = "SEED")]
    random_weights: Option<u64>,
}

impl Save {
    /// Runs the verb.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let checkpoint = match self.random_weights {
            Some(seed) => Checkpoint::random(&self.model, seed)?,
            None => Checkpoint::open(&self.model)?,
        };
        let folder = &self.folder;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(checkpoint.save(folder)?)
    }
}
