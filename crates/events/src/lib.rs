//! The events of a PTX execution as plain data, and the traits of their observers.
//!
//! The emulator executes and reports [`Event`]s; it knows none of its observers. The checkers, the
//! counters and a timing model are observers: a [`LaunchObserver`] makes a [`ClusterObserver`] for
//! each cluster, and merges their results when the launch ends. An observer is tested with a list
//! of events.
//!
//! Events name instructions by the index of a decoded operation. [`Code`] describes the instruction
//! of each index: its source line, its text, its class, the registers that it reads and writes, and
//! its work. No observer parses PTX.
//!
//! ```
//! use warpwright_events::{ClusterObserver, Event};
//!
//! /// Counts branches at which the lanes of a warp part.
//! #[derive(Default)]
//! struct Divergence(u64);
//!
//! impl ClusterObserver for Divergence {
//!     fn event(&mut self, event: &Event<'_>) {
//!         self.0 += u64::from(matches!(event, Event::Diverged { .. }));
//!     }
//! }
//! ```

mod address;
mod code;
mod event;
mod fault;
mod initialized;
mod lanes;
mod observer;
mod origin;
mod registers;
mod source;
mod work;

pub use address::{Cell, MbarrierAddress, TENSOR_COLUMNS, TENSOR_ROWS, shared_base, split_shared};
pub use code::{Base, Branch, Class, Code, Instruction, LoadPath, MemoryArray, PredicateLogic, Register};
pub use event::{
    AccessKind, Actor, AsyncKind, Awaited, BARRIERS, ByteRange, Completion, Event, Fence, FenceOrder,
    MemorySpace, Proxy, RegisterUse, Scope, Strength, TileOperand, TilePart, VALUE_BYTES, Value,
};
pub use fault::{Fault, FaultKind, Label, write_details};
pub use initialized::{GRANULE, InitializedBytes, PAGE, unwritten_runs};
pub use lanes::{FULL, LANES, lane_list, lanes};
pub use observer::{
    AddressName, AddressNames, ClusterObserver, LaunchInfo, LaunchObserver, ResidentClusters, Turn, TurnEnd,
};
pub use origin::Origins;
pub use registers::{estimated_registers, unset_registers};
pub use source::{Inlining, Source};
pub use work::{Unit, Work};
