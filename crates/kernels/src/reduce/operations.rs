//! The operations.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::single_pass;
use crate::monoid::{ArgMax, ArgMin, Monoid, Searchable};
use crate::operations::{OperationError, Operations, Result, expect_length};

impl Operations {
    /// All elements of `input` combined; of none, the identity. The result is a buffer of one
    /// element.
    ///
    /// Elements are combined in an order that depends on the device and the length alone, so the
    /// same call gives the same bits. A sum of floats is off by at most
    /// [`reduce_rounding_steps`](Self::reduce_rounding_steps) roundings of the sum of the
    /// magnitudes.
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

    /// The longest chain of combinations that an element goes through when [`reduce`](Self::reduce)
    /// combines `length` elements of `T`: a sum of floats is off by at most this many roundings of
    /// the sum of the magnitudes.
    ///
    /// A rounding is 2^-24 of what is rounded where floats add in `f32`, which 16-bit floats do,
    /// and 2^-53 in `f64`; a 16-bit result is rounded once more, by 2^-11 of it (`f16`) or 2^-8
    /// (`bf16`).
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::monoid::Sum;
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let numbers: Vec<f32> = (1..=1000).map(|number| 1.0 / number as f32).collect();
    /// let sum = operations.reduce(&stream, &device.buffer_from(&numbers)?, Sum)?.to_vec()?[0];
    /// let magnitudes: f64 = numbers.iter().map(|number| f64::from(number.abs())).sum();
    /// let steps = operations.reduce_rounding_steps::<f32, _>(Sum, 1000)?;
    /// let exact: f64 = numbers.iter().map(|number| f64::from(*number)).sum();
    /// assert!((f64::from(sum) - exact).abs() <= steps as f64 * 2f64.powi(-24) * magnitudes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The kernel cannot be built for the device.
    pub fn reduce_rounding_steps<T, M>(&self, monoid: M, length: u64) -> Result<u64>
    where
        T: Storable,
        M: Monoid<T>,
    {
        let configuration = single_pass::SinglePass::new(monoid, self.device().properties().capability);
        let grid = single_pass::grid_of::<T, M>(self, &configuration, length)?;
        Ok(configuration.rounding_steps::<T>(length, grid))
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

    /// The index of the first largest element, in a buffer of one element. NaN is larger than all
    /// numbers.
    ///
    /// # Errors
    /// `input` is empty, or as [`reduce`](Self::reduce).
    pub fn argmax<T: Searchable>(&self, stream: &Stream, input: &Buffer<T>) -> Result<Buffer<u64>> {
        refuse_empty("the index of the largest", input)?;
        self.reduce(stream, input, ArgMax)
    }

    /// The index of the first smallest element, in a buffer of one element. NaN is smaller than all
    /// numbers.
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
