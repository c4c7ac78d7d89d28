//! Which kernel attends to the paged cache.
//!
//! ```text
//! the same few tokens of each sequence, bf16    decode attention of the library
//! more tokens, bf16                             attention of the library
//! f32, and heads that those lack                the engine's own kernel
//! ```

use warpwright::prelude::bf16;
use warpwright::runtime::Buffer;
use warpwright_kernels::attention::decode::{DecodeBuffers, DecodeOptions, DecodeShape, Heads};
use warpwright_kernels::attention::{self, Attention, Mask, PagedCache, Pages};

use super::Pass;
use super::attention::KeyValues;
use crate::error::Result;
use crate::kernels::attention::{AttentionBuffers, PagedAttention};
use crate::number::Number;

/// Attention of all queries, (tokens, query heads, head_dim), to the keys up to their positions.
pub(super) fn attend<T: Number>(
    pass: &mut Pass<'_, T>,
    heads: Heads,
    queries: &Buffer<T>,
    cache: &KeyValues<T>,
    output: &mut Buffer<T>,
) -> Result<()> {
    let shape = pass.batch.shape;
    let paged = PagedCache { pages_per_sequence: shape.entries, ..pass.cache };
    let few = shape.each.map(|queries| DecodeShape { heads, batch: shape.sequences, queries, cache: paged });
    let has_wgmma = pass.operations.device().properties().capability.compute_capability == (9, 0);
    if let Some(few) = few.filter(|few| T::IS_BF16 && few.check().is_ok()) {
        return decode(
            pass,
            &few,
            queries.cast(),
            [cache.keys.cast(), cache.values.cast()],
            output.cast_mut(),
        );
    }
    if T::IS_BF16 && has_wgmma && heads.head_dim.is_multiple_of(16) {
        return attend_many(
            pass,
            heads,
            paged,
            queries.cast(),
            [cache.keys.cast(), cache.values.cast()],
            output.cast_mut(),
        );
    }
    let Heads { query_heads, key_heads, head_dim } = heads;
    let attention = PagedAttention { query_heads, key_heads, head_dim, page_size: paged.page_size };
    let buffers = AttentionBuffers {
        queries,
        keys: &cache.keys,
        values: &cache.values,
        positions: &pass.batch.positions,
        sequences: &pass.batch.sequences,
        table: &pass.batch.table,
        entries: shape.entries,
        output,
    };
    Ok(attention.launch(pass.operations, pass.stream, buffers)?)
}

/// The same few queries of each sequence.
fn decode<T: Number>(
    pass: &mut Pass<'_, T>,
    shape: &DecodeShape,
    queries: &Buffer<bf16>,
    [keys, values]: [&Buffer<bf16>; 2],
    output: &mut Buffer<bf16>,
) -> Result<()> {
    let mut lse = pass.floats.take(shape.query_rows())?;
    let buffers = DecodeBuffers {
        queries,
        keys,
        values,
        table: &pass.batch.table,
        lengths: &pass.batch.lengths,
        output,
        lse: &mut lse,
    };
    pass.operations.decode_attention(pass.stream, shape, DecodeOptions::default(), buffers)?;
    pass.floats.give(lse);
    Ok(())
}

/// Queries of packed sequences.
fn attend_many<T: Number>(
    pass: &mut Pass<'_, T>,
    heads: Heads,
    cache: PagedCache,
    queries: &Buffer<bf16>,
    [keys, values]: [&Buffer<bf16>; 2],
    output: &mut Buffer<bf16>,
) -> Result<()> {
    let (batch, shape) = (pass.batch, pass.batch.shape);
    // Extents are rounded up: what is planned for them is kept.
    let longest = batch.longest.next_power_of_two();
    let attention = Attention::new(shape.sequences, longest, heads.query_heads, heads.head_dim)
        .keys(cache.pages_per_sequence * cache.page_size)
        .kv_heads(heads.key_heads)
        .mask(Mask::Causal)
        .paged(shape.tokens, cache);
    let mut buffers = attention::AttentionBuffers::new(queries, keys, values, output);
    buffers.offsets = Some([&batch.starts, &batch.starts]);
    buffers.pages = Some(Pages { table: &batch.table, lengths: &batch.lengths });
    pass.operations.attention(pass.stream, &attention, buffers)?;
    Ok(())
}
