//! Launch shapes.

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
    pub(crate) fn product(self) -> u64 {
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
}
