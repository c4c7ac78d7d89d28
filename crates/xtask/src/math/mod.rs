//! `xtask math`: the accuracy and the speed of the mathematical functions on a device.

mod errors;
mod speed;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use warpwright_lang::math::table::{FUNCTIONS, Function};
use warpwright_runtime::Device;

/// Measure the mathematical functions on a device: their errors, or their speed.
#[derive(Debug, Args)]
pub(crate) struct Math {
    /// Device: `auto`, `cuda:0`, `emu:h200`.
    #[arg(long, global = true, default_value = "auto")]
    device: String,
    /// Only these functions, separated by commas.
    #[arg(long, global = true, value_delimiter = ',')]
    only: Vec<String>,
    /// Also write the results to this file, as JSON.
    #[arg(long, global = true)]
    json: Option<std::path::PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Errors(errors::Errors),
    Speed(speed::Speed),
}

impl Math {
    pub(crate) fn run(&self) -> Result<()> {
        let device = match self.device.as_str() {
            "auto" => Device::default()?,
            name => Device::named(name)?,
        };
        if let Some(unknown) =
            self.only.iter().find(|name| !FUNCTIONS.iter().any(|known| known.name == *name))
        {
            bail!("there is no function `{unknown}`");
        }
        let functions: Vec<&Function<f32>> = FUNCTIONS
            .iter()
            .filter(|function| self.only.is_empty() || self.only.iter().any(|name| name == function.name))
            .collect();
        println!("{}", device.name());
        let results = match &self.what {
            What::Errors(errors) => errors.run(&device, &functions)?,
            What::Speed(speed) => speed.run(&device, &functions)?,
        };
        if let Some(path) = &self.json {
            std::fs::write(path, serde_json::to_string_pretty(&results)?)?;
        }
        Ok(())
    }
}
