//! Look-back: how CTAs that process tile after tile agree on the prefix of each tile.
//!
//! A CTA publishes the *aggregate* of a tile, its elements combined, as soon as it has it. A CTA
//! knows the prefix of the last tile that it processed itself. It looks back only at the aggregates
//! of the tiles in between, which other CTAs processed:
//!
//! ```text
//! tile         ..   20      21         22         23         24
//! processed by      mine   others     others     others     mine
//!                    |       |<-- look back: 21 + 22 + 23 -->|
//!                    prefix(24) = prefix(20) + 20 + 21 + 22 + 23
//! ```
//!
//! A warp reads windows of 32 tiles, several at once: with as many CTAs as fit the device, one
//! memory latency is enough. (In Merrill and Garland's "Single-pass Parallel Prefix Scan with
//! Decoupled Look-back", 2016, a CTA has one tile and looks for the nearest tile that published its
//! prefix. Here no prefixes are published, and no chain of them has to be waited for.)
//!
//! # No deadlock
//! A CTA waits only for aggregates of lower tiles, and publishes that of its tile before it waits.
//! It takes tiles in order from a counter when it is ready for them: the CTA with the lowest
//! unpublished tile is running, and waits only for published words. Block indices give no such
//! order.
//!
//! # No reset between launches
//! The upper half of the counter is the index of the launch, and every published word carries it: a
//! word of an earlier launch counts as unpublished. A CTA stops when its tickets, a fixed number,
//! are past the last tile. So the number of tickets of a launch is known, and the CTA that takes
//! the last one sets the counter to the first of the next launch.
//!
//! # Memory model
//! A state of at most 32 bits and its status are one 64-bit relaxed store, which needs no order
//! with other accesses. A larger state is written to a record first, and its status is stored with
//! release semantics; a lane that reads the status with acquire semantics sees the record. A record
//! is written once per launch.
//!
//! Radix sort has one tile per CTA and a chain per digit value, each read by one thread:
//! [`counts`] publishes prefixes too.

pub(crate) mod aggregates;
pub(crate) mod counts;
pub(crate) mod status;
pub(crate) mod tickets;
pub(crate) mod tile_pipeline;
