//! The problem of decode attention: shapes, options, and what is refused.

use warpwright::runtime::{Buffer, Storable};

use crate::attention::PagedCache;
use crate::attention::problem::LARGEST_SOFTCAP;
use crate::operations::{OperationError, Result, expect_length};
use crate::rope::HeadRows;

/// The operation's name in errors.
pub(super) const OPERATION: &str = "decode attention";

/// Head dimensions that the kernel takes.
pub(super) const HEAD_DIMS: [u32; 5] = [64, 96, 128, 192, 256];

/// Rows of one product at most: the queries of a key head of one sequence.
pub(super) const MAX_ROWS: u32 = 128;

/// The heads of a model's attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Query heads: a multiple of the key heads.
    pub query_heads: u32,
    /// Heads of K and of V.
    pub key_heads: u32,
    /// Elements of a query, a key and a value: 64, 96, 128, 192 or 256.
    pub head_dim: u32,
}

impl Heads {
    /// Query heads per key head.
    pub fn group(&self) -> u32 {
        self.query_heads / self.key_heads
    }
}

/// The shape of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeShape {
    /// The heads.
    pub heads: Heads,
    /// Sequences.
    pub batch: u32,
    /// Queries per sequence: the last tokens of each. Query i of n sees the keys up to position
    /// length - n + i.
    pub queries: u32,
    /// The cache of K and V.
    pub cache: PagedCache,
}

impl DecodeShape {
    /// Rows of one product: the queries of a key head of one sequence.
    pub fn rows(&self) -> u32 {
        self.queries * self.heads.group()
    }

    /// Queries of the batch over all heads: the elements of LSE.
    pub fn query_rows(&self) -> usize {
        self.batch as usize * self.queries as usize * self.heads.query_heads as usize
    }

    /// Elements of Q, and of the output.
    pub fn query_elements(&self) -> usize {
        self.query_rows() * self.heads.head_dim as usize
    }

    /// Elements of the pool of K, and of that of V.
    pub fn pool_elements(&self) -> usize {
        let Heads { key_heads, head_dim, .. } = self.heads;
        self.cache.keys() * key_heads as usize * head_dim as usize
    }

    /// Entries of the block table.
    pub fn table_entries(&self) -> usize {
        self.cache.table_entries(self.batch)
    }

    /// Refuses what the kernel cannot take.
    ///
    /// # Errors
    /// The extents contradict each other, or exceed the kernel's limits.
    pub fn check(&self) -> Result<()> {
        let refuse = |reason: String| Err(OperationError::Shape { what: OPERATION, reason });
        let Self { heads, queries, cache, .. } = *self;
        let Heads { query_heads, key_heads, head_dim } = heads;
        if !HEAD_DIMS.contains(&head_dim) {
            return refuse(format!("a head dimension of {head_dim}; give one of {HEAD_DIMS:?}"));
        }
        if key_heads == 0 || query_heads == 0 || !query_heads.is_multiple_of(key_heads) {
            let heads = format!("{query_heads} query heads and {key_heads} key heads");
            return refuse(format!("{heads}; give a multiple of the key heads, 1 or more of each"));
        }
        cache.check(OPERATION)?;
        if queries == 0 || u64::from(queries) * u64::from(heads.group()) > MAX_ROWS.into() {
            let group = heads.group();
            return refuse(format!(
                "{queries} queries of {group} query heads per key head; give 1 to {} queries",
                MAX_ROWS / group
            ));
        }
        // The kernel counts pieces of 16 keys with 32 bits, and addresses positions likewise.
        let pieces = u64::from(self.batch) * u64::from(key_heads) * (cache.capacity() / 16 + 1);
        if pieces >= 1 << 31 || cache.capacity() >= 1 << 31 {
            let capacity = cache.capacity();
            return refuse(format!(
                "{} sequences of up to {capacity} keys and {key_heads} key heads are more than 2^31 keys of a \
                 sequence, or 2^35 keys of all heads; do the work in parts",
                self.batch
            ));
        }
        Ok(())
    }
}

/// What attention computes besides softmax(Q·Kᵀ·scale)·V.
#[derive(Clone, Copy, Default)]
pub struct DecodeOptions<'l> {
    /// The factor of Q·Kᵀ; `None`: 1 / sqrt(head_dim).
    pub scale: Option<f32>,
    /// Sliding window: a query sees its own position and the `window - 1` before it.
    pub window: Option<u32>,
    /// A score s becomes softcap tanh(s / softcap), to 2^-23 of the softcap, which is at most 4096.
    pub softcap: Option<f32>,
    /// A logit for each query head that joins the denominator, and attends to nothing. LSE contains
    /// it.
    pub sink: Option<&'l Buffer<f32>>,
    /// No launch that may still run writes the lengths, the block table, or keys and values but those of
    /// the last `queries` tokens of each sequence: the others are copied before the launch in front ends.
    /// On Hopper.
    pub is_settled: bool,
}

impl DecodeOptions<'_> {
    /// The factor of Q·Kᵀ.
    pub fn scale(&self, heads: Heads) -> f32 {
        self.scale.unwrap_or(1.0 / (heads.head_dim as f32).sqrt())
    }

    /// What the kernel multiplies Q·Kᵀ by, and the cap, in units of log2(e). A capped score is cap -
    /// 2 cap / (1 + 2^x): x is the first factor times Q·Kᵀ.
    pub(super) fn factors(&self, heads: Heads) -> [f32; 2] {
        use std::f32::consts::LOG2_E;
        let scale = self.scale(heads) * LOG2_E;
        match self.softcap {
            Some(cap) => [2.0 * scale / cap, cap * LOG2_E],
            None => [scale, 0.0],
        }
    }

    pub(super) fn check(&self, heads: Heads) -> Result<()> {
        let refuse = |reason: String| Err(OperationError::Shape { what: OPERATION, reason });
        if self.window == Some(0) {
            return refuse("a window of 0 keys; give 1 or more, or `None` for all".to_owned());
        }
        if let Some(cap) = self.softcap.filter(|cap| !(*cap > 0.0 && cap.is_finite())) {
            return refuse(format!("a softcap of {cap}; give a positive number, or `None` for none"));
        }
        if let Some(cap) = self.softcap.filter(|cap| *cap > LARGEST_SOFTCAP) {
            return refuse(format!(
                "a softcap of {cap}; scores are off by 2^-23 of it: give at most {LARGEST_SOFTCAP}, or `None` for none"
            ));
        }
        match self.sink {
            Some(sink) => {
                expect_length("the sink of decode attention", heads.query_heads as usize, sink.len())
            }
            None => Ok(()),
        }
    }
}

/// The buffers of a call.
pub struct DecodeBuffers<'l, T> {
    /// Q: (batch, queries, query heads, head_dim).
    pub queries: &'l Buffer<T>,
    /// The pool of K: (pages, page size, key heads, head_dim).
    pub keys: &'l Buffer<T>,
    /// The pool of V, as that of K.
    pub values: &'l Buffer<T>,
    /// The block table: the page of each `page_size` keys, (batch, pages per sequence). Entries past
    /// a sequence's length may be anything.
    pub table: &'l Buffer<u32>,
    /// The length of each sequence, the queries' own keys included: (batch).
    pub lengths: &'l Buffer<u32>,
    /// Gates of O, as Q: each element of O is multiplied by the sigmoid of its gate. `None`: by 1.
    pub gates: Option<HeadRows<'l, T>>,
    /// O, as Q.
    pub output: &'l mut Buffer<T>,
    /// The natural logarithm of each query's sum of exponentials, (batch, queries, query heads):
    /// minus infinity where a query sees no key.
    pub lse: &'l mut Buffer<f32>,
}

impl<T: Storable> DecodeBuffers<'_, T> {
    pub(super) fn check(&self, shape: &DecodeShape) -> Result<()> {
        expect_length("Q of decode attention", shape.query_elements(), self.queries.len())?;
        expect_length("the pool of K", shape.pool_elements(), self.keys.len())?;
        expect_length("the pool of V", shape.pool_elements(), self.values.len())?;
        expect_length("the block table", shape.table_entries(), self.table.len())?;
        expect_length("the lengths of sequences", shape.batch as usize, self.lengths.len())?;
        if let Some(gates) = &self.gates {
            let Heads { query_heads, head_dim, .. } = shape.heads;
            let tokens = shape.batch * shape.queries;
            gates.check_vectors("the gates of decode attention")?;
            gates.check("the gates of decode attention", (tokens, query_heads, head_dim))?;
        }
        expect_length("the output of decode attention", shape.query_elements(), self.output.len())?;
        expect_length("the LSE of decode attention", shape.query_rows(), self.lse.len())
    }
}
