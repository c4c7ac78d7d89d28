//! The header, and a program in C that calls the library.

use std::path::{Path, PathBuf};
use std::process::Command;

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn the_header_is_made_from_the_table() {
    let (file, header) = (file("include/warpwright.h"), warpwright_dlpack::c::header());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &header).expect("the header is written");
    }
    assert_eq!(std::fs::read_to_string(file).expect("the header is there"), header, "run with BLESS=1");
}

#[test]
fn a_program_in_c_calls_the_library() {
    let test = std::env::current_exe().expect("the test has a path");
    let libraries = test.parent().expect("it is in a folder");
    let program = test.with_file_name(format!("warpwright-c-consumer-{}", std::process::id()));
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(file("tests/consumer.c"))
        .arg("-I")
        .arg(file("include"))
        .arg("-I")
        .arg(file("tests"))
        .arg("-L")
        .arg(libraries)
        .args(["-lwarpwright_c", "-lm"])
        .output()
        .expect("a C compiler is installed");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).env("LD_LIBRARY_PATH", libraries).output().expect("the program runs");
    std::fs::remove_file(&program).expect("the program is there");
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(printed, "right; refused: rms_norm: weight is missing; pass a tensor\n");
    assert!(ran.status.success(), "{}", ran.status);
}
