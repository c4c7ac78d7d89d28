//! Special registers: thread and CTA indices, extents and clocks. PTX ISA, "Special Registers".

use std::borrow::Cow;

use warpwright_ir::Operand;

use crate::element::Element;
use crate::operation::compute;
use crate::value::Reg;

/// Three device values, one per dimension.
#[derive(Clone, Copy)]
pub struct Dim3 {
    /// Along x, the fastest dimension.
    pub x: Reg<u32>,
    /// Along y.
    pub y: Reg<u32>,
    /// Along z.
    pub z: Reg<u32>,
}

/// Reads a special register.
#[track_caller]
fn read<T: Element>(name: impl Into<Cow<'static, str>>) -> Reg<T> {
    compute(format!("mov.{}", T::PTX), [Operand::Special(name.into())])
}

macro_rules! three_dimensional {
    ($($(#[$doc:meta])* $function:ident $register:literal;)*) => {
        $(
            $(#[$doc])*
            #[track_caller]
            pub fn $function() -> Dim3 {
                Dim3 {
                    x: read(concat!($register, ".x")),
                    y: read(concat!($register, ".y")),
                    z: read(concat!($register, ".z")),
                }
            }
        )*
    };
}

three_dimensional! {
    /// The thread's position in its CTA: `%tid`.
    thread_idx "%tid";
    /// The CTA's extents in threads: `%ntid`.
    block_dim "%ntid";
    /// The CTA's position in the grid: `%ctaid`.
    block_idx "%ctaid";
    /// The grid's extents in CTAs: `%nctaid`.
    grid_dim "%nctaid";
    /// The cluster's position in the grid: `%clusterid` (sm_90).
    cluster_idx "%clusterid";
    /// The grid's extents in clusters: `%nclusterid` (sm_90).
    cluster_grid_dim "%nclusterid";
    /// The CTA's position in its cluster: `%cluster_ctaid` (sm_90).
    block_idx_in_cluster "%cluster_ctaid";
    /// The cluster's extents in CTAs: `%cluster_nctaid` (sm_90).
    cluster_dim "%cluster_nctaid";
}

macro_rules! scalars {
    ($($(#[$doc:meta])* $function:ident $ty:ty, $register:literal;)*) => {
        $(
            $(#[$doc])*
            #[track_caller]
            pub fn $function() -> Reg<$ty> {
                read($register)
            }
        )*
    };
}

scalars! {
    /// The thread's lane in its warp, 0 to 31: `%laneid`.
    lane_id u32, "%laneid";
    /// The hardware slot of the warp: `%warpid`. It may change while the thread runs; the warp's
    /// index within a one-dimensional CTA is `thread_idx().x / 32`.
    hardware_warp_id u32, "%warpid";
    /// The number of warps that an SM can hold: `%nwarpid`.
    hardware_warp_count u32, "%nwarpid";
    /// The SM the thread runs on: `%smid`.
    sm_id u32, "%smid";
    /// One more than the largest SM number: `%nsmid`.
    sm_count u32, "%nsmid";
    /// The grid's number: `%gridid`.
    grid_id u64, "%gridid";
    /// The bit of this lane alone: `%lanemask_eq`.
    lane_mask_eq u32, "%lanemask_eq";
    /// The bits of the lanes below this one: `%lanemask_lt`.
    lane_mask_lt u32, "%lanemask_lt";
    /// The bits of this lane and those below: `%lanemask_le`.
    lane_mask_le u32, "%lanemask_le";
    /// The bits of the lanes above this one: `%lanemask_gt`.
    lane_mask_gt u32, "%lanemask_gt";
    /// The bits of this lane and those above: `%lanemask_ge`.
    lane_mask_ge u32, "%lanemask_ge";
    /// The low 32 bits of the SM's cycle counter: `%clock`.
    clock u32, "%clock";
    /// The SM's cycle counter: `%clock64`.
    clock64 u64, "%clock64";
    /// Nanoseconds since an arbitrary moment, the same on all SMs: `%globaltimer`.
    global_timer u64, "%globaltimer";
    /// The CTA's number within its cluster: `%cluster_ctarank` (sm_90).
    cluster_rank u32, "%cluster_ctarank";
    /// The number of CTAs in the cluster: `%cluster_nctarank` (sm_90).
    cluster_size u32, "%cluster_nctarank";
    /// Bytes of shared memory, static and dynamic together: `%total_smem_size`.
    total_shared_bytes u32, "%total_smem_size";
    /// Bytes of dynamic shared memory that this launch provides: `%dynamic_smem_size`.
    dynamic_shared_size u32, "%dynamic_smem_size";
}

/// The thread's number in its CTA, x fastest.
#[track_caller]
pub fn thread_rank() -> Reg<u32> {
    let (thread, extents) = (thread_idx(), block_dim());
    (thread.z * extents.y + thread.y) * extents.x + thread.x
}

/// The warp's number in its CTA.
#[track_caller]
pub fn warp_id() -> Reg<u32> {
    thread_rank() / 32u32
}
