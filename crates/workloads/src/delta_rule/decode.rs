//! The decode as a workload.

use rayon::prelude::*;
use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Result, Setup, Values, Work, Workload, compare, data_types,
};

use super::decode_reference::Layer;
use super::{StateType, with_state_type};
use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::delta_rule::decode::{Algorithm, DecodeBuffers, DecodeShape, Sequences};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;

data_types! {
    /// Types of tokens.
    pub(crate) enum TokenType by with_token_type { bf16, f16, f32 }
}

/// Causal convolution, gated delta rule and gated RMSNorm of a token of each sequence.
#[derive(Clone, Debug, Options)]
pub(crate) struct DeltaRuleDecodeWorkload {
    /// Heads of queries and keys.
    #[option(default = 1, min = 1, max = 1 << 8)]
    key_heads: u32,
    /// Heads of values: a multiple of the key heads.
    #[option(default = 2, min = 1, max = 1 << 8)]
    value_heads: u32,
    /// Elements of a query or a key.
    #[option(default = 128, max = 1 << 10)]
    key_dim: u32,
    /// Elements of a value.
    #[option(default = 128, max = 1 << 11)]
    value_dim: u32,
    /// Tokens that a result of the convolution depends on.
    #[option(default = 4, max = 1 << 8)]
    width: u32,
    /// Sequences.
    #[option(default = 3, max = 1 << 10)]
    sequences: u32,
    /// Tokens of a sequence; of every third one, the last does not count.
    #[option(default = 1, min = 1, max = 1 << 16)]
    tokens: u32,
    /// Data type of tokens, filters and results.
    #[option(name = "type")]
    element: TokenType,
    /// Data type of the states.
    state: StateType,
    /// The kernel.
    algorithm: Option<Algorithm>,
    /// Write a state to the slot that it was read from, so that each launch continues the one before.
    in_place: bool,
    /// States and slots that the predecessor on the stream may write: read none before it ends.
    fresh_states: bool,
}

const EPSILON: f32 = 1e-6;
/// What the seeds of the states differ by.
const CONV_STATES: u64 = 6;
const STATES: u64 = 7;

/// The buffers of a launch.
struct Set<T, S> {
    x: Buffer<T>,
    conv_weights: Buffer<T>,
    rates: [Buffer<f32>; 2],
    norm: Buffer<f32>,
    conv_states: Buffer<T>,
    states: Buffer<S>,
    y: Buffer<T>,
    seed: u64,
    launches: usize,
}

impl DeltaRuleDecodeWorkload {
    fn shape(&self) -> DecodeShape {
        let Self { key_heads, value_heads, key_dim, value_dim, width, .. } = *self;
        DecodeShape { key_heads, value_heads, key_dim, value_dim, width }
    }

    /// Elements of a row [q | k | v | z | b | a].
    fn stride(&self) -> u32 {
        let values = self.value_heads * self.value_dim;
        (self.shape().columns() + values + 2 * self.value_heads).next_multiple_of(8)
    }

    /// The slot that a sequence begins with; `None`: zeros. The slots after them are the ones of results.
    fn initial(&self, sequence: u32) -> Option<u32> {
        (sequence % 3 != 1).then_some(sequence)
    }

    /// The slot of a sequence's result.
    fn slot(&self, sequence: u32) -> u32 {
        if self.in_place { sequence } else { 2 * self.sequences - 1 - sequence }
    }

    /// The tokens of a sequence that count.
    fn counted(&self, sequence: u32) -> std::ops::Range<usize> {
        let start = sequence * self.tokens;
        let is_short = self.tokens > 1 && sequence % 3 == 2;
        start as usize..(start + self.tokens - u32::from(is_short)) as usize
    }

    /// Elements of all slots of the convolution and of the rule. One slot is of no sequence.
    fn lengths(&self) -> [usize; 2] {
        let shape = self.shape();
        let before = shape.width.saturating_sub(1) as usize * shape.columns() as usize;
        [before, shape.state()].map(|length| (2 * self.sequences as usize + 1) * length)
    }

    fn set<T, S>(&self, setup: &Setup, seed: u64) -> Result<Set<T, S>>
    where
        T: HostNumber,
        S: HostNumber,
    {
        let (shape, rows) = (self.shape(), (self.sequences * self.tokens) as usize);
        let heads = self.value_heads as usize;
        let [of_conv, of_rule] = self.lengths();
        let rates: Vec<f32> = Values::Normal.numbers(seed ^ 2, heads);
        Ok(Set {
            x: setup.values(Values::Normal, seed, rows * self.stride() as usize)?,
            conv_weights: setup.values(Values::Normal, seed ^ 1, (shape.columns() * shape.width) as usize)?,
            rates: [
                setup.input(heads, |_| rates.iter().map(|rate| 1.5 * rate - 3.0).collect())?,
                setup.values(Values::Normal, seed ^ 3, heads)?,
            ],
            norm: setup.values(Values::Normal, seed ^ 4, self.value_dim as usize)?,
            conv_states: setup.values(Values::Normal, seed ^ CONV_STATES, of_conv)?,
            states: setup.values(Values::Normal, seed ^ STATES, of_rule)?,
            // A token that does not count keeps what it holds.
            y: setup.values(Values::Normal, seed ^ 5, rows * heads * self.value_dim as usize)?,
            seed,
            launches: 0,
        })
    }

    fn prepare_of<T, S>(&self, setup: &Setup) -> Result<Box<dyn Prepared>>
    where
        T: RowElement + HostNumber + Storable,
        S: RowElement + HostNumber + Storable,
    {
        let (this, shape, device) = (self.clone(), self.shape(), setup.device());
        let of = |number: &dyn Fn(u32) -> u32| -> Result<Buffer<u32>> {
            Ok(device.buffer_from(&(0..self.sequences).map(number).collect::<Vec<_>>())?)
        };
        let starts: Vec<u32> = (0..=self.sequences).map(|sequence| sequence * self.tokens).collect();
        let initial: Vec<i32> =
            (0..self.sequences).map(|at| self.initial(at).map_or(-1, u32::cast_signed)).collect();
        let (starts, initial) = (device.buffer_from(&starts)?, device.buffer_from(&initial)?);
        let ends = of(&|sequence| self.counted(sequence).end as u32)?;
        let slots = of(&|sequence| self.slot(sequence))?;
        let operations = Operations::new(device);
        let buffers = setup.buffers(self.work(), |seed| self.set::<T, S>(setup, seed))?;
        let reference = self.clone();
        Ok(buffers
            .launch(move |stream, set: &mut Set<T, S>| {
                set.launches += 1;
                let (stride, heads, columns) = (this.stride(), this.value_heads, shape.columns());
                let gates = columns + heads * this.value_dim;
                let buffers = DecodeBuffers {
                    x: &set.x,
                    stride,
                    conv_weights: &set.conv_weights,
                    z: MatrixColumns { buffer: &set.x, offset: columns, stride },
                    gates: &set.x,
                    gate_columns: [gates, gates + heads, stride],
                    a_log: &set.rates[0],
                    dt_bias: &set.rates[1],
                    norm: &set.norm,
                    epsilon: EPSILON,
                    conv_states: &mut set.conv_states,
                    states: &mut set.states,
                    y: &mut set.y,
                };
                let one_token = this.tokens == 1;
                let sequences = Sequences {
                    starts: &starts,
                    ends: &ends,
                    initial: &initial,
                    slots: &slots,
                    one_token,
                    settled: !this.fresh_states,
                };
                Ok(operations.delta_rule_decode_by(this.algorithm, stream, &shape, sequences, buffers)?)
            })
            .verify(move |set| reference.verify(set)))
    }

    fn verify<T, S>(&self, set: &Set<T, S>) -> Result<warpwright_harness::Verified>
    where
        T: HostNumber,
        S: HostNumber,
    {
        let shape = self.shape();
        let layer = Layer {
            shape,
            x: exact(&set.x)?,
            stride: self.stride() as usize,
            conv_weights: exact(&set.conv_weights)?,
            a_log: exact(&set.rates[0])?,
            dt_bias: exact(&set.rates[1])?,
            norm: exact(&set.norm)?,
            epsilon: f64::from(EPSILON),
        };
        let (heads, d) = (self.value_heads as usize, self.value_dim as usize);
        let (of_conv, of_head) = (shape.conv_state(), shape.state() / heads);
        let [of_convs, of_states] = self.lengths();
        let mut conv = numbers::<T>(set.seed ^ CONV_STATES, of_convs);
        let mut states = numbers::<S>(set.seed ^ STATES, of_states);
        // A state that is read again has been rounded.
        let times = if self.in_place { set.launches } else { 1 };
        let again = if S::ROUNDING > f32::ROUNDING { times as f64 * S::ROUNDING } else { 0.0 };
        let (y, found_states) = (exact(&set.y)?, exact(&set.states)?);
        let mut compared = vec![];
        let mut sizes = vec![0.0; states.len() / of_head];
        for sequence in 0..self.sequences {
            let counted = self.counted(sequence);
            let slot = self.initial(sequence).map(|slot| slot as usize);
            // A sequence that begins with zeros does so at each launch.
            let repeated = if slot.is_some() { times } else { 1 };
            let tokens: Vec<usize> = (0..repeated).flat_map(|_| counted.clone()).collect();
            let before = slot.map_or(vec![0.0; of_conv], |slot| conv[slot * of_conv..][..of_conv].to_vec());
            let results: Vec<_> = (0..heads)
                .into_par_iter()
                .map(|head| {
                    let state = slot.map_or(vec![0.0; of_head], |slot| {
                        states[(slot * heads + head) * of_head..][..of_head].to_vec()
                    });
                    layer.head(head, &tokens, &before, state)
                })
                .collect();
            let after = self.slot(sequence) as usize;
            conv[after * of_conv..][..of_conv].copy_from_slice(&layer.conv_state(&tokens, &before));
            for (head, result) in results.into_iter().enumerate() {
                let last = result.y.len() - counted.len() * d;
                for (token, of_token) in counted.clone().zip(result.y[last..].chunks(d)) {
                    let found = &y[(token * heads + head) * d..][..d];
                    compared.extend(found.iter().zip(of_token).map(|(found, (expected, size))| Compared {
                        found: *found,
                        expected: *expected,
                        tolerance: 1.01 * T::ROUNDING * expected.abs()
                            + (1e-5 * times as f64 + again) * size
                            + T::SMALLEST,
                    }));
                }
                let at = after * heads + head;
                let squares: f64 = result.state.iter().map(|s| s * s).sum();
                sizes[at] = (squares / of_head as f64).sqrt();
                states[at * of_head..][..of_head].copy_from_slice(&result.state);
            }
        }
        let of_states = found_states.iter().zip(&states).enumerate().map(|(at, (found, expected))| {
            let size = sizes[at / of_head];
            let is_written = size > 0.0;
            let rounding = if is_written { 1.01 * S::ROUNDING * expected.abs() + S::SMALLEST } else { 0.0 };
            let tolerance = rounding + (1e-5 * times as f64 + 2.0 * again) * size;
            Compared { found: *found, expected: *expected, tolerance }
        });
        let of_conv = exact(&set.conv_states)?;
        let of_conv = of_conv.iter().zip(&conv).map(|(found, expected)| Compared {
            found: *found,
            expected: *expected,
            tolerance: 0.0,
        });
        Ok(compare(compared.into_iter().chain(of_states).chain(of_conv), |index| vec![index as usize])?)
    }
}

/// Those of a buffer of the seed.
fn numbers<T: HostNumber>(seed: u64, count: usize) -> Vec<f64> {
    Values::Normal.numbers::<T>(seed, count).into_iter().map(T::exact).collect()
}

fn exact<T: HostNumber>(buffer: &Buffer<T>) -> Result<Vec<f64>> {
    Ok(buffer.to_vec()?.into_iter().map(T::exact).collect())
}

impl Workload for DeltaRuleDecodeWorkload {
    const NAME: &'static str = "delta-rule-decode";

    /// States are read and written once, and so are tokens.
    fn work(&self) -> Work {
        let (shape, tokens) = (self.shape(), f64::from(self.sequences * self.tokens));
        let element = with_token_type!(self.element, T => size_of::<T>()) as f64;
        let of_state = with_state_type!(self.state, S => size_of::<S>()) as f64;
        let of_row = f64::from(self.stride() + self.value_heads * self.value_dim);
        let of_conv = f64::from(shape.width.saturating_sub(1)) * f64::from(shape.columns());
        let states = 2.0 * (of_conv * element + shape.state() as f64 * of_state);
        // Two products with the state, and its update.
        Work {
            operations: 7.0 * shape.state() as f64 * tokens,
            bytes: element * of_row * tokens + f64::from(self.sequences) * states,
        }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_token_type!(self.element, T => with_state_type!(self.state, S => self.prepare_of::<T, S>(setup)))
    }
}
