//! The readers of what a user writes, for programs that feed them with anything.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches};
use warpwright_runtime::Device;

use crate::exec::{self, Description};
use crate::{Command, npy, output};

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
