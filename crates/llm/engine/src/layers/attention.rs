//! Attention over the paged cache, with RMSNorm of heads and an output gate where the model has them.

use warpwright::runtime::Buffer;
use warpwright_kernels::attention::decode::Heads;
use warpwright_kernels::rope::{HeadNorm, HeadRows, RopeBuffers, RopeShape};
use warpwright_kernels::rows::Gain;

use super::cache::KeyValues;
use super::linear::Linear;
use super::norm::Norm;
use super::paged;
use super::pass::Pass;
use crate::config::{Config, Family};
use crate::error::Result;
use crate::number::Number;
use crate::weights::Loader;

/// The weights of an attention layer.
pub(crate) struct Attention<T> {
    shape: RopeShape,
    /// [q | k | v]; with a gate a head of q is [q | gate].
    projection: Linear<T>,
    norm: Option<HeadNorms<T>>,
    has_gate: bool,
    output: Linear<T>,
}

struct HeadNorms<T> {
    queries: Buffer<T>,
    keys: Buffer<T>,
    epsilon: f32,
    gain: Gain,
}

impl<T: Number> Attention<T> {
    pub(crate) fn new(config: &Config, loader: &mut Loader<'_>, name: &str) -> Result<Self> {
        let Config { heads, key_heads, head_dim, gain, .. } = *config;
        let Family { has_bias, has_head_norm, has_gate, .. } = *config.family;
        let name = |part: &str| format!("{name}.{part}.weight");
        let (queries, keys) = ((heads * head_dim) as usize, (key_heads * head_dim) as usize);
        let of_q = if has_gate { 2 * queries } else { queries };
        let parts = [(&*name("q_proj"), of_q), (&name("k_proj"), keys), (&name("v_proj"), keys)];
        let norm = match has_head_norm {
            true => Some(HeadNorms {
                queries: loader.vector(&name("q_norm"), head_dim as usize)?,
                keys: loader.vector(&name("k_norm"), head_dim as usize)?,
                epsilon: config.epsilon,
                gain,
            }),
            false => None,
        };
        let (rotary_dim, pairing) = (config.rotary.dim, config.rotary.pairing);
        let mut projection = Linear::new(loader, &parts, config.hidden)?;
        if has_bias {
            let bias = parts.map(|(name, rows)| (name.replace(".weight", ".bias"), rows));
            let bias: Vec<(&str, usize)> = bias.iter().map(|(name, rows)| (&**name, *rows)).collect();
            projection = projection.with_bias(loader, &bias)?;
        }
        Ok(Self {
            shape: RopeShape { query_heads: heads, key_heads, head_dim, rotary_dim, pairing },
            projection,
            norm,
            has_gate,
            output: Linear::new(loader, &[(&name("o_proj"), config.hidden)], queries)?,
        })
    }

    /// Elements of a token's keys.
    pub(crate) fn key_columns(&self) -> usize {
        (self.shape.key_heads * self.shape.head_dim) as usize
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        self.projection.bytes() + self.output.bytes()
    }

    /// x += the result for the normalized tokens, whose keys and values are added to the cache.
    pub(crate) fn add(
        &self,
        pass: &mut Pass<'_, T>,
        norm: &Norm<T>,
        x: &mut Buffer<T>,
        cache: &mut KeyValues<T>,
    ) -> Result<()> {
        let RopeShape { query_heads, key_heads, head_dim, .. } = self.shape;
        let projected = self.projection.apply_to_normalized(pass, norm, x)?;
        let queries = self.rotate(pass, &projected, cache)?;
        let mut attended = pass.rows_of(query_heads * head_dim)?;
        let heads = Heads { query_heads, key_heads, head_dim };
        let (token_stride, head_stride) = (self.projection.n, 2 * head_dim);
        let gates = HeadRows { buffer: &projected, offset: head_dim, token_stride, head_stride };
        paged::attend(pass, heads, &queries, cache, self.has_gate.then_some(gates), &mut attended)?;
        self.note(pass, &attended);
        self.output.add_to(pass, &attended, x)?;
        [projected, queries, attended].into_iter().for_each(|buffer| pass.memory.give(buffer));
        Ok(())
    }

    /// Notes attention of tokens to the keys of their sequences: at most as many as the last token has.
    fn note(&self, pass: &mut Pass<'_, T>, attended: &Buffer<T>) {
        let RopeShape { key_heads, head_dim, .. } = self.shape;
        let (keys, sequences) = (pass.batch.all_keys, u64::from(pass.batch.shape.sequences));
        let of_cache = 2 * keys * u64::from(key_heads * head_dim) * u64::from(T::BYTES);
        let flops = 4 * attended.len() as u64 * keys / sequences;
        pass.note("attention", of_cache as usize + 2 * attended.bytes(), flops);
    }

    /// The rotated queries; keys and values go to the cache.
    fn rotate(
        &self,
        pass: &mut Pass<'_, T>,
        projected: &Buffer<T>,
        cache: &mut KeyValues<T>,
    ) -> Result<Buffer<T>> {
        let RopeShape { query_heads, key_heads, head_dim, .. } = self.shape;
        let mut rotated = pass.rows_of(query_heads * head_dim)?;
        let token_stride = self.projection.n;
        let head_stride = if self.has_gate { 2 * head_dim } else { head_dim };
        let queries = HeadRows { buffer: projected, offset: 0, token_stride, head_stride };
        let keys = HeadRows { offset: query_heads * head_stride, head_stride: head_dim, ..queries };
        let values = HeadRows { offset: keys.offset + key_heads * head_dim, ..keys };
        let norm = self.norm.as_ref().map(|HeadNorms { queries, keys, epsilon, gain }| HeadNorm {
            gain: *gain,
            epsilon: *epsilon,
            query_weights: queries,
            key_weights: keys,
        });
        let buffers = RopeBuffers {
            queries,
            keys,
            values,
            norm,
            rotations: pass.rotations,
            positions: &pass.batch.positions,
            slots: &pass.batch.keys,
            output: &mut rotated,
            key_cache: &mut cache.keys,
            value_cache: &mut cache.values,
        };
        pass.operations.rope(pass.stream, &self.shape, buffers)?;
        pass.note("rotation of queries and keys", 2 * projected.bytes(), 0);
        Ok(rotated)
    }
}
