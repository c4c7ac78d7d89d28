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
        let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Description::parse(&value).map(Self).map_err(|error| error.to_string())
    }

    /// Bytes of its buffers, and threads of its grid.
    pub fn size(&self) -> (u64, u64) {
        let threads = self.0.grid.iter().chain(&self.0.block);
        (self.0.buffer_bytes(), threads.fold(1, |all, extent| all.saturating_mul(u64::from(*extent))))
    }

    /// Launches it on a device, and saves nothing. Its paths are relative to `directory`.
    ///
    /// # Errors
    /// The launch is refused, or fails.
    pub fn launch(mut self, directory: &Path, device: &Device) -> Result<(), String> {
        self.0.save_nothing();
        exec::launch(&self.0, directory, device).map(|_| ()).map_err(|error| output::message(&error))
    }
}

/// Reads the bytes of a NumPy file.
///
/// # Errors
/// They are no array of numbers.
pub fn numpy(bytes: &[u8]) -> Result<(), String> {
    npy::Array::parse(bytes).map(|_| ()).map_err(|error| error.to_string())
}
