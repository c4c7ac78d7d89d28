//! The address spaces of the emulated device.
//!
//! | space | where | generic address |
//! |---|---|---|
//! | global | [`Memory`]: allocations with red zones, addresses never reused; the [heap](heap) | the same |
//! | constant | [`Memory`], from [`CONSTANT_WINDOW`] | the same |
//! | shared | [`SharedMemory`] of the CTAs of the cluster | [`SHARED_WINDOW`] + rank x 2^24 + offset |
//! | local | [`LocalMemory`] of the warp, interleaved by lane | [`LOCAL_WINDOW`] + offset |
//! | kernel parameters | the bytes of the launch | [`PARAMETER_WINDOW`] + offset |
//! | functions | an index, without memory | [`CODE_WINDOW`] + 16 x index |

mod access;
mod global;
mod heap;
mod host;

mod local;
mod operand;
mod shared;
pub(crate) mod update;

pub(crate) use access::{common_address, span};
pub use global::{Memory, MemoryError, SharedRegion};
pub(crate) use global::{Region, RegionCache};
pub(crate) use heap::{ALIGNMENT as HEAP_ALIGNMENT, HeapError};
pub use host::available_host_bytes;

pub(crate) use local::LocalMemory;
pub(crate) use operand::{AddressOperand, BaseOperand};
pub(crate) use shared::SharedMemory;

/// Generic addresses of shared memory begin here.
pub(crate) const SHARED_WINDOW: u64 = 0x7e00_0000_0000;

/// Generic addresses of local memory begin here.
pub(crate) const LOCAL_WINDOW: u64 = 0x7d00_0000_0000;
/// Generic addresses of kernel parameters begin here.
pub(crate) const PARAMETER_WINDOW: u64 = 0x7c00_0000_0000;
/// Addresses of functions begin here.
pub(crate) const CODE_WINDOW: u64 = 0x7b00_0000_0000;
/// Constant variables begin here, at addresses that no global variable or allocation has.
pub(crate) const CONSTANT_WINDOW: u64 = 0x7a00_0000_0000;
/// Every window is this long.
pub(crate) const WINDOW_BYTES: u64 = 1 << 40;
/// Global allocations begin here.
pub(crate) const GLOBAL_BASE: u64 = 0x10_0000_0000;
/// Allocations that several devices access begin here.
pub(crate) const PEER_BASE: u64 = 0x4000_0000_0000;

/// The state space of an instruction or a generic address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Global,
    Constant,
    /// The CTA's own shared memory, `.shared::cta`.
    Shared,
    /// The shared memory of all CTAs of the cluster, `.shared::cluster`.
    ClusterShared,
    Local,
    Parameter,
    Generic,
}

impl Space {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Global => "global",
            Space::Constant => "constant",
            Space::Shared => "shared",
            Space::ClusterShared => "shared::cluster",
            Space::Local => "local",
            Space::Parameter => "parameter",
            Space::Generic => "generic",
        }
    }

    /// The space of a generic address, and the offset in it.
    pub(crate) fn of(address: u64) -> (Space, u64) {
        let within = |window: u64| (window..window + WINDOW_BYTES).contains(&address);
        if !(CONSTANT_WINDOW..SHARED_WINDOW + WINDOW_BYTES).contains(&address) {
            (Space::Global, address)
        } else if within(CONSTANT_WINDOW) {
            (Space::Constant, address)
        } else if within(SHARED_WINDOW) {
            (Space::ClusterShared, address - SHARED_WINDOW)
        } else if within(LOCAL_WINDOW) {
            (Space::Local, address - LOCAL_WINDOW)
        } else if within(PARAMETER_WINDOW) {
            (Space::Parameter, address - PARAMETER_WINDOW)
        } else {
            (Space::Global, address)
        }
    }

    /// The base of this space in generic addresses.
    pub(crate) fn window(self) -> u64 {
        match self {
            Space::Shared | Space::ClusterShared => SHARED_WINDOW,
            Space::Local => LOCAL_WINDOW,
            Space::Parameter => PARAMETER_WINDOW,
            Space::Global | Space::Constant | Space::Generic => 0,
        }
    }
}

/// Functions' addresses are this far apart.
pub(crate) const ADDRESS_STEP: u64 = 16;

/// The address of a function, by its index in the module.
pub(crate) fn function_address(index: u32) -> u64 {
    CODE_WINDOW + ADDRESS_STEP * u64::from(index)
}
