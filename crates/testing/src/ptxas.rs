//! NVIDIA's assembler, which `WARPWRIGHT_PTXAS` names.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::skipped;

/// A `ptxas` to check text with.
pub struct Assembler {
    binary: OsString,
}

impl Assembler {
    /// The assembler that `WARPWRIGHT_PTXAS` names. `None` reports the test as skipped.
    ///
    /// # Panics
    /// If it names none and `WARPWRIGHT_REQUIRE_PTXAS=1`.
    pub fn from_environment() -> Option<Self> {
        let binary = std::env::var_os("WARPWRIGHT_PTXAS");
        if binary.is_none() {
            skipped("WARPWRIGHT_REQUIRE_PTXAS", 1, "WARPWRIGHT_PTXAS names no ptxas");
        }
        binary.map(|binary| Self { binary })
    }

    /// Assembles `text` for `target` (`sm_90a`).
    ///
    /// # Errors
    /// The messages of ptxas.
    pub fn assemble(&self, target: &str, text: &str) -> Result<(), String> {
        self.assemble_with(&[], &architecture(target), text)
    }

    /// Reads `text` as for `target`, without generating code, which is quick.
    ///
    /// # Errors
    /// The messages of ptxas.
    pub fn read(&self, target: &str, text: &str) -> Result<(), String> {
        self.assemble_with(&[], &architecture(target).replacen("sm_", "compute_", 1), text)
    }

    /// The same, where registers that are spilled to local memory are an error.
    ///
    /// # Errors
    /// The messages of ptxas.
    pub fn assemble_without_spills(&self, target: &str, text: &str) -> Result<(), String> {
        self.assemble_with(&["--warn-on-spills", "--warning-as-error"], target, text)
    }

    fn assemble_with(&self, options: &[&str], target: &str, text: &str) -> Result<(), String> {
        let mut ptxas = Command::new(&self.binary)
            .args(options)
            .args(["--gpu-name", target, "--output-file", "/dev/null", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", self.binary.display()))?;
        let mut input = ptxas.stdin.take().expect("the input is piped");
        input.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
        drop(input);
        let output = ptxas.wait_with_output().map_err(|error| error.to_string())?;
        let said = [output.stdout, output.stderr].concat();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
    }
}

/// The architecture that a module for `target` is assembled for: ptxas 13 generates no code for those
/// before sm_75, and calls sm_101 sm_110.
fn architecture(target: &str) -> String {
    let number = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse::<u32>();
    match number {
        Ok(number) if number < 75 => "sm_75".to_owned(),
        _ => target.replacen("sm_101", "sm_110", 1),
    }
}
