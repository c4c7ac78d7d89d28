//! The operation for programs.

use warpwright::arch::tensor_map::{Description, L2Promotion};
use warpwright::lang::pointer::{Global, In};
use warpwright::lang::tensor_map::TensorMap as DeviceMap;
use warpwright::runtime::{Buffer, HostParameter, LaunchCounts, Storable, Stream, TensorMap};

use super::super::device::{CacheElement, DecodeAttention, Pool, box_requirement};
use super::super::plan::{DecodePlan, DecodeTuning};
use super::super::problem::{DecodeBuffers, DecodeOptions, DecodeShape};
use crate::operations::{Operations, Result, Scratch};

/// The workspace of a stream.
#[derive(Default)]
struct DecodeScratch {
    partials: Scratch<f32>,
    arrived: Scratch<u32>,
}

impl Operations {
    /// Attention of the last `queries` tokens of each sequence over its paged keys and values:
    /// softmax(Q·Kᵀ·scale)·V.
    ///
    /// Query i of n sees the keys up to position length - n + i. A query that sees none has the
    /// output 0. Lengths and block table are read on the device when the kernel runs, so that a CUDA
    /// graph may be replayed with others. A sequence that is longer than its entries of the block
    /// table stops the kernel.
    ///
    /// Products and sums are in f32, and the weights of V are rounded to `T`: an output is off by
    /// about one rounding to `T` of the values' magnitude, weighted by the weights.
    ///
    /// ```
    /// # use warpwright::prelude::*;
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::attention::PagedCache;
    /// # use warpwright_kernels::attention::decode::{DecodeBuffers, DecodeOptions, DecodeShape, Heads};
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// // One sequence of 3 keys, in page 1 of 2. All scores are 0, so the output is the mean.
    /// let heads = Heads { query_heads: 1, key_heads: 1, head_dim: 64 };
    /// let cache = PagedCache { page_size: 16, pages: 2, pages_per_sequence: 1 };
    /// let shape = DecodeShape { heads, batch: 1, queries: 1, cache };
    /// let queries = device.zeros::<bf16>(shape.query_elements())?;
    /// let keys = device.zeros::<bf16>(shape.pool_elements())?;
    /// let of_key = |i: usize| bf16::from_f32((i / 64) as f32 - 16.0);
    /// let values = device.buffer_from(&(0..shape.pool_elements()).map(of_key).collect::<Vec<_>>())?;
    /// let (table, lengths) = (device.buffer_from(&[1u32])?, device.buffer_from(&[3u32])?);
    /// let mut output = device.uninitialized::<bf16>(shape.query_elements())?;
    /// let mut lse = device.uninitialized::<f32>(shape.query_rows())?;
    /// let buffers = DecodeBuffers {
    ///     queries: &queries,
    ///     keys: &keys,
    ///     values: &values,
    ///     table: &table,
    ///     lengths: &lengths,
    ///     gates: None,
    ///     output: &mut output,
    ///     lse: &mut lse,
    /// };
    /// operations.decode_attention(&stream, &shape, DecodeOptions::default(), buffers)?;
    /// assert_eq!(output.to_vec()?, [bf16::ONE; 64]);
    /// assert!((lse.to_vec()?[0] - 3f32.ln()).abs() < 1e-6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The shape is not one that the kernel takes, a buffer does not have the size of the shape, an
    /// option is out of range, or the device refuses.
    pub fn decode_attention<T: CacheElement + Storable>(
        &self,
        stream: &Stream,
        shape: &DecodeShape,
        options: DecodeOptions<'_>,
        buffers: DecodeBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        self.tuned_decode_attention(stream, shape, options, buffers, &DecodeTuning::default())
    }

    /// As [`decode_attention`](Self::decode_attention), with a configuration of the caller.
    pub fn tuned_decode_attention<T: CacheElement + Storable>(
        &self,
        stream: &Stream,
        shape: &DecodeShape,
        options: DecodeOptions<'_>,
        buffers: DecodeBuffers<'_, T>,
        tuning: &DecodeTuning,
    ) -> Result<LaunchCounts> {
        shape.check()?;
        options.check(shape.heads)?;
        buffers.check(shape)?;
        if shape.query_rows() == 0 {
            return Ok(LaunchCounts::default());
        }
        let capability = self.device().properties().capability;
        let plan = DecodePlan::new::<T>(shape, tuning, capability)?;
        let kernel = DecodeAttention {
            heads: shape.heads,
            queries: shape.queries,
            page_size: shape.cache.page_size,
            has_window: options.window.is_some(),
            has_softcap: options.softcap.is_some(),
            has_sink: options.sink.is_some(),
            has_gates: buffers.gates.is_some(),
            is_settled: options.is_settled && plan.is_hopper,
            plan,
        };
        let call = Call { stream, kernel, shape, options };
        if kernel.plan.is_hopper {
            let keys = pool_map(&kernel, shape, buffers.keys, tuning.promotion.into())?;
            let values = pool_map(&kernel, shape, buffers.values, tuning.promotion.into())?;
            call.launch::<T, DeviceMap>(self, [&keys, &values], buffers)
        } else {
            let pools = [buffers.keys, buffers.values];
            call.launch::<T, Global<T>>(self, pools, buffers)
        }
    }
}

/// The map of a pool: columns of a panel, keys of a page, panels, heads, pages.
fn pool_map<T: CacheElement + Storable>(
    kernel: &DecodeAttention,
    shape: &DecodeShape,
    pool: &Buffer<T>,
    l2_promotion: L2Promotion,
) -> Result<TensorMap> {
    let boxes = box_requirement::<T>(kernel);
    let bytes = |elements: u32| u64::from(elements) * u64::from(T::BYTES);
    let (heads, span) = (shape.heads, kernel.panel_columns::<T>());
    let row = heads.key_heads * heads.head_dim;
    let extents = [span, shape.cache.page_size, heads.head_dim / span, heads.key_heads, shape.cache.pages];
    let description = Description {
        extents: extents.map(u64::from).to_vec(),
        strides: vec![
            bytes(row),
            bytes(span),
            bytes(heads.head_dim),
            bytes(row) * u64::from(shape.cache.page_size),
        ],
        l2_promotion,
        ..boxes.row_major(0, &[1; 5])
    };
    Ok(TensorMap::new(pool, description)?)
}

/// A call with a shape that was checked.
struct Call<'l> {
    stream: &'l Stream,
    kernel: DecodeAttention,
    shape: &'l DecodeShape,
    options: DecodeOptions<'l>,
}

impl Call<'_> {
    /// Launches the kernel on pools of type `P`.
    fn launch<T, P>(
        &self,
        operations: &Operations,
        [keys, values]: [&impl PassedAs<P::Host>; 2],
        buffers: DecodeBuffers<'_, T>,
    ) -> Result<LaunchCounts>
    where
        T: CacheElement + Storable,
        P: Pool<T> + 'static,
        P::Host: HostParameter + 'static,
    {
        let Self { stream, kernel, shape, options } = self;
        let compiled = operations.kernel(*kernel, DecodeAttention::run::<T, P>)?;
        let ctas = kernel.ctas(shape, operations.resident(&compiled)?);
        let window = options.window.unwrap_or(u32::MAX).min(shape.cache.capacity() as u32 + shape.queries);
        let sizes = [shape.batch, shape.cache.pages_per_sequence, window, kernel.team_ctas(ctas)];
        let DecodeBuffers { queries, table, lengths, gates, output, lse, .. } = buffers;
        let (gates, strides) = gates.map_or((queries, [0; 3]), |gates| (gates.buffer, gates.strides()));
        let sink = options.sink.unwrap_or_else(|| queries.cast());
        let factors = options.factors(shape.heads);
        operations.with_scratch(stream, |scratch: &mut DecodeScratch| {
            let workspace =
                scratch.partials.at_least(operations.device(), kernel.workspace_elements(ctas))?;
            let arrived = scratch.arrived.at_least_kept(stream, kernel.counters(ctas))?;
            let launch = compiled.shape(ctas);
            let launch = if kernel.plan.is_hopper { launch.overlapping() } else { launch };
            let inputs = (queries, table, lengths, sink, gates, strides, sizes, factors);
            let arguments = (keys.passed(), values.passed(), inputs, output, lse, workspace, arrived);
            Ok(compiled.launch(stream, launch, arguments)?)
        })
    }
}

/// A pool on the host.
trait PassedAs<P: HostParameter> {
    /// What a launch passes for it.
    fn passed(&self) -> P::Passed<'_>;
}

impl PassedAs<DeviceMap> for TensorMap {
    fn passed(&self) -> &Self {
        self
    }
}

impl<T: Storable> PassedAs<In<T>> for Buffer<T> {
    fn passed(&self) -> &Self {
        self
    }
}
