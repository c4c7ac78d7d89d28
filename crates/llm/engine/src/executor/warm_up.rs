//! What steps need, made before the first one.
//!
//! ```text
//! rehearsals, on several threads     all steps on devices that execute nothing: kernels are compiled
//! while weights are loaded
//!
//! warm-up, when they are loaded      graphs of steps of answers; prompts, for which memory is taken
//! ```

use rustc_hash::FxHashSet;

use warpwright_llm_step::{Chunk, Executor, Page, Sampling, Slot, Step, Tokens};

use super::model_executor::ModelExecutor;
use super::rehearsals::{Kind, Rehearsals};
use crate::error::{EngineError, Result};
use crate::layers::{Shape, all_padded};
use crate::number::Number;

/// Tokens of prompts of which a step has several.
const SHORT_PROMPT: u32 = 16;

/// Prompts that end in a step, of which each number has memory of its own.
const MANY_PROMPTS: u32 = 64;

impl<T: Number> ModelExecutor<T> {
    /// Takes memory, and makes a graph of each step of answers, as far as their kernels are compiled. What is in the
    /// caches is lost.
    pub(super) fn make_warm(&mut self) -> Result<()> {
        let rehearsed = self.rehearsals.as_ref().map(Rehearsals::wait).transpose()?;
        let is_ready = |kind: &Kind| rehearsed.as_ref().is_none_or(|rehearsed| rehearsed.contains(kind));
        let answers = self.kinds_of_answers().into_iter().rev();
        let kinds = self.longest_prompts().chain(self.several_prompts()).chain(answers);
        // The largest come first, so that memory need not grow.
        kinds.filter(is_ready).collect::<Vec<_>>().into_iter().try_for_each(|kind| self.prepare(kind))
    }

    /// The steps of answers alone.
    fn kinds_of_answers(&self) -> Vec<Kind> {
        let (each, page) = (1 + self.capacity.drafts, self.model.cache.page_size);
        let mut kinds: Vec<Kind> = vec![];
        for sequences in all_padded(self.capacity.sequences) {
            for entries in Shape::entries_of_few(self.model.cache) {
                let shape = Shape::of_few(sequences, each, entries * page, self.model.cache);
                kinds.push(Kind::Answers(shape));
            }
        }
        kinds
    }

    /// A prompt for each size of memory, the longest first.
    fn longest_prompts(&self) -> impl Iterator<Item = Kind> + use<T> {
        let longest = self.capacity.tokens.min(self.capacity.context);
        let shorter = std::iter::successors(Some(longest.next_power_of_two() / 2), |tokens| Some(tokens / 2));
        let shorter = shorter.take_while(|tokens| *tokens > SHORT_PROMPT);
        std::iter::once(longest).chain(shorter).map(|each| Kind::Prompts { sequences: 1, each, behind: 0 })
    }

    /// Each number of short prompts.
    fn several_prompts(&self) -> impl Iterator<Item = Kind> + use<T> {
        let (tokens, each) = (self.capacity.tokens, SHORT_PROMPT.min(self.capacity.context));
        let most = self.capacity.sequences.min(MANY_PROMPTS);
        let numbers =
            all_padded(most).filter(move |sequences| *sequences <= most && sequences * each <= tokens);
        numbers.map(move |sequences| Kind::Prompts { sequences, each, behind: 0 })
    }

    /// Prompts of each number of tokens: one that begins, one behind other tokens, and several.
    fn all_prompts(&self) -> Vec<Kind> {
        const OF_SEVERAL: u32 = 64;
        let (tokens, context) = (self.capacity.tokens, self.capacity.context);
        let mut kinds = vec![];
        for length in all_padded(tokens).filter(|length| *length > 1).map(|length| length.min(tokens)) {
            let each = length.min(context);
            kinds.push(Kind::Prompts { sequences: 1, each, behind: 0 });
            kinds.push(Kind::Prompts { sequences: 1, each, behind: context - each });
            let sequences = (length / OF_SEVERAL).min(self.capacity.sequences);
            if sequences > 1 {
                kinds.push(Kind::Prompts { sequences, each: (length / sequences).min(context), behind: 0 });
            }
        }
        kinds.extend(self.several_prompts());
        kinds
    }

    /// Kinds of steps that need every kind of kernel: answers of one sequence and of many, a prompt of one token, of a
    /// few, and of many behind others.
    pub(super) fn kinds_of_kernels(&self) -> Vec<Kind> {
        let answers = self.kinds_of_answers();
        let longest = self.capacity.tokens.min(self.capacity.context);
        let prompt = |each, behind| Kind::Prompts { sequences: 1, each, behind };
        let mut kinds: Vec<Kind> = answers.first().into_iter().chain(answers.last()).copied().collect();
        kinds.extend([1, SHORT_PROMPT.min(longest), longest].map(|each| prompt(each, 0)));
        kinds.push(prompt(longest, self.capacity.context - longest));
        kinds.dedup();
        kinds
    }

    /// All kinds of steps.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let mut kinds = self.kinds_of_answers();
        kinds.extend(self.all_prompts());
        let mut seen = FxHashSet::default();
        kinds.retain(|kind| seen.insert(*kind));
        kinds.sort_by_key(Kind::rank);
        kinds
    }

    /// Runs a step of a kind, or makes its graph.
    pub(super) fn prepare(&mut self, kind: Kind) -> Result<()> {
        match kind {
            Kind::Answers(shape) if self.capacity.drafts > 0 => self.prepare_verification(shape),
            Kind::Answers(shape) => self.prepare_decode(shape),
            Kind::Prompts { sequences, each, behind } => {
                let (page, pages) = (self.capacity.page_tokens, self.capacity.pages);
                let chunk = |sequence| Chunk {
                    slot: Slot(sequence),
                    position: behind,
                    tokens: Tokens::Known(vec![0; each as usize]),
                    pages: (0..(behind + each).div_ceil(page)).map(|at| Page(at % pages)).collect(),
                    sampling: Some(Sampling::greedy()),
                    draft: 0,
                    score: None,
                };
                let chunks = (0..sequences).map(chunk).collect();
                let pending = self.run(&Step { copies: vec![], chunks })?;
                self.pending.push_back(pending);
                self.wait().map(drop).map_err(|error| EngineError::Step(error.to_string()))
            }
        }
    }
}
