//! The launch of a scan.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::super::device::look_back::persistent_grid;
use super::super::device::single_pass::SinglePass;
use crate::monoid::Monoid;
use crate::operations::{OperationError, Operations, Result, Scratch};

/// The workspace of a stream's look-backs.
#[derive(Default)]
struct LookBackScratch {
    counter: Scratch<u64>,
    words: Scratch<u64>,
    records: Scratch<u64>,
}

/// Scans `input` into `output`, which has the same length.
pub(super) fn launch<T: Storable, M: Monoid<T>>(
    operations: &Operations,
    stream: &Stream,
    input: &Buffer<T>,
    output: &mut Buffer<M::Output>,
    configuration: SinglePass<M>,
) -> Result<LaunchCounts> {
    let length = input.len() as u64;
    if length == 0 {
        return Ok(LaunchCounts::default());
    }
    let kernel = operations.kernel(configuration, SinglePass::<M>::run::<T>)?;
    let tiles = length.div_ceil(configuration.tile::<T>().into());
    let resident = operations.resident(&kernel)?;
    let grid =
        persistent_grid(tiles, resident, configuration.held()).ok_or_else(|| OperationError::Shape {
            what: "a scan",
            reason: format!("{length} elements are more than 2^32 tiles; scan them in parts"),
        })?;
    operations.with_scratch(stream, |scratch: &mut LookBackScratch| {
        let record_bytes = record_bytes(|| configuration.monoid.identity());
        let record_words = (tiles * record_bytes).div_ceil(8) as usize;
        let counter = scratch.counter.at_least_kept(stream, 1)?;
        let words = scratch.words.at_least_kept(stream, tiles as usize)?;
        let records = scratch.records.at_least(operations.device(), record_words)?;
        let arguments = (input, output, counter, words, records, length);
        Ok(kernel.launch(stream, grid, arguments)?)
    })
}
