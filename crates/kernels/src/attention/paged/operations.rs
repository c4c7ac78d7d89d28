//! The operation for programs.

use warpwright::runtime::{LaunchCounts, Storable, Stream};

use super::{PagedAttention, PagedAttentionBuffers};
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::rows::RowElement;

/// The operation's name in errors.
const OPERATION: &str = "paged attention";

impl PagedAttention {
    fn check(&self) -> Result<()> {
        let Self { query_heads, key_heads, head_dim, page_size } = *self;
        let refuse = |reason| Err(OperationError::Shape { what: OPERATION, reason });
        if key_heads == 0 || query_heads == 0 || !query_heads.is_multiple_of(key_heads) {
            return refuse(format!(
                "{query_heads} query heads cannot share {key_heads} key heads equally; give a multiple of the key heads"
            ));
        }
        if !(1..=4096).contains(&head_dim) || page_size == 0 {
            return refuse(format!(
                "heads of {head_dim} elements and pages of {page_size} keys; give 1 to 4096, and at least 1"
            ));
        }
        Ok(())
    }
}

impl Operations {
    /// Attention of packed tokens of several sequences to the keys up to their positions, scaled by
    /// 1 / sqrt(head_dim). Positions, sequences and pages are read when the kernel runs.
    ///
    /// Everything is computed in f32, and a result is rounded to `T` once.
    ///
    /// # Errors
    /// The heads are refused, a buffer does not have the length of the shape, or the device refuses.
    pub fn paged_attention<T: RowElement + Storable>(
        &self,
        stream: &Stream,
        attention: PagedAttention,
        buffers: PagedAttentionBuffers<'_, T>,
    ) -> Result<LaunchCounts> {
        attention.check()?;
        let PagedAttention { query_heads, key_heads, head_dim, page_size } = attention;
        let PagedAttentionBuffers { queries, keys, values, positions, sequences, table, entries, output } =
            buffers;
        let tokens = positions.len();
        let elements = tokens * query_heads as usize * head_dim as usize;
        expect_length("the queries of paged attention", elements, queries.len())?;
        expect_length("the output of paged attention", elements, output.len())?;
        expect_length("the sequences of tokens", tokens, sequences.len())?;
        let of_page = page_size as usize * key_heads as usize * head_dim as usize;
        expect_length("the pool of keys", keys.len() / of_page * of_page, keys.len())?;
        expect_length("the pool of values", keys.len(), values.len())?;
        let of_table = table.len() / (entries as usize).max(1) * entries as usize;
        expect_length("the pages of sequences", of_table, table.len())?;
        if tokens == 0 {
            return Ok(LaunchCounts::default());
        }
        let kernel = self.kernel(attention, PagedAttention::run::<T>)?;
        let grid = self.grid(OPERATION, tokens as u64 * u64::from(query_heads))?;
        let arguments = (queries, keys, values, positions, sequences, table, output, entries);
        Ok(kernel.launch(stream, grid, arguments)?)
    }
}
