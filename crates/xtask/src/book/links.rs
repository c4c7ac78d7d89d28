//! Links between the pages of the repository, and their anchors.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// Folders and files beside the book whose links are looked at.
const OTHERS: [&str; 5] = ["docs", "crates", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Markdown files below a folder, without built files and tests.
pub(super) fn markdown(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !["target", "tests", "corpus"].contains(&name) && !name.starts_with('.') {
            markdown(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// The relative links of a page: line, target.
pub(super) fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        for rest in without_code(&text).split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((line, target.to_owned()));
            }
        }
    }
    found
}

/// Lines outside of code blocks, counted from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_code = false;
    let is_prose = move |(_, line): &(usize, &str)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    (1..).zip(text.lines()).filter(is_prose).map(|(line, text)| (line, text.to_owned()))
}

/// The line without what is between back-ticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> Vec<String> {
    let mut count = BTreeMap::new();
    let headings = prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len() && title.starts_with(' ')).then(|| title.trim().to_lowercase())
    });
    let anchors = headings.map(|title| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = count.entry(anchor.clone()).and_modify(|before| *before += 1).or_insert(0);
        if *before == 0 { anchor } else { format!("{anchor}-{before}") }
    });
    anchors.collect()
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if plain.file_name().is_some() => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Links of the book and of the pages beside it that lead nowhere.
pub(super) fn faults(book: &Path) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    markdown(book, &mut pages)?;
    let root = book.parent().unwrap_or(Path::new(""));
    for other in OTHERS.map(|other| root.join(other)) {
        match other.is_dir() {
            true => markdown(&other, &mut pages)?,
            false if other.exists() => pages.push(other),
            false => {}
        }
    }
    let mut faults = Vec::new();
    for page in &pages {
        let text = std::fs::read_to_string(page)?;
        for (line, target) in targets(&text) {
            let (path, anchor) =
                target.split_once('#').map_or((&*target, None), |(path, anchor)| (path, Some(anchor)));
            let file = match path {
                "" => page.clone(),
                path => plain(&page.parent().unwrap_or(Path::new("")).join(path)),
            };
            let is_page = file.extension().is_some_and(|extension| extension == "md");
            let leads = match anchor {
                Some(anchor) if is_page && file.exists() => {
                    anchors(&std::fs::read_to_string(&file)?).iter().any(|own| own == anchor)
                }
                _ => file.exists(),
            };
            if !leads {
                faults.push(format!("{}:{line}: the link `{target}` leads nowhere", page.display()));
            }
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors_are_read_outside_of_code() {
        let text = "# A title: `x`\n[a](b.md#c) `[d](e)`\n```text\n[f](g)\n```\n[h](https://i) ![j](k.svg)\n## A title: `x`\n";
        assert_eq!(targets(text), [(2, "b.md#c".to_owned()), (6, "k.svg".to_owned())]);
        assert_eq!(anchors(text), ["a-title-x", "a-title-x-1"]);
        assert_eq!(plain(Path::new("a/b/../c/./d.md")), Path::new("a/c/d.md"));
    }
}
