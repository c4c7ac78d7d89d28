//! Reduction: all elements of a buffer combined into one.
//!
//! Five kernels compute the same, each a step on the way to the speed of memory:
//!
//! | File | What it teaches |
//! |---|---|
//! | [`interleaved`] | a tree in shared memory; most of each warp idles, and lanes meet in banks |
//! | [`sequential`] | the same tree with the working threads side by side |
//! | [`block`] | the tree in registers, by warp shuffles |
//! | [`stepwise`] | threads that combine many elements before the tree begins |
//! | [`single_pass`] | 16 bytes a load, many loads on their way at once, and one launch: the last CTA to finish combines the rest |
//!
//! [`Operations::reduce`] is the last one.

pub mod block;
pub mod interleaved;
pub(crate) mod library;
pub mod sequential;
pub mod single_pass;
pub mod stepwise;

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use crate::monoid::{ArgMax, ArgMin, Monoid, Searchable};
use crate::operations::{OperationError, Operations, Result, expect_length};

impl Operations {
    /// All elements of `input` combined; of none, the identity. The result is a buffer of one element.
    ///
    /// Elements are combined in an order that depends on the device and the length alone, so the same call gives the same
    /// bits. A sum of floats is off by at most [`rounding_steps`](single_pass::SinglePass::rounding_steps) roundings of the sum of
    /// the magnitudes.
    ///
    /// # Errors
    /// The kernel cannot be built for the device, there is not enough memory, or the launch failed.
    pub fn reduce<T, M>(&self, stream: &Stream, input: &Buffer<T>, monoid: M) -> Result<Buffer<M::Output>>
    where
        T: Storable,
        M: Monoid<T>,
    {
        let mut output = self.device().uninitialized(1)?;
        self.reduce_into(stream, input, &mut output, monoid)?;
        Ok(output)
    }

    /// As [`reduce`](Self::reduce), into a buffer of one element that there is.
    ///
    /// # Errors
    /// `output` has another length, or as [`reduce`](Self::reduce).
    pub fn reduce_into<T, M>(
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
        expect_length("the result of a reduction", 1, output.len())?;
        let configuration = single_pass::SinglePass::new(monoid, self.device().properties().capability);
        single_pass::launch(self, stream, input, output, configuration)
    }

    /// The index of the first largest element, in a buffer of one element. NaN is larger than all numbers.
    ///
    /// # Errors
    /// `input` is empty, or as [`reduce`](Self::reduce).
    pub fn argmax<T: Searchable>(&self, stream: &Stream, input: &Buffer<T>) -> Result<Buffer<u64>> {
        refuse_empty("the index of the largest", input)?;
        self.reduce(stream, input, ArgMax)
    }

    /// The index of the first smallest element, in a buffer of one element. NaN is smaller than all numbers.
    ///
    /// # Errors
    /// `input` is empty, or as [`reduce`](Self::reduce).
    pub fn argmin<T: Searchable>(&self, stream: &Stream, input: &Buffer<T>) -> Result<Buffer<u64>> {
        refuse_empty("the index of the smallest", input)?;
        self.reduce(stream, input, ArgMin)
    }
}

fn refuse_empty<T: Storable>(what: &'static str, input: &Buffer<T>) -> Result<()> {
    if input.is_empty() { Err(OperationError::Empty { what }) } else { Ok(()) }
}
