//! Small PTX programs with inputs, and the outputs an H200 gave for them.
//!
//! The cases are a table in this folder, one file for each group of families. `golden/FAMILY/CASE.ptx` and `.json` (a
//! launch as `warpwright exec` reads it) and `golden/inputs/*.npy` are written from it by
//!
//!     GOLDEN_WRITE=1 cargo test -p warpwright-emulator --test it golden
//!
//! and `golden/record.py` runs them all on a GPU and writes `golden/results.json` and `golden/results.bin`.

mod agreement;
mod case;
mod cluster;
mod conversion;
mod floating;
mod inputs;
mod integer;
mod matrix;
mod memory;
mod record;
mod replay;
mod scalar;
mod warp;
mod warpgroup;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use case::{Buffer, Case};

fn cases() -> Vec<Case> {
    [
        floating::cases(),
        conversion::cases(),
        integer::cases(),
        warp::cases(),
        memory::cases(),
        matrix::cases(),
        warpgroup::cases(),
        cluster::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Every file that the table asks for, with its contents.
fn files() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for case in cases() {
        let stem = golden().join(case.family).join(&case.name);
        let with = |extension: &str| PathBuf::from(format!("{}.{extension}", stem.display()));
        assert!(files.insert(with("ptx"), case.ptx().into_bytes()).is_none(), "{} twice", case.name);
        files.insert(with("json"), case.launch().into_bytes());
        for operand in &case.operands {
            if let Buffer::Input(input) | Buffer::RawInput(input) | Buffer::RawInOut(input) = &operand.buffer
            {
                files.insert(golden().join("inputs").join(input.file()), input.npy());
            }
        }
    }
    files
}

/// The PTX, launch and input files under `golden`.
fn present() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for family in std::fs::read_dir(golden()).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(family.path()).into_iter().flatten().flatten() {
            found.insert(file.path());
        }
    }
    found
}

#[test]
fn the_files_are_what_the_table_says() {
    let files = files();
    if std::env::var_os("GOLDEN_WRITE").is_some() {
        for stale in present().difference(&files.keys().cloned().collect()) {
            std::fs::remove_file(stale).expect("a stale case can be removed");
        }
        for (path, contents) in &files {
            std::fs::create_dir_all(path.parent().expect("a case has a folder"))
                .expect("a folder can be made");
            std::fs::write(path, contents).expect("a case can be written");
        }
    }
    assert_eq!(present(), files.keys().cloned().collect(), "files and table differ; write them anew");
    for (path, contents) in &files {
        let found = std::fs::read(path).expect("a case can be read");
        assert!(found == *contents, "{} is not what the table says; write it anew", path.display());
    }
}

#[test]
fn there_are_enough_cases_in_every_family() {
    let mut families = BTreeMap::new();
    for case in cases() {
        *families.entry(case.family).or_insert(0) += 1;
    }
    assert!(families.values().sum::<usize>() >= 300, "{families:?}");
    assert!(families.len() >= 12, "{families:?}");
}
