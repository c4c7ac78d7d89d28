//! The epilogue that the options of the command line ask for: launched, and as the reference has it.

use warpwright::runtime::{Buffer, Device, LaunchCounts, Storable, Stream};

use super::GemmOutput;
use super::batched::Batch;
use super::finish::Kinds;
use super::linear::{Activation, Linear, Parts};
use super::multiply::{Factor, Operands, Way};
use super::options::{Buffers, matrices};
use super::verify::{parts_of, verify_finished};
use crate::operations::Operations;
use crate::reference::{Rounded, normal};
use crate::registry::{OptionSpec, Options, Result, Verified};

/// What multiplies every sum.
pub(super) const ALPHA: OptionSpec = OptionSpec::choice("alpha", &["1", "0.5", "2"], "times every sum");

/// How much of C is added. Launch after launch adds to the same C, so that half of it is the most that stays bounded.
pub(super) const BETA: OptionSpec =
    OptionSpec::choice("beta", &["0", "0.5"], "times what C holds, which is added last");

/// Whether columns have a bias.
pub(super) const BIAS: OptionSpec =
    OptionSpec::choice("bias", &["none", "columns"], "whether each column has a number that is added");

/// What is applied to each element.
pub(super) const ACTIVATION: OptionSpec =
    OptionSpec::choice("activation", &["none", "relu", "gelu", "silu"], "of the sums, before C is added");

/// An epilogue: `activation(alpha · A·B + bias) + beta · C`.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Asked {
    alpha: f32,
    beta: f32,
    has_bias: bool,
    activation: Activation,
}

/// The matrices of a batch, and what its epilogue needs.
pub(super) struct FinishedSet<A, B, C> {
    buffers: Buffers<A, B, C>,
    bias: Option<Buffer<f32>>,
    /// What C held before the first launch, where it counts.
    before: Vec<C>,
    launches: u32,
}

impl Asked {
    pub(super) fn of(options: &Options) -> Self {
        Self {
            alpha: number(options.choice("alpha")),
            beta: number(options.choice("beta")),
            has_bias: options.choice("bias") == "columns",
            activation: match options.choice("activation") {
                "relu" => Activation::Relu,
                "gelu" => Activation::Gelu,
                "silu" => Activation::Silu,
                _ => Activation::Identity,
            },
        }
    }

    /// Refuses an epilogue, where a verb knows products alone.
    pub(super) fn expect_none(self, what: &str) -> Result<()> {
        if self == (Self { alpha: 1.0, beta: 0.0, has_bias: false, activation: Activation::Identity }) {
            return Ok(());
        }
        Err(format!("{what} is of the product alone: leave out --alpha, --beta, --bias and --activation")
            .into())
    }

    /// What the kernel is built for.
    pub(super) fn staged(self) -> (Parts, Kinds) {
        let linear = self.linear(None);
        let finish = linear.finish::<f32>();
        (finish.epilogue, Kinds { columns: [false, self.has_bias], ..finish.kinds() })
    }

    fn linear(self, bias: Option<&Buffer<f32>>) -> Linear<'_> {
        let Self { alpha, beta, activation, .. } = self;
        Linear { alpha, beta, bias, activation, ..Linear::default() }
    }

    /// Sets of matrices for a batch, by their seeds. C is poisoned where what it holds is not read.
    pub(super) fn sets<A, B, C>(
        self,
        device: &Device,
        batch: Batch,
    ) -> impl Fn(u64) -> Result<FinishedSet<A, B, C>> + use<A, B, C>
    where
        A: Storable + Rounded,
        B: Storable + Rounded,
        C: Storable + Rounded,
    {
        let (device, make) = (device.clone(), matrices::<A, B, C>(device, batch));
        move |seed| {
            let mut set = FinishedSet { buffers: make(seed)?, bias: None, before: Vec::new(), launches: 0 };
            let numbers = |stream: u64| seed.wrapping_mul(2).wrapping_add(stream << 20);
            if self.has_bias {
                let count = batch.count as usize * batch.product.n as usize;
                set.bias = Some(device.buffer_from(&normal::<f32>(numbers(1), count, f32::round))?);
            }
            if self.beta != 0.0 {
                set.before = normal(numbers(2), set.buffers.c.len(), C::round);
                set.buffers.c.copy_from(&set.before)?;
            }
            Ok(set)
        }
    }

    /// Launches a batch in that way.
    pub(super) fn launch<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        self,
        operations: &Operations,
        stream: &Stream,
        (batch, way): (Batch, Way),
        set: &mut FinishedSet<A, B, C>,
    ) -> Result<LaunchCounts> {
        set.launches += 1;
        let Buffers { a, b, c } = &mut set.buffers;
        let linear = self.linear(set.bias.as_ref());
        Ok(operations.compute(stream, batch, way, Operands { a, b, c, finish: &linear.finish() })?)
    }

    /// Holds every element to the reference.
    pub(super) fn verify<A, B, C>(self, batch: Batch, set: &FinishedSet<A, B, C>) -> Result<Verified>
    where
        A: Rounded + Storable + Sync,
        B: Rounded + Storable + Sync,
        C: Rounded + Storable,
    {
        let bias = set.bias.as_ref().map_or(Ok(Vec::new()), Buffer::to_vec)?;
        let (m, n) = (batch.product.m as usize, batch.product.n as usize);
        let finish = |index: usize, sum: f64, error: f64| {
            let column = index / (m * n) * n + index % n;
            let bias = bias.get(column).map_or(0.0, |&bias| f64::from(bias));
            let (value, error) = self.of_sum(sum, error, bias);
            set.before.get(index).map_or((value, error), |before| {
                self.added_to::<C>((value, error), before.exact(), set.launches)
            })
        };
        verify_finished(&parts_of(batch), &set.buffers, finish)
    }

    /// What a sum becomes before C is added, and how far off it may be, when the sum may be off by `error`.
    fn of_sum(self, sum: f64, error: f64, bias: f64) -> (f64, f64) {
        let scaled = f64::from(self.alpha) * sum;
        let x = scaled + bias;
        let roundings = f32::ROUNDING * (scaled.abs() + x.abs());
        let error = error * f64::from(self.alpha) + if bias == 0.0 { 0.0 } else { roundings };
        // No activation is steeper than this; `tanh.approx` is off by 2^-11 of one (PTX ISA, "tanh"), and multiplies half of x; other roundings are far
        // smaller.
        let approximate = |value: f64| (value, 1.2 * error + x.abs() / 2048.0);
        match self.activation {
            Activation::Identity => (x, error),
            Activation::Relu => (x.max(0.0), error),
            Activation::Gelu => {
                approximate(x / 2.0 * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()))
            }
            Activation::Silu => approximate(x / (1.0 + (-x).exp())),
        }
    }

    /// What C holds after so many launches that each add it, and how far off that may be.
    fn added_to<C: Rounded>(self, (value, error): (f64, f64), before: f64, launches: u32) -> (f64, f64) {
        // Of what was more launches ago than this, nothing is left.
        const REMEMBERED: u32 = 64;
        let beta = f64::from(self.beta);
        (0..launches.min(REMEMBERED)).fold((before, 0.0), |(held, held_error), _| {
            let sum = value + beta * held;
            let rounding = (C::ROUNDING + 2.0 * f32::ROUNDING) * (sum.abs() + value.abs()) * 1.01;
            (sum, error + beta * held_error + rounding)
        })
    }
}

/// A choice that is a number.
fn number(choice: &str) -> f32 {
    choice.parse().expect("the choices are numbers")
}
