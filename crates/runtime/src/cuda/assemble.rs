//! Loads PTX with the driver's assembler.
//!
//! The text goes to `cuModuleLoadDataEx` directly, not through the driver's linker. The linker
//! compiles for several compilation units and therefore ignores `setmaxnreg`, so warp-specialized
//! kernels spill their accumulators. Measured on an H200: a GEMM with 192 accumulator registers per
//! thread falls from 680 to 41 TFLOP/s. The driver caches what it assembles on disk.

use std::ffi::c_void;
use std::fmt::Write as _;
use std::ptr::null_mut;

use super::context::Context;
use super::driver::{self, jit_option};
use crate::error::{Error, Result};

/// The highest level of optimization, and the driver's default (CUDA Driver API, `CUjit_option`).
const HIGHEST_LEVEL: usize = 4;

/// Size of the assembler's log buffer.
const LOG_BYTES: usize = 64 << 10;

/// Assembles PTX for the GPU, or takes it from the driver's cache, and loads it.
pub(super) fn load(context: &Context, ptx: &str, target: &str) -> Result<driver::Handle> {
    let driver = context.enter()?;
    // The driver expects a NUL-terminated string.
    let mut text = ptx.as_bytes().to_vec();
    text.push(0);
    let mut log = vec![0u8; LOG_BYTES];
    let mut options = [
        jit_option::ERROR_LOG,
        jit_option::ERROR_LOG_BYTES,
        jit_option::LINE_INFO,
        jit_option::OPTIMIZATION_LEVEL,
    ];
    let level = optimization_level()?;
    let mut values = [log.as_mut_ptr().cast::<c_void>(), word(log.len()), word(1), word(level)];
    let mut module = null_mut();
    // SAFETY: options and values have the same length, and they, the text and the log are alive for
    // the call.
    let loaded = unsafe {
        driver.cuModuleLoadDataEx(
            &mut module,
            text.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    loaded.map(|()| module).map_err(|failure| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]);
        if log.trim().is_empty() {
            return context.error(failure);
        }
        Error::Assemble { target: target.to_owned(), log: with_source_lines(&log, ptx) }
    })
}

/// The level at which the driver's assembler optimizes: `WARPWRIGHT_JIT_OPTIMIZATION`, or its default.
fn optimization_level() -> Result<usize> {
    let Some(value) = std::env::var_os("WARPWRIGHT_JIT_OPTIMIZATION") else { return Ok(HIGHEST_LEVEL) };
    let level = value.to_str().and_then(|value| value.parse().ok());
    level
        .filter(|level| *level <= HIGHEST_LEVEL)
        .ok_or_else(|| Error::OptimizationLevel { value: value.to_string_lossy().into_owned() })
}

/// A number, as the driver's option list stores it.
fn word(value: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(value)
}

/// The assembler's log. Each entry that names a PTX line is followed by that line, and by its
/// source location if the PTX has one.
fn with_source_lines(log: &str, ptx: &str) -> String {
    let lines: Vec<&str> = ptx.lines().collect();
    let mut text = String::new();
    for entry in log.lines().filter(|entry| !entry.trim().is_empty()) {
        let _ = writeln!(text, "{entry}");
        let Some(number) = line_number(entry).filter(|number| (1..=lines.len()).contains(number)) else {
            continue;
        };
        let _ = writeln!(text, "  {number} | {}", lines[number - 1].trim());
        if let Some(source) = source_of(&lines, number) {
            let _ = writeln!(text, "  from {source}");
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The number in `ptxas application ptx input, line 12; error : ...`.
fn line_number(entry: &str) -> Option<usize> {
    let rest = &entry[entry.find("line ")? + "line ".len()..];
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// The `.loc` that applies to a line, as `file:line:column`.
fn source_of(lines: &[&str], number: usize) -> Option<String> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let before = lines[..number].iter().rev().map(|line| words(line));
    // The locations of a kernel end at its first line.
    let mut inside = before.take_while(|words| !words.iter().any(|word| word == ".entry" || word == ".func"));
    let location = inside.find(|words| words.first().is_some_and(|word| word == ".loc"))?;
    let [_, file, line, column, ..] = location.as_slice() else { return None };
    let is_file =
        |words: &Vec<String>| words.first().is_some_and(|word| word == ".file") && words.get(1) == Some(file);
    let path =
        lines.iter().map(|line| words(line)).find(is_file)?.get(2)?.trim_matches(['"', ',']).to_owned();
    Some(format!("{path}:{line}:{}", column.trim_end_matches([',', ';'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_shows_the_lines_it_speaks_of() {
        let ptx = ".version 8.0\n.target sm_90a\n.file 1 \"src/gemm.rs\"\n.visible .entry k()\n{\n\
                   \t.loc 1 42 9\n\tadd.u32 %r0, %r1;\n\tret;\n}\n";
        let log = "ptxas application ptx input, line 7; error   : Arguments mismatch for instruction 'add'\n\
                   ptxas fatal   : Ptx assembly aborted due to errors\n\n";
        assert_eq!(
            with_source_lines(log, ptx),
            "ptxas application ptx input, line 7; error   : Arguments mismatch for instruction 'add'\n  \
             7 | add.u32 %r0, %r1;\n  \
             from src/gemm.rs:42:9\n\
             ptxas fatal   : Ptx assembly aborted due to errors"
        );
    }

    #[test]
    fn positions_of_another_kernel_are_not_taken() {
        let ptx = ".file 1 \"a.rs\"\n.entry a()\n{\n.loc 1 2 3\nret;\n}\n.entry b()\n{\nbad;\n}\n";
        let lines: Vec<_> = ptx.lines().collect();
        assert_eq!(source_of(&lines, 5).as_deref(), Some("a.rs:2:3"));
        assert_eq!(source_of(&lines, 9), None);
    }

    #[test]
    fn lines_out_of_range_are_left_alone() {
        assert_eq!(with_source_lines("line 99; error", "one"), "line 99; error");
        assert_eq!(with_source_lines("line x; error", "one"), "line x; error");
    }
}
