//! The native module of the Python package `warpwright`: devices, launches and the command.
//!
//! The package beside it (`python/warpwright`) converts arguments and results; `docs/python.md` describes it.

mod array;
mod buffer;
mod device;
mod dlpack;
mod error;
mod host;
mod kernel;
mod launch;

use std::ffi::OsString;

use pyo3::prelude::*;

/// The native module.
#[pymodule]
mod _warpwright {
    #[pymodule_export]
    use super::array::HostArray;
    #[pymodule_export]
    use super::buffer::Buffer;
    #[pymodule_export]
    use super::device::Device;
    #[pymodule_export]
    use super::kernel::{Kernel, Module};
    #[pymodule_export]
    use super::{answer, element_type, main};
}

/// Runs the command with the words of a command line, the program's name first. Returns the exit status.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| warpwright_cli::status(words))
}

/// Runs the command as with `--json`. Returns the exit status, and what it would print: JSON, and text for people.
#[pyfunction]
fn answer(py: Python<'_>, words: Vec<OsString>) -> (u8, String, String) {
    let (status, answer) = py.detach(|| warpwright_cli::answer(words));
    (status, answer.json.to_string(), answer.text)
}

/// The name and the size in bytes of an element type, which NumPy and PyTorch may call otherwise.
#[pyfunction]
fn element_type(name: &str) -> Option<(&'static str, usize)> {
    warpwright_cli::inputs::element_type(name)
}
