//! `cargo run -p xtask -- shape-choices`: what the heuristic chooses for recorded shapes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;
use warpwright_kernels::gemm::host::config::{Configuration, TmaInstruction};
use warpwright_kernels::gemm::host::heuristic::rank;

use super::{SMS, Shape, problem};

/// Compare the heuristic's choices with the recorded times of `shapes`.
///
/// Not every configuration has been timed for every shape: the best ranked one of those that have
/// counts.
#[derive(Debug, Args)]
pub(crate) struct ShapeChoices {
    /// A file that `shapes` wrote.
    recorded: PathBuf,
    /// Only every N-th shape, from shape I on: `I/N`.
    #[arg(long, default_value = "0/1")]
    part: String,
}

/// A line of the file.
#[derive(Deserialize)]
pub(super) struct Recorded {
    m: u32,
    n: u32,
    k: u32,
    cublas_us: f64,
    configurations: Vec<Timed>,
}

#[derive(Deserialize)]
struct Timed {
    configuration: Configuration,
    us: f64,
}

impl ShapeChoices {
    pub(crate) fn run(&self) -> Result<()> {
        let text = fs::read_to_string(&self.recorded).with_context(|| self.recorded.display().to_string())?;
        let (first, step) = self.part.split_once('/').context("--part I/N")?;
        let mut ratios = Vec::new();
        for line in text.lines().skip(first.parse()?).step_by(step.parse()?) {
            let shape: Recorded = serde_json::from_str(line)?;
            ratios.extend(shape.print());
        }
        ensure!(!ratios.is_empty(), "no shape has a ranked configuration that was timed");
        println!("{}", summary(ratios));
        Ok(())
    }
}

impl Recorded {
    /// m, n and k.
    pub(super) fn shape(&self) -> Shape {
        (self.m, self.n, self.k)
    }

    /// The configurations that were timed.
    pub(super) fn configurations(&self) -> Vec<Configuration> {
        self.configurations.iter().map(|timed| timed.configuration).collect()
    }

    /// Prints the choice; the time of cuBLASLt over that of the best ranked configuration.
    fn print(&self) -> Option<f64> {
        let Self { m, n, k, cublas_us, configurations } = self;
        let ranked = rank(&problem(self.shape()), TmaInstruction::Wgmma, SMS);
        let us = |configuration: Configuration| {
            configurations.iter().find(|timed| timed.configuration == configuration).map(|timed| timed.us)
        };
        let timed = ranked.iter().enumerate();
        let (rank, cost, us) =
            timed.filter_map(|(rank, cost)| us(cost.configuration).map(|us| (rank, cost, us))).next()?;
        let least = configurations.iter().map(|timed| timed.us).fold(f64::INFINITY, f64::min);
        let (ratio, best) = (cublas_us / us, cublas_us / least);
        println!(
            "{m:>5} x {n:>5} x {k:>6}: {ratio:.3}, the best {best:.3}; rank {rank}: {}",
            cost.configuration
        );
        Some(ratio)
    }
}

/// The geometric mean of ratios, their fifth percentile and the least.
pub(super) fn summary(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let fifth = ratios[ratios.len() / 20];
    format!(
        "{} shapes: geometric mean {mean:.3}, fifth percentile {fifth:.3}, least {:.3}",
        ratios.len(),
        ratios[0]
    )
}
