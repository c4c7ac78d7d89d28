//! Lines of the user: from an editor with a history in a terminal, else from the standard input.

use std::io::{BufRead, ErrorKind, IsTerminal, stdin, stdout};
use std::path::PathBuf;

use anyhow::Context;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Editor, Helper};

use super::command::COMMANDS;

/// What the user did.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Bytes that are no UTF-8, in a terminal.
    NotText,
    /// Ctrl-D, or the end of the input.
    End,
}

/// Where lines come from.
pub(super) enum Input {
    Editor {
        editor: Box<Editor<Rules, FileHistory>>,
        history: Option<PathBuf>,
    },
    /// A file or a pipe, or a terminal whose answers go elsewhere.
    Lines(Box<dyn BufRead + Send>),
}

impl Input {
    /// An editor if both ends are a terminal.
    pub(super) fn new() -> anyhow::Result<Input> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            return Ok(Input::Lines(Box::new(std::io::BufReader::new(stdin()))));
        }
        let config = Config::builder().history_ignore_space(true).auto_add_history(true).build();
        let mut editor =
            Editor::<Rules, _>::with_config(config).context("cannot edit lines in this terminal")?;
        editor.set_helper(Some(Rules));
        let history = history();
        if let Some(path) = &history
            && path.exists()
            && let Err(error) = editor.load_history(path)
        {
            eprintln!("cannot read the history {}: {error}", path.display());
        }
        Ok(Input::Editor { editor: Box::new(editor), history })
    }

    /// Whether a user sees a prompt.
    pub(super) fn is_editor(&self) -> bool {
        matches!(self, Input::Editor { .. })
    }

    /// Whether the editor reads keys, and not the lines of a terminal that knows no cursor.
    pub(super) fn reads_keys(&self) -> bool {
        let term = std::env::var("TERM").unwrap_or_default();
        self.is_editor() && !PLAIN.iter().any(|plain| plain.eq_ignore_ascii_case(&term))
    }

    /// Waits for the next text.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(super) fn next(&mut self) -> anyhow::Result<Line> {
        match self {
            Input::Editor { editor, .. } => {
                let line = line_of(editor.readline("> "))?;
                if matches!(line, Line::Text(_)) {
                    self.save();
                }
                Ok(line)
            }
            Input::Lines(lines) => {
                if stdin().is_terminal() {
                    eprint!("> ");
                }
                next_of(lines)
            }
        }
    }

    /// Adds the newest line to the file of the history. Without one, the editor still has its own.
    fn save(&mut self) {
        let Input::Editor { editor, history } = self else { return };
        let Some(path) = history else { return };
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let saved = folder.map_err(ReadlineError::from).and_then(|()| editor.append_history(path));
        if let Err(error) = saved {
            eprintln!("cannot write the history {}: {error}", path.display());
            *history = None;
        }
    }
}

/// What the editor's result means.
fn line_of(read: rustyline::Result<String>) -> anyhow::Result<Line> {
    match read {
        Ok(text) => Ok(Line::Text(joined(&text))),
        Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
        Err(ReadlineError::Eof) => Ok(Line::End),
        // What was typed before stays out of the conversation, which goes on.
        Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => Ok(Line::NotText),
        Err(error) => Err(error).context("cannot read a line"),
    }
}

/// The next text of a file or a pipe, of as many lines as belong together.
fn next_of(lines: &mut dyn BufRead) -> anyhow::Result<Line> {
    let mut text = Vec::new();
    loop {
        let read = lines.read_until(b'\n', &mut text).context("cannot read the input")?;
        let line = std::str::from_utf8(&text).context("the input is not UTF-8")?;
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if read == 0 && text.is_empty() {
            return Ok(Line::End);
        }
        if read == 0 || !continues(line) {
            return Ok(Line::Text(joined(line)));
        }
    }
}

/// `warpwright-llm/history` in the folder for state of the XDG base directory specification.
fn history() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || std::env::home_dir().map(|home| home.join(".local/state"));
    Some(state.or_else(home)?.join("warpwright-llm/history"))
}

/// The terminals whose lines the editor reads as they are (rustyline 19, `tty/mod.rs`).
const PLAIN: [&str; 3] = ["dumb", "cons25", "emacs"];

const QUOTES: &str = "\"\"\"";

/// Whether the text goes on in the next line.
fn continues(text: &str) -> bool {
    match text.strip_prefix(QUOTES) {
        Some(quoted) => !quoted.contains(QUOTES),
        None => text.ends_with('\\'),
    }
}

/// The text without what joins its lines.
fn joined(text: &str) -> String {
    let Some(quoted) = text.strip_prefix(QUOTES) else { return text.replace("\\\n", "\n") };
    let (quoted, rest) = quoted.split_once(QUOTES).unwrap_or((quoted, ""));
    let quoted = quoted.strip_prefix('\n').unwrap_or(quoted);
    format!("{}{rest}", quoted.strip_suffix('\n').unwrap_or(quoted))
}

/// What the editor asks while a user types.
pub(super) struct Rules;

impl Helper for Rules {}

impl Highlighter for Rules {}

impl Hinter for Rules {
    type Hint = String;
}

impl Validator for Rules {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match continues(context.input()) {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Completer for Rules {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        end: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = &line[..end];
        let names = COMMANDS.iter().map(|(name, ..)| *name);
        let fitting = names.filter(|name| begun.starts_with('/') && name.starts_with(begun));
        Ok((0, fitting.map(str::to_owned).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_end_no_conversation() {
        let failed = |kind: ErrorKind| line_of(Err(ReadlineError::from(kind)));
        assert_eq!(failed(ErrorKind::InvalidData).unwrap(), Line::NotText);
        assert!(failed(ErrorKind::PermissionDenied).is_err());
        assert_eq!(line_of(Err(ReadlineError::Eof)).unwrap(), Line::End);
    }

    #[test]
    fn lines_that_belong_together_are_one_text() {
        let input = "one\r\ntwo \\\nand a half\n\n\"\"\"\nthree\n\\ four\\\n\"\"\"\n\"\"\"a\"\"\" b\nlast \\";
        let mut lines = input.as_bytes();
        let mut texts = vec![];
        while let Line::Text(text) = next_of(&mut lines).unwrap() {
            texts.push(text);
        }
        assert_eq!(texts, ["one", "two \nand a half", "", "three\n\\ four\\", "a b", "last \\"]);
        assert!(next_of(&mut &b"\xff\n"[..]).is_err());
    }
}
