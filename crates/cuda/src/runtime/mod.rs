//! The runtime API: the functions of `libcudart.so`, a file for each of its chapters, most of them over the driver's.

mod device;
mod error;
mod event;
mod execution;
mod graph;
mod memory;
mod properties;
mod registry;
mod stream;
mod symbol;
mod unsupported;

use crate::context::{Context, current_or_none, set_current};
use crate::edge::Entry;
use crate::machine::initialize;
use crate::status::{Result, Status};

/// Its tables.
pub(crate) static TABLES: &[&[Entry]] = &[
    error::QUIET,
    error::TABLE,
    device::TABLE,
    event::TABLE,
    execution::TABLE,
    graph::TABLE,
    memory::TABLE,
    registry::TABLE,
    stream::TABLE,
    symbol::TABLE,
    unsupported::TABLE,
];

/// The context of the thread, which is the primary one unless the program made another one current.
fn context() -> Result<&'static Context> {
    initialize()?;
    if let Some(context) = current_or_none()? {
        return Ok(context);
    }
    let primary = Context::primary();
    if primary.retained.load(std::sync::atomic::Ordering::Acquire) == 0 {
        primary.retained.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
    }
    set_current(Some(primary));
    Ok(primary)
}

/// The status of a call of the runtime API, which the thread remembers.
fn guard(name: &str, call: impl FnOnce() -> Result<()>) -> Status {
    let status = crate::edge::guard(name, || {
        context()?;
        call()
    });
    error::remember(status);
    status
}
