//! `assemble`: kernels for the driver's cache, for a process that starts.

use std::env;
use std::io::{stdin, stdout};
use std::process::Command;

use clap::Args;
use warpwright::runtime::{Assemblers, Device};

/// Loads the kernels of standard input, so that the driver has them in its cache. Starts of servers run it.
#[derive(Debug, Args)]
pub struct Assemble {
    /// The device.
    #[arg(long)]
    device: String,
}

impl Assemble {
    /// Runs the verb.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        Ok(Assemblers::serve(&Device::named(&self.device)?, stdin().lock(), stdout().lock())?)
    }
}

/// Processes of this program that assemble kernels for a device; `None` if its file is not known.
pub(crate) fn assemblers(device: &str) -> Option<Assemblers> {
    let (program, device) = (env::current_exe().ok()?, device.to_owned());
    Some(Assemblers::new(move || {
        let mut command = Command::new(&program);
        command.args(["assemble", "--device", &device]);
        command
    }))
}
