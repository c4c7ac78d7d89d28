//! The names in the texts of findings: each is one that a program can write.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where findings, faults and refusals are written.
const TEXTS: [&str; 4] = ["check/src", "emulator/src/scheduling", "emulator/src/launch", "lang/src/recorder"];
/// Where functions are; the language's, which macros may write, are in `docs/operations.md`, too.
const OPERATIONS: &str = "../docs/operations.md";
/// Words of PTX that look like functions.
const PTX: [&str; 1] = ["expect_tx"];
const SOURCES: [&str; 3] = ["runtime/src", "lang/src", "warpwright/src"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Rust files of a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut all = Vec::new();
    for path in paths {
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
    all
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The functions and methods that backticks in messages call: `` `sync_warp` ``, `` `bulk_wait(0)` ``,
/// `` `NamedBarrier::sync` ``.
fn named(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or(source);
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let quoted = lines.flat_map(|line| line.split('`').skip(1).step_by(2));
    let calls = quoted.filter(|name| !name.contains(' ') && !name.starts_with(['_', '{', '.', '%']));
    let call = |name: &str| {
        let (path, arguments) = name.split_once('(').map_or((name, None), |(path, rest)| (path, Some(rest)));
        let last = path.rsplit("::").next()?;
        let is_name = !last.is_empty()
            && last.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let is_call = arguments.is_some() || path.contains("::") || path.contains('_');
        (is_name && is_call && path.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':'))
            .then(|| last.to_owned())
    };
    calls.filter_map(call).collect()
}

#[test]
fn findings_name_functions_that_exist() {
    let sources: String =
        SOURCES.iter().flat_map(|folder| files(&crates().join(folder))).map(|path| text(&path)).collect();
    let operations = text(&crates().join(OPERATIONS));
    let exists = |name: &str| {
        let functions = [format!("fn {name}("), format!("fn {name}<"), format!("macro_rules! {name} ")];
        functions.iter().any(|function| sources.contains(function))
            || operations.contains(&format!("{name}("))
            || PTX.contains(&name)
    };
    let texts = TEXTS.iter().flat_map(|folder| files(&crates().join(folder)));
    let names: BTreeSet<String> = texts.flat_map(|path| named(&text(&path))).collect();
    assert!(names.len() > 30, "{names:?}");
    let unknown: Vec<_> = names.iter().filter(|name| !exists(name)).collect();
    assert!(unknown.is_empty(), "no function has these names: {unknown:?}");
}
