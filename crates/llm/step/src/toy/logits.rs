//! Logits from hashes, and answers that a test has written.

use crate::Token;
use crate::random::mix;

pub(super) struct Logits {
    pub(super) vocabulary: u32,
    /// What follows a sequence of tokens.
    pub(super) scripts: Vec<(Vec<Token>, Vec<Token>)>,
}

impl Logits {
    /// The logits after `history`, whose hash is `pages` as the pages have it and `state` as the
    /// slot has it.
    pub(super) fn after(&self, pages: u64, state: u64, history: &[Token]) -> Vec<f32> {
        let seed = mix(pages ^ state.rotate_left(32));
        let mut logits: Vec<f32> = (0..self.vocabulary)
            .map(|token| (mix(seed ^ u64::from(token)) >> 40) as f32 / (1 << 21) as f32)
            .collect();
        if pages == state
            && let Some(token) = self.scripts.iter().find_map(|script| next(script, history))
        {
            logits[token as usize] += 50.0;
        }
        logits
    }
}

/// The token of a script that follows `history`, if the script has begun and not ended.
fn next((trigger, answer): &(Vec<Token>, Vec<Token>), history: &[Token]) -> Option<Token> {
    let start = history.windows(trigger.len()).rposition(|window| window == trigger)? + trigger.len();
    answer.strip_prefix(&history[start..])?.first().copied()
}
