//! `warpwright kernels`: the kernels of the library and the lessons.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use warpwright_harness::Entry;

use crate::kernel::{LESSONS, LIBRARY};
use crate::output::Output;

/// List the kernels that `run`, `bench`, `check` and the other commands take.
#[derive(Debug, Args)]
pub(crate) struct Kernels {}

impl Kernels {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let groups = [("library", LIBRARY), ("lessons", LESSONS)];
        output.json(|| {
            let of_group = |(group, entries): (&str, &[Entry])| {
                let kernel = |entry: &Entry| json!({"name": entry.name(), "about": entry.workload().about()});
                (group.to_owned(), entries.iter().map(kernel).collect())
            };
            let status = ("status".to_owned(), json!("ok"));
            serde_json::Value::Object(groups.into_iter().map(of_group).chain([status]).collect())
        });
        output.text(|| {
            let heading = |group: &str| match group {
                "library" => "Kernels of the library:",
                _ => "Lessons:",
            };
            let mut lines = Vec::new();
            for (group, entries) in groups {
                lines.push(heading(group).to_owned());
                lines.extend(entries.iter().map(|entry| {
                    let about = entry.workload().about();
                    let sentence = about.split_inclusive(". ").next().unwrap_or(about).trim_end();
                    format!("  {:<23} {sentence}", entry.name())
                }));
                lines.push(String::new());
            }
            lines.push("`warpwright run KERNEL --help` lists the options of a kernel.".to_owned());
            lines.join("\n")
        });
        Ok(())
    }
}
