//! Pages and headers say what the records of runs say, and records' counts are those of the
//! emulator.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The repository, from which the list of pages counts.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn chapter(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("chapter").args(arguments).current_dir(root()).output().expect("the command starts")
}

fn read(file: impl AsRef<Path>) -> String {
    let file = file.as_ref();
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("warpwright-chapters-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder
}

#[test]
fn every_page_is_what_its_records_say() {
    let checked = chapter(&["--list", "docs/chapters.txt", "--check"]);
    let message = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(
        checked.status.success(),
        "{message} (`cargo run -p xtask -- chapter --list docs/chapters.txt` writes them)"
    );
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    let files: usize = told.split(' ').next().and_then(|count| count.parse().ok()).expect("a count");
    assert!(files > 15, "{told}");
}

#[test]
fn the_page_of_operations_is_what_the_sources_say() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let checked = command.args(["operations", "--check"]).output().expect("the command starts");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let page = read(root().join("docs/operations.md"));
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert!(rows > 300, "{rows} rows");
}

#[test]
fn every_record_of_a_ladder_has_its_page() {
    let list = read(root().join("docs/chapters.txt"));
    let results = std::fs::read_dir(root().join("docs/results")).expect("the results");
    let mut ladders = 0;
    for file in results.map(|entry| entry.expect("an entry").path()) {
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let record: Value = serde_json::from_str(&read(&file)).expect("JSON");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        if record["steps"].is_array() {
            ladders += 1;
            assert!(list.contains(&format!("docs/results/{name} ")), "{name} fills no page");
        }
    }
    assert!(ladders >= 5, "{ladders}");
}

#[test]
fn every_hopper_lesson_has_its_figure_in_one_header() {
    let lessons = root().join("crates/lessons/src/hopper");
    let measured = |file: &str| -> Vec<String> {
        let source = read(lessons.join(file));
        source.lines().filter(|line| line.starts_with("//! Measured (")).map(str::to_owned).collect()
    };
    let table = read(lessons.join("mod.rs"));
    let files =
        table.lines().filter(|line| line.starts_with("//! | ")).filter_map(|line| line.split("[`").nth(1));
    let mut files: Vec<String> =
        files.filter_map(|line| Some(format!("{}.rs", line.split_once('`')?.0))).collect();
    files.dedup();
    let mut all = measured("mod.rs");
    for file in files.iter().filter(|file| *file != "gemm.rs") {
        let lines = measured(file);
        assert_eq!(lines.len(), 1, "{file} has no figure");
        all.extend(lines);
    }
    let ladder = warpwright_lessons::WORKLOADS.iter().find(|entry| entry.name() == "hopper-ladder");
    let steps = ladder.expect("the lesson").workload().ladder().expect("its ladder").steps;
    for step in steps.into_iter().chain(["tile-copy"]) {
        let of_step = all.iter().filter(|line| line.contains(&format!("`{step}` "))).count();
        assert_eq!(of_step, 1, "{step}: {all:#?}");
    }
}

#[test]
fn a_stale_page_is_named_and_mended() {
    let folder = folder("stale");
    let (record, page) = (folder.join("sgemm.json"), folder.join("page.md"));
    std::fs::copy(root().join("docs/results/2026-11-21-sgemm.json"), &record).expect("it can be copied");
    let right = read(root().join("docs/kernels/sgemm.md"));
    let stale = right.replacen("| 1.0 % |", "| 1.5 % |", 1);
    assert_ne!(right, stale);
    std::fs::write(&page, &stale).expect("it can be written");
    let words = [record.to_str().expect("plain"), "--page", page.to_str().expect("plain")];
    let refused = chapter(&[&words[..], &["--check"]].concat());
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("page.md"), "{message}");
    assert_eq!(read(&page), stale, "--check writes nothing");
    assert!(!folder.join("sgemm.svg").exists(), "--check writes nothing");
    assert!(chapter(&words).status.success());
    assert_eq!(read(&page), right);
    assert!(chapter(&[&words[..], &["--check"]].concat()).status.success());
    std::fs::remove_dir_all(folder).expect("it can be removed");
}
