//! Launch shapes, and the rules that a launch must satisfy.

use warpwright_arch::Capability;
use warpwright_ptx::syntax;

use crate::attributes::KernelAttributes;
use crate::error::{Error, Result};

/// Extents along x, y and z, from one number or a tuple or array of up to three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents(pub [u32; 3]);

impl From<u32> for Extents {
    fn from(x: u32) -> Self {
        Self([x, 1, 1])
    }
}

impl From<(u32, u32)> for Extents {
    fn from((x, y): (u32, u32)) -> Self {
        Self([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Extents {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self([x, y, z])
    }
}

impl From<[u32; 3]> for Extents {
    fn from(extents: [u32; 3]) -> Self {
        Self(extents)
    }
}

impl Extents {
    fn product(self) -> u64 {
        // Each extent fits 32 bits. A product beyond 64 bits exceeds every limit.
        self.0.iter().fold(1u64, |product, extent| product.saturating_mul(u64::from(*extent)))
    }
}

/// The shape of a launch.
///
/// ```
/// use warpwright_runtime::Launch;
///
/// let launch = Launch::new((64, 32), 256).cluster(2).dynamic_shared(96 << 10);
/// assert_eq!(launch.grid.0, [64, 32, 1]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// CTAs of the grid.
    pub grid: Extents,
    /// Threads of a CTA.
    pub block: Extents,
    /// CTAs of a cluster.
    pub cluster: Extents,
    /// Dynamic shared memory per CTA, in bytes. The runtime opts in to more than 48 KB.
    pub dynamic_shared_bytes: u32,
    /// Whether it may begin before its predecessor on the stream ends.
    pub overlaps: bool,
    /// Whether all CTAs must be resident at the same time.
    pub is_cooperative: bool,
}

impl Launch {
    /// The block size before it is set.
    pub(crate) const NO_BLOCK: Extents = Extents([0; 3]);

    /// `grid` CTAs of `block` threads, no clusters, no dynamic shared memory.
    pub fn new(grid: impl Into<Extents>, block: impl Into<Extents>) -> Self {
        Self {
            grid: grid.into(),
            block: block.into(),
            cluster: 1.into(),
            dynamic_shared_bytes: 0,
            overlaps: false,
            is_cooperative: false,
        }
    }

    /// Sets a block of `block` threads.
    #[must_use]
    pub fn block(mut self, block: impl Into<Extents>) -> Self {
        self.block = block.into();
        self
    }

    /// Sets clusters of `cluster` CTAs.
    #[must_use]
    pub fn cluster(mut self, cluster: impl Into<Extents>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// Sets `bytes` of dynamic shared memory per CTA.
    #[must_use]
    pub fn dynamic_shared(mut self, bytes: u32) -> Self {
        self.dynamic_shared_bytes = bytes;
        self
    }

    /// Programmatic dependent launch (sm_90): the kernel may begin once every CTA of its
    /// predecessor on the stream has executed `griddepcontrol.launch_dependents` or ended. It must
    /// execute `griddepcontrol.wait` before it uses what the predecessor writes.
    #[must_use]
    pub fn overlapping(mut self) -> Self {
        self.overlaps = true;
        self
    }

    /// Cooperative launch: the kernel begins when all CTAs of the grid can be resident at the same
    /// time, so that they may wait for one another. A grid that is too large for the device is
    /// refused.
    #[must_use]
    pub fn cooperative(mut self) -> Self {
        self.is_cooperative = true;
        self
    }

    /// Number of CTAs in the grid.
    pub(crate) fn ctas(&self) -> u64 {
        self.grid.product()
    }

    /// Whether the launch has clusters.
    pub(crate) fn has_clusters(&self) -> bool {
        self.cluster != Extents([1; 3])
    }

    /// Checks the limits of the device and the kernel. The rules and messages are the same on every
    /// device.
    pub(crate) fn check(
        &self,
        kernel: &str,
        limits: &Capability,
        attributes: &KernelAttributes,
    ) -> Result<()> {
        self.broken_rule(limits, attributes)
            .map_or(Ok(()), |reason| Err(Error::BadLaunch { kernel: kernel.to_owned(), reason }))
    }

    fn broken_rule(&self, limits: &Capability, attributes: &KernelAttributes) -> Option<String> {
        let extents = [
            ("grid", self.grid, limits.grid_extents),
            ("block", self.block, limits.cta_extents),
            ("cluster", self.cluster, [limits.ctas_per_cluster_opt_in; 3]),
        ];
        for (what, given, most) in extents {
            for ((axis, given), most) in ["x", "y", "z"].into_iter().zip(given.0).zip(most) {
                if given == 0 || given > most {
                    return Some(format!(
                        "the {what}'s {axis} extent is {given}, and it must be from 1 to {most} on {}",
                        limits.target
                    ));
                }
            }
        }
        let threads = self.block.product();
        let most = limits.threads_per_cta.min(attributes.threads_per_cta);
        if threads > u64::from(most) {
            let why = if most < limits.threads_per_cta {
                "which is all that its launch bounds and registers allow"
            } else {
                "which is all the device allows"
            };
            return Some(format!("a block has {threads} threads; use at most {most}, {why}"));
        }
        let ctas = self.cluster.product();
        if ctas > u64::from(limits.ctas_per_cluster_opt_in) {
            let most = limits.ctas_per_cluster_opt_in;
            return Some(format!("a cluster has {ctas} CTAs; use at most {most}"));
        }
        for ((axis, grid), cluster) in ["x", "y", "z"].into_iter().zip(self.grid.0).zip(self.cluster.0) {
            if !grid.is_multiple_of(cluster) {
                return Some(format!(
                    "the grid's {axis} extent, {grid}, is not a multiple of the cluster's, {cluster}"
                ));
            }
        }
        if self.overlaps && limits.compute_capability < (9, 0) {
            return Some(format!(
                "programmatic dependent launch needs sm_90 or later, and this is {}",
                limits.target
            ));
        }
        let shared = u64::from(attributes.shared_bytes) + u64::from(self.dynamic_shared_bytes);
        let most = limits.shared_bytes_per_cta_opt_in;
        (shared > u64::from(most)).then(|| {
            format!(
                "a CTA has {} bytes of static and {} of dynamic shared memory; {} allows {most} per CTA, \
                 so use at most {} dynamic",
                attributes.shared_bytes,
                self.dynamic_shared_bytes,
                limits.target,
                most.saturating_sub(attributes.shared_bytes)
            )
        })
    }
}

/// The extents of a CTA and a cluster that a kernel's PTX requires.
#[derive(Clone, Copy, Default)]
pub(crate) struct RequiredExtents {
    /// `.reqntid`
    block: Option<Extents>,
    /// `.reqnctapercluster`
    cluster: Option<Extents>,
}

impl RequiredExtents {
    pub(crate) fn of(entry: &syntax::Function) -> Self {
        let extents = |word: &str| {
            let (_, numbers) = entry.directives.iter().find(|(name, _)| name == word)?;
            Some(Extents([0, 1, 2].map(|axis| numbers.get(axis).map_or(1, |&extent| extent as u32))))
        };
        Self { block: extents("reqntid"), cluster: extents("reqnctapercluster") }
    }

    /// Returns an error if the launch has other extents. A launch that names no cluster has that of
    /// the PTX.
    pub(crate) fn check(&self, kernel: &str, launch: &Launch) -> Result<()> {
        let cluster = self.cluster.filter(|_| launch.cluster != Extents([1; 3]));
        let extents = [
            ("a block", "threads", ".reqntid", self.block, launch.block),
            ("clusters", "CTAs", ".reqnctapercluster", cluster, launch.cluster),
        ];
        for (what, unit, directive, required, given) in extents {
            if let Some(required) = required
                && required != given
            {
                let reason = format!(
                    "the launch has {what} of {:?} {unit}, and the PTX requires {:?} (`{directive}`)",
                    given.0, required.0
                );
                return Err(Error::BadLaunch { kernel: kernel.to_owned(), reason });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(launch: Launch, target: &str) -> Option<String> {
        let limits = Capability::for_target(target).expect("in the table");
        let attributes =
            KernelAttributes { shared_bytes: 1024, threads_per_cta: 512, ..KernelAttributes::default() };
        launch.broken_rule(limits, &attributes)
    }

    #[test]
    fn what_fits_is_allowed() {
        assert_eq!(reason(Launch::new(1, 1), "sm_80"), None);
        assert_eq!(reason(Launch::new((0x7fff_ffff, 65535, 65535), (8, 8, 8)), "sm_80"), None);
        assert_eq!(
            reason(Launch::new((32, 2), 512).cluster((16, 1)).dynamic_shared(226 << 10), "sm_90a"),
            None
        );
    }

    #[test]
    fn each_rule_says_what_it_wants() {
        let cases = [
            (Launch::new(0, 1), "grid's x extent is 0"),
            (Launch::new((1, 65536), 1), "grid's y extent is 65536, and it must be from 1 to 65535"),
            (Launch::new(1, (1, 1, 65)), "block's z extent is 65"),
            (Launch::new(1, (1024, 2)), "2048 threads; use at most 512, which is all that its launch bounds"),
            (Launch::new(1, 1).cluster(17), "cluster's x extent is 17"),
            (Launch::new(36, 1).cluster((6, 6)), "a cluster has 36 CTAs; use at most 16"),
            (Launch::new(3, 1).cluster(2), "not a multiple of the cluster's, 2"),
            (Launch::new(1, 1).dynamic_shared((226 << 10) + 1), "so use at most 231424 dynamic"),
        ];
        for (launch, words) in cases {
            let reason = reason(launch, "sm_90a").expect("it breaks a rule");
            assert!(reason.contains(words), "{reason}");
        }
        let early = reason(Launch::new(1, 1).overlapping(), "sm_89").expect("not there yet");
        assert!(early.contains("needs sm_90 or later, and this is sm_89"), "{early}");
        assert_eq!(reason(Launch::new(1, 1).overlapping(), "sm_90a"), None);
        let none = reason(Launch::new(2, 1).cluster(2), "sm_80").expect("no clusters there");
        assert!(none.contains("from 1 to 1 on sm_80"), "{none}");
    }
}
