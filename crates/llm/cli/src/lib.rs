//! The verbs of `warpwright-llm`, a file per verb.

mod assemble;
mod bench;
mod chat;
mod generate;
mod load;
mod model;
mod output;
mod progress;
mod renamed;
mod sampling;
mod save;
mod score;
mod serve;
mod terminal;

use std::ffi::OsString;

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
    /// Reads arguments, the name of the program first.
    ///
    /// # Errors
    /// An argument is wrong. Of a flag that has another name now, the error has the new one.
    pub fn read<S: Into<OsString> + Clone>(
        arguments: impl IntoIterator<Item = S> + Clone,
    ) -> Result<Self, clap::Error> {
        let verb: Option<OsString> = arguments.clone().into_iter().nth(1).map(Into::into);
        let verb = verb.as_ref().and_then(|verb| verb.to_str());
        Self::try_parse_from(arguments).map_err(|error| renamed::with_new_name::<Self>(error, verb))
    }

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
