//! Limits and sizes that every supported architecture shares. What differs between architectures is
//! in [`Capability`](crate::Capability).
//!
//! Sources: CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, the section named at each
//! constant.

const KIB: u32 = 1024;

/// Lanes of a warp.
pub const WARP_SIZE: u32 = 32;
/// Threads of a warpgroup: four warps.
pub const WARPGROUP_SIZE: u32 = 4 * WARP_SIZE;
/// Threads of a CTA, at most.
pub const THREADS_PER_CTA: u32 = 1024;
/// CTAs resident on an SM, at most.
pub const CTAS_PER_SM: u32 = 32;
/// CTAs of a cluster that every architecture with clusters can launch.
pub const PORTABLE_CTAS_PER_CLUSTER: u32 = 8;
/// CTAs of a cluster, at most, for a kernel that opts in to non-portable sizes.
pub const CTAS_PER_CLUSTER: u32 = 16;

/// SMs of a GPC at most, on Hopper and Blackwell. The CTAs of a cluster are in one GPC.
pub const SMS_PER_GPC: u32 = 18;

/// Registers of a thread, at most.
pub const REGISTERS_PER_THREAD: u32 = 255;
/// 32-bit registers of an SM, and of one CTA at most.
pub const REGISTERS_PER_SM: u32 = 64 * KIB;
/// Registers of a thread that `setmaxnreg` accepts: a multiple of [`SETMAXNREG_STEP`]. PTX ISA,
/// "setmaxnreg".
pub const SETMAXNREG: std::ops::RangeInclusive<u32> = 24..=256;
/// The granularity of `setmaxnreg`.
pub const SETMAXNREG_STEP: u32 = 8;

/// Named barriers per CTA, including `bar.sync 0`. PTX ISA, "bar".
pub const NAMED_BARRIERS: u32 = 16;
/// Bytes of an mbarrier object, and its alignment. PTX ISA, "mbarrier".
pub const MBARRIER_BYTES: u32 = 8;
/// Arrivals, and pending transaction bytes, that an mbarrier counts at most. PTX ISA, "Contents of
/// the mbarrier object".
pub const MBARRIER_MAX_COUNT: u32 = (1 << 20) - 1;

/// Static shared memory of a CTA, in bytes, and all that a kernel may use without opting in.
pub const STATIC_SHARED_BYTES: u32 = 48 * KIB;
/// Shared memory of a CTA that opts in, in bytes, on the architecture that has the most.
pub const SHARED_BYTES_PER_CTA: u32 = 227 * KIB;
/// Banks of shared memory.
pub const BANKS: u32 = 32;
/// Bytes of a bank.
pub const BANK_BYTES: u32 = 4;
/// Bytes of a sector, the unit of a global access.
pub const SECTOR_BYTES: u32 = 32;
/// Alignment, and granularity of the size, of bulk copies and tensor copies in shared memory, in
/// bytes. PTX ISA, "cp.async.bulk".
pub const BULK_COPY_BYTES: u32 = 16;

/// Lanes (rows) of tensor memory. PTX ISA, "Tensor Memory".
pub const TENSOR_MEMORY_LANES: u32 = 128;
/// Columns of tensor memory, each 32 bits wide.
pub const TENSOR_MEMORY_COLUMNS: u32 = 512;
/// Columns that an allocation of tensor memory has at least; a power of two.
pub const TENSOR_MEMORY_MIN_COLUMNS: u32 = 32;

/// Whether `setmaxnreg` accepts this number of registers.
pub fn setmaxnreg_accepts(registers: u32) -> bool {
    SETMAXNREG.contains(&registers) && registers.is_multiple_of(SETMAXNREG_STEP)
}
