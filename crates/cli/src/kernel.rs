//! The choice of a kernel: each workload is a subcommand, and its options are flags.

use anyhow::{Error, Result, anyhow, bail};
use clap::builder::{StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand};
use warpwright_harness::{DynWorkload, Entry, Form, OptionSpec, Prepared, Setup, Verified};
use warpwright_runtime::{Device, LaunchRecord, Stream};

use crate::emulation;
use crate::number;
use crate::output::WrongResult;

/// The seed of the inputs where none is given.
const SEED: u64 = 1;

/// The workloads of the library.
pub(crate) const LIBRARY: &[Entry] = warpwright_workloads::WORKLOADS;

/// The lessons.
pub(crate) const LESSONS: &[Entry] = warpwright_lessons::WORKLOADS;

/// Every workload.
pub(crate) fn all() -> impl Iterator<Item = &'static Entry> {
    LIBRARY.iter().chain(LESSONS)
}

/// The workload of that name, with its defaults.
pub(crate) fn named(name: &str) -> Option<Box<dyn DynWorkload>> {
    all().find(|entry| entry.name() == name).map(Entry::workload)
}

/// A workload with the options that were given.
#[derive(Clone)]
pub(crate) struct KernelChoice {
    pub(crate) workload: Box<dyn DynWorkload>,
    seed: u64,
    /// Names of the options that were given; the others have their defaults.
    given: Vec<&'static str>,
}

impl KernelChoice {
    pub(crate) fn name(&self) -> &'static str {
        self.workload.name()
    }

    /// The options as flags.
    pub(crate) fn flags(&self) -> String {
        let flags = self.workload.flags();
        if self.seed == SEED { flags } else { format!("{flags} --seed {}", self.seed) }
    }

    /// The name and the options that were given, as the command line has them.
    pub(crate) fn given(&self) -> String {
        let mut words = vec![self.name().to_owned()];
        for spec in self.workload.specs().iter().filter(|spec| self.given.contains(&spec.name)) {
            words.push(format!("--{}", spec.name));
            if spec.form != Form::Flag {
                words.push(self.workload.text(spec.name).unwrap_or_default());
            }
        }
        if self.seed != SEED {
            words.push(format!("--seed {}", self.seed));
        }
        words.join(" ")
    }

    /// The same with other defaults for options that were not given.
    pub(crate) fn with_defaults(&self, defaults: &[(&str, &str)]) -> Result<Self> {
        let mut choice = self.clone();
        for (name, value) in defaults.iter().filter(|(name, _)| !self.given.contains(name)) {
            choice.workload.set(name, value)?;
        }
        Ok(choice)
    }

    pub(crate) fn setup(&self, device: &Device) -> Setup {
        Setup::with_seed(device, self.seed)
    }

    pub(crate) fn prepare(&self, device: &Device) -> Result<Box<dyn Prepared>> {
        let capability = device.properties().capability;
        if !self.workload.supports(capability) {
            bail!("{} does not run on {}; name another device", self.name(), capability.target);
        }
        device.check_memory(self.workload.work().bytes as u64)?;
        emulation::announce_work(device, &format!("{self:?}"), self.workload.work());
        self.workload.prepare(&self.setup(device)).map_err(Error::from_boxed)
    }

    /// The baseline of that name.
    pub(crate) fn baseline(&self, name: &str, device: &Device) -> Result<Box<dyn Prepared>> {
        match self.workload.baseline(name, &self.setup(device)) {
            Some(baseline) => baseline.map_err(Error::from_boxed),
            None => bail!("{} has no baseline `{name}`", self.name()),
        }
    }

    /// The launches of one run.
    pub(crate) fn launches(&self, device: &Device) -> Result<Vec<LaunchRecord>> {
        launches(self.prepare(device)?.as_mut(), &device.stream()?)
    }

    /// The candidates of the heuristic, its choice and why, if that is asked for.
    pub(crate) fn explanation(&self, asked: bool, device: &Device) -> Result<Option<String>> {
        if !asked {
            return Ok(None);
        }
        let Some(explanation) = self.workload.explain(&self.setup(device)) else {
            bail!("{} has a single configuration, which needs no explanation", self.name());
        };
        explanation.map(Some).map_err(|error| anyhow!("{self:?}: {error}"))
    }
}

/// Compares what a kernel left with its reference.
pub(crate) fn verify(prepared: &mut dyn Prepared) -> Result<Verified> {
    prepared.verify().map_err(|error| match error.downcast::<warpwright_runtime::Error>() {
        // It could not be read back.
        Ok(error) => Error::from(*error),
        Err(error) => Error::from_boxed(error).context(WrongResult),
    })
}

/// The launches of one run of what was prepared.
pub(crate) fn launches(prepared: &mut dyn Prepared, stream: &Stream) -> Result<Vec<LaunchRecord>> {
    let (outcome, launches) = stream.device().log_launches(|| prepared.launch(stream));
    outcome.map_err(Error::from_boxed)?;
    Ok(launches)
}

impl From<Box<dyn DynWorkload>> for KernelChoice {
    fn from(workload: Box<dyn DynWorkload>) -> Self {
        Self { workload, seed: SEED, given: Vec::new() }
    }
}

impl std::fmt::Debug for KernelChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.given())
    }
}

impl FromArgMatches for KernelChoice {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let no_kernel =
            || clap::Error::raw(clap::error::ErrorKind::MissingSubcommand, "no kernel is named\n");
        let (name, matches) = matches.subcommand().ok_or_else(no_kernel)?;
        let mut workload = named(name).ok_or_else(no_kernel)?;
        let mut given = Vec::new();
        for spec in workload.specs() {
            let text = match spec.form {
                Form::Flag => matches.get_flag(spec.name).then(|| "true".to_owned()),
                _ => matches.get_one::<String>(spec.name).cloned(),
            };
            let Some(text) = text else { continue };
            let invalid = clap::error::ErrorKind::InvalidValue;
            workload
                .set(spec.name, &text)
                .map_err(|error| clap::Error::raw(invalid, format!("{error}\n")))?;
            given.push(spec.name);
        }
        let seed = matches.get_one::<u64>("seed").copied().unwrap_or(SEED);
        Ok(Self { workload, seed, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for KernelChoice {
    /// The kernels are hidden from the list of subcommands, which they would fill.
    fn augment_subcommands(command: Command) -> Command {
        let verb = command.get_name().to_owned();
        let kernels = all().map(|entry| {
            let workload = entry.workload();
            let seed = Arg::new("seed")
                .long("seed")
                .value_name("N")
                .allow_negative_numbers(true)
                .value_parser(number::integer::<u64>(0..=u64::MAX));
            let seed =
                seed.help(format!("Seed of the inputs [default: {SEED}]")).help_heading("Kernel options");
            let flags = workload.specs().iter().map(|spec| flag(entry, spec)).collect::<Vec<_>>();
            Command::new(entry.name()).about(workload.about()).args(flags).arg(seed).hide(true)
        });
        let list = format!(
            "`warpwright kernels` lists the kernels; `warpwright {verb} KERNEL --help` lists the options of one."
        );
        let has_launch_file = command.get_positionals().next().is_some();
        let subject = if has_launch_file { "<LAUNCH | KERNEL>" } else { "<KERNEL>" };
        let usage = format!("warpwright {verb} [OPTIONS] {subject} [KERNEL OPTIONS]");
        command.override_usage(usage).after_help(list).subcommands(kernels)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        all().any(|entry| entry.name() == name)
    }
}

/// What reads the value of an option: the option itself, so that a refusal names it and the value.
fn value_of(entry: &'static Entry, name: &'static str) -> impl TypedValueParser<Value = String> {
    StringValueParser::new().try_map(move |text| match entry.workload().set(name, &text) {
        Ok(()) => Ok(text),
        Err(error) => Err(error.message),
    })
}

fn flag(entry: &'static Entry, spec: &OptionSpec) -> Arg {
    let flag = Arg::new(spec.name).long(spec.name).help_heading("Kernel options");
    let flag = match spec.form {
        Form::Flag => flag,
        _ => flag.value_parser(value_of(entry, spec.name)),
    };
    let help = spec.help.strip_suffix('.').unwrap_or(spec.help);
    let default = format!("[default: {}]", spec.default);
    match &spec.form {
        Form::Flag => flag.action(ArgAction::SetTrue).help(help),
        Form::Integer => flag.value_name("N").allow_negative_numbers(true).help(format!("{help} {default}")),
        Form::Float => flag.value_name("X").allow_negative_numbers(true).help(format!("{help} {default}")),
        Form::Choice(choices) => {
            let words = spec.choices().join(", ");
            let flag = flag.value_name("CHOICE").help(format!("{help}: {words} {default}"));
            let described: Vec<_> = choices
                .iter()
                .filter(|(_, help)| !help.is_empty())
                .map(|(word, help)| format!("\n- {word}: {}", help.strip_suffix('.').unwrap_or(help)))
                .collect();
            if described.is_empty() {
                flag
            } else {
                flag.long_help(format!("{help} {default}\n{}", described.concat()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_a_subcommand_whose_defaults_and_ladder_are_values() {
        KernelChoice::augment_subcommands(Command::new("run")).debug_assert();
        for entry in all() {
            let workload = entry.workload();
            assert_eq!(workload.name(), entry.name());
            assert!(workload.about().ends_with('.'), "the summary of {} is a sentence", entry.name());
            for spec in workload.specs() {
                let mut again = workload.clone();
                again.set(spec.name, &spec.default).expect("a default is a value");
                assert_eq!(again.flags(), workload.flags());
                for value in &spec.search {
                    again.set(spec.name, value).expect("a searched value is a value");
                }
            }
            if let Some(ladder) = workload.ladder() {
                let mut step = workload.clone();
                for (option, value) in ladder.counted.iter().chain(ladder.defaults) {
                    step.set(option, value).expect("a value of an option");
                }
                for value in ladder.steps {
                    step.set(ladder.option, value).expect("a step is a value of the option");
                }
            }
        }
        assert_eq!(all().filter(|entry| named(entry.name()).is_none()).count(), 0);
        assert!(named("").is_none());
    }
}
