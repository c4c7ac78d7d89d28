//! From rows of logits to tokens and log-probabilities.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use warpwright::runtime::{Buffer, Device};
use warpwright_kernels::sampling::SamplingBuffers;
use warpwright_kernels::speculation::SlotTokens;
use warpwright_llm_step::{Chunk, Output, Sampled, Sampling, log_probabilities};

use super::drawing::{Drawing, Drawn, FreeResults, parameters};
use super::failures::sample_finite;
use super::in_turn::{InTurn, STEPS};
use crate::error::Result;
use crate::layers::decoder::Decoder;
use crate::layers::{Pass, end, padded};
use crate::number::Number;
use crate::upload::Upload;

/// Rows of logits at once: of a large vocabulary they are 64 MB.
const ROWS: usize = 64;

/// A row of logits that a chunk wants.
struct Row {
    chunk: usize,
    /// The token whose successor it predicts.
    token: u32,
    wanted: Wanted,
}

enum Wanted {
    Sample(Sampling),
    /// The log-probabilities of a given token, and of the most probable ones.
    Score(u32, u32),
}

impl Wanted {
    fn sampling(&self) -> Option<&Sampling> {
        match self {
            Self::Sample(sampling) => Some(sampling),
            Self::Score(..) => None,
        }
    }
}

/// What is kept for rows of logits that the device draws tokens from, by their number.
pub(super) type Drawings = FxHashMap<usize, InTurn<RowsDrawing>>;

/// Some rows of a pass, and the slots of their tokens.
pub(super) struct RowsDrawing {
    drawing: Drawing,
    tokens: Upload<i32>,
    slots: Upload<u32>,
    ends: Upload<u32>,
}

impl RowsDrawing {
    fn new(device: &Device, rows: usize, vocabulary: u32) -> Result<Self> {
        Ok(Self {
            drawing: Drawing::new(device, rows, vocabulary)?,
            tokens: Upload::new(device, rows)?,
            slots: Upload::new(device, rows)?,
            ends: Upload::new(device, rows)?,
        })
    }
}

/// The tokens that chunks want of the rows `x`, which stay in their slots, too. `None` if the host has to
/// see logits of a chunk.
pub(super) fn drawn<T: Number>(
    decoder: &Decoder<T>,
    pass: &mut Pass<'_, T>,
    (x, chunks): (&Buffer<T>, &[Chunk]),
    of_slots: &mut SlotTokens,
    (drawings, free): (&mut Drawings, &mut FreeResults),
) -> Result<Option<Vec<Drawn>>> {
    let rows = rows(chunks);
    if rows.iter().any(|row| row.wanted.sampling().is_none_or(is_on_host)) {
        return Ok(None);
    }
    let (device, stream, vocabulary) = (pass.operations.device(), pass.stream, decoder.embedding.n);
    let nobody = of_slots.last.len() as u32 - 1;
    let mut all = vec![];
    for rows in rows.chunks(ROWS) {
        // Padding repeats the first row.
        let count = padded(rows.len() as u32) as usize;
        let kept = match drawings.entry(count) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(InTurn::new(STEPS, || RowsDrawing::new(device, count, vocabulary))?)
            }
        };
        // They are copied after the pass: to fill those of the previous step would wait for it.
        let kept = kept.next();
        let mut tokens: Vec<i32> = rows.iter().map(|row| row.token.cast_signed()).collect();
        tokens.resize(count, tokens[0]);
        let mut slots: Vec<u32> = rows.iter().map(|row| chunks[row.chunk].slot.0).collect();
        slots.resize(count, nobody);
        kept.tokens.set(stream, &tokens)?;
        let mut ends: Vec<u32> = rows.iter().map(|row| end(&chunks[row.chunk])).collect();
        ends.resize(count, 0);
        kept.slots.set(stream, &slots)?;
        kept.ends.set(stream, &ends)?;
        kept.drawing.set(stream, rows.iter().map(|row| row.wanted.sampling()))?;
        let mut logits = pass.floats.take(count * vocabulary as usize)?;
        decoder.logits(pass, x, Some(&kept.tokens), &mut logits)?;
        kept.drawing.draw(pass.on(), &logits)?;
        let slots = (&*kept.slots, &*kept.ends);
        pass.operations.remember_tokens(pass.stream, &kept.drawing.sampled, slots, of_slots)?;
        pass.floats.give(logits);
        let wants = |row: &Row| row.wanted.sampling().is_some_and(|one| one.log_probabilities.is_some());
        let rows = rows.iter().map(|row| (row.chunk, wants(row))).collect();
        all.push(kept.drawing.read((device, stream), free, rows)?);
    }
    Ok(Some(all))
}

/// What the chunks want of the rows `x`. The sampled tokens stay in their slots, too.
pub(super) fn outputs<T: Number>(
    decoder: &Decoder<T>,
    pass: &mut Pass<'_, T>,
    x: &Buffer<T>,
    chunks: &[Chunk],
    of_slots: &mut SlotTokens,
) -> Result<Vec<Output>> {
    let mut outputs = vec![Output::default(); chunks.len()];
    for rows in rows(chunks).chunks(ROWS) {
        let sampled = of_rows(decoder, pass, x, (rows, chunks), of_slots)?;
        for (row, sampled) in rows.iter().zip(sampled) {
            match row.wanted {
                Wanted::Sample(_) => outputs[row.chunk].sampled.push(sampled),
                Wanted::Score(..) => outputs[row.chunk].scored.push(sampled),
            }
        }
    }
    Ok(outputs)
}

/// The rows of all chunks.
fn rows(chunks: &[Chunk]) -> Vec<Row> {
    let (mut rows, mut start) = (vec![], 0);
    for (chunk, of_chunk) in chunks.iter().enumerate() {
        if let Some(score) = &of_chunk.score {
            let row = |(at, target): (usize, &u32)| {
                let wanted = Wanted::Score(*target, score.top);
                Row { chunk, token: start + at as u32, wanted }
            };
            rows.extend(score.targets.iter().enumerate().map(row));
        }
        start += of_chunk.tokens.len();
        if let Some(sampling) = &of_chunk.sampling {
            rows.push(Row { chunk, token: start - 1, wanted: Wanted::Sample(sampling.clone()) });
        }
    }
    rows
}

/// The results of some rows.
fn of_rows<T: Number>(
    decoder: &Decoder<T>,
    pass: &mut Pass<'_, T>,
    x: &Buffer<T>,
    (rows, chunks): (&[Row], &[Chunk]),
    of_slots: &mut SlotTokens,
) -> Result<Vec<Sampled>> {
    let device = pass.operations.device();
    let vocabulary = decoder.embedding.n;
    let tokens: Vec<i32> = rows.iter().map(|row| row.token.cast_signed()).collect();
    let mut logits = device.uninitialized(rows.len() * vocabulary as usize)?;
    decoder.logits(pass, x, Some(&device.buffer_from(&tokens)?), &mut logits)?;

    let parameters: Vec<u32> =
        rows.iter().flat_map(|row| parameters(row.wanted.sampling()).words()).collect();
    let parameters = device.buffer_from(&parameters)?;
    let (mut sampled, mut of_sampled) =
        (device.uninitialized(rows.len())?, device.uninitialized(rows.len())?);
    let buffers = SamplingBuffers {
        logits: &logits,
        parameters: &parameters,
        history: None,
        tokens: &mut sampled,
        log_probabilities: Some(&mut of_sampled),
    };
    pass.operations.sample(pass.stream, (rows.len() as u32, vocabulary), buffers)?;
    // Rows of given tokens have the slot that nobody reads.
    let nobody = of_slots.last.len() as u32 - 1;
    let slot = |row: &Row| row.wanted.sampling().map_or(nobody, |_| chunks[row.chunk].slot.0);
    let slots = device.buffer_from(&rows.iter().map(slot).collect::<Vec<_>>())?;
    let ends = device.buffer_from(&rows.iter().map(|row| end(&chunks[row.chunk])).collect::<Vec<_>>())?;
    pass.operations.remember_tokens(pass.stream, &sampled, (&slots, &ends), of_slots)?;

    let (sampled, of_sampled) = (sampled.to_vec()?, of_sampled.to_vec()?);
    let mut results = vec![];
    for (at, row) in rows.iter().enumerate() {
        let of_row = || logits.read(at * vocabulary as usize..(at + 1) * vocabulary as usize);
        results.push(match &row.wanted {
            Wanted::Score(token, top) => log_probabilities(&of_row()?, *token, *top),
            Wanted::Sample(sampling) if is_on_host(sampling) => {
                let drawn = sample_finite(&of_row()?, sampling);
                of_slots.last.write_at(slot(row) as usize, &[drawn.token])?;
                drawn
            }
            Wanted::Sample(sampling) => {
                let wants = sampling.log_probabilities.is_some() || !of_sampled[at].is_finite();
                let log_probability = if wants { of_sampled[at] } else { 0.0 };
                Sampled { token: sampled[at], log_probability, top: vec![] }
            }
        });
    }
    Ok(results)
}

/// Whether a token is drawn by the reference sampler: masks, adjustments and lists of alternatives.
pub(super) fn is_on_host(sampling: &Sampling) -> bool {
    sampling.allowed.is_some()
        || !sampling.adjustments.is_empty()
        || sampling.log_probabilities.is_some_and(|top| top > 0)
}
