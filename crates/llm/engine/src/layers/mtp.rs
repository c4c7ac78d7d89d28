//! Multi-token prediction: a layer that drafts the token after the next one.
//!
//! ```text
//! h_t     the row of token t after the model's last norm
//! x_t   = fc([norm(embedding of token t + 1) | norm(h_t)]);  x += attention(norm(x));  x += mlp(norm(x))
//! token t + 2 has the logits head(norm(x_t));  norm(x_t) is the h of the draft after it
//! ```
//!
//! The entry of x_t in the layer's cache has the position t.

use warpwright::runtime::Buffer;

use super::block::Block;
use super::cache::Cache;
use super::linear::Linear;
use super::norm::Norm;
use super::pass::Pass;
use crate::config::Config;
use crate::error::Result;
use crate::number::Number;
use crate::weights::Loader;

/// The weights of the layer.
pub(crate) struct Mtp<T> {
    of_embedding: Norm<T>,
    of_hidden: Norm<T>,
    joined: Linear<T>,
    pub(crate) block: Block<T>,
    norm: Norm<T>,
}

impl<T: Number> Mtp<T> {
    pub(crate) fn new(config: &Config, loader: &mut Loader<'_>, block: Block<T>) -> Result<Self> {
        let hidden = config.hidden;
        let norm = |name: &str, loader: &mut Loader<'_>| {
            Norm::new(loader, &format!("mtp.{name}.weight"), hidden, config.epsilon, config.gain)
        };
        Ok(Self {
            of_embedding: norm("pre_fc_norm_embedding", loader)?,
            of_hidden: norm("pre_fc_norm_hidden", loader)?,
            joined: Linear::exact(loader, &[("mtp.fc.weight", hidden)], 2 * hidden)?,
            norm: norm("norm", loader)?,
            block,
        })
    }

    /// norm(x) of the rows `hidden`, which `next` tokens follow.
    pub(crate) fn forward(
        &self,
        pass: &mut Pass<'_, T>,
        embedding: &Linear<T>,
        (next, hidden): (&Buffer<i32>, &Buffer<T>),
        cache: &mut Cache<T>,
    ) -> Result<Buffer<T>> {
        let columns = embedding.k;
        let mut embedded = pass.rows_of(columns)?;
        let table = (&embedding.weights, columns);
        pass.operations.gather_rows(pass.stream, table, (next, 0), &mut embedded)?;
        let of_embedding = self.of_embedding.apply(pass, &embedded)?;
        let of_hidden = self.of_hidden.apply(pass, hidden)?;
        let mut pairs = pass.rows_of(2 * columns)?;
        let rows = ([&of_embedding, &of_hidden], columns);
        pass.operations.concatenate_rows(pass.stream, rows, &mut pairs)?;
        let mut x = self.joined.apply(pass, &pairs)?;
        self.block.add(pass, &mut x, cache)?;
        let normalized = self.norm.apply(pass, &x)?;
        [embedded, of_embedding, of_hidden, pairs, x].into_iter().for_each(|buffer| pass.memory.give(buffer));
        Ok(normalized)
    }
}
