//! Attention's gradients for programs.

use std::sync::Arc;

use warpwright::lang::pointer::{In, Out};
use warpwright::layout::Error;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Compiled, LaunchCounts, Storable, Stream, TileMaps};

use super::operations::{expect_supported, tile_maps};
use crate::attention::backward::{
    BackwardKernel, FinishGradient, KEYS, PrepareRows, WideBackwardKernel, row_tile,
};
use crate::attention::problem::{Attention, AttentionElement, Shape};
use crate::operations::{OperationError, Operations, Result, Scratch, both, expect_length};

/// The matrices of an attention's gradients.
pub struct GradientBuffers<'l, T> {
    /// Q, (batch, queries, heads, head_dim).
    pub q: &'l Buffer<T>,
    /// K, (batch, keys, kv_heads, head_dim).
    pub k: &'l Buffer<T>,
    /// V, (batch, keys, kv_heads, value_dim).
    pub v: &'l Buffer<T>,
    /// O, (batch, queries, heads, value_dim), of the forward pass.
    pub o: &'l Buffer<T>,
    /// The logarithms of the forward pass, (batch, heads, queries).
    pub lse: &'l Buffer<f32>,
    /// The gradient of O.
    pub d_o: &'l Buffer<T>,
    /// The gradient of Q.
    pub d_q: &'l mut Buffer<T>,
    /// The gradient of K.
    pub d_k: &'l mut Buffer<T>,
    /// The gradient of V.
    pub d_v: &'l mut Buffer<T>,
}

/// A stream's workspace.
#[derive(Default)]
struct GradientScratch {
    powers: Scratch<f32>,
    delta: Scratch<f32>,
    /// dQ in f32.
    sums: Scratch<f32>,
    /// Turns of the additions to dQ.
    turns: Scratch<u32>,
}

/// What a launch passes for [`BackwardProblem`](crate::attention::backward::BackwardProblem).
type PassedProblem = ([u32; 2], [u32; 2], [u32; 2], f32);

type BackwardArguments<T> = (
    TensorMap,
    TensorMap,
    TensorMap,
    TensorMap,
    TensorMap,
    TensorMap,
    Out<f32>,
    Out<u32>,
    Out<T>,
    Out<T>,
    PassedProblem,
);

type PrepareArguments<T> = (In<T>, In<T>, In<f32>, Out<f32>, Out<f32>, Out<f32>, Out<u32>, u32, u32);

type FinishArguments<T> = (In<f32>, Out<T>, u32, u32, f32);

/// What launches of one attention's gradients share.
struct Plan<T> {
    prepare: Arc<Compiled<PrepareArguments<T>>>,
    backward: Arc<Compiled<BackwardArguments<T>>>,
    finish: Arc<Compiled<FinishArguments<T>>>,
    /// The maps of Q, K, V and dO, and those of lse and delta.
    maps: [TileMaps<T>; 4],
    row_maps: TileMaps<f32>,
    /// Rows of lse and delta, in whole blocks.
    padded: usize,
    /// Columns of dQ in f32.
    columns: u32,
    /// CTAs for 128 keys.
    ctas: u32,
    /// Counters of turns.
    turns: usize,
}

/// What may be chosen of the gradients' kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GradientConfiguration {
    /// Queries of a block: 64 or 128.
    pub(crate) rows: u32,
    /// Whether the additions to dQ have a fixed order.
    pub(crate) deterministic: bool,
}

impl GradientConfiguration {
    /// The fastest configuration known. Blocks have as many queries as there are registers for.
    pub(crate) fn of(attention: &Attention) -> Self {
        let Shape { head_dim, value_dim, .. } = attention.shape;
        Self { rows: if head_dim.max(value_dim) <= 64 { 128 } else { 64 }, deterministic: false }
    }
}

impl Operations {
    /// The gradients of Q, K and V of [`attention`](Self::attention).
    ///
    /// dQ is summed in f32 by atomic additions, in any order: two launches may differ in the last
    /// bits. Those of [`deterministic_attention_gradients`](Self::deterministic_attention_gradients)
    /// do not.
    ///
    /// # Errors
    /// As [`attention`](Self::attention); sequences are packed, or scores have a function, for which
    /// there are no gradients.
    pub fn attention_gradients<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        buffers: GradientBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        self.attention_gradients_as(stream, attention, GradientConfiguration::of(attention), buffers)
    }

    /// As [`attention_gradients`](Self::attention_gradients), with the same bits in every launch: the
    /// additions to dQ take turns.
    ///
    /// # Errors
    /// As [`attention_gradients`](Self::attention_gradients).
    pub fn deterministic_attention_gradients<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        buffers: GradientBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        let configuration =
            GradientConfiguration { deterministic: true, ..GradientConfiguration::of(attention) };
        self.attention_gradients_as(stream, attention, configuration, buffers)
    }

    /// The gradients, by a configuration.
    pub(crate) fn attention_gradients_as<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        configuration: GradientConfiguration,
        buffers: GradientBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        expect_supported(attention)?;
        expect_gradients(attention, configuration)?;
        let GradientBuffers { q, k, v, o, lse, d_o, d_q, d_k, d_v } = buffers;
        let ([q_elements, k_elements, v_elements, o_elements], [all_rows, _]) =
            (attention.elements(), attention.rows());
        let Shape { batch, queries, keys, heads, kv_heads, .. } = attention.shape;
        for (what, expected, given) in [
            ("Q of an attention", q_elements, q.len()),
            ("K of an attention", k_elements, k.len()),
            ("V of an attention", v_elements, v.len()),
            ("O of an attention", o_elements, o.len()),
            ("the gradient of O", o_elements, d_o.len()),
            ("the gradient of Q", q_elements, d_q.len()),
            ("the gradient of K", k_elements, d_k.len()),
            ("the gradient of V", v_elements, d_v.len()),
            ("the logarithms of an attention", all_rows * heads as usize, lse.len()),
        ] {
            expect_length(what, expected, given)?;
        }
        if all_rows == 0 || heads == 0 {
            stream.fill_zero(d_k)?;
            stream.fill_zero(d_v)?;
            return Ok(LaunchCounts::default());
        }
        let key = (attention.shape, attention.mask, configuration);
        let plan =
            self.remembered::<Plan<T>, _, _>(key, |_| self.gradient_plan::<T>(attention, configuration))?;
        let [q_maps, k_maps, v_maps, gradient_maps] = &plan.maps;
        let (q, k, v) = (q_maps.of(q)?, k_maps.of(k)?, v_maps.of(v)?);
        let gradient = gradient_maps.of(d_o)?;
        let (scale, group) = (attention.scale_or_default(), heads / kv_heads);
        let problem = ([queries, keys], [kv_heads, group], attention.mask.window(), scale);
        let lines = batch * heads;
        self.with_scratch(stream, |scratch: &mut GradientScratch| {
            let GradientScratch { powers, delta, sums, turns } = scratch;
            let powers = powers.at_least(self.device(), plan.padded)?;
            let delta = delta.at_least(self.device(), plan.padded)?;
            let sums = sums.at_least(self.device(), plan.padded * plan.columns as usize)?;
            let turns = turns.at_least(self.device(), plan.turns.max(1))?;
            let ctas = |count: u64| self.grid("an attention's gradients", count);
            let grid = plan.prepare.shape(ctas(plan.padded.div_ceil(PrepareRows::ROWS as usize) as u64)?);
            let grid = grid.overlapping();
            let arguments = (o, d_o, lse, &mut *powers, &mut *delta, &mut *sums, &mut *turns, queries, heads);
            let counts = plan.prepare.launch(stream, grid, arguments)?;
            let blocks = u64::from(keys.div_ceil(KEYS) * plan.ctas) * u64::from(batch * kv_heads);
            let grid = plan.backward.shape(ctas(blocks)?).overlapping();
            let (powers, delta) = (plan.row_maps.of(powers)?, plan.row_maps.of(delta)?);
            let arguments =
                (&q, &k, &v, &gradient, &powers, &delta, &mut *sums, &mut *turns, d_k, d_v, problem);
            let counts = both(counts, plan.backward.launch(stream, grid, arguments)?);
            let blocks = u64::from(queries.div_ceil(configuration.rows)) * u64::from(lines);
            let grid = plan.finish.shape(ctas(blocks)?).overlapping();
            let finished = plan.finish.launch(stream, grid, (&*sums, d_q, queries, heads, scale))?;
            Ok(both(counts, finished))
        })
    }

    fn gradient_plan<T: AttentionElement + Storable>(
        &self,
        attention: &Attention,
        configuration: GradientConfiguration,
    ) -> Result<Plan<T>> {
        let Shape { batch, queries, keys, heads, kv_heads, head_dim, value_dim } = attention.shape;
        let GradientConfiguration { rows, deterministic } = configuration;
        let refused = |error: Error| OperationError::Shape {
            what: "an attention's gradients",
            reason: error.to_string(),
        };
        let mask = attention.mask.bounds();
        let stored = [head_dim, value_dim];
        // Elements past the last of a head are zeros in shared memory.
        let (backward, tiles, columns, part, ctas) = if is_wide(attention) {
            let (head_dim, value_dim) = (256, value_dim.next_multiple_of(128));
            let kernel = WideBackwardKernel { head_dim, value_dim, stored, mask, deterministic };
            let backward = self.kernel(kernel, WideBackwardKernel::backward::<T>)?;
            (backward, kernel.tiles::<T>(), head_dim, kernel.dq_columns(), WideBackwardKernel::CTAS)
        } else {
            let head_dim = head_dim.next_power_of_two().max(32);
            let kernel = BackwardKernel {
                head_dim,
                value_dim,
                stored,
                rows,
                q_stages: 3,
                stages: 2,
                mask,
                deterministic,
            };
            let backward = self.kernel(kernel, BackwardKernel::backward::<T>)?;
            (backward, kernel.tiles::<T>(), head_dim, kernel.dq_columns(), 1)
        };
        let [q, k, v, gradient] = tiles.map_err(refused)?;
        let padded = queries.next_multiple_of(rows);
        // A counter for each part of a block that one warpgroup has.
        let turns = if deterministic { columns / part * (rows / 64) } else { 0 };
        let lines = u64::from(batch) * u64::from(heads);
        let row_maps = TileMaps::new((padded.into(), lines), &row_tile(rows).map_err(refused)?)?;
        let (prepare, finish) = (
            PrepareRows { columns, value_dim, rows, turns },
            FinishGradient { head_dim, columns, part, rows },
        );
        Ok(Plan {
            prepare: self.kernel(prepare, PrepareRows::prepare::<T>)?,
            backward,
            finish: self.kernel(finish, FinishGradient::finish::<T>)?,
            maps: [
                tile_maps(attention, (queries, heads, head_dim), Ok(q))?,
                tile_maps(attention, (keys, kv_heads, head_dim), Ok(k))?,
                tile_maps(attention, (keys, kv_heads, value_dim), Ok(v))?,
                tile_maps(attention, (queries, heads, value_dim), Ok(gradient))?,
            ],
            row_maps,
            padded: padded as usize * lines as usize,
            columns,
            ctas,
            turns: (padded / rows * turns) as usize * lines as usize,
        })
    }
}

/// Whether heads are too wide for the kernel whose CTAs have 128 keys.
fn is_wide(attention: &Attention) -> bool {
    attention.shape.head_dim.max(attention.shape.value_dim) > 128
}

/// Refuses what has no gradients here.
fn expect_gradients(attention: &Attention, configuration: GradientConfiguration) -> Result<()> {
    let GradientConfiguration { rows, .. } = configuration;
    let most_rows = if is_wide(attention) { 64 } else { 128 };
    let reason = if attention.is_packed() {
        "there are no gradients of packed sequences; compute one batch for each length".to_owned()
    } else if attention.strides.is_some() {
        "there are no gradients of matrices with strides; copy them without gaps".to_owned()
    } else if attention.bound.is_some() || attention.biased || attention.sinks {
        "there are no gradients of softcap, ALiBi or sinks".to_owned()
    } else if ![64, most_rows].contains(&rows) {
        format!("blocks have {rows} queries; use 64, or 128 for heads of up to 128 elements")
    } else {
        return Ok(());
    };
    Err(OperationError::Shape { what: "an attention's gradients", reason })
}
