//! SentencePiece's byte-pair encoding, as llama.cpp computes it from a vocabulary with scores.
//!
//! ```text
//! text       spaces become ▁; one is added before a text, and after a special token
//! symbols    characters; the two neighbors whose text has the highest score are merged first, the left one of equals
//! rest       a symbol that no token has is its bytes
//! ```

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use warpwright_llm_step::Token;

/// SentencePiece's space.
pub(super) const SPACE: char = '▁';

/// A vocabulary with scores.
pub(super) struct SentencePiece {
    ids: HashMap<String, Token>,
    scores: Vec<f32>,
    /// The tokens of bytes, and the one of what has none.
    bytes: Vec<Option<Token>>,
    unknown: Option<Token>,
    /// Tokens that are found in a text before it is merged, the longest first.
    special: Vec<(String, Token)>,
    adds_space: bool,
}

/// A part of a text.
enum Fragment<'t> {
    Text(&'t str),
    Special(Token),
}

/// A range of the text that may become a token, between its neighbors.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    /// `start` of a symbol that was merged into its left neighbor.
    end: usize,
    left: Option<usize>,
    right: Option<usize>,
}

/// Two neighbors whose text is a token.
struct Merge {
    score: f32,
    left: usize,
    right: usize,
    /// The bytes of both.
    length: usize,
}

impl Ord for Merge {
    fn cmp(&self, other: &Merge) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Merge {
    fn partial_cmp(&self, other: &Merge) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Merge {
    fn eq(&self, other: &Merge) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Merge {}

/// The byte that a token such as `<0x0A>` stands for.
pub(super) fn byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

impl SentencePiece {
    /// Of tokens and their scores; `special` are found in a text before it is merged.
    pub(super) fn new(
        tokens: &[String],
        scores: &[f32],
        special: impl Iterator<Item = Token>,
        (unknown, adds_space): (Option<Token>, bool),
    ) -> SentencePiece {
        let mut bytes = vec![None; 256];
        let mut ids = HashMap::new();
        for (token, id) in tokens.iter().zip(0..) {
            if let Some(byte) = byte(token) {
                bytes[usize::from(byte)] = Some(id);
            }
            ids.insert(token.clone(), id);
        }
        let mut special: Vec<(String, Token)> = special
            .filter_map(|id| Some((tokens.get(id as usize)?.clone(), id)))
            .filter(|(text, _)| !text.is_empty())
            .collect();
        special.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        SentencePiece { ids, scores: scores.to_vec(), bytes, unknown, special, adds_space }
    }

    /// The token with exactly this text.
    pub(super) fn token(&self, text: &str) -> Option<Token> {
        self.ids.get(text).copied()
    }

    /// The tokens of a text.
    pub(super) fn encode(&self, text: &str) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut is_first = true;
        for fragment in self.fragments(text) {
            match fragment {
                Fragment::Special(token) => tokens.push(token),
                Fragment::Text(text) => {
                    let space = if self.adds_space && is_first { " " } else { "" };
                    let text: String = space.chars().chain(text.chars()).map(escaped).collect();
                    self.merge(&text, &mut tokens);
                }
            }
            is_first = matches!(fragment, Fragment::Special(_));
        }
        tokens
    }

    /// The text around special tokens: the longest of these are found first, everywhere.
    fn fragments<'t>(&self, text: &'t str) -> Vec<Fragment<'t>> {
        let mut fragments = vec![Fragment::Text(text)];
        for (special, token) in &self.special {
            if !text.contains(special.as_str()) {
                continue;
            }
            let of_fragment = |fragment: Fragment<'t>| match fragment {
                Fragment::Special(_) => vec![fragment],
                Fragment::Text(text) => {
                    let mut parts = Vec::new();
                    for (at, part) in text.split(special.as_str()).enumerate() {
                        parts.extend((at > 0).then_some(Fragment::Special(*token)));
                        parts.push(Fragment::Text(part));
                    }
                    parts
                }
            };
            fragments = fragments.into_iter().flat_map(of_fragment).collect();
        }
        fragments.retain(|fragment| !matches!(fragment, Fragment::Text("")));
        fragments
    }

    /// Merges the characters of a text.
    fn merge(&self, text: &str, tokens: &mut Vec<Token>) {
        let mut symbols: Vec<Symbol> = Vec::new();
        for (index, (start, character)) in text.char_indices().enumerate() {
            let end = start + character.len_utf8();
            symbols.push(Symbol { start, end, left: index.checked_sub(1), right: Some(index + 1) });
        }
        if let Some(last) = symbols.last_mut() {
            last.right = None;
        }
        let mut merges = BinaryHeap::new();
        for right in 1..symbols.len() {
            merges.extend(self.candidate(text, &symbols, Some(right - 1), Some(right)));
        }
        while let Some(Merge { left, right, length, .. }) = merges.pop() {
            let (first, second) = (symbols[left], symbols[right]);
            // One of them was merged with another since.
            if first.end != second.start
                || second.end - first.start != length
                || first.start == first.end
                || second.start == second.end
            {
                continue;
            }
            symbols[left] = Symbol { end: second.end, right: second.right, ..first };
            symbols[right] = Symbol { start: second.end, ..second };
            if let Some(next) = second.right {
                symbols[next].left = Some(left);
            }
            merges.extend(self.candidate(text, &symbols, first.left, Some(left)));
            merges.extend(self.candidate(text, &symbols, Some(left), second.right));
        }
        for symbol in symbols.iter().filter(|symbol| symbol.start < symbol.end) {
            let text = &text[symbol.start..symbol.end];
            match self.token(text) {
                Some(token) => tokens.push(token),
                None => tokens
                    .extend(text.bytes().filter_map(|byte| self.bytes[usize::from(byte)].or(self.unknown))),
            }
        }
    }

    /// The merge of two neighbors, if a token has their text.
    fn candidate(
        &self,
        text: &str,
        symbols: &[Symbol],
        left: Option<usize>,
        right: Option<usize>,
    ) -> Option<Merge> {
        let (left, right) = (left?, right?);
        let (start, end) = (symbols[left].start, symbols[right].end);
        let token = self.token(&text[start..end])?;
        let score = self.scores.get(token as usize).copied().unwrap_or(0.0);
        Some(Merge { score, left, right, length: end - start })
    }
}

fn escaped(character: char) -> char {
    if character == ' ' { SPACE } else { character }
}
