//! The driver API: the functions of `libcuda.so.1`, a file for each of its chapters.

mod context;
mod device;
mod entry;
mod event;
mod graph;
mod launch;
mod memory;
mod module;
mod stream;
mod structures;
mod tensor_map;
mod unsupported;

use crate::edge::Entry;
use crate::status::{Result, Status};

pub(crate) use entry::leaked;

/// Its tables.
pub(crate) static TABLES: &[&[Entry]] = &[
    entry::TABLE,
    device::TABLE,
    context::TABLE,
    memory::TABLE,
    module::TABLE,
    launch::TABLE,
    stream::TABLE,
    event::TABLE,
    graph::TABLE,
    tensor_map::TABLE,
    unsupported::TABLE,
];

/// The status of a call of the driver API.
fn guard(name: &str, call: impl FnOnce() -> Result<()>) -> Status {
    crate::edge::guard(name, call)
}
