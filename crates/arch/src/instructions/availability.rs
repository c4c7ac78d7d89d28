//! Which PTX versions and targets have an instruction.

use std::fmt;

use crate::target::{Features, Target};

/// From when an instruction exists: the PTX ISA version, as (major, minor), and the architecture, 80
/// for sm_80. A module needs both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Since {
    /// The first version.
    pub ptx_version: (u32, u32),
    /// The first architecture.
    pub sm: u32,
}

impl Since {
    /// PTX 2.0 and sm_20. Versions and architectures before them count as these.
    pub(crate) const ALWAYS: Self = Self { ptx_version: (2, 0), sm: 20 };

    fn both(self, other: Self) -> Self {
        Self { ptx_version: self.ptx_version.max(other.ptx_version), sm: self.sm.max(other.sm) }
    }

    /// Whether a module of this version for this target comes after both.
    pub(crate) fn includes(self, version: (u32, u32), target: Target) -> bool {
        version.max(Self::ALWAYS.ptx_version) >= self.ptx_version
            && target.architecture().max(Self::ALWAYS.sm) >= self.sm
    }
}

impl fmt::Display for Since {
    /// `PTX 7.8 or later on sm_90 or later`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.ptx_version;
        write!(f, "PTX {major}.{minor} or later on sm_{} or later", self.sm)
    }
}

/// The targets and versions that have one spelling of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Availability {
    /// The first version and architecture.
    pub since: Since,
    /// The targets whose features it is one of; empty if all later architectures have it.
    pub only_on: &'static [&'static str],
    /// From when on it no longer exists.
    pub until: Option<Since>,
}

impl Availability {
    /// Whether a module of this version for this target may use the instruction.
    pub fn includes(&self, version: (u32, u32), target: Target) -> bool {
        let is_own = |word: &&str| Target::parse(word).is_some_and(|own| target.has_features_of(own));
        self.since.includes(version, target)
            && (self.only_on.is_empty() || self.only_on.iter().any(is_own))
            && !self
                .until
                .is_some_and(|until| until.sm <= target.architecture() && until.ptx_version <= version)
    }

    /// The same for a target as its word.
    pub fn exists_on(&self, version: (u32, u32), target: &str) -> bool {
        Target::parse(target).is_some_and(|target| self.includes(version, target))
    }
}

impl Availability {
    /// The targets that have it, in words: `sm_90 or later`, `sm_100a, sm_103a or sm_110a`.
    pub fn targets(&self) -> String {
        if self.only_on.is_empty() {
            return format!("sm_{} or later", self.since.sm);
        }
        let is_own = |target: &Target| {
            let named = self.only_on.iter().filter_map(|word| Target::parse(word));
            target.features == Features::Architecture
                && target.number != 101
                && named.into_iter().any(|own| target.has_features_of(own))
        };
        let targets: Vec<String> = Target::all().filter(is_own).map(|target| target.to_string()).collect();
        match targets.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => targets.join(""),
        }
    }
}

impl fmt::Display for Availability {
    /// `PTX 7.8 or later on sm_90 or later`, `PTX 8.0 or later on sm_90a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.since.ptx_version;
        write!(f, "PTX {major}.{minor} or later on {}", self.targets())?;
        match self.until {
            None => Ok(()),
            Some(Since { ptx_version: (major, minor), sm }) => {
                write!(f, ", and no longer on sm_{sm} or later from PTX {major}.{minor} on")
            }
        }
    }
}

/// `wgmma`.
pub(super) const HOPPER: &[&str] = &["sm_90a"];
/// Features of every Blackwell.
pub(super) const BLACKWELL: &[&str] = &["sm_100f", "sm_110f", "sm_120f"];
/// ... and of Hopper.
pub(super) const ACCELERATED: &[&str] = &["sm_90a", "sm_100f", "sm_110f", "sm_120f"];
/// `tcgen05` and what belongs to it.
pub(super) const TENSOR_MEMORY: &[&str] = &["sm_100f", "sm_110f"];
/// The B200 and the B300.
pub(super) const DATACENTER: &[&str] = &["sm_100f"];
/// Rounding by random bits.
pub(super) const STOCHASTIC: &[&str] = &["sm_100a", "sm_103a"];
/// Loads of tensor memory that reduce.
pub(super) const REDUCING: &[&str] = &["sm_103f", "sm_110f"];
/// Products of bytes in tensor memory.
pub(super) const BYTE_PRODUCTS: &[&str] = &["sm_100a", "sm_110a"];
/// Scales of blocks in tensor memory.
pub(super) const BLOCK_SCALES: &[&str] = &["sm_100a", "sm_103a", "sm_110a"];
/// Small floats in memory that several GPUs hold together.
pub(super) const SHARED_SMALL_FLOATS: &[&str] = &["sm_100f", "sm_110f", "sm_120a", "sm_121a"];
/// MMAs of small floats by warps.
pub(super) const GEFORCE: &[&str] = &["sm_120f"];
/// ... with scales of blocks of 4-bit floats.
pub(super) const GEFORCE_SCALES: &[&str] = &["sm_120a", "sm_121a"];

/// Words that are newer than the forms that have them.
struct Later {
    /// The first words of the instructions that this is about; empty for all.
    bases: &'static [&'static str],
    /// The words, in alternatives; in one of several joined by dots, all are in the name.
    words: &'static str,
    since: Since,
}

const fn later(
    bases: &'static [&'static str],
    words: &'static str,
    ptx_version: (u32, u32),
    sm: u32,
) -> Later {
    Later { bases, words, since: Since { ptx_version, sm } }
}

/// Source: PTX ISA, "PTX ISA Notes" and "Target ISA Notes" of each instruction, where ptxas 13.0
/// agrees; else what ptxas takes.
const LATER: &[Later] = &[
    later(&[], "weak|relaxed|acquire|release|acq_rel|sc", (6, 0), 70),
    later(&[], "cluster", (7, 8), 90),
    later(&[], "shared::cluster", (7, 8), 90),
    later(
        &["atom", "cvta", "isspacep", "ld", "ldmatrix", "mbarrier", "red", "st", "stmatrix"],
        "shared::cta",
        (7, 8),
        20,
    ),
    later(&["cp"], "arrive.shared::cta", (7, 8), 80),
    later(&["bar", "barrier"], "cta", (7, 8), 20),
    later(&["atom", "red"], "cta|gpu|sys", (5, 0), 60),
    later(&[], "L2::cache_hint", (7, 4), 80),
    later(
        &["ld", "st"],
        "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate",
        (7, 4),
        70,
    ),
    later(&["cp", "ld"], "L2::64B|L2::128B", (7, 4), 75),
    later(&["cp", "ld"], "L2::256B", (7, 4), 80),
    later(&[], "NaN|relu|bf16|bf16x2|tf32", (7, 0), 80),
    later(&["ld", "mov", "st"], "b128", (8, 3), 70),
    later(&["atom", "ld", "st"], "b128.sys", (8, 4), 70),
    later(&["atom", "red"], "b64.and|b64.or|b64.xor|u64.min|u64.max|s64.min|s64.max", (3, 1), 32),
    later(&["atom", "red"], "f64", (5, 0), 60),
    later(&["atom"], "b16", (6, 3), 70),
    later(&["atom", "red"], "f16", (6, 3), 70),
    later(&["atom", "red"], "f16x2", (6, 2), 60),
    later(&["mbarrier"], "release.cta|acquire.cta|release.cluster|acquire.cluster", (8, 0), 80),
    later(&["cvta", "isspacep"], "const", (3, 1), 20),
    later(&["cvta", "isspacep"], "param", (7, 7), 70),
    later(&["cvta", "isspacep"], "param::entry", (8, 3), 70),
    later(&["ld"], "param::entry", (8, 3), 20),
    later(&["ld", "st"], "param::func", (8, 3), 20),
    later(&["cvt"], "u4|s4|u2|s2", (6, 5), 75),
    later(&["mad", "madc"], "cc.u64|cc.s64", (4, 3), 20),
    later(&["rsqrt"], "ftz.f64", (4, 0), 20),
    later(&["abs"], "f16|f16x2", (6, 5), 53),
    later(&["set"], "u16.f16|s16.f16|u32.f16|s32.f16|u32.f16x2|s32.f16x2", (6, 5), 53),
    later(&["mma", "wmma"], "and", (7, 1), 80),
    later(&["mma"], "sp::ordered_metadata", (8, 5), 80),
];

/// From when the words of a name exist.
pub(super) fn of_words(name: &str) -> Since {
    let mut words = name.split('.');
    let base = words.next().unwrap_or("");
    let words: Vec<&str> = words.collect();
    let applies = |later: &&Later| {
        let has_all = |joined: &str| joined.split('.').all(|word| words.contains(&word));
        (later.bases.is_empty() || later.bases.contains(&base)) && later.words.split('|').any(has_all)
    };
    LATER.iter().filter(applies).fold(Since::ALWAYS, |since, later| since.both(later.since))
}

impl super::Form {
    /// The targets and versions that have the spelling `name` of the form.
    pub fn availability(&self, name: &str) -> Availability {
        Availability { since: self.since.both(of_words(name)), only_on: self.only_on, until: self.until }
    }
}
