//! `xtask chapter`: pages and charts from records of runs.

mod chart;
mod line_rows;
mod measured_by;
mod page;
mod record;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use record::Record;

/// Fill the tables of pages with the figures of records, and draw charts beside the records.
#[derive(Debug, Args)]
pub(crate) struct Chapter {
    /// What `warpwright ladder KERNEL --json` printed, in a file; the chart gets the same name with
    /// `.svg`. What `bench KERNEL --json` printed fills one step, and what `bench list FILE --json`
    /// printed the rows of its lines, in tables with a column `bench`.
    #[arg(required_unless_present = "list", value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// The page whose tables are filled in: rows of the record's steps, columns such as `us`,
    /// `TB/s`, `registers`; and its lines that begin with "Measured by" and the record's command.
    /// Of a file that ends in .rs, the lines that begin with `//! Measured`.
    #[arg(long, value_name = "PAGE")]
    page: Vec<PathBuf>,
    /// A file whose lines name records (.json) and the pages that they fill, all from this folder.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["records", "page"])]
    list: Option<PathBuf>,
    /// Write nothing; fail if something would change.
    #[arg(long, conflicts_with = "recount")]
    check: bool,
    /// Count the instructions, sectors and conflicts of each step of a ladder anew on the emulator
    /// first; times stay as they were measured.
    #[arg(long)]
    recount: bool,
}

/// Records, and the pages that they fill.
struct Task {
    records: Vec<PathBuf>,
    pages: Vec<PathBuf>,
}

impl Chapter {
    pub(crate) fn run(&self) -> Result<()> {
        let tasks = match &self.list {
            Some(list) => {
                let text = std::fs::read_to_string(list)
                    .with_context(|| format!("{} cannot be read", list.display()))?;
                tasks(&text)
            }
            None => vec![Task { records: self.records.clone(), pages: self.page.clone() }],
        };
        let mut files = Files { is_check: self.check, looked_at: BTreeSet::new(), changed: BTreeSet::new() };
        for task in &tasks {
            for file in &task.records {
                self.fill(file, &task.pages, &mut files).with_context(|| file.display().to_string())?;
            }
        }
        let Files { looked_at, changed, .. } = &files;
        if self.check && !changed.is_empty() {
            bail!("{} not what the records say: run it without --check", names(changed));
        }
        match changed.is_empty() {
            true => println!("{} files are what the records say", looked_at.len()),
            false => changed.iter().for_each(|file| println!("wrote {}", file.display())),
        }
        Ok(())
    }

    /// Puts a record's figures into its chart and its pages.
    fn fill(&self, file: &Path, pages: &[PathBuf], files: &mut Files) -> Result<()> {
        let printed: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
        if let Some(lines) = printed["lines"].as_array() {
            return put_into_pages(pages, &printed, files, |_, text| line_rows::filled(text, lines));
        }
        let mut record = Record::of(printed)?;
        if self.recount && record.is_ladder() {
            record = recounted(record)?;
            files.put(file, &format!("{}\n", record.printed))?;
        }
        if record.is_ladder() {
            files.put(&file.with_extension("svg"), &chart::of_record(&record))?;
        }
        put_into_pages(pages, &record.printed, files, |page, text| {
            match page.extension().is_some_and(|extension| extension == "rs") {
                true => page::filled_header(text, &record),
                false => page::filled_table(text, &record),
            }
        })
    }
}

/// Puts the figures of a record into each page: `fill` those of its tables or its header.
fn put_into_pages(
    pages: &[PathBuf],
    printed: &Value,
    files: &mut Files,
    fill: impl Fn(&Path, &str) -> Result<String>,
) -> Result<()> {
    for page in pages {
        let text =
            std::fs::read_to_string(page).with_context(|| format!("{} cannot be read", page.display()))?;
        let filled = fill(page, &measured_by::filled(&text, printed));
        files.put(page, &filled.with_context(|| page.display().to_string())?)?;
    }
    Ok(())
}

/// The files in a sentence, with its verb.
fn names(files: &BTreeSet<PathBuf>) -> String {
    let are = if files.len() == 1 { "is" } else { "are" };
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    format!("{} {are}", names.join(", "))
}

/// The lines of a list: words that end in `.json` are records, the others pages; what follows # is
/// a remark.
fn tasks(list: &str) -> Vec<Task> {
    let mut tasks = Vec::new();
    for line in list.lines() {
        let words = line.split('#').next().unwrap_or_default().split_whitespace().map(PathBuf::from);
        let is_record = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "json");
        let (records, pages): (Vec<_>, Vec<_>) = words.partition(is_record);
        if !records.is_empty() {
            tasks.push(Task { records, pages });
        }
    }
    tasks
}

/// The record with each step counted anew by `warpwright ladder` on the emulator, and the day.
fn recounted(mut record: Record) -> Result<Record> {
    let workload = record.workload_of_run()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args([
        "run",
        "--quiet",
        "--package",
        "warpwright-cli",
        "--",
        "ladder",
        "--untimed",
        workload.name(),
    ]);
    command.args(workload.flags_without(record.ladder.option).split_whitespace());
    let counted =
        command.args(["--device", "emu:h200", "--json"]).output().context("cargo does not start")?;
    if !counted.status.success() {
        bail!("{}", String::from_utf8_lossy(&counted.stderr));
    }
    let counted: Value = serde_json::from_slice(&counted.stdout)?;
    for step in &mut record.steps {
        let steps = counted["steps"].as_array().into_iter().flatten();
        let same = steps.into_iter().find(|new| new["step"] == step["step"]);
        let same = same.with_context(|| format!("the ladder has no step {}", step["step"]))?;
        step["counted"] = same["counted"].clone();
    }
    record.printed["steps"] = record.steps.clone().into();
    record.printed["recounted"] = counted["run"].clone();
    Ok(record)
}

/// The files that are made from records.
struct Files {
    /// Whether nothing is written.
    is_check: bool,
    looked_at: BTreeSet<PathBuf>,
    changed: BTreeSet<PathBuf>,
}

impl Files {
    /// Gives a file this text, where it has another.
    fn put(&mut self, file: &Path, text: &str) -> Result<()> {
        self.looked_at.insert(file.to_owned());
        if std::fs::read_to_string(file).is_ok_and(|old| old == text) {
            return Ok(());
        }
        self.changed.insert(file.to_owned());
        if self.is_check {
            return Ok(());
        }
        std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_records_and_their_pages() {
        let tasks = tasks("# figures\n\na.json b.json page.md # both\nc.json lesson.rs page.md\nonly.md\n");
        let of = |task: &Task| (task.records.len(), task.pages.clone());
        assert_eq!(
            tasks.iter().map(of).collect::<Vec<_>>(),
            [
                (2, vec![PathBuf::from("page.md")]),
                (1, vec![PathBuf::from("lesson.rs"), PathBuf::from("page.md")]),
            ]
        );
    }
}
