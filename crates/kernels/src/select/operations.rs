//! The operations.

use warpwright::lang::comparison::Equatable;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::single_pass::{Predicate, Select, Selector};
use crate::operations::{OperationError, Operations, Result, Scratch, expect_length};

/// The predicate of selections by flags or neighbors, which is not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unused;

impl<T: Element> Predicate<T> for Unused {
    fn selects(&self, _element: Reg<T>) -> Reg<bool> {
        constant(0u32).eq(0u32)
    }
}

/// The workspace of a stream's selections.
#[derive(Default)]
struct SelectScratch {
    counter: Scratch<u64>,
    words: Scratch<u64>,
    no_flags: Scratch<u8>,
}

/// The results of a selection.
struct Selected<'a, T> {
    output: &'a mut Buffer<T>,
    count: &'a mut Buffer<u64>,
}

impl Operations {
    /// Writes the elements of `input` that satisfy `predicate`, in order, to the start of `output`,
    /// and their number to `count[0]`. The rest of `output` is unchanged.
    ///
    /// # Errors
    /// `output` is shorter than `input`, `count` has another length than 1, or the launch failed.
    pub fn select_if<T, P>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        output: &mut Buffer<T>,
        count: &mut Buffer<u64>,
        predicate: P,
    ) -> Result<LaunchCounts>
    where
        T: Storable + Equatable,
        P: Predicate<T>,
    {
        self.select(stream, input, None, Selected { output, count }, Selector::If(predicate))
    }

    /// As [`select_if`](Self::select_if), for the elements whose flag is not 0.
    ///
    /// # Errors
    /// `flags` has another length than `input`, or as [`select_if`](Self::select_if).
    pub fn select_flagged<T: Storable + Equatable>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        flags: &Buffer<u8>,
        output: &mut Buffer<T>,
        count: &mut Buffer<u64>,
    ) -> Result<LaunchCounts> {
        expect_length("the buffer of a selection's flags", input.len(), flags.len())?;
        self.select(stream, input, Some(flags), Selected { output, count }, Selector::<Unused>::Flagged)
    }

    /// As [`select_if`](Self::select_if), for the first element of each run of equal ones. NaN
    /// equals nothing, and -0 equals +0.
    ///
    /// # Errors
    /// As [`select_if`](Self::select_if).
    pub fn unique<T: Storable + Equatable>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        output: &mut Buffer<T>,
        count: &mut Buffer<u64>,
    ) -> Result<LaunchCounts> {
        self.select(stream, input, None, Selected { output, count }, Selector::<Unused>::Changed)
    }

    fn select<T, P>(
        &self,
        stream: &Stream,
        input: &Buffer<T>,
        flags: Option<&Buffer<u8>>,
        selected: Selected<'_, T>,
        selector: Selector<P>,
    ) -> Result<LaunchCounts>
    where
        T: Storable + Equatable,
        P: Predicate<T>,
    {
        expect_length("the count of a selection", 1, selected.count.len())?;
        if selected.output.len() < input.len() {
            let (expected, given) = (input.len(), selected.output.len());
            return Err(OperationError::Length { what: "the output of a selection", expected, given });
        }
        if input.is_empty() {
            stream.fill_zero(selected.count)?;
            return Ok(LaunchCounts::default());
        }
        let Selected { output, count } = selected;
        let configuration = Select::new::<T>(selector, self.device().properties().capability);
        let kernel = self.kernel(configuration, Select::<P>::run::<T>)?;
        let tiles = input.len().div_ceil(configuration.tile() as usize);
        let grid = self.persistent_grid("a selection", &kernel, tiles as u64, configuration.held())?;
        self.with_scratch(stream, |scratch: &mut SelectScratch| {
            let counter = scratch.counter.at_least_kept(stream, 1)?;
            let words = scratch.words.at_least_kept(stream, tiles)?;
            let flags = match flags {
                Some(flags) => flags,
                None => scratch.no_flags.at_least(self.device(), 1)?,
            };
            let arguments = (input, flags, output, count, counter, words, input.len() as u64);
            Ok(kernel.launch(stream, grid, arguments)?)
        })
    }
}
