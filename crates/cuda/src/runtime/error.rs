//! Errors: the last one of each thread, names and texts; and versions.

use std::cell::Cell;
use std::ffi::{c_char, c_int};

use crate::context::current;
use crate::driver::leaked;
use crate::edge::{Out, functions};
use crate::machine::CUDA_VERSION;
use crate::status::{Result, Status};

thread_local! {
    static LAST: Cell<Status> = const { Cell::new(Status::SUCCESS) };
}

/// Keeps the error of a call. That work is not ready is none.
pub(super) fn remember(status: Status) {
    if status != Status::SUCCESS && status != Status::NOT_READY {
        LAST.set(status);
    }
}

/// The failure of a kernel, or the last error of a call.
fn last() -> Status {
    match current() {
        Err(failure) if failure != Status::INVALID_CONTEXT && failure != Status::NOT_INITIALIZED => failure,
        _ => LAST.get(),
    }
}

/// The status is the function's result, not its own.
fn quiet(name: &str, call: impl FnOnce() -> Result<()>) -> Status {
    crate::edge::guard(name, call)
}

functions! { quiet; QUIET:
    2000 cudaGetLastError: () {
        let last = last();
        LAST.set(Status::SUCCESS);
        last.ok()
    }
    2000 cudaPeekAtLastError: () { last().ok() }
}

functions! { super::guard; TABLE:
    2020 cudaDriverGetVersion: (version: Out<c_int>) { version.set(CUDA_VERSION as c_int) }
    2020 cudaRuntimeGetVersion: (version: Out<c_int>) { version.set(super::registry::major() as c_int * 1000) }
}

/// The name of a code.
#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(status: Status) -> *const c_char {
    let name =
        if status == Status::SUCCESS { Some("cudaSuccess") } else { status.row().map(|row| row.runtime) };
    leaked(name.unwrap_or("unrecognized error code"))
}

/// What a code says.
#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(status: Status) -> *const c_char {
    let text = if status == Status::SUCCESS { Some("no error") } else { status.row().map(|row| row.text) };
    leaked(text.unwrap_or("unrecognized error code"))
}
