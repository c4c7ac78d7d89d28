//! Where results go: text for people or JSON for machines, and color only on a terminal.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
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
    pub(crate) fn finish(self, outcome: anyhow::Result<bool>) -> ExitCode {
        match outcome {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                self.refuse(&message(&error));
                ExitCode::FAILURE
            }
        }
    }

    /// Says why nothing was done.
    pub(crate) fn refuse(self, message: &str) {
        self.json(|| json!({"status": "error", "message": message.trim_end()}));
        if self == Self::Text {
            let label = if std::io::stderr().is_terminal() { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
            let _ = writeln!(std::io::stderr(), "{label} {message}");
        }
    }
}

/// The chain of an error as one sentence. A cause that the text before it contains is not repeated.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

/// Prints a line. A reader that is gone ends the command quietly; any other failure is an error,
/// since the result is lost.
fn line(text: &impl Display) {
    let mut stdout = std::io::stdout().lock();
    let Err(error) = writeln!(stdout, "{text}").and_then(|()| stdout.flush()) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    let _ = writeln!(std::io::stderr(), "error: standard output cannot be written: {error}");
    std::process::exit(1);
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

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn a_cause_that_is_named_already_is_not_repeated() {
        let error = Err::<(), _>(anyhow!("line 3: no such instruction"))
            .context("invalid PTX: line 3: no such instruction")
            .context("k.ptx cannot be loaded")
            .expect_err("an error");
        assert_eq!(message(&error), "k.ptx cannot be loaded: invalid PTX: line 3: no such instruction");
    }
}
