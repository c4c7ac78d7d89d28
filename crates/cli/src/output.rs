//! Where results go: text for people or JSON for machines, and color only on a terminal.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use warpwright_runtime::{Device, Error};

use crate::interrupt;

/// How a command ended, as its exit status tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It did what it was asked, and found nothing wrong.
    Done = 0,
    /// A checker found something, or a result is wrong.
    Found = 1,
    /// The command line or a file is refused, or the machine lacks what is needed.
    Refused = 2,
    /// A kernel, the GPU or the driver failed while it ran.
    Failed = 3,
}

/// A kernel's result that differs from the reference; the cause says where.
#[derive(Debug, thiserror::Error)]
#[error("the result is wrong")]
pub(crate) struct WrongResult;

impl Status {
    /// The status of a command that ended with an error.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        let of_cause = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<Error>()? {
            Error::Findings { .. } => Some(Self::Found),
            Error::Fault { .. } | Error::Driver { .. } | Error::DeviceLost { .. } => Some(Self::Failed),
            _ => None,
        };
        if error.downcast_ref::<WrongResult>().is_some() {
            return Self::Found;
        }
        error.chain().find_map(of_cause).unwrap_or(Self::Refused)
    }
}

/// What `--help` says of the exit status.
pub(crate) const STATUS_HELP: &str = "\
Exit status:
  0    the command did what it was asked, and found nothing wrong
  1    `check` or `run-cuda --check` found something, or a kernel's result is wrong
  2    the command line or a file is refused, or the machine lacks what is needed
  3    a kernel, the GPU or the driver failed while it ran: a fault, a deadlock, a limit that was reached
  any  `run-cuda` otherwise ends with the status of its program
  130  Ctrl-C ended the command; `tune`, `ladder`, `check` and `bench list` print what they have";

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

/// What a command would print: for machines, and for people.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// As `--json` prints it; `docs/json.md` describes it.
    pub json: Value,
    /// As the command prints it without the flag; empty where it ends with an error.
    pub text: String,
}

thread_local! {
    /// What a command of this thread would print, where its caller takes that.
    static KEPT: RefCell<Option<Answer>> = const { RefCell::new(None) };
}

/// Runs a command that prints for machines: its exit status, and what it would print.
pub(crate) fn kept(command: impl FnOnce() -> u8) -> (u8, Answer) {
    KEPT.set(Some(Answer::default()));
    let status = command();
    (status, KEPT.take().unwrap_or_default())
}

/// Whether the caller takes what the command of this thread would print: it is part of another program, which has
/// signal handlers of its own.
pub(crate) fn is_kept() -> bool {
    KEPT.with_borrow(Option::is_some)
}

/// Gives what a command would print to the caller that takes it. Returns whether there is one.
fn keep(store: impl FnOnce(&mut Answer)) -> bool {
    KEPT.with_borrow_mut(|kept| kept.as_mut().map(store).is_some())
}

/// Whether standard output is for one JSON value.
static IS_FOR_JSON: AtomicBool = AtomicBool::new(false);

/// The device, whose kernels print to standard error where standard output is for a JSON value. The
/// driver of a GPU prints to standard output in any case.
pub(crate) fn printing(device: Device) -> Result<Device, Error> {
    if !IS_FOR_JSON.load(Ordering::Relaxed) || !device.properties().is_emulated {
        return Ok(device);
    }
    // A reader that is gone does not stop the kernel.
    device.printing_to(|text| drop(std::io::stderr().write_all(text.as_bytes())))
}

impl Output {
    /// Makes this the form of all results of the command.
    pub(crate) fn select(self) {
        IS_FOR_JSON.store(self == Self::Json, Ordering::Relaxed);
    }

    /// Prints a result for machines.
    pub(crate) fn json(self, value: impl FnOnce() -> Value) {
        if self == Self::Json {
            let json = value();
            if !keep(|kept| kept.json = json.clone()) {
                line(&json);
            }
        }
    }

    /// Prints a result for people.
    pub(crate) fn text(self, text: impl FnOnce() -> String) {
        if self == Self::Text {
            line(&text());
        } else {
            keep(|kept| kept.text = text());
        }
    }

    /// Says how the command ended.
    pub(crate) fn finish(self, outcome: anyhow::Result<Status>) -> u8 {
        let status = match outcome {
            Ok(_) if interrupt::is_requested() => return interrupt::STATUS,
            Ok(status) => status,
            Err(error) => {
                self.refuse(&message(&error));
                Status::of_error(&error)
            }
        };
        status as u8
    }

    /// Says why nothing was done.
    pub(crate) fn refuse(self, message: &str) {
        self.json(|| json!({"status": "error", "message": message.trim_end()}));
        if self == Self::Text && message.starts_with("error[") {
            // A finding has its own label.
            let _ = writeln!(std::io::stderr(), "{message}");
        } else if self == Self::Text {
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
    shortened(&message)
}

/// Letters of a word that a message shows of its beginning, and of its end.
const SHOWN_OF_WORD: (usize, usize) = (60, 20);
/// The most bytes of a message.
const SHOWN_BYTES: usize = 32 << 10;

/// A message without the middle of words that are longer than anything readable, such as a name of
/// a million letters in a file.
pub(crate) fn shortened(message: &str) -> String {
    let (first, last) = SHOWN_OF_WORD;
    let shown = |word: &str| {
        let letters = word.chars().count();
        if letters <= 4 * (first + last) {
            return word.to_owned();
        }
        let beginning: String = word.chars().take(first).collect();
        let end: String = word.chars().skip(letters - last).collect();
        format!("{beginning}[.. {} letters ..]{end}", letters - first - last)
    };
    let mut text: String = message.split_inclusive(char::is_whitespace).map(shown).collect();
    if text.len() > SHOWN_BYTES {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(SHOWN_BYTES));
        text += &format!("\n[.. {} bytes more ..]", whole - text.len());
    }
    text
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
    std::process::exit(Status::Refused as i32);
}

/// What a long command is doing, shown on a terminal while it does it and gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    title: String,
    /// Closed when the work ends.
    ends: Option<Sender<()>>,
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
        Progress { bar, title: title.to_owned(), ends: None }
    }
}

/// When a command that still runs says so: after this time, and then whenever it has grown tenfold.
const PATIENCE: Duration = Duration::from_secs(10);

impl Progress {
    /// The same, which says on standard error how to stop launches that take long: a kernel that
    /// loops forever would run in silence.
    pub(crate) fn announced(mut self) -> Self {
        let (ends, ended) = channel::<()>();
        let (title, bar) = (self.title.clone(), self.bar.clone());
        std::thread::spawn(move || {
            let (mut waits, mut elapsed) = (PATIENCE, Duration::ZERO);
            while ended.recv_timeout(waits) == Err(RecvTimeoutError::Timeout) {
                elapsed += waits;
                let note = format!(
                    "note: {title} still runs after {} s; Ctrl-C stops it, and `--limit 60s` stops a launch after that time",
                    elapsed.as_secs()
                );
                match &bar {
                    Some(bar) => bar.println(note),
                    None => drop(writeln!(std::io::stderr(), "{note}")),
                }
                waits = elapsed * 9;
            }
        });
        self.ends = Some(ends);
        self
    }

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

    #[test]
    fn the_middle_of_a_long_word_is_left_out() {
        let name = "a".repeat(5_000_000);
        let message = shortened(&format!("the module has no kernel `{name}`; its kernels are `k`"));
        assert!(message.len() < 250, "{message}");
        assert!(
            message.starts_with("the module has no kernel `aaa")
                && message.ends_with("aa`; its kernels are `k`")
        );
        let ordinary = "crates/kernels/src/gemm/device/mainloop/wgmma.rs:12:3: a sentence\n  in two lines";
        assert_eq!(shortened(ordinary), ordinary);
        let long = shortened(&"word ".repeat(1_000_000));
        assert!(long.len() < 2 * SHOWN_BYTES && long.ends_with("bytes more ..]"));
    }

    #[test]
    fn the_status_tells_findings_from_failures_and_refusals() {
        let found = anyhow!("3 of 8 elements are wrong").context(WrongResult).context("gemm on emu:h200");
        assert_eq!(Status::of_error(&found), Status::Found);
        let findings = Error::Findings { findings: [].into() };
        assert_eq!(Status::of_error(&anyhow::Error::from(findings)), Status::Found);
        let driver = Error::Driver {
            call: "cuInit",
            name: "CUDA_ERROR".to_owned(),
            description: "it failed".to_owned(),
        };
        assert_eq!(Status::of_error(&anyhow::Error::from(driver).context("k")), Status::Failed);
        assert_eq!(Status::of_error(&anyhow!("missing.json cannot be read")), Status::Refused);
    }
}
