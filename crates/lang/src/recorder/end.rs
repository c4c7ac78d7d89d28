//! How the author's code ends. A panic of build-time code, such as an index outside an array or an
//! `expect`, is a mistake of its line.

use std::cell::Cell;
use std::panic;
use std::sync::{Mutex, Once, PoisonError};

use rustc_hash::FxHashSet;
use warpwright_ir::Location;

thread_local! {
    /// The position of this thread's last panic.
    static PANICKED_AT: Cell<Option<Location>> = const { Cell::new(None) };
}

/// How the author's code ended.
pub(super) enum End {
    /// All of it has run.
    Complete,
    /// After a mistake that has been recorded.
    Refused,
    /// By a panic.
    Panicked { message: String, location: Option<Location> },
}

/// The payload of an unwinding that leaves the author's code after a mistake has been recorded.
pub(crate) struct Refused;

/// Runs `author` to its end.
pub(super) fn of(author: &mut dyn FnMut()) -> End {
    note_positions();
    PANICKED_AT.set(None);
    match panic::catch_unwind(panic::AssertUnwindSafe(author)) {
        Ok(()) => End::Complete,
        Err(payload) if payload.is::<Refused>() => End::Refused,
        Err(payload) => {
            let text = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            End::Panicked { message: text.to_owned(), location: PANICKED_AT.take() }
        }
    }
}

/// Makes the panic hook note the position, which a payload does not have. The previous hook still
/// runs.
fn note_positions() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            PANICKED_AT.set(panicked.location().map(|location| Location {
                file: static_name(location.file()),
                line: location.line(),
                column: location.column(),
            }));
            before(panicked);
        }));
    });
}

/// The `'static` name of a source file. Each name is leaked once.
fn static_name(file: &str) -> &'static str {
    static FILES: Mutex<Option<FxHashSet<&'static str>>> = Mutex::new(None);
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let files = files.get_or_insert_default();
    if !files.contains(file) {
        files.insert(Box::leak(file.into()));
    }
    files.get(file).copied().unwrap_or_default()
}
