//! Answers whose grammar begins after the reasoning.

use std::sync::Arc;

use warpwright_llm_step::{Token, TokenMask};

use crate::scheduler::Guide;

/// Lets everything but the end pass until the reasoning ends.
#[derive(Debug)]
pub(super) struct AfterReasoning {
    pub(super) guide: Box<dyn Guide>,
    /// The token that ends the reasoning.
    pub(super) end: Token,
    /// The token that ends it, too, and begins what the grammar allows.
    pub(super) call: Option<Token>,
    pub(super) free: Arc<TokenMask>,
    pub(super) has_ended: bool,
}

impl Guide for AfterReasoning {
    fn allowed(&mut self) -> Arc<TokenMask> {
        if self.has_ended { self.guide.allowed() } else { self.free.clone() }
    }

    fn advance(&mut self, token: Token) {
        if self.has_ended || self.call == Some(token) {
            self.has_ended = true;
            self.guide.advance(token);
        }
        self.has_ended |= token == self.end;
    }

    fn another(&self) -> Box<dyn Guide> {
        Box::new(AfterReasoning {
            guide: self.guide.another(),
            end: self.end,
            call: self.call,
            free: self.free.clone(),
            has_ended: self.has_ended,
        })
    }
}
