//! Attention's gradients for programs.

use std::sync::Arc;

use warpwright::lang::pointer::{In, Out};
use warpwright::layout::Error;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Compiled, LaunchCounts, Storable, Stream, TileMaps};

use super::operations::{
    Extras, expect_extras, expect_function, expect_matrices, expect_matrix, expect_supported, maps_of,
};
use crate::attention::backward::{
    BackwardKernel, FinishGradient, GradientForm, KEYS, PrepareRows, SinkGradients, WideBackwardKernel,
    row_tile,
};
use crate::attention::problem::{Attention, AttentionElement, Shape};
use crate::attention::score::{AttentionKernel, DifferentiableScoreOp};
use crate::operations::{OperationError, Operations, Result, Scratch, both, expect_length};

/// The matrices of an attention's gradients. A gradient has the strides of its matrix.
pub struct GradientBuffers<'l, T> {
    /// Q, (batch, queries, heads, head_dim).
    pub q: &'l Buffer<T>,
    /// K, (batch, keys, kv_heads, head_dim).
    pub k: &'l Buffer<T>,
    /// V, (batch, keys, kv_heads, value_dim).
    pub v: &'l Buffer<T>,
    /// O, (batch, queries, heads, value_dim), of the forward pass.
    pub o: &'l Buffer<T>,
    /// The logarithms of the forward pass, (batch, heads, queries), of packed sequences (heads, queries).
    pub lse: &'l Buffer<f32>,
    /// The gradient of O.
    pub d_o: &'l Buffer<T>,
    /// The gradient of Q.
    pub d_q: &'l mut Buffer<T>,
    /// The gradient of K.
    pub d_k: &'l mut Buffer<T>,
    /// The gradient of V.
    pub d_v: &'l mut Buffer<T>,
    /// The first query, and the first key, of each packed sequence, and their numbers in all.
    pub offsets: Option<[&'l Buffer<u32>; 2]>,
    /// The slope of each head (ALiBi).
    pub slopes: Option<&'l Buffer<f32>>,
    /// The sink of each head, and its gradient.
    pub sinks: Option<(&'l Buffer<f32>, &'l mut Buffer<f32>)>,
}

impl<'l, T> GradientBuffers<'l, T> {
    /// Q, K and V, O with its logarithms, the gradient of O, the gradients of Q, K and V, and nothing
    /// else.
    pub fn new(
        [q, k, v]: [&'l Buffer<T>; 3],
        (o, lse): (&'l Buffer<T>, &'l Buffer<f32>),
        d_o: &'l Buffer<T>,
        [d_q, d_k, d_v]: [&'l mut Buffer<T>; 3],
    ) -> Self {
        Self { q, k, v, o, lse, d_o, d_q, d_k, d_v, offsets: None, slopes: None, sinks: None }
    }
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
    /// What is passed for absent arguments.
    nothing: Scratch<f32>,
}

/// What a launch passes for [`BackwardProblem`](crate::attention::backward::BackwardProblem).
type PassedProblem =
    ([u32; 2], [u32; 2], [u32; 2], f32, f32, In<f32>, u32, u32, In<u32>, In<u32>, [u64; 4], [u64; 4]);

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

type PrepareArguments<T> =
    (In<T>, In<T>, In<f32>, Out<f32>, Out<f32>, Out<f32>, Out<u32>, u32, u32, In<u32>, u32, [u64; 4]);

type FinishArguments<T> = (In<f32>, Out<T>, u32, u32, f32, In<u32>, u32, [u64; 4]);

type SinkArguments = (In<f32>, In<f32>, In<f32>, Out<f32>, u32, u32);

/// What launches of one attention's gradients share.
struct Plan<T> {
    prepare: Arc<Compiled<PrepareArguments<T>>>,
    backward: Arc<Compiled<BackwardArguments<T>>>,
    finish: Arc<Compiled<FinishArguments<T>>>,
    /// The maps of Q, K, V and dO, and those of lse and delta.
    maps: [TileMaps<T>; 4],
    row_maps: TileMaps<f32>,
    /// lse, delta and dQ: lines of whole blocks of queries.
    lines: u32,
    line_blocks: u32,
    rows: u32,
    /// Columns of dQ in f32, and counters of turns of a block.
    columns: u32,
    turns: u32,
    /// CTAs of the backward kernel.
    ctas: u64,
    /// The kernel of the gradients of sinks.
    sinks: Option<Arc<Compiled<SinkArguments>>>,
}

/// What may be chosen of the gradients' kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GradientConfiguration {
    /// Queries of a block: 64 or 128.
    pub rows: u32,
    /// Heads of K, counted through all sequences, whose units are mixed: at least 1, at most all.
    pub section: u32,
    /// Whether the additions to dQ have a fixed order.
    pub deterministic: bool,
}

/// Bytes of L2 that Q, dO and dQ in f32 of a section may take: of one head of Q for each head of K,
/// since units go through heads of Q one after another.
const SECTION_BYTES: u64 = 16 << 20;

impl GradientConfiguration {
    /// The fastest configuration known. Blocks have as many queries as there are registers for.
    pub fn of(attention: &Attention) -> Self {
        let Shape { head_dim, value_dim, .. } = attention.shape;
        let rows = if head_dim.max(value_dim) <= 64 { 128 } else { 64 };
        let [queries, _] = attention.packed.unwrap_or([attention.shape.queries, 0]);
        let bytes = u64::from(queries) * (6 * u64::from(head_dim) + 2 * u64::from(value_dim));
        let section = u32::try_from(SECTION_BYTES / bytes.max(1)).unwrap_or(u32::MAX);
        Self { rows, section, deterministic: false }
    }

    /// What the kernels are built for beside the sizes of their tiles.
    fn form(self, attention: &Attention, scored: bool) -> GradientForm {
        GradientForm {
            mask: attention.mask.bounds(),
            packed: attention.is_packed(),
            capped: attention.bound.is_some(),
            biased: attention.biased,
            scored,
            deterministic: self.deterministic,
        }
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
    /// As [`attention`](Self::attention); K and V are in a paged cache, or strides lay elements of Q, K or V
    /// over each other.
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

    /// The gradients of [`attention_with`](Self::attention_with): the function of the scores has a
    /// derivative, and captures nothing.
    ///
    /// ```
    /// # use warpwright::prelude::*;
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::attention::score::{self, Pair, ScoreOp};
    /// # use warpwright_kernels::attention::{Attention, AttentionBuffers, GradientBuffers};
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// # let q = device.zeros::<bf16>(64 * 64)?;
    /// # let [mut o, mut d_q, mut d_k, mut d_v] = [(); 4].map(|()| device.zeros::<bf16>(64 * 64).unwrap());
    /// # let mut lse = device.zeros::<f32>(64)?;
    /// # let attention = Attention::new(1, 64, 1, 64);
    /// // score + score² / 64, then a bonus for keys of the same parity.
    /// let square = |score: Reg<f32>, _: Pair| (score * score / 64.0 + score, score / 32.0 + 1.0);
    /// let parity = |score: Reg<f32>, pair: Pair| (score + (pair.key % 2).convert::<f32>(), constant(1.0));
    /// let function = score::differentiable(square).then(score::differentiable(parity));
    /// let forward = AttentionBuffers { lse: Some(&mut lse), ..AttentionBuffers::new(&q, &q, &q, &mut o) };
    /// operations.attention_with(&stream, &attention, function, forward)?;
    /// let gradients = [&mut d_q, &mut d_k, &mut d_v];
    /// let buffers = GradientBuffers::new([&q, &q, &q], (&o, &lse), &q, gradients);
    /// operations.attention_gradients_with(&stream, &attention, function, buffers)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`attention_gradients`](Self::attention_gradients).
    pub fn attention_gradients_with<T, S>(
        &self,
        stream: &Stream,
        attention: &Attention,
        score: S,
        buffers: GradientBuffers<'_, T>,
    ) -> Result<LaunchCounts>
    where
        T: AttentionElement + Storable,
        S: DifferentiableScoreOp + Copy + Send + Sync + 'static,
    {
        const { assert!(size_of::<S>() == 0, "a function of scores is known by its type: it captures nothing") }
        expect_function(attention)?;
        let configuration = GradientConfiguration::of(attention);
        self.launch_gradients(stream, attention, configuration, buffers, Some(score))
    }

    /// The gradients, by a configuration.
    pub fn attention_gradients_as<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        configuration: GradientConfiguration,
        buffers: GradientBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        self.launch_gradients(stream, attention, configuration, buffers, None::<()>)
    }

    /// Launches the backward kernel, and the kernels before and after it.
    fn launch_gradients<T, S>(
        &self,
        stream: &Stream,
        attention: &Attention,
        configuration: GradientConfiguration,
        buffers: GradientBuffers<'_, T>,
        score: Option<S>,
    ) -> Result<LaunchCounts>
    where
        T: AttentionElement + Storable,
        S: DifferentiableScoreOp + Copy + Send + Sync + 'static,
    {
        expect_supported(attention)?;
        expect_gradients(attention, configuration)?;
        expect_buffers(attention, &buffers)?;
        let GradientBuffers { q, k, v, o, lse, d_o, d_q, d_k, d_v, offsets, slopes, mut sinks } = buffers;
        let Shape { batch, queries, keys, heads, kv_heads, .. } = attention.shape;
        if attention.rows().contains(&0) || heads == 0 {
            stream.fill_zero(d_q)?;
            stream.fill_zero(d_k)?;
            stream.fill_zero(d_v)?;
            if let Some((_, d_sinks)) = &mut sinks {
                stream.fill_zero(d_sinks)?;
            }
            return Ok(LaunchCounts::default());
        }
        let form = configuration.form(attention, score.is_some());
        let extents = (attention.shape, attention.packed, attention.strides);
        let key = (extents, attention.sinks, configuration, form);
        let plan = self.remembered::<(Plan<T>, S), _, _>(key, |_| {
            self.gradient_plan::<T, S>(attention, configuration, form, score)
        })?;
        let [q_maps, k_maps, v_maps, gradient_maps] = &plan.maps;
        let (q, k, v) = (q_maps.of(q)?, k_maps.of(k)?, v_maps.of(v)?);
        let gradient = gradient_maps.of(d_o)?;
        let (scale, group) = (attention.scale_or_default(), heads / kv_heads);
        let bound = attention.bound.unwrap_or(1.0);
        let [q_strides, k_strides, v_strides, o_strides] =
            attention.matrices().map(|matrix| matrix.strides.passed());
        let [queries, keys] = attention.packed.unwrap_or([queries, keys]);
        let blocks = u64::from(plan.line_blocks) * u64::from(plan.lines);
        let padded = blocks as usize * plan.rows as usize;
        self.with_scratch(stream, |scratch: &mut GradientScratch| {
            let GradientScratch { powers, delta, sums, turns, nothing } = scratch;
            let nothing = &*nothing.at_least(self.device(), 1)?;
            let [query_offsets, key_offsets] = offsets.unwrap_or([nothing.cast(); 2]);
            let powers = powers.at_least(self.device(), padded)?;
            let delta = delta.at_least(self.device(), padded)?;
            let sums = sums.at_least(self.device(), padded * plan.columns as usize)?;
            let turns = turns.at_least(self.device(), (blocks as usize * plan.turns as usize).max(1))?;
            let ctas = |count: u64| self.grid("an attention's gradients", count);
            let grid = plan.prepare.shape(ctas(padded.div_ceil(PrepareRows::ROWS as usize) as u64)?);
            let arguments = (
                o,
                d_o,
                lse,
                &mut *powers,
                &mut *delta,
                &mut *sums,
                &mut *turns,
                queries,
                heads,
                query_offsets,
                batch,
                o_strides,
            );
            let mut counts = plan.prepare.launch(stream, grid.overlapping(), arguments)?;
            if let (Some(kernel), Some((sinks, d_sinks))) = (&plan.sinks, sinks) {
                let arguments =
                    (&*powers, &*delta, sinks, d_sinks, plan.line_blocks * plan.rows, plan.lines / heads);
                counts = both(counts, kernel.launch(stream, kernel.shape(heads).overlapping(), arguments)?);
            }
            let grid = plan.backward.shape(ctas(plan.ctas)?).overlapping();
            let (powers, delta) = (plan.row_maps.of(powers)?, plan.row_maps.of(delta)?);
            let slopes = slopes.unwrap_or(nothing);
            let problem = (
                [queries, keys],
                [kv_heads, group],
                attention.mask.window(),
                scale,
                bound,
                slopes,
                configuration.section.clamp(1, plan.lines / group),
                batch,
                query_offsets,
                key_offsets,
                k_strides,
                v_strides,
            );
            let arguments =
                (&q, &k, &v, &gradient, &powers, &delta, &mut *sums, &mut *turns, d_k, d_v, problem);
            counts = both(counts, plan.backward.launch(stream, grid, arguments)?);
            let grid = plan.finish.shape(ctas(blocks)?).overlapping();
            let arguments = (&*sums, d_q, queries, heads, scale, query_offsets, batch, q_strides);
            Ok(both(counts, plan.finish.launch(stream, grid, arguments)?))
        })
    }

    fn gradient_plan<T, S>(
        &self,
        attention: &Attention,
        configuration: GradientConfiguration,
        form: GradientForm,
        score: Option<S>,
    ) -> Result<Plan<T>>
    where
        T: AttentionElement + Storable,
        S: DifferentiableScoreOp + Copy + Send + Sync + 'static,
    {
        let Shape { batch, queries, keys, heads, kv_heads, head_dim, value_dim } = attention.shape;
        let GradientConfiguration { rows, deterministic, .. } = configuration;
        let refused = |error: Error| OperationError::Shape {
            what: "an attention's gradients",
            reason: error.to_string(),
        };
        let stored = [head_dim, value_dim];
        // Elements past the last of a head are zeros in shared memory.
        let (backward, tiles, columns, part, ctas) = if is_wide(attention) {
            let (head_dim, value_dim) = (256, value_dim.next_multiple_of(128));
            let kernel = WideBackwardKernel { head_dim, value_dim, stored, form };
            let tiles = kernel.tiles::<T>().map_err(refused)?;
            let scored = AttentionKernel { kernel, score };
            let compiled = self.kernel(scored, AttentionKernel::<WideBackwardKernel, S>::backward::<T>)?;
            (compiled, tiles, head_dim, kernel.dq_columns(), WideBackwardKernel::CTAS)
        } else {
            let head_dim = head_dim.next_power_of_two().max(32);
            let kernel = BackwardKernel { head_dim, value_dim, stored, rows, q_stages: 3, stages: 2, form };
            let tiles = kernel.tiles::<T>().map_err(refused)?;
            let scored = AttentionKernel { kernel, score };
            let compiled = self.kernel(scored, AttentionKernel::<BackwardKernel, S>::backward::<T>)?;
            (compiled, tiles, head_dim, kernel.dq_columns(), 1)
        };
        let [q, k, v, gradient] = tiles;
        // Packed sequences are one line of each head, and begin with blocks of their own.
        let (lines, line_blocks, units) = match attention.packed {
            Some([queries, keys]) => (heads, queries / rows + batch, u64::from(keys / KEYS + batch)),
            None => {
                (batch * heads, queries.div_ceil(rows), u64::from(keys.div_ceil(KEYS)) * u64::from(batch))
            }
        };
        // A counter for each part of a block that one warpgroup has.
        let turns = if deterministic { columns / part * (rows / 64) } else { 0 };
        let packed = form.packed;
        let row_extents = (u64::from(line_blocks) * u64::from(rows), lines.into());
        let (prepare, finish) = (
            PrepareRows { columns, value_dim, rows, turns, packed },
            FinishGradient { head_dim, columns, part, rows, packed },
        );
        let [of_q, of_k, of_v, of_o] = attention.matrices();
        Ok(Plan {
            prepare: self.kernel(prepare, PrepareRows::prepare::<T>)?,
            backward,
            finish: self.kernel(finish, FinishGradient::finish::<T>)?,
            sinks: attention.sinks.then(|| self.kernel(SinkGradients, SinkGradients::sum)).transpose()?,
            maps: [
                maps_of(&of_q, Ok(q))?,
                maps_of(&of_k, Ok(k))?,
                maps_of(&of_v, Ok(v))?,
                maps_of(&of_o, Ok(gradient))?,
            ],
            row_maps: TileMaps::new(row_extents, &row_tile(rows).map_err(refused)?)?,
            lines,
            line_blocks,
            rows,
            columns,
            turns,
            ctas: units * u64::from(kv_heads) * u64::from(ctas),
        })
    }
}

/// Whether heads are too wide for the kernel whose CTAs have 128 keys.
fn is_wide(attention: &Attention) -> bool {
    attention.shape.head_dim.max(attention.shape.value_dim) > 128
}

/// Refuses buffers that do not have the size of the shape, or that are missing.
fn expect_buffers<T: Storable>(attention: &Attention, buffers: &GradientBuffers<'_, T>) -> Result<()> {
    let GradientBuffers { q, k, v, o, lse, d_o, d_q, d_k, d_v, .. } = buffers;
    expect_matrices(attention, [q.len(), k.len(), v.len(), o.len()], [T::BYTES; 2])?;
    let [of_q, of_k, of_v, of_o] = attention.matrices();
    expect_matrix(attention, "the gradient of O", (&of_o, d_o.len()))?;
    for (what, matrix, given) in [
        ("the gradient of Q", of_q, d_q.len()),
        ("the gradient of K", of_k, d_k.len()),
        ("the gradient of V", of_v, d_v.len()),
    ] {
        expect_matrix(attention, what, (&matrix, given))?;
        matrix.expect_distinct(what)?;
    }
    let logarithms = attention.rows()[0] * attention.shape.heads as usize;
    expect_length("the logarithms of an attention", logarithms, lse.len())?;
    let sinks = buffers.sinks.as_ref().map(|(sinks, _)| *sinks);
    let GradientBuffers { offsets, slopes, .. } = *buffers;
    expect_extras(attention, &Extras { lse: None, offsets, pages: None, slopes, sinks })?;
    match &buffers.sinks {
        Some((_, gradient)) if attention.sinks => {
            expect_length("the gradient of the sinks", attention.shape.heads as usize, gradient.len())
        }
        _ => Ok(()),
    }
}

/// Refuses what has no gradients here.
fn expect_gradients(attention: &Attention, configuration: GradientConfiguration) -> Result<()> {
    let GradientConfiguration { rows, .. } = configuration;
    let most_rows = if is_wide(attention) { 64 } else { 128 };
    let reason = if attention.cache.is_some() {
        "there are no gradients of a paged cache; pass K and V of packed sequences".to_owned()
    } else if ![64, most_rows].contains(&rows) {
        format!("blocks have {rows} queries; use 64, or 128 for heads of up to 128 elements")
    } else if attention.strides.is_some() && attention.rows().contains(&0) {
        // A fill would reach what lies between the rows.
        "there are no queries or no keys, and the matrices have strides; fill the gradients with zeros"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(OperationError::Shape { what: "an attention's gradients", reason })
}
