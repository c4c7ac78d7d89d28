//! Elementwise operations for programs.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::kernels::{Copy, Map, Walk, Zip};
use crate::operations::{OperationError, Operations, Result, expect_length};

/// The grid of a walk over `length` elements.
pub fn grid<T: Storable>(walk: Walk, length: u64) -> Result<u32> {
    let reason = |_| format!("{length} elements take more CTAs than a grid has; do them in parts");
    let grid = walk.grid::<T>(length).map_err(reason);
    grid.map_err(|reason| OperationError::Shape { what: "an elementwise operation", reason })
}

impl Operations {
    /// to = from.
    ///
    /// # Errors
    /// The lengths differ, or the device refuses.
    pub fn copy<T: Storable>(
        &self,
        stream: &Stream,
        from: &Buffer<T>,
        to: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        expect_length("the target of a copy", from.len(), to.len())?;
        if from.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let (walk, length) = (Walk::FASTEST, from.len());
        let kernel = self.kernel(Copy { walk }, Copy::run::<T>)?;
        Ok(kernel.launch(stream, grid::<T>(walk, length as u64)?, (from, to, length as u64))?)
    }

    /// to = f(from), elementwise. `function` is staged: it gets a device value and returns one, and
    /// captures nothing.
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let x = device.buffer_from(&[1.0f32, 4.0, 9.0])?;
    /// let mut y = device.uninitialized(3)?;
    /// operations.map(&stream, &x, &mut y, |x| x.sqrt() + 1.0)?;
    /// assert_eq!(y.to_vec()?, [2.0, 3.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The lengths differ, or the device refuses.
    pub fn map<T, F>(
        &self,
        stream: &Stream,
        from: &Buffer<T>,
        to: &mut Buffer<T>,
        function: F,
    ) -> Result<LaunchCounts>
    where
        T: Storable,
        F: Fn(Reg<T>) -> Reg<T> + std::marker::Copy + 'static,
    {
        expect_length("the result of a map", from.len(), to.len())?;
        if from.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let (walk, length) = (Walk::FASTEST, from.len());
        let kernel = self.kernel(walk, move |walk: &Walk| Map { walk: *walk, function }.run::<T>())?;
        Ok(kernel.launch(stream, grid::<T>(walk, length as u64)?, (from, to, length as u64))?)
    }

    /// to = f(a, b), elementwise. `function` is staged, as for [`map`](Self::map).
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let (a, b) = (device.buffer_from(&[1.0f32, 2.0])?, device.buffer_from(&[10.0f32, 20.0])?);
    /// let mut sums = device.uninitialized(2)?;
    /// operations.zip(&stream, &a, &b, &mut sums, |a, b| a + b)?;
    /// assert_eq!(sums.to_vec()?, [11.0, 22.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The lengths differ, or the device refuses.
    pub fn zip<T, F>(
        &self,
        stream: &Stream,
        a: &Buffer<T>,
        b: &Buffer<T>,
        to: &mut Buffer<T>,
        function: F,
    ) -> Result<LaunchCounts>
    where
        T: Storable,
        F: Fn(Reg<T>, Reg<T>) -> Reg<T> + std::marker::Copy + 'static,
    {
        expect_length("the second operand", a.len(), b.len())?;
        expect_length("the result", a.len(), to.len())?;
        if a.is_empty() {
            return Ok(LaunchCounts::default());
        }
        let (walk, length) = (Walk::FASTEST, a.len());
        let kernel = self.kernel(walk, move |walk: &Walk| Zip { walk: *walk, function }.run::<T>())?;
        Ok(kernel.launch(stream, grid::<T>(walk, length as u64)?, (a, b, to, length as u64))?)
    }
}
