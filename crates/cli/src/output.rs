//! Where results go: text for people or JSON for machines, and colour only on a terminal.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

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
