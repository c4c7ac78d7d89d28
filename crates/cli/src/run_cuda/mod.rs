//! `warpwright run-cuda`: runs a program for CUDA over the emulator.

mod stage;
mod stub;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use warpwright_arch::Arch;

use crate::output::{Output, Status};
use stage::Stage;

/// The environment variables that the library reads.
const DEVICE: &str = "WARPWRIGHT_DEVICE";
const CHECK: &str = "WARPWRIGHT_CUDA_CHECK";
const TIME: &str = "WARPWRIGHT_CUDA_TIME";
const FINDINGS: &str = "WARPWRIGHT_CUDA_FINDINGS";
const LAUNCHES: &str = "WARPWRIGHT_CUDA_LAUNCHES";

/// Run a program for CUDA, unchanged, on an emulated GPU.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  warpwright run-cuda ./app\n  warpwright run-cuda --check ./app --size 1024\n  \
                        warpwright run-cuda --time python script.py"
)]
pub(crate) struct RunCuda {
    /// Emulated GPU.
    #[arg(long, value_name = "DEVICE", default_value = "emu:h200", value_parser = device)]
    device: String,
    /// Turn on every checker, and end with status 1 if one finds something.
    #[arg(long)]
    check: bool,
    /// List the kernels with the predicted time of their launches on the GPU.
    #[arg(long)]
    time: bool,
    /// Program and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// The name of an emulated GPU.
fn device(name: &str) -> Result<String, String> {
    let gpu = name.strip_prefix("emu:").ok_or("expected an emulated GPU, such as `emu:h200`")?;
    Arch::named(gpu).map(|_| name.to_owned()).map_err(|error| error.to_string())
}

impl RunCuda {
    /// Runs it.
    pub(crate) fn run(&self, output: Output) -> Result<Status> {
        let stage = Stage::new()?;
        let ended = self.execute(&stage, output)?;
        let findings = lines(&stage.file(FINDINGS));
        let kernels = kernels(&lines(&stage.file(LAUNCHES)));
        let status = exit_status(ended);
        output.json(|| {
            json!({
                "status": if !self.check { "ran" } else if findings.is_empty() { "clean" } else { "found" },
                "program": self.program[0].to_string_lossy(),
                "exit_status": status,
                "findings": findings,
                "kernels": kernels,
            })
        });
        if output == Output::Text {
            self.summarize(&findings, &kernels);
        }
        drop(stage);
        if self.check && !findings.is_empty() {
            return Ok(Status::Found);
        }
        if status != 0 {
            // The status is the program's, which may be any.
            std::process::exit(status);
        }
        Ok(Status::Done)
    }

    /// Runs the program to its end.
    fn execute(&self, stage: &Stage, output: Output) -> Result<ExitStatus> {
        let (program, arguments) = self.program.split_first().expect("clap requires a program");
        let mut command = Command::new(program);
        command.args(arguments).env(DEVICE, &self.device).env("LD_LIBRARY_PATH", stage.search_path());
        command.env(FINDINGS, stage.file(FINDINGS));
        if self.check {
            command.env(CHECK, "1");
        }
        if self.time {
            command.env(TIME, "1").env(LAUNCHES, stage.file(LAUNCHES));
        }
        if output == Output::Json {
            // Standard output has the JSON.
            command.stdout(Stdio::from(std::io::stderr()));
        }
        command.status().with_context(|| format!("cannot run {}", program.to_string_lossy()))
    }

    /// Says what was found, after what the program printed.
    fn summarize(&self, findings: &[Value], kernels: &[Value]) {
        if self.time {
            eprintln!("{}", table(kernels));
        }
        if self.check {
            let count = match findings.len() {
                0 => "nothing found".to_owned(),
                1 => "1 finding".to_owned(),
                count => format!("{count} findings"),
            };
            eprintln!("{}: {count}", self.program[0].to_string_lossy());
        }
    }
}

/// The status of a program, or 128 and the number of the signal that ended it.
fn exit_status(ended: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    ended.code().or_else(|| ended.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// The values of a file with one a line; none if it was not written.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The launches of each kernel added up, in the order in which the kernels were first launched.
fn kernels(launches: &[Value]) -> Vec<Value> {
    let mut kernels: Vec<Value> = Vec::new();
    for launch in launches {
        let index = kernels.iter().position(|kernel| kernel["kernel"] == launch["kernel"]);
        let index = index.unwrap_or_else(|| {
            let (launches, instructions, time) = (0, 0, 0.0);
            kernels.push(json!({
                "kernel": launch["kernel"], "launches": launches, "warp_instructions": instructions, "microseconds": time
            }));
            kernels.len() - 1
        });
        let kernel = &mut kernels[index];
        let sum = |name: &str| kernel[name].as_u64().unwrap_or(0) + launch[name].as_u64().unwrap_or(0);
        let instructions = sum("warp_instructions");
        let of = |value: &Value| value["microseconds"].as_f64().unwrap_or(0.0);
        let time = of(kernel) + of(launch);
        kernel["launches"] = json!(kernel["launches"].as_u64().unwrap_or(0) + 1);
        kernel["warp_instructions"] = json!(instructions);
        kernel["microseconds"] = json!(time);
    }
    kernels
}

fn table(kernels: &[Value]) -> String {
    let mut lines = vec![format!("{:>9} {:>8} {:>18}  kernel", "us", "launches", "warp instructions")];
    lines.extend(kernels.iter().map(|kernel| {
        format!(
            "{:>9.1} {:>8} {:>18}  {}",
            kernel["microseconds"].as_f64().unwrap_or(0.0),
            kernel["launches"],
            kernel["warp_instructions"],
            kernel["kernel"].as_str().unwrap_or_default()
        )
    }));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_of_a_kernel_are_added_up() {
        let launch = |kernel, time| json!({"kernel": kernel, "warp_instructions": 10, "microseconds": time});
        let kernels = kernels(&[launch("a", 1.5), launch("b", 2.0), launch("a", 3.0)]);
        assert_eq!(
            kernels[0],
            json!({"kernel": "a", "launches": 2, "warp_instructions": 20, "microseconds": 4.5})
        );
        assert_eq!(kernels[1]["launches"], 1);
    }

    #[test]
    fn devices_are_emulated_ones() {
        assert!(device("emu:h200").is_ok() && device("cuda:0").is_err() && device("emu:none").is_err());
    }
}
