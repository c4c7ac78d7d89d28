//! The lessons that lead to [`single_pass`](warpwright_kernels::reduce::single_pass): each CTA
//! reduces its elements to one, and the launch is repeated on the results until one is left.
//!
//! With one element per thread ([`interleaved`], [`sequential`], and the shuffles within a warp)
//! most of the time goes into starting threads and waiting at barriers. [`Step::GridStride`]
//! launches no more CTAs than fit the device, and each thread combines many elements first, so the
//! cost of the tree is negligible.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::{interleaved, sequential};
use crate::rules::expect_power_of_two_threads;
use warpwright_kernels::collective;
use warpwright_kernels::monoid::InPlace;
use warpwright_kernels::operations::{OperationError, Operations, Result, Scratch, both, expect_length};

/// A step of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// [`interleaved`]
    Interleaved,
    /// [`sequential`]
    Sequential,
    /// The last five levels of the tree, and the five before them, use shuffles.
    Shuffles,
    /// The same, after each thread has combined elements one grid apart.
    GridStride,
}

/// The reduction by `monoid`, in several launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stepwise<M> {
    /// The operation.
    pub monoid: M,
    /// The step.
    pub step: Step,
    /// Threads per CTA: a power of two from 32 to 1024.
    pub threads: u32,
}

impl<M> Stepwise<M> {
    /// Stores the combined elements of each CTA to `partials`.
    #[kernel]
    pub fn run<T: Storable>(&self, input: &Global<T>, partials: &mut Global<T>, length: u64)
    where
        M: InPlace<T>,
    {
        launch::threads(self.threads);
        let monoid = &self.monoid;
        let (thread, threads) = (thread_idx().x.convert::<u64>(), u64::from(self.threads));
        let first = block_idx().x.convert::<u64>() * threads + thread;
        let mut mine = monoid.identity();
        if self.step == Step::GridStride {
            for index in (first..length).step_by(grid_dim().x.convert::<u64>() * threads) {
                mine = monoid.accumulate(mine, input[index], index);
            }
        } else if first < length {
            mine = monoid.lift(input[first], first);
        }
        let of_block = match self.step {
            Step::Interleaved => interleaved::reduce_block(monoid, mine, self.threads),
            Step::Sequential => sequential::reduce_block(monoid, mine, self.threads),
            Step::Shuffles | Step::GridStride => collective::reduce_block(monoid, mine, self.threads),
        };
        if thread == 0u64 {
            partials[block_idx().x] = of_block;
        }
    }

    /// Combines all of `input` into `output[0]`. The error of a sum of floats is at most
    /// [`rounding_steps`](Self::rounding_steps) roundings of the sum of the magnitudes.
    ///
    /// # Errors
    /// The length of `output` is not 1, as [`check`](Self::check), there is not enough memory, or a
    /// launch failed.
    pub fn reduce<T: Storable>(
        &self,
        operations: &Operations,
        stream: &Stream,
        input: &Buffer<T>,
        output: &mut Buffer<T>,
    ) -> Result<LaunchCounts>
    where
        M: InPlace<T>,
    {
        expect_length("the result of a reduction", 1, output.len())?;
        self.check::<T>()?;
        let kernel = operations.kernel(*self, Self::run::<T>)?;
        let most = operations.resident(&kernel)?;
        let mut grids = self.grids(input.len() as u64, most);
        grids.pop();
        operations.with_scratch(stream, |Partials(partials): &mut Partials<T>| {
            partials.resize_with(grids.len().max(partials.len()), Scratch::default);
            let (mut from, mut length) = (input, input.len() as u64);
            let mut counts = LaunchCounts::default();
            for (blocks, partials) in grids.into_iter().zip(partials) {
                let grid = operations.grid("a reduction with one element per thread", blocks)?;
                let partials = partials.at_least(operations.device(), grid as usize)?;
                let launched = kernel.launch(stream, grid, (from, &mut *partials, length))?;
                counts = both(counts, launched);
                (from, length) = (partials, blocks);
            }
            Ok(both(counts, kernel.launch(stream, 1, (from, output, length))?))
        })
    }

    /// Refuses unsupported configurations.
    ///
    /// # Errors
    /// The number of threads is not a power of two from 32 to 1024, or the operation does not
    /// commute and the step requires that.
    pub fn check<T: Storable>(&self) -> Result<()>
    where
        M: InPlace<T>,
    {
        expect_power_of_two_threads("a reduction in several launches", 32, self.threads)?;
        if !M::COMMUTES && matches!(self.step, Step::Sequential | Step::GridStride) {
            let reason = "this step combines elements out of order; take Step::Shuffles".to_owned();
            return Err(OperationError::Shape { what: "a reduction that does not commute", reason });
        }
        Ok(())
    }

    /// The longest chain of combinations of an element: the error of a sum of floats is at most
    /// this many roundings of the sum of the magnitudes.
    ///
    /// # Errors
    /// As [`check`](Self::check), or the kernel cannot be built for the device.
    pub fn rounding_steps<T: Storable>(&self, operations: &Operations, length: u64) -> Result<u64>
    where
        M: InPlace<T>,
    {
        self.check::<T>()?;
        let kernel = operations.kernel(*self, Self::run::<T>)?;
        let grids = self.grids(length, operations.resident(&kernel)?);
        // The shuffles within a warp and those of the warps' results are five each, for any number
        // of elements.
        let tree = match self.step {
            Step::Interleaved | Step::Sequential => u64::from(self.threads.ilog2()),
            Step::Shuffles | Step::GridStride => 5 + 5,
        };
        let lengths = std::iter::once(length).chain(grids.iter().copied());
        let threads = u64::from(self.threads);
        Ok(lengths.zip(&grids).map(|(length, grid)| length.div_ceil(grid * threads) + tree).sum())
    }

    /// CTAs of each launch for `length` elements. Each CTA leaves one partial result, and the last
    /// launch has one CTA. With a grid stride no launch has more than `most`.
    fn grids(&self, length: u64, most: u32) -> Vec<u64> {
        let most = if self.step == Step::GridStride { u64::from(most) } else { u64::MAX };
        let mut grids = vec![length.div_ceil(self.threads.into()).clamp(1, most)];
        while let Some(left) = grids.last().copied().filter(|grid| *grid > 1) {
            grids.push(left.div_ceil(self.threads.into()).min(most));
        }
        grids
    }
}

/// Partial results of a stream's reductions, by launch.
struct Partials<T>(Vec<Scratch<T>>);

impl<T> Default for Partials<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpwright_kernels::monoid::Sum;

    /// The maximum number of elements for a grid, which no test has the memory for: the arithmetic
    /// alone.
    #[test]
    fn every_length_ends_in_one_result() {
        for step in [Step::Interleaved, Step::Sequential, Step::Shuffles, Step::GridStride] {
            for threads in [32u32, 64, 256, 1024] {
                let reduction = Stepwise { monoid: Sum, step, threads };
                let most = u64::from(threads) * ((1 << 31) - 1);
                for length in [0, 1, 31, 32, 33, 1 << 30, (1 << 30) + 1, 1 << 35, most] {
                    for resident in [1, 108, 132 * 64] {
                        let grids = reduction.grids(length, resident);
                        assert_eq!(grids.last(), Some(&1), "{step:?} of {length} by {threads}");
                        let before = std::iter::once(length).chain(grids.iter().copied());
                        for (left, grid) in before.zip(&grids) {
                            assert!(*grid < 1 << 31, "a grid holds them");
                            let covered = grid * u64::from(threads) >= left;
                            assert!(covered || step == Step::GridStride, "every element has a thread");
                        }
                    }
                }
            }
        }
    }
}
