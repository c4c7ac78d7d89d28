//! The `warpwright-llm` command.

use clap::Parser;
use warpwright_llm_cli::Command;

fn main() -> anyhow::Result<()> {
    Command::parse().run()
}
