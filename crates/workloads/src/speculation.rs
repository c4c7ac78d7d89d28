//! The kernels of tokens and drafts as workloads.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::{Buffer, Device};
use warpwright_harness::{Options, Prepared, Random, Result, Setup, Verified, Work, Workload, exactly};

use warpwright_kernels::operations::Operations;
use warpwright_kernels::rope::NO_SLOT;
use warpwright_kernels::sampling::PARAMETER_WORDS;
use warpwright_kernels::speculation::{
    Accepted, LAST, NextRows, PADDING, Rows, Sequences, SlotTokens, Speculation,
};

/// Tokens of the vocabulary.
const VOCABULARY: u32 = 10;
/// Pages of a sequence beside those of its drafts.
const PAGES: u32 = 4;

fn numbers(seed: u64, count: usize, below: u32) -> Vec<u32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.below(below.into()) as u32).collect()
}

/// Tokens, every third of which is the last one of its slot.
fn given(seed: u64, count: usize) -> Vec<i32> {
    let of = |(at, token): (usize, u32)| if at % 3 == 1 { LAST } else { token.cast_signed() };
    numbers(seed, count, VOCABULARY).into_iter().enumerate().map(of).collect()
}

/// The slots of sequences in descending order; one slot is of no sequence.
fn slots(sequences: u32) -> Vec<u32> {
    (1..=sequences).rev().collect()
}

fn slot_tokens(
    device: &Device,
    (seed, sequences, drafts): (u64, u32, u32),
    page_size: u32,
) -> Result<SlotTokens> {
    let count = sequences as usize + 1;
    Ok(SlotTokens {
        last: device.buffer_from(&numbers(seed ^ 10, count, VOCABULARY))?,
        positions: device.buffer_from(&numbers(seed ^ 11, count, (PAGES - 1) * page_size + 1))?,
        drafts: device.buffer_from(&numbers(seed ^ 12, count * drafts as usize, VOCABULARY))?,
    })
}

/// A kernel of sampled tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum OfTokens {
    /// Tokens of a step: given, or those of slots.
    #[default]
    Resolve,
    /// Sampled tokens are kept in slots.
    Remember,
    /// The token after each.
    Follow,
}

/// Looks up, or keeps, the tokens that slots sampled last.
#[derive(Clone, Debug, Options)]
pub(crate) struct LastTokensWorkload {
    /// Sequences.
    #[option(default = 5, max = 1 << 16)]
    sequences: u32,
    /// Tokens of a sequence.
    #[option(default = 3, min = 1, max = 1 << 10)]
    tokens: u32,
    /// The kernel.
    kernel: OfTokens,
}

/// The buffers of a launch.
struct TokenSet {
    given: Buffer<i32>,
    sampled: Buffer<u32>,
    ends: Buffer<u32>,
    of_slots: SlotTokens,
    tokens: Buffer<i32>,
}

impl LastTokensWorkload {
    fn verify(&self, set: &TokenSet, slots: &[u32]) -> Result<Verified> {
        let (each, given) = (self.tokens as usize, set.given.to_vec()?);
        let (last, positions) = (set.of_slots.last.to_vec()?, set.of_slots.positions.to_vec()?);
        let of_slot = |token: usize| f64::from(last[slots[token / each] as usize]);
        match self.kernel {
            OfTokens::Resolve => exactly(&set.tokens.to_vec()?, |at| match given[at] {
                LAST => of_slot(at),
                token => token.into(),
            }),
            OfTokens::Follow => exactly(&set.tokens.to_vec()?, |at| match (at + 1) % each {
                0 => of_slot(at),
                _ => given[at + 1].into(),
            }),
            OfTokens::Remember => {
                let (sampled, ends) = (set.sampled.to_vec()?, set.ends.to_vec()?);
                let kept = |of: &[u32]| slots.iter().map(|slot| of[*slot as usize]).collect::<Vec<_>>();
                exactly(&kept(&positions), |at| ends[at].into())?;
                exactly(&kept(&last), |at| sampled[at].into())
            }
        }
    }
}

impl Workload for LastTokensWorkload {
    const NAME: &'static str = "last-tokens";

    /// Tokens are read and written once.
    fn work(&self) -> Work {
        let tokens = f64::from(self.sequences) * f64::from(self.tokens);
        Work { operations: 0.0, bytes: 16.0 * tokens }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (this, device, sequences) = (self.clone(), setup.device(), self.sequences);
        let (count, of_slots) = ((sequences * self.tokens) as usize, slots(sequences));
        let of_tokens: Vec<u32> = (0..count as u32).map(|token| token / self.tokens).collect();
        let starts: Vec<u32> = (0..=sequences).map(|sequence| sequence * self.tokens).collect();
        let (of_tokens, starts) = (device.buffer_from(&of_tokens)?, device.buffer_from(&starts)?);
        let slots = device.buffer_from(&of_slots)?;
        let operations = Operations::new(device);
        let buffers = setup.buffers(self.work(), |seed| {
            Ok(TokenSet {
                given: device.buffer_from(&given(seed, count))?,
                sampled: device.buffer_from(&numbers(seed ^ 1, sequences as usize, VOCABULARY))?,
                ends: device.buffer_from(&numbers(seed ^ 2, sequences as usize, 1 << 10))?,
                of_slots: slot_tokens(device, (seed, sequences, 0), 16)?,
                tokens: setup.output(count)?,
            })
        })?;
        let reference = self.clone();
        Ok(buffers
            .launch(move |stream, set: &mut TokenSet| {
                let TokenSet { given, sampled, ends, of_slots, tokens } = set;
                Ok(match this.kernel {
                    OfTokens::Resolve => operations.resolve_tokens(
                        stream,
                        given,
                        (&of_tokens, &slots),
                        &of_slots.last,
                        tokens,
                    )?,
                    OfTokens::Remember => {
                        operations.remember_tokens(stream, sampled, (&slots, ends), of_slots)?
                    }
                    OfTokens::Follow => {
                        let packed = (&of_tokens, &starts, &slots);
                        operations.follow_tokens(stream, given, packed, &of_slots.last, tokens)?
                    }
                })
            })
            .verify(move |set| reference.verify(set, &of_slots)))
    }
}

/// A kernel of drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum OfDrafts {
    /// The rows to verify.
    #[default]
    Prepare,
    /// Which sampled tokens count.
    Accept,
    /// Drafts are kept, and the next ones prepared.
    Keep,
}

/// Prepares, accepts or keeps drafts of speculative decoding.
#[derive(Clone, Debug, Options)]
pub(crate) struct DraftsWorkload {
    /// Sequences.
    #[option(default = 5, max = 1 << 16)]
    sequences: u32,
    /// Drafts of a sequence.
    #[option(default = 3, min = 1, max = 1 << 5)]
    drafts: u32,
    /// Tokens of a page.
    #[option(default = 16, min = 1, max = 1 << 10)]
    page_size: u32,
    /// The kernel.
    kernel: OfDrafts,
}

/// The buffers of a launch.
struct DraftSet {
    given: Buffer<i32>,
    known: Buffer<u32>,
    limits: Buffer<i32>,
    held: Buffer<u32>,
    table: Buffer<u32>,
    drawn: Buffer<u32>,
    of_slots: SlotTokens,
    /// (rows): what is verified, and what was sampled after it.
    tokens: Buffer<i32>,
    positions: Buffer<u32>,
    sampled: Buffer<u32>,
    keys: Buffer<u32>,
    lengths: Buffer<u32>,
    parameters: Buffer<u32>,
    counts: Buffer<u32>,
    last_rows: Buffer<i32>,
    next: Buffer<i32>,
}

impl DraftsWorkload {
    fn each(&self) -> u32 {
        1 + self.drafts
    }

    fn entries(&self) -> u32 {
        PAGES + self.each().div_ceil(self.page_size)
    }

    fn set(&self, setup: &Setup, seed: u64) -> Result<DraftSet> {
        let (device, page_size) = (setup.device(), self.page_size);
        let (sequences, each) = (self.sequences as usize, self.each());
        // Rows of a draft that is kept are one of each sequence.
        let rows = if self.kernel == OfDrafts::Keep { sequences } else { sequences * each as usize };
        let of = |which: u64, count, below| device.buffer_from(&numbers(seed ^ which, count, below));
        let limits = numbers(seed ^ 3, sequences, each + 1);
        let limits: Vec<i32> = limits.into_iter().map(|limit| limit.cast_signed() + PADDING).collect();
        let tokens: Vec<i32> = numbers(seed ^ 4, rows, 2).into_iter().map(u32::cast_signed).collect();
        Ok(DraftSet {
            given: device.buffer_from(&given(seed, sequences))?,
            known: of(1, sequences, (PAGES - 1) * page_size + 1)?,
            limits: device.buffer_from(&limits)?,
            held: of(2, sequences, PAGES * page_size)?,
            table: of(5, sequences * self.entries() as usize, 1 << 10)?,
            drawn: of(6, sequences * PARAMETER_WORDS, u32::MAX)?,
            of_slots: slot_tokens(device, (seed, self.sequences, self.drafts), page_size)?,
            tokens: device.buffer_from(&tokens)?,
            positions: of(7, rows, (PAGES - 1) * page_size)?,
            // Often those of the drafts, of two tokens.
            sampled: of(8, rows, 2)?,
            keys: setup.output(rows)?,
            lengths: setup.output(sequences)?,
            parameters: setup.output(rows * PARAMETER_WORDS)?,
            counts: setup.output(sequences)?,
            last_rows: setup.output(sequences)?,
            next: setup.output(rows)?,
        })
    }

    /// The key of a position of a sequence.
    fn key(&self, table: &[u32], sequence: usize, position: u32) -> u32 {
        let page = table[sequence * self.entries() as usize + (position / self.page_size) as usize];
        page * self.page_size + position % self.page_size
    }

    fn verify_prepared(&self, set: &DraftSet, slots: &[u32]) -> Result<Verified> {
        let (each, drafts) = (self.each() as usize, self.drafts as usize);
        let (given, known, limits) = (set.given.to_vec()?, set.known.to_vec()?, set.limits.to_vec()?);
        let (table, drawn) = (set.table.to_vec()?, set.drawn.to_vec()?);
        let SlotTokens { last, positions, drafts: of_slots } = &set.of_slots;
        let (last, positions, of_slots) = (last.to_vec()?, positions.to_vec()?, of_slots.to_vec()?);
        let first = |sequence: usize| match given[sequence] {
            LAST => (last[slots[sequence] as usize].cast_signed(), positions[slots[sequence] as usize]),
            token => (token, known[sequence]),
        };
        let position = |row: usize| {
            let limit = limits[row / each].max(0).cast_unsigned();
            first(row / each).1 + (row as u32 % each as u32).min(limit)
        };
        exactly(&set.tokens.to_vec()?, |row| match row % each {
            0 => first(row / each).0.into(),
            at => of_slots[slots[row / each] as usize * drafts + at - 1].into(),
        })?;
        exactly(&set.positions.to_vec()?, |row| position(row).into())?;
        exactly(&set.lengths.to_vec()?, |sequence| (first(sequence).1 + each as u32).into())?;
        let word = |row: usize, word: usize| {
            let of_sequence = &drawn[row / each * PARAMETER_WORDS..][..PARAMETER_WORDS];
            let offset = u64::from(of_sequence[10]) | u64::from(of_sequence[11]) << 32;
            let ahead = u64::from(first(row / each).1) + (row % each) as u64;
            let offset = offset.wrapping_add(ahead.wrapping_sub(known[row / each].into()));
            match word {
                10 => offset as u32,
                11 => (offset >> 32) as u32,
                word => of_sequence[word],
            }
        };
        exactly(&set.parameters.to_vec()?, |at| word(at / PARAMETER_WORDS, at % PARAMETER_WORDS).into())?;
        exactly(&set.keys.to_vec()?, |row| match (row % each) as i32 <= limits[row / each] {
            true => self.key(&table, row / each, position(row)).into(),
            false => NO_SLOT.into(),
        })
    }

    fn verify_accepted(&self, set: &DraftSet, slots: &[u32]) -> Result<Verified> {
        let each = self.each() as usize;
        let (tokens, sampled) = (set.tokens.to_vec()?, set.sampled.to_vec()?);
        let (positions, limits) = (set.positions.to_vec()?, set.limits.to_vec()?);
        let count = |sequence: usize| {
            let first = sequence * each;
            let is_right = |draft: &usize| {
                let is_same = sampled[first + draft - 1] == tokens[first + draft].cast_unsigned();
                is_same && *draft as i32 <= limits[sequence]
            };
            1 + (1..each).take_while(is_right).count()
        };
        exactly(&set.counts.to_vec()?, |sequence| count(sequence) as f64)?;
        exactly(&set.lengths.to_vec()?, |sequence| (sequence * each + count(sequence)) as f64)?;
        exactly(&set.last_rows.to_vec()?, |sequence| (sequence * each + count(sequence) - 1) as f64)?;
        let of_slots = |of: Vec<u32>| slots.iter().map(|slot| of[*slot as usize]).collect::<Vec<_>>();
        exactly(&of_slots(set.of_slots.last.to_vec()?), |sequence| {
            sampled[sequence * each + count(sequence) - 1].into()
        })?;
        exactly(&of_slots(set.of_slots.positions.to_vec()?), |sequence| {
            f64::from(positions[sequence * each]) + count(sequence) as f64
        })?;
        exactly(&set.next.to_vec()?, |row| match row % each < count(row / each) {
            true => sampled[row].into(),
            false => 0.0,
        })
    }

    fn verify_kept(&self, set: &DraftSet, slots: &[u32]) -> Result<Verified> {
        let number = self.drafts as usize - 1;
        let (drafted, held, table) = (set.sampled.to_vec()?, set.held.to_vec()?, set.table.to_vec()?);
        let known = set.of_slots.positions.to_vec()?;
        let token = |sequence: usize| drafted[sequence].min(VOCABULARY - 1);
        let position = |sequence: usize| known[slots[sequence] as usize] + number as u32;
        let last = |sequence: usize| position(sequence).min(held[sequence].max(1) - 1);
        let drafts = set.of_slots.drafts.to_vec()?;
        let drafts: Vec<u32> =
            slots.iter().map(|slot| drafts[*slot as usize * self.drafts as usize + number]).collect();
        exactly(&drafts, |sequence| token(sequence).into())?;
        exactly(&set.next.to_vec()?, |sequence| token(sequence).into())?;
        exactly(&set.positions.to_vec()?, |sequence| last(sequence).into())?;
        exactly(&set.lengths.to_vec()?, |sequence| (last(sequence) + 1).into())?;
        exactly(&set.keys.to_vec()?, |sequence| match position(sequence) < held[sequence] {
            true => self.key(&table, sequence, position(sequence)).into(),
            false => NO_SLOT.into(),
        })
    }
}

impl Workload for DraftsWorkload {
    const NAME: &'static str = "drafts";

    /// Tokens, positions, keys and parameters of rows are written once.
    fn work(&self) -> Work {
        let rows = f64::from(self.sequences) * f64::from(self.each());
        Work { operations: 0.0, bytes: rows * (12.0 + 8.0 * PARAMETER_WORDS as f64) }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (this, slots) = (self.clone(), slots(self.sequences));
        let of_sequences = setup.device().buffer_from(&slots)?;
        let speculation = Speculation { each: self.each(), page_size: self.page_size };
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| self.set(setup, seed))?;
        let reference = self.clone();
        Ok(buffers
            .launch(move |stream, set: &mut DraftSet| {
                let DraftSet { given, known, limits, table, drawn, of_slots, tokens, positions, .. } = set;
                let (keys, lengths, next) = (&mut set.keys, &mut set.lengths, &mut set.next);
                let sequences = Sequences {
                    given,
                    positions: known,
                    limits,
                    slots: &of_sequences,
                    table,
                    parameters: drawn,
                };
                Ok(match this.kernel {
                    OfDrafts::Prepare => {
                        let rows = Rows { tokens, positions, keys, lengths, parameters: &mut set.parameters };
                        operations.prepare_drafts(stream, speculation, &sequences, of_slots, rows)?
                    }
                    OfDrafts::Accept => {
                        let (counts, last_rows) = (&mut set.counts, &mut set.last_rows);
                        let accepted = Accepted { counts, ends: lengths, last_rows, next };
                        let rows = (&*tokens, &*positions, &set.sampled);
                        operations.accept_drafts(stream, speculation, &sequences, rows, of_slots, accepted)?
                    }
                    OfDrafts::Keep => {
                        let drafted = (&set.sampled, this.drafts - 1, VOCABULARY);
                        let of = (&of_sequences, &set.held, &*table);
                        let rows = NextRows { next, positions, keys, lengths };
                        operations.keep_drafts(stream, speculation, drafted, of, of_slots, rows)?
                    }
                })
            })
            .verify(move |set| match reference.kernel {
                OfDrafts::Prepare => reference.verify_prepared(set, &slots),
                OfDrafts::Accept => reference.verify_accepted(set, &slots),
                OfDrafts::Keep => reference.verify_kept(set, &slots),
            }))
    }
}
