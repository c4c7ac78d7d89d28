//! Tensor parallelism: which part of each tensor a rank has.
//!
//! ```text
//! rows       q, k, v, gate, up, qkv, z, b, a and their vectors: whole heads or columns of the MLP; lm_head
//! columns    o, out, down: what the rank's rows of the others produce
//! whole      embedding, also as a head, norms, router, MTP's fc
//! ```
//!
//! A rank's attention, delta rule or MLP gives a part of the sum that all ranks add to the residual
//! stream. A head of keys that more ranks use than there are such heads is on each of them. The logits of all
//! ranks are gathered on each.

use std::ops::Range;

use crate::config::{Config, DeltaHeads, Experts};
use crate::error::{EngineError, Result};

/// A rank of a model.
#[derive(Clone, Debug)]
pub(crate) struct Sharding {
    rank: usize,
    ranks: usize,
    /// The whole model's.
    config: Config,
}

/// Pieces of an axis of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    axis: usize,
    /// The whole axis.
    extent: usize,
    pub(crate) pieces: Vec<Range<usize>>,
}

impl Slice {
    /// The shape of the whole tensor, of which the rank has `shape`.
    pub(crate) fn whole(&self, shape: &[usize]) -> Vec<usize> {
        let mut whole = shape.to_vec();
        whole[self.axis] = self.extent;
        whole
    }

    /// The whole axis, and elements from one index to the next in a tensor of that shape.
    pub(crate) fn extent_and_stride(&self, shape: &[usize]) -> (usize, usize) {
        (self.extent, shape[self.axis + 1..].iter().product())
    }
}

impl Sharding {
    /// Rank `rank` of `ranks`.
    pub(crate) fn new(config: &Config, rank: usize, ranks: usize) -> Self {
        Self { rank, ranks, config: config.clone() }
    }

    /// The number of ranks.
    pub(crate) fn ranks(&self) -> usize {
        self.ranks
    }

    /// The configuration of the rank's part.
    ///
    /// # Errors
    /// Heads or columns cannot be divided among the ranks.
    pub(crate) fn of_rank(&self) -> Result<Config> {
        let share = |what: &str, count: u32| {
            let ranks = self.ranks as u32;
            if count.is_multiple_of(ranks) {
                return Ok(count / ranks);
            }
            let reason = format!("{count} {what} cannot be divided among {ranks} ranks");
            Err(EngineError::Config(reason))
        };
        let config = &self.config;
        let is_repeated = self.ranks.is_multiple_of(config.key_heads as usize);
        let key_heads = if is_repeated { Ok(1) } else { share("key heads", config.key_heads) };
        let delta = |heads: DeltaHeads| -> Result<DeltaHeads> {
            Ok(DeltaHeads {
                keys: share("key heads of the delta rule", heads.keys)?,
                values: share("value heads of the delta rule", heads.values)?,
                ..heads
            })
        };
        let experts = |experts: Experts| -> Result<Experts> {
            Ok(Experts {
                intermediate: share("columns of an expert", experts.intermediate)?,
                shared_intermediate: share("columns of the shared expert", experts.shared_intermediate)?,
                ..experts
            })
        };
        // A head that is the embedding, and a vocabulary that cannot be divided, are on each rank.
        let divides_head = !config.is_tied && config.vocabulary.is_multiple_of(self.ranks);
        Ok(Config {
            head_rows: if divides_head { config.vocabulary / self.ranks } else { config.vocabulary },
            heads: share("heads", config.heads)?,
            key_heads: key_heads?,
            intermediate: share("columns of the MLP", config.intermediate)?,
            delta: config.delta.map(delta).transpose()?,
            experts: config.experts.map(experts).transpose()?,
            ..config.clone()
        })
    }

    /// The part of a tensor of which the rank has that shape; `None`: all of it.
    pub(crate) fn slice(&self, name: &str, shape: &[usize]) -> Option<Slice> {
        let name = name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias")).unwrap_or(name);
        let last = shape.len() - 1;
        let even = |axis: usize| {
            let own = shape[axis];
            let piece = self.rank * own..(self.rank + 1) * own;
            Slice { axis, extent: own * self.ranks, pieces: vec![piece] }
        };
        match name.rsplit('.').next().unwrap_or_default() {
            "q_proj" | "gate_proj" | "up_proj" | "in_proj_z" | "in_proj_b" | "in_proj_a" | "A_log"
            | "dt_bias" => Some(even(0)),
            "lm_head" => (shape[0] < self.config.vocabulary).then(|| even(0)),
            "o_proj" | "out_proj" | "down_proj" => Some(even(last)),
            "k_proj" | "v_proj" => {
                let extent = (self.config.key_heads * self.config.head_dim) as usize;
                // The first of the rank's heads, which other ranks may have, too.
                let head = self.rank * self.config.key_heads as usize / self.ranks;
                let start = head * self.config.head_dim as usize;
                let piece = start..start + shape[0];
                Some(Slice { axis: 0, extent, pieces: vec![piece] })
            }
            "in_proj_qkv" | "conv1d" => {
                let DeltaHeads { keys, values, key_dim, value_dim, .. } = self.config.delta?;
                Some(self.parts(0, &[keys * key_dim, keys * key_dim, values * value_dim]))
            }
            "gate_up_proj" => {
                let Experts { intermediate, .. } = self.config.experts?;
                Some(self.parts(last - 1, &[intermediate; 2]))
            }
            _ => None,
        }
    }

    /// The rank's piece of each of several parts of an axis.
    fn parts(&self, axis: usize, parts: &[u32]) -> Slice {
        let (mut pieces, mut start) = (vec![], 0);
        for part in parts {
            let (part, own) = (*part as usize, *part as usize / self.ranks);
            pieces.push(start + self.rank * own..start + (self.rank + 1) * own);
            start += part;
        }
        Slice { axis, extent: start, pieces }
    }
}
