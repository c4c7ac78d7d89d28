//! `xtask fuzz`: feeds what users write to its readers, and fails at a panic, a hang or memory
//! without end.
//!
//! A case is made from the seed and its number alone, so that `--only NUMBER` runs one again. Refusals
//! are expected; what they say is tested elsewhere.

mod arguments;
mod differential;
mod launch;
mod layout;
mod limits;
mod mutate;
mod ptx;
mod tensor_map;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use warpwright_harness::Random;

use limits::{Limits, MOST_SECONDS};

/// What is fuzzed: how a case is made, and what reads it.
trait Target {
    /// A case, as text.
    fn make(&self, random: &mut Random) -> String;
    /// Reads it. It may be refused, with a message; it must not panic.
    fn read(&mut self, case: &str) -> Result<(), String>;
}

/// Makes a target.
type MakeTarget = fn() -> Box<dyn Target>;

/// The targets by name.
const TARGETS: [(&str, MakeTarget); 5] = [
    ("layout", || Box::new(layout::Layouts)),
    ("ptx", || Box::new(ptx::Modules::new())),
    ("exec", || Box::new(launch::LaunchFiles::new())),
    ("tensor-map", || Box::new(tensor_map::TensorMaps::new())),
    ("arguments", || Box::new(arguments::CommandLines::new())),
];

/// The names of the targets.
pub(crate) fn targets() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|(name, _)| *name)
}

/// Feed the readers of layouts, PTX, launch files, tensor maps and command lines with anything.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Fuzz {
    #[command(subcommand)]
    compared: Option<Compared>,
    /// Target: layout, ptx, exec, tensor-map or arguments.
    #[arg(required = true)]
    target: Option<String>,
    /// Number of cases.
    #[arg(long, default_value_t = 100_000)]
    cases: u64,
    /// Seed of the cases.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print and run the case of this number only.
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
    /// Number of host threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// Longest time of a case; on a busy machine, give it more.
    #[arg(long, value_name = "SECONDS", default_value_t = MOST_SECONDS)]
    limit: u64,
}

/// What is compared with another device rather than read.
#[derive(Debug, Subcommand)]
enum Compared {
    Differential(differential::Differential),
}

/// What some cases came to.
#[derive(Debug)]
struct Fuzzed {
    /// How many were accepted. Readers are tested in depth only where it is a large part of all.
    accepted: u64,
    panicked: Vec<Panicked>,
}

/// A case that panicked.
#[derive(Debug)]
struct Panicked {
    number: u64,
    message: String,
}

impl Fuzz {
    pub(crate) fn run(&self) -> Result<()> {
        if let Some(Compared::Differential(differential)) = &self.compared {
            return differential.run();
        }
        let name = self.target.as_deref().unwrap_or_default();
        let Some((_, make)) = TARGETS.iter().find(|(target, _)| *target == name) else {
            let known: Vec<_> = targets().collect();
            bail!("unknown target `{name}`; expected differential or one of {}", known.join(", "));
        };
        if let Some(number) = self.only {
            let mut target = make();
            let case = case(target.as_ref(), self.seed, number);
            println!("{case}");
            match target.read(&case) {
                Ok(()) => println!("accepted"),
                Err(message) => println!("refused: {message}"),
            }
            return Ok(());
        }
        let begin = Instant::now();
        let Fuzzed { accepted, panicked } = fuzz(*make, (self.seed, self.cases), self.threads, self.limit);
        println!(
            "{name}: {} cases of seed {} in {:.0} s, {accepted} of them accepted, {} panics",
            self.cases,
            self.seed,
            begin.elapsed().as_secs_f64(),
            panicked.len()
        );
        for Panicked { number, message } in &panicked {
            println!("  --only {number}: {message}");
        }
        if !panicked.is_empty() {
            bail!("a reader panicked");
        }
        Ok(())
    }
}

/// The case of a number.
fn case(target: &dyn Target, seed: u64, number: u64) -> String {
    target.make(&mut Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ number))
}

/// Runs cases. A case that exceeds a limit ends the program.
fn fuzz(make: fn() -> Box<dyn Target>, (seed, cases): (u64, u64), threads: u64, limit: u64) -> Fuzzed {
    let (next, accepted, panicked) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(Vec::new()));
    let limits = Limits::watch(seed, threads as usize, limit);
    std::thread::scope(|scope| {
        for thread in 0..threads as usize {
            let (next, accepted, panicked, limits) = (&next, &accepted, &panicked, &limits);
            scope.spawn(move || {
                let mut target = make();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= cases {
                        break;
                    }
                    let case = case(target.as_ref(), seed, number);
                    match limits.during(thread, number, || target.read(&case)) {
                        Ok(read) => {
                            accepted.fetch_add(read.is_ok().into(), Ordering::Relaxed);
                        }
                        Err(message) => {
                            panicked
                                .lock()
                                .expect("no thread panics here")
                                .push(Panicked { number, message });
                            // What panicked may be left half-changed.
                            target = make();
                        }
                    }
                }
                limits.leave(thread);
            });
        }
    });
    let panicked = panicked.into_inner().expect("no thread panics here");
    Fuzzed { accepted: accepted.into_inner(), panicked }
}

#[cfg(test)]
mod tests {
    use super::limits::PATIENT;
    use super::*;

    /// A few cases of each; `xtask fuzz` runs millions.
    #[test]
    fn no_reader_panics() {
        for (name, make) in TARGETS {
            let Fuzzed { accepted, panicked } = fuzz(make, (1, 400), 1, PATIENT);
            assert!(panicked.is_empty(), "{name}: {panicked:?}");
            assert!((20..380).contains(&accepted), "{name}: {accepted} of 400 cases are accepted");
        }
    }

    #[test]
    fn a_panic_is_reported_with_its_case() {
        struct Odd;
        impl Target for Odd {
            fn make(&self, random: &mut Random) -> String {
                random.below(8).to_string()
            }
            fn read(&mut self, case: &str) -> Result<(), String> {
                assert_ne!(case, "3", "three");
                Ok(())
            }
        }
        let Fuzzed { accepted, panicked } = fuzz(|| Box::new(Odd), (7, 100), 2, PATIENT);
        assert_eq!(accepted + panicked.len() as u64, 100);
        let first = panicked.first().expect("one in eight is three");
        assert!(first.message.contains("three"), "{first:?}");
        assert_eq!(case(&Odd, 7, first.number), "3");
    }
}
