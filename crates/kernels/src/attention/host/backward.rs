//! Attention's gradients for programs.

use std::sync::Arc;

use warpwright::lang::pointer::{In, Out};
use warpwright::layout::Error;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Compiled, LaunchCounts, Storable, Stream, TileMaps};

use super::operations::{expect_supported, tile_maps};
use crate::attention::backward::{BackwardKernel, FinishGradient, KEYS, PrepareRows};
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
    Out<T>,
    Out<T>,
    PassedProblem,
);

type PrepareArguments<T> = (In<T>, In<T>, In<f32>, Out<f32>, Out<f32>, Out<f32>, u32, u32);

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
    kernel: BackwardKernel,
}

impl Operations {
    /// The gradients of Q, K and V of [`attention`](Self::attention).
    ///
    /// dQ is summed in f32 by atomic additions, in any order: two launches may differ in the last
    /// bits.
    ///
    /// # Errors
    /// As [`attention`](Self::attention); sequences are packed, or scores have a function, for which
    /// there are no gradients; heads have more than 128 elements.
    pub fn attention_gradients<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        buffers: GradientBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        self.attention_gradients_by(stream, attention, block_rows(attention), buffers)
    }

    /// The gradients, with blocks of 64 or 128 queries.
    pub(crate) fn attention_gradients_by<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        rows: u32,
        buffers: GradientBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        expect_supported(attention)?;
        expect_gradients(attention, rows)?;
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
        let key = (attention.shape, attention.mask, rows);
        let plan = self.remembered::<Plan<T>, _, _>(key, |_| self.gradient_plan::<T>(attention, rows))?;
        let [q_maps, k_maps, v_maps, gradient_maps] = &plan.maps;
        let (q, k, v) = (q_maps.of(q)?, k_maps.of(k)?, v_maps.of(v)?);
        let gradient = gradient_maps.of(d_o)?;
        let (scale, group) = (attention.scale_or_default(), heads / kv_heads);
        let problem = ([queries, keys], [kv_heads, group], attention.mask.window(), scale);
        let BackwardKernel { head_dim, .. } = plan.kernel;
        let lines = batch * heads;
        self.with_scratch(stream, |GradientScratch { powers, delta, sums }: &mut GradientScratch| {
            let powers = powers.at_least(self.device(), plan.padded)?;
            let delta = delta.at_least(self.device(), plan.padded)?;
            let sums = sums.at_least(self.device(), plan.padded * head_dim as usize)?;
            let ctas = |count: u64| self.grid("an attention's gradients", count);
            let grid = plan.prepare.shape(ctas(plan.padded.div_ceil(PrepareRows::ROWS as usize) as u64)?);
            let grid = grid.overlapping();
            let arguments = (o, d_o, lse, &mut *powers, &mut *delta, &mut *sums, queries, heads);
            let counts = plan.prepare.launch(stream, grid, arguments)?;
            let blocks = u64::from(keys.div_ceil(KEYS)) * u64::from(batch * kv_heads);
            let grid = plan.backward.shape(ctas(blocks)?).overlapping();
            let (powers, delta) = (plan.row_maps.of(powers)?, plan.row_maps.of(delta)?);
            let arguments = (&q, &k, &v, &gradient, &powers, &delta, &mut *sums, d_k, d_v, problem);
            let counts = both(counts, plan.backward.launch(stream, grid, arguments)?);
            let blocks = u64::from(queries.div_ceil(rows)) * u64::from(lines);
            let grid = plan.finish.shape(ctas(blocks)?).overlapping();
            let finished = plan.finish.launch(stream, grid, (&*sums, d_q, queries, heads, scale))?;
            Ok(both(counts, finished))
        })
    }

    fn gradient_plan<T: AttentionElement + Storable>(
        &self,
        attention: &Attention,
        rows: u32,
    ) -> Result<Plan<T>> {
        let Shape { batch, queries, keys, heads, kv_heads, head_dim, value_dim } = attention.shape;
        let refused = |error: Error| OperationError::Shape {
            what: "an attention's gradients",
            reason: error.to_string(),
        };
        let mask = attention.mask.bounds();
        let kernel = BackwardKernel { head_dim, value_dim, rows, q_stages: 3, stages: 2, mask };
        let padded = queries.next_multiple_of(rows);
        let lines = u64::from(batch) * u64::from(heads);
        let row_maps = TileMaps::new((padded.into(), lines), &kernel.row_tile().map_err(refused)?)?;
        let (prepare, finish) = (
            PrepareRows { head_dim, value_dim, rows },
            FinishGradient { head_dim, rows, columns: kernel.dq_columns() },
        );
        Ok(Plan {
            prepare: self.kernel(prepare, PrepareRows::prepare::<T>)?,
            backward: self.kernel(kernel, BackwardKernel::backward::<T>)?,
            finish: self.kernel(finish, FinishGradient::finish::<T>)?,
            maps: [
                tile_maps(attention, (queries, heads, head_dim), kernel.q_tile::<T>())?,
                tile_maps(attention, (keys, kv_heads, head_dim), kernel.k_tile::<T>())?,
                tile_maps(attention, (keys, kv_heads, value_dim), kernel.v_tile::<T>())?,
                tile_maps(attention, (queries, heads, value_dim), kernel.gradient_tile::<T>())?,
            ],
            row_maps,
            padded: padded as usize * lines as usize,
            kernel,
        })
    }
}

/// Queries of a block: as many as there are registers for.
pub(super) fn block_rows(attention: &Attention) -> u32 {
    if attention.shape.head_dim.max(attention.shape.value_dim) <= 64 { 128 } else { 64 }
}

/// Refuses what has no gradients here.
fn expect_gradients(attention: &Attention, rows: u32) -> Result<()> {
    let Shape { head_dim, value_dim, .. } = attention.shape;
    let reason = if attention.is_packed() {
        "there are no gradients of packed sequences; compute one batch for each length".to_owned()
    } else if attention.bound.is_some() || attention.biased || attention.sinks {
        "there are no gradients of softcap, ALiBi or sinks".to_owned()
    } else if ![32, 64, 128].contains(&head_dim) || value_dim > 128 {
        format!(
            "heads of K have {head_dim} elements and those of V {value_dim}; use 32, 64 or 128, and up to 128"
        )
    } else if ![64, 128].contains(&rows) {
        format!("blocks have {rows} queries; use 64 or 128")
    } else {
        return Ok(());
    };
    Err(OperationError::Shape { what: "an attention's gradients", reason })
}
