//! The operations.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::single_pass::{ScanKind, SinglePass};
use crate::monoid::Monoid;
use crate::operations::{Operations, Result, Scratch, expect_length};

/// The workspace of a stream's scans.
#[derive(Default)]
struct LookBackScratch {
    counter: Scratch<u64>,
    words: Scratch<u64>,
    records: Scratch<u64>,
}

impl Operations {
    /// `output[i]` = `input[0]` to `input[i]` combined.
    ///
    /// Operations on integers, and on floats that only choose, give the same bits every time. A
    /// scan of float sums is off by at most [`scan_rounding_steps`](Self::scan_rounding_steps)
    /// roundings of the sum of the magnitudes so far, and which of the results within that comes
    /// out depends on how far the CTAs have come.
    ///
    /// # Errors
    /// The lengths differ, the kernel cannot be built for the device, there is not enough memory,
    /// or the launch failed.
    pub fn inclusive_scan<T, M>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        output: &mut Buffer<M::Output>,
        monoid: M,
    ) -> Result<LaunchCounts>
    where
        T: Storable,
        M: Monoid<T>,
    {
        self.scan(stream, input, output, monoid, ScanKind::Inclusive)
    }

    /// `output[i]` = `input[0]` to `input[i - 1]` combined; `output[0]` is the identity.
    ///
    /// # Errors
    /// As [`inclusive_scan`](Self::inclusive_scan).
    pub fn exclusive_scan<T, M>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        output: &mut Buffer<M::Output>,
        monoid: M,
    ) -> Result<LaunchCounts>
    where
        T: Storable,
        M: Monoid<T>,
    {
        self.scan(stream, input, output, monoid, ScanKind::Exclusive)
    }

    /// The longest chain of combinations that leads to one of the results when
    /// [`inclusive_scan`](Self::inclusive_scan) or [`exclusive_scan`](Self::exclusive_scan) scans
    /// `length` elements of `T`: of a sum of floats, each result is off by at most this many
    /// roundings of the sum of the magnitudes up to there. What a rounding is,
    /// [`reduce_rounding_steps`](Self::reduce_rounding_steps) says.
    pub fn scan_rounding_steps<T, M>(&self, monoid: M, length: u64) -> u64
    where
        T: Storable,
        M: Monoid<T>,
    {
        let capability = self.device().properties().capability;
        SinglePass::new::<T>(monoid, ScanKind::Inclusive, capability).rounding_steps::<T>(length)
    }

    fn scan<T, M>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        output: &mut Buffer<M::Output>,
        monoid: M,
        kind: ScanKind,
    ) -> Result<LaunchCounts>
    where
        T: Storable,
        M: Monoid<T>,
    {
        expect_length("the output of a scan", input.len(), output.len())?;
        let length = input.len() as u64;
        if length == 0 {
            return Ok(LaunchCounts::default());
        }
        let configuration = SinglePass::new::<T>(monoid, kind, self.device().properties().capability);
        let kernel = self.kernel(configuration, SinglePass::<M>::run::<T>)?;
        let tiles = length.div_ceil(configuration.tile::<T>().into());
        let grid = self.persistent_grid("a scan", &kernel, tiles, configuration.held())?;
        self.with_scratch(stream, |scratch: &mut LookBackScratch| {
            let record_bytes = record_bytes(|| monoid.identity());
            let record_words = (tiles * record_bytes).div_ceil(8) as usize;
            let counter = scratch.counter.at_least_kept(stream, 1)?;
            let words = scratch.words.at_least_kept(stream, tiles as usize)?;
            let records = scratch.records.at_least(self.device(), record_words)?;
            Ok(kernel.launch(stream, grid, (input, output, counter, words, records, length))?)
        })
    }
}
