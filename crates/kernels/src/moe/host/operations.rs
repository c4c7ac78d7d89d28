//! The operations for programs.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::super::device::combine::Combine;
use super::super::device::permute::{Permute, RUN};
use super::super::device::route::{Route, TOKENS};
use super::super::device::shared_expert::SharedExpert;
use super::super::problem::{ExpertRows, Routing, check};
use crate::columns::{THREADS, VectorGrid};
use crate::operations::{OperationError, Operations, Result, Scratch, both, expect_length};
use crate::rows::{MatrixShape, RowElement};
use crate::vector;

/// The workspace of a stream.
#[derive(Default)]
struct PermuteScratch {
    counts: Scratch<u32>,
}

/// Choices of all tokens, which are counted in 31 bits.
fn choices(what: &'static str, tokens: usize, choices: u32) -> Result<u32> {
    let all = tokens as u64 * u64::from(choices);
    u32::try_from(all).ok().filter(|all| *all < 1 << 31).ok_or_else(|| {
        let reason = format!("{all} choices are 2^31 or more; do the work in parts");
        OperationError::Shape { what, reason }
    })
}

impl Operations {
    /// The experts of each token, those of the highest logits, and their weights: both are (tokens,
    /// k), the highest logit first. Of equal logits the lowest expert is first. A NaN is below all
    /// numbers, and a softmax with one has weights NaN.
    ///
    /// A weight is computed in f32 and is off by at most (96 + 16 (maximum - logit)) u of itself,
    /// where u is 2^-24.
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::moe::{Routing, Scoring};
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let logits = device.buffer_from(&[0.0f32, 3.0, 3.0, 1.0])?;
    /// let (mut experts, mut weights) = (device.uninitialized(2)?, device.uninitialized(2)?);
    /// let scoring = Scoring::Softmax;
    /// let routing = Routing { experts: 4, choices: 2, scoring, renormalizes: true, scale: 1.0 };
    /// operations.route_tokens(&stream, routing, &logits, (&mut experts, &mut weights))?;
    /// assert_eq!((experts.to_vec()?, weights.to_vec()?), (vec![1, 2], vec![0.5, 0.5]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There are more than 512 experts or 32 experts of a token, a buffer does not have the length
    /// of the shape, or the device refuses.
    pub fn route_tokens<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        routing: Routing,
        logits: &Buffer<T>,
        (experts, weights): (&mut Buffer<u32>, &mut Buffer<f32>),
    ) -> Result<LaunchCounts> {
        const WHAT: &str = "the routing of tokens";
        check(WHAT, routing.experts, routing.choices)?;
        let tokens = logits.len() / routing.experts as usize;
        let all = choices(WHAT, tokens, routing.choices)? as usize;
        expect_length("the router's logits", tokens * routing.experts as usize, logits.len())?;
        expect_length("the experts of tokens", all, experts.len())?;
        expect_length("the weights of experts", all, weights.len())?;
        if tokens == 0 {
            return Ok(LaunchCounts::default());
        }
        let Routing { scoring, renormalizes, scale, .. } = routing;
        let lanes = Route::lanes(routing.experts, vector::widest(routing.experts.into(), T::BYTES));
        let (tokens, choices) = (tokens as u32, routing.choices);
        let route = Route { experts: routing.experts, choices, scoring, renormalizes, lanes };
        let kernel = self.kernel(route, Route::run::<T>)?;
        Ok(kernel.launch(stream, tokens.div_ceil(TOKENS), (logits, experts, weights, tokens, scale))?)
    }

    /// A row for each choice of an expert, in the order of `experts`: where the rows of each expert
    /// begin, the token of each row, and the row of each choice. `chosen` is (tokens, k), and an
    /// element of it that is no expert stops the kernel.
    ///
    /// # Errors
    /// There are more than 512 experts or 32 experts of a token, a buffer does not have the length
    /// of the shape, or the device refuses.
    pub fn permute_by_expert(
        &self,
        stream: &Stream,
        chosen: &Buffer<u32>,
        (experts, of_token): (u32, u32),
        to: ExpertRows<'_>,
    ) -> Result<LaunchCounts> {
        const WHAT: &str = "the permutation by expert";
        check(WHAT, experts, of_token)?;
        let ExpertRows { offsets, tokens, rows } = to;
        let count = chosen.len() / of_token as usize;
        let length = choices(WHAT, count, of_token)?;
        expect_length("the experts of tokens", length as usize, chosen.len())?;
        expect_length("the offsets of experts", experts as usize + 1, offsets.len())?;
        expect_length("the tokens of rows", length as usize, tokens.len())?;
        expect_length("the rows of choices", length as usize, rows.len())?;
        if length == 0 {
            stream.fill_zero(offsets)?;
            return Ok(LaunchCounts::default());
        }
        let ctas = length.div_ceil(RUN);
        let permute = Permute { experts, choices: of_token, has_one_cta: ctas == 1 };
        self.with_scratch(stream, |scratch: &mut PermuteScratch| {
            let counts = scratch.counts.at_least(self.device(), (ctas * experts) as usize)?;
            let mut counted = LaunchCounts::default();
            if ctas > 1 {
                let kernel = self.kernel(permute, Permute::count)?;
                counted = kernel.launch(stream, ctas, (chosen, &mut *counts, length))?;
            }
            let kernel = self.kernel(permute, Permute::place)?;
            let arguments = (chosen, &*counts, offsets, tokens, rows, length);
            Ok(both(counted, kernel.launch(stream, ctas, arguments)?))
        })
    }

    /// Row t of `y`, (tokens, columns), = the sum of the rows `rows[t]` of `x`, each times its
    /// weight. `rows` and `weights` are (tokens, k), and `x` has a row for each of them.
    ///
    /// A result is the sum in f32, rounded to `T` once.
    ///
    /// # Errors
    /// A buffer does not have the length of the shape, there are more than 32 rows of a token, or
    /// the device refuses.
    pub fn combine_rows<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        x: &Buffer<T>,
        (rows, weights): (&Buffer<u32>, &Buffer<f32>),
        (tokens, columns): MatrixShape,
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        const WHAT: &str = "the combination of rows";
        let elements = tokens as usize * columns as usize;
        expect_length("the output of the combination of rows", elements, y.len())?;
        if elements == 0 {
            return Ok(LaunchCounts::default());
        }
        let choices = (rows.len() / tokens as usize) as u32;
        check(WHAT, super::super::problem::MAX_EXPERTS, choices)?;
        let all = self::choices(WHAT, tokens as usize, choices)? as usize;
        expect_length("the rows of choices", all, rows.len())?;
        expect_length("the weights of experts", all, weights.len())?;
        expect_length("the rows to combine", all * columns as usize, x.len())?;
        let combine = Combine { grid: VectorGrid::new::<T>(columns, &[], 1), choices };
        let kernel = self.kernel(combine, Combine::run::<T>)?;
        let ctas = combine.grid.grid(self, WHAT, tokens)?;
        Ok(kernel.launch(stream, ctas, (x, rows, weights, y, tokens))?)
    }

    /// y += routed + sigmoid(gates) · shared, of rows (tokens, columns) with a gate for each token: the sum of the routed
    /// experts and of the shared one, in f32.
    ///
    /// # Errors
    /// A buffer does not have the length of the shape, there are 2^32 elements or more, or the device refuses.
    pub fn add_shared_expert<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        (tokens, columns): MatrixShape,
        (routed, shared, gates): (&Buffer<T>, &Buffer<T>, &Buffer<T>),
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        const WHAT: &str = "the shared expert";
        let elements = tokens as usize * columns as usize;
        expect_length("the rows of routed experts", elements, routed.len())?;
        expect_length("the rows of the shared expert", elements, shared.len())?;
        expect_length("the gates of the shared expert", tokens as usize, gates.len())?;
        expect_length("the rows that experts are added to", elements, y.len())?;
        let count = u32::try_from(elements).map_err(|_| OperationError::Shape {
            what: WHAT,
            reason: format!("{elements} elements are 2^32 or more; do the work in parts"),
        })?;
        if count == 0 {
            return Ok(LaunchCounts::default());
        }
        let kernel = self.kernel(SharedExpert { columns }, SharedExpert::run::<T>)?;
        let grid = self.grid(WHAT, u64::from(count).div_ceil(THREADS.into()))?;
        Ok(kernel.launch(stream, grid, (routed, shared, gates, y, count))?)
    }
}
