//! `xtask book`: the book's commands are run, its outputs, pictures, listings and links compared.

mod html;
mod inventory;
mod links;
mod page;
mod runner;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use page::Page;
use runner::Runner;

/// Run every command of the book, and compare its outputs, pictures, listings and links.
#[derive(Debug, Args)]
pub(crate) struct Book {
    /// Folder of the book: `src` in it has the pages and `src/SUMMARY.md` their order.
    #[arg(long, default_value = "book", value_name = "FOLDER")]
    folder: PathBuf,
    /// Write outputs and pictures that differ into the pages, instead of failing.
    #[arg(long)]
    bless: bool,
    /// Build the HTML with `mdbook` into target/book/site/book afterwards.
    #[arg(long)]
    html: bool,
    /// Only the pages whose path contains this text; links and the inventory are left out.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

impl Book {
    pub(crate) fn run(&self) -> Result<()> {
        let source = self.folder.join("src");
        let pages = pages(&source)?;
        let is_chosen = |page: &&Page| {
            self.only.as_ref().is_none_or(|text| page.path.to_string_lossy().contains(text.as_str()))
        };
        let chosen: Vec<&Page> = pages.iter().filter(is_chosen).collect();
        let mut faults = Vec::new();
        let mut counts = (0, 0, 0);
        let runner = Runner::new()?;
        let commands: Vec<String> = chosen.iter().flat_map(|page| page.commands()).collect();
        runner.prepare(&commands)?;
        for page in &chosen {
            let compared = page.compare(&runner, self.bless)?;
            counts.0 += page.runs.len();
            counts.1 += page.pictures.len();
            counts.2 += page.includes.len();
            faults.extend(compared);
        }
        if self.only.is_none() {
            faults.extend(summary_faults(&source, &pages)?);
            faults.extend(links::faults(&self.folder)?);
            faults.extend(inventory::faults(&source.join("inventory.md"))?);
        }
        if !faults.is_empty() {
            bail!(
                "{}\n{} faults; `xtask book --bless` rewrites outputs and pictures",
                faults.join("\n\n"),
                faults.len()
            );
        }
        println!(
            "{} pages: {} commands, {} pictures and {} listings are what the book says",
            chosen.len(),
            counts.0,
            counts.1,
            counts.2
        );
        if self.html { html::build(&self.folder, &pages) } else { Ok(()) }
    }
}

/// All pages below a folder, in the order of their paths.
fn pages(folder: &Path) -> Result<Vec<Page>> {
    let mut paths = Vec::new();
    links::markdown(folder, &mut paths)?;
    paths.sort();
    paths.into_iter().map(Page::read).collect()
}

/// Pages that `SUMMARY.md` does not list, and entries of it without a page.
fn summary_faults(source: &Path, pages: &[Page]) -> Result<Vec<String>> {
    let summary = source.join("SUMMARY.md");
    let text = std::fs::read_to_string(&summary).with_context(|| format!("no {}", summary.display()))?;
    let listed: Vec<PathBuf> =
        links::targets(&text).into_iter().map(|(_, target)| source.join(target)).collect();
    let is_missing = |page: &&Page| page.path != summary && !listed.contains(&page.path);
    let missing = pages.iter().filter(is_missing);
    Ok(missing.map(|page| format!("{}: SUMMARY.md does not list it", page.path.display())).collect())
}
