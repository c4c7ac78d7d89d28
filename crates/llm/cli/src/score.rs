//! `score`: the log-probability of each given token.

use clap::Args;
use serde_json::json;
use warpwright_llm_step::Score as Targets;

use crate::model::{Model, expect_tokens};

/// Prints the log-probability of each given token after the first.
#[derive(Debug, Args)]
pub struct Score {
    #[command(flatten)]
    model: Model,
    /// The tokens.
    #[arg(long, value_delimiter = ',')]
    ids: Vec<u32>,
}

impl Score {
    /// Runs the verb.
    pub fn run(self) -> anyhow::Result<()> {
        let checkpoint = self.model.checkpoint()?;
        expect_tokens(&self.ids, &self.model.limits(1, None, 0).capacity_of(&checkpoint)?)?;
        let mut sequence = self.model.alone(&checkpoint)?;
        let at_once = sequence.step_tokens();
        let mut log_probabilities = vec![];
        for first in (0..self.ids.len()).step_by(at_once) {
            let end = self.ids.len().min(first + at_once);
            let targets = self.ids[first + 1..self.ids.len().min(end + 1)].to_vec();
            let tokens = self.ids[first..end].to_vec();
            let output = sequence.step(tokens, Targets { targets, top: 0 })?;
            log_probabilities.extend(output.scored.iter().map(|scored| scored.log_probability));
        }
        println!("{}", json!({ "logprobs": log_probabilities }));
        Ok(())
    }
}
