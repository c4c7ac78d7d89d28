//! Attention for programs.

use std::sync::Arc;

use warpwright::lang::pointer::{In, Out};
use warpwright::layout::Error;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, Compiled, LaunchCounts, Storable, Stream, TileMaps};

use super::config::Configuration;
use crate::attention::forward::ForwardKernel;
use crate::attention::problem::{Attention, AttentionElement, LARGEST_SOFTCAP, Shape};
use crate::attention::score::{AttentionKernel, ScoreOp};
use crate::attention::strides::{HeadMatrix, Strides};
use crate::gemm::host::config::has_wgmma;
use crate::operations::{OperationError, Operations, Result, Scratch, expect_length};

/// The matrices of an attention.
pub struct AttentionBuffers<'l, T> {
    /// Q, (batch, queries, heads, head_dim).
    pub q: &'l Buffer<T>,
    /// K, (batch, keys, kv_heads, head_dim).
    pub k: &'l Buffer<T>,
    /// V, (batch, keys, kv_heads, value_dim).
    pub v: &'l Buffer<T>,
    /// O, (batch, queries, heads, value_dim).
    pub o: &'l mut Buffer<T>,
    /// The natural logarithm of each query's sum of exponentials, (batch, heads, queries), of packed
    /// sequences (heads, queries).
    pub lse: Option<&'l mut Buffer<f32>>,
    /// The first query, and the first key, of each packed sequence, and their numbers in all. Those of
    /// keys are not read if K and V are in a paged cache.
    pub offsets: Option<[&'l Buffer<u32>; 2]>,
    /// The pages of a paged cache.
    pub pages: Option<Pages<'l>>,
    /// The slope of each head (ALiBi).
    pub slopes: Option<&'l Buffer<f32>>,
    /// The sink of each head.
    pub sinks: Option<&'l Buffer<f32>>,
}

impl<'l, T> AttentionBuffers<'l, T> {
    /// Q, K, V and O, and nothing else.
    pub fn new(q: &'l Buffer<T>, k: &'l Buffer<T>, v: &'l Buffer<T>, o: &'l mut Buffer<T>) -> Self {
        Self { q, k, v, o, lse: None, offsets: None, pages: None, slopes: None, sinks: None }
    }
}

/// The pages of a paged cache that hold the keys of each sequence.
#[derive(Clone, Copy)]
pub struct Pages<'l> {
    /// The block table: the page of each `page_size` keys, (batch, pages per sequence). Entries past a
    /// sequence's length may be anything, and so may what its last page holds past it.
    pub table: &'l Buffer<u32>,
    /// The keys of each sequence: (batch).
    pub lengths: &'l Buffer<u32>,
}

/// What a launch has beside Q, K, V and O.
pub(super) struct Extras<'l> {
    pub(super) lse: Option<&'l mut Buffer<f32>>,
    pub(super) offsets: Option<[&'l Buffer<u32>; 2]>,
    pub(super) pages: Option<Pages<'l>>,
    pub(super) slopes: Option<&'l Buffer<f32>>,
    pub(super) sinks: Option<&'l Buffer<f32>>,
}

/// A stream's workspace, and what is passed for absent arguments.
#[derive(Default)]
struct AttentionScratch {
    logarithms: Scratch<f32>,
    nothing: Scratch<f32>,
    /// The counter of tiles, zero between launches.
    taken: Scratch<u32>,
}

/// Zeros for a row of K and V that no query sees, at least as many as its elements.
#[derive(Default)]
struct AbsentKeys(Scratch<f32>);

/// What launches of one attention share, with inputs of type `I`.
pub(super) struct Plan<I, Arguments> {
    pub(super) kernel: Arc<Compiled<Arguments>>,
    pub(super) maps: [TileMaps<I>; 3],
    pub(super) ctas: u32,
}

type ForwardArguments<T> = (TensorMap, TensorMap, TensorMap, Out<T>, Out<f32>, Out<u32>, PassedProblem);

/// What [`ForwardProblem`](crate::attention::forward::ForwardProblem) is at a launch.
pub(super) type PassedProblem =
    ([u32; 2], [u32; 3], [u32; 2], u32, f32, f32, In<u32>, In<u32>, In<u32>, u32, In<f32>, In<f32>, [u64; 4]);

/// What a launch passes for it.
pub(super) type Passed<'l> = (
    [u32; 2],
    [u32; 3],
    [u32; 2],
    u32,
    f32,
    f32,
    &'l Buffer<u32>,
    &'l Buffer<u32>,
    &'l Buffer<u32>,
    u32,
    &'l Buffer<f32>,
    &'l Buffer<f32>,
    [u64; 4],
);

impl Operations {
    /// Attention of each head: see [`Attention`].
    ///
    /// Queries that see no key get zeros, and minus infinity for their logarithm. An element of O is
    /// off by at most 2^-8 (bf16; 2^-11 for f16) of the sum of the magnitudes that it adds, because
    /// weights are rounded to the type, and by its own rounding.
    ///
    /// ```
    /// # use warpwright::prelude::*;
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::attention::{Attention, AttentionBuffers, Mask};
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// // Two queries and two keys of one head; the second query sees both keys, equally well.
    /// let zeros = device.zeros::<bf16>(2 * 64)?;
    /// let v: Vec<bf16> = (0..128).map(|i| bf16::from_f32(if i < 64 { 1.0 } else { 3.0 })).collect();
    /// let (v, mut o) = (device.buffer_from(&v)?, device.uninitialized::<bf16>(128)?);
    /// let attention = Attention::new(1, 2, 1, 64).mask(Mask::Causal);
    /// operations.attention(&stream, &attention, AttentionBuffers::new(&zeros, &zeros, &v, &mut o))?;
    /// let o = o.to_vec()?;
    /// assert_eq!((o[0].to_f32(), o[64].to_f32()), (1.0, 2.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Extents that no kernel computes, a buffer does not have the size of the shape, or the device
    /// has no `wgmma` or refuses.
    pub fn attention<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        buffers: AttentionBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        self.attention_as(stream, attention, Configuration::of(attention), buffers)
    }

    /// Attention with a function of the scores, instead of a bound and a bias: a closure that
    /// captures nothing.
    ///
    /// ```
    /// # use warpwright::prelude::*;
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::attention::{Attention, AttentionBuffers, score::Pair};
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// # let q = device.zeros::<bf16>(64 * 64)?;
    /// # let mut o = device.uninitialized::<bf16>(64 * 64)?;
    /// let parity = |score: Reg<f32>, pair: Pair| score + (pair.key % 2).convert::<f32>();
    /// let buffers = AttentionBuffers::new(&q, &q, &q, &mut o);
    /// operations.attention_with(&stream, &Attention::new(1, 64, 1, 64), parity, buffers)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`attention`](Self::attention).
    pub fn attention_with<T: AttentionElement + Storable, S: ScoreOp + Copy + Send + Sync + 'static>(
        &self,
        stream: &Stream,
        attention: &Attention,
        score: S,
        buffers: AttentionBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        const { assert!(size_of::<S>() == 0, "a function of scores is known by its type: it captures nothing") }
        expect_function(attention)?;
        self.launch_attention(stream, attention, Configuration::of(attention), buffers, Some(score))
    }

    /// Attention in a configuration.
    pub fn attention_as<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        configuration: Configuration,
        buffers: AttentionBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        self.launch_attention(stream, attention, configuration, buffers, None::<()>)
    }

    fn launch_attention<T: AttentionElement + Storable, S: ScoreOp + Copy + Send + Sync + 'static>(
        &self,
        stream: &Stream,
        attention: &Attention,
        configuration: Configuration,
        buffers: AttentionBuffers<'_, T>,
        score: Option<S>,
    ) -> Result<LaunchCounts> {
        expect_supported(attention)?;
        configuration.check()?;
        let AttentionBuffers { q, k, v, o, lse, offsets, pages, slopes, sinks } = buffers;
        expect_matrices(attention, [q.len(), k.len(), v.len(), o.len()], [T::BYTES; 2])?;
        let extras = Extras { lse, offsets, pages, slopes, sinks };
        expect_extras(attention, &extras)?;
        if attention.rows()[0] == 0 || attention.shape.heads == 0 {
            return Ok(LaunchCounts::default());
        }
        let kernel = configuration.kernel(attention);
        let key = (attention.shape, attention.packed, attention.cache, attention.strides, kernel);
        let plan = self.remembered::<(ForwardArguments<T>, S), _, _>(key, |_| {
            self.attention_plan(attention, kernel, kernel.tiles::<T>(), || {
                self.kernel(
                    AttentionKernel { kernel, score },
                    AttentionKernel::<ForwardKernel, S>::forward::<T>,
                )
            })
        })?;
        let [q, k, v] = self.attention_maps(stream, attention, &plan.maps, [q, k, v])?;
        let grid = plan.kernel.shape(plan.ctas).overlapping();
        self.with_attention_arguments(
            stream,
            attention,
            configuration.section,
            extras,
            |lse, taken, problem| {
                Ok(plan.kernel.launch(stream, grid, (&q, &k, &v, o, lse, taken, problem))?)
            },
        )
    }

    /// Does `launch` with the logarithms, the counter of tiles, and the problem.
    pub(super) fn with_attention_arguments<R>(
        &self,
        stream: &Stream,
        attention: &Attention,
        section: u32,
        extras: Extras<'_>,
        launch: impl FnOnce(&mut Buffer<f32>, &mut Buffer<u32>, Passed<'_>) -> Result<R>,
    ) -> Result<R> {
        let shape = attention.shape;
        let window = attention.mask.window();
        let lengths = [shape.queries, shape.keys];
        let heads = [shape.heads, shape.heads / shape.kv_heads, shape.batch];
        let (scale, bound) = (attention.scale_or_default(), attention.bound.unwrap_or(1.0));
        let count = attention.rows()[0] * shape.heads as usize;
        self.with_scratch(stream, |AttentionScratch { logarithms, nothing, taken }: &mut AttentionScratch| {
            let nothing = &*nothing.at_least(self.device(), 1)?;
            let lse = match extras.lse {
                Some(lse) => lse,
                None => logarithms.at_least(self.device(), count)?,
            };
            let [queries, key_offsets] = extras.offsets.unwrap_or([nothing.cast(); 2]);
            let pages = extras.pages.filter(|_| attention.cache.is_some());
            let (table, keys) =
                pages.map_or((nothing.cast(), key_offsets), |pages| (pages.table, pages.lengths));
            let entries = attention.cache.map_or(0, |cache| cache.pages_per_sequence);
            let [slopes, sinks] = [extras.slopes, extras.sinks].map(|given| given.unwrap_or(nothing));
            let strides = attention.matrices()[3].strides.passed();
            let problem = (
                lengths, heads, window, section, scale, bound, queries, keys, table, entries, slopes, sinks,
                strides,
            );
            launch(lse, taken.at_least_kept(stream, 1)?, problem)
        })
    }

    /// The maps of Q, K and V. Where there are no keys, zeros stand for K and V.
    pub(super) fn attention_maps<I: Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        maps: &[TileMaps<I>; 3],
        [q, k, v]: [&Buffer<I>; 3],
    ) -> Result<[runtime::TensorMap; 3]> {
        let [q_maps, k_maps, v_maps] = maps;
        let [_, of_k, of_v, _] = attention.matrices().map(HeadMatrix::with_a_row);
        if attention.rows()[1] > 0 {
            return Ok([q_maps.of(q)?, k_maps.of(k)?, v_maps.of(v)?]);
        }
        self.with_scratch(stream, |AbsentKeys(zeros): &mut AbsentKeys| {
            let zeros = zeros.at_least_kept(stream, of_k.reach().max(of_v.reach()) as usize)?;
            Ok([q_maps.of(q)?, k_maps.of(zeros.cast())?, v_maps.of(zeros.cast())?])
        })
    }

    /// The plan of a kernel whose tiles of Q, K and V are `tiles`.
    pub(super) fn attention_plan<I: Storable, Arguments>(
        &self,
        attention: &Attention,
        kernel: ForwardKernel,
        tiles: [Result<TmaTile, Error>; 3],
        compile: impl FnOnce() -> Result<Arc<Compiled<Arguments>>>,
    ) -> Result<Plan<I, Arguments>> {
        let capability = self.device().properties().capability;
        if !has_wgmma(capability) {
            let reason =
                format!("its kernel needs `wgmma` (sm_90a), and the device is {}", capability.target);
            return Err(OperationError::Shape { what: "an attention", reason });
        }
        let Shape { batch, heads, .. } = attention.shape;
        let ([q, k, v, _], [q_tile, k_tile, v_tile]) = (attention.matrices(), tiles);
        let maps = [maps_of(&q, q_tile)?, maps_of(&k, k_tile)?, maps_of(&v, v_tile)?];
        let tiles = u64::from(attention.shape.queries.div_ceil(kernel.rows() * kernel.cluster))
            * u64::from(heads)
            * u64::from(batch);
        let clusters = u64::from(self.device().properties().sm_count / kernel.cluster);
        Ok(Plan { kernel: compile()?, maps, ctas: tiles.min(clusters) as u32 * kernel.cluster })
    }
}

/// The maps of the tiles of a matrix: their third axis are heads, their fourth sequences or pages.
pub(super) fn maps_of<T: Storable>(matrix: &HeadMatrix, tile: Result<TmaTile, Error>) -> Result<TileMaps<T>> {
    let refused = |error: Error| OperationError::Shape { what: "an attention", reason: error.to_string() };
    let tile = tile.map_err(refused)?;
    let matrix = matrix.with_a_row();
    let Strides { first, sequence, row, head } = matrix.strides;
    let (rows, heads, d) = (matrix.rows.into(), matrix.heads.into(), matrix.d.into());
    let extents = if tile.major() == Major::K { (rows, d) } else { (d, rows) };
    let maps = TileMaps::new(extents, &tile)?.starting_at(first).pitched(row).batched(heads, head);
    Ok(match matrix.sequences {
        Some(sequences) => maps.batched(sequences.into(), sequence),
        None => maps,
    })
}

/// Refuses extents that the kernel does not compute.
pub(super) fn expect_supported(attention: &Attention) -> Result<()> {
    if let Some(cache) = attention.cache {
        cache.check("an attention")?;
    }
    let Shape { batch, queries, keys, heads, kv_heads, head_dim, value_dim } = attention.shape;
    let capacity = attention.cache.map_or(0, |cache| cache.capacity());
    let (scale, bound) = (attention.scale_or_default(), attention.bound.unwrap_or(1.0));
    let tiles =
        u64::from(queries.div_ceil(64)).saturating_mul(u64::from(heads)).saturating_mul(u64::from(batch));
    let is_dim = |dim: u32| dim.is_multiple_of(16) && (16..=256).contains(&dim);
    let reason = if kv_heads == 0 || heads % kv_heads != 0 {
        format!("{heads} heads of Q are not a multiple of {kv_heads} heads of K and V")
    } else if !(is_dim(head_dim) && is_dim(value_dim)) {
        format!("heads have {head_dim} and {value_dim} elements; use multiples of 16 up to 256")
    } else if capacity > 1 << 30 {
        format!("a sequence's entries of the block table hold {capacity} keys; use at most 2^30")
    } else if queries > 1 << 30 || keys > 1 << 30 || tiles >= 1 << 31 {
        format!("{batch} sequences of {queries} queries and {keys} keys are too many; do the work in parts")
    } else if !(scale > 0.0 && scale.is_finite()) {
        format!("the scale of the scores is {scale}; use a positive one")
    } else if !(bound > 0.0 && bound.is_finite()) {
        format!("the bound of the scores is {bound}; use a positive one")
    } else if bound > LARGEST_SOFTCAP {
        format!(
            "the bound of the scores is {bound}, and they are off by 2^-23 of it; use at most {LARGEST_SOFTCAP}, or none"
        )
    } else {
        return Ok(());
    };
    Err(OperationError::Shape { what: "an attention", reason })
}

/// Refuses a bound or a bias beside a function of the scores.
pub(super) fn expect_function(attention: &Attention) -> Result<()> {
    if !(attention.bound.is_some() || attention.biased) {
        return Ok(());
    }
    let reason = "it has a bound or a bias; put them into the function of the scores";
    Err(OperationError::Shape { what: "an attention", reason: reason.to_owned() })
}

/// Refuses a buffer of `given` elements that does not hold a matrix: one without gaps has no others.
pub(super) fn expect_matrix(
    attention: &Attention,
    what: &'static str,
    (matrix, given): (&HeadMatrix, usize),
) -> Result<()> {
    let reach = matrix.reach();
    if attention.strides.is_some() && given as u64 >= reach {
        return Ok(());
    }
    expect_length(what, reach as usize, given)
}

/// Refuses Q, K, V and O that do not have the size of the shape. An element of an input has the first
/// number of bytes, one of O the second.
pub(super) fn expect_matrices(attention: &Attention, given: [usize; 4], bytes: [u32; 2]) -> Result<()> {
    let names = ["Q of an attention", "K of an attention", "V of an attention", "O of an attention"];
    let matrices = attention.matrices();
    for (number, ((what, given), matrix)) in names.into_iter().zip(given).zip(&matrices).enumerate() {
        expect_matrix(attention, what, (matrix, given))?;
        matrix.check(what, bytes[number / 3])?;
    }
    matrices[3].expect_distinct(names[3])
}

/// Refuses buffers that do not have the size of the shape, or that are missing.
pub(super) fn expect_extras(attention: &Attention, extras: &Extras<'_>) -> Result<()> {
    let ([rows, _], heads) = (attention.rows(), attention.shape.heads as usize);
    if let Some(lse) = &extras.lse {
        expect_length("the logarithms of an attention", rows * heads, lse.len())?;
    }
    let lengths = |given: Option<usize>| given.unwrap_or(0);
    if let Some(cache) = attention.cache {
        let (sequences, pages) = (attention.shape.batch, extras.pages);
        let table = lengths(pages.map(|pages| pages.table.len()));
        expect_length("the block table of an attention", cache.table_entries(sequences), table)?;
        let given = lengths(pages.map(|pages| pages.lengths.len()));
        expect_length("the keys of each sequence of an attention", sequences as usize, given)?;
        let queries = lengths(extras.offsets.map(|[queries, _]| queries.len()));
        expect_length("the offsets of packed queries", sequences as usize + 1, queries)?;
    } else if attention.is_packed() {
        let sequences = attention.shape.batch as usize + 1;
        let given = extras.offsets.map(|offsets| offsets.map(Buffer::len));
        let [queries, keys] = given.unwrap_or([0; 2]);
        expect_length("the offsets of packed queries", sequences, queries)?;
        expect_length("the offsets of packed keys", sequences, keys)?;
    }
    if attention.biased {
        expect_length("the slopes of an attention", heads, lengths(extras.slopes.map(Buffer::len)))?;
    }
    if attention.sinks {
        expect_length("the sinks of an attention", heads, lengths(extras.sinks.map(Buffer::len)))?;
    }
    Ok(())
}
