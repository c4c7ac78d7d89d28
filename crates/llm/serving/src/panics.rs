//! Panics of libraries, which a corrupt file or a request can cause.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is the caller's to report.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// What a library returns, or nothing if it panics. The panic is not printed: what the caller says of it is.
pub(crate) fn caught<V>(call: impl FnOnce() -> V) -> Option<V> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                others(panic);
            }
        }));
    });
    let before = IS_CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_CAUGHT.set(before);
    result.ok()
}
