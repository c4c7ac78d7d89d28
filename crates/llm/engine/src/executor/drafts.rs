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
//!
//! A step of answers is a CUDA graph: the device reads its tokens, their positions and the drafts from the slots,
//! decides which count, and drafts the next ones. A step can follow another whose tokens the host has not read.

use std::collections::hash_map::Entry;

use warpwright::runtime::{Buffer, Stream};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::sampling::SamplingBuffers;
use warpwright_kernels::speculation::{Accepted, NextRows, Rows, Sequences, Speculation};
use warpwright_llm_step::{Capacity, Chunk, Output, Slot, Step, Token, Tokens};

use super::chunks::{is_decode, some_of};
use super::drafting::Drafting;
use super::in_turn::{InTurn, STEPS};
use super::kept::{Rounds, Verification};
use super::logits::is_on_host;
use super::model::Model;
use super::model_executor::ModelExecutor;
use super::pending::Pending;
use crate::error::{EngineError, Result};
use crate::layers::{Batch, Shape, Verified};
use crate::number::Number;

impl<T: Number> Drafting for ModelExecutor<T> {
    fn warm_up(&mut self) -> Result<()> {
        self.make_warm()
    }

    fn expect_step(&self, step: &Step) -> Result<()> {
        self.check(step)
    }

    fn abort(&self) {
        if let Some(communicator) = &self.model.communicator {
            // A device that is lost cannot end anything.
            let _ = communicator.abort(&self.operations, &self.stream);
        }
    }

    fn rejoin(&self) -> Result<()> {
        if let Some(communicator) = &self.model.communicator {
            communicator.reset(&self.operations, &self.stream)?;
            self.stream.synchronize()?;
        }
        Ok(())
    }

    fn drafted(&self, slot: Slot) -> Result<Vec<Token>> {
        let count = self.capacity.drafts as usize;
        Ok(self.model.tokens.drafts.read(slot.0 as usize * count..(slot.0 as usize + 1) * count)?)
    }

    fn propose(&mut self, slot: Slot, tokens: &[Token]) -> Result<()> {
        let count = self.capacity.drafts as usize;
        let tokens = &tokens[..tokens.len().min(count)];
        Ok(self.model.tokens.drafts.write_at(slot.0 as usize * count, tokens)?)
    }
}

impl<T: Number> ModelExecutor<T> {
    /// A step of a model that drafts.
    pub(super) fn speculate(&mut self, chunks: &[Chunk]) -> Result<Pending> {
        let is_verified =
            |chunk: &Chunk| is_decode(chunk) && chunk.sampling.as_ref().is_some_and(|one| !is_on_host(one));
        let (answers, others): (Vec<usize>, Vec<usize>) =
            (0..chunks.len()).partition(|at| is_verified(&chunks[*at]));
        let mut parts = [(answers, Pending::default()), (others, Pending::default())];
        if !parts[0].0.is_empty() {
            parts[0].1 = self.verify(&some_of(chunks, &parts[0].0))?;
        }
        if !parts[1].0.is_empty() {
            let of_others = some_of(chunks, &parts[1].0);
            let of_others = of_others.into_iter().map(|chunk| self.at_known_position(chunk));
            parts[1].1 = self.together(&of_others.collect::<Result<Vec<_>>>()?)?;
        }
        Ok(Pending::of_parts(chunks.len(), parts))
    }

    /// A chunk without drafts, at the position that its slot has.
    fn at_known_position(&self, mut chunk: Chunk) -> Result<Chunk> {
        chunk.draft = 0;
        if chunk.tokens == Tokens::Last {
            let slot = chunk.slot.0 as usize;
            let position = self.model.tokens.positions.read(slot..slot + 1)?[0];
            if let Some(sampling) = &mut chunk.sampling {
                sampling.offset = (sampling.offset + u64::from(position)).wrapping_sub(chunk.position.into());
            }
            chunk.position = position;
        }
        Ok(chunk)
    }

    /// Makes the graph of steps of a shape that verify drafts.
    pub(super) fn prepare_verification(&mut self, shape: Shape) -> Result<()> {
        let Self { operations, stream, model, capacity, verifications, free, .. } = self;
        let verification = match verifications.entry(shape) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Verification::new(operations.device(), shape, capacity)?),
        };
        free.reserve(operations.device(), shape.tokens as usize)?;
        free.reserve_counts(operations.device(), shape.sequences as usize)?;
        let graph = stream.capture(|stream| model.verify((operations, stream), verification, *capacity))?;
        verification.graph = Some(graph);
        Ok(())
    }

    /// Verifies drafts after single tokens, and drafts the next ones.
    fn verify(&mut self, chunks: &[Chunk]) -> Result<Pending> {
        let Self { operations, stream, model, capacity, verifications, free, .. } = self;
        let device = operations.device().clone();
        let shape = Shape::of_drafts(chunks, capacity.drafts, model.cache);
        let verification = match verifications.entry(shape) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Verification::new(&device, shape, capacity)?),
        };
        verification.fill(stream, chunks, capacity)?;
        if verification.graph.is_none() {
            let graph =
                stream.capture(|stream| model.verify((operations, stream), verification, *capacity))?;
            verification.graph = Some(graph);
        }
        if let Some(graph) = &verification.graph {
            graph.launch(stream)?;
        }
        let wants =
            |chunk: &Chunk| chunk.sampling.as_ref().is_some_and(|one| one.log_probabilities.is_some());
        let each = 1 + capacity.drafts as usize;
        let of_chunks = chunks.iter().enumerate();
        let rows = of_chunks.flat_map(|(at, chunk)| std::iter::repeat_n((at, wants(chunk)), each)).collect();
        let mut drawn = verification.drawing.read((&device, stream), free, rows)?;
        drawn.count((&device, stream), free, (&verification.counts, each))?;
        Ok(Pending {
            outputs: vec![Output::default(); chunks.len()],
            drawn: vec![drawn],
            ..Pending::default()
        })
    }

    /// Drafts the tokens after those that chunks have sampled. All their tokens, with the rows `x` after the last
    /// block, enter the cache of the MTP layer.
    pub(super) fn draft_after(&mut self, chunks: &[Chunk], x: Buffer<T>) -> Result<()> {
        let Self { operations, stream, model, capacity, batches, rounds, .. } = self;
        let on = (&*operations, &*stream);
        let batch = batches.latest().expect("the chunks were computed");
        let shape = batch.shape;
        let (mut pass, decoder, _) = model.pass(on, batch);
        let hidden = decoder.norm.apply(&mut pass, &x)?;
        model.memory.give(x);
        let mut next = model.floats.take(shape.tokens as usize)?;
        let of_tokens = (&*batch.sequences, &*batch.starts, &*batch.slots);
        on.0.follow_tokens(on.1, &batch.tokens, of_tokens, &model.tokens.last, next.cast_mut())?;
        let rows = model.mtp_rows(on, batch, (next.cast(), &hidden))?;
        model.floats.give(next);
        model.memory.give(hidden);

        let (mut sampling, mut last_rows, mut start) = (vec![], vec![], 0);
        for chunk in chunks {
            start += chunk.tokens.len();
            if chunk.sampling.is_some() {
                sampling.push(chunk.clone());
                last_rows.push((start - 1).cast_signed());
            }
        }
        if !sampling.is_empty() {
            let shape = Shape::of_drafts(&sampling, capacity.drafts, model.cache).of_single_tokens();
            let rounds = match rounds.entry(shape) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    entry.insert(InTurn::new(STEPS, || Rounds::new(on.0.device(), shape))?)
                }
            };
            let rounds = rounds.next();
            rounds.fill(stream, &sampling, capacity)?;
            last_rows.resize(shape.sequences as usize, 0);
            rounds.rows.set(stream, &last_rows)?;
            let mut last =
                model.memory.take(shape.sequences as usize * model.decoder.embedding.k as usize)?;
            on.0.gather_rows(on.1, (&rows, model.decoder.embedding.k), (&rounds.rows, 0), &mut last)?;
            model.draft(on, rounds, *capacity, last)?;
        }
        model.memory.give(rows);
        Ok(())
    }
}

impl<T: Number> Model<T> {
    /// What a graph has: all rows are computed and sampled, tokens that count update the states, and the next drafts
    /// follow the last of them.
    fn verify(
        &mut self,
        on: (&Operations, &Stream),
        verification: &mut Verification,
        capacity: Capacity,
    ) -> Result<()> {
        let Verification { batch, given, positions, limits, parameters, nobody, drawing, rounds, .. } =
            verification;
        let Verification { counts, ends, last_rows, next, .. } = verification;
        let speculation = Speculation { each: 1 + capacity.drafts, page_size: capacity.page_tokens };
        let rows = Rows {
            tokens: &mut batch.tokens,
            positions: batch.positions.device_mut(),
            keys: batch.keys.device_mut(),
            lengths: batch.lengths.device_mut(),
            parameters: drawing.parameters_mut(),
        };
        let sequences =
            Sequences { given, positions, limits, slots: &batch.slots, table: &batch.table, parameters };
        on.0.prepare_drafts(on.1, speculation, &sequences, &self.tokens, rows)?;

        let mut projected = vec![];
        let verified = Verified { projected: &mut projected, nobody };
        let (mut pass, decoder, _, caches) = self.parts(on, batch, Some(verified));
        let x = decoder.forward(&mut pass, caches)?;
        let mut logits = pass.floats.take(batch.shape.tokens as usize * capacity.vocabulary as usize)?;
        decoder.logits(&mut pass, &x, None, &mut logits)?;
        drawing.draw(on, &logits)?;
        pass.note_sampling(logits.bytes());
        pass.floats.give(logits);
        let of_rows = (&batch.tokens, &*batch.positions, &drawing.sampled);
        let accepted = Accepted { counts, ends, last_rows, next };
        on.0.accept_drafts(on.1, speculation, &sequences, of_rows, &mut self.tokens, accepted)?;

        let (mut pass, decoder, _, caches) = self.parts(on, batch, None);
        decoder.repeat(&mut pass, (projected, ends), caches)?;
        let hidden = decoder.norm.apply(&mut pass, &x)?;
        pass.memory.give(x);
        let rows = self.mtp_rows(on, batch, (next, &hidden))?;
        self.memory.give(hidden);
        let columns = self.decoder.embedding.k;
        let mut last = self.memory.take(batch.shape.sequences as usize * columns as usize)?;
        on.0.gather_rows(on.1, (&rows, columns), (last_rows, 0), &mut last)?;
        self.memory.give(rows);
        self.draft(on, rounds, capacity, last)
    }

    /// The rows of the MTP layer for the tokens of a batch, whose rows are `hidden` and which `next` tokens follow.
    fn mtp_rows(
        &mut self,
        on: (&Operations, &Stream),
        batch: &Batch,
        (next, hidden): (&Buffer<i32>, &Buffer<T>),
    ) -> Result<Buffer<T>> {
        let (mut pass, decoder, _, caches) = self.parts(on, batch, None);
        let (Some(mtp), Some(of_mtp)) = (&decoder.mtp, caches.last_mut()) else {
            return Err(EngineError::Config("the model has no MTP layer to draft".to_owned()));
        };
        mtp.forward(&mut pass, &decoder.embedding, (next, hidden), of_mtp)
    }

    /// Drafts tokens of sequences whose last rows of the MTP layer are `rows`.
    fn draft(
        &mut self,
        on: (&Operations, &Stream),
        rounds: &mut Rounds,
        capacity: Capacity,
        mut rows: Buffer<T>,
    ) -> Result<()> {
        let speculation = Speculation { each: 1 + capacity.drafts, page_size: capacity.page_tokens };
        let Rounds { batch, held, greedy, drafted, next, .. } = rounds;
        let (sequences, vocabulary) = (batch.shape.sequences, capacity.vocabulary);
        for number in 0..capacity.drafts {
            if number > 0 {
                let after = self.mtp_rows(on, batch, (next, &rows))?;
                self.memory.give(std::mem::replace(&mut rows, after));
            }
            let (mut pass, decoder, _) = self.pass(on, batch);
            let mut logits = pass.floats.take(sequences as usize * vocabulary as usize)?;
            decoder.logits_of_normalized(&mut pass, &rows, &mut logits)?;
            let buffers = SamplingBuffers {
                logits: &logits,
                parameters: greedy,
                history: None,
                tokens: drafted,
                log_probabilities: None,
            };
            on.0.sample(on.1, (sequences, vocabulary), buffers)?;
            pass.note_sampling(logits.bytes());
            pass.floats.give(logits);
            let of_batch = (&*batch.slots, &**held, &*batch.table);
            let rows = NextRows {
                next: &mut *next,
                positions: batch.positions.device_mut(),
                keys: batch.keys.device_mut(),
                lengths: batch.lengths.device_mut(),
            };
            let drafted = (&*drafted, number, vocabulary);
            on.0.keep_drafts(on.1, speculation, drafted, of_batch, &mut self.tokens, rows)?;
        }
        self.memory.give(rows);
        Ok(())
    }
}
