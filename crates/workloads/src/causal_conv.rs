//! The causal convolution as a workload.

use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Result, Setup, Values, Verified, Work, Workload,
    compare, data_types,
};

use warpwright_kernels::causal_conv::{CausalConv, ConvSequences, RUN};
use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;

data_types! {
    /// Types of columns and weights.
    pub(crate) enum ConvType by with_conv_type { bf16, f16, f32 }
}

/// The filters.
#[derive(Clone, Debug, Options)]
pub(crate) struct Filters {
    /// Channels.
    #[option(default = 200, max = 1 << 16)]
    channels: u32,
    /// Tokens that a result depends on.
    #[option(default = 4, max = 1 << 8)]
    width: u32,
    /// Add a bias.
    bias: bool,
    /// Data type of tokens, weights and states.
    #[option(name = "type")]
    element: ConvType,
}

/// The buffers of the filters.
struct FilterSet<T> {
    weights: Buffer<T>,
    bias: Option<Buffer<T>>,
}

impl Filters {
    fn set<T: HostNumber>(&self, setup: &Setup, seed: u64) -> Result<FilterSet<T>> {
        let numbers = |seed, count: usize| setup.values::<T>(Values::Normal, seed, count);
        Ok(FilterSet {
            weights: numbers(seed ^ 1, self.channels as usize * self.width as usize)?,
            bias: self.bias.then(|| numbers(seed ^ 2, self.channels as usize)).transpose()?,
        })
    }

    fn conv<'l, T>(&self, set: &'l FilterSet<T>) -> CausalConv<'l, T> {
        let Self { channels, width, .. } = *self;
        CausalConv { channels, width, weights: &set.weights, bias: set.bias.as_ref() }
    }

    /// Columns of a state.
    fn before(&self) -> usize {
        self.width.saturating_sub(1) as usize
    }

    /// What a sequence gives of its state and its tokens, (columns, channels): the results with
    /// their tolerances, and the last state.
    fn reference<T: HostNumber>(&self, set: &FilterSet<T>, columns: &[f64]) -> Result<Vec<(f64, f64)>> {
        let (channels, width) = (self.channels as usize, self.width as usize);
        let weights: Vec<f64> = set.weights.to_vec()?.into_iter().map(T::exact).collect();
        let bias = set.bias.as_ref().map(Buffer::to_vec).transpose()?;
        let bias = |channel: usize| bias.as_ref().map_or(0.0, |bias| bias[channel].exact());
        let results = (columns.len() / channels.max(1)).saturating_sub(self.before());
        let result = |index: usize| {
            let (token, channel) = (index / channels, index % channels);
            let terms =
                (0..width).map(|i| columns[(token + i) * channels + channel] * weights[channel * width + i]);
            let (sum, size) = terms.fold((bias(channel), bias(channel).abs()), |(sum, size), term| {
                (sum + term, size + term.abs())
            });
            let result = sum / (1.0 + (-sum).exp());
            (
                result,
                1.01 * T::ROUNDING * result.abs()
                    + f32::ROUNDING * (20.0 * result.abs() + 6.0 * size)
                    + T::SMALLEST,
            )
        };
        Ok((0..results * channels).map(result).collect())
    }
}

fn exact<T: HostNumber>(buffer: &Buffer<T>) -> Result<Vec<f64>> {
    Ok(buffer.to_vec()?.into_iter().map(T::exact).collect())
}

/// Compares results, and states, which are columns as they were.
fn verify(results: (&[f64], &[(f64, f64)]), states: (&[f64], &[f64]), channels: usize) -> Result<Verified> {
    let results = results.0.iter().zip(results.1).map(|(found, (expected, tolerance))| Compared {
        found: *found,
        expected: *expected,
        tolerance: *tolerance,
    });
    let states = states.0.iter().zip(states.1).map(|(found, expected)| Compared {
        found: *found,
        expected: *expected,
        tolerance: 0.0,
    });
    Ok(compare(results.chain(states), |index| vec![index as usize / channels, index as usize % channels])?)
}

/// The tokens of packed sequences of unlike lengths of a causal convolution with silu.
#[derive(Clone, Debug, Options)]
pub(crate) struct CausalConvWorkload {
    /// Tokens of all sequences.
    #[option(default = 41, max = 1 << 20)]
    tokens: u32,
    /// Sequences.
    #[option(default = 4, max = 1 << 10)]
    sequences: u32,
    /// The filters.
    #[option(flatten)]
    filters: Filters,
    /// Begin with zeros and not with given states.
    from_zeros: bool,
    /// Tokens of a thread.
    #[option(default = RUN, min = 1, max = 32, search = [4, 8, 16])]
    run: u32,
}

/// The buffers of a launch.
struct Set<T> {
    x: Buffer<T>,
    filters: FilterSet<T>,
    starts: Buffer<u32>,
    initial: Option<Buffer<T>>,
    last: Buffer<T>,
    y: Buffer<T>,
}

impl CausalConvWorkload {
    /// Where sequences start: anywhere, so that some have no tokens.
    fn starts(&self, seed: u64) -> Vec<u32> {
        let mut random = Random::new(seed);
        let inner = 1..self.sequences.max(1);
        let mut starts: Vec<u32> = inner.map(|_| random.below(u64::from(self.tokens) + 1) as u32).collect();
        starts.extend([0, self.tokens]);
        starts.sort_unstable();
        starts.split_off(if self.sequences == 0 { 1 } else { 0 })
    }

    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (this, filters, tokens) = (self.clone(), self.filters.clone(), self.tokens);
        let channels = filters.channels as usize;
        let of_state = filters.before() * channels;
        let states = self.sequences as usize * of_state;
        let stride = 2 * filters.channels;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let numbers = |seed, count: usize| setup.values::<T>(Values::Normal, seed, count);
            let initial = || numbers(seed ^ 3, states);
            Ok(Set {
                x: numbers(seed, tokens as usize * stride as usize)?,
                filters: filters.set(setup, seed)?,
                starts: setup.input(this.sequences as usize + 1, |_| this.starts(seed))?,
                initial: (!this.from_zeros).then(initial).transpose()?,
                last: setup.output(states)?,
                y: setup.output(tokens as usize * channels)?,
            })
        })?;
        let reference = filters.clone();
        Ok(buffers
            .launch(move |stream, set: &mut Set<T>| {
                let x = MatrixColumns { buffer: &set.x, offset: filters.channels, stride };
                let conv = filters.conv(&set.filters);
                let sequences =
                    ConvSequences { starts: &set.starts, initial: set.initial.as_ref(), last: &mut set.last };
                Ok(operations.causal_conv_by(this.run, stream, conv, (x, tokens), sequences, &mut set.y)?)
            })
            .verify(move |set| {
                let (x, starts) = (exact(&set.x)?, set.starts.to_vec()?);
                let initial = set.initial.as_ref().map(exact).transpose()?;
                let (mut results, mut states) = (vec![], vec![]);
                for (sequence, ends) in starts.windows(2).enumerate() {
                    let mut columns = match &initial {
                        Some(initial) => initial[sequence * of_state..][..of_state].to_vec(),
                        None => vec![0.0; of_state],
                    };
                    for token in ends[0]..ends[1] {
                        columns.extend(&x[token as usize * stride as usize + channels..][..channels]);
                    }
                    states.extend(&columns[columns.len() - of_state..]);
                    results.extend(reference.reference(&set.filters, &columns)?);
                }
                verify((&exact(&set.y)?, &results), (&exact(&set.last)?, &states), channels)
            }))
    }
}

impl Workload for CausalConvWorkload {
    const NAME: &'static str = "causal-conv";

    /// Tokens are read once and results written once.
    fn work(&self) -> Work {
        let Filters { channels, width, element, .. } = self.filters;
        let columns = f64::from(self.tokens) * f64::from(channels);
        let bytes = with_conv_type!(element, T => size_of::<T>()) as f64;
        Work { operations: columns * (2.0 * f64::from(width) + 4.0), bytes: columns * bytes * 2.0 }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_conv_type!(self.filters.element, T => self.prepare_of::<T>(setup))
    }
}
