//! Which operations have certainly ended, as a vector clock over a device's streams.

use std::collections::BTreeMap;

/// An operation of a device. A later one of a stream has a higher number.
pub(crate) type Number = u32;

/// For each stream, the operation up to which its operations have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamClock {
    /// The operation up to which those of all streams have ended.
    all: Number,
    streams: BTreeMap<u32, Number>,
}

impl StreamClock {
    /// All operations up to this one have ended.
    pub(crate) fn up_to(all: Number) -> Self {
        Self { all, streams: BTreeMap::new() }
    }

    /// Whether an operation of a stream has ended.
    pub(crate) fn covers(&self, stream: u32, operation: Number) -> bool {
        operation <= self.all || self.streams.get(&stream).is_some_and(|&ended| operation <= ended)
    }

    /// The operations of a stream up to this one have ended.
    pub(crate) fn raise(&mut self, stream: u32, operation: Number) {
        if !self.covers(stream, operation) {
            self.streams.insert(stream, operation);
        }
    }

    /// What has ended by another clock has ended.
    pub(crate) fn join(&mut self, other: &Self) {
        self.all = self.all.max(other.all);
        other.streams.iter().for_each(|(&stream, &operation)| self.raise(stream, operation));
        let all = self.all;
        self.streams.retain(|_, operation| *operation > all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_knows_what_it_joined_and_nothing_later() {
        let mut first = StreamClock::up_to(3);
        first.raise(1, 5);
        first.raise(1, 4);
        let mut second = StreamClock::default();
        second.raise(2, 6);
        second.join(&first);
        let covered = [(1, 5), (2, 6), (9, 3)];
        assert!(covered.iter().all(|&(stream, operation)| second.covers(stream, operation)));
        let later = [(1, 6), (2, 7), (9, 4)];
        assert!(!later.iter().any(|&(stream, operation)| second.covers(stream, operation)));
    }
}
