//! Shapes, buffers, and what is refused.

use warpwright::runtime::{Buffer, Storable};

use crate::columns::MatrixColumns;
use crate::operations::{OperationError, Result, expect_length};

/// The operation's name in errors.
pub(super) const OPERATION: &str = "a decode of the gated delta rule";
/// Elements of a key at most: a thread has a column of the state.
const MAX_KEY_DIM: u32 = 128;
/// Elements of a value at most: a thread each.
const MAX_VALUE_DIM: u32 = 1024;
/// Sequences at most: they are an extent of a grid.
const MAX_SEQUENCES: usize = 65_535;

/// The heads of a layer. Value head j uses the query and the key of key head j / (`value_heads` / `key_heads`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeShape {
    /// Heads of queries and of keys.
    pub key_heads: u32,
    /// Heads of values: a multiple of `key_heads`. Each has a state.
    pub value_heads: u32,
    /// Elements of a query or a key, up to 128.
    pub key_dim: u32,
    /// Elements of a value, up to 1024.
    pub value_dim: u32,
    /// Tokens that a result of the convolution depends on, from 2.
    pub width: u32,
}

impl DecodeShape {
    /// Elements of a token's queries, keys and values.
    pub fn columns(&self) -> u32 {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Elements of a convolution's state: (width - 1, columns).
    pub fn conv_state(&self) -> usize {
        (self.width as usize - 1) * self.columns() as usize
    }

    /// Elements of a state: (value heads, key_dim, value_dim).
    pub fn state(&self) -> usize {
        self.value_heads as usize * self.key_dim as usize * self.value_dim as usize
    }

    /// Value heads of a key head.
    pub(super) fn group(&self) -> u32 {
        self.value_heads / self.key_heads
    }

    fn check(&self) -> Result<()> {
        let Self { key_heads, value_heads, key_dim, value_dim, width } = *self;
        let refuse = |reason| Err(OperationError::Shape { what: OPERATION, reason });
        if key_heads == 0
            || value_heads == 0
            || !value_heads.is_multiple_of(key_heads)
            || value_heads > 1 << 10
        {
            return refuse(format!(
                "{value_heads} value heads cannot share {key_heads} key heads equally; pass 1 to 1024 value heads, a multiple of the key heads"
            ));
        }
        if !(1..=MAX_KEY_DIM).contains(&key_dim) || !(1..=MAX_VALUE_DIM).contains(&value_dim) {
            return refuse(format!(
                "keys of {key_dim} elements and values of {value_dim}; pass 1 to {MAX_KEY_DIM} and 1 to {MAX_VALUE_DIM}"
            ));
        }
        if width < 2 {
            return refuse(format!("a convolution of {width} tokens; pass 2 or more"));
        }
        Ok(())
    }
}

/// The sequences of a step, and the slots of their states.
#[derive(Clone, Copy)]
pub struct Sequences<'l> {
    /// (sequences + 1): where each begins, and the number of tokens.
    pub starts: &'l Buffer<u32>,
    /// (sequences): the token after the last one of each that counts.
    pub ends: &'l Buffer<u32>,
    /// (sequences): the slot of the state that each begins with; -1 for zeros.
    pub initial: &'l Buffer<i32>,
    /// (sequences): the slot of the state after its last token.
    pub slots: &'l Buffer<u32>,
    /// Whether each has one token, the one of its number.
    pub one_token: bool,
    /// Whether what writes these buffers, the states, filters and gains is complete when the kernel is
    /// launched. The kernel then reads them before its predecessor on the stream ends.
    pub settled: bool,
}

/// The buffers of a call.
pub struct DecodeBuffers<'l, T, S> {
    /// A projection of rows of `stride` elements, of which the first columns are [queries | keys | values].
    pub x: &'l Buffer<T>,
    /// Elements from row to row of `x`.
    pub stride: u32,
    /// (columns, width): the filters of the convolution, of which the token's own weight is the last.
    pub conv_weights: &'l Buffer<T>,
    /// (tokens, value heads, value_dim): the gate of the output.
    pub z: MatrixColumns<'l, T>,
    /// Rows with b and a of each value head: β = sigmoid(b), g = -exp(a_log) · softplus(a + dt_bias).
    pub gates: &'l Buffer<T>,
    /// The first columns of b and of a, and elements from row to row.
    pub gate_columns: [u32; 3],
    /// (value heads): the logarithm of the decay's rate.
    pub a_log: &'l Buffer<f32>,
    /// (value heads): what is added to `a`.
    pub dt_bias: &'l Buffer<f32>,
    /// (value_dim): the weights of the norm.
    pub norm: &'l Buffer<f32>,
    /// Is added to the mean of squares.
    pub epsilon: f32,
    /// (slots, width - 1, columns): the tokens before, the oldest first.
    pub conv_states: &'l mut Buffer<T>,
    /// (slots, value heads, key_dim, value_dim).
    pub states: &'l mut Buffer<S>,
    /// (tokens, value heads, value_dim).
    pub y: &'l mut Buffer<T>,
}

impl<T: Storable, S: Storable> DecodeBuffers<'_, T, S> {
    /// Refuses buffers that the shape and the sequences do not have. Returns the number of sequences.
    pub(super) fn check(&self, shape: &DecodeShape, sequences: &Sequences<'_>) -> Result<u32> {
        shape.check()?;
        let values = shape.value_heads * shape.value_dim;
        let count = sequences.slots.len();
        expect_length("the starts of sequences", count + 1, sequences.starts.len())?;
        expect_length("the ends of sequences", count, sequences.ends.len())?;
        expect_length("the initial slots of sequences", count, sequences.initial.len())?;
        if count > MAX_SEQUENCES {
            let reason = format!("{count} sequences are more than {MAX_SEQUENCES}; pass them in parts");
            return Err(OperationError::Shape { what: OPERATION, reason });
        }
        let tokens = self.y.len() / values as usize;
        expect_length(
            "the output of a decode of the gated delta rule",
            tokens * values as usize,
            self.y.len(),
        )?;
        if sequences.one_token {
            expect_length("the tokens of a decode of the gated delta rule", count, tokens)?;
        }
        let rows = u32::try_from(tokens).map_err(|_| OperationError::Shape {
            what: OPERATION,
            reason: format!("{tokens} tokens are 2^32 or more; pass them in parts"),
        })?;
        let [of_b, of_a, stride] = self.gate_columns;
        let columns = |buffer, offset, stride| MatrixColumns { buffer, offset, stride };
        columns(self.x, 0, self.stride)
            .check("the projection of the gated delta rule", (rows, shape.columns()))?;
        self.z.check("z of the gated delta rule", (rows, values))?;
        columns(self.gates, of_b, stride).check("b of the gated delta rule", (rows, shape.value_heads))?;
        columns(self.gates, of_a, stride).check("a of the gated delta rule", (rows, shape.value_heads))?;
        let filters = shape.columns() as usize * shape.width as usize;
        expect_length("the filters of the convolution", filters, self.conv_weights.len())?;
        expect_length("a_log of the gated delta rule", shape.value_heads as usize, self.a_log.len())?;
        expect_length("dt_bias of the gated delta rule", shape.value_heads as usize, self.dt_bias.len())?;
        expect_length("the norm of the gated delta rule", shape.value_dim as usize, self.norm.len())?;
        let slots = self.states.len() / shape.state();
        expect_length("the states of the gated delta rule", slots * shape.state(), self.states.len())?;
        expect_length("the states of the convolution", slots * shape.conv_state(), self.conv_states.len())?;
        Ok(count as u32)
    }
}
