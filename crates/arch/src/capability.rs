//! The limits of each compute capability.

use crate::limits;
use crate::target::{Features, Target};

/// The limits of one compute capability.
///
/// Source: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications; the
/// allocation granularities are those of the occupancy calculator that ships with CUDA.
#[derive(Debug, PartialEq, Eq)]
pub struct Capability {
    /// Compute capability, as (major, minor).
    pub compute_capability: (u32, u32),
    /// The `.target` that unlocks every instruction of this capability: `sm_90a`.
    pub target: &'static str,
    /// The first PTX ISA version that knows `target`, as (major, minor).
    pub ptx_version: (u32, u32),
    /// Lanes of a warp.
    pub warp_size: u32,
    /// Threads of one CTA, at most.
    pub threads_per_cta: u32,
    /// Extents of a CTA, at most.
    pub cta_extents: [u32; 3],
    /// Extents of a grid, at most.
    pub grid_extents: [u32; 3],
    /// CTAs of a cluster, at most, for any kernel; 1 without cluster support.
    pub ctas_per_cluster: u32,
    /// CTAs of a cluster, at most, for a kernel that opts in to non-portable sizes.
    pub ctas_per_cluster_opt_in: u32,
    /// Threads resident on an SM, at most.
    pub threads_per_sm: u32,
    /// Warps resident on an SM, at most.
    pub warps_per_sm: u32,
    /// CTAs resident on an SM, at most.
    pub ctas_per_sm: u32,
    /// 32-bit registers of an SM.
    pub registers_per_sm: u32,
    /// 32-bit registers of a CTA, at most.
    pub registers_per_cta: u32,
    /// Registers of a thread, at most.
    pub registers_per_thread: u32,
    /// The granularity of register allocation per warp.
    pub register_granularity: u32,
    /// Partitions of an SM, each with a scheduler and a share of the registers.
    pub partitions_per_sm: u32,
    /// Shared memory of an SM, in bytes.
    pub shared_bytes_per_sm: u32,
    /// Shared memory of a CTA that does not opt in, in bytes.
    pub shared_bytes_per_cta: u32,
    /// Shared memory of a CTA that opts in, in bytes.
    pub shared_bytes_per_cta_opt_in: u32,
    /// Shared memory that the system reserves in each resident CTA, in bytes.
    pub shared_bytes_reserved: u32,
    /// The granularity of shared-memory allocation, in bytes.
    pub shared_granularity: u32,
    /// Columns of tensor memory (128 lanes of 32 bits each) of an SM; 0 without tensor memory.
    pub tensor_memory_columns: u32,
    /// Local memory of a thread, in bytes.
    pub local_bytes_per_thread: u32,
    /// Constant memory a module may declare, in bytes.
    pub constant_bytes: u32,
    /// Kernel parameters, in bytes, at most. PTX ISA, "Kernel Function Parameters" (since PTX 8.1).
    pub parameter_bytes: u32,
}

const KIB: u32 = 1024;

/// sm_80, the base of all rows; the table below states the differences.
const SM_80: Capability = Capability {
    compute_capability: (8, 0),
    target: "sm_80",
    ptx_version: (7, 0),
    warp_size: limits::WARP_SIZE,
    threads_per_cta: limits::THREADS_PER_CTA,
    cta_extents: [1024, 1024, 64],
    grid_extents: [0x7fff_ffff, 65535, 65535],
    ctas_per_cluster: 1,
    ctas_per_cluster_opt_in: 1,
    threads_per_sm: 2048,
    warps_per_sm: 64,
    ctas_per_sm: limits::CTAS_PER_SM,
    registers_per_sm: limits::REGISTERS_PER_SM,
    registers_per_cta: limits::REGISTERS_PER_SM,
    registers_per_thread: limits::REGISTERS_PER_THREAD,
    register_granularity: 256,
    partitions_per_sm: 4,
    shared_bytes_per_sm: 164 * KIB,
    shared_bytes_per_cta: limits::STATIC_SHARED_BYTES,
    shared_bytes_per_cta_opt_in: 163 * KIB,
    shared_bytes_reserved: KIB,
    shared_granularity: 128,
    tensor_memory_columns: 0,
    local_bytes_per_thread: 512 * KIB,
    constant_bytes: 64 * KIB,
    parameter_bytes: 32764,
};

/// The smaller SM of graphics and inference GPUs (sm_86, sm_89, sm_120).
const SMALL_SM: Capability = Capability {
    threads_per_sm: 1536,
    warps_per_sm: 48,
    shared_bytes_per_sm: 100 * KIB,
    shared_bytes_per_cta_opt_in: 99 * KIB,
    ..SM_80
};

/// The B300. The B200 has the same limits.
const SM_103: Capability = Capability {
    compute_capability: (10, 3),
    target: "sm_103a",
    ptx_version: (8, 8),
    ctas_per_cluster: limits::PORTABLE_CTAS_PER_CLUSTER,
    ctas_per_cluster_opt_in: limits::CTAS_PER_CLUSTER,
    shared_bytes_per_sm: 228 * KIB,
    shared_bytes_per_cta_opt_in: limits::SHARED_BYTES_PER_CTA,
    tensor_memory_columns: limits::TENSOR_MEMORY_COLUMNS,
    ..SM_80
};

/// Every compute capability that kernels are built for, oldest first.
pub static CAPABILITIES: [Capability; 7] = [
    SM_80,
    Capability {
        compute_capability: (8, 6),
        target: "sm_86",
        ptx_version: (7, 1),
        ctas_per_sm: 16,
        ..SMALL_SM
    },
    Capability {
        compute_capability: (8, 9),
        target: "sm_89",
        ptx_version: (7, 8),
        ctas_per_sm: 24,
        ..SMALL_SM
    },
    Capability {
        compute_capability: (9, 0),
        target: "sm_90a",
        ptx_version: (8, 0),
        ctas_per_cluster: limits::PORTABLE_CTAS_PER_CLUSTER,
        ctas_per_cluster_opt_in: limits::CTAS_PER_CLUSTER,
        shared_bytes_per_sm: 228 * KIB,
        shared_bytes_per_cta_opt_in: limits::SHARED_BYTES_PER_CTA,
        ..SM_80
    },
    Capability { compute_capability: (10, 0), target: "sm_100a", ptx_version: (8, 6), ..SM_103 },
    SM_103,
    Capability {
        compute_capability: (12, 0),
        target: "sm_120a",
        ptx_version: (8, 7),
        ctas_per_cluster: limits::PORTABLE_CTAS_PER_CLUSTER,
        ctas_per_cluster_opt_in: 8,
        ctas_per_sm: 24,
        ..SMALL_SM
    },
];

/// The V100; the Xavier (sm_72) has the same SM.
const SM_70: Capability = Capability {
    compute_capability: (7, 0),
    target: "sm_70",
    ptx_version: (6, 0),
    shared_bytes_per_sm: 96 * KIB,
    shared_bytes_per_cta_opt_in: 96 * KIB,
    shared_bytes_reserved: 0,
    shared_granularity: 256,
    ..SM_80
};

/// The Thor, called sm_101 before PTX 9.0 (PTX ISA, `.target`): the shared memory of a B200, and
/// fewer threads.
const THOR: Capability = Capability {
    compute_capability: (11, 0),
    target: "sm_110a",
    ptx_version: (9, 0),
    ctas_per_cluster: limits::PORTABLE_CTAS_PER_CLUSTER,
    ctas_per_cluster_opt_in: limits::CTAS_PER_CLUSTER,
    threads_per_sm: 1536,
    warps_per_sm: 48,
    ctas_per_sm: 24,
    shared_bytes_per_sm: 228 * KIB,
    shared_bytes_per_cta_opt_in: limits::SHARED_BYTES_PER_CTA,
    tensor_memory_columns: limits::TENSOR_MEMORY_COLUMNS,
    ..SM_80
};

/// Compute capabilities that kernels are not built for, oldest first. Modules of other compilers run on
/// the emulated GPUs that have them.
pub static OTHER_CAPABILITIES: [Capability; 8] = [
    SM_70,
    Capability { compute_capability: (7, 2), target: "sm_72", ptx_version: (6, 1), ..SM_70 },
    Capability {
        compute_capability: (7, 5),
        target: "sm_75",
        ptx_version: (6, 3),
        threads_per_sm: 1024,
        warps_per_sm: 32,
        ctas_per_sm: 16,
        shared_bytes_per_sm: 64 * KIB,
        shared_bytes_per_cta_opt_in: 64 * KIB,
        shared_bytes_reserved: 0,
        shared_granularity: 256,
        ..SM_80
    },
    Capability {
        compute_capability: (8, 7),
        target: "sm_87",
        ptx_version: (7, 4),
        threads_per_sm: 1536,
        warps_per_sm: 48,
        ctas_per_sm: 16,
        ..SM_80
    },
    Capability {
        compute_capability: (8, 8),
        target: "sm_88",
        ptx_version: (9, 0),
        ctas_per_sm: 16,
        ..SMALL_SM
    },
    Capability { compute_capability: (10, 1), target: "sm_101a", ptx_version: (8, 6), ..THOR },
    THOR,
    Capability {
        compute_capability: (12, 1),
        target: "sm_121a",
        ptx_version: (8, 8),
        ctas_per_cluster: limits::PORTABLE_CTAS_PER_CLUSTER,
        ctas_per_cluster_opt_in: 8,
        ctas_per_sm: 24,
        ..SMALL_SM
    },
];

impl Capability {
    /// The capability with the limits of `.target TARGET`, including those of
    /// [`OTHER_CAPABILITIES`].
    pub fn with_limits_of(target: &str) -> Option<&'static Self> {
        let digits = target.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
        let all = CAPABILITIES.iter().chain(&OTHER_CAPABILITIES);
        all.into_iter().find(|capability| capability.sm_digits() == digits)
    }

    /// The capability that runs `.target TARGET`: `sm_90`, `sm_90a` and `sm_90f` all name the one
    /// of 9.0.
    pub fn for_target(target: &str) -> Option<&'static Self> {
        let digits = target.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
        CAPABILITIES.iter().find(|capability| capability.sm_digits() == digits)
    }

    /// The capability numbered `(major, minor)`.
    pub fn numbered(major: u32, minor: u32) -> Option<&'static Self> {
        CAPABILITIES.iter().find(|capability| capability.compute_capability == (major, minor))
    }

    /// Whether a module for `.target TARGET` runs here.
    ///
    /// A plain target runs on its capability and every later one. One that ends in `a` runs on
    /// exactly its own; one that ends in `f` on its own and later minor versions of the same major.
    /// PTX ISA, `.target`.
    pub fn runs(&self, target: &str) -> bool {
        let Some(target) = Target::parse(target) else { return false };
        let (major, minor) = self.compute_capability;
        let own = Target { number: major * 10 + minor, features: Features::Architecture };
        own.has_features_of(target)
    }

    fn sm_digits(&self) -> &'static str {
        self.target.trim_start_matches("sm_").trim_end_matches('a')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_consistent() {
        for row in CAPABILITIES.iter().chain(&OTHER_CAPABILITIES) {
            let (major, minor) = row.compute_capability;
            assert_eq!(row.sm_digits(), (major * 10 + minor).to_string());
            assert_eq!(row.threads_per_sm, row.warps_per_sm * row.warp_size);
            assert_eq!(row.shared_bytes_per_cta_opt_in + row.shared_bytes_reserved, row.shared_bytes_per_sm);
            assert!(row.shared_bytes_per_cta <= row.shared_bytes_per_cta_opt_in);
            assert_eq!(row.shared_bytes_per_sm % row.shared_granularity, 0);
            assert_eq!(row.registers_per_sm % (row.partitions_per_sm * row.register_granularity), 0);
            assert!(row.ctas_per_cluster <= row.ctas_per_cluster_opt_in);
            assert_eq!(row.ctas_per_cluster > 1, major >= 9, "clusters came with 9.0");
            assert_eq!(row.tensor_memory_columns > 0, major == 10 || major == 11);
        }
        assert!(CAPABILITIES.is_sorted_by_key(|row| row.compute_capability));
        assert!(OTHER_CAPABILITIES.is_sorted_by_key(|row| row.compute_capability));
    }

    #[test]
    fn targets_find_their_row() {
        for row in &CAPABILITIES {
            assert_eq!(Capability::for_target(row.target), Some(row));
            assert_eq!(Capability::for_target(row.target.trim_end_matches('a')), Some(row));
            let (major, minor) = row.compute_capability;
            assert_eq!(Capability::numbered(major, minor), Some(row));
        }
        for row in CAPABILITIES.iter().chain(&OTHER_CAPABILITIES) {
            assert_eq!(Capability::with_limits_of(row.target), Some(row));
        }
        for wrong in ["", "sm_", "sm_9", "90a", "sm_90ax", "compute_90", "sm_70"] {
            assert_eq!(Capability::for_target(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn targets_run_where_the_isa_says() {
        let runs = |capability: (u32, u32), target| {
            Capability::numbered(capability.0, capability.1).expect("in the table").runs(target)
        };
        assert!(runs((9, 0), "sm_80"));
        assert!(runs((9, 0), "sm_70"), "older than the table, but still PTX that runs");
        assert!(runs((9, 0), "sm_90a"));
        assert!(!runs((8, 0), "sm_86"));
        assert!(!runs((10, 0), "sm_90a"), "an `a` target runs on its own capability only");
        assert!(runs((10, 0), "sm_100f"));
        assert!(!runs((12, 0), "sm_100f"));
        assert!(!runs((9, 0), "compute_80"));
        let thor = Capability::with_limits_of("sm_110a").expect("in the table");
        assert!(thor.runs("sm_101a") && thor.runs("sm_110f") && !thor.runs("sm_100f"));
    }
}
