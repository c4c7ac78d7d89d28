//! Lists the sources of the library's kernels and of the lessons, which the program embeds.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The crates with kernels, beside this one.
const CRATES: [&str; 2] = ["kernels", "lessons"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let crates = variable("CARGO_MANIFEST_DIR").join("..");
    let mut files = Vec::new();
    for name in CRATES {
        let folder = crates.join(name).join("src");
        println!("cargo::rerun-if-changed={}", folder.display());
        // Where this crate is built alone, the others are not beside it.
        if folder.is_dir() {
            add_files(&folder, &mut files)?;
        }
    }
    files.sort();
    let entries = files.iter().map(|file| {
        // The path that the compiler names: relative to the workspace.
        let named = Path::new("crates").join(file.strip_prefix(&crates).expect("it is below"));
        format!("    ({named:?}, include_str!({file:?})),\n")
    });
    fs::write(variable("OUT_DIR").join("sources.rs"), format!("&[\n{}]\n", entries.collect::<String>()))
}

/// Adds the Rust files below a folder.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            add_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
