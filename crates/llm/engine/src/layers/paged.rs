//! Which kernel attends to the paged cache.
//!
//! ```text
//! the same few tokens of each sequence, bf16    decode attention of the library
//! more tokens, bf16                             attention of the library
//! f32, and heads that those lack                paged attention of the library, without tensor cores
//! ```

use warpwright::prelude::bf16;
use warpwright::runtime::Buffer;
use warpwright_kernels::attention::decode::{DecodeBuffers, DecodeOptions, DecodeShape, Heads};
use warpwright_kernels::attention::paged::{PagedAttention, PagedAttentionBuffers};
use warpwright_kernels::attention::{self, Attention, Mask, PagedCache, Pages};
use warpwright_kernels::rope::HeadRows;

use super::cache::KeyValues;
use super::pass::Pass;
use crate::error::Result;
use crate::number::Number;

/// Attention of all queries, (tokens, query heads, head_dim), to the keys up to their positions, times the sigmoid of
/// the gates.
pub(super) fn attend<T: Number>(
    pass: &mut Pass<'_, T>,
    heads: Heads,
    queries: &Buffer<T>,
    cache: &KeyValues<T>,
    gates: Option<HeadRows<'_, T>>,
    output: &mut Buffer<T>,
) -> Result<()> {
    let shape = pass.batch.shape;
    let paged = PagedCache { pages_per_sequence: shape.entries, ..pass.cache };
    let few = shape.each.map(|queries| DecodeShape { heads, batch: shape.sequences, queries, cache: paged });
    if let Some(few) = few.filter(|few| T::IS_BF16 && few.check().is_ok()) {
        return decode(pass, &few, queries, cache, gates, output);
    }
    attend_without_gates(pass, heads, paged, queries, cache, output)?;
    match gates {
        Some(gates) => multiply_by_gates(pass, heads, gates, output),
        None => Ok(()),
    }
}

/// Attention by kernels that have no gates.
fn attend_without_gates<T: Number>(
    pass: &mut Pass<'_, T>,
    heads: Heads,
    paged: PagedCache,
    queries: &Buffer<T>,
    cache: &KeyValues<T>,
    output: &mut Buffer<T>,
) -> Result<()> {
    let shape = pass.batch.shape;
    if T::IS_BF16 && pass.has_wgmma() && heads.head_dim.is_multiple_of(16) {
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
    let buffers = PagedAttentionBuffers {
        queries,
        keys: &cache.keys,
        values: &cache.values,
        positions: &pass.batch.positions,
        sequences: &pass.batch.sequences,
        table: &pass.batch.table,
        entries: shape.entries,
        output,
    };
    pass.operations.paged_attention(pass.stream, attention, buffers)?;
    Ok(())
}

/// The same few queries of each sequence.
fn decode<T: Number>(
    pass: &mut Pass<'_, T>,
    shape: &DecodeShape,
    queries: &Buffer<T>,
    cache: &KeyValues<T>,
    gates: Option<HeadRows<'_, T>>,
    output: &mut Buffer<T>,
) -> Result<()> {
    let mut lse = pass.floats.take(shape.query_rows())?;
    let buffers = DecodeBuffers {
        queries: queries.cast::<bf16>(),
        keys: cache.keys.cast(),
        values: cache.values.cast(),
        table: &pass.batch.table,
        lengths: &pass.batch.lengths,
        gates: gates.map(|HeadRows { buffer, offset, token_stride, head_stride }| HeadRows {
            buffer: buffer.cast(),
            offset,
            token_stride,
            head_stride,
        }),
        output: output.cast_mut(),
        lse: &mut lse,
    };
    // The host writes the lengths unless drafts decide how many tokens there are, and earlier steps wrote the other
    // keys.
    let options = DecodeOptions { is_settled: !pass.has_drafts, ..DecodeOptions::default() };
    pass.operations.decode_attention(pass.stream, shape, options, buffers)?;
    pass.floats.give(lse);
    Ok(())
}

/// Multiplies attended heads by the sigmoid of their gates.
fn multiply_by_gates<T: Number>(
    pass: &mut Pass<'_, T>,
    Heads { query_heads, head_dim, .. }: Heads,
    gates: HeadRows<'_, T>,
    output: &mut Buffer<T>,
) -> Result<()> {
    let mut gated = pass.memory.take(output.len())?;
    let shape = (pass.batch.shape.tokens, query_heads, head_dim);
    pass.operations.gate_heads(pass.stream, shape, output, gates, &mut gated)?;
    std::mem::swap(output, &mut gated);
    pass.memory.give(gated);
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
