//! Small PTX programs with inputs, and the outputs an H200 gave for them.
//!
//! The cases are a table in this folder, one file for each group of families. A recording holds
//! what the GPU gave (`golden/results*.bin`) and a checksum of each case's PTX, launch and inputs
//! (`golden/results*.json`); a case that differs from its recording fails. To record anew, on a
//! machine with the GPU:
//!
//!     cargo test -p warpwright-emulator --test it -- --ignored golden::write_cases
//!     python3 crates/emulator/golden/record.py target/tmp/golden

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

use std::collections::BTreeMap;
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

/// The folder of the recording.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// The path and contents of each file that `record.py` reads.
fn files() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for case in cases() {
        let stem = Path::new(case.family).join(&case.name);
        let with = |extension: &str| PathBuf::from(format!("{}.{extension}", stem.display()));
        assert!(files.insert(with("ptx"), case.ptx().into_bytes()).is_none(), "{} twice", case.name);
        files.insert(with("json"), case.launch().into_bytes());
        for operand in &case.operands {
            if let Buffer::Input(input) | Buffer::RawInput(input) | Buffer::RawInOut(input) = &operand.buffer
            {
                files.insert(Path::new("inputs").join(input.file()), input.npy());
            }
        }
    }
    files
}

/// Writes the PTX, launch and input files that `record.py` reads.
#[test]
#[ignore = "writes the cases for record.py"]
fn write_cases() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("stale cases can be removed");
    }
    for (path, contents) in files() {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a case has a folder")).expect("a folder can be made");
        std::fs::write(&path, contents).expect("a case can be written");
    }
    println!("{}", folder.display());
}

#[test]
fn every_case_has_its_own_files() {
    files();
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
