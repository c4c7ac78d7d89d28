//! Scan: every prefix of a buffer combined, into a buffer of the same length.
//!
//! ```text
//! input       3   1   4   1   5
//! inclusive   3   4   8   9  14     output[i] = input[0] + .. + input[i]
//! exclusive   0   3   4   8   9     output[i] = input[0] + .. + input[i - 1], the identity first
//! ```
//!
//! [`single_pass`] is one kernel that reads and writes every element once: [`Operations::inclusive_scan`] and
//! [`Operations::exclusive_scan`]. The classic scans of a section and the scan in three kernels are lessons: `warpwright_lessons::scan`.

pub mod block;
pub mod look_back;
pub mod reference;
pub mod single_pass;
pub(crate) mod tile_ring;
mod workload;

use warpwright::lang::staging::Yields;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};
use warpwright_harness::OptionValue;

use crate::monoid::Monoid;
use crate::operations::{Operations, Result, expect_length};
pub(crate) use workload::ScanWorkload;

/// Whether an element's result has the element itself in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, OptionValue)]
pub enum ScanKind {
    /// It has.
    #[default]
    Inclusive,
    /// It has only those before.
    Exclusive,
}

/// Puts a value first in a queue, and drops the last.
#[device]
pub(crate) fn shift_in<V: DeviceValue + Copy + Yields<V>>(queue: &mut [V], value: V) {
    for place in (1..queue.len()).rev() {
        queue[place] = queue[place - 1];
    }
    queue[0] = value;
}

/// Drops the first value of a queue, and puts one last.
#[device]
pub(crate) fn shift_out<V: DeviceValue + Copy + Yields<V>>(queue: &mut [V], value: V) {
    for place in 1..queue.len() {
        queue[place - 1] = queue[place];
    }
    let last = queue.len() - 1;
    queue[last] = value;
}

impl Operations {
    /// `output[i]` = `input[0]` to `input[i]` combined.
    ///
    /// Operations on integers, and on floats that only choose, give the same bits every time. A scan of float sums is off by at most
    /// [`scan_rounding_steps`](Self::scan_rounding_steps) roundings of the sum of the magnitudes so far, and which of the
    /// results within that comes out depends on how far the CTAs have come.
    ///
    /// # Errors
    /// The lengths differ, the kernel cannot be built for the device, there is not enough memory, or the launch failed.
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

    /// The longest chain of combinations that leads to one of the results when [`inclusive_scan`](Self::inclusive_scan) or
    /// [`exclusive_scan`](Self::exclusive_scan) scans `length` elements of `T`: of a sum of floats, each result is off by at most this many
    /// roundings of the sum of the magnitudes up to there. What a rounding is, [`reduce_rounding_steps`](Self::reduce_rounding_steps) says.
    pub fn scan_rounding_steps<T, M>(&self, monoid: M, length: u64) -> u64
    where
        T: Storable,
        M: Monoid<T>,
    {
        let capability = self.device().properties().capability;
        single_pass::SinglePass::new::<T>(monoid, ScanKind::Inclusive, capability).rounding_steps::<T>(length)
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
        let configuration =
            single_pass::SinglePass::new::<T>(monoid, kind, self.device().properties().capability);
        single_pass::launch(self, stream, input, output, configuration)
    }
}
