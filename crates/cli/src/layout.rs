//! `warpwright layout`: evaluates expressions of the layout algebra.

use std::io::{self, BufRead, BufWriter, Write};

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::json;
use warpwright_layout::expression::{evaluate, evaluate_plain};
use warpwright_layout::picture::{self, Options, Together};

use crate::file;
use crate::number;
use crate::output::Output;
use crate::suggestion::did_you_mean;

/// Evaluate and draw expressions of the layout algebra.
#[derive(Debug, Args)]
pub(crate) struct Layout {
    /// Expression in CuTe's notation: `composition((4,8):(1,4), (2,4):(4,1))`.
    #[arg(required_unless_present = "plain", conflicts_with = "plain", allow_hyphen_values = true, value_parser = expression)]
    expression: Option<String>,
    /// Read one expression per line from standard input, and print its value or `error: ...`.
    #[arg(long)]
    plain: bool,
    /// Draw the value to this file as SVG: offsets, owners, and banks in color.
    #[arg(long, value_name = "FILE", conflicts_with = "plain")]
    svg: Option<PathBuf>,
    /// Bits per element, which determine the banks in pictures.
    #[arg(long, default_value_t = 32, value_name = "BITS", allow_negative_numbers = true, value_parser = number::integer::<i64>(1..=1024))]
    bits: i64,
    /// Cells that one access touches; bank conflicts among them are marked.
    #[arg(long, value_enum, default_value = "nothing")]
    together: Access,
    /// Print the offset of every coordinate after the grid, a line each.
    #[arg(long, conflicts_with = "plain")]
    coordinates: bool,
}

/// Takes expressions that begin with a negative number, and no mistyped flags.
fn expression(text: &str) -> Result<String, String> {
    let is_flag =
        text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c == '-' || c.is_alphabetic()));
    if is_flag {
        let guess = did_you_mean(text, ["--plain", "--svg", "--bits", "--together", "--json", "--help"]);
        return Err(format!("this is neither a flag nor an expression{guess}"));
    }
    Ok(text.to_owned())
}

/// The cells that one access takes.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Access {
    /// None: no conflicts are marked.
    Nothing,
    /// The cells of a row.
    Rows,
    /// The cells of a column.
    Columns,
}

impl From<Access> for Together {
    fn from(access: Access) -> Self {
        match access {
            Access::Nothing => Self::Nothing,
            Access::Rows => Self::Rows,
            Access::Columns => Self::Columns,
        }
    }
}

impl Layout {
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let Some(text) = &self.expression else {
            return evaluate_lines(io::stdin().lock(), BufWriter::new(io::stdout().lock()));
        };
        let value = evaluate(text)?;
        let options = Options {
            element_bits: self.bits,
            together: self.together.into(),
            coordinates: self.coordinates,
        };
        if let Some(path) = &self.svg {
            let drawn = picture::svg(&value, &options)?;
            file::write(path, drawn)?;
        }
        output.json(|| json!({"status": "ok", "expression": text, "value": value.to_string(), "cute": format!("{value:#}")}));
        output.text(|| match picture::text(&value, &options) {
            Ok(drawn) => drawn.trim_end().to_owned(),
            // Too large to draw is not too large to know.
            Err(error) => format!("{value:#}\n\nnot drawn: {error}"),
        });
        Ok(())
    }
}

/// Evaluates each line. A line without a value is answered too, so it is no failure of the command.
fn evaluate_lines(mut from: impl BufRead, mut to: impl Write) -> Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).context("standard input cannot be read")? > 0 {
        let text = String::from_utf8_lossy(&line);
        let written = match evaluate_plain(text.trim()) {
            Ok(value) => writeln!(to, "{value}"),
            Err(error) => writeln!(to, "error: {}", error.summary()),
        };
        match written {
            // The reader has what it wanted.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("standard output cannot be written")?,
        }
        line.clear();
    }
    match to.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output cannot be written"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_line() {
        let input =
            b"composition((6,2):(8,2), (4,3):(3,1))\n\n  (4,8):(1,4)\r\nnonsense(\xff\nsize((4,8):(1,4))";
        let mut output = Vec::new();
        evaluate_lines(&input[..], &mut output).expect("memory can be read and written");
        let output = String::from_utf8(output).expect("text");
        let lines: Vec<_> = output.lines().collect();
        assert_eq!(lines.len(), 5, "{output}");
        assert_eq!([lines[0], lines[2], lines[4]], ["((2,2),3):((24,2),8)", "(4,8):(1,4)", "32"]);
        assert!(lines[1].starts_with("error: ") && lines[3].starts_with("error: "), "{output}");
    }
}
