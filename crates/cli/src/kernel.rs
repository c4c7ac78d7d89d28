//! Choosing a kernel of the library: each kernel is a subcommand, and its options are flags.

use anyhow::{Result, anyhow, bail};
use clap::{Arg, ArgMatches, Command, FromArgMatches, Subcommand};
use warpwright_kernels::registry::{self, LibraryKernel, OptionKind, OptionSpec, Options};
use warpwright_runtime::Device;

/// Every kernel: those of the library, then the lessons.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn LibraryKernel> {
    registry::all().iter().chain(warpwright_lessons::all()).copied()
}

/// The kernel of that name.
pub(crate) fn named(name: &str) -> Option<&'static dyn LibraryKernel> {
    all().find(|kernel| kernel.name() == name)
}

/// A kernel, and the values of its options.
#[derive(Clone)]
pub(crate) struct KernelChoice {
    pub(crate) kernel: &'static dyn LibraryKernel,
    pub(crate) options: Options,
    /// Names of the options that were given; the others have their defaults.
    given: Vec<&'static str>,
}

impl KernelChoice {
    /// The options, with other defaults for some of those that were not given.
    pub(crate) fn options_or(&self, defaults: &[(&str, &str)]) -> Result<Options> {
        let mut options = self.options.clone();
        for (name, value) in defaults.iter().filter(|(name, _)| !self.given.contains(name)) {
            options.set(name, value)?;
        }
        Ok(options)
    }

    /// What the way of the launch is chosen among, which it is and why, if that is asked for.
    pub(crate) fn explanation(&self, asked: bool, device: &Device) -> Result<Option<String>> {
        if !asked {
            return Ok(None);
        }
        let Self { kernel, options, .. } = self;
        let Some(explanation) = kernel.explain(device, options) else {
            bail!("{} is launched in one way only: there is nothing to explain", kernel.name());
        };
        explanation.map(Some).map_err(|error| anyhow!("{} {options}: {error}", kernel.name()))
    }
}

impl std::fmt::Debug for KernelChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kernel.name(), self.options)
    }
}

impl FromArgMatches for KernelChoice {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let no_kernel =
            || clap::Error::raw(clap::error::ErrorKind::MissingSubcommand, "a kernel must be named\n");
        let (name, matches) = matches.subcommand().ok_or_else(no_kernel)?;
        let kernel = named(name).ok_or_else(no_kernel)?;
        let mut options = Options::defaults(kernel.options());
        let mut given = Vec::new();
        for spec in kernel.options() {
            if let Some(text) = matches.get_one::<String>(spec.name) {
                let invalid = clap::error::ErrorKind::InvalidValue;
                options
                    .set(spec.name, text)
                    .map_err(|error| clap::Error::raw(invalid, format!("{error}\n")))?;
                given.push(spec.name);
            }
        }
        Ok(Self { kernel, options, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for KernelChoice {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommand_value_name("KERNEL").subcommand_help_heading("Kernels").subcommands(all().map(
            |kernel| {
                Command::new(kernel.name()).about(kernel.summary()).args(kernel.options().iter().map(flag))
            },
        ))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        named(name).is_some()
    }
}

fn flag(spec: &OptionSpec) -> Arg {
    let flag = Arg::new(spec.name).long(spec.name).help_heading("The kernel's options");
    match spec.kind {
        OptionKind::Number { default, .. } => {
            flag.value_name("N").help(format!("{} [default: {default}]", spec.help))
        }
        OptionKind::Choice(choices) => {
            let choices = choices.join("|");
            flag.value_name("CHOICE").help(format!(
                "{} [{choices}, default: {}]",
                spec.help,
                spec.default_text()
            ))
        }
    }
}
