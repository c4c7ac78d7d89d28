//! What developers of warpwright run: `cargo run -p xtask -- chapter`,
//! `cargo run -p xtask -- fuzz`, `cargo run -p xtask -- math`, `cargo run -p xtask -- operations`,
//! `cargo run -p xtask -- shapes`, `cargo run -p xtask -- shape-choices`,
//! `cargo run -p xtask -- sweep`.

mod chapter;
mod fuzz;
mod math;
mod operations;
mod shapes;
mod sweep;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Tasks of developers.
#[derive(Debug, Parser)]
#[command(name = "xtask")]
struct Command {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Chapter(chapter::Chapter),
    Math(math::Math),
    Operations(operations::Operations),
    Shapes(shapes::Shapes),
    ShapeChoices(shapes::choices::ShapeChoices),
    Sweep(sweep::Sweep),
    Fuzz(fuzz::Fuzz),
}

fn main() -> Result<()> {
    match Command::parse().task {
        Task::Chapter(chapter) => chapter.run(),
        Task::Math(math) => math.run(),
        Task::Operations(operations) => operations.run(),
        Task::Shapes(shapes) => shapes.run(),
        Task::ShapeChoices(choices) => choices.run(),
        Task::Sweep(sweep) => sweep.run(),
        Task::Fuzz(fuzz) => fuzz.run(),
    }
}
