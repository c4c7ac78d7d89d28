//! Shapes, buffers, and what is refused.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::{Buffer, Storable};

use crate::operations::{OperationError, Result, expect_length};
use crate::rows::Gain;

/// The slot of a token whose key and value are not written, such as padding of a batch.
pub const NO_SLOT: u32 = u32::MAX;

/// Elements of a vector.
pub(super) const LANES: u32 = 8;
/// Elements of a head at most.
const MAX_HEAD_DIM: u32 = 4096;

/// The operation's name in errors.
pub(super) const OPERATION: &str = "the rotary embedding";

/// Which columns are rotated with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Pairing {
    /// i and i + `rotary_dim` / 2: GPT-NeoX, Llama, Qwen.
    #[default]
    Halves,
    /// 2 i and 2 i + 1: GPT-J.
    Neighbors,
}

/// The heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RopeShape {
    /// Query heads.
    pub query_heads: u32,
    /// Heads of K and of V.
    pub key_heads: u32,
    /// Elements of a head, up to 4096. Multiples of 8 up to 256 are vectors.
    pub head_dim: u32,
    /// Columns that are rotated, from the first on: an even number, of which multiples of 16 are vectors; 0
    /// rotates none.
    pub rotary_dim: u32,
    /// Which columns are rotated with each other.
    pub pairing: Pairing,
}

/// The heads of each token in a matrix, such as a part of a fused projection.
#[derive(Clone, Copy)]
pub struct HeadRows<'l, T> {
    /// The matrix.
    pub buffer: &'l Buffer<T>,
    /// The first element. It and the strides are multiples of 8 for vectors.
    pub offset: u32,
    /// Elements from token to token.
    pub token_stride: u32,
    /// Elements from head to head. Twice the head where a gate follows each query, as in Qwen 3.5.
    pub head_stride: u32,
}

impl<'l, T: Storable> HeadRows<'l, T> {
    /// (tokens, heads, head_dim) without gaps.
    pub fn dense(buffer: &'l Buffer<T>, heads: u32, head_dim: u32) -> Self {
        Self { buffer, offset: 0, token_stride: heads * head_dim, head_stride: head_dim }
    }

    pub(crate) fn strides(&self) -> [u32; 3] {
        [self.offset, self.token_stride, self.head_stride]
    }

    /// Refuses offsets and strides that vectors do not have.
    pub(crate) fn check_vectors(&self, what: &'static str) -> Result<()> {
        match self.strides().into_iter().find(|stride| !stride.is_multiple_of(LANES)) {
            Some(stride) => {
                let reason = format!("an offset or a stride of {stride} elements; give multiples of {LANES}");
                Err(OperationError::Shape { what, reason })
            }
            None => Ok(()),
        }
    }

    pub(crate) fn check(&self, what: &'static str, (tokens, heads, head_dim): (u32, u32, u32)) -> Result<()> {
        let refuse = |reason| Err(OperationError::Shape { what, reason });
        if tokens == 0 || heads == 0 {
            return Ok(());
        }
        let last = [(tokens - 1, self.token_stride), (heads - 1, self.head_stride)];
        let end = u64::from(self.offset)
            + last.into_iter().map(|(count, stride)| u64::from(count) * u64::from(stride)).sum::<u64>()
            + u64::from(head_dim);
        let given = self.buffer.len() as u64;
        if end > given {
            return refuse(format!("the last head ends at element {end}, and the buffer has {given}"));
        }
        Ok(())
    }
}

/// RMSNorm of each head of Q and of K.
#[derive(Clone, Copy)]
pub struct HeadNorm<'l, T> {
    /// What normalized values are multiplied by.
    pub gain: Gain,
    /// Is added to the mean of squares.
    pub epsilon: f32,
    /// (head_dim), for the heads of Q.
    pub query_weights: &'l Buffer<T>,
    /// (head_dim), for the heads of K.
    pub key_weights: &'l Buffer<T>,
}

/// The buffers of a call.
pub struct RopeBuffers<'l, T> {
    /// Q before, (tokens, query heads, head_dim).
    pub queries: HeadRows<'l, T>,
    /// K before, (tokens, key heads, head_dim).
    pub keys: HeadRows<'l, T>,
    /// V, as K.
    pub values: HeadRows<'l, T>,
    /// RMSNorm before the rotation; `None`: none.
    pub norm: Option<HeadNorm<'l, T>>,
    /// (positions, rotary_dim): cosines, then sines, as [`rotations`] makes them.
    pub rotations: &'l Buffer<f32>,
    /// (tokens): the position of each token.
    pub positions: &'l Buffer<u32>,
    /// (tokens): where in the caches its key and value belong, page * page size + key of the page;
    /// [`NO_SLOT`]: nowhere.
    pub slots: &'l Buffer<u32>,
    /// (tokens, query heads, head_dim): Q after.
    pub output: &'l mut Buffer<T>,
    /// (slots, key heads, head_dim): the pool of K.
    pub key_cache: &'l mut Buffer<T>,
    /// The pool of V.
    pub value_cache: &'l mut Buffer<T>,
}

/// The cosines and sines of `positions` positions: of angles position * theta^(-2 i / rotary_dim),
/// rounded once.
pub fn rotations(theta: f64, rotary_dim: u32, positions: u32) -> Vec<f32> {
    let half = rotary_dim / 2;
    let row = |position: u32| {
        let angle =
            move |i: u32| f64::from(position) * theta.powf(-2.0 * f64::from(i) / f64::from(rotary_dim));
        let cosines = (0..half).map(move |i| angle(i).cos() as f32);
        cosines.chain((0..half).map(move |i| angle(i).sin() as f32))
    };
    (0..positions).flat_map(row).collect()
}

impl RopeShape {
    /// Heads of Q, K and V.
    pub(super) fn heads(&self) -> u32 {
        self.query_heads + 2 * self.key_heads
    }

    /// Refuses heads that the operation does not take.
    ///
    /// # Errors
    /// The head or the columns that are rotated are of a number that it does not take.
    pub fn check(&self) -> Result<()> {
        let refuse = |reason| Err(OperationError::Shape { what: OPERATION, reason });
        let Self { head_dim, rotary_dim, .. } = *self;
        if !(1..=MAX_HEAD_DIM).contains(&head_dim) {
            return refuse(format!("heads of {head_dim} elements; give 1 to {MAX_HEAD_DIM}"));
        }
        if rotary_dim > head_dim || !rotary_dim.is_multiple_of(2) {
            return refuse(format!(
                "{rotary_dim} rotated columns of {head_dim}; give an even number up to the head"
            ));
        }
        Ok(())
    }

    /// Whether heads, and what is rotated, are whole vectors of a warp at most.
    fn has_vectors(&self) -> bool {
        self.head_dim <= 32 * LANES
            && self.head_dim.is_multiple_of(LANES)
            && self.rotary_dim.is_multiple_of(2 * LANES)
    }
}

impl<T: Storable> RopeBuffers<'_, T> {
    /// Whether all heads are whole vectors.
    pub(super) fn has_vectors(&self, shape: &RopeShape) -> bool {
        let mut rows = [&self.queries, &self.keys, &self.values].into_iter();
        shape.has_vectors() && rows.all(|rows| rows.check_vectors(OPERATION).is_ok())
    }

    /// The tokens, positions and slots.
    ///
    /// # Errors
    /// The shape or a buffer is refused.
    pub(super) fn check(&self, shape: &RopeShape) -> Result<[u32; 3]> {
        shape.check()?;
        let RopeShape { query_heads, key_heads, head_dim, rotary_dim, .. } = *shape;
        let most = (u32::MAX / 32 / shape.heads().max(1)) as usize;
        let tokens = self.positions.len();
        if tokens > most {
            let reason = format!("{tokens} tokens are more than {most}; do the work in parts");
            return Err(OperationError::Shape { what: OPERATION, reason });
        }
        expect_length("the slots of the rotary embedding", tokens, self.slots.len())?;
        let tokens = tokens as u32;
        self.queries.check("Q of the rotary embedding", (tokens, query_heads, head_dim))?;
        self.keys.check("K of the rotary embedding", (tokens, key_heads, head_dim))?;
        self.values.check("V of the rotary embedding", (tokens, key_heads, head_dim))?;
        let output = tokens as usize * (query_heads * head_dim) as usize;
        expect_length("the output of the rotary embedding", output, self.output.len())?;
        expect_length("the pool of V", self.key_cache.len(), self.value_cache.len())?;
        let key = ((key_heads * head_dim) as usize).max(1);
        let slots = self.key_cache.len() / key;
        expect_length("the pool of K", slots * key, self.key_cache.len())?;
        let columns = (rotary_dim as usize).max(1);
        let positions = self.rotations.len() / columns;
        expect_length("the rotations", positions * columns, self.rotations.len())?;
        if let Some(norm) = &self.norm {
            expect_length("the weights of Q's norm", head_dim as usize, norm.query_weights.len())?;
            expect_length("the weights of K's norm", head_dim as usize, norm.key_weights.len())?;
        }
        let [positions, slots] = [positions, slots].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Ok([tokens, positions, slots])
    }
}
