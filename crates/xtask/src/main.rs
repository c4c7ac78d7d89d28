//! What developers of warpwright run: `cargo run -p xtask -- book`, `cargo run -p xtask -- chapter`,
//! `cargo run -p xtask -- fuzz`, `cargo run -p xtask -- math`, `cargo run -p xtask -- operations`,
//! `cargo run -p xtask -- shapes`, `cargo run -p xtask -- shape-choices`,
//! `cargo run -p xtask -- sweep`.

mod book;
mod chapter;
mod fuzz;
mod math;
mod operations;
mod shapes;
mod sweep;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The name by which this program is the command `warpwright`: the book runs the sources that it was built from.
const PROGRAM: &str = "warpwright";

/// Tasks of developers.
#[derive(Debug, Parser)]
#[command(name = "xtask")]
struct Command {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Book(book::Book),
    Chapter(chapter::Chapter),
    Math(math::Math),
    Operations(operations::Operations),
    Shapes(shapes::Shapes),
    ShapeChoices(shapes::choices::ShapeChoices),
    Sweep(sweep::Sweep),
    Fuzz(fuzz::Fuzz),
}

fn main() -> Result<ExitCode> {
    let name = std::env::args_os().next().unwrap_or_default();
    if Path::new(&name).file_name().is_some_and(|name| name == PROGRAM) {
        return Ok(warpwright_cli::main(std::env::args_os()));
    }
    match Command::parse().task {
        Task::Book(book) => book.run(),
        Task::Chapter(chapter) => chapter.run(),
        Task::Math(math) => math.run(),
        Task::Operations(operations) => operations.run(),
        Task::Shapes(shapes) => shapes.run(),
        Task::ShapeChoices(choices) => choices.run(),
        Task::Sweep(sweep) => sweep.run(),
        Task::Fuzz(fuzz) => fuzz.run(),
    }?;
    Ok(ExitCode::SUCCESS)
}
