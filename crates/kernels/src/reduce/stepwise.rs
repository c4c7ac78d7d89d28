//! The lessons on the way to [`single_pass`](super::single_pass): each CTA reduces its elements to one, and the launch is repeated on those
//! until one is left.
//!
//! With an element a thread ([`interleaved`], [`sequential`], and [`block`]'s shuffles) most of the time goes into starting threads and
//! waiting at barriers. [`Step::GridStride`] launches no more CTAs than fit the device, and lets each thread combine many elements
//! first: what is left for the tree no longer matters.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::{block, interleaved, sequential};
use crate::monoid::InPlace;
use crate::operations::{OperationError, Operations, Result, Scratch, both, expect_length};

/// A step of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// [`interleaved`]
    Interleaved,
    /// [`sequential`]
    Sequential,
    /// [`block`]: the last five levels of the tree, and the five before them, in registers.
    Shuffles,
    /// The same after each thread has combined elements a grid apart.
    GridStride,
}

/// The reduction by `monoid`, in several launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stepwise<M> {
    /// What combines.
    pub monoid: M,
    /// How far on the way.
    pub step: Step,
    /// Threads of a CTA.
    pub threads: u32,
}

impl<M> Stepwise<M> {
    /// Leaves what each CTA's elements combine to in `partials`.
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
            Step::Shuffles | Step::GridStride => block::reduce_block(monoid, mine, self.threads),
        };
        if thread == 0u64 {
            partials[block_idx().x] = of_block;
        }
    }

    /// All of `input` combined into `output[0]`.
    ///
    /// # Errors
    /// `output` has another length than 1, the operation does not commute and the step asks for that, there is not enough memory, or a
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
        if !M::COMMUTES && matches!(self.step, Step::Sequential | Step::GridStride) {
            let reason = "this step combines elements out of order; take Step::Shuffles".to_owned();
            return Err(OperationError::Shape { what: "a reduction that does not commute", reason });
        }
        let length = input.len() as u64;
        operations.with_scratch(stream, |Partials(launches): &mut Partials<T>| {
            self.launch(operations, stream, (input, length), output, launches)
        })
    }

    /// One launch, and those that combine what it left.
    fn launch<T: Storable>(
        &self,
        operations: &Operations,
        stream: &Stream,
        (input, length): (&Buffer<T>, u64),
        output: &mut Buffer<T>,
        launches: &mut [Scratch<T>],
    ) -> Result<LaunchCounts>
    where
        M: InPlace<T>,
    {
        let kernel = operations.kernel(*self, Self::run::<T>)?;
        let mut blocks = length.div_ceil(self.threads.into()).max(1);
        if self.step == Step::GridStride {
            blocks = blocks.min(operations.resident(&kernel, self.threads)?.into());
        }
        let grid = operations.grid("a reduction with an element a thread", blocks)?;
        let Some((mine, others)) = launches.split_first_mut().filter(|_| grid > 1) else {
            return Ok(kernel.launch(stream, grid, self.threads, (input, output, length))?);
        };
        let partials = mine.at_least(operations.device(), grid as usize)?;
        let counts = kernel.launch(stream, grid, self.threads, (input, &mut *partials, length))?;
        let rest = self.launch(operations, stream, (partials, grid.into()), output, others)?;
        Ok(both(counts, rest))
    }
}

/// Partial results of a stream's reductions, by launch: after five launches with 256 threads a CTA, 2^40 elements are one.
struct Partials<T>([Scratch<T>; 5]);

impl<T> Default for Partials<T> {
    fn default() -> Self {
        Self(Default::default())
    }
}
