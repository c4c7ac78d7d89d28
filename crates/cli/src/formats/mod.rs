//! `warpwright number`: what a number becomes in each format.

mod block;
mod line;
mod single;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use warpwright_arch::DataType;
use warpwright_emulator::tensor::element;

use crate::file;
use crate::output::Output;

/// Round a number to each format, or numbers to a block with one scale, step by step.
#[derive(Debug, Args)]
pub(crate) struct Number {
    /// The number; several are a block of an MX format.
    #[arg(value_name = "NUMBER", required = true, allow_negative_numbers = true)]
    numbers: Vec<f64>,
    /// Formats, separated by commas.
    #[arg(
        long = "as",
        value_name = "FORMATS",
        value_delimiter = ',',
        default_value = "f32,tf32,f16,bf16,e5m2,e4m3,e3m2,e2m3,e2m1"
    )]
    formats: Vec<String>,
    /// Draw the numbers of each format around the number to this file as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// A format of one number, or one of blocks.
enum Kind {
    Single(DataType),
    Block(&'static block::Block),
}

fn kind(name: &str) -> Result<Kind> {
    if let Some(block) = block::BLOCKS.iter().find(|block| block.name == name) {
        return Ok(Kind::Block(block));
    }
    match DataType::from_ptx(name).filter(|data_type| element::format(*data_type).is_some()) {
        Some(data_type) => Ok(Kind::Single(data_type)),
        None => bail!(
            "unknown format `{name}`; expected f32, tf32, f16, bf16, e5m2, e4m3, e3m2, e2m3, e2m1, mxfp8, mxfp6, mxfp4 or nvfp4"
        ),
    }
}

impl Number {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let kinds = self.formats.iter().map(|name| kind(name)).collect::<Result<Vec<_>>>()?;
        let singles: Vec<DataType> = kinds
            .iter()
            .filter_map(|kind| if let Kind::Single(data_type) = kind { Some(*data_type) } else { None })
            .collect();
        if let Some(path) = &self.svg {
            if singles.is_empty() {
                bail!("a picture needs a format of one number, such as e4m3");
            }
            file::write(path, line::svg(self.numbers[0], &singles))?;
        }
        let rounded: Vec<_> =
            self.numbers.iter().flat_map(|number| single::rounded(*number, &singles)).collect();
        let mut blocks = vec![];
        for kind in &kinds {
            if let Kind::Block(block) = kind {
                blocks.push(block.quantized(&self.numbers)?);
            }
        }
        output.json(|| {
            json!({
                "status": "ok",
                "rounded": rounded.iter().map(single::Rounded::as_json).collect::<Vec<_>>(),
                "blocks": blocks.iter().map(block::Quantized::as_json).collect::<Vec<_>>(),
            })
        });
        output.text(|| {
            let mut parts = vec![];
            if !rounded.is_empty() {
                parts.push(single::text(&rounded));
            }
            parts.extend(blocks.iter().map(block::Quantized::text));
            parts.join("\n\n")
        });
        Ok(())
    }
}
