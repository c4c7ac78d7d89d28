//! The PTX corpus from the command line.
//!
//!     cargo run -p warpwright-testing -- list
//!     cargo run -p warpwright-testing -- extract FOLDER
//!     cargo run -p warpwright-testing -- pack FOLDER

use std::io;
use std::path::Path;
use std::process::ExitCode;

use warpwright_testing::{archive, corpus};

const USAGE: &str = "usage: corpus list | extract FOLDER | pack FOLDER";

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["list"] => {
            for (path, bytes) in archive::list(&corpus::archive())? {
                println!("{bytes:>8} {}", path.display());
            }
        }
        ["extract", folder] => archive::extract(&corpus::archive(), Path::new(folder))?,
        ["pack", folder] => archive::pack(Path::new(folder), &corpus::FOLDERS, &corpus::archive())?,
        _ => {
            eprintln!("{USAGE}");
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
