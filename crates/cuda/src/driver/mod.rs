//! The driver API: the functions of `libcuda.so.1`, a file for each of its chapters.

pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod entry;
pub(crate) mod event;
pub(crate) mod graph;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod stream;
pub(crate) mod structures;
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
