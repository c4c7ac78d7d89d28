//! Where results go: text for people or JSON for machines, and color only on a terminal.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

/// How often the sign of life moves.
const TICK: Duration = Duration::from_millis(100);

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For machines: one JSON value on standard output.
    Json,
}

impl Output {
    /// Prints a result for machines.
    pub(crate) fn json(self, value: impl FnOnce() -> Value) {
        if self == Self::Json {
            line(&value());
        }
    }

    /// Prints a result for people.
    pub(crate) fn text(self, text: impl FnOnce() -> String) {
        if self == Self::Text {
            line(&text());
        }
    }

    /// Says how the command ended. The exit status is 0 only where it did all it was asked.
    pub(crate) fn finish(self, outcome: &anyhow::Result<()>) -> ExitCode {
        let Err(error) = outcome else { return ExitCode::SUCCESS };
        let message = format!("{error:#}");
        self.json(|| json!({"status": "error", "message": message}));
        if self == Self::Text {
            let label = if std::io::stderr().is_terminal() { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
            eprintln!("{label} {message}");
        }
        ExitCode::FAILURE
    }
}

/// Prints a line, and lets a reader that has gone away be.
fn line(text: &impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// What a long command is doing, shown on a terminal while it does it and gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Output {
    /// Begins to show progress; nothing is shown for machines, or where standard error is no
    /// terminal.
    pub(crate) fn progress(self, title: &str) -> Progress {
        let bar = (self == Self::Text && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(
                ProgressStyle::with_template("{spinner} {prefix}: {msg} {elapsed}")
                    .expect("a fixed template"),
            );
            bar.set_prefix(title.to_owned());
            bar.enable_steady_tick(TICK);
            bar
        });
        Progress { bar }
    }
}

impl Progress {
    /// Shows what is done now.
    pub(crate) fn step(&self, what: impl Into<String>) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.into());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
