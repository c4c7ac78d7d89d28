//! The page of all operations of the kernel language, `docs/operations.md`, made from the sources:
//! each public function, with the first sentence of its documentation.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

/// Write the page of all operations of the kernel language
#[derive(Args, Debug)]
pub(crate) struct Operations {
    /// Compare the page with the sources, and write nothing
    #[arg(long)]
    check: bool,
}

/// The groups of the page, and the modules of each.
const GROUPS: [(&str, &[&str]); 17] = [
    ("Values", &["value", "conversion", "comparison", "composite"]),
    ("Integers", &["integer", "bits"]),
    ("Floating point", &["float", "math", "contraction"]),
    ("Positions and clocks", &["special"]),
    ("Control", &["control"]),
    ("Memory", &["pointer", "memory", "shared", "access", "async_copy"]),
    ("Atomic operations", &["atomic"]),
    ("Warps", &["warp"]),
    ("Blocks", &["block"]),
    ("Clusters", &["cluster", "multicast"]),
    ("Fences", &["fence"]),
    ("mbarriers", &["mbarrier"]),
    ("Bulk and tensor copies", &["bulk", "tma", "tensor_map", "tensor_map_draft"]),
    ("Tensors and products", &["tensor"]),
    ("Matrix instructions", &["matrix", "wmma", "tensor_memory"]),
    ("Roles and pipelines", &["role", "pipeline"]),
    ("Launch", &["launch", "registers"]),
];

/// Modules without operations that a kernel calls by name.
const OTHERS: [&str; 15] = [
    "arithmetic",
    "element",
    "index",
    "kernel",
    "lib",
    "object",
    "operation",
    "operators",
    "parameter",
    "plain",
    "recorder",
    "requirement",
    "space",
    "staging",
    "tensor_map_boxes",
];

/// What the page begins with.
const BEGINNING: &str = "\
<!-- Written by `cargo run -p xtask -- operations` from the sources of `crates/lang`. -->

# Operations of the kernel language

The operators `+ - * / % & | ^ ! << >>`, comparisons, `&&`, `||`, `as`, `if`, `match` and loops work
on device values as on Rust's ([language](language.md)). This page lists everything that is called
by name, by module; `.f(x)` is a method. `use warpwright::prelude::*` imports the names, but for
those that `warp` and `block` have both: `warp::reduce(x, f)`, `block::reduce(x, f)`.
";

impl Operations {
    pub(crate) fn run(&self) -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let file = root.join("docs/operations.md");
        let page = page(&root.join("crates/lang/src"))?;
        if !self.check {
            return std::fs::write(&file, page).with_context(|| file.display().to_string());
        }
        if std::fs::read_to_string(&file).unwrap_or_default() != page {
            bail!(
                "docs/operations.md is not what the sources say: `cargo run -p xtask -- operations` writes it"
            );
        }
        Ok(())
    }
}

fn page(sources: &Path) -> Result<String> {
    let named: BTreeSet<&str> =
        GROUPS.iter().flat_map(|(_, modules)| *modules).chain(&OTHERS).copied().collect();
    for entry in std::fs::read_dir(sources)? {
        let name = entry?.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !named.contains(name.as_str()) {
            bail!("crates/lang/src/{name} belongs to no group of xtask's operations.rs");
        }
    }
    let mut page = BEGINNING.to_owned();
    for (title, modules) in GROUPS {
        write!(page, "\n## {title}\n")?;
        for module in modules {
            let operations = of_module(sources, module)?;
            if operations.is_empty() {
                continue;
            }
            write!(page, "\n| `{module}` | |\n|---|---|\n")?;
            for Operation { name, summary } in operations {
                writeln!(page, "| `{name}` | {summary} |")?;
            }
        }
    }
    Ok(page)
}

/// One row of the page.
struct Operation {
    name: String,
    summary: String,
}

fn of_module(sources: &Path, module: &str) -> Result<Vec<Operation>> {
    let mut files = vec![sources.join(format!("{module}.rs"))];
    if !files[0].exists() {
        files = files_of(&sources.join(module))?;
    }
    let mut operations: Vec<Operation> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        for operation in of_file(&text) {
            // A row of a table may repeat a function that another file gives with its parameters.
            let stem = |name: &str| name.split('(').next().unwrap_or_default().to_owned();
            let is_row = !operation.name.contains('(');
            let repeats = |known: &Operation| {
                known.name == operation.name || is_row && stem(&known.name) == operation.name
            };
            if !operations.iter().any(repeats) {
                operations.push(operation);
            }
        }
    }
    Ok(operations)
}

/// The files of a module's folder: its own first, then in the order of their names.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files.sort_by_key(|file| (!file.ends_with("mod.rs"), file.clone()));
    Ok(files)
}

/// The documented functions of a source file: functions, methods, and rows of the tables from which
/// macros make them.
fn of_file(text: &str) -> Vec<Operation> {
    let tables_are_of_methods = text.contains("pub fn $name(self") || text.contains("pub fn $atomic(self");
    let lines: Vec<&str> = text.lines().collect();
    let (mut operations, mut documentation, mut owner) = (Vec::new(), String::new(), String::new());
    for (number, line) in lines.iter().enumerate() {
        let written = line.trim();
        if let Some(text) = written.strip_prefix("///") {
            documentation += text.trim();
            documentation.push(if text.trim().is_empty() { '\n' } else { ' ' });
            continue;
        }
        if line.starts_with("impl") {
            owner = owner_of(line);
        } else if !line.is_empty() && !line.starts_with([' ', '}']) {
            owner.clear();
        }
        if written.starts_with("#[") || written.starts_with("$(") {
            continue;
        }
        let summary = summary(&std::mem::take(&mut documentation));
        if let Some(signature) = written.strip_prefix("pub fn ").filter(|name| !name.starts_with('$')) {
            let rest =
                lines[number + 1..].iter().take(12).map(|line| line.trim()).collect::<Vec<_>>().join(" ");
            let name = called(&format!("{signature} {rest}"), &owner);
            if !summary.is_empty() {
                operations.push(Operation { name, summary });
            }
        } else if let Some((names, summary)) = row(written, &summary) {
            let dot = if tables_are_of_methods { "." } else { "" };
            let names: Vec<String> = names.iter().map(|name| format!("{dot}{name}")).collect();
            operations.push(Operation { name: names.join("`, `"), summary });
        }
    }
    operations
}

/// The type that an `impl` block is of.
fn owner_of(line: &str) -> String {
    let mut depth = 0i32;
    let after = line["impl".len()..].char_indices().find(|(_, letter)| {
        depth += i32::from(*letter == '<') - i32::from(*letter == '>');
        depth == 0 && *letter == ' '
    });
    let of = after.map_or("", |(at, _)| &line["impl".len() + at + 1..]);
    of.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// How a function is called, from its signature behind `fn`.
fn called(signature: &str, owner: &str) -> String {
    let name: String =
        signature.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    let (mut depth, mut begins) = (0i32, None);
    let mut parameters = vec![String::new()];
    for (at, letter) in signature.char_indices() {
        match letter {
            '(' if depth == 0 && begins.is_none() => begins = Some(at),
            ')' if depth == 0 => break,
            '<' | '(' | '[' => depth += 1,
            // The arrow of a function's type is no bracket.
            '>' if signature[..at].ends_with('-') => {}
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 && begins.is_some() => parameters.push(String::new()),
            _ => {}
        }
        if begins.is_some_and(|begins| at > begins)
            && let Some(last) = parameters.last_mut()
        {
            last.push(letter);
        }
    }
    let names: Vec<&str> = parameters
        .iter()
        .map(|parameter| parameter.trim_start_matches(',').split(':').next().unwrap_or_default().trim())
        .map(|name| name.trim_start_matches("mut "))
        .filter(|name| !name.is_empty())
        .collect();
    match names.split_first() {
        Some((first, others)) if first.trim_start_matches(['&']).trim_start_matches("mut ") == "self" => {
            format!(".{name}({})", others.join(", "))
        }
        _ if owner.is_empty() => format!("{name}({})", names.join(", ")),
        _ => format!("{owner}::{name}({})", names.join(", ")),
    }
}

/// The functions that a row of a macro's table makes, and what they do: `/// ..` above
/// `shuffle_up shuffle_up_masked Up;`, or `"its sum with .." atomic_add reduce_add add;`.
fn row<'line>(line: &'line str, summary: &str) -> Option<(Vec<&'line str>, String)> {
    const KEYWORDS: [&str; 8] = ["let", "pub", "fn", "type", "use", "const", "return", "unsafe"];
    let line = line.strip_suffix(';')?;
    let is_name = |word: &str| {
        word.starts_with(|letter: char| letter.is_ascii_lowercase())
            && word
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    };
    if let Some(quoted) = line.strip_prefix('"') {
        let (what, names) = quoted.split_once('"')?;
        let names: Vec<&str> = names.split(' ').filter(|word| is_name(word) && word.contains('_')).collect();
        return (!names.is_empty()).then(|| (names, format!("Replaces the element by {what}.")));
    }
    let words = line.split([' ', '(']);
    let names: Vec<&str> = words
        .take_while(|word| is_name(word) && !KEYWORDS.contains(word))
        .filter(|word| !matches!(*word, "u32" | "u64" | "f32"))
        .collect();
    (!summary.is_empty() && !names.is_empty()).then(|| (names, summary.to_owned()))
}

/// The first sentence of a documentation, without its links.
fn summary(documentation: &str) -> String {
    let paragraph = documentation.split('\n').next().unwrap_or_default().trim();
    let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
    let mut text = paragraph[..end].to_owned();
    while let Some(at) = text.find("](") {
        let Some(close) = text[at..].find(')') else { break };
        text.replace_range(at..at + close + 1, "]");
    }
    text.replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}
