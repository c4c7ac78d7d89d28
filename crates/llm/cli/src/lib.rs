//! The verbs of `warpwright-llm`, a file per verb.

mod assemble;
mod bench;
mod chat;
mod generate;
mod load;
mod model;
mod output;
mod progress;
mod sampling;
mod save;
mod score;
mod serve;
mod terminal;

use clap::Parser;
pub use output::{ends_with_output, is_end_of_output, sentence};

/// Runs language models on the kernels of warpwright.
#[derive(Debug, Parser)]
#[command(name = "warpwright-llm", version)]
pub enum Command {
    /// Continue a prompt.
    Generate(generate::Generate),
    /// Talk to a model in the terminal.
    Chat(chat::Chat),
    /// Serve a model by OpenAI's API.
    Serve(serve::Serve),
    /// Time the engine's steps.
    Bench(bench::Bench),
    /// Time answers that run together.
    Load(load::Load),
    /// Print the log-probability of each given token.
    Score(score::Score),
    /// Write a model's weights as safetensors.
    Save(save::Save),
    /// Assemble kernels for a server that starts.
    #[command(hide = true)]
    Assemble(assemble::Assemble),
}

impl Command {
    /// Runs the verb.
    ///
    /// # Errors
    /// The model cannot be loaded or run.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Generate(generate) => generate.run(),
            Self::Chat(chat) => chat.run(),
            Self::Serve(serve) => serve.run(),
            Self::Bench(bench) => bench.run(),
            Self::Load(load) => load.run(),
            Self::Score(score) => score.run(),
            Self::Save(save) => save.run(),
            Self::Assemble(assemble) => assemble.run(),
        }
    }
}
