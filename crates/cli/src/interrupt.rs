//! Ctrl-C in commands that take long and have results before they end: the first one ends the command
//! after the launch that runs, so that it prints what it has; the second one ends it at once.

use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::output;

/// The exit status of a command that was interrupted: 128 and the number of the signal.
pub(crate) const STATUS: u8 = 130;

static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on, Ctrl-C ends the command in order. Without a handler it would end it at once. Nothing changes where the
/// command is part of another program.
pub(crate) fn end_in_order() {
    static LISTENS: Once = Once::new();
    if output::is_kept() {
        return;
    }
    LISTENS.call_once(|| {
        // Without a handler, Ctrl-C ends the command as it always does.
        let _ = ctrlc::set_handler(|| {
            if IS_REQUESTED.swap(true, Ordering::Relaxed) {
                std::process::exit(STATUS.into());
            }
            let note = "note: the command ends after the launch that runs; Ctrl-C again ends it at once";
            let _ = writeln!(std::io::stderr(), "\n{note}");
        });
    });
}

/// Whether the command was asked to end.
pub(crate) fn is_requested() -> bool {
    IS_REQUESTED.load(Ordering::Relaxed)
}
