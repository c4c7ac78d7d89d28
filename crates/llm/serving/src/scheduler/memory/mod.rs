//! Pages, state slots, and the prefixes that they hold.
//!
//! Steps run in the order in which they are submitted. So a page or a slot is free for the next
//! step as soon as its sequence has ended, even while an earlier step still writes it, and a prefix
//! can be shared from the step after the one that computes it.

mod prefix;
mod references;

use super::Usage;
use prefix::{Node, PrefixTree, ROOT};
use references::References;
use warpwright_llm_step::{Capacity, CopyState, Page, Slot, Token};

/// The memory of an executor.
pub(super) struct Memory {
    capacity: Capacity,
    page_tokens: usize,
    stateful: bool,
    caching: bool,
    pages: References,
    slots: References,
    tree: PrefixTree,
    /// Copies of state for the next step.
    copies: Vec<CopyState>,
}

/// What one sequence holds.
#[derive(Debug)]
pub(super) struct Holding {
    /// The pages, for the tokens from the first on.
    pub(super) pages: Vec<Page>,
    /// The slot.
    pub(super) slot: Slot,
    /// Tokens that the pages and the slot hold from the start, from a cached prefix.
    pub(super) cached: u32,
    /// Where a snapshot of the state is worth a slot: the boundaries at which later prompts are
    /// likely to diverge.
    snapshots: Vec<u32>,
    /// Pages that are in the tree, and the node of the last.
    published: usize,
    node: Node,
}

impl Holding {
    /// The first boundary after `computed` tokens at which a chunk has to end, so that a snapshot
    /// can be taken.
    pub(super) fn boundary(&self, computed: u32) -> Option<u32> {
        self.snapshots.iter().copied().filter(|at| *at > computed).min()
    }
}

impl Memory {
    pub(super) fn new(capacity: &Capacity, caching: bool) -> Memory {
        Memory {
            capacity: *capacity,
            page_tokens: capacity.page_tokens as usize,
            stateful: capacity.stateful,
            caching,
            pages: References::new(capacity.pages),
            slots: References::new(capacity.slots),
            tree: PrefixTree::new(capacity.page_tokens),
            copies: Vec::new(),
        }
    }

    /// Forgets all prefixes and what sequences hold.
    pub(super) fn clear(&mut self) {
        *self = Memory::new(&self.capacity, self.caching);
    }

    /// The copies that the next step begins with.
    pub(super) fn take_copies(&mut self) -> Vec<CopyState> {
        std::mem::take(&mut self.copies)
    }

    /// A slot and the pages of `tokens`, with the longest prefix that is cached, if `reuse` allows
    /// that. At least the last token is left to compute. `None`, and nothing taken, if less than
    /// `reserve` more pages would be free.
    pub(super) fn admit(&mut self, tokens: &[Token], reuse: bool, reserve: usize) -> Option<Holding> {
        let whole_pages = tokens.len().saturating_sub(1) / self.page_tokens;
        let mut path = Vec::new();
        if self.caching {
            path = self.tree.walk(&tokens[..whole_pages * self.page_tokens]);
        }
        let known = path.len();
        path.iter().for_each(|node| self.tree.touch(*node));
        let slot = self.take_slot()?;
        let usable = match (reuse, self.stateful) {
            (false, _) => 0,
            (true, false) => known,
            (true, true) => {
                path.iter().rposition(|node| self.tree.snapshot(*node).is_some()).map_or(0, |i| i + 1)
            }
        };
        path.truncate(usable);
        // References first: what is about to be shared must not be evicted to make room.
        let mut pages: Vec<Page> = path.iter().map(|node| self.tree.page(*node)).collect();
        pages.iter().for_each(|page| self.pages.add(page.0));
        let needed = tokens.len().div_ceil(self.page_tokens) - usable;
        if !self.make_room(needed + reserve) {
            pages.iter().for_each(|page| self.pages.release(page.0));
            self.slots.release(slot.0);
            return None;
        }
        pages.extend((0..needed).filter_map(|_| self.pages.take()).map(Page));
        let node = path.last().copied().unwrap_or(ROOT);
        if self.stateful
            && let Some(from) = self.tree.snapshot(node)
        {
            self.copies.push(CopyState { from, to: slot });
        }
        let snapshots = if self.stateful && self.caching {
            [known, whole_pages].iter().map(|pages| (pages * self.page_tokens) as u32).collect()
        } else {
            Vec::new()
        };
        let cached = (usable * self.page_tokens) as u32;
        Some(Holding { pages, slot, cached, snapshots, published: usable, node })
    }

    /// Whether a sequence that has its first `common` tokens in common with that of `holding` can share
    /// more of them when the steps that are planned have run.
    pub(super) fn will_share(&self, holding: &Holding, common: usize) -> bool {
        let published = holding.published * self.page_tokens;
        if self.stateful {
            holding.snapshots.iter().any(|at| (published + 1..=common).contains(&(*at as usize)))
        } else {
            common >= published + self.page_tokens
        }
    }

    /// Pages for the first `tokens` tokens. False, and nothing taken, if there are none.
    pub(super) fn grow(&mut self, holding: &mut Holding, tokens: u32) -> bool {
        let needed = (tokens as usize).div_ceil(self.page_tokens).saturating_sub(holding.pages.len());
        if !self.make_room(needed) {
            return false;
        }
        holding.pages.extend((0..needed).filter_map(|_| self.pages.take()).map(Page));
        true
    }

    /// Puts the full pages among `tokens`, which steps have computed, into the tree.
    pub(super) fn publish(&mut self, holding: &mut Holding, tokens: &[Token]) {
        if !self.caching {
            return;
        }
        for (i, page_tokens) in tokens.chunks_exact(self.page_tokens).enumerate().skip(holding.published) {
            let page = &mut holding.pages[i];
            holding.node = match self.tree.child(holding.node, page_tokens) {
                // Another sequence has computed the same prefix: one copy is enough.
                Some(node) => {
                    let cached = self.tree.page(node);
                    self.pages.add(cached.0);
                    self.pages.release(page.0);
                    *page = cached;
                    self.tree.touch(node);
                    node
                }
                None => {
                    self.pages.keep(page.0);
                    self.tree.insert(holding.node, page_tokens, *page)
                }
            };
            holding.published = i + 1;
        }
    }

    /// Keeps the state of a sequence that has computed and published `computed` tokens, if that is
    /// a boundary where a snapshot is wanted.
    pub(super) fn snapshot(&mut self, holding: &Holding, computed: u32) {
        if computed > 0
            && holding.snapshots.contains(&computed)
            && self.tree.snapshot(holding.node).is_none()
            && let Some(to) = self.take_slot()
        {
            self.tree.set_snapshot(holding.node, to);
            self.copies.push(CopyState { from: holding.slot, to });
        }
    }

    /// Gives up what a sequence held. Published pages stay in the tree until their room is needed.
    pub(super) fn release(&mut self, holding: Holding) {
        holding.pages.iter().for_each(|page| self.pages.release(page.0));
        self.slots.release(holding.slot.0);
    }

    /// Evicts cached prefixes until `number` pages are free.
    fn make_room(&mut self, number: usize) -> bool {
        while (self.pages.free() as usize) < number {
            let Some((page, snapshot)) = self.tree.evict_leaf(|page| self.pages.count(page.0) == 1) else {
                return false;
            };
            self.pages.let_go(page.0);
            if let Some(slot) = snapshot {
                self.slots.release(slot.0);
            }
        }
        true
    }

    /// A free slot, or that of the least recently used snapshot.
    fn take_slot(&mut self) -> Option<Slot> {
        if self.slots.free() == 0 {
            let slot = self.tree.evict_snapshot()?;
            self.slots.release(slot.0);
        }
        self.slots.take().map(Slot)
    }

    /// What is in use. The sequences are the scheduler's to count.
    pub(super) fn usage(&self) -> Usage {
        let (pages, slots) = (&self.pages, &self.slots);
        Usage {
            running: 0,
            waiting: 0,
            used_pages: pages.total() - pages.free(),
            idle_pages: pages.idle(),
            pages: pages.total(),
            used_slots: slots.total() - slots.free(),
            snapshots: self.tree.snapshots(),
        }
    }

    /// Whether the references are exactly those of the tree and of `holdings`.
    pub(super) fn is_consistent<'a>(&self, holdings: impl Iterator<Item = &'a Holding>) -> bool {
        let (tree_pages, tree_slots) = self.tree.holds();
        let mut pages = vec![0; self.pages.total() as usize];
        let mut slots = vec![0; self.slots.total() as usize];
        tree_pages.iter().for_each(|page| pages[page.0 as usize] += 1);
        tree_slots.iter().for_each(|slot| slots[slot.0 as usize] += 1);
        for holding in holdings {
            holding.pages.iter().for_each(|page| pages[page.0 as usize] += 1);
            slots[holding.slot.0 as usize] += 1;
        }
        let agrees = |references: &References, counts: &[u32]| {
            let free = counts.iter().filter(|count| **count == 0).count() as u32;
            free == references.free() && (0..).zip(counts).all(|(i, count)| references.count(i) == *count)
        };
        agrees(&self.pages, &pages) && agrees(&self.slots, &slots)
    }
}
