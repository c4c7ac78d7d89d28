//! Attention of e4m3 matrices with scales, for programs.

use strum::{EnumMessage, IntoStaticStr, VariantArray};

use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::config::{Configuration, TransposeV};
use super::operations::{
    Extras, Pages, PassedProblem, expect_extras, expect_function, expect_matrices, expect_supported,
};
use crate::attention::forward::{BLOCK, ForwardKernel, Fp8Form};
use crate::attention::problem::{Attention, AttentionElement};
use crate::attention::score::{AttentionKernel, ScoreOp};
use crate::operations::{Operations, Result, expect_length};

/// The elements of Q, K and V that share a scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum ScaleGranularity {
    /// Those of a head.
    #[default]
    Head,
    /// Those of 128 queries, or keys, of a head. A packed sequence with more keys than the largest that is
    /// described, and so more than scales, stops the kernel.
    Block,
}

impl ScaleGranularity {
    /// The scales of a head of `rows` queries or keys.
    fn count(self, rows: u32) -> u32 {
        match self {
            Self::Head => 1,
            Self::Block => rows.div_ceil(BLOCK).max(1),
        }
    }

    /// The scales of Q, and those of K and of V.
    pub fn lengths(self, attention: &Attention) -> [usize; 2] {
        let shape = attention.shape;
        let length = |heads: u32, rows: u32| {
            (shape.batch as usize * heads as usize).saturating_mul(self.count(rows) as usize)
        };
        [length(shape.heads, shape.queries), length(shape.kv_heads, shape.keys)]
    }
}

/// What the elements of Q, K and V are multiplied by: positive numbers, or 0 for elements that are 0.
#[derive(Clone, Copy)]
pub struct AttentionScales<'l> {
    /// The elements that share a scale.
    pub granularity: ScaleGranularity,
    /// The scales of Q, (batch, heads), or (batch, heads, queries / 128), rounded up.
    pub q: &'l Buffer<f32>,
    /// The scales of K, (batch, kv_heads), or (batch, kv_heads, keys / 128), rounded up.
    pub k: &'l Buffer<f32>,
    /// The scales of V, as those of K.
    pub v: &'l Buffer<f32>,
}

/// The matrices of an attention of e4m3 Q, K and V. O is bf16 or f16.
pub struct Fp8AttentionBuffers<'l, T> {
    /// Q, (batch, queries, heads, head_dim).
    pub q: &'l Buffer<e4m3>,
    /// K, (batch, keys, kv_heads, head_dim).
    pub k: &'l Buffer<e4m3>,
    /// V, (batch, keys, kv_heads, value_dim).
    pub v: &'l Buffer<e4m3>,
    /// Their scales.
    pub scales: AttentionScales<'l>,
    /// O, (batch, queries, heads, value_dim).
    pub o: &'l mut Buffer<T>,
    /// As in [`AttentionBuffers::lse`](super::AttentionBuffers::lse).
    pub lse: Option<&'l mut Buffer<f32>>,
    /// As in [`AttentionBuffers::offsets`](super::AttentionBuffers::offsets).
    pub offsets: Option<[&'l Buffer<u32>; 2]>,
    /// As in [`AttentionBuffers::pages`](super::AttentionBuffers::pages).
    pub pages: Option<Pages<'l>>,
    /// The slope of each head (ALiBi).
    pub slopes: Option<&'l Buffer<f32>>,
    /// The sink of each head.
    pub sinks: Option<&'l Buffer<f32>>,
}

impl<'l, T> Fp8AttentionBuffers<'l, T> {
    /// Q, K, V and their scales, and O, and nothing else.
    pub fn new([q, k, v]: [&'l Buffer<e4m3>; 3], scales: AttentionScales<'l>, o: &'l mut Buffer<T>) -> Self {
        Self { q, k, v, scales, o, lse: None, offsets: None, pages: None, slopes: None, sinks: None }
    }
}

type Fp8Arguments<T> =
    (TensorMap, TensorMap, TensorMap, Out<T>, Out<f32>, Out<u32>, PassedProblem, PassedScales);

/// What [`ScaleArrays`](crate::attention::forward::fp8::ScaleArrays) is at a launch.
type PassedScales = (In<f32>, In<f32>, In<f32>, [u32; 2]);

impl Operations {
    /// Attention of e4m3 Q, K and V with scales: see [`Attention`].
    ///
    /// Scores and O are summed in f32, of at most 128 keys by the tensor cores. An element of O is
    /// off by at most 2^-4 of the sum of the magnitudes that it adds, because weights are rounded to
    /// e4m3; the roundings of many keys cancel each other.
    ///
    /// Where it takes less time, V is transposed before the forward kernel: [`TransposeV::Before`].
    ///
    /// ```
    /// # use warpwright::prelude::*;
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::attention::{Attention, AttentionScales, Fp8AttentionBuffers, Mask, ScaleGranularity};
    /// # use warpwright_kernels::operations::Operations;
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// // Two queries and two keys of one head; the second query sees both keys, equally well.
    /// let zeros = device.zeros::<e4m3>(2 * 64)?;
    /// let v: Vec<e4m3> = (0..128).map(|i| e4m3::from_f32(if i < 64 { 1.0 } else { 3.0 })).collect();
    /// let (v, mut o) = (device.buffer_from(&v)?, device.uninitialized::<bf16>(128)?);
    /// let (one, ten) = (device.buffer_from(&[1.0f32])?, device.buffer_from(&[10.0f32])?);
    /// let scales = AttentionScales { granularity: ScaleGranularity::Head, q: &one, k: &one, v: &ten };
    /// let attention = Attention::new(1, 2, 1, 64).mask(Mask::Causal);
    /// let buffers = Fp8AttentionBuffers::new([&zeros, &zeros, &v], scales, &mut o);
    /// operations.attention_fp8(&stream, &attention, buffers)?;
    /// let o = o.to_vec()?;
    /// assert_eq!((o[0].to_f32(), o[64].to_f32()), (10.0, 20.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Extents that no kernel computes, a buffer does not have the size of the shape, or the device
    /// has no `wgmma` or refuses.
    pub fn attention_fp8<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        buffers: Fp8AttentionBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        self.attention_fp8_as(stream, attention, Configuration::of_fp8(attention), buffers)
    }

    /// [`attention_fp8`](Self::attention_fp8) with V transposed where `transpose_v` says.
    ///
    /// # Errors
    /// As [`attention_fp8`](Self::attention_fp8), or V of a paged cache is to be transposed before.
    pub fn attention_fp8_by<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        transpose_v: TransposeV,
        buffers: Fp8AttentionBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        let configuration = Configuration { transpose_v, ..Configuration::of_fp8(attention) };
        self.attention_fp8_as(stream, attention, configuration, buffers)
    }

    /// [`attention_fp8`](Self::attention_fp8) with a function of the scores, as
    /// [`attention_with`](Self::attention_with) takes it: it gets scores that have their scales.
    ///
    /// # Errors
    /// As [`attention_fp8`](Self::attention_fp8).
    pub fn attention_fp8_with<T: AttentionElement + Storable, S: ScoreOp + Copy + Send + Sync + 'static>(
        &self,
        stream: &Stream,
        attention: &Attention,
        score: S,
        buffers: Fp8AttentionBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        const { assert!(size_of::<S>() == 0, "a function of scores is known by its type: it captures nothing") }
        expect_function(attention)?;
        let configuration = Configuration::of_fp8(attention);
        self.launch_attention_fp8(stream, attention, configuration, buffers, Some(score))
    }

    /// [`attention_fp8`](Self::attention_fp8) in a configuration.
    pub fn attention_fp8_as<T: AttentionElement + Storable>(
        &self,
        stream: &Stream,
        attention: &Attention,
        configuration: Configuration,
        buffers: Fp8AttentionBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        self.launch_attention_fp8(stream, attention, configuration, buffers, None::<()>)
    }

    fn launch_attention_fp8<T: AttentionElement + Storable, S: ScoreOp + Copy + Send + Sync + 'static>(
        &self,
        stream: &Stream,
        attention: &Attention,
        configuration: Configuration,
        buffers: Fp8AttentionBuffers<'_, T>,
        score: Option<S>,
    ) -> Result<LaunchCounts> {
        expect_supported(attention)?;
        configuration.check_fp8(attention)?;
        let Fp8AttentionBuffers { q, k, v, scales, o, lse, offsets, pages, slopes, sinks } = buffers;
        expect_matrices(attention, [q.len(), k.len(), v.len(), o.len()], [1, T::BYTES])?;
        let extras = Extras { lse, offsets, pages, slopes, sinks };
        expect_extras(attention, &extras)?;
        let AttentionScales { granularity, q: q_scales, k: k_scales, v: v_scales } = scales;
        let [of_q, of_k] = granularity.lengths(attention);
        expect_length("the scales of Q of an attention", of_q, q_scales.len())?;
        expect_length("the scales of K of an attention", of_k, k_scales.len())?;
        expect_length("the scales of V of an attention", of_k, v_scales.len())?;
        let shape = attention.shape;
        if attention.rows()[0] == 0 || shape.heads == 0 {
            return Ok(LaunchCounts::default());
        }
        let block_scales = granularity == ScaleGranularity::Block;
        let v_transposed = configuration.transpose_v == TransposeV::Before;
        let fp8 = Some(Fp8Form { block_scales, v_transposed });
        let kernel = ForwardKernel { fp8, ..configuration.kernel(attention) };
        let key = (shape, attention.packed, attention.cache, attention.strides, kernel);
        let plan = self.remembered::<(Fp8Arguments<T>, S), _, _>(key, |_| {
            let [q_tile, k_tile, v_tile] = kernel.tiles::<e4m3>();
            let v_tile = if v_transposed { kernel.value_transpose().tile() } else { v_tile };
            let tiles = [q_tile, k_tile, v_tile];
            self.attention_plan(attention, kernel, tiles, || {
                self.kernel(
                    AttentionKernel { kernel, score },
                    AttentionKernel::<ForwardKernel, S>::fp8_forward::<T>,
                )
            })
        })?;
        let [q, k, v] = self.attention_maps(stream, attention, &plan.maps, [q, k, v])?;
        let counts = [shape.queries, shape.keys].map(|rows| granularity.count(rows));
        let grid = plan.kernel.shape(plan.ctas).overlapping();
        self.with_attention_arguments(
            stream,
            attention,
            configuration.section,
            extras,
            |lse, taken, problem| {
                let scales = (q_scales, k_scales, v_scales, counts);
                let mut launch = |v: &_| {
                    Ok(plan.kernel.launch(stream, grid, (&q, &k, v, o, lse, taken, problem, scales))?)
                };
                match v_transposed {
                    true => self.with_values_transposed(stream, attention, kernel, (&v, problem.7), launch),
                    false => launch(&v),
                }
            },
        )
    }
}
