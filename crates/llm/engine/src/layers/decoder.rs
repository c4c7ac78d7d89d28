//! The decoder: blocks between the embedding and the head.

use warpwright::runtime::{Buffer, Device};
use warpwright_kernels::gemv::Epilogue;

use super::block::{Block, Mixing};
use super::cache::Cache;
use super::linear::Linear;
use super::mtp::Mtp;
use super::norm::Norm;
use super::pass::{Pass, Projected};
use crate::error::Result;
use crate::number::Number;

/// A model.
pub(crate) struct Decoder<T> {
    /// (vocabulary, hidden).
    pub(crate) embedding: Linear<T>,
    /// `None`: the embedding.
    pub(crate) head: Option<Linear<T>>,
    pub(crate) blocks: Vec<Block<T>>,
    pub(crate) norm: Norm<T>,
    /// Drafts tokens, if the engine shall.
    pub(crate) mtp: Option<Mtp<T>>,
}

impl<T: Number> Decoder<T> {
    /// The caches of all layers, the last one that of the MTP layer: pools of `keys` keys, and `slots` states of zeros.
    pub(crate) fn caches(&self, device: &Device, keys: usize, slots: usize) -> Result<Vec<Cache<T>>> {
        let of_mtp = self.mtp.as_ref().map(|mtp| &mtp.block);
        let cache = |block: &Block<T>| block.cache(device, keys, slots);
        self.blocks.iter().chain(of_mtp).map(cache).collect()
    }

    /// The rows of all tokens before the first block.
    pub(crate) fn embed(&self, pass: &mut Pass<'_, T>) -> Result<Buffer<T>> {
        let hidden = self.embedding.k;
        let mut x = pass.rows_of(hidden)?;
        let table = (&self.embedding.weights, hidden);
        pass.operations.gather_rows(pass.stream, table, (&pass.batch.tokens, 0), &mut x)?;
        pass.note("embedding", 2 * x.bytes(), 0);
        Ok(x)
    }

    /// The rows of all tokens after the last block.
    pub(crate) fn forward(&self, pass: &mut Pass<'_, T>, caches: &mut [Cache<T>]) -> Result<Buffer<T>> {
        let mut x = self.embed(pass)?;
        for (block, cache) in self.blocks.iter().zip(caches) {
            block.add(pass, &mut x, cache)?;
        }
        Ok(x)
    }

    /// Bytes of weights that a decode of that many tokens reads.
    pub(crate) fn bytes_of_decode(&self, tokens: u32) -> usize {
        let blocks = self.blocks.iter().map(|block| block.bytes_of_decode(tokens));
        self.head().bytes() + blocks.sum::<usize>()
    }

    /// Updates the states of sequences by tokens that a pass verified, up to `ends` of the sequences.
    pub(crate) fn repeat(
        &self,
        pass: &mut Pass<'_, T>,
        (projected, ends): (Vec<Projected<T>>, &Buffer<u32>),
        caches: &mut [Cache<T>],
    ) -> Result<()> {
        let mut all = projected.into_iter();
        for (block, cache) in self.blocks.iter().zip(caches) {
            if let (Mixing::DeltaNet(layer), Cache::States(states)) = (&block.mixing, cache)
                && let Some(projected) = all.next()
            {
                layer.repeat(pass, (projected, ends), states)?;
            }
        }
        Ok(())
    }

    /// The logits of some tokens, (rows, vocabulary), of all tokens' rows `x`; `None`: of all.
    pub(crate) fn logits(
        &self,
        pass: &mut Pass<'_, T>,
        x: &Buffer<T>,
        tokens: Option<&Buffer<i32>>,
        logits: &mut Buffer<f32>,
    ) -> Result<()> {
        let Some(tokens) = tokens else {
            return self.logits_of_rows(pass, x, logits);
        };
        let hidden = self.embedding.k;
        let mut rows = pass.memory.take(tokens.len() * hidden as usize)?;
        pass.operations.gather_rows(pass.stream, (x, hidden), (tokens, 0), &mut rows)?;
        pass.note("rows of logits", 2 * rows.bytes(), 0);
        self.logits_of_rows(pass, &rows, logits)?;
        pass.memory.give(rows);
        Ok(())
    }

    fn logits_of_rows(&self, pass: &mut Pass<'_, T>, x: &Buffer<T>, logits: &mut Buffer<f32>) -> Result<()> {
        self.gather_logits(pass, logits, |pass, logits| {
            self.head().apply_after_norm(pass, &self.norm, x, (logits, Epilogue::Store))
        })
    }

    /// The logits of the whole vocabulary; `multiply` makes those of the rows of the head.
    fn gather_logits(
        &self,
        pass: &mut Pass<'_, T>,
        logits: &mut Buffer<f32>,
        multiply: impl FnOnce(&mut Pass<'_, T>, &mut Buffer<f32>) -> Result<()>,
    ) -> Result<()> {
        let (rows, vocabulary) = (self.head().n, self.embedding.n);
        let Some(communicator) = pass.communicator.filter(|_| rows < vocabulary) else {
            return multiply(pass, logits);
        };
        let mut part = pass.floats.take(logits.len() / vocabulary as usize * rows as usize)?;
        multiply(pass, &mut part)?;
        communicator.all_gather(pass.operations, pass.stream, (&part, rows), logits)?;
        pass.note("logits of all ranks", part.bytes() + 3 * logits.bytes(), 0);
        pass.floats.give(part);
        Ok(())
    }

    fn head(&self) -> &Linear<T> {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// The logits of rows after the last norm.
    pub(crate) fn logits_of_normalized(
        &self,
        pass: &mut Pass<'_, T>,
        normalized: &Buffer<T>,
        logits: &mut Buffer<f32>,
    ) -> Result<()> {
        self.gather_logits(pass, logits, |pass, logits| {
            self.head().apply_to(pass, normalized, (logits, Epilogue::Store))
        })
    }
}
