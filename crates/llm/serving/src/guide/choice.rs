//! Answers that are one of several texts. A sorted list finds the bytes that may follow in a time that hardly depends
//! on the number of texts.

use std::ops::Range;
use std::sync::Arc;

use llguidance::toktrie::{Recognizer, TokEnv};
use warpwright_llm_step::{Token, TokenMask};

use crate::scheduler::Guide;

/// Keeps an answer in a list of texts.
#[derive(Clone)]
pub(super) struct ChoiceGuide {
    texts: Arc<[String]>,
    environment: TokEnv,
    stops: Arc<[Token]>,
    /// Bytes of the answer, and the texts that begin with them.
    bytes: usize,
    rest: Range<usize>,
}

impl ChoiceGuide {
    /// A guide at the beginning of an answer.
    pub(super) fn new(texts: &[String], environment: TokEnv, stops: Arc<[Token]>) -> ChoiceGuide {
        let mut texts = texts.to_vec();
        texts.sort_unstable();
        texts.dedup();
        ChoiceGuide { rest: 0..texts.len(), texts: texts.into(), environment, stops, bytes: 0 }
    }
}

impl std::fmt::Debug for ChoiceGuide {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ChoiceGuide").field("rest", &self.rest).finish_non_exhaustive()
    }
}

impl Guide for ChoiceGuide {
    fn allowed(&mut self) -> Arc<TokenMask> {
        let trie = self.environment.tok_trie();
        let mut tokens = trie.alloc_token_set();
        let mut search = Search { texts: &self.texts, bytes: self.bytes, ranges: vec![self.rest.clone()] };
        trie.add_bias(&mut search, &mut tokens, &[]);
        let mut words = tokens.as_slice().to_vec();
        words.resize(trie.vocab_size().div_ceil(32), 0);
        let is_whole = self.texts[self.rest.clone()].first().is_none_or(|text| text.len() == self.bytes);
        if is_whole || words.iter().all(|word| *word == 0) {
            self.stops.iter().for_each(|stop| words[*stop as usize / 32] |= 1 << (stop % 32));
        }
        Arc::new(TokenMask::from_words(words))
    }

    fn advance(&mut self, token: Token) {
        for byte in self.environment.tok_trie().token(token) {
            self.rest = narrow(&self.texts, self.rest.clone(), self.bytes, *byte);
            self.bytes += 1;
        }
    }

    fn another(&self) -> Box<dyn Guide> {
        Box::new(self.clone())
    }
}

/// The texts of a range that have `byte` after the first `bytes`, which all of them share.
fn narrow(texts: &[String], range: Range<usize>, bytes: usize, byte: u8) -> Range<usize> {
    let own = &texts[range.clone()];
    let begin = own.partition_point(|text| text.as_bytes().get(bytes).is_none_or(|other| *other < byte));
    let end = own.partition_point(|text| text.as_bytes().get(bytes).is_none_or(|other| *other <= byte));
    range.start + begin..range.start + end
}

/// Follows tokens through the texts.
struct Search<'a> {
    texts: &'a [String],
    bytes: usize,
    /// The texts that remain after each byte.
    ranges: Vec<Range<usize>>,
}

impl Recognizer for Search<'_> {
    fn pop_bytes(&mut self, number: usize) {
        self.ranges.truncate(self.ranges.len() - number);
    }

    fn collapse(&mut self) {
        let ranges = std::mem::take(&mut self.ranges);
        self.bytes += ranges.len() - 1;
        self.ranges.extend(ranges.into_iter().next_back());
    }

    fn trie_finished(&mut self) {
        self.ranges.truncate(1);
    }

    fn try_push_byte(&mut self, byte: u8) -> bool {
        let Some(range) = self.ranges.last() else { return false };
        let range = narrow(self.texts, range.clone(), self.bytes + self.ranges.len() - 1, byte);
        let is_possible = !range.is_empty();
        if is_possible {
            self.ranges.push(range);
        }
        is_possible
    }
}
