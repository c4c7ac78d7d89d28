//! The special registers: `%tid.x`, `%clock64` (PTX ISA, "Special Registers").

use crate::instructions::Since;
use crate::target::Target;

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialRegister {
    /// Its bits; 1 for a predicate.
    pub bits: u32,
    /// Whether the register is a whole vector: `%tid`.
    pub is_vector: bool,
    since: Since,
}

const fn since(ptx_version: (u32, u32), sm: u32) -> Since {
    Since { ptx_version, sm }
}

const CLUSTERS: Since = since((7, 8), 90);

/// The names of vectors, whose components are registers of 32 bits.
const VECTORS: [(&str, Since); 8] = [
    ("tid", Since::ALWAYS),
    ("ntid", Since::ALWAYS),
    ("ctaid", Since::ALWAYS),
    ("nctaid", Since::ALWAYS),
    ("clusterid", CLUSTERS),
    ("nclusterid", CLUSTERS),
    ("cluster_ctaid", CLUSTERS),
    ("cluster_nctaid", CLUSTERS),
];

const COMPONENTS: [&str; 8] = ["x", "y", "z", "w", "r", "g", "b", "a"];

const SCALARS: [(&str, u32, Since); 33] = [
    ("laneid", 32, Since::ALWAYS),
    ("warpid", 32, Since::ALWAYS),
    ("nwarpid", 32, Since::ALWAYS),
    ("smid", 32, Since::ALWAYS),
    ("nsmid", 32, Since::ALWAYS),
    ("gridid", 64, Since::ALWAYS),
    ("is_explicit_cluster", 1, CLUSTERS),
    ("cluster_ctarank", 32, CLUSTERS),
    ("cluster_nctarank", 32, CLUSTERS),
    ("lanemask_eq", 32, Since::ALWAYS),
    ("lanemask_le", 32, Since::ALWAYS),
    ("lanemask_lt", 32, Since::ALWAYS),
    ("lanemask_ge", 32, Since::ALWAYS),
    ("lanemask_gt", 32, Since::ALWAYS),
    ("clock", 32, Since::ALWAYS),
    ("clock_hi", 32, since((5, 0), 20)),
    ("clock64", 64, Since::ALWAYS),
    ("pm0_64", 64, since((4, 0), 50)),
    ("pm1_64", 64, since((4, 0), 50)),
    ("pm2_64", 64, since((4, 0), 50)),
    ("pm3_64", 64, since((4, 0), 50)),
    ("globaltimer", 64, since((3, 1), 30)),
    ("globaltimer_lo", 32, since((3, 1), 30)),
    ("globaltimer_hi", 32, since((3, 1), 30)),
    ("reserved_smem_offset_begin", 32, since((7, 6), 80)),
    ("reserved_smem_offset_end", 32, since((7, 6), 80)),
    ("reserved_smem_offset_cap", 32, since((7, 6), 80)),
    ("reserved_smem_offset_0", 32, since((7, 6), 80)),
    ("reserved_smem_offset_1", 32, since((7, 6), 80)),
    ("total_smem_size", 32, since((4, 1), 20)),
    ("aggr_smem_size", 32, since((8, 1), 90)),
    ("dynamic_smem_size", 32, since((4, 1), 20)),
    ("current_graph_exec", 64, since((8, 0), 50)),
];

/// The names of numbered registers of 32 bits, and how many there are.
const NUMBERED: [(&str, u32); 2] = [("pm", 8), ("envreg", 32)];

impl SpecialRegister {
    /// The register of a name with its `%`.
    ///
    /// ```
    /// use warpwright_arch::SpecialRegister;
    /// assert_eq!(SpecialRegister::named("%clock64").map(|register| register.bits), Some(64));
    /// assert_eq!(SpecialRegister::named("%r1"), None);
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix('%')?;
        let (first, component) =
            name.split_once('.').map_or((name, None), |(first, last)| (first, Some(last)));
        if let Some((_, since)) = VECTORS.into_iter().find(|(vector, _)| *vector == first) {
            let is_known = component.is_none_or(|component| COMPONENTS.contains(&component));
            return is_known.then_some(Self { bits: 32, is_vector: component.is_none(), since });
        }
        if let Some((_, bits, since)) = SCALARS.into_iter().find(|(scalar, ..)| *scalar == name) {
            return Some(Self { bits, is_vector: false, since });
        }
        let is_numbered = NUMBERED.into_iter().any(|(prefix, count)| {
            let number = name.strip_prefix(prefix).and_then(|number| number.parse::<u32>().ok());
            number.is_some_and(|number| number < count)
        });
        is_numbered.then_some(Self { bits: 32, is_vector: false, since: Since::ALWAYS })
    }

    /// Whether a module of this version for this target may read it.
    pub fn exists_on(&self, version: (u32, u32), target: Target) -> bool {
        self.since.includes(version, target)
    }

    /// From when it exists.
    pub fn since(&self) -> Since {
        self.since
    }
}
