//! Sorting: keys into ascending or descending order, with or without a value beside each.
//!
//! ```
//! use warpwright::runtime::Device;
//! use warpwright_kernels::operations::Operations;
//! use warpwright_kernels::sort::Direction;
//!
//! let device = Device::named("emu:h200")?;
//! let (operations, stream) = (Operations::new(&device), device.stream()?);
//! let keys = device.buffer_from(&[3.0f32, -1.0, 4.0, -1.0])?;
//! let places = device.buffer_from(&[0u32, 1, 2, 3])?;
//! let (mut sorted, mut came_from) = (device.uninitialized(4)?, device.uninitialized(4)?);
//! operations.sort_pairs(&stream, (&keys, &places), (&mut sorted, &mut came_from), Direction::Ascending)?;
//! assert_eq!(sorted.to_vec()?, [-1.0, -1.0, 3.0, 4.0]);
//! assert_eq!(came_from.to_vec()?, [1, 3, 0, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Operations::sort`] and [`Operations::sort_pairs`] are [`radix`]. Bitonic and merge sort, which compare keys,
//! are lessons: `warpwright_lessons::sort`.

pub mod key;
pub mod radix;
pub mod reference;
mod workload;

use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};
use warpwright_harness::OptionValue;

use crate::operations::{Operations, Result, expect_length};
pub use key::SortKey;
pub(crate) use workload::SortWorkload;
pub use workload::ValueType;

/// Which key comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, OptionValue)]
pub enum Direction {
    /// The smallest.
    #[default]
    Ascending,
    /// The largest.
    Descending,
}

impl Operations {
    /// `sorted` = `keys` in order.
    ///
    /// # Errors
    /// The lengths differ, the kernel cannot be built for the device, there is not enough memory, or a launch failed.
    pub fn sort<K: SortKey>(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        sorted: &mut Buffer<K>,
        direction: Direction,
    ) -> Result<LaunchCounts> {
        radix::keys(self, stream, keys, sorted, radix::Radix::for_keys::<K>(direction))
    }

    /// Keys in order, each with its value: of `(keys, values)` into `sorted`. Values of equal keys stay in their order.
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
        radix::pairs(self, stream, input, sorted, radix::Radix::for_pairs::<K, V>(direction))
    }
}

/// Refuses buffers of keys and values that do not belong together.
///
/// # Errors
/// Their lengths differ.
pub fn expect_pairs<K: SortKey, V: Storable>(
    (keys, values): (&Buffer<K>, &Buffer<V>),
    (sorted, sorted_values): (&Buffer<K>, &Buffer<V>),
) -> Result<()> {
    expect_length("the buffer of values to sort", keys.len(), values.len())?;
    expect_length("the buffer of sorted keys", keys.len(), sorted.len())?;
    expect_length("the buffer of sorted values", keys.len(), sorted_values.len())
}
