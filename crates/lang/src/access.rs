//! Modifiers of loads and stores: ordering, caching and prefetch hints.

use crate::reg::Reg;

/// The threads among which an ordered access or a fence is ordered. PTX ISA, "Scope".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The CTA.
    Block,
    /// The cluster (sm_90).
    Cluster,
    /// The GPU.
    Device,
    /// All GPUs and the host.
    System,
}

impl Scope {
    /// The word in opcodes.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Scope::Block => ".cta",
            Scope::Cluster => ".cluster",
            Scope::Device => ".gpu",
            Scope::System => ".sys",
        }
    }
}

/// The order of a load or store against other threads' accesses. PTX ISA, "Memory Consistency
/// Model".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// None; races are faults.
    #[default]
    Weak,
    /// Not cached, combined or removed.
    Volatile,
    /// May race, and orders nothing else.
    Relaxed(Scope),
    /// Loads only: later accesses come after it.
    Acquire(Scope),
    /// Stores only: earlier accesses come before it.
    Release(Scope),
}

/// A cache operator. PTX ISA, "Cache Operators".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOperator {
    /// Loads: cache at all levels (`.ca`).
    AllLevels,
    /// Cache in L2 only (`.cg`).
    GlobalLevel,
    /// Likely accessed once (`.cs`).
    Streaming,
    /// Loads: this is the last use (`.lu`).
    LastUse,
    /// Loads: fetch again each time (`.cv`).
    DoNotCache,
    /// Stores: write back at all levels (`.wb`).
    WriteBack,
    /// Stores: write through to the system's memory (`.wt`).
    WriteThrough,
}

impl CacheOperator {
    fn word(self) -> &'static str {
        match self {
            CacheOperator::AllLevels => ".ca",
            CacheOperator::GlobalLevel => ".cg",
            CacheOperator::Streaming => ".cs",
            CacheOperator::LastUse => ".lu",
            CacheOperator::DoNotCache => ".cv",
            CacheOperator::WriteBack => ".wb",
            CacheOperator::WriteThrough => ".wt",
        }
    }
}

/// What the L1 cache should evict first. PTX ISA, "Cache Eviction Priority Hints".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The default.
    Normal,
    /// Unchanged.
    Unchanged,
    /// Before other lines.
    First,
    /// After other lines.
    Last,
    /// Do not allocate in L1.
    NoAllocate,
}

impl Eviction {
    fn word(self) -> &'static str {
        match self {
            Eviction::Normal => ".L1::evict_normal",
            Eviction::Unchanged => ".L1::evict_unchanged",
            Eviction::First => ".L1::evict_first",
            Eviction::Last => ".L1::evict_last",
            Eviction::NoAllocate => ".L1::no_allocate",
        }
    }
}

/// How much L2 prefetches around a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L2Prefetch {
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    Bytes256,
}

impl L2Prefetch {
    /// The word in opcodes.
    pub(crate) fn word(self) -> &'static str {
        match self {
            L2Prefetch::Bytes64 => ".L2::64B",
            L2Prefetch::Bytes128 => ".L2::128B",
            L2Prefetch::Bytes256 => ".L2::256B",
        }
    }
}

/// The modifiers of a load or a store. The default is a plain access.
///
/// ```
/// use warpwright_lang::access::{Access, CacheOperator};
/// let streaming = Access::new().cached(CacheOperator::Streaming);
/// ```
#[derive(Clone, Copy, Default)]
pub struct Access {
    ordering: Ordering,
    cache: Option<CacheOperator>,
    eviction: Option<Eviction>,
    non_coherent: bool,
    prefetch: Option<L2Prefetch>,
    policy: Option<Reg<u64>>,
}

impl Access {
    /// A plain access.
    pub fn new() -> Self {
        Self::default()
    }

    /// With an order against other threads.
    pub fn ordered(self, ordering: Ordering) -> Self {
        Self { ordering, ..self }
    }

    /// With a cache operator.
    pub fn cached(self, operator: CacheOperator) -> Self {
        Self { cache: Some(operator), ..self }
    }

    /// With an L1 eviction priority.
    pub fn evicted(self, eviction: Eviction) -> Self {
        Self { eviction: Some(eviction), ..self }
    }

    /// Through the read-only path (`.nc`): global memory that nothing writes while the kernel runs,
    /// by a pointer through which the kernel may not write.
    pub fn non_coherent(self) -> Self {
        Self { non_coherent: true, ..self }
    }

    /// Fetching more into L2.
    pub fn prefetching(self, prefetch: L2Prefetch) -> Self {
        Self { prefetch: Some(prefetch), ..self }
    }

    /// With an L2 cache policy from [`create_policy`](crate::memory::create_policy).
    pub fn with_policy(self, policy: Reg<u64>) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Whether the load takes the read-only path.
    pub(crate) fn is_non_coherent(&self) -> bool {
        self.non_coherent
    }

    /// The cache policy.
    pub(crate) fn policy(&self) -> Option<Reg<u64>> {
        self.policy
    }

    /// The opcode of a load from `space` up to the vector modifier, or the reason why there is
    /// none.
    pub(crate) fn load_opcode(&self, space: &str) -> Result<String, &'static str> {
        if let Ordering::Release(_) = self.ordering {
            return Err("a load cannot release; use Ordering::Acquire, and release with a store or a fence");
        }
        if matches!(self.cache, Some(CacheOperator::WriteBack | CacheOperator::WriteThrough)) {
            return Err(
                "WriteBack and WriteThrough are for stores; loads have AllLevels, GlobalLevel, Streaming, LastUse and DoNotCache",
            );
        }
        if self.non_coherent && space != ".global" {
            return Err("only global memory has a non-coherent path; load without it");
        }
        self.opcode("ld", space)
    }

    /// The opcode of a store to `space` up to the vector modifier, or the reason why there is none.
    pub(crate) fn store_opcode(&self, space: &str) -> Result<String, &'static str> {
        if let Ordering::Acquire(_) = self.ordering {
            return Err("a store cannot acquire; use Ordering::Release, and acquire with a load or a fence");
        }
        if matches!(
            self.cache,
            Some(CacheOperator::AllLevels | CacheOperator::LastUse | CacheOperator::DoNotCache)
        ) {
            return Err(
                "AllLevels, LastUse and DoNotCache are for loads; stores have WriteBack, GlobalLevel, Streaming and WriteThrough",
            );
        }
        if self.non_coherent || self.prefetch.is_some() {
            return Err("the non-coherent path and prefetching are for loads only");
        }
        self.opcode("st", space)
    }

    fn opcode(&self, name: &str, space: &str) -> Result<String, &'static str> {
        let ordered = self.ordering != Ordering::Weak;
        if ordered && (self.cache.is_some() || self.non_coherent) {
            return Err(
                "an ordered or volatile access takes no cache operator and no non-coherent path; drop one of the two",
            );
        }
        if self.cache.is_some() && self.eviction.is_some() {
            return Err("an access takes a cache operator or an eviction priority, not both");
        }
        if self.ordering == Ordering::Volatile && (self.eviction.is_some() || self.policy.is_some()) {
            return Err("a volatile access takes no eviction priority and no cache policy");
        }
        let (order, scope) = match self.ordering {
            Ordering::Weak => ("", ""),
            Ordering::Volatile => (".volatile", ""),
            Ordering::Relaxed(scope) => (".relaxed", scope.word()),
            Ordering::Acquire(scope) => (".acquire", scope.word()),
            Ordering::Release(scope) => (".release", scope.word()),
        };
        let cache = self.cache.map_or("", CacheOperator::word);
        let non_coherent = if self.non_coherent { ".nc" } else { "" };
        let eviction = self.eviction.map_or("", Eviction::word);
        let hint = if self.policy.is_some() { ".L2::cache_hint" } else { "" };
        let prefetch = self.prefetch.map_or("", L2Prefetch::word);
        Ok(format!("{name}{order}{scope}{space}{cache}{non_coherent}{eviction}{hint}{prefetch}"))
    }
}
