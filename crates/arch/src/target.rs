//! The words of `.target`: architectures, and their family- and architecture-specific variants.

/// An architecture that a module is for: `sm_90`, `sm_90a`, `sm_100f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// 90 for `sm_90a`.
    pub number: u32,
    /// Which features beyond the architecture's baseline the module may use.
    pub features: Features,
}

/// The features that a target's suffix adds (PTX ISA, ".target").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Features {
    /// No suffix: those that every later architecture has.
    Baseline,
    /// `f`: the instructions of the architecture's family, too.
    Family,
    /// `a`: the instructions of this architecture alone, too.
    Architecture,
}

/// Each architecture: its number, and the first PTX versions with its plain target, its `a` target
/// and its `f` target, as (major, minor).
///
/// Source: PTX ISA, ".target", "PTX ISA Notes" and "Target ISA Notes"; ptxas 13.0 takes the same.
type Row = (u32, (u32, u32), Option<(u32, u32)>, Option<(u32, u32)>);

const TARGETS: [Row; 31] = [
    (10, (1, 0), None, None),
    (11, (1, 0), None, None),
    (12, (1, 2), None, None),
    (13, (1, 2), None, None),
    (20, (2, 0), None, None),
    (21, (2, 0), None, None),
    (30, (3, 0), None, None),
    (32, (4, 0), None, None),
    (35, (3, 1), None, None),
    (37, (4, 1), None, None),
    (50, (4, 0), None, None),
    (52, (4, 1), None, None),
    (53, (4, 2), None, None),
    (60, (5, 0), None, None),
    (61, (5, 0), None, None),
    (62, (5, 0), None, None),
    (70, (6, 0), None, None),
    (72, (6, 1), None, None),
    (75, (6, 3), None, None),
    (80, (7, 0), None, None),
    (86, (7, 1), None, None),
    (87, (7, 4), None, None),
    (88, (7, 4), None, None),
    (89, (7, 8), None, None),
    (90, (7, 8), Some((8, 0)), None),
    (100, (8, 6), Some((8, 6)), Some((8, 8))),
    (101, (8, 6), Some((8, 6)), Some((8, 8))),
    (103, (8, 8), Some((8, 8)), Some((8, 8))),
    (110, (9, 0), Some((9, 0)), Some((9, 0))),
    (120, (8, 7), Some((8, 7)), Some((8, 8))),
    (121, (8, 8), Some((8, 8)), Some((8, 8))),
];

impl Target {
    /// The target of a word such as `sm_90a`; `None` if the word is of another form. The
    /// architecture may be unknown.
    pub fn parse(word: &str) -> Option<Self> {
        let name = word.strip_prefix("sm_")?;
        let (digits, features) = match name.as_bytes().last()? {
            b'a' => (&name[..name.len() - 1], Features::Architecture),
            b'f' => (&name[..name.len() - 1], Features::Family),
            _ => (name, Features::Baseline),
        };
        let is_number = digits.len() > 1 && digits.bytes().all(|digit| digit.is_ascii_digit());
        Some(Self { number: digits.parse().ok().filter(|_| is_number)?, features })
    }

    /// Every target of PTX 9.0, oldest first.
    pub fn all() -> impl Iterator<Item = Self> {
        let variants = [Features::Baseline, Features::Family, Features::Architecture];
        let all = TARGETS
            .into_iter()
            .flat_map(move |row| variants.map(|features| Self { number: row.0, features }));
        all.filter(|target| target.ptx_version().is_some())
    }

    /// The first PTX ISA version with the target, as (major, minor); `None` for a target that PTX 9.0
    /// does not have.
    pub fn ptx_version(self) -> Option<(u32, u32)> {
        let (_, plain, own, family) = TARGETS.into_iter().find(|row| row.0 == self.number)?;
        match self.features {
            Features::Baseline => Some(plain),
            Features::Architecture => own,
            Features::Family => family,
        }
    }

    /// The architecture's number today: `sm_101` is called `sm_110` since PTX 9.0.
    pub fn architecture(self) -> u32 {
        if self.number == 101 { 110 } else { self.number }
    }

    /// The number of its family's generation: 10 for sm_103.
    pub fn generation(self) -> u32 {
        self.architecture() / 10
    }

    /// Whether features that come with `other` are available in modules for this target.
    ///
    /// Those of a plain target are available on it and all later ones; those of an `f` target in the
    /// `f` and `a` targets of the family from it on; those of an `a` target in that target only.
    ///
    /// ```
    /// use warpwright_arch::Target;
    /// let target = |word| Target::parse(word).expect("a target");
    /// assert!(target("sm_103a").has_features_of(target("sm_100f")));
    /// assert!(!target("sm_103").has_features_of(target("sm_100f")));
    /// assert!(!target("sm_110a").has_features_of(target("sm_100f")));
    /// ```
    pub fn has_features_of(self, other: Self) -> bool {
        let reaches = self.architecture() >= other.architecture();
        match other.features {
            Features::Baseline => reaches,
            Features::Family => {
                reaches && self.generation() == other.generation() && self.features != Features::Baseline
            }
            Features::Architecture => {
                self.architecture() == other.architecture() && self.features == Features::Architecture
            }
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let suffix = match self.features {
            Features::Baseline => "",
            Features::Family => "f",
            Features::Architecture => "a",
        };
        write!(f, "sm_{}{suffix}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_read_back() {
        for target in Target::all() {
            assert_eq!(Target::parse(&target.to_string()), Some(target));
        }
        for wrong in ["", "sm_", "sm_9", "sm_a", "90a", "sm_90ax", "compute_90", "sm_9x"] {
            assert_eq!(Target::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Target::parse("sm_107a").and_then(Target::ptx_version), None);
    }
}
