//! Pages and slots that hold what a sequence was.

use crate::random::mix;
use crate::{Capacity, Chunk, CopyState, Slot, Token};

/// The state of a slot: a hash of the tokens that went into it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) hash: u64,
}

impl State {
    pub(super) fn after(self, token: Token) -> State {
        State { hash: mix(self.hash ^ u64::from(token).wrapping_mul(0x1_0000_0001)) }
    }
}

/// The tokens of a sequence as its pages hold them.
pub(super) struct History {
    pub(super) tokens: Vec<Token>,
}

impl History {
    pub(super) fn hash(&self) -> u64 {
        self.tokens.iter().fold(State::default(), |state, token| state.after(*token)).hash
    }
}

/// All pages and slots.
pub(super) struct Cache {
    page_tokens: u32,
    /// A token for each position of each page. What was never written is no token of the
    /// vocabulary.
    pages: Vec<Token>,
    /// The state, the last token that was sampled, and its position.
    slots: Vec<(State, Option<(Token, u32)>)>,
}

impl Cache {
    pub(super) fn new(capacity: &Capacity) -> Cache {
        Cache {
            page_tokens: capacity.page_tokens,
            pages: vec![Token::MAX; (capacity.pages * capacity.page_tokens) as usize],
            slots: vec![(State::default(), None); capacity.slots as usize],
        }
    }

    /// Writes the token at `position` of the chunk's sequence into its page and its slot. Returns
    /// all tokens up to it, read from the pages.
    pub(super) fn store(&mut self, chunk: &Chunk, position: u32, token: Token) -> History {
        let at = |position: u32| {
            let page = chunk.pages[(position / self.page_tokens) as usize];
            (page.0 * self.page_tokens + position % self.page_tokens) as usize
        };
        let here = at(position);
        let mut tokens: Vec<Token> = (0..position).map(|position| self.pages[at(position)]).collect();
        tokens.push(token);
        self.pages[here] = token;
        let slot = &mut self.slots[chunk.slot.0 as usize];
        slot.0 = slot.0.after(token);
        History { tokens }
    }

    pub(super) fn clear(&mut self, slot: Slot) {
        self.slots[slot.0 as usize].0 = State::default();
    }

    pub(super) fn copy(&mut self, copy: &CopyState) {
        self.slots[copy.to.0 as usize] = self.slots[copy.from.0 as usize];
    }

    pub(super) fn hash(&self, slot: Slot) -> u64 {
        self.slots[slot.0 as usize].0.hash
    }

    pub(super) fn state(&self, slot: Slot) -> State {
        self.slots[slot.0 as usize].0
    }

    pub(super) fn restore(&mut self, slot: Slot, state: State) {
        self.slots[slot.0 as usize].0 = state;
    }

    pub(super) fn last(&self, slot: Slot) -> Option<(Token, u32)> {
        self.slots[slot.0 as usize].1
    }

    pub(super) fn set_last(&mut self, slot: Slot, token: Token, position: u32) {
        self.slots[slot.0 as usize].1 = Some((token, position));
    }
}
