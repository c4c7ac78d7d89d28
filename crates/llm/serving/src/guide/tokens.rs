//! Answers from a list of tokens, and answers without some texts.

use std::sync::Arc;

use warpwright_llm_step::{Token, TokenMask};

use crate::scheduler::Guide;

/// Takes tokens away from those that another guide allows.
#[derive(Debug)]
pub struct TokenGuide {
    guide: Option<Box<dyn Guide>>,
    /// The tokens that may be drawn, before what the answer forbids.
    allowed: Arc<TokenMask>,
    /// Rows of tokens that may not occur.
    forbidden: Arc<[Vec<Token>]>,
    /// The last tokens of the answer, as many as a row can need.
    recent: Vec<Token>,
}

impl TokenGuide {
    /// Of a vocabulary. `allowed` are the only tokens if there are any.
    pub fn new(
        guide: Option<Box<dyn Guide>>,
        vocabulary: u32,
        allowed: Option<&[Token]>,
        forbidden: Vec<Vec<Token>>,
    ) -> TokenGuide {
        let allowed = match allowed {
            Some(tokens) => TokenMask::from_tokens(vocabulary, tokens.iter().copied()),
            None => TokenMask::from_tokens(vocabulary, 0..vocabulary),
        };
        TokenGuide { guide, allowed: Arc::new(allowed), forbidden: forbidden.into(), recent: Vec::new() }
    }
}

impl Guide for TokenGuide {
    fn allowed(&mut self) -> Arc<TokenMask> {
        let mut words = self.allowed.words().to_vec();
        for row in self.forbidden.iter() {
            if let Some((last, before)) = row.split_last()
                && self.recent.ends_with(before)
            {
                words[*last as usize / 32] &= !(1 << (last % 32));
            }
        }
        let Some(guide) = &mut self.guide else { return Arc::new(TokenMask::from_words(words)) };
        let own = guide.allowed();
        let both: Vec<u32> = words.iter().zip(own.words()).map(|(a, b)| a & b).collect();
        // A grammar that needs what is forbidden comes first: an answer cannot leave it.
        if both.iter().all(|word| *word == 0) { own } else { Arc::new(TokenMask::from_words(both)) }
    }

    fn advance(&mut self, token: Token) {
        let longest = self.forbidden.iter().map(Vec::len).max().unwrap_or(0);
        self.recent.push(token);
        if self.recent.len() > longest {
            self.recent.remove(0);
        }
        if let Some(guide) = &mut self.guide {
            guide.advance(token);
        }
    }

    fn another(&self) -> Box<dyn Guide> {
        Box::new(TokenGuide {
            guide: self.guide.as_ref().map(|guide| guide.another()),
            allowed: self.allowed.clone(),
            forbidden: self.forbidden.clone(),
            recent: self.recent.clone(),
        })
    }
}
