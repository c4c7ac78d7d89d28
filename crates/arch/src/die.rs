//! The dies that products are cut from: how many transistors, and how the SMs are grouped.

use crate::arch::Arch;
use crate::capability::Capability;

/// A die, or two that act as one. A product has some of its SMs enabled.
#[derive(Debug, PartialEq)]
pub struct Die {
    /// NVIDIA's name: `GH100`.
    pub name: &'static str,
    /// The year of its first product.
    pub year: u32,
    /// The process of the foundry.
    pub process: &'static str,
    /// Transistors.
    pub transistors: f64,
    /// Graphics processing clusters.
    pub gpcs: u32,
    /// Texture processing clusters of a GPC, each with two SMs.
    pub tpcs_per_gpc: u32,
    /// Pieces of silicon.
    pub pieces: u32,
    /// The document that has these figures.
    pub source: &'static str,
}

/// SMs of a TPC, since Pascal.
const SMS_PER_TPC: u32 = 2;

/// Each die, and the products that have it, by their names in [`ARCHITECTURES`](crate::ARCHITECTURES).
const DIES: [(&[&str], Die); 8] = [
    (
        &["v100"],
        Die {
            name: "GV100",
            year: 2017,
            process: "12 nm FFN",
            transistors: 21.1e9,
            gpcs: 6,
            tpcs_per_gpc: 7,
            pieces: 1,
            source: "NVIDIA Tesla V100 GPU Architecture, WP-08608-001",
        },
    ),
    (
        &["t4"],
        Die {
            name: "TU104",
            year: 2018,
            process: "12 nm FFN",
            transistors: 13.6e9,
            gpcs: 6,
            tpcs_per_gpc: 4,
            pieces: 1,
            source: "NVIDIA Turing GPU Architecture, WP-09183-001",
        },
    ),
    (
        &["a100"],
        Die {
            name: "GA100",
            year: 2020,
            process: "7 nm N7",
            transistors: 54.2e9,
            gpcs: 8,
            tpcs_per_gpc: 8,
            pieces: 1,
            source: "NVIDIA A100 Tensor Core GPU Architecture",
        },
    ),
    (
        &["a10", "rtx3090"],
        Die {
            name: "GA102",
            year: 2020,
            process: "8 nm 8N",
            transistors: 28.3e9,
            gpcs: 7,
            tpcs_per_gpc: 6,
            pieces: 1,
            source: "NVIDIA Ampere GA102 GPU Architecture",
        },
    ),
    (
        &["l40s", "rtx4090"],
        Die {
            name: "AD102",
            year: 2022,
            process: "4N",
            transistors: 76.3e9,
            gpcs: 12,
            tpcs_per_gpc: 6,
            pieces: 1,
            source: "NVIDIA Ada GPU Architecture",
        },
    ),
    (
        &["h100", "h200"],
        Die {
            name: "GH100",
            year: 2022,
            process: "4N",
            transistors: 80e9,
            gpcs: 8,
            tpcs_per_gpc: 9,
            pieces: 1,
            source: "NVIDIA H100 Tensor Core GPU Architecture",
        },
    ),
    (
        &["b200", "b300"],
        Die {
            name: "GB100",
            year: 2024,
            process: "4NP",
            transistors: 208e9,
            gpcs: 8,
            tpcs_per_gpc: 10,
            pieces: 2,
            source: "NVIDIA Blackwell Architecture Technical Brief; for the clusters, \"Inside NVIDIA Blackwell Ultra\"",
        },
    ),
    (
        &["rtx5090"],
        Die {
            name: "GB202",
            year: 2025,
            process: "4N",
            transistors: 92.2e9,
            gpcs: 12,
            tpcs_per_gpc: 8,
            pieces: 1,
            source: "NVIDIA RTX Blackwell GPU Architecture",
        },
    ),
];

impl Die {
    /// SMs of a TPC.
    pub const SMS_PER_TPC: u32 = SMS_PER_TPC;

    /// SMs of the whole die.
    pub const fn sm_count(&self) -> u32 {
        self.gpcs * self.tpcs_per_gpc * SMS_PER_TPC
    }
}

impl Capability {
    /// Tensor cores of a partition of an SM. Volta's and Turing's white papers have eight in an SM, all later ones four.
    pub fn tensor_cores_per_partition(&self) -> u32 {
        if self.compute_capability.0 == 7 { 2 } else { 1 }
    }
}

impl Arch {
    /// The die of the product, where NVIDIA describes it.
    pub fn die(&self) -> Option<&'static Die> {
        DIES.iter().find(|(products, _)| products.contains(&self.name)).map(|(_, die)| die)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::ARCHITECTURES;

    #[test]
    fn a_product_has_some_of_its_dies_sms() {
        let of = |name: &str| Arch::named(name).expect("a product").die().expect("a die").sm_count();
        assert_eq!(["v100", "t4", "a100", "rtx3090"].map(of), [84, 48, 128, 84]);
        assert_eq!(["rtx4090", "h200", "b200", "rtx5090"].map(of), [144, 144, 160, 192]);
        for arch in &ARCHITECTURES {
            assert!(arch.die().is_none_or(|die| arch.sm_count <= die.sm_count()), "{}", arch.name);
        }
        for (products, die) in &DIES {
            assert!(products.iter().all(|name| Arch::named(name).is_ok()), "{}", die.name);
        }
    }
}
