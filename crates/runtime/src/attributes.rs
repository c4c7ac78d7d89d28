//! What a device says of a kernel, and of its launch.

/// Resources of a kernel, as the assembler reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelAttributes {
    /// Registers per thread; 0 if the device does not report it.
    pub registers_per_thread: u32,
    /// Static shared memory per CTA, in bytes.
    pub shared_bytes: u32,
    /// Local memory per thread, in bytes.
    pub local_bytes: u32,
    /// Maximum number of threads per CTA.
    pub threads_per_cta: u32,
}

/// What an emulated launch executed. On a GPU all counts are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchCounts {
    /// Instructions issued, counted once per warp.
    pub warp_instructions: u64,
    /// Instructions issued, counted once per active lane.
    pub lane_operations: u64,
    /// Multiply-adds of MMA instructions.
    pub mma_multiply_adds: u64,
}

impl std::ops::Add for LaunchCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            warp_instructions: self.warp_instructions + other.warp_instructions,
            lane_operations: self.lane_operations + other.lane_operations,
            mma_multiply_adds: self.mma_multiply_adds + other.mma_multiply_adds,
        }
    }
}
