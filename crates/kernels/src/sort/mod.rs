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
//! [`Operations::sort`](crate::operations::Operations::sort) and
//! [`Operations::sort_pairs`](crate::operations::Operations::sort_pairs) sort by radix ([`radix`]).
//! Bitonic and merge sort, which compare keys, are lessons: `warpwright_lessons::sort`.

mod histogram;
mod key;
pub mod radix;
mod sweep;

pub use key::{Direction, SortKey, in_direction};
