//! The operations for programs.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::device::ConvKernel;
use crate::columns::{MatrixColumns, VectorGrid};
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::overlap::{self, overlaps};
use crate::rows::RowElement;

/// The filter of each channel.
#[derive(Clone, Copy)]
pub struct CausalConv<'l, T> {
    /// Channels.
    pub channels: u32,
    /// Tokens that a result depends on: 2 or 4.
    pub width: u32,
    /// (channels, width): the weight of the token itself is a channel's last.
    pub weights: &'l Buffer<T>,
    /// (channels); `None`: zeros.
    pub bias: Option<&'l Buffer<T>>,
}

/// Packed sequences and their states, which are (sequences, width - 1, channels), the oldest column
/// first.
pub struct ConvSequences<'l, T> {
    /// (sequences + 1): where sequences start and, last, the number of tokens.
    pub starts: &'l Buffer<u32>,
    /// The states that sequences begin with; `None`: zeros.
    pub initial: Option<&'l Buffer<T>>,
    /// The states that sequences end with.
    pub last: &'l mut Buffer<T>,
}

/// Tokens of a thread of [`Operations::causal_conv`].
pub const RUN: u32 = 8;
/// Channels of such a thread at most. (H200, 8192 tokens of 8192 channels, bf16: 72 us with 4 channels of 8 or 16
/// tokens, 78 with 8 channels, 86 with 2; with 8 channels and 16 tokens, 101.)
const RUN_LANES: u32 = 4;

/// The operation's name in errors.
const OPERATION: &str = "a causal convolution";

impl<T: Storable> CausalConv<'_, T> {
    fn check(&self) -> Result<()> {
        let Self { channels, width, weights, bias } = *self;
        if !matches!(width, 2 | 4) {
            let reason = format!("filters of width {width}; give 2 or 4");
            return Err(OperationError::Shape { what: OPERATION, reason });
        }
        expect_length(
            "the weights of a causal convolution",
            channels as usize * width as usize,
            weights.len(),
        )?;
        match bias {
            Some(bias) => expect_length("the bias of a causal convolution", channels as usize, bias.len()),
            None => Ok(()),
        }
    }

    /// Elements of the states of that many sequences.
    fn state(&self, sequences: u32) -> usize {
        sequences as usize * (self.width as usize - 1) * self.channels as usize
    }
}

impl Operations {
    /// All `tokens` of packed sequences, which are rows of `x` and of `y`, (tokens, channels).
    ///
    /// Everything is computed in f32, and a result is rounded to `T` once.
    ///
    /// # Errors
    /// The width is neither 2 nor 4, a buffer does not have the length of the shape, there are
    /// tokens of no sequence, or the device refuses.
    pub fn causal_conv<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        conv: CausalConv<'_, T>,
        (x, tokens): (MatrixColumns<'_, T>, u32),
        sequences: ConvSequences<'_, T>,
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        self.causal_conv_by(RUN, stream, conv, (x, tokens), sequences, y)
    }

    /// As [`causal_conv`](Self::causal_conv), with threads of `run` tokens each.
    pub fn causal_conv_by<T: RowElement + Storable>(
        &self,
        run: u32,
        stream: &Stream,
        conv: CausalConv<'_, T>,
        (x, tokens): (MatrixColumns<'_, T>, u32),
        sequences: ConvSequences<'_, T>,
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        conv.check()?;
        let ConvSequences { starts, initial, last } = sequences;
        let refuse = |reason| Err(OperationError::Shape { what: OPERATION, reason });
        let Ok(sequences) = u32::try_from(starts.len().saturating_sub(1)) else {
            return refuse(format!("{} starts of sequences are too many", starts.len()));
        };
        if sequences == 0 && tokens > 0 {
            return refuse(format!("{tokens} tokens are of no sequence; pass where sequences start and end"));
        }
        x.check("x of a causal convolution", (tokens, conv.channels))?;
        let state = conv.state(sequences);
        let initial_length = initial.map_or(state, Buffer::len);
        expect_length("the initial states of a causal convolution", state, initial_length)?;
        expect_length("the last states of a causal convolution", state, last.len())?;
        let results = tokens as usize * conv.channels as usize;
        expect_length("the output of a causal convolution", results, y.len())?;
        if state == 0 {
            return Ok(LaunchCounts::default());
        }
        let CausalConv { channels, width, bias, .. } = conv;
        let grid = VectorGrid::new::<T>(channels, &[x.extents()], 1);
        let grid = VectorGrid { lanes: grid.lanes.min(RUN_LANES), ..grid };
        let (has_bias, has_initial, overlaps) = (bias.is_some(), initial.is_some(), overlaps(self));
        let runs = ConvKernel { grid, width, has_bias, has_initial, run, overlaps };
        let kernel = self.kernel(runs, ConvKernel::run::<T>)?;
        let grid_rows = sequences.saturating_add(tokens.div_ceil(run));
        let ctas = runs.grid.grid(self, OPERATION, grid_rows)?;
        let bias = bias.unwrap_or(conv.weights);
        let initial = initial.unwrap_or(conv.weights);
        let inputs = (x.buffer, conv.weights, bias, starts, initial);
        let arguments =
            (inputs.0, inputs.1, inputs.2, inputs.3, inputs.4, last, y, x.extents(), tokens, sequences);
        let launch = overlap::shape(kernel.shape(ctas), runs.overlaps);
        Ok(kernel.launch(stream, launch, arguments)?)
    }
}
