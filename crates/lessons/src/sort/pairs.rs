//! The elements of the comparison sorts: keys as ordered numbers, each with an optional value.

use warpwright::lang::index::Index;
use warpwright::prelude::*;
use warpwright::runtime::Storable;

use warpwright_kernels::sort::in_direction;
use warpwright_kernels::sort::{Direction, SortKey};

/// A key in a register, with its value if the sort has values.
pub(super) type Pair<K, V> = (Reg<<K as SortKey>::Bits>, Option<Reg<V>>);

/// Keys in global memory, with their values if the sort has values.
pub(super) struct Memory<K: SortKey, V: Element> {
    pub(super) keys: Global<K>,
    pub(super) values: Option<Global<V>>,
    /// Which key comes first.
    pub(super) direction: Direction,
}

/// A tile's keys in shared memory, with their values if the sort has values.
pub(super) struct Tile<K: SortKey, V: Element> {
    pub(super) keys: Shared<K::Bits>,
    pub(super) values: Option<Shared<V>>,
}

impl<K: SortKey, V: Storable> Memory<K, V> {
    /// The part from index `index` on.
    #[track_caller]
    pub(super) fn at(&self, index: impl Index) -> Self {
        let values = self.values.map(|values| values.at(index));
        Self { keys: self.keys.at(index), values, direction: self.direction }
    }

    /// The first key, as a number in the order of the sort.
    #[track_caller]
    pub(super) fn load_key(&self) -> Reg<K::Bits> {
        in_direction::<K>(K::ordered(self.keys.load()), self.direction)
    }

    /// The first pair, if it `is_there`. A missing key counts as the largest.
    #[device]
    pub(super) fn load_if(&self, is_there: Reg<bool>) -> Pair<K, V> {
        let mut key = constant(K::MOST);
        let mut value = self.values.map(|_| constant(V::zeroed()));
        if is_there {
            key = self.load_key();
            value = self.values.map(|values| values.load());
        }
        (key, value)
    }

    #[track_caller]
    pub(super) fn store(&self, (key, value): Pair<K, V>) {
        self.keys.store(K::restored(in_direction::<K>(key, self.direction)));
        if let (Some(values), Some(value)) = (self.values, value) {
            values.store(value);
        }
    }
}

impl<K: SortKey, V: Storable> Tile<K, V> {
    /// Allocates `length` keys, and values if `memory` has them.
    #[track_caller]
    pub(super) fn new(length: u32, memory: &Memory<K, V>) -> Self {
        let keys = shared_array(length);
        Self { keys, values: memory.values.map(|_| shared_array(length)) }
    }

    /// The tile from index `index` on.
    #[track_caller]
    pub(super) fn at(&self, index: impl Index) -> Self {
        Self { keys: self.keys.at(index), values: self.values.map(|values| values.at(index)) }
    }

    #[track_caller]
    pub(super) fn load(&self) -> Pair<K, V> {
        (self.keys.load(), self.values.map(|values| values.load()))
    }

    #[track_caller]
    pub(super) fn store(&self, (key, value): Pair<K, V>) {
        self.keys.store(key);
        if let (Some(values), Some(value)) = (self.values, value) {
            values.store(value);
        }
    }
}

/// Moves the smaller of two keys to `low` and the larger to `high`; equal keys are not exchanged.
#[track_caller]
pub(super) fn order_two<K: SortKey, V: Element>(pairs: &mut [Pair<K, V>], low: usize, high: usize) {
    let ((one, of_one), (other, of_other)) = (pairs[low], pairs[high]);
    let exchange = K::is_below(other, one);
    let values = of_one.zip(of_other);
    pairs[low] = (exchange.select(other, one), values.map(|(one, other)| exchange.select(other, one)));
    pairs[high] = (exchange.select(one, other), values.map(|(one, other)| exchange.select(one, other)));
}
