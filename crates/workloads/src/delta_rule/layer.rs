//! The inputs of a layer on a device, and their results beside those of the reference.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{Compared, HostNumber, Result, Setup, Values, Verified, compare};

use super::reference::{Head, Inputs};
use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::delta_rule::DeltaRuleInputs;
use warpwright_kernels::delta_rule::{Heads, Precision};

/// Random inputs of a layer.
///
/// Decays of one token are between 0.5 and 0.999 in most heads: some forget within a chunk, others
/// remember thousands of tokens.
pub struct Layer {
    heads: Heads,
    qkv: Buffer<bf16>,
    a: Buffer<bf16>,
    b: Buffer<bf16>,
    a_log: Buffer<f32>,
    dt_bias: Buffer<f32>,
}

impl Layer {
    /// The inputs of `tokens` tokens.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn random(setup: &Setup, heads: Heads, tokens: u32, seed: u64) -> Result<Self> {
        let normal =
            |which: u64, count| Values::Normal.numbers(seed.wrapping_mul(8).wrapping_add(which), count);
        let (values, tokens) = (heads.values as usize, tokens as usize);
        let numbers = |which, count| setup.input(count, |count| normal(which, count));
        let rates: Vec<f32> = Values::Normal.numbers(seed.wrapping_mul(8).wrapping_add(3), values);
        let rates = setup.input(values, |_| rates.iter().map(|rate| 1.5 * rate - 3.0).collect())?;
        Ok(Self {
            heads,
            qkv: numbers(0, tokens * heads.columns() as usize)?,
            a: numbers(1, tokens * values)?,
            b: numbers(2, tokens * values)?,
            a_log: rates,
            dt_bias: setup.values(Values::Normal, seed.wrapping_mul(8).wrapping_add(4), values)?,
        })
    }

    /// What an operation takes.
    pub fn inputs(&self) -> DeltaRuleInputs<'_> {
        let Self { heads, qkv, a, b, a_log, dt_bias } = self;
        let [a, b] = [a, b].map(|gates| MatrixColumns::all(gates, heads.values));
        DeltaRuleInputs { heads: *heads, qkv, a, b, a_log, dt_bias }
    }

    /// What the reference takes.
    ///
    /// # Errors
    /// The buffers cannot be read.
    pub fn reference(&self) -> Result<Inputs> {
        Ok(Inputs {
            heads: self.heads,
            qkv: exact(&self.qkv)?,
            a: exact(&self.a)?,
            b: exact(&self.b)?,
            a_log: exact(&self.a_log)?,
            dt_bias: exact(&self.dt_bias)?,
        })
    }
}

fn exact<T: HostNumber>(buffer: &Buffer<T>) -> Result<Vec<f64>> {
    Ok(buffer.to_vec()?.into_iter().map(HostNumber::exact).collect())
}

/// How far a result may be off.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// As a part of the root mean square of the head's elements; of outputs, at least of what 128
    /// products with the state are if they do not cancel.
    pub of_size: f64,
    /// As a part of an element of the state.
    pub of_state: f64,
    /// Of all states, root mean square: as a part of the root mean square of their elements. Infinite where
    /// the tolerances of elements suffice.
    pub of_states: f64,
}

impl Tolerance {
    /// That of a prefill whose states are stored as `S`.
    ///
    /// With [`Precision::Bf16`], a chunk rounds S, X, Δ, T and P to bf16 once each, and the errors are as random
    /// as the elements: of 1e5 elements, one is 4 to 5 times the root mean square.
    pub fn of_prefill<S: HostNumber>(precision: Precision) -> Self {
        let (of_size, of_states) = match precision {
            Precision::Bf16 => (0.04, 5e-3),
            Precision::F32 => (1e-4, 1e-5),
        };
        let of_states = if S::ROUNDING > f32::ROUNDING { of_states + S::ROUNDING } else { of_states };
        Self { of_size, of_state: S::ROUNDING, of_states }
    }
}

/// The states as a whole are not as exact as they should be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "the relative error of the states (root mean square) is {error:.1e}, and should be less than {tolerance:.0e}"
)]
pub struct InexactStates {
    /// The error that they have.
    pub error: f64,
    /// What it should be less than.
    pub tolerance: f64,
}

/// The error of a set of elements: sums of squares of differences and of expected values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errors {
    differences: f64,
    squares: f64,
}

impl Errors {
    fn of(found: &[f64], expected: &[f64]) -> Self {
        let differences = found.iter().zip(expected).map(|(f, e)| (f - e) * (f - e)).sum();
        Self { differences, squares: expected.iter().map(|e| e * e).sum() }
    }

    fn plus(self, other: Self) -> Self {
        Self { differences: self.differences + other.differences, squares: self.squares + other.squares }
    }

    /// The root mean square error as a part of the root mean square.
    pub fn relative(self) -> f64 {
        if self.squares == 0.0 { 0.0 } else { (self.differences / self.squares).sqrt() }
    }
}

/// The root mean square.
fn size(elements: &[f64]) -> f64 {
    (elements.iter().map(|e| e * e).sum::<f64>() / elements.len().max(1) as f64).sqrt()
}

/// Compares the outputs (tokens, value heads, 128) and the states (sequences, value heads, 128,
/// 128) with those of the reference, (sequence, value head).
///
/// # Errors
/// An element is wrong, the states as a whole are too far off, or a buffer cannot be read.
pub fn verify<S: HostNumber + Storable>(
    heads: Heads,
    (o, states): (&Buffer<bf16>, &Buffer<S>),
    sequences: &[std::ops::Range<usize>],
    expected: &[Head],
    tolerance: Tolerance,
) -> Result<(Verified, [Errors; 2])> {
    let (o, states) = (exact(o)?, exact(states)?);
    let (values, d) = (heads.values as usize, warpwright_kernels::delta_rule::HEAD as usize);
    let mut verified = Verified::default();
    let mut errors = [Errors::default(); 2];
    for (at, expected) in expected.iter().enumerate() {
        let (tokens, head) = (&sequences[at / values], at % values);
        let of_head = |token| o[(token * values + head) * d..][..d].iter().copied();
        let found_o: Vec<f64> = tokens.clone().flat_map(of_head).collect();
        let found_state = &states[at * d * d..][..d * d];
        let of = [
            (&found_o[..], &expected.o[..], bf16::ROUNDING),
            (found_state, &expected.state[..], tolerance.of_state),
        ];
        let uncancelled = size(&expected.state) / (d as f64).sqrt();
        for ((index, (found, expected, of_element)), least) in
            of.into_iter().enumerate().zip([uncancelled, 0.0])
        {
            let size = size(expected).max(least);
            let elements = found.iter().zip(expected).map(|(found, expected)| Compared {
                found: *found,
                expected: *expected,
                tolerance: 2.0 * of_element * expected.abs() + tolerance.of_size * size + 1e-30,
            });
            let part = compare(elements, |element| {
                let element = element as usize;
                vec![at / values, head, element / d, element % d]
            })?;
            verified.elements += part.elements;
            verified.worst = verified.worst.max(part.worst);
            errors[index] = errors[index].plus(Errors::of(found, expected));
        }
    }
    let [o, state] = errors.map(Errors::relative);
    if state >= tolerance.of_states {
        return Err(InexactStates { error: state, tolerance: tolerance.of_states }.into());
    }
    verified.finding =
        Some(format!("relative errors (root mean square): {o:.1e} of o, {state:.1e} of the state"));
    Ok((verified, errors))
}
