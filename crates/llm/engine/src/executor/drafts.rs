//! Speculative decoding: several tokens of a sequence in one step.
//!
//! ```text
//! step n      samples s, drafts d1 d2 by the MTP layer
//! step n + 1  computes s d1 d2, samples a token after each: t1 t2 t3
//!             t1 counts; t2 counts if t1 = d1, t3 if t2 = d2 as well
//! ```
//!
//! A token is sampled from the logits and the random number that it has without drafts: drafts change no token and no
//! distribution. Keys of rejected drafts are overwritten by later tokens. The states of the delta rule and of the
//! convolution are not written by the pass that verifies; accepted tokens update them after it, by what the pass kept
//! of their projections.

use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::sampling::{SamplingBuffers, SamplingParameters};
use warpwright_llm_step::{Chunk, Output, Slot, Step, Token, Tokens};

use super::drafting::{Draft, Drafting};
use super::{Model, ModelExecutor, kept_batch, logits};
use crate::error::Result;
use crate::layers::{Batch, Projected, Shape};
use crate::number::Number;

impl<T: Number> Drafting for ModelExecutor<T> {
    fn expect_step(&self, step: &Step) -> Result<()> {
        self.check(step)
    }

    fn abort(&self) {
        if let Some(communicator) = &self.model.communicator {
            // A device that is lost cannot end anything.
            let _ = communicator.abort(&self.operations, &self.stream);
        }
    }

    fn drafted(&self, slot: Slot) -> &[Token] {
        self.drafts.get(&slot).map_or(&[], |draft| &draft.tokens)
    }

    fn propose(&mut self, slot: Slot, tokens: &[Token]) {
        if let Some(draft) = self.drafts.get_mut(&slot) {
            draft.tokens = tokens.to_vec();
        }
    }
}

impl<T: Number> ModelExecutor<T> {
    /// A step of a model that drafts.
    pub(super) fn speculate(&mut self, chunks: &[Chunk]) -> Result<Vec<Output>> {
        let chunks: Vec<Chunk> = chunks.iter().map(|chunk| self.with_drafts(chunk)).collect();
        let Self { operations, stream, model, capacity, batches, .. } = self;
        let on = (&*operations, &*stream);
        let shape = Shape::of(&chunks, capacity.page_tokens);
        let batch = kept_batch(batches, on.0.device(), shape)?;
        batch.fill(stream, &chunks, capacity.page_tokens, capacity.slots)?;
        let mut kept = vec![];
        let has_drafts = chunks.iter().any(|chunk| chunk.draft > 0);
        let x = model.forward(on, batch, has_drafts.then_some(&mut kept))?;
        let (mut pass, decoder, last) = model.pass(on, batch);
        let mut outputs = logits::outputs(decoder, &mut pass, &x, &chunks, last)?;
        for (chunk, output) in chunks.iter().zip(&mut outputs).filter(|(chunk, _)| chunk.draft > 0) {
            output.sampled.truncate(accepted(chunk, output));
            if let Some(sampled) = output.sampled.last() {
                last.write_at(chunk.slot.0 as usize, &[sampled.token])?;
            }
        }
        let hidden = decoder.norm.apply(&mut pass, &x)?;
        model.memory.give(x);
        if has_drafts {
            let counts: Vec<u32> =
                chunks.iter().zip(&outputs).map(|(chunk, output)| computed(chunk, output)).collect();
            batch.accept(stream, &chunks, &counts, capacity.slots)?;
            model.repeat(on, batch, kept)?;
        }
        self.draft(&chunks, &outputs, shape, hidden)?;
        Ok(outputs)
    }

    /// The chunk with its drafts as tokens. Without any that follow its token, it has none.
    fn with_drafts(&self, chunk: &Chunk) -> Chunk {
        let none = Chunk { draft: 0, ..chunk.clone() };
        let Some(draft) = self.drafts.get(&chunk.slot).filter(|draft| draft.position == chunk.position)
        else {
            return none;
        };
        let is_same = match &chunk.tokens {
            Tokens::Known(tokens) => *tokens == [draft.after],
            Tokens::Last => true,
        };
        let room = self.capacity.context - chunk.position - 1;
        let count = chunk.draft.min(room).min(draft.tokens.len() as u32);
        if !is_same || count == 0 || chunk.sampling.is_none() {
            return none;
        }
        let tokens = [&[draft.after], &draft.tokens[..count as usize]].concat();
        Chunk { draft: count, tokens: Tokens::Known(tokens), ..none }
    }

    /// Drafts tokens after those that were sampled. All tokens enter the cache of the MTP layer.
    fn draft(&mut self, chunks: &[Chunk], outputs: &[Output], shape: Shape, hidden: Buffer<T>) -> Result<()> {
        let Self { operations, stream, model, capacity, batches, drafts, .. } = self;
        let on = (&*operations, &*stream);
        let mut next = vec![];
        let mut drafting = vec![];
        for (chunk, output) in chunks.iter().zip(outputs) {
            let end = next.len() + chunk.tokens.len() as usize;
            let row = next.len() as u32 + computed(chunk, output) - 1;
            next.extend(following(chunk, output));
            next.resize(end, 0);
            drafts.remove(&chunk.slot);
            if let Some(last) = output.sampled.last() {
                let position = chunk.position + computed(chunk, output);
                drafts.insert(chunk.slot, Draft { after: last.token, position, tokens: vec![] });
                drafting
                    .push((row, Chunk { position, draft: 0, sampling: None, score: None, ..chunk.clone() }));
            }
        }
        let mut batch = kept_batch(batches, on.0.device(), shape)?;
        let mut rows = model.mtp_rows(on, batch, &next, hidden)?;
        for round in 1..=capacity.drafts {
            let tokens = model.most_probable(on, batch, &rows, &drafting)?;
            let held = |chunk: &Chunk| capacity.context.min(chunk.pages.len() as u32 * capacity.page_tokens);
            let mut left = vec![];
            for ((row, mut chunk), token) in drafting.into_iter().zip(tokens) {
                // A row with NaN has no token.
                if let Some(draft) = drafts.get_mut(&chunk.slot).filter(|_| token < capacity.vocabulary) {
                    draft.tokens.push(token);
                    chunk.tokens = Tokens::Known(vec![token]);
                    if chunk.position < held(&chunk) {
                        left.push((row, chunk));
                    }
                }
            }
            drafting = left;
            if drafting.is_empty() || round == capacity.drafts {
                break;
            }
            let of_chunks: Vec<Chunk> = drafting.iter().map(|(_, chunk)| chunk.clone()).collect();
            let shape = Shape::of(&of_chunks, capacity.page_tokens);
            let hidden = model.rows(on, (&rows, shape.tokens as usize), &drafting)?;
            model.memory.give(rows);
            batch = kept_batch(batches, on.0.device(), shape)?;
            batch.fill(stream, &of_chunks, capacity.page_tokens, capacity.slots)?;
            let next: Vec<Token> = of_chunks.iter().flat_map(known).copied().collect();
            rows = model.mtp_rows(on, batch, &next, hidden)?;
            for (at, (row, chunk)) in drafting.iter_mut().enumerate() {
                *row = at as u32;
                chunk.position += 1;
            }
        }
        model.memory.give(rows);
        Ok(())
    }
}

/// The sampled tokens that count: those before the first that differs from its draft, and that one.
fn accepted(chunk: &Chunk, output: &Output) -> usize {
    let drafts = known(chunk).iter().skip((chunk.tokens.len() - chunk.draft) as usize);
    1 + output.sampled.iter().zip(drafts).take_while(|(sampled, draft)| sampled.token == **draft).count()
}

/// The tokens of a chunk that count, drafts included.
fn computed(chunk: &Chunk, output: &Output) -> u32 {
    chunk.tokens.len() - chunk.draft + (output.sampled.len() as u32).saturating_sub(1)
}

/// The tokens of a chunk that the host knows.
fn known(chunk: &Chunk) -> &[Token] {
    match &chunk.tokens {
        Tokens::Known(tokens) => tokens,
        Tokens::Last => &[],
    }
}

/// The token after each one of a chunk that counts. After a part of a prompt, where it is not known, the last token
/// stands for it: one entry of the MTP layer's cache.
fn following(chunk: &Chunk, output: &Output) -> Vec<Token> {
    let tokens = &known(chunk)[..known(chunk).len() - chunk.draft as usize];
    let sampled = output.sampled.iter().map(|sampled| sampled.token);
    let mut following: Vec<Token> = tokens.iter().skip(1).copied().chain(sampled).collect();
    following.resize(computed(chunk, output) as usize, tokens.last().copied().unwrap_or(0));
    following
}

impl<T: Number> Model<T> {
    /// Updates states by the tokens of the batch.
    fn repeat(
        &mut self,
        (operations, stream): (&Operations, &Stream),
        batch: &Batch,
        projected: Vec<Projected<T>>,
    ) -> Result<()> {
        let (mut pass, decoder, _, caches) = self.parts((operations, stream), batch, None);
        decoder.repeat(&mut pass, projected, caches)
    }

    /// The rows of the MTP layer for the tokens of a batch, which `next` tokens follow.
    fn mtp_rows(
        &mut self,
        (operations, stream): (&Operations, &Stream),
        batch: &Batch,
        next: &[Token],
        hidden: Buffer<T>,
    ) -> Result<Buffer<T>> {
        let mut tokens: Vec<i32> = next.iter().map(|token| token.cast_signed()).collect();
        tokens.resize(batch.shape.tokens as usize, 0);
        let tokens = operations.device().buffer_from(&tokens)?;
        let (mut pass, decoder, _, caches) = self.parts((operations, stream), batch, None);
        let (Some(mtp), Some(of_mtp)) = (&decoder.mtp, caches.last_mut()) else { return Ok(hidden) };
        let rows = mtp.forward(&mut pass, decoder, (&tokens, &hidden), of_mtp)?;
        pass.memory.give(hidden);
        Ok(rows)
    }

    /// Some of the rows, and the first one again up to `count`.
    fn rows(
        &mut self,
        on: (&Operations, &Stream),
        (rows, count): (&Buffer<T>, usize),
        wanted: &[(u32, Chunk)],
    ) -> Result<Buffer<T>> {
        let hidden = self.decoder.embedding.k;
        let mut indices: Vec<i32> = wanted.iter().map(|(row, _)| row.cast_signed()).collect();
        indices.resize(count, 0);
        let indices = on.0.device().buffer_from(&indices)?;
        let mut gathered = self.memory.take(count * hidden as usize)?;
        on.0.gather_rows(on.1, (rows, hidden), (&indices, 0), &mut gathered)?;
        Ok(gathered)
    }

    /// The most probable tokens by the rows of the MTP layer.
    fn most_probable(
        &mut self,
        on: (&Operations, &Stream),
        batch: &Batch,
        rows: &Buffer<T>,
        wanted: &[(u32, Chunk)],
    ) -> Result<Vec<Token>> {
        if wanted.is_empty() {
            return Ok(vec![]);
        }
        let device = on.0.device();
        let (count, vocabulary) = (wanted.len(), self.decoder.embedding.n);
        let gathered = self.rows(on, (rows, count), wanted)?;
        let mut logits = self.floats.take(count * vocabulary as usize)?;
        let (mut pass, decoder, _) = self.pass(on, batch);
        decoder.logits_of_normalized(&mut pass, &gathered, &mut logits)?;
        let greedy = SamplingParameters { temperature: 0.0, ..Default::default() };
        let mut tokens = device.uninitialized(count)?;
        let buffers = SamplingBuffers {
            logits: &logits,
            parameters: &device.buffer_from(&greedy.words().repeat(count))?,
            history: None,
            tokens: &mut tokens,
            log_probabilities: None,
        };
        on.0.sample(on.1, (count as u32, vocabulary), buffers)?;
        self.memory.give(gathered);
        self.floats.give(logits);
        Ok(tokens.to_vec()?)
    }
}
