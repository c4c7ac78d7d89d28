//! The page of all operations of the kernel language, `docs/operations.md`, made from the sources:
//! each public function, with the first sentence of its documentation.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

mod expansion;
mod source;

use self::source::Operation;

/// Write the page of all operations of the kernel language
#[derive(Args, Debug)]
pub(crate) struct Operations {
    /// Compare the page with the sources, and write nothing
    #[arg(long)]
    check: bool,
}

/// The groups of the page, and the modules of each.
const GROUPS: [(&str, &[&str]); 17] = [
    ("Values", &["value", "reg", "conversion", "comparison", "composite"]),
    ("Integers", &["integer", "bits"]),
    ("Floating point", &["float", "math", "contraction"]),
    ("Positions and clocks", &["special"]),
    ("Control", &["control"]),
    ("Memory", &["pointer", "memory", "shared", "length", "access", "async_copy"]),
    ("Atomic operations", &["atomic"]),
    ("Warps", &["warp"]),
    ("Blocks", &["block"]),
    ("Clusters", &["cluster", "cluster_launch", "multicast"]),
    ("Fences", &["fence"]),
    ("mbarriers", &["mbarrier"]),
    ("Bulk and tensor copies", &["bulk", "tma", "tensor_map", "tensor_map_draft"]),
    ("Tensors and products", &["tensor"]),
    ("Matrix instructions", &["matrix", "wmma", "cta_group", "tensor_memory"]),
    ("Roles and pipelines", &["role", "pipeline"]),
    ("Launch", &["launch", "registers"]),
];

/// Modules without operations that a kernel calls by name.
const OTHERS: [&str; 19] = [
    "arithmetic",
    "device_value",
    "element",
    "index",
    "kernel",
    "lib",
    "object",
    "operation",
    "operators",
    "parameter",
    "plain",
    "pointer_index",
    "recorder",
    "requirement",
    "scalar_parameter",
    "sources",
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
by name, by module. The head of a table names the module and the type that the methods belong to:
`.f(x) -> R` is a method of that type with the result `R`, and `Self` is the type. A bound is written
where the parameter is: `Reg<T: Float>`. `use warpwright::prelude::*` imports the names, but for those
that `warp` and `block` have both: `warp::reduce(x, f)`, `block::reduce(x, f)`.

Values are `Reg<T>`; where an operation takes one, it also takes a number. Methods of `Reg` that
several types have are in one table with all of them.
";

/// The types of a kernel's parameters. A row names each type that the sources implement the trait
/// `KernelParameter` for.
const PARAMETERS: &str = "
## Parameters of a kernel

| Parameter | In the body | At the launch |
|---|---|---|
| `T`: `bool`, an integer of 8 to 64 bits, `f16`, `bf16`, `f32`, `f64` | `Reg<T>` | the value |
| `[T; N]` | `[Reg<T>; N]` | the array |
| `&Global<T>` | a pointer to global memory that the kernel reads | `&buffer`, of a `Buffer<T>` |
| `&mut Global<T>` | a pointer to global memory that it reads and writes | `&mut buffer` |
| `&TensorMap` | a tensor map, `*map`, to load by | `&map`, [made for the kernel](tensor-maps.md) |
| `&mut TensorMap` | one to store and reduce by, too | `&mut map`, made from a `&mut` buffer |
| `&TensorMaps<N>`, `&mut TensorMaps<N>` | N tensor maps: `maps.at(index)` | `[&map; N]`, `[&mut map; N]` |
| `&UntypedTensorMap`, `&mut UntypedTensorMap` | a tensor map that the launch does not check | `&map`, `&mut map` |
| a struct with `#[derive(Clone, Copy, DeviceValue, KernelParameter)]` | itself | a tuple of what its fields take |

The fields of such a struct are `Reg<T>`, `[Reg<T>; N]`, `Global<T>` (memory that the kernel reads), `TensorMap` (to
load by), and such structs. What is known when the kernel is built is a field of the struct that the kernel is a
method of, and no parameter.
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
        let name = stem(&entry?.path());
        if !named.contains(name.as_str()) {
            bail!("crates/lang/src/{name} belongs to no group of xtask's operations.rs");
        }
    }
    check_parameters(sources)?;
    let mut page = format!("{BEGINNING}{PARAMETERS}");
    for (title, modules) in GROUPS {
        write!(page, "\n## {title}\n")?;
        for module in modules {
            for (owners, operations) in of_module(sources, module)? {
                let owners = owners.iter().map(|owner| format!("`{owner}`")).collect::<Vec<_>>().join(", ");
                let of = if owners.is_empty() { String::new() } else { format!(": {owners}") };
                write!(page, "\n| `{module}`{of} | |\n|---|---|\n")?;
                for Operation { call, summary, .. } in operations {
                    writeln!(page, "| `{call}` | {summary} |")?;
                }
            }
        }
    }
    Ok(page)
}

/// Returns an error if the table of parameters lacks a type.
fn check_parameters(sources: &Path) -> Result<()> {
    for file in files_of(sources)? {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let types =
            text.lines().filter_map(|line| line.strip_suffix(" {")?.split_once("KernelParameter for "));
        for (_, ty) in types.filter(|(_, ty)| !ty.starts_with('$')) {
            if !PARAMETERS.contains(&format!("`{ty}`")) {
                bail!("{}: the table of parameters has no `{ty}`", file.display());
            }
        }
    }
    Ok(())
}

/// The operations of a module, by the types of which they are methods: functions without one first.
fn of_module(sources: &Path, module: &str) -> Result<Vec<(Vec<String>, Vec<Operation>)>> {
    let mut files = vec![sources.join(format!("{module}.rs"))];
    if !files[0].exists() {
        files = files_of(&sources.join(module))?;
    }
    // A method that several types have is one row.
    let mut rows: Vec<(Vec<String>, Operation)> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        for mut operation in source::operations(&text).with_context(|| file.display().to_string())? {
            if operation.owner.is_none() && is_public_module(&file) {
                operation.call = format!("{}::{}", stem(&file), operation.call);
            }
            let same = |(_, row): &&mut (_, Operation)| {
                (&row.call, &row.summary) == (&operation.call, &operation.summary)
            };
            match rows.iter_mut().find(same) {
                Some((owners, _)) => owners.extend(operation.owner),
                None => rows.push((operation.owner.iter().cloned().collect(), operation)),
            }
        }
    }
    let mut groups: Vec<(Vec<String>, Vec<Operation>)> = vec![(Vec::new(), Vec::new())];
    for (owners, operation) in rows {
        match groups.iter_mut().find(|(known, _)| *known == owners) {
            Some((_, operations)) => operations.push(operation),
            None => groups.push((owners, vec![operation])),
        }
    }
    groups.retain(|(_, operations)| !operations.is_empty());
    Ok(groups)
}

/// Whether the functions of a file are called through its module, as `fast::exp(x)`.
fn is_public_module(file: &Path) -> bool {
    let parent = std::fs::read_to_string(file.with_file_name("mod.rs")).unwrap_or_default();
    parent.contains(&format!("\npub mod {};", stem(file)))
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The files of a module's folder: its own first, then in the order of their names.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files.sort_by_key(|file| (!file.ends_with("mod.rs"), file.clone()));
    Ok(files)
}
