//! Causal convolution and SiLU of packed sequences whose states are in slots: a thread for each
//! channel of each sequence.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::{Operations, Result};

use super::overlap::{self, overlaps};
use super::sequences::{SequenceInputs, Sequences};
use crate::number::Number;

/// The convolution of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotConv {
    pub(crate) channels: u32,
    /// Columns that a result depends on.
    pub(crate) width: u32,
}

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ConvKernel {
    conv: SlotConv,
    overlaps: bool,
}

/// Threads of a CTA.
const THREADS: u32 = 128;

impl ConvKernel {
    /// `x` has rows of `stride` elements, `state` is (slots, width - 1, channels), `y` (tokens, channels).
    #[kernel]
    fn run<T: Number>(
        &self,
        x: &Global<T>,
        weights: &Global<T>,
        sequences: SequenceInputs,
        state: &mut Global<T>,
        y: &mut Global<T>,
        stride: u32,
    ) {
        launch::threads(THREADS);
        let SlotConv { channels, width } = self.conv;
        let channel = block_idx().x * THREADS + thread_idx().x;
        let (start, end) = sequences.tokens(block_idx().y);
        if channel < channels && start < end {
            let filter: Vec<Reg<f32>> = (0..width)
                .map(|column| weights.at(channel * width + column).load().convert::<f32>())
                .collect();
            overlap::wait(self.overlaps);
            overlap::launch(self.overlaps);
            let (initial, has_zeros) = sequences.initial(block_idx().y);
            let of_slot = |slot: Reg<u32>| state.at(slot.mul_wide((width - 1) * channels)).at(channel);
            let before = of_slot(initial);
            let mut window: Vec<Reg<f32>> = (0..width - 1)
                .map(|column| {
                    let before = before.at(column * channels).load().convert::<f32>();
                    has_zeros.select(constant(0f32), before)
                })
                .collect();
            window.push(constant(0f32));
            for token in start..end {
                let newest = x.at(token.mul_wide(stride)).at(channel).load().convert::<f32>();
                window[width as usize - 1] = newest;
                let sum = window.iter().zip(&filter).fold(constant(0f32), |sum, (x, w)| x.mul_add(*w, sum));
                y.at(token.mul_wide(channels)).at(channel).store(sum.silu().convert::<T>());
                window = (0..width as usize)
                    .map(|column| window[(column + 1).min(width as usize - 1)])
                    .collect::<Vec<_>>();
            }
            let after = of_slot(sequences.slot(block_idx().y));
            for column in 0..width - 1 {
                after.at(column * channels).store(window[column as usize].convert::<T>());
            }
        }
    }
}

impl SlotConv {
    /// Convolves the columns of `x` from 0 on.
    pub(crate) fn launch<T: Number>(
        self,
        (operations, stream): (&Operations, &Stream),
        (x, stride): (&Buffer<T>, u32),
        weights: &Buffer<T>,
        sequences: Sequences<'_>,
        state: &mut Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<()> {
        let overlaps = overlaps(operations);
        let kernel = operations.kernel(ConvKernel { conv: self, overlaps }, ConvKernel::run::<T>)?;
        let grid = (self.channels.div_ceil(THREADS), sequences.slots.len() as u32);
        kernel.launch(
            stream,
            overlap::shape(kernel.shape(grid), overlaps),
            (x, weights, sequences.inputs(), state, y, stride),
        )?;
        Ok(())
    }
}
