//! The real assembler, where there is one: `WARPWRIGHT_PTXAS` names the `ptxas` binary.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A `ptxas` to check text with.
pub(crate) struct Assembler {
    binary: PathBuf,
}

impl Assembler {
    /// The assembler that `WARPWRIGHT_PTXAS` names, or `None` with a note for whoever reads the test's output.
    pub(crate) fn from_environment() -> Option<Self> {
        let binary = std::env::var_os("WARPWRIGHT_PTXAS").map(PathBuf::from);
        if binary.is_none() {
            println!("skipped: WARPWRIGHT_PTXAS names no ptxas, so nothing was assembled");
        }
        binary.map(|binary| Self { binary })
    }

    /// Assembles `text` for `target` (`sm_90a`).
    ///
    /// # Errors
    /// What ptxas says.
    pub(crate) fn assemble(&self, target: &str, text: &str) -> Result<(), String> {
        let mut ptxas = Command::new(&self.binary)
            .args(["--gpu-name", target, "--output-file", "/dev/null", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", self.binary.display()))?;
        let mut input = ptxas.stdin.take().expect("piped above");
        input.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
        drop(input);
        let output = ptxas.wait_with_output().map_err(|error| error.to_string())?;
        let said = [output.stdout, output.stderr].concat();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
    }
}
