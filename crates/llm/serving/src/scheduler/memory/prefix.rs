//! Which prefixes are in the cache: a tree with a full page of tokens on each edge.

use std::collections::{BTreeSet, HashMap};

use warpwright_llm_step::{Page, Slot, Token};

/// A node: a prefix that ends at a page boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node(u64);

/// The empty prefix.
pub(super) const ROOT: Node = Node(0);

struct Entry {
    parent: Node,
    tokens: Box<[Token]>,
    page: Page,
    children: u32,
    snapshot: Option<Slot>,
    used: u64,
}

/// The tree. It counts no references: its owner does.
pub(super) struct PrefixTree {
    page_tokens: usize,
    entries: HashMap<Node, Entry>,
    children: HashMap<(Node, Box<[Token]>), Node>,
    /// Nodes without children, the least recently used first.
    leaves: BTreeSet<(u64, Node)>,
    /// Nodes with a snapshot, the least recently used first.
    snapshots: BTreeSet<(u64, Node)>,
    next: u64,
    clock: u64,
}

impl PrefixTree {
    pub(super) fn new(page_tokens: u32) -> PrefixTree {
        PrefixTree {
            page_tokens: page_tokens as usize,
            entries: HashMap::new(),
            children: HashMap::new(),
            leaves: BTreeSet::new(),
            snapshots: BTreeSet::new(),
            next: 1,
            clock: 0,
        }
    }

    /// The nodes of the longest cached prefix of `tokens`, the shortest first.
    pub(super) fn walk(&self, tokens: &[Token]) -> Vec<Node> {
        let mut path = Vec::new();
        let mut node = ROOT;
        for page in tokens.chunks_exact(self.page_tokens) {
            match self.child(node, page) {
                Some(child) => node = child,
                None => break,
            }
            path.push(node);
        }
        path
    }

    /// The node after `parent` and a page of tokens.
    pub(super) fn child(&self, parent: Node, tokens: &[Token]) -> Option<Node> {
        self.children.get(&(parent, Box::from(tokens))).copied()
    }

    /// Adds a node. Its parent has none with these tokens.
    pub(super) fn insert(&mut self, parent: Node, tokens: &[Token], page: Page) -> Node {
        let node = Node(self.next);
        self.next += 1;
        if let Some(parent_entry) = self.entries.get_mut(&parent) {
            parent_entry.children += 1;
            self.leaves.remove(&(parent_entry.used, parent));
        }
        self.clock += 1;
        let tokens: Box<[Token]> = tokens.into();
        self.children.insert((parent, tokens.clone()), node);
        self.leaves.insert((self.clock, node));
        let entry = Entry { parent, tokens, page, children: 0, snapshot: None, used: self.clock };
        self.entries.insert(node, entry);
        node
    }

    /// Marks a node as just used.
    pub(super) fn touch(&mut self, node: Node) {
        let Some(entry) = self.entries.get_mut(&node) else { return };
        self.clock += 1;
        for set in [&mut self.leaves, &mut self.snapshots] {
            if set.remove(&(entry.used, node)) {
                set.insert((self.clock, node));
            }
        }
        entry.used = self.clock;
    }

    pub(super) fn page(&self, node: Node) -> Page {
        self.entries[&node].page
    }

    pub(super) fn snapshot(&self, node: Node) -> Option<Slot> {
        self.entries.get(&node)?.snapshot
    }

    /// Keeps a snapshot of the state at a node, which has none.
    pub(super) fn set_snapshot(&mut self, node: Node, slot: Slot) {
        if let Some(entry) = self.entries.get_mut(&node) {
            entry.snapshot = Some(slot);
            self.snapshots.insert((entry.used, node));
        }
    }

    /// Removes the least recently used snapshot.
    pub(super) fn evict_snapshot(&mut self) -> Option<Slot> {
        let (_, node) = self.snapshots.pop_first()?;
        self.entries.get_mut(&node)?.snapshot.take()
    }

    /// Removes the least recently used leaf whose page `unused` allows.
    pub(super) fn evict_leaf(&mut self, unused: impl Fn(Page) -> bool) -> Option<(Page, Option<Slot>)> {
        let leaf = self.leaves.iter().find(|(_, node)| unused(self.page(*node))).copied()?;
        self.leaves.remove(&leaf);
        self.snapshots.remove(&leaf);
        let entry = self.entries.remove(&leaf.1)?;
        self.children.remove(&(entry.parent, entry.tokens));
        if let Some(parent) = self.entries.get_mut(&entry.parent) {
            parent.children -= 1;
            if parent.children == 0 {
                self.leaves.insert((parent.used, entry.parent));
            }
        }
        Some((entry.page, entry.snapshot))
    }

    /// The number of snapshots.
    pub(super) fn snapshots(&self) -> u32 {
        self.snapshots.len() as u32
    }

    /// Pages and snapshots in the tree.
    pub(super) fn holds(&self) -> (Vec<Page>, Vec<Slot>) {
        let entries = self.entries.values();
        (
            entries.clone().map(|entry| entry.page).collect(),
            entries.filter_map(|entry| entry.snapshot).collect(),
        )
    }
}
