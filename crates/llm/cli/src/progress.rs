//! How much of a model is loaded, on a terminal.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Shows the fraction that is loaded while `load` runs, unless the messages go to a file or a pipe.
pub(crate) fn show<T>(fraction: impl Fn() -> Option<f64> + Send, load: impl FnOnce() -> T) -> T {
    if !stderr().is_terminal() {
        return load();
    }
    let (end, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
                let percent = fraction().map(|fraction| format!(": {:.0}%", 100.0 * fraction));
                // A line that is longer than a narrow terminal would not be written over.
                eprint!("\rloading{:6}", percent.unwrap_or_default());
            }
            // Spaces clear the line of any terminal.
            eprint!("\r{:1$}\r", "", "loading: 100%".len());
        });
        let loaded = load();
        drop(end);
        loaded
    })
}
