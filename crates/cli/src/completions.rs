//! `warpwright completions`: what a shell needs to complete command lines.

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, CommandFactory};
use clap_complete::{Shell, generate};

/// Print the completions of a shell: `source <(warpwright completions bash)`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell.
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        generate(self.shell, &mut command(), "warpwright", &mut script);
        match std::io::Write::write_all(&mut std::io::stdout(), &script) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("standard output cannot be written"),
        }
    }
}

/// The command with kernels as the values of an argument: with the options of each of about ninety
/// kernels, below each of ten verbs, a script would have megabytes.
fn command() -> Command {
    let command = crate::Command::command();
    let verbs: Vec<Command> = command.get_subcommands().map(of_verb).collect();
    Command::new("warpwright").args(command.get_arguments().cloned()).subcommands(verbs)
}

fn of_verb(verb: &Command) -> Command {
    let (kernels, others): (Vec<_>, Vec<_>) = verb.get_subcommands().partition(|below| below.is_hide_set());
    if kernels.is_empty() {
        return verb.clone();
    }
    let kernels: Vec<String> = kernels.iter().map(|kernel| kernel.get_name().to_owned()).collect();
    let kernel = Arg::new("kernel").value_parser(PossibleValuesParser::new(kernels));
    let verb_alone =
        Command::new(verb.get_name().to_owned()).about(verb.get_about().cloned().unwrap_or_default());
    verb_alone.args(verb.get_opts().cloned()).arg(kernel).subcommands(others.into_iter().cloned())
}
