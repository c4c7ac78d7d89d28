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
mod operation;
mod shared;

use std::ffi::OsString;
use std::sync::mpsc::{RecvTimeoutError, channel};

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
    use super::operation::{Operation, emulate, operations, release_captured};
    #[pymodule_export]
    use super::{answer, element_type, main};
}

/// Runs the command with the words of a command line, the program's name first. Returns the exit status.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| warpwright_cli::status(words))
}

/// Runs the command as with `--json`. Returns the exit status, and what it would print: JSON, and text for people.
/// After Ctrl-C, it runs on in the background until its end.
#[pyfunction]
fn answer(py: Python<'_>, words: Vec<OsString>) -> PyResult<(u8, String, String)> {
    let (done, mut ended) = channel();
    // The caller is gone where Ctrl-C was pressed: nobody needs the answer.
    std::thread::spawn(move || drop(done.send(warpwright_cli::answer(words))));
    loop {
        // A receiver may be used by one thread at a time: the closure has it alone.
        let ended = &mut ended;
        match py.detach(move || ended.recv_timeout(launch::SIGNAL_INTERVAL)) {
            Ok((status, answer)) => return Ok((status, answer.json.to_string(), answer.text)),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(error::WarpwrightError::new_err(
                    "the command panicked; standard error has the message",
                ));
            }
        }
    }
}

/// The name and the size in bytes of an element type, which NumPy and PyTorch may call otherwise.
#[pyfunction]
fn element_type(name: &str) -> Option<(&'static str, usize)> {
    warpwright_cli::inputs::element_type(name)
}
