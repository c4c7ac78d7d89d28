//! Runs the book's commands, and keeps what they printed until the program changes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Where outputs are kept.
const FOLDER: &str = "target/book";

/// A command that takes longer is reported.
const SLOW: Duration = Duration::from_secs(10);

/// Runs commands in a shell in which `warpwright` is this program.
pub(super) struct Runner {
    /// A folder with the link `warpwright`.
    programs: PathBuf,
    cache: PathBuf,
    /// The built program: its size and the time of its last change.
    program: (u64, i64, i64),
}

/// Whether the command's last word is to be followed by a file.
fn draws(command: &str) -> bool {
    command.ends_with(" --svg")
}

/// What a command printed, without the notes of one that takes long: they depend on the machine.
fn without_progress(printed: &str) -> String {
    let note = |line: &&str| line.starts_with("note: ") && line.contains(" still runs after ");
    printed.split_inclusive('\n').filter(|line| !note(line)).collect()
}

impl Runner {
    pub(super) fn new() -> Result<Self> {
        let program = std::env::current_exe()?;
        let folder = std::path::absolute(FOLDER)?;
        let (programs, cache) = (folder.join("bin"), folder.join("cache"));
        std::fs::create_dir_all(&programs)?;
        std::fs::create_dir_all(&cache)?;
        let link = programs.join(crate::PROGRAM);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&program, &link).with_context(|| link.display().to_string())?;
        let built = program.metadata()?;
        Ok(Self { programs, cache, program: (built.len(), built.mtime(), built.mtime_nsec()) })
    }

    /// Runs the commands that are not kept yet, several at a time.
    pub(super) fn prepare(&self, commands: &[String]) -> Result<()> {
        let waiting: BTreeMap<PathBuf, &String> =
            commands.iter().map(|command| (self.kept(command), command)).collect();
        let waiting: Vec<_> = waiting.into_iter().filter(|(kept, _)| !kept.exists()).collect();
        let next = Mutex::new(waiting.iter());
        let workers = std::thread::available_parallelism()?.get();
        let worker = || -> Result<()> {
            loop {
                let Some((kept, command)) = next.lock().expect("no worker panics").next() else {
                    return Ok(());
                };
                self.run(command, kept)?;
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
        })
    }

    /// The exit status of a command that was prepared, and what it prints or draws.
    pub(super) fn output(&self, command: &str) -> Result<(i32, String)> {
        let text = std::fs::read_to_string(self.kept(command))?;
        let (status, output) = text.split_once('\n').context("a kept output begins with its status")?;
        Ok((status.parse()?, output.to_owned()))
    }

    /// The file of a command's output.
    fn kept(&self, command: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (self.program, command).hash(&mut hasher);
        self.cache.join(format!("{:016x}.txt", hasher.finish()))
    }

    fn run(&self, command: &str, kept: &Path) -> Result<()> {
        let picture = kept.with_extension("svg");
        let line = match draws(command) {
            true => format!("{command} '{}'", picture.display()),
            false => command.to_owned(),
        };
        let start = Instant::now();
        let output = Command::new("bash")
            .args(["-c", &format!("set -o pipefail; exec 2>&1; {line}")])
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.programs.display()))
            // The device that the book's first page chooses, and a machine without CUDA.
            .env("WARPWRIGHT_DEVICE", "emu:h200")
            .env_remove("WARPWRIGHT_PTXAS")
            .stdin(Stdio::null())
            .output()?;
        if start.elapsed() > SLOW {
            println!("{:.0} s: {command}", start.elapsed().as_secs_f64());
        }
        let status = output.status.code().unwrap_or(-1);
        let printed = match draws(command) && status == 0 {
            true => {
                std::fs::read_to_string(&picture).with_context(|| format!("`{command}` draws nothing"))?
            }
            false => without_progress(&String::from_utf8_lossy(&output.stdout)),
        };
        std::fs::write(kept, format!("{status}\n{printed}"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn outputs_do_not_depend_on_how_long_a_command_takes() {
        let printed =
            "note: gemm on emu:h200 still runs after 10 s; Ctrl-C stops it\nnote: a finding\nright\n";
        assert_eq!(super::without_progress(printed), "note: a finding\nright\n");
    }
}
