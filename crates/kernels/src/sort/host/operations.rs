//! The operations.

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::super::direction::Direction;
use super::super::key::SortKey;
use super::radix::{self, Radix};
use crate::operations::{Operations, Result};

impl Operations {
    /// `sorted` = `keys` in order.
    ///
    /// # Errors
    /// The lengths differ, the kernel cannot be built for the device, there is not enough memory,
    /// or a launch failed.
    pub fn sort<K: SortKey>(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        sorted: &mut Buffer<K>,
        direction: Direction,
    ) -> Result<LaunchCounts> {
        radix::keys(self, stream, keys, sorted, Radix::for_keys::<K>(direction))
    }

    /// Keys in order, each with its value: of `(keys, values)` into `sorted`. Values of equal keys
    /// stay in their order.
    ///
    /// # Errors
    /// As [`sort`](Self::sort).
    pub fn sort_pairs<K: SortKey, V: Storable>(
        &self,
        stream: &Stream,
        input: (&Buffer<K>, &Buffer<V>),
        sorted: (&mut Buffer<K>, &mut Buffer<V>),
        direction: Direction,
    ) -> Result<LaunchCounts> {
        radix::pairs(self, stream, input, sorted, Radix::for_pairs::<K, V>(direction))
    }
}
