//! `warpwright exec`: runs kernels of any PTX files as a launch file says.

mod data;
mod description;
mod json;
mod parameters;
mod program;
mod scalar;
mod tensor_map;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use warpwright_runtime::{Device, LaunchCounts};

use crate::file;
use crate::output::Output;
use crate::target::DeviceOptions;
pub(crate) use description::Description;
pub(crate) use json::parse as parse_json;
pub(crate) use program::{Done, Saving, run};
pub(crate) use tensor_map::parse_value as parse_tensor_map;

/// Run kernels of any PTX files, as a launch file describes it.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Launch file: JSON with a launch (`ptx`, `entry`, `grid`, `block`, `args`), or with several
    /// (`launches`) that share `buffers` and set `symbols`. Paths are relative to the launch file.
    launch: PathBuf,
    #[command(flatten)]
    device: DeviceOptions,
}

impl Exec {
    /// Reads the launch file, launches, and saves what is to be saved.
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let description = read(&self.launch)?;
        let directory = directory(&self.launch);
        expect_inputs_kept(&self.launch, &description)?;
        let device = self.device.open_for(|| ptx(&self.launch))?;
        let progress = output.progress(&self.launch.display().to_string()).announced();
        progress.step("running");
        let done = run(&description, directory, &device, Saving::Files)?;
        drop(progress);
        output.json(|| as_json(&description, &device, &done));
        output.text(|| as_text(&description, &device, &done));
        Ok(())
    }
}

fn as_json(description: &Description, device: &Device, done: &Done) -> Value {
    let counts = |counts: &LaunchCounts| {
        json!({
            "warp_instructions": counts.warp_instructions,
            "lane_operations": counts.lane_operations,
            "mma_multiply_adds": counts.mma_multiply_adds,
        })
    };
    let launches = description.launches.iter().zip(&done.counts).map(|(launch, of_launch)| {
        let mut launched = counts(of_launch);
        launched["entry"] = json!(launch.entry);
        launched["stream"] = json!(launch.stream);
        launched
    });
    let mut report = counts(&done.counts.iter().fold(LaunchCounts::default(), |sum, more| LaunchCounts {
        warp_instructions: sum.warp_instructions + more.warp_instructions,
        lane_operations: sum.lane_operations + more.lane_operations,
        mma_multiply_adds: sum.mma_multiply_adds + more.mma_multiply_adds,
    }));
    report["status"] = json!("ok");
    report["device"] = json!(device.name());
    report["seconds"] = json!(done.seconds);
    report["launches"] = launches.collect();
    report["saved"] = json!(done.saved);
    report
}

fn as_text(description: &Description, device: &Device, done: &Done) -> String {
    let entries: Vec<&str> = description.launches.iter().map(|launch| launch.entry.as_str()).collect();
    let saved: String = done.saved.iter().map(|path| format!("\nsaved {path}")).collect();
    format!("{} ran on {} in {:.6} s{saved}", entries.join(", "), device.name(), done.seconds)
}

fn read(path: &Path) -> Result<Description> {
    let shown = path.display();
    let text = file::text(path)?;
    let value = json::parse(&text).with_context(|| format!("{shown} is not JSON"))?;
    Description::parse(&value).with_context(|| format!("{shown} is not a launch file"))
}

/// The folder that paths of a launch file are relative to.
fn directory(launch: &Path) -> &Path {
    launch.parent().unwrap_or(Path::new(""))
}

/// Refuses a launch file that saves over itself, over one of its inputs, or twice to one file.
fn expect_inputs_kept(launch: &Path, description: &Description) -> Result<()> {
    let of_file = |(place, file): (String, &str)| (format!("`{place}`"), directory(launch).join(file));
    let outputs: Vec<_> = description.outputs().into_iter().map(of_file).collect();
    file::expect_kept(&outputs, &inputs_of(launch, description))
}

/// The files that a launch file reads, itself among them, and where it names them.
fn inputs_of(launch: &Path, description: &Description) -> Vec<(String, PathBuf)> {
    let of_file = |(place, file): (String, &str)| (format!("`{place}`"), directory(launch).join(file));
    let own = ("the launch file".to_owned(), launch.to_owned());
    std::iter::once(own).chain(description.inputs().into_iter().map(of_file)).collect()
}

/// Launches what a launch file describes on a device, and saves nothing.
pub(crate) fn check(path: &Path, device: &Device) -> Result<()> {
    run(&read(path)?, directory(path), device, Saving::Nothing).map(|_| ())
}

/// Refuses to write a result over a file that a launch file reads.
pub(crate) fn expect_kept(output: (&str, Option<&Path>), launch: Option<&Path>) -> Result<()> {
    let ((flag, Some(written)), Some(launch)) = (output, launch) else { return Ok(()) };
    let inputs = inputs_of(launch, &read(launch)?);
    file::expect_kept(&[(format!("`{flag}`"), written.to_owned())], &inputs)
}

/// The PTX of all modules that a launch file names.
pub(crate) fn ptx(path: &Path) -> Result<Vec<String>> {
    let description = read(path)?;
    description.modules().into_iter().map(|name| file::text(&directory(path).join(name))).collect()
}
