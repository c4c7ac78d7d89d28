//! Writes a checkpoint as safetensors.

use std::borrow::Cow;
use std::path::Path;

use half::bf16;
use safetensors::{Dtype, View};

use super::checkpoint::Checkpoint;
use super::loader::Loader;
use super::tensor::Tensor;
use crate::config::Config;
use crate::error::{EngineError, Result};
use crate::models::build;
use crate::number::Number;

/// A tensor of a file, whose numbers are made when they are written.
struct Saved {
    tensor: Tensor,
    shape: Vec<usize>,
}

impl Saved {
    fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Vectors stay exact: rounded to bf16, `A_log` changes greedy tokens.
    fn is_exact(&self) -> bool {
        self.shape.iter().filter(|extent| **extent > 1).count() <= 1
    }

    fn bytes<T: Number>(&self) -> Vec<u8> {
        let rows = self.elements() / self.tensor.columns().max(1);
        bytemuck::cast_slice(&self.tensor.rows::<T>(0..rows)).to_vec()
    }
}

impl View for Saved {
    fn dtype(&self) -> Dtype {
        if self.is_exact() { Dtype::F32 } else { Dtype::BF16 }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(if self.is_exact() { self.bytes::<f32>() } else { self.bytes::<bf16>() })
    }

    fn data_len(&self) -> usize {
        self.elements() * if self.is_exact() { 4 } else { 2 }
    }
}

impl Checkpoint {
    /// Writes the tensors that the model has, and its configuration, to a folder that exists: matrices in bf16,
    /// vectors in f32.
    ///
    /// # Errors
    /// The engine does not run the model, the tensors do not fit it, or a file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let mut config = Config::read(&self.config)?;
        if self.tensor("mtp.norm.weight", &[config.hidden]).is_some() {
            config = config.clone().with_mtp().unwrap_or(config);
        }
        let mut check = Loader::checking(self, None)?;
        build::<f32>(&config, &mut check)?;
        let tensors = check.shapes().into_iter().filter_map(|(name, shape)| {
            let tensor = self.tensor(&name, &shape)?;
            Some((name, Saved { tensor, shape }))
        });
        let tensors: Vec<(String, Saved)> = tensors.collect();
        check.finish()?;
        let path = folder.join("config.json");
        std::fs::write(&path, self.config.to_string())
            .map_err(|source| EngineError::File { path, source })?;
        let path = folder.join("model.safetensors");
        let reason = |error: safetensors::SafeTensorError| format!("it cannot be written: {error}");
        safetensors::serialize_to_file(tensors, None, &path)
            .map_err(|error| EngineError::Format { path, reason: reason(error) })
    }
}
