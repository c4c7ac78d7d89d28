//! Write, run, check and time tensor-core GPU kernels in stable Rust.
//!
//! A kernel is a method with `#[kernel]`. Calling it builds the kernel, a device compiles it, and a
//! launch takes a tuple of buffers and scalars, checked by type. The device is a GPU, or the emulator
//! where there is none. `cargo run -p warpwright --example first_kernel` runs this program:
//!
//! ```ignore
#![doc = include_str!("../examples/first_kernel.rs")]
//! ```
//!
//! # What to read
//!
//! 1. The program above, then the book of the repository (`book`): from a thread to
//!    attention on tensor cores.
//! 2. [`lang`]: the language and its operations by purpose; `docs/language.md` has the rules,
//!    `docs/operations.md` a list of all operations.
//! 3. [`layout`](mod@layout): layouts, coordinates, swizzles and the tilings of tensor cores.
//! 4. [`runtime`]: devices, buffers, streams, launches, and the checker (`Device::checked`).
//!
//! [`compare`](mod@compare) holds a result against its reference. [`prelude`] has what a file with kernels imports. [`arch`] has GPUs and instructions as tables,
//! [`emulator`], [`ptx`] and [`ir`] what is below the language.

pub use warpwright_arch as arch;
pub use warpwright_emulator as emulator;
pub use warpwright_ir as ir;
pub use warpwright_lang as lang;
pub use warpwright_layout as layout;
pub use warpwright_ptx as ptx;
pub use warpwright_runtime as runtime;

pub mod compare;

pub use warpwright_lang::{Sources, sources};

/// What a file with kernels imports: the language, layouts, and the devices to run on.
pub mod prelude {
    pub use warpwright_lang::access::{
        Access, CacheOperator, Eviction, L2Prefetch, Ordering as AccessOrdering, Scope,
    };
    pub use warpwright_lang::async_copy::*;
    pub use warpwright_lang::atomic::{AtomicOrdering, Atomicity};
    pub use warpwright_lang::bits::bit_mask;
    pub use warpwright_lang::block::{
        NamedBarrier, barrier_arrive, barrier_sync, sync_threads, sync_threads_and, sync_threads_count,
        sync_threads_or,
    };
    pub use warpwright_lang::bulk::{BulkReduction, bulk_commit, bulk_wait, bulk_wait_read};
    pub use warpwright_lang::cluster::*;
    pub use warpwright_lang::cluster_launch::*;
    pub use warpwright_lang::comparison::FloatClass;
    pub use warpwright_lang::composite::*;
    pub use warpwright_lang::contraction::{forbid_contraction, strict};
    pub use warpwright_lang::control::*;
    pub use warpwright_lang::conversion::{Rounding, Saturate};
    pub use warpwright_lang::element::*;
    pub use warpwright_lang::fence::*;
    pub use warpwright_lang::float::Mode;
    pub use warpwright_lang::integer::{add_with_carry, sub_with_borrow};
    pub use warpwright_lang::math::{MathFloat, fast};
    pub use warpwright_lang::matrix::*;
    pub use warpwright_lang::mbarrier::{Mbarrier, Mbarriers, RemoteMbarrier};
    pub use warpwright_lang::memory::{L2Eviction, cache_policy, create_policy};
    pub use warpwright_lang::multicast::ClusterGrid;
    pub use warpwright_lang::pipeline::*;
    pub use warpwright_lang::pointer::{ClusterShared, Constant, Generic, Global, Local, Pointer, Shared};
    pub use warpwright_lang::registers::*;
    pub use warpwright_lang::role::{Role, RoleSize, roles, warpgroups};
    pub use warpwright_lang::shared::*;
    pub use warpwright_lang::space::{GlobalSpace, LocalSpace, SharedSpace, Space};
    pub use warpwright_lang::special::*;
    pub use warpwright_lang::tensor::*;
    pub use warpwright_lang::tensor_map::{TensorMap, TensorMaps, UntypedTensorMap};
    pub use warpwright_lang::tensor_map_draft::TensorMapDraft;
    pub use warpwright_lang::tensor_memory::*;
    pub use warpwright_lang::value::{Value, constant};
    pub use warpwright_lang::warp::{
        ALL_LANES, Lanes, Matched, Reduced, active_mask, ballot, elect, sync_warp, vote_all, vote_any,
        vote_uniform,
    };
    pub use warpwright_lang::{
        DeviceValue, Kernel, KernelParameter, Reg, StagingErrors, block, bulk, device, kernel, launch,
        printf, tma, warp,
    };
    pub use warpwright_layout::atom::Major;
    pub use warpwright_layout::{All, ComposedLayout, Int, Layout, Swizzle};
}
