//! One page: its commands with their outputs, its pictures, and the listings that it includes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::runner::Runner;

/// The line of an output that stands for any number of lines.
const ELISION: &str = "...";

/// A page of the book.
pub(super) struct Page {
    pub(super) path: PathBuf,
    lines: Vec<String>,
    pub(super) runs: Vec<Run>,
    pub(super) pictures: Vec<Picture>,
    pub(super) includes: Vec<Include>,
}

/// A command in a block of ```` ```console ````, and the lines of its output.
#[derive(Debug, PartialEq)]
pub(super) struct Run {
    /// Index of the command's line.
    line: usize,
    command: String,
    /// The command exits with a status other than 0.
    fails: bool,
    /// Indices of the output's lines: from, to.
    output: (usize, usize),
}

/// A picture, and the command that draws it, without the file.
#[derive(Debug, PartialEq)]
pub(super) struct Picture {
    line: usize,
    command: String,
    file: PathBuf,
}

/// A listing from a source file: `{{#include FILE:ANCHOR}}`.
#[derive(Debug, PartialEq)]
pub(super) struct Include {
    line: usize,
    file: PathBuf,
    anchor: Option<String>,
}

impl Page {
    pub(super) fn read(path: PathBuf) -> Result<Self> {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        Self::parse(path, &text)
    }

    fn parse(path: PathBuf, text: &str) -> Result<Self> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut page = Self { path, lines, runs: vec![], pictures: vec![], includes: vec![] };
        let folder = page.path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut fence: Option<&str> = None;
        for (line, text) in page.lines.iter().enumerate() {
            if let Some(file) = text.strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}")) {
                let (file, anchor) =
                    file.split_once(':').map_or((file, None), |(file, anchor)| (file, Some(anchor)));
                let (file, anchor) = (folder.join(file), anchor.map(str::to_owned));
                page.includes.push(Include { line, file, anchor });
            }
            if let Some(info) = text.strip_prefix("```") {
                fence = if fence.is_some() { None } else { Some(info) };
                continue;
            }
            match fence {
                Some("console" | "console,fails") => match text.strip_prefix("$ ") {
                    Some(command) => page.runs.push(Run {
                        line,
                        command: command.to_owned(),
                        fails: fence == Some("console,fails"),
                        output: (line + 1, line + 1),
                    }),
                    None => match page.runs.last_mut() {
                        Some(run) if run.output.1 == line => run.output.1 += 1,
                        _ => bail!("{}:{}: output before a command", page.path.display(), line + 1),
                    },
                },
                Some(_) => {}
                None => {
                    let Some(command) = text.strip_prefix("<!-- warpwright ") else { continue };
                    let picture = command.strip_suffix(" -->").zip(page.lines.get(line + 1));
                    let file = picture
                        .and_then(|(_, next)| next.strip_prefix("![")?.split_once("](")?.1.strip_suffix(')'));
                    let Some(((command, _), file)) = picture.zip(file) else {
                        bail!("{}:{}: no picture follows its command", page.path.display(), line + 1);
                    };
                    let command = format!("warpwright {command}");
                    page.pictures.push(Picture { line, command, file: folder.join(file) });
                }
            }
        }
        Ok(page)
    }

    /// The commands of the page, as the runner takes them.
    pub(super) fn commands(&self) -> Vec<String> {
        let runs = self.runs.iter().map(|run| run.command.clone());
        runs.chain(self.pictures.iter().map(|picture| picture.command.clone())).collect()
    }

    /// What differs from what the commands print and draw; nothing when `bless` has written it into the page.
    pub(super) fn compare(&self, runner: &Runner, bless: bool) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        let mut lines = self.lines.clone();
        for run in self.runs.iter().rev() {
            let (status, output) = runner.output(&run.command)?;
            let printed: Vec<&str> = output.trim_end().lines().map(str::trim_end).collect();
            let shown = &self.lines[run.output.0..run.output.1];
            if (status != 0) != run.fails {
                faults
                    .push(self.fault(run.line, &format!("`{}` exits with {status}:\n{output}", run.command)));
            } else if !matches(shown, &printed) {
                if bless {
                    lines.splice(run.output.0..run.output.1, elided(shown, &printed));
                } else {
                    let printed = printed.join("\n");
                    faults.push(self.fault(run.line, &format!("`{}` prints\n{printed}", run.command)));
                }
            }
        }
        faults.reverse();
        for picture in &self.pictures {
            let (status, drawn) = runner.output(&picture.command)?;
            let committed = std::fs::read_to_string(&picture.file).unwrap_or_default();
            if status != 0 {
                faults.push(
                    self.fault(picture.line, &format!("`{}` exits with {status}:\n{drawn}", picture.command)),
                );
            } else if committed != drawn && bless {
                std::fs::create_dir_all(picture.file.parent().unwrap_or(Path::new("")))?;
                std::fs::write(&picture.file, drawn)?;
            } else if committed != drawn {
                let what = format!("{} is not what `{}` draws", picture.file.display(), picture.command);
                faults.push(self.fault(picture.line, &what));
            }
        }
        for include in &self.includes {
            if let Err(error) = include.text() {
                faults.push(self.fault(include.line, &error.to_string()));
            }
        }
        if lines != self.lines {
            std::fs::write(&self.path, lines.join("\n") + "\n")?;
            println!("wrote {}", self.path.display());
        }
        Ok(faults)
    }

    /// The page with the listings that it includes.
    pub(super) fn expanded(&self) -> Result<String> {
        let mut lines = self.lines.clone();
        for include in &self.includes {
            lines[include.line] = include.text()?;
        }
        Ok(lines.join("\n") + "\n")
    }

    fn fault(&self, line: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path.display(), line + 1)
    }
}

impl Include {
    /// The file, or its lines between `ANCHOR: name` and `ANCHOR_END: name`, without their common indentation.
    fn text(&self) -> Result<String> {
        let file = self.file.display();
        let text = std::fs::read_to_string(&self.file).with_context(|| format!("{file} cannot be read"))?;
        let Some(anchor) = &self.anchor else { return Ok(text.trim_end().to_owned()) };
        let marks =
            |line: &&str, word: &str| line.split_once(word).is_some_and(|(_, name)| name.trim() == anchor);
        let after = text.lines().skip_while(|line| !marks(line, "ANCHOR:")).skip(1);
        let between: Vec<&str> = after.take_while(|line| !marks(line, "ANCHOR_END:")).collect();
        if between.is_empty() {
            bail!("{file} has no lines between `ANCHOR: {anchor}` and `ANCHOR_END: {anchor}`");
        }
        let between: Vec<&str> = between.into_iter().filter(|line| !line.contains("ANCHOR")).collect();
        let indentation = |line: &&str| line.len() - line.trim_start().len();
        let common =
            between.iter().filter(|line| !line.trim().is_empty()).map(indentation).min().unwrap_or(0);
        Ok(between.iter().map(|line| line.get(common..).unwrap_or("")).collect::<Vec<_>>().join("\n"))
    }
}

/// Whether printed lines are the shown ones, in which an elision stands for any lines.
fn matches<S: AsRef<str>>(shown: &[S], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first.as_ref() == ELISION => {
            (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]))
        }
        Some((first, rest)) => {
            printed.first().is_some_and(|printed| is_line(first.as_ref(), printed))
                && matches(rest, &printed[1..])
        }
    }
}

/// Whether a printed line is the shown one, or begins as a shown one that ends in an elision.
fn is_line(shown: &str, printed: &str) -> bool {
    match shown.strip_suffix(ELISION) {
        Some(begin) => printed.starts_with(begin),
        None => printed == shown.trim_end(),
    }
}

/// The printed lines; with one elision, as many before and after it as are shown.
fn elided(shown: &[String], printed: &[&str]) -> Vec<String> {
    let mut elisions = shown.iter().enumerate().filter(|(_, line)| *line == ELISION).map(|(at, _)| at);
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    match (elisions.next(), elisions.next()) {
        (Some(at), None) if shown.len() - 1 < printed.len() => {
            let after = shown.len() - 1 - at;
            [lines(&printed[..at]), vec![ELISION.to_owned()], lines(&printed[printed.len() - after..])]
                .concat()
        }
        _ => lines(printed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A page

```console
$ warpwright one
a
$ warpwright two
```

<!-- warpwright layout '(2,2):(1,2)' --svg -->
![A layout](../pictures/layout.svg)

```console,fails
$ warpwright three
b
...
c
```
";

    #[test]
    fn commands_and_pictures_are_found() {
        let page = Page::parse("book/src/part/page.md".into(), PAGE).expect("a page");
        let found: Vec<_> =
            page.runs.iter().map(|run| (run.command.as_str(), run.fails, run.output)).collect();
        assert_eq!(
            found,
            [
                ("warpwright one", false, (4, 5)),
                ("warpwright two", false, (6, 6)),
                ("warpwright three", true, (13, 16))
            ]
        );
        assert_eq!(page.pictures[0].command, "warpwright layout '(2,2):(1,2)' --svg");
        assert_eq!(page.pictures[0].file, Path::new("book/src/part/../pictures/layout.svg"));
        for wrong in ["```console\nx\n```", "<!-- warpwright x -->\n\n![y](z.svg)"] {
            assert!(Page::parse("x.md".into(), wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_elision_stands_for_any_lines() {
        assert!(matches(&["a", "...", "d"], &["a", "b", "c", "d"]));
        assert!(matches(&["a", "..."], &["a"]));
        assert!(!matches(&["a", "...", "d"], &["a", "b"]));
        assert!(matches(&["a took ..."], &["a took 3 s"]) && !matches(&["a took ..."], &["b took 3 s"]));
        let shown = ["a", "...", "d"].map(str::to_owned);
        assert_eq!(elided(&shown, &["1", "2", "3", "4"]), ["1", "...", "4"]);
        assert_eq!(elided(&shown, &["1", "2"]), ["1", "2"]);
    }
}
