//! What a launch takes of an SM.

use warpwright::runtime::LaunchRecord;

use crate::error::Result;

/// What a launch takes of an SM, and the occupancy that results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Threads per CTA.
    pub threads_per_cta: u32,
    /// Registers per thread; `None` where no assembler has said.
    pub registers_per_thread: Option<u32>,
    /// Local memory per thread in bytes: spilled registers and local arrays.
    pub local_bytes: u32,
    /// Static and dynamic shared memory per CTA in bytes.
    pub shared_bytes: u32,
    /// CTAs per SM, by the limits that are known.
    pub ctas_per_sm: u32,
    /// Warps that an SM can hold.
    pub max_warps: u32,
}

impl Resources {
    /// The resources of a launch.
    ///
    /// # Errors
    /// No CTA fits an SM.
    pub fn of(record: &LaunchRecord) -> Result<Self> {
        let registers = record.attributes.registers_per_thread;
        Ok(Self {
            threads_per_cta: record.launch.block.0.iter().product(),
            registers_per_thread: (registers > 0).then_some(registers),
            local_bytes: record.attributes.local_bytes,
            shared_bytes: record.shared_bytes(),
            ctas_per_sm: record.occupancy()?.ctas_per_sm,
            max_warps: record.capability.warps_per_sm,
        })
    }

    /// Resident warps over the warps that an SM can hold.
    pub fn occupancy(&self) -> f64 {
        f64::from(self.ctas_per_sm * self.threads_per_cta.div_ceil(32)) / f64::from(self.max_warps)
    }
}
