//! Running a mutant: what the checkers say, and what it computes.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use warpwright_testing::corpus::Case;

/// How many random schedules there are besides `eager` and `latest`.
const SEEDS: usize = 2;
/// A launch that executes more warp instructions than this runs for ever.
const LIMIT: &str = "300000000";

/// What became of a mutant.
pub(crate) enum Outcome {
    /// Something is told of it; whether at every schedule.
    Found { everywhere: bool },
    /// Nothing is, and the result is right at every schedule.
    Harmless,
    /// Nothing is, and the result is wrong: where.
    Wrong(String),
    /// It does not end.
    Endless,
    /// It is no program.
    Refused(String),
}

/// Where one worker runs mutants.
pub(crate) struct Trial {
    directory: PathBuf,
}

impl Trial {
    pub(crate) fn in_directory(directory: PathBuf) -> Self {
        fs::create_dir_all(&directory).expect("temporary files can be made");
        Self { directory }
    }

    /// What the command says in JSON, and whether it succeeds; `None` if it does not end.
    fn said(&self, arguments: &[&str], launch: &Path) -> Option<(Value, bool)> {
        let path = self.directory.join("said.json");
        let status = Command::new(env!("CARGO_BIN_EXE_warpwright"))
            .arg("--json")
            .args(arguments)
            .args(["--limit", LIMIT])
            .arg(launch)
            .env_remove("WARPWRIGHT_DEVICE")
            .stdout(File::create(&path).expect("writable"))
            .stderr(Stdio::null())
            .status()
            .expect("the command starts");
        let text = fs::read_to_string(&path).expect("its words");
        let value = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let value: Value = value.unwrap_or_default();
        let is_endless = text.contains("reached its limit");
        (!is_endless).then(|| (value, status.success()))
    }

    /// The lines of a text that a launch executes.
    pub(crate) fn executed_lines(&self, case: &Case, ptx: &Path) -> HashSet<usize> {
        let launch = case.write_launch(ptx, &self.directory);
        let (report, _) = self.said(&["report"], &launch).expect("the corpus ends");
        let kernels = report["kernels"].as_array().expect("kernels that were counted");
        let instructions = kernels.iter().flat_map(|kernel| kernel["counters"]["instructions"].as_array());
        let executed = instructions.flatten().filter(|one| one["counts"]["lanes"].as_u64() > Some(0));
        executed.filter_map(|one| Some(one["ptx_line"].as_u64()? as usize)).collect()
    }

    pub(crate) fn outcome(&self, case: &Case, text: &str) -> Outcome {
        let ptx = self.directory.join("mutant.ptx");
        fs::write(&ptx, text).expect("writable");
        let launch = case.write_launch(&ptx, &self.directory);
        let seeds = SEEDS.to_string();
        let Some((report, _)) = self.said(&["check", "--seeds", &seeds], &launch) else {
            return Outcome::Endless;
        };
        let Some(findings) = report["findings"].as_array() else {
            return Outcome::Refused(report["message"].to_string());
        };
        if !findings.is_empty() {
            let schedules = |finding: &Value| finding["schedules"].as_array().map_or(0, Vec::len);
            return Outcome::Found { everywhere: findings.iter().any(|one| schedules(one) == SEEDS + 2) };
        }
        for schedule in ["eager", "latest", "random:1", "random:2"] {
            match self.said(&["exec", "--schedule", schedule], &launch) {
                None => return Outcome::Endless,
                Some((report, false)) => return Outcome::Wrong(report["message"].to_string()),
                Some((_, true)) => {}
            }
            if let Some(difference) = case.difference(&self.directory) {
                return Outcome::Wrong(format!("{difference} at {schedule}"));
            }
        }
        Outcome::Harmless
    }
}
