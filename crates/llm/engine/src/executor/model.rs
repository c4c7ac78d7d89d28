//! The weights of a model, and what a pass over them works on.

use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::attention::PagedCache;
use warpwright_kernels::communicator::Communicator;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::speculation::SlotTokens;

use crate::error::Result;
use crate::layers::cache::Cache;
use crate::layers::decoder::Decoder;
use crate::layers::{Batch, Cost, Memory, Pass, Verified};
use crate::number::Number;

/// The weights, and the memory that a pass works on.
pub(super) struct Model<T> {
    pub(super) decoder: Decoder<T>,
    pub(super) caches: Vec<Cache<T>>,
    pub(super) memory: Memory<T>,
    pub(super) floats: Memory<f32>,
    pub(super) rotations: Buffer<f32>,
    /// Those of the last decode.
    pub(super) logits: Option<Buffer<f32>>,
    pub(super) tokens: SlotTokens,
    pub(super) cache: PagedCache,
    /// What the operations of a pass cost, for plans.
    pub(super) costs: Option<Vec<Cost>>,
    pub(super) communicator: Option<Communicator>,
}

/// A pass over a batch, the weights, the tokens of slots and the caches.
pub(super) type Parts<'l, T> = (Pass<'l, T>, &'l Decoder<T>, &'l mut SlotTokens, &'l mut [Cache<T>]);

impl<T: Number> Model<T> {
    /// The model, divided into what a pass over a batch needs.
    pub(super) fn parts<'l>(
        &'l mut self,
        (operations, stream): (&'l Operations, &'l Stream),
        batch: &'l Batch,
        verified: Option<Verified<'l, T>>,
    ) -> Parts<'l, T> {
        let Self { decoder, caches, memory, floats, rotations, tokens, cache, costs, communicator, .. } =
            self;
        let (cache, costs, communicator) = (*cache, costs.as_mut(), communicator.as_ref());
        let pass = Pass {
            operations,
            stream,
            batch,
            memory,
            floats,
            rotations,
            cache,
            has_drafts: decoder.mtp.is_some(),
            verified,
            costs,
            communicator,
        };
        (pass, decoder, tokens, caches)
    }

    /// A pass over a batch, and what else of the model it needs.
    pub(super) fn pass<'l>(
        &'l mut self,
        (operations, stream): (&'l Operations, &'l Stream),
        batch: &'l Batch,
    ) -> (Pass<'l, T>, &'l Decoder<T>, &'l mut SlotTokens) {
        let (pass, decoder, tokens, _) = self.parts((operations, stream), batch, None);
        (pass, decoder, tokens)
    }

    /// Looks up the tokens of a batch that slots have.
    pub(super) fn resolve(&self, on: (&Operations, &Stream), batch: &mut Batch) -> Result<()> {
        let slots = (&*batch.sequences, &*batch.slots);
        on.0.resolve_tokens(on.1, &batch.given, slots, &self.tokens.last, &mut batch.tokens)?;
        Ok(())
    }

    /// The rows of all tokens after the last block.
    pub(super) fn forward(&mut self, on: (&Operations, &Stream), batch: &mut Batch) -> Result<Buffer<T>> {
        self.resolve(on, batch)?;
        let (mut pass, decoder, _, caches) = self.parts(on, batch, None);
        decoder.forward(&mut pass, caches)
    }
}
