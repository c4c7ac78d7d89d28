//! Occupancy: how many CTAs of a kernel an SM holds.

use crate::capability::Capability;

/// The resources of a kernel that limit its occupancy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelResources {
    /// Threads of a CTA.
    pub threads_per_cta: u32,
    /// Registers of a thread, as the assembler reports them; 0 if unknown, which does not limit
    /// occupancy.
    pub registers_per_thread: u32,
    /// Shared memory of a CTA, static and dynamic together, in bytes.
    pub shared_bytes: u32,
}

/// The occupancy of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Resident CTAs per SM.
    pub ctas_per_sm: u32,
    /// Resident warps per SM.
    pub warps_per_sm: u32,
    /// The resource that limits occupancy; the first in the order of [`Limiter`] if several do.
    pub limiter: Limiter,
}

/// The resources at which an SM would hold one more CTA. A resource that need not shrink is `None`;
/// all others must shrink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OneMore {
    /// Threads of a CTA.
    pub threads_per_cta: Option<u32>,
    /// Registers of a thread.
    pub registers_per_thread: Option<u32>,
    /// Shared memory of a CTA, in bytes.
    pub shared_bytes: Option<u32>,
}

/// The resource that limits occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// Warp slots.
    Warps,
    /// Registers.
    Registers,
    /// Shared memory.
    Shared,
    /// CTA slots.
    Ctas,
}

impl Limiter {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warps => "warp slots",
            Self::Registers => "registers",
            Self::Shared => "shared memory",
            Self::Ctas => "CTA slots",
        }
    }
}

/// A kernel whose CTA does not fit an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OccupancyError {
    /// No threads, or too many in a CTA.
    #[error("a CTA has 1 to {limit} threads, not {threads}")]
    Threads {
        /// The value given.
        threads: u32,
        /// The limit.
        limit: u32,
    },
    /// Too many registers for a thread.
    #[error("a thread has at most {limit} registers, not {registers}")]
    RegistersPerThread {
        /// The value given.
        registers: u32,
        /// The limit.
        limit: u32,
    },
    /// Too many registers for a CTA.
    #[error(
        "a CTA of {warps} warps at {registers} registers per thread takes {needed} of the {limit} registers a CTA may \
         have; use fewer threads or fewer registers"
    )]
    RegistersPerCta {
        /// Warps of a CTA.
        warps: u32,
        /// Registers of a thread.
        registers: u32,
        /// Registers of the CTA, rounded up to the allocation granularity.
        needed: u32,
        /// The limit.
        limit: u32,
    },
    /// Too much shared memory for a CTA.
    #[error("a CTA has at most {limit} bytes of shared memory, not {bytes}")]
    Shared {
        /// The value given.
        bytes: u32,
        /// The limit.
        limit: u32,
    },
}

impl Capability {
    /// The occupancy of `kernel` and its limiter.
    ///
    /// The rules are those of the CUDA occupancy calculator. The registers of a warp are rounded up
    /// to the allocation granularity and are in one partition of the SM, so the number of warps per
    /// partition is decisive. A launch is checked as if the CTA filled all partitions evenly.
    /// Shared memory includes the bytes that the system reserves in each CTA.
    pub fn occupancy(&self, kernel: &KernelResources) -> Result<Occupancy, OccupancyError> {
        let warps = kernel.threads_per_cta.div_ceil(self.warp_size);
        let limits = self.ctas_by_resource(kernel)?;
        let (limiter, ctas_per_sm) = limits.into_iter().min_by_key(|(_, ctas)| *ctas).expect("four limits");
        Ok(Occupancy { ctas_per_sm, warps_per_sm: ctas_per_sm * warps, limiter })
    }

    /// The CTAs of `kernel` per SM that each resource allows; unknown registers allow any number.
    ///
    /// # Errors
    /// As [`occupancy`](Self::occupancy).
    pub fn ctas_by_resource(&self, kernel: &KernelResources) -> Result<[(Limiter, u32); 4], OccupancyError> {
        let warps = kernel.threads_per_cta.div_ceil(self.warp_size);
        if kernel.threads_per_cta == 0 || kernel.threads_per_cta > self.threads_per_cta {
            return Err(OccupancyError::Threads {
                threads: kernel.threads_per_cta,
                limit: self.threads_per_cta,
            });
        }
        Ok([
            (Limiter::Warps, self.warps_per_sm / warps),
            (Limiter::Registers, self.ctas_by_registers(kernel.registers_per_thread, warps)?),
            (Limiter::Shared, self.ctas_by_shared(kernel.shared_bytes)?),
            (Limiter::Ctas, self.ctas_per_sm),
        ])
    }

    /// The resources at which an SM would hold one more CTA of `kernel`; `None` if the SM has no
    /// more CTA slots, or if a resource would have to be 0.
    ///
    /// # Errors
    /// As [`occupancy`](Self::occupancy).
    pub fn one_more(&self, kernel: &KernelResources) -> Result<Option<OneMore>, OccupancyError> {
        let wanted = self.occupancy(kernel)?.ctas_per_sm + 1;
        if wanted > self.ctas_per_sm {
            return Ok(None);
        }
        let mut more = OneMore::default();
        let mut threads = kernel.threads_per_cta;
        let by_warps = |threads: u32| self.warps_per_sm / threads.div_ceil(self.warp_size) >= wanted;
        if !by_warps(threads) {
            let mut fewer = (1..=threads / self.warp_size).rev().map(|warps| warps * self.warp_size);
            let Some(fitting) = fewer.find(|threads| by_warps(*threads)) else { return Ok(None) };
            threads = fitting;
            more.threads_per_cta = Some(fitting);
        }
        let warps = threads.div_ceil(self.warp_size);
        let by_registers =
            |registers: u32| self.ctas_by_registers(registers, warps).is_ok_and(|ctas| ctas >= wanted);
        if !by_registers(kernel.registers_per_thread) {
            let mut fewer = (1..kernel.registers_per_thread).rev();
            let Some(fitting) = fewer.find(|registers| by_registers(*registers)) else {
                return Ok(None);
            };
            more.registers_per_thread = Some(fitting);
        }
        let by_shared = |bytes: u32| self.ctas_by_shared(bytes).is_ok_and(|ctas| ctas >= wanted);
        if !by_shared(kernel.shared_bytes) {
            let mut fewer = (0..kernel.shared_bytes).rev();
            let Some(fitting) = fewer.find(|bytes| by_shared(*bytes)) else {
                return Ok(None);
            };
            more.shared_bytes = Some(fitting);
        }
        Ok(Some(more))
    }

    fn ctas_by_registers(&self, registers: u32, warps: u32) -> Result<u32, OccupancyError> {
        if registers == 0 {
            return Ok(u32::MAX);
        }
        if registers > self.registers_per_thread {
            return Err(OccupancyError::RegistersPerThread { registers, limit: self.registers_per_thread });
        }
        let per_warp = (registers * self.warp_size).next_multiple_of(self.register_granularity);
        let needed = per_warp * warps.next_multiple_of(self.partitions_per_sm);
        if needed > self.registers_per_cta {
            let limit = self.registers_per_cta;
            return Err(OccupancyError::RegistersPerCta { warps, registers, needed, limit });
        }
        let warps_per_partition = self.registers_per_sm / self.partitions_per_sm / per_warp;
        Ok(warps_per_partition * self.partitions_per_sm / warps)
    }

    fn ctas_by_shared(&self, bytes: u32) -> Result<u32, OccupancyError> {
        if bytes > self.shared_bytes_per_cta_opt_in {
            return Err(OccupancyError::Shared { bytes, limit: self.shared_bytes_per_cta_opt_in });
        }
        let taken = (bytes + self.shared_bytes_reserved).next_multiple_of(self.shared_granularity);
        // Where the system takes nothing, a kernel without shared memory is not limited by it.
        Ok(self.shared_bytes_per_sm.checked_div(taken).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CAPABILITIES;

    fn sm(major: u32, minor: u32) -> &'static Capability {
        Capability::numbered(major, minor).expect("in the table")
    }

    fn kernel(threads_per_cta: u32, registers_per_thread: u32, shared_bytes: u32) -> KernelResources {
        KernelResources { threads_per_cta, registers_per_thread, shared_bytes }
    }

    #[test]
    fn known_answers() {
        let cases = [
            // 48 registers: 1536 a warp, 10 warps a partition.
            (sm(9, 0), kernel(32, 48, 0), (32, Limiter::Ctas)),
            (sm(9, 0), kernel(64, 48, 0), (20, Limiter::Registers)),
            // 168 registers leave 3 warps a partition, 200 leave 2: five CTAs of two warps go down
            // to four.
            (sm(8, 9), kernel(64, 168, 16_888), (5, Limiter::Shared)),
            (sm(8, 9), kernel(64, 200, 16_888), (4, Limiter::Registers)),
            // The reserved kilobyte: 48 KiB of user data is 49 KiB of the SM.
            (sm(8, 0), kernel(128, 32, 48 << 10), (3, Limiter::Shared)),
            (sm(9, 0), kernel(384, 168, 227 << 10), (1, Limiter::Registers)),
            (sm(8, 6), kernel(256, 32, 0), (6, Limiter::Warps)),
            (sm(12, 0), kernel(32, 16, 0), (24, Limiter::Ctas)),
            (sm(9, 0), kernel(1024, 64, 0), (1, Limiter::Registers)),
            (sm(9, 0), kernel(1024, 32, 0), (2, Limiter::Warps)),
        ];
        for (capability, kernel, (ctas, limiter)) in cases {
            let occupancy = capability.occupancy(&kernel).expect("it fits");
            assert_eq!((occupancy.ctas_per_sm, occupancy.limiter), (ctas, limiter), "{kernel:?}");
            assert_eq!(occupancy.warps_per_sm, ctas * kernel.threads_per_cta.div_ceil(32));
        }
    }

    #[test]
    fn what_never_fits_is_refused() {
        let refused = |kernel| sm(9, 0).occupancy(&kernel).expect_err("it does not fit");
        assert!(matches!(refused(kernel(0, 32, 0)), OccupancyError::Threads { .. }));
        assert!(matches!(refused(kernel(1025, 32, 0)), OccupancyError::Threads { .. }));
        assert!(matches!(refused(kernel(32, 256, 0)), OccupancyError::RegistersPerThread { .. }));
        assert!(matches!(refused(kernel(1024, 65, 0)), OccupancyError::RegistersPerCta { .. }));
        // Five warps are checked as eight: 8 x 255 registers rounded up to 8192 a warp fill the
        // file exactly.
        assert_eq!(sm(9, 0).occupancy(&kernel(160, 255, 0)).map(|found| found.ctas_per_sm), Ok(1));
        assert!(matches!(refused(kernel(288, 255, 0)), OccupancyError::RegistersPerCta { .. }));
        assert!(matches!(refused(kernel(32, 32, (227 << 10) + 1)), OccupancyError::Shared { .. }));
    }

    #[test]
    fn older_and_newer_parts_have_their_granularities() {
        let of = |target, threads, registers, shared| {
            let capability = Capability::with_limits_of(target).expect("in the tables");
            let found = capability.occupancy(&kernel(threads, registers, shared)).expect("it fits");
            (found.ctas_per_sm, found.limiter)
        };
        // sm_70 and sm_75 give shared memory in units of 256 bytes and keep none for themselves.
        assert_eq!(of("sm_70", 128, 32, 12 << 10), (8, Limiter::Shared));
        assert_eq!(of("sm_70", 128, 32, (12 << 10) + 1), (7, Limiter::Shared));
        assert_eq!(of("sm_70", 128, 32, 0), (16, Limiter::Warps));
        assert_eq!(of("sm_75", 64, 32, 0), (16, Limiter::Warps));
        assert_eq!(of("sm_75", 32, 32, 0), (16, Limiter::Ctas));
        assert_eq!(of("sm_87", 256, 32, 0), (6, Limiter::Warps));
        assert_eq!(of("sm_87", 32, 32, 0), (16, Limiter::Ctas));
        assert_eq!(of("sm_103", 1024, 32, 0), (2, Limiter::Warps));
        assert_eq!(of("sm_121", 768, 32, 0), (2, Limiter::Warps));
    }

    #[test]
    fn one_more_is_the_least_that_has_to_give() {
        for capability in CAPABILITIES.iter().chain(&crate::OTHER_CAPABILITIES) {
            for threads in [32, 96, 256, 1000, 1024] {
                for registers in [16, 40, 64, 128, 255] {
                    for shared in [0, 1000, 9 << 10, 40_000] {
                        let now = kernel(threads, registers, shared);
                        let Ok(occupancy) = capability.occupancy(&now) else { continue };
                        let Some(more) = capability.one_more(&now).expect("it fits") else { continue };
                        let shrunk = |more: OneMore| KernelResources {
                            threads_per_cta: more.threads_per_cta.unwrap_or(threads),
                            registers_per_thread: more.registers_per_thread.unwrap_or(registers),
                            shared_bytes: more.shared_bytes.unwrap_or(shared),
                        };
                        let ctas = |more| capability.occupancy(&shrunk(more)).expect("it fits").ctas_per_sm;
                        assert!(ctas(more) > occupancy.ctas_per_sm, "{now:?} {more:?}");
                        // One step more of what has to give is too much.
                        for greedy in [
                            OneMore {
                                registers_per_thread: more.registers_per_thread.map(|n| n + 1),
                                ..more
                            },
                            OneMore { shared_bytes: more.shared_bytes.map(|n| n + 1), ..more },
                            OneMore { threads_per_cta: more.threads_per_cta.map(|n| n + 1), ..more },
                        ] {
                            assert!(
                                greedy == more || ctas(greedy) <= occupancy.ctas_per_sm,
                                "{now:?} {greedy:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Fills an SM CTA by CTA, placing each warp in the emptiest of its four register files, until
    /// a resource runs out. The granularities are written out here, by architecture generation.
    fn fill(capability: &Capability, kernel: &KernelResources) -> u32 {
        let (reserved, unit) = if capability.compute_capability < (8, 0) { (0, 256) } else { (1024, 128) };
        let warps = kernel.threads_per_cta.div_ceil(32);
        let per_warp = (kernel.registers_per_thread * 32).div_ceil(256) * 256;
        let mut files = [16_384u32; 4];
        let mut shared = capability.shared_bytes_per_sm;
        let mut ctas = 0;
        loop {
            let taken = (kernel.shared_bytes + reserved).div_ceil(unit) * unit;
            if ctas == capability.ctas_per_sm
                || (ctas + 1) * warps > capability.warps_per_sm
                || shared < taken
                || !(0..warps).all(|_| {
                    let free = files.iter_mut().max().expect("four files");
                    *free >= per_warp && {
                        *free -= per_warp;
                        true
                    }
                })
            {
                return ctas;
            }
            shared -= taken;
            ctas += 1;
        }
    }

    #[test]
    fn every_architecture_agrees_with_filling_an_sm() {
        for capability in CAPABILITIES.iter().chain(&crate::OTHER_CAPABILITIES) {
            let mut compared = 0;
            for threads in (1..=1024).step_by(31).chain((32..=1024).step_by(32)) {
                for registers in (0..=255).step_by(5) {
                    for shared in [0, 1, 3000, 16 << 10, 40_000, capability.shared_bytes_per_cta_opt_in] {
                        let kernel = kernel(threads, registers, shared);
                        let filled = fill(capability, &kernel);
                        match capability.occupancy(&kernel) {
                            Ok(found) => {
                                compared += 1;
                                assert_eq!(found.ctas_per_sm, filled, "{} {kernel:?}", capability.target);
                            }
                            // The launch is refused, although the SM itself may have resources for
                            // warps that fill its register files unevenly.
                            Err(OccupancyError::RegistersPerCta { .. }) => {}
                            Err(error) => panic!("{} {kernel:?}: {error}", capability.target),
                        }
                    }
                }
            }
            assert!(compared > 10_000, "{}: {compared}", capability.target);
        }
    }

    /// Rows of the programming guide's table "Technical Specifications per Compute Capability",
    /// written out once more: CTAs, warps and kilobytes of shared memory of an SM.
    #[test]
    fn limits_are_those_of_the_guide() {
        for (target, ctas, warps, shared) in [
            ("sm_70", 32, 64, 96),
            ("sm_72", 32, 64, 96),
            ("sm_75", 16, 32, 64),
            ("sm_80", 32, 64, 164),
            ("sm_86", 16, 48, 100),
            ("sm_87", 16, 48, 164),
            ("sm_88", 16, 48, 100),
            ("sm_89", 24, 48, 100),
            ("sm_90", 32, 64, 228),
            ("sm_100", 32, 64, 228),
            ("sm_101", 24, 48, 228),
            ("sm_103", 32, 64, 228),
            ("sm_110", 24, 48, 228),
            ("sm_120", 24, 48, 100),
            ("sm_121", 24, 48, 100),
        ] {
            let row = Capability::with_limits_of(target).expect("in the tables");
            assert_eq!(
                (row.ctas_per_sm, row.warps_per_sm, row.shared_bytes_per_sm >> 10),
                (ctas, warps, shared),
                "{target}"
            );
        }
        assert_eq!(CAPABILITIES.len() + crate::OTHER_CAPABILITIES.len(), 15);
    }
}
