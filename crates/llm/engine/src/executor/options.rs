//! How much the executor holds, and how it compiles kernels.

use std::sync::Arc;
use std::time::Duration;

use warpwright::runtime::Assemblers;
use warpwright_llm_step::Capacity;

use crate::config::{Config, Mixer};
use crate::error::{EngineError, Result};
use crate::weights::Checkpoint;

/// How an engine compiles kernels before its first step.
#[derive(Debug)]
pub struct WarmUp {
    /// For how long a start waits for kernels.
    pub time: Duration,
    /// Processes that assemble kernels where the driver does not have them in its cache.
    pub assemblers: Option<Arc<Assemblers>>,
}

/// How much the executor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens of a page of the KV cache: 16, 32, 64, 128 or 256.
    pub page_tokens: u32,
    /// Pages of the KV cache.
    pub pages: u32,
    /// State slots.
    pub slots: u32,
    /// Chunks of a step at most.
    pub sequences: u32,
    /// Tokens of a step at most.
    pub tokens: u32,
    /// Tokens of a sequence at most; the model's own limit if that is less.
    pub context: u32,
    /// Tokens that the MTP layer drafts for a sequence; 0: the layer is not loaded.
    pub drafts: u32,
}

/// Drafts at most: with the token before them, as many as are few.
const MAX_DRAFTS: u32 = 7;

impl Default for Limits {
    /// One sequence of up to 4096 tokens, and a prompt in chunks of 512.
    fn default() -> Self {
        Self { page_tokens: 64, pages: 64, slots: 1, sequences: 1, tokens: 512, context: 4096, drafts: 0 }
    }
}

impl Limits {
    /// The capacity that an engine with these limits has for a model, before its weights are loaded.
    ///
    /// # Errors
    /// The configuration is not one that the engine runs, or a limit is not one that it takes.
    pub fn capacity_of(self, checkpoint: &Checkpoint) -> Result<Capacity> {
        self.capacity(&Config::read(&checkpoint.config)?)
    }

    /// The same for a configuration.
    pub(super) fn capacity(self, config: &Config) -> Result<Capacity> {
        let Self { page_tokens, pages, slots, sequences, tokens, context, drafts } = self;
        if !matches!(page_tokens, 16 | 32 | 64 | 128 | 256) {
            let reason = format!("pages of {page_tokens} tokens; give 16, 32, 64, 128 or 256");
            return Err(EngineError::Config(reason));
        }
        if [pages, slots, sequences, tokens, context].contains(&0) {
            return Err(EngineError::Config("a limit of the executor is 0; give 1 or more".to_owned()));
        }
        if drafts > MAX_DRAFTS {
            return Err(EngineError::Config(format!("{drafts} drafts; give {MAX_DRAFTS} or fewer")));
        }
        Ok(Capacity {
            page_tokens,
            pages,
            slots,
            stateful: config.layers.contains(&Mixer::DeltaNet),
            sequences,
            tokens,
            context: context.min(config.context),
            vocabulary: config.vocabulary as u32,
            drafts,
            top: 20,
        })
    }
}
