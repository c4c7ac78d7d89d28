//! `xtask fuzz differential`: random programs on a GPU and on the emulator, with every result compared.
//!
//! A program has some hundred instructions that ptxas takes for sm_90, in branches, loops and calls,
//! on two warps, and logs each result of each lane. It has no undefined behaviour, so that a result
//! which differs is a fault of the emulator, of the driver's assembler or of this generator. What the
//! ISA leaves open is left out where it is made ([`forms`]). With `--device emu:h200` the emulator is
//! compared with itself under another schedule.
//!
//! The driver assembles the programs of a process one by one and takes most of the time, so processes
//! share the cases: each takes a batch, compares it and prints what it found as JSON.

mod effects;
mod forms;
mod minimize;
mod program;
mod run;
mod values;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use warpwright_arch::Arch;
use warpwright_runtime::{Device, Schedule};

use super::limits::Limits;
use run::{Case, Difference, Machine, Pair};

/// Programs of one module: the driver takes a module at once.
const MODULE: u64 = 32;
/// Programs of one process.
const BATCH: u64 = 512;
/// Seconds that a module may take.
const MODULE_SECONDS: u64 = 120;

/// Run random programs on a device and on the emulator, and compare every result.
#[derive(Debug, Args)]
pub(crate) struct Differential {
    /// Number of programs.
    #[arg(long, default_value_t = 100_000)]
    cases: u64,
    /// Seed of the programs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Device that is compared with the emulator.
    #[arg(long, default_value = "cuda:0")]
    device: String,
    /// Number of the first program.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Print and compare the program of this number only.
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
    /// Number of processes [default: one for each core].
    #[arg(long)]
    processes: Option<u64>,
    /// Begin no further batch after this time.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Folder for the file `summary.json`, with the least programs that differ.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Compare in this process and print what was found as JSON.
    #[arg(long, hide = true)]
    worker: bool,
}

/// What some programs came to.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Summary {
    cases: u64,
    differing: Vec<Differing>,
    /// Programs that a device refused or did not complete, and why.
    failed: Vec<String>,
}

/// A program that differs.
#[derive(Debug, Serialize, Deserialize)]
struct Differing {
    difference: Difference,
    /// The least program that differs, and where it does; for the first program of a process with this
    /// opcode.
    least: Option<(Difference, String)>,
}

impl Differential {
    pub(crate) fn run(&self) -> Result<()> {
        if let Some(number) = self.only {
            return self.show(number);
        }
        if self.worker {
            println!("{}", serde_json::to_string(&self.batch(self.first, self.cases)?)?);
            return Ok(());
        }
        let begin = Instant::now();
        let summary = self.processes(begin)?;
        let Summary { cases, differing, failed } = &summary;
        println!(
            "{cases} programs of seed {} in {:.0} s: {} differ, {} fail",
            self.seed,
            begin.elapsed().as_secs_f64(),
            differing.len(),
            failed.len()
        );
        let mut opcodes = BTreeMap::new();
        for Differing { difference, least } in differing {
            let first = least.as_ref().map_or(difference, |(least, _)| least);
            *opcodes.entry(first.opcode().to_owned()).or_insert(0) += 1;
            println!("  {}", describe(difference));
            if let Some((least, _)) = least {
                println!("    least: {}", describe(least));
            }
        }
        failed.iter().for_each(|failure| println!("  {failure}"));
        opcodes
            .iter()
            .for_each(|(opcode, programs)| println!("  {opcode}: {programs} programs differ there"));
        if let Some(folder) = &self.out {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join("summary.json"), serde_json::to_string_pretty(&summary)?)?;
        }
        if !differing.is_empty() || !failed.is_empty() {
            bail!("programs differ or fail");
        }
        Ok(())
    }

    fn pair(&self) -> Result<Pair> {
        let h200 = Arch::named("h200")?;
        let expected = Device::emulated_on_one_thread(h200, Schedule::Eager)?;
        let found = match self.device.strip_prefix("emu:") {
            Some(name) => Device::emulated_on_one_thread(Arch::named(name)?, Schedule::Random(self.seed))?,
            None => Device::named(&self.device)?,
        };
        let machine = |device| Machine::new(device).map_err(|error| anyhow!(error));
        Ok(Pair { expected: machine(expected)?, found: machine(found)? })
    }

    /// Prints a program, and its difference.
    fn show(&self, number: u64) -> Result<()> {
        let case = Case::new(self.seed, number);
        println!("{}", case.ptx());
        let pair = self.pair()?;
        match pair.compare(&[&case]).map_err(|error| anyhow!(error))?.pop() {
            None => println!("equal"),
            Some(difference) => {
                println!("{}", describe(&difference));
                let (least, difference) = minimize::minimize(&pair, case, difference);
                println!("{}\n{}", least.ptx(), describe(&difference));
            }
        }
        Ok(())
    }

    /// Compares some programs in this process.
    fn batch(&self, first: u64, count: u64) -> Result<Summary> {
        let pair = self.pair()?;
        let limits = Limits::watch(self.seed, 1, MODULE_SECONDS);
        let mut summary = Summary::default();
        let mut opcodes = BTreeSet::new();
        for start in (first..first + count).step_by(MODULE as usize) {
            let numbers = start..(start + MODULE).min(first + count);
            let compared = limits.during(0, start, || {
                let cases: Vec<_> = numbers.map(|number| Case::new(self.seed, number)).collect();
                let differences = compare(&pair, &cases, &mut summary.failed);
                let differing = differences.into_iter().map(|difference| {
                    let case = Case::new(self.seed, difference.number);
                    let is_new = opcodes.insert(difference.opcode().to_owned());
                    let least = is_new.then(|| {
                        let (least, difference) = minimize::minimize(&pair, case, difference.clone());
                        (difference, least.ptx())
                    });
                    Differing { difference, least }
                });
                summary.differing.extend(differing);
                summary.cases += cases.len() as u64;
            });
            limits.leave(0);
            if let Err(panic) = compared {
                summary.failed.push(format!("programs from {start} on: {panic}"));
            }
        }
        Ok(summary)
    }

    /// Hands batches to processes until all cases are compared.
    fn processes(&self, begin: Instant) -> Result<Summary> {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let processes = self.processes.unwrap_or_else(cores);
        let program = std::env::current_exe().context("this program has no path")?;
        let summary = Mutex::new(Summary::default());
        let next = AtomicU64::new(self.first);
        let end = self.first + self.cases;
        let limit = self.seconds.map(Duration::from_secs);
        // The last batches are small, so that the processes end at the same time.
        let batch = BATCH.min(self.cases.div_ceil(4 * processes)).max(MODULE);
        std::thread::scope(|scope| {
            for _ in 0..processes {
                scope.spawn(|| {
                    while limit.is_none_or(|limit| begin.elapsed() < limit) {
                        let first = next.fetch_add(batch, Ordering::Relaxed);
                        if first >= end {
                            break;
                        }
                        let found = self.process(&program, first, batch.min(end - first));
                        let mut summary = summary.lock().expect("no thread panics here");
                        summary.cases += found.cases;
                        summary.differing.extend(found.differing);
                        summary.failed.extend(found.failed);
                    }
                });
            }
        });
        let mut summary = summary.into_inner().expect("no thread panics here");
        summary.differing.sort_by_key(|differing| differing.difference.number);
        Ok(summary)
    }

    fn process(&self, program: &std::path::Path, first: u64, cases: u64) -> Summary {
        let mut command = Command::new(program);
        command.args(["fuzz", "differential", "--worker", "--device", &self.device]);
        for (name, value) in [("--seed", self.seed), ("--first", first), ("--cases", cases)] {
            command.arg(name).arg(value.to_string());
        }
        // Each program is assembled once.
        command.env("CUDA_CACHE_DISABLE", "1").stdin(Stdio::null());
        let failed = |reason: String| Summary {
            failed: vec![format!("programs {first} to {}: {reason}", first + cases - 1)],
            ..Summary::default()
        };
        match command.output() {
            Ok(output) => serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                failed(format!("{}; {}", output.status, text.trim()))
            }),
            Err(error) => failed(error.to_string()),
        }
    }
}

/// Compares programs as a module; each alone where the module fails.
fn compare(pair: &Pair, cases: &[Case], failed: &mut Vec<String>) -> Vec<Difference> {
    let all: Vec<_> = cases.iter().collect();
    if let Ok(differences) = pair.compare(&all) {
        return differences;
    }
    let mut differences = Vec::new();
    for case in cases {
        match pair.compare(&[case]) {
            Ok(found) => differences.extend(found),
            Err(error) => failed.push(format!("program {}: {error}", case.number)),
        }
    }
    differences
}

fn describe(difference: &Difference) -> String {
    let Difference { number, instruction, register, iterations, thread, expected, found, threads } =
        difference;
    let times = iterations.iter().map(|time| format!(" time {time},")).collect::<String>();
    format!(
        "--only {number}: `{instruction}`:{times} {register} of thread {thread} ({threads} differ) is {found}, \
         the emulator gives {expected}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differential(device: &str) -> Differential {
        Differential {
            cases: 0,
            seed: 1,
            device: device.to_owned(),
            first: 0,
            only: None,
            processes: Some(1),
            seconds: None,
            out: None,
            worker: true,
        }
    }

    /// Programs have no races and wait for nothing that a schedule decides.
    #[test]
    fn programs_do_not_depend_on_the_schedule() {
        let summary = differential("emu:h200").batch(0, 48).expect("the emulator starts");
        assert_eq!(summary.cases, 48);
        assert!(summary.failed.is_empty() && summary.differing.is_empty(), "{summary:?}");
    }
}
