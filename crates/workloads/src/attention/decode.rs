//! Decode attention as a workload.

use warpwright::prelude::*;
use warpwright::runtime::Buffer;
use warpwright_harness::{
    HostNumber, Options, Prepared, Random, Result, Setup, Values, Work, Workload, data_types,
};

use super::decode_reference::Inputs;
use super::pages::{block_table, poison_unused};
use warpwright_kernels::attention::PagedCache;
use warpwright_kernels::attention::decode::CacheElement;
use warpwright_kernels::attention::decode::{CacheEviction, CachePromotion, DecodeTuning};
use warpwright_kernels::attention::decode::{DecodeBuffers, DecodeOptions, DecodeShape, Heads};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rope::HeadRows;

data_types! {
    /// Types of K and V.
    pub(crate) enum CacheType by with_cache_type { bf16, f16 }
}

/// Attention of the last queries of each sequence over its paged keys and values.
#[derive(Clone, Debug, Options)]
pub(crate) struct DecodeAttentionWorkload {
    /// Sequences.
    #[option(default = 3, max = 1 << 12)]
    batch: u32,
    /// Keys per sequence.
    #[option(default = 300, max = 1 << 20)]
    keys: u32,
    /// Draw the length of each sequence between 1 and `keys`.
    ragged: bool,
    /// Queries per sequence.
    #[option(default = 1, min = 1, max = 1 << 10)]
    queries: u32,
    /// Query heads.
    #[option(default = 8, min = 1, max = 1 << 10)]
    query_heads: u32,
    /// Heads of K and V.
    #[option(default = 2, min = 1, max = 1 << 10)]
    key_heads: u32,
    /// Elements of a query, a key and a value.
    #[option(default = 64, max = 1 << 10)]
    head_dim: u32,
    /// Keys of a page.
    #[option(default = 16, max = 1 << 10)]
    page_size: u32,
    /// Data type of Q, K, V and the output.
    #[option(name = "type")]
    element: CacheType,
    /// Keys that a query sees.
    #[option(min = 1, max = 1 << 20)]
    window: Option<u32>,
    /// Bound of the scores.
    softcap: Option<f32>,
    /// A logit per query head that joins the denominator.
    sink: bool,
    /// Multiply the output by the sigmoid of gates, which follow their queries.
    gates: bool,
    /// Copy keys and values of all but the last queries before the launch in front ends.
    settled: bool,
    /// The configuration.
    #[option(flatten)]
    tuning: DecodeTuningOptions,
}

/// The buffers of a launch.
struct Set<T> {
    queries: Buffer<T>,
    keys: Buffer<T>,
    values: Buffer<T>,
    table: Buffer<u32>,
    lengths: Buffer<u32>,
    sink: Option<Buffer<f32>>,
    /// (batch, queries, query heads, [query | gate]).
    gates: Option<Buffer<T>>,
    output: Buffer<T>,
    lse: Buffer<f32>,
}

impl DecodeAttentionWorkload {
    /// The length of each sequence: the same for every set of buffers.
    fn lengths(&self) -> Vec<u32> {
        let mut random = Random::new(u64::from(self.keys));
        let mut length = || match self.ragged {
            true => 1 + random.below(self.keys.max(1).into()) as u32,
            false => self.keys,
        };
        (0..self.batch).map(|_| length()).collect()
    }

    fn heads(&self) -> Heads {
        Heads { query_heads: self.query_heads, key_heads: self.key_heads, head_dim: self.head_dim }
    }

    /// The shape: the pools have the pages of all sequences, and one that none has.
    fn shape(&self) -> DecodeShape {
        let page_size = self.page_size.max(1);
        let pages = self.lengths().iter().map(|length| length.div_ceil(page_size)).sum::<u32>() + 1;
        let pages_per_sequence = self.keys.div_ceil(page_size).max(1);
        let cache = PagedCache { page_size: self.page_size, pages, pages_per_sequence };
        DecodeShape { heads: self.heads(), batch: self.batch, queries: self.queries, cache }
    }

    fn prepare_of<T: CacheElement + HostNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (shape, lengths, tuning) = (self.shape(), self.lengths(), self.tuning.tuning());
        shape.check()?;
        let (scale, window, softcap) =
            (DecodeOptions::default().scale(shape.heads), self.window, self.softcap);
        let (has_sink, has_gates, is_settled) = (self.sink, self.gates, self.settled);
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let table = block_table(&shape.cache, &lengths, seed);
            let pool = |seed| {
                setup.input(shape.pool_elements(), |count| {
                    let mut pool = Values::Normal.numbers::<T>(seed, count);
                    poison_unused(&mut pool, &shape.cache, &lengths, &table);
                    pool
                })
            };
            let (keys, values) = (pool(!seed)?, pool(!seed - 1)?);
            let sink = || setup.values::<f32>(Values::Normal, !seed - 2, shape.heads.query_heads as usize);
            let gates = || setup.values::<T>(Values::Normal, !seed - 3, 2 * shape.query_elements());
            Ok(Set {
                queries: setup.values::<T>(Values::Normal, seed, shape.query_elements())?,
                keys,
                values,
                lengths: setup.input(lengths.len(), |_| lengths.clone())?,
                sink: has_sink.then(sink).transpose()?,
                gates: has_gates.then(gates).transpose()?,
                output: setup.output::<T>(shape.query_elements())?,
                lse: setup.output::<f32>(shape.query_rows())?,
                table: setup.input(table.len(), |_| table)?,
            })
        })?;
        Ok(buffers
            .launch(move |stream, set: &mut Set<T>| {
                let options =
                    DecodeOptions { scale: None, window, softcap, sink: set.sink.as_ref(), is_settled };
                let buffers = DecodeBuffers {
                    queries: &set.queries,
                    keys: &set.keys,
                    values: &set.values,
                    table: &set.table,
                    lengths: &set.lengths,
                    gates: set.gates.as_ref().map(|buffer| gates_of(&shape, buffer)),
                    output: &mut set.output,
                    lse: &mut set.lse,
                };
                Ok(operations.tuned_decode_attention(stream, &shape, options, buffers, &tuning)?)
            })
            .verify(move |set| {
                let inputs = Inputs {
                    shape,
                    scale: scale.into(),
                    window,
                    softcap: softcap.map(f64::from),
                    sink: set.sink.as_ref().map(Buffer::to_vec).transpose()?,
                    gates: set.gates.as_ref().map(Buffer::to_vec).transpose()?,
                    queries: set.queries.to_vec()?,
                    keys: set.keys.to_vec()?,
                    values: set.values.to_vec()?,
                    table: set.table.to_vec()?,
                    lengths: set.lengths.to_vec()?,
                };
                inputs.verify(&set.output.to_vec()?, &set.lse.to_vec()?)
            }))
    }
}

/// The gates in a buffer of queries and gates.
fn gates_of<'l, T>(shape: &DecodeShape, buffer: &'l Buffer<T>) -> HeadRows<'l, T> {
    let Heads { query_heads, head_dim, .. } = shape.heads;
    HeadRows { buffer, offset: head_dim, token_stride: 2 * query_heads * head_dim, head_stride: 2 * head_dim }
}

impl Workload for DecodeAttentionWorkload {
    const NAME: &'static str = "decode-attention";

    /// The bytes of K and V, and the two products of the rows that there are.
    fn work(&self) -> Work {
        let seen =
            |length: &u32| self.window.map_or(*length, |window| (*length).min(window + self.queries - 1));
        let keys: f64 = self.lengths().iter().map(|length| f64::from(seen(length))).sum();
        let elements = keys * f64::from(self.head_dim);
        let bytes = with_cache_type!(self.element, T => T::BYTES);
        Work {
            operations: 4.0 * elements * f64::from(self.query_heads) * f64::from(self.queries),
            bytes: 2.0 * elements * f64::from(self.key_heads) * f64::from(bytes),
        }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_cache_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}

/// What `tune` sets; `auto` leaves it to the heuristic.
#[derive(Clone, Copy, Debug, Options)]
struct DecodeTuningOptions {
    /// Keys that a warp multiplies at once: 16, 32 or 64.
    #[option(min = 16, max = 64, search = [16, 32])]
    box_keys: Option<u32>,
    /// Warps along the keys of a tile.
    #[option(min = 1, max = 16, search = [2, 4, 8])]
    key_warps: Option<u32>,
    /// Tiles of K and V in shared memory.
    #[option(min = 2, max = 64, search = [4, 6, 8])]
    stages: Option<u32>,
    /// CTAs per SM.
    #[option(min = 1, max = 8, search = [1, 2])]
    ctas_per_sm: Option<u32>,
    /// Maximum number of CTAs.
    #[option(min = 1)]
    ctas: Option<u32>,
    /// L2 priority of K and V.
    evict: Option<CacheEviction>,
    /// L2 promotion of the tensor maps of K and V.
    promotion: CachePromotion,
}

impl DecodeTuningOptions {
    fn tuning(self) -> DecodeTuning {
        let Self { box_keys, key_warps, stages, ctas_per_sm, ctas, evict, promotion } = self;
        DecodeTuning { box_keys, key_warps, stages, ctas_per_sm, ctas, evict, promotion }
    }
}
