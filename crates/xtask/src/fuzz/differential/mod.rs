//! `xtask fuzz differential`: random programs on a GPU and on the emulator, with every result compared.
//!
//! A program has some hundred instructions that ptxas takes for sm_90, in branches, loops and calls,
//! on two warps, and logs each result of each lane. It has no undefined behaviour, so that a result
//! which differs is a fault of the emulator, of the driver's assembler or of this generator. What the
//! ISA leaves open is left out where it is made ([`forms`]). With `--device emu:h200` the emulator is
//! compared with itself under another schedule.
//!
//! The driver's assembler does not optimize unless `--optimization` asks for it: its optimizations change
//! the results of one program in a thousand, or make an illegal instruction of it, and a failed program
//! costs a process. At another level, programs that differ are compared once more at level 0.
//!
//! The driver assembles the programs of a process one by one and takes most of the time, so processes
//! share the cases: each takes a batch, compares it and prints what it found as JSON.

mod effects;
mod forms;
mod minimize;
mod program;
mod queue;
mod run;
mod values;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use warpwright_arch::Arch;
use warpwright_runtime::{Device, Schedule};

use super::limits::Limits;
use queue::Queue;
use run::{Case, Difference, Machine, Pair};

/// Programs of one module: the driver takes a module at once.
const MODULE: u64 = 32;
/// Programs of one process.
const BATCH: u64 = 128;
/// Failures that are printed; the summary has all.
const SHOWN_FAILURES: usize = 10;
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
    /// Optimization level of the driver's assembler; the driver's own default is 4.
    #[arg(long, default_value_t = 0, value_name = "LEVEL", value_parser = clap::value_parser!(u64).range(0..=4))]
    optimization: u64,
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
    /// Whether the GPU gives the emulator's results at optimization level 0, and not at the level asked for.
    is_of_optimization: bool,
    /// The least program that differs, and where it does, not optimized; for the first program with this
    /// opcode.
    least: Option<(Difference, String)>,
}

impl Differential {
    pub(crate) fn run(&self) -> Result<()> {
        match (self.worker, self.only) {
            (false, None) => self.summarize(),
            (false, Some(number)) => self.show(number),
            (true, None) => print_json(&self.batch(self.first, self.cases)?),
            (true, Some(number)) => print_json(&self.least(number)?),
        }
    }

    /// Compares all programs and prints what was found.
    fn summarize(&self) -> Result<()> {
        let begin = Instant::now();
        let summary = self.processes(begin)?;
        let Summary { cases, differing, failed } = &summary;
        let optimized = differing.iter().filter(|differing| differing.is_of_optimization).count();
        println!(
            "{cases} programs of seed {} at optimization level {} in {:.0} s: {} differ ({optimized} of them not at \
             level 0), {} fail",
            self.seed,
            self.optimization,
            begin.elapsed().as_secs_f64(),
            differing.len(),
            failed.len()
        );
        let mut opcodes = BTreeMap::new();
        for Differing { difference, is_of_optimization, least } in differing {
            let first = least.as_ref().map_or(difference, |(least, _)| least);
            *opcodes.entry(first.opcode().to_owned()).or_insert(0) += 1;
            let level = if *is_of_optimization { "optimized " } else { "" };
            println!("  {level}{}", describe(difference));
            if let Some((least, _)) = least {
                println!("    least: {}", describe(least));
            }
        }
        failed.iter().take(SHOWN_FAILURES).for_each(|failure| println!("  {failure}"));
        opcodes
            .iter()
            .for_each(|(opcode, programs)| println!("  {opcode}: {programs} programs differ there"));
        if let Some(folder) = &self.out {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join("summary.json"), serde_json::to_string_pretty(&summary)?)?;
        }
        if differing.len() > optimized || !failed.is_empty() {
            bail!("programs differ at optimization level 0, or fail");
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

    /// The least program that differs as this one does.
    fn least(&self, number: u64) -> Result<(Difference, String)> {
        let (pair, case) = (self.pair()?, Case::new(self.seed, number));
        let difference = pair.compare(&[&case]).map_err(|error| anyhow!(error))?.pop();
        let difference = difference.context("the program does not differ alone")?;
        let (least, difference) = minimize::minimize(&pair, case, difference);
        Ok((difference, least.ptx()))
    }

    /// Compares some programs in this process, up to the first module that a device refuses or does not
    /// complete: nothing runs on a GPU after a fault in the same process.
    fn batch(&self, first: u64, count: u64) -> Result<Summary> {
        let pair = self.pair()?;
        let limits = Limits::watch(self.seed, 1, MODULE_SECONDS);
        let mut summary = Summary::default();
        for start in (first..first + count).step_by(MODULE as usize) {
            let numbers = start..(start + MODULE).min(first + count);
            let compared = limits.during(0, start, || {
                let cases: Vec<_> = numbers.clone().map(|number| Case::new(self.seed, number)).collect();
                pair.compare(&cases.iter().collect::<Vec<_>>())
            });
            limits.leave(0);
            match compared.flatten() {
                Ok(found) => {
                    summary.differing.extend(found.into_iter().map(|difference| Differing {
                        difference,
                        is_of_optimization: false,
                        least: None,
                    }));
                }
                Err(reason) => {
                    summary.failed.push(format!("programs {} to {}: {reason}", start, numbers.end - 1));
                    break;
                }
            }
            summary.cases += numbers.end - start;
        }
        Ok(summary)
    }

    /// Hands batches to processes until all cases are compared. The programs of a module that fails are
    /// compared again, each in a process of its own.
    fn processes(&self, begin: Instant) -> Result<Summary> {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let processes = self.processes.unwrap_or_else(cores);
        let program = std::env::current_exe().context("this program has no path")?;
        let limit = self.seconds.map(Duration::from_secs);
        // The last batches are small, so that the processes end at the same time.
        let batch = BATCH.min(self.cases.div_ceil(4 * processes)).max(MODULE);
        let queue = Queue::new(self.first..self.first + self.cases, batch, MODULE);
        let work = Mutex::new((queue, Summary::default()));
        let next = || {
            let is_late = limit.is_some_and(|limit| begin.elapsed() >= limit);
            work.lock().expect("no thread panics here").0.next(is_late)
        };
        std::thread::scope(|scope| {
            for _ in 0..processes {
                scope.spawn(|| {
                    while let Some(numbers) = next() {
                        let found = self.process(&program, &numbers);
                        let (queue, summary) = &mut *work.lock().expect("no thread panics here");
                        let left = numbers.start + found.cases..numbers.end;
                        let is_alone = numbers.end - numbers.start == 1;
                        if !queue.take_back(left, is_alone) {
                            summary.failed.extend(found.failed);
                        }
                        summary.cases += found.cases;
                        summary.differing.extend(found.differing);
                    }
                });
            }
        });
        let (_, mut summary) = work.into_inner().expect("no thread panics here");
        summary.differing.sort_by_key(|differing| differing.difference.number);
        self.explain(&program, processes, &mut summary.differing);
        Ok(summary)
    }

    /// Compares what differs once more at optimization level 0, and looks for the least programs of what
    /// still differs.
    fn explain(&self, program: &Path, processes: u64, differing: &mut [Differing]) {
        let opcodes = Mutex::new(BTreeSet::new());
        let all = Mutex::new(differing.iter_mut());
        std::thread::scope(|scope| {
            for _ in 0..processes {
                scope.spawn(|| {
                    loop {
                        let next = all.lock().expect("no thread panics here").next();
                        let Some(Differing { difference, is_of_optimization, least }) = next else { break };
                        *is_of_optimization =
                            self.optimization > 0 && self.is_equal_at_level_0(program, difference.number);
                        let opcode = difference.opcode().to_owned();
                        let is_new = || opcodes.lock().expect("no thread panics here").insert(opcode);
                        if !*is_of_optimization && is_new() {
                            *least = self.worker(program, &[("--only", difference.number)], 0).ok();
                        }
                    }
                });
            }
        });
    }

    fn is_equal_at_level_0(&self, program: &Path, number: u64) -> bool {
        let found: Result<Summary, String> = self.worker(program, &[("--first", number), ("--cases", 1)], 0);
        found.is_ok_and(|found| found.differing.is_empty() && found.failed.is_empty())
    }

    /// Compares a batch in another process.
    fn process(&self, program: &Path, numbers: &Range<u64>) -> Summary {
        let numbers = [("--first", numbers.start), ("--cases", numbers.end - numbers.start)];
        self.worker(program, &numbers, self.optimization).unwrap_or_else(|reason| {
            let [(_, first), (_, cases)] = numbers;
            let failed = format!("programs {first} to {}: {reason}", first + cases - 1);
            Summary { failed: vec![failed], ..Summary::default() }
        })
    }

    /// Runs another process with some options, and reads the JSON that it prints.
    fn worker<T: DeserializeOwned>(
        &self,
        program: &Path,
        options: &[(&str, u64)],
        level: u64,
    ) -> Result<T, String> {
        let mut command = Command::new(program);
        command.args(["fuzz", "differential", "--worker", "--device", &self.device]);
        command.args(["--seed", &self.seed.to_string()]);
        for (name, value) in options {
            command.arg(name).arg(value.to_string());
        }
        // Each program is assembled once.
        command.env("CUDA_CACHE_DISABLE", "1").stdin(Stdio::null());
        command.env("WARPWRIGHT_JIT_OPTIMIZATION", level.to_string());
        let output = command.output().map_err(|error| error.to_string())?;
        serde_json::from_slice(&output.stdout)
            .map_err(|_| format!("{}; {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
    }
}

fn print_json(value: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
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
            optimization: 0,
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
