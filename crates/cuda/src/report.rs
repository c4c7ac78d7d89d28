//! What the library tells its user: findings, failures and what it lacks, on standard error and in the files that
//! `warpwright run-cuda` names.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use warpwright_check::{FaultKind, Finding, Label, SourceFiles, render};
use warpwright_runtime::Error;

use crate::machine::variables;
use crate::status::{Result, Status};

/// What has been reported, so that each thing is once.
static REPORTED: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Whether this has not been reported before.
fn is_new(what: String) -> bool {
    REPORTED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(what)
}

/// Prints a line once.
pub(crate) fn once(line: &str) {
    if is_new(line.to_owned()) {
        eprintln!("warpwright: {line}");
    }
}

/// A function that the library does not have was called.
pub(crate) fn unsupported(name: &str) -> Status {
    once(&format!("the program calls `{name}`, which warpwright does not have; it returns `not supported`"));
    Status::NOT_SUPPORTED
}

/// A kernel's name as its author wrote it.
pub(crate) fn demangled(name: &str) -> String {
    if let Ok(symbol) = rustc_demangle::try_demangle(name) {
        return format!("{symbol:#}");
    }
    let symbol = cpp_demangle::Symbol::new(name).ok();
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned())
}

/// The status of an error of the runtime.
pub(crate) fn status(error: &Error) -> Status {
    match error {
        Error::OutOfMemory { .. } | Error::OutOfHostMemory { .. } => Status::OUT_OF_MEMORY,
        Error::Fault { fault, .. } => of_fault(fault.kind),
        Error::BadLaunch { .. } | Error::ForeignMemory { .. } => Status::INVALID_VALUE,
        Error::Findings { .. } => Status::SUCCESS,
        _ => Status::LAUNCH_FAILED,
    }
}

fn of_fault(kind: FaultKind) -> Status {
    match kind {
        FaultKind::OutOfBounds | FaultKind::UseAfterFree | FaultKind::ReadOnly => Status::ILLEGAL_ADDRESS,
        FaultKind::Misaligned => Status::MISALIGNED_ADDRESS,
        FaultKind::Assertion => Status::ASSERT,
        FaultKind::StackOverflow => Status::HARDWARE_STACK_ERROR,
        FaultKind::IllegalInstruction
        | FaultKind::Barrier
        | FaultKind::Warpgroup
        | FaultKind::Unsupported => Status::ILLEGAL_INSTRUCTION,
        FaultKind::Limit | FaultKind::Deadlock => Status::LAUNCH_TIMEOUT,
        _ => Status::LAUNCH_FAILED,
    }
}

/// Reports what went wrong in an operation. Findings alone are no failure: the results of the operation are complete.
pub(crate) fn failure(error: &Error) -> Result<()> {
    let findings = error.findings();
    for finding in &findings {
        report(finding);
    }
    if findings.is_empty() {
        once(&error.to_string());
    }
    match status(error) {
        Status::SUCCESS => Ok(()),
        status => Err(status),
    }
}

/// Prints a finding, and adds it to the file of findings, once for each place.
fn report(finding: &Finding) {
    let finding = shown(finding);
    let places: Vec<_> = finding.labels.iter().map(|label| (label.source.clone(), label.ptx_line)).collect();
    if !is_new(format!("{} {} {places:?}", finding.kind.code(), finding.kernel)) {
        return;
    }
    let text = render(&finding, &mut SourceFiles::here(), std::io::stderr().is_terminal());
    eprintln!("{text}\n");
    append(variables::FINDINGS, &json!(finding));
}

/// A finding with names as their author wrote them. The calls of the host are in this library, and their positions say
/// nothing.
fn shown(finding: &Finding) -> Finding {
    let mut finding = finding.clone();
    let name = demangled(&finding.kernel);
    if name != finding.kernel {
        let mangled = std::mem::replace(&mut finding.kernel, name.clone());
        let parameter = format!("{mangled}_param_");
        let shown = |text: &mut String| *text = text.replace(&parameter, "param_").replace(&mangled, &name);
        shown(&mut finding.message);
        finding.labels.iter_mut().chain(&mut finding.memory).for_each(|label| shown(&mut label.text));
        finding.notes.iter_mut().for_each(shown);
    }
    // A label without a line of PTX is of a call of the host.
    let is_call = |label: &&mut Label| label.ptx_line == 0;
    finding
        .labels
        .iter_mut()
        .chain(&mut finding.memory)
        .filter(is_call)
        .for_each(|label| label.source = None);
    finding.help = finding.help.map(|help| in_c(&help));
    finding
}

/// An advice with the calls of C in place of those of Rust.
fn in_c(help: &str) -> String {
    let snippet =
        help.find("`let event = ").and_then(|start| Some((start, start + 1 + help[start + 1..].find('`')?)));
    match snippet {
        Some((start, end)) => {
            format!("{}`cudaEventRecord`, then `cudaStreamWaitEvent`{}", &help[..start], &help[end + 1..])
        }
        None => help.to_owned(),
    }
}

/// Adds a line to the file that a variable names.
pub(crate) fn append(variable: &str, line: &Value) {
    let Some(path) = std::env::var_os(variable) else { return };
    // Without the file, the text on standard error remains.
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}
