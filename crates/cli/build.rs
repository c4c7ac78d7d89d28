//! The version that the command shows: that of the package, and the commit.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let version = match of_package().or_else(of_checkout) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=WARPWRIGHT_VERSION={version}");
}

/// The commit that cargo records in a package.
fn of_package() -> Option<String> {
    let record = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let commit = record.split_once("\"sha1\": \"")?.1.split('"').next()?;
    commit.get(..10).map(str::to_owned)
}

/// The commit of a checkout of this repository.
fn of_checkout() -> Option<String> {
    // In a copy inside another repository, the commit would be that one's.
    if git(&["rev-parse", "--show-prefix"])? != "crates/cli/" {
        return None;
    }
    // The log of HEAD grows with each commit and checkout.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}

/// What git prints; `None` where it fails, or is not installed.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
