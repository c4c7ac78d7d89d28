//! The readers of what a user writes, for programs that feed them with anything.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches};
use warpwright_arch::tensor_map;
use warpwright_runtime::{Argument, Device};

use crate::dtype::Dtype;
use crate::exec::{self, Description};
use crate::{Command, npy, output};

pub use crate::findings::schedule;
pub use crate::target::limit;

/// Reads command lines; it is made once, since that takes longer than reading one.
#[derive(Debug)]
pub struct CommandLines(clap::Command);

impl Default for CommandLines {
    fn default() -> Self {
        Self(Command::command())
    }
}

impl CommandLines {
    /// Reads a command line, whose first word is the program's name.
    ///
    /// # Errors
    /// It is refused; the error is what the program prints.
    pub fn read(&mut self, words: &[OsString]) -> Result<(), String> {
        let mut matches = self.0.try_get_matches_from_mut(words).map_err(|error| error.to_string())?;
        Command::from_arg_matches_mut(&mut matches).map(|_| ()).map_err(|error| error.to_string())
    }
}

/// A launch file that was read.
#[derive(Debug)]
pub struct LaunchFile(Description);

impl LaunchFile {
    /// Reads the text of a launch file.
    ///
    /// # Errors
    /// It is not JSON, or not a launch.
    pub fn read(text: &str) -> Result<Self, String> {
        let value = exec::parse_json(text).map_err(|error| error.to_string())?;
        Description::parse(&value).map(Self).map_err(|error| error.to_string())
    }

    /// Bytes of its buffers, and threads of its launches.
    pub fn size(&self) -> (u64, u64) {
        (self.0.buffer_bytes(), self.0.threads())
    }

    /// Launches it on a device, and saves nothing. Its paths are relative to `directory`.
    ///
    /// # Errors
    /// The launch is refused, or fails.
    pub fn launch(self, directory: &Path, device: &Device) -> Result<(), String> {
        let ran = exec::run(&self.0, directory, device, exec::Saving::Nothing);
        ran.map(|_| ()).map_err(|error| output::message(&error))
    }
}

/// Reads the bytes of a NumPy file.
///
/// # Errors
/// They are no array of numbers.
pub fn numpy(bytes: &[u8]) -> Result<(), String> {
    npy::Array::parse(bytes).map(|_| ()).map_err(|error| error.to_string())
}

/// A scalar of a launch: an element type by its name, and the bytes of the value.
///
/// # Errors
/// There is no such type, or its elements have another size.
pub fn scalar(dtype: &str, bytes: &[u8]) -> Result<Argument<'static>, String> {
    let unknown = || format!("there is no element type `{dtype}`; expected one of {}", Dtype::known());
    let known = Dtype::named(dtype).ok_or_else(unknown)?;
    if known.bytes() != bytes.len() {
        return Err(format!("an element of {dtype} has {} bytes, not {}", known.bytes(), bytes.len()));
    }
    Ok(known.as_argument(bytes))
}

/// The name and the size in bytes of an element type, which NumPy and PyTorch may call otherwise.
pub fn element_type(name: &str) -> Option<(&'static str, usize)> {
    Dtype::named(name).map(|dtype| (dtype.name(), dtype.bytes()))
}

/// A tensor map, with the fields that `docs/tensor-maps.md` describes; `buffer` is not read.
///
/// # Errors
/// It is not JSON, or no tensor map.
pub fn tensor_map(text: &str) -> Result<tensor_map::Description, String> {
    let value = exec::parse_json(text).map_err(|error| error.to_string())?;
    exec::parse_tensor_map(&value).map_err(|error| error.to_string())
}
