//! Whether a thread is inside [`Stream::capture`](crate::Stream::capture), where calls that wait for the
//! device are refused.

use std::cell::Cell;

use crate::error::{Error, Result};

thread_local! {
    /// The captures that this thread is inside of.
    static CAPTURES: Cell<u32> = const { Cell::new(0) };
}

/// Returns an error if this thread is inside a capture.
pub(crate) fn expect_no_capture(call: &'static str) -> Result<()> {
    if CAPTURES.get() == 0 { Ok(()) } else { Err(Error::InCapture { call }) }
}

/// While it lives, its thread is inside a capture.
pub(crate) struct InCapture(());

impl InCapture {
    pub(crate) fn begin() -> Self {
        CAPTURES.set(CAPTURES.get() + 1);
        Self(())
    }
}

impl Drop for InCapture {
    fn drop(&mut self) {
        CAPTURES.set(CAPTURES.get() - 1);
    }
}
