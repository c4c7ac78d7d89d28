//! Causal attention over a paged cache for any type and any head dimension: what the kernels on tensor cores do not take.

mod kernel;
mod operations;

use warpwright::runtime::Buffer;

/// The heads of a layer and the cache that they read. Query head j reads key head j / (`query_heads` / `key_heads`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PagedAttention {
    /// Heads of queries.
    pub query_heads: u32,
    /// Heads of keys and values, of which the query heads are a multiple.
    pub key_heads: u32,
    /// Elements of a head, up to 4096.
    pub head_dim: u32,
    /// Keys of a page.
    pub page_size: u32,
}

/// The buffers of a call.
pub struct PagedAttentionBuffers<'l, T> {
    /// (tokens, query heads, head_dim).
    pub queries: &'l Buffer<T>,
    /// The pool of keys, (pages, page size, key heads, head_dim).
    pub keys: &'l Buffer<T>,
    /// The pool of values, as the keys.
    pub values: &'l Buffer<T>,
    /// (tokens): the position of each. A token sees the keys of its sequence up to its position.
    pub positions: &'l Buffer<u32>,
    /// (tokens): the sequence of each.
    pub sequences: &'l Buffer<u32>,
    /// (sequences, entries): the pages.
    pub table: &'l Buffer<u32>,
    /// Entries of a sequence.
    pub entries: u32,
    /// As the queries.
    pub output: &'l mut Buffer<T>,
}
