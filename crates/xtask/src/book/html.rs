//! The book as HTML, by mdBook.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::links;
use super::page::Page;

/// Where links lead that leave the book.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main");

/// The folder that mdBook reads.
const FOLDER: &str = "target/book/site";

/// Builds the book into target/book/site/book.
pub(super) fn build(folder: &Path, pages: &[Page]) -> Result<()> {
    let (source, copy) = (folder.join("src"), Path::new(FOLDER));
    let _ = std::fs::remove_dir_all(copy);
    for page in pages {
        let path = page.path.strip_prefix(&source)?;
        let to = copy.join("src").join(path);
        std::fs::create_dir_all(to.parent().unwrap_or(copy))?;
        std::fs::write(to, outward(&page.expanded()?, path))?;
    }
    let pictures = copy.join("src/pictures");
    std::fs::create_dir_all(&pictures)?;
    for entry in std::fs::read_dir(source.join("pictures"))? {
        let entry = entry?;
        std::fs::copy(entry.path(), pictures.join(entry.file_name()))?;
    }
    std::fs::copy(folder.join("book.toml"), copy.join("book.toml"))?;
    let status = Command::new("mdbook").arg("build").arg(copy).status();
    let status = status.context("`mdbook` cannot be started: `cargo install mdbook` installs it")?;
    if !status.success() {
        bail!("`mdbook` fails: {status}");
    }
    println!("{FOLDER}/book/index.html");
    Ok(())
}

/// The page with links that leave the book led to the repository.
fn outward(text: &str, path: &Path) -> String {
    let depth = path.components().count() - 1;
    let leaves = "../".repeat(depth + 2);
    let mut text = text.to_owned();
    for (_, target) in links::targets(&text) {
        if let Some(rest) = target.strip_prefix(&leaves) {
            text = text.replace(&format!("]({target})"), &format!("]({REPOSITORY}/{rest})"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_book_lead_to_the_repository() {
        let text = "[a](../../../docs/errata.md#x) [b](../simt/y.md)";
        let outside = outward(text, Path::new("layouts/z.md"));
        assert_eq!(outside, format!("[a]({REPOSITORY}/docs/errata.md#x) [b](../simt/y.md)"));
    }
}
