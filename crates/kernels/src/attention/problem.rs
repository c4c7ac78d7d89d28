//! An attention, described: extents, mask, and where Q, K, V and O are.

use warpwright::prelude::*;

use super::paged_cache::PagedCache;
use super::strides::Strides;
use crate::gemm::problem::types::Operand;

/// A type of Q, K, V and O that the tensor cores multiply.
pub trait AttentionElement: Operand + DeviceNumber {
    /// Two values rounded to this type in one word, the first in the lower half.
    #[track_caller]
    fn pack(low: Reg<f32>, high: Reg<f32>) -> Reg<u32>;
    /// The two values of a word, that of the lower half first.
    #[track_caller]
    fn unpack(word: Reg<u32>) -> [Reg<f32>; 2];
}

impl AttentionElement for bf16 {
    #[track_caller]
    fn pack(low: Reg<f32>, high: Reg<f32>) -> Reg<u32> {
        low.pack_bf16x2(high).bit_cast()
    }

    #[track_caller]
    fn unpack(word: Reg<u32>) -> [Reg<f32>; 2] {
        word.bit_cast::<bf16x2>().unpack().map(|value| value.convert())
    }
}

impl AttentionElement for f16 {
    #[track_caller]
    fn pack(low: Reg<f32>, high: Reg<f32>) -> Reg<u32> {
        low.pack_f16x2(high).bit_cast()
    }

    #[track_caller]
    fn unpack(word: Reg<u32>) -> [Reg<f32>; 2] {
        word.bit_cast::<f16x2>().unpack().map(|value| value.convert())
    }
}

/// Which keys a query sees. The last query is at the last key: query i of `queries` is at position
/// i + keys - queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mask {
    /// Every key.
    #[default]
    Full,
    /// The keys up to its own position.
    Causal,
    /// The key at its own position, `left` keys before it and `right` keys after it.
    Window {
        /// Keys before the query's position.
        left: u32,
        /// Keys after the query's position.
        right: u32,
    },
}

/// The largest bound of scores (softcap). Bounded scores are off by 2^-23 of it, which is to change a
/// weight by less than a 16-bit float can tell.
pub(crate) const LARGEST_SOFTCAP: f32 = 4096.0;

/// Which sides of a query's position have a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, DeviceValue)]
pub(crate) struct MaskBounds {
    /// Keys before it.
    pub(crate) left: bool,
    /// Keys after it.
    pub(crate) right: bool,
}

/// O = softmax(scale · Q·Kᵀ)·V of each head.
///
/// Q is (batch, queries, heads, d), K is (batch, keys, kv_heads, d), V is (batch, keys, kv_heads,
/// value_d), and O is (batch, queries, heads, value_d), without gaps, the last axis contiguous,
/// unless they have [strides](Self::strided). Of [packed](Self::packed) sequences the first two axes
/// are one. K and V may be in a [paged cache](Self::paged).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The extents.
    pub shape: Shape,
    /// The queries and keys of all packed sequences.
    pub packed: Option<[u32; 2]>,
    /// The cache that K and V are in: the queries are packed.
    pub cache: Option<PagedCache>,
    /// Those of Q, K, V and O.
    pub strides: Option<[Strides; 4]>,
    /// The keys that a query sees.
    pub mask: Mask,
    /// What scores are multiplied by; `None` is 1 / sqrt(head_dim).
    pub scale: Option<f32>,
    /// The bound of the scores (softcap).
    pub bound: Option<f32>,
    /// Whether scores have a bias by distance (ALiBi).
    pub biased: bool,
    /// Whether each head has a sink.
    pub sinks: bool,
}

/// The extents of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Sequences.
    pub batch: u32,
    /// Queries of a sequence.
    pub queries: u32,
    /// Keys of a sequence.
    pub keys: u32,
    /// Heads of Q and O.
    pub heads: u32,
    /// Heads of K and V. Each serves `heads / kv_heads` neighboring heads of Q.
    pub kv_heads: u32,
    /// Elements of a head of Q and K.
    pub head_dim: u32,
    /// Elements of a head of V and O.
    pub value_dim: u32,
}

impl Attention {
    /// `batch` sequences of `length` queries and as many keys, with `heads` heads of `head_dim`
    /// elements.
    pub const fn new(batch: u32, length: u32, heads: u32, head_dim: u32) -> Self {
        let shape = Shape {
            batch,
            queries: length,
            keys: length,
            heads,
            kv_heads: heads,
            head_dim,
            value_dim: head_dim,
        };
        let (packed, cache, strides) = (None, None, None);
        let (scale, bound, biased, sinks) = (None, None, false, false);
        Self { shape, packed, cache, strides, mask: Mask::Full, scale, bound, biased, sinks }
    }

    /// The same with `count` keys in a sequence.
    #[must_use]
    pub fn keys(self, count: u32) -> Self {
        Self { shape: Shape { keys: count, ..self.shape }, ..self }
    }

    /// The same with `count` heads of K and V (GQA; MQA where it is 1).
    #[must_use]
    pub fn kv_heads(self, count: u32) -> Self {
        Self { shape: Shape { kv_heads: count, ..self.shape }, ..self }
    }

    /// The same with `value_dim` elements in a head of V and O.
    #[must_use]
    pub fn value_dim(self, value_dim: u32) -> Self {
        Self { shape: Shape { value_dim, ..self.shape }, ..self }
    }

    /// The same with a mask.
    #[must_use]
    pub fn mask(self, mask: Mask) -> Self {
        Self { mask, ..self }
    }

    /// The same with every score multiplied by `scale` instead of 1 / sqrt(head_dim).
    #[must_use]
    pub fn scale(self, scale: f32) -> Self {
        Self { scale: Some(scale), ..self }
    }

    /// The same for sequences of any lengths without gaps between them: `queries` and `keys` in
    /// all. The number of sequences is the batch, and the lengths are the largest: a sequence of more
    /// queries stops the forward kernel.
    /// [`AttentionBuffers::offsets`](super::AttentionBuffers::offsets) has the first of each
    /// sequence.
    #[must_use]
    pub fn packed(self, queries: u32, keys: u32) -> Self {
        Self { packed: Some([queries, keys]), ..self }
    }

    /// The same with K and V in a paged cache, for sequences of any lengths: K is (pages, page size,
    /// kv_heads, head_dim), and V (pages, page size, kv_heads, value_dim). The queries of all sequences
    /// are [packed](Self::packed), `queries` in all.
    /// [`AttentionBuffers::pages`](super::AttentionBuffers::pages) has the block table and the number
    /// of keys of each sequence, and [`AttentionBuffers::offsets`](super::AttentionBuffers::offsets)
    /// its first query.
    #[must_use]
    pub fn paged(self, queries: u32, cache: PagedCache) -> Self {
        let keys = cache.pages.saturating_mul(cache.page_size);
        Self { packed: Some([queries, keys]), cache: Some(cache), ..self }
    }

    /// The same with Q, K, V and O at these strides, in elements.
    ///
    /// They and the first elements are multiples of 16 bytes. Of a paged cache, a sequence of K and V
    /// is a page.
    #[must_use]
    pub fn strided(self, strides: [Strides; 4]) -> Self {
        Self { strides: Some(strides), ..self }
    }

    /// The same with scores bounded by `bound · tanh(score / bound)` (softcap), at most 4096.
    #[must_use]
    pub fn bounded(self, bound: f32) -> Self {
        Self { bound: Some(bound), ..self }
    }

    /// The same with scores less the slope of the head times the distance between the query's
    /// position and the key (ALiBi).
    /// [`AttentionBuffers::slopes`](super::AttentionBuffers::slopes) has the slopes.
    #[must_use]
    pub fn biased(self) -> Self {
        Self { biased: true, ..self }
    }

    /// The same with a sink in each head: a score that takes part in the softmax, and has no value.
    /// [`AttentionBuffers::sinks`](super::AttentionBuffers::sinks) has the sinks.
    #[must_use]
    pub fn with_sinks(self) -> Self {
        Self { sinks: true, ..self }
    }

    /// Whether sequences of different lengths follow each other without gaps.
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// The rows of Q and of K: of all sequences.
    pub fn rows(&self) -> [usize; 2] {
        let Shape { batch, queries, keys, .. } = self.shape;
        let [queries, keys] = match self.packed {
            Some(all) => all.map(|rows| rows as usize),
            None => [queries, keys].map(|length| batch as usize * length as usize),
        };
        [queries, keys]
    }

    /// The rows of Q and of K in one tensor map: of a sequence, or of all packed sequences, which are
    /// one matrix of each head.
    pub(crate) fn rows_of_maps(&self) -> [u32; 2] {
        self.packed.unwrap_or([self.shape.queries, self.shape.keys])
    }

    /// The elements of Q, K, V and O without gaps.
    pub fn elements(&self) -> [usize; 4] {
        let ([queries, keys], shape) = (self.rows(), self.shape);
        let (queries, keys) = (queries * shape.heads as usize, keys * shape.kv_heads as usize);
        let [d, value_d] = [shape.head_dim, shape.value_dim].map(|d| d as usize);
        [(queries, d), (keys, d), (keys, value_d), (queries, value_d)].map(|(rows, d)| rows.saturating_mul(d))
    }

    /// The scale of the scores.
    pub fn scale_or_default(&self) -> f32 {
        self.scale.unwrap_or_else(|| 1.0 / (self.shape.head_dim as f32).sqrt())
    }
}

impl Mask {
    /// The sides that have a bound: kernels are built for them.
    pub(crate) fn bounds(self) -> MaskBounds {
        match self {
            Self::Full => MaskBounds { left: false, right: false },
            Self::Causal => MaskBounds { left: false, right: true },
            Self::Window { .. } => MaskBounds { left: true, right: true },
        }
    }

    /// The keys of a window before and after a position, as a launch passes them. Lengths are at most
    /// 2^30, so that a larger window sees no more, and positions and windows add up within 32 bits.
    pub(crate) fn window(self) -> [u32; 2] {
        match self {
            Self::Window { left, right } => [left.min(1 << 30), right.min(1 << 30)],
            Self::Full | Self::Causal => [0, 0],
        }
    }

    /// The keys that the query at `position` sees, of `keys`.
    pub fn visible(self, position: i64, keys: i64) -> std::ops::Range<i64> {
        let (begin, end) = match self {
            Self::Full => (0, keys),
            Self::Causal => (0, position + 1),
            Self::Window { left, right } => (position - i64::from(left), position + i64::from(right) + 1),
        };
        begin.clamp(0, keys)..end.clamp(0, keys)
    }
}
