//! The GPU products: one row each.

use crate::capability::{CAPABILITIES, Capability, OTHER_CAPABILITIES};

/// One GPU product.
#[derive(Debug, PartialEq)]
pub struct Arch {
    /// The name in lower case: `h200`.
    pub name: &'static str,
    /// The vendor's product name.
    pub product: &'static str,
    /// The limits of its compute capability.
    pub capability: &'static Capability,
    /// SMs enabled.
    pub sm_count: u32,
    /// Global memory, in bytes.
    pub global_bytes: u64,
    /// Bandwidth of global memory, in bytes per second.
    pub bytes_per_second: f64,
    /// L2 cache, in bytes.
    pub l2_bytes: u64,
    /// The SMs' highest clock, in MHz.
    pub boost_mhz: u32,
    /// The clock at which the vendor states the tensor rates, in MHz.
    pub tensor_mhz: u32,
    /// f32 multiply-adds per SM and clock, without tensor cores.
    pub f32_per_sm_clock: u32,
    /// f64 multiply-adds per SM and clock, without tensor cores.
    pub f64_per_sm_clock: u32,
    /// Tensor-core rates.
    pub tensor: TensorRates,
}

/// Dense tensor-core multiply-adds per SM and clock, by operand type. Accumulation is f32 for
/// floating-point types below 64 bits and s32 for integers. 0 if the tensor cores lack the type.
#[derive(Debug, PartialEq, Eq)]
pub struct TensorRates {
    /// f64 operands.
    pub f64: u32,
    /// tf32 operands.
    pub tf32: u32,
    /// f16 and bf16 operands.
    pub f16: u32,
    /// e4m3 and e5m2 operands.
    pub fp8: u32,
    /// e2m1 operands.
    pub fp4: u32,
    /// s8 and u8 operands.
    pub int8: u32,
}

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Every GPU in the table.
///
/// Sources: the white paper and data sheet of each product. Rates per clock are the dense peak of
/// the data sheet divided by SMs and clock; a test below multiplies them out. The bandwidth of the
/// B200 is its memory clock times the bus width that the driver reports (7680 bits at 3996 MHz, two
/// transfers per clock). `tcgen05` of the B300 has no integers; its data sheet gives the others.
///
/// | GPU | document |
/// |---|---|
/// | V100 | "NVIDIA Tesla V100 GPU Architecture" (WP-08608-001) for SMs, clock, rates and L2; the data sheet of the V100 for 32 GB and 900 GB/s |
/// | T4 | "NVIDIA Turing GPU Architecture" (WP-09183-001), appendix on the Tesla T4 |
/// | Thor | "NVIDIA Jetson Thor Series Modules Data Sheet", T5000: 2,560 cores at 1.57 GHz, 273 GB/s, 2,070 TFLOP/s of sparse e2m1; the driver reports 20 SMs and 32 MiB of L2 |
/// | GB10 | "NVIDIA DGX Spark" data sheet: 6,144 cores, 273 GB/s, 1 PFLOP/s of sparse e2m1; NVIDIA's talk at Hot Chips 2025: 31 TFLOP/s of f32 and the L2 |
///
/// The other rates of the Thor follow from the B200's. The GB10's follow from the RTX 5090's.
pub static ARCHITECTURES: [Arch; 14] = [
    Arch {
        name: "a100",
        product: "NVIDIA A100-SXM4-80GB",
        capability: &CAPABILITIES[0],
        sm_count: 108,
        global_bytes: 80 * GIB,
        bytes_per_second: 2039e9,
        l2_bytes: 40 * MIB,
        boost_mhz: 1410,
        tensor_mhz: 1410,
        f32_per_sm_clock: 64,
        f64_per_sm_clock: 32,
        tensor: TensorRates { f64: 64, tf32: 512, f16: 1024, fp8: 0, fp4: 0, int8: 2048 },
    },
    Arch {
        name: "a10",
        product: "NVIDIA A10",
        capability: &CAPABILITIES[1],
        sm_count: 72,
        global_bytes: 24 * GIB,
        bytes_per_second: 600e9,
        l2_bytes: 6 * MIB,
        boost_mhz: 1695,
        tensor_mhz: 1695,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 2,
        tensor: TensorRates { f64: 2, tf32: 256, f16: 512, fp8: 0, fp4: 0, int8: 1024 },
    },
    Arch {
        name: "rtx3090",
        product: "NVIDIA GeForce RTX 3090",
        capability: &CAPABILITIES[1],
        sm_count: 82,
        global_bytes: 24 * GIB,
        bytes_per_second: 936e9,
        l2_bytes: 6 * MIB,
        boost_mhz: 1695,
        tensor_mhz: 1695,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 2,
        tensor: TensorRates { f64: 2, tf32: 128, f16: 256, fp8: 0, fp4: 0, int8: 1024 },
    },
    Arch {
        name: "l40s",
        product: "NVIDIA L40S",
        capability: &CAPABILITIES[2],
        sm_count: 142,
        global_bytes: 48 * GIB,
        bytes_per_second: 864e9,
        l2_bytes: 96 * MIB,
        boost_mhz: 2520,
        tensor_mhz: 2520,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 2,
        tensor: TensorRates { f64: 2, tf32: 256, f16: 512, fp8: 1024, fp4: 0, int8: 1024 },
    },
    Arch {
        name: "rtx4090",
        product: "NVIDIA GeForce RTX 4090",
        capability: &CAPABILITIES[2],
        sm_count: 128,
        global_bytes: 24 * GIB,
        bytes_per_second: 1008e9,
        l2_bytes: 72 * MIB,
        boost_mhz: 2520,
        tensor_mhz: 2520,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 2,
        tensor: TensorRates { f64: 2, tf32: 128, f16: 256, fp8: 512, fp4: 0, int8: 1024 },
    },
    Arch {
        name: "h100",
        product: "NVIDIA H100 80GB HBM3",
        capability: &CAPABILITIES[3],
        sm_count: 132,
        global_bytes: 80 * GIB,
        bytes_per_second: 3352e9,
        l2_bytes: 50 * MIB,
        boost_mhz: 1980,
        tensor_mhz: 1830,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 64,
        tensor: TensorRates { f64: 128, tf32: 1024, f16: 2048, fp8: 4096, fp4: 0, int8: 4096 },
    },
    Arch {
        name: "h200",
        product: "NVIDIA H200",
        capability: &CAPABILITIES[3],
        sm_count: 132,
        global_bytes: 141 * GIB,
        bytes_per_second: 4800e9,
        l2_bytes: 60 * MIB,
        boost_mhz: 1980,
        tensor_mhz: 1830,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 64,
        tensor: TensorRates { f64: 128, tf32: 1024, f16: 2048, fp8: 4096, fp4: 0, int8: 4096 },
    },
    Arch {
        name: "b200",
        product: "NVIDIA B200",
        capability: &CAPABILITIES[4],
        sm_count: 148,
        global_bytes: 180 * GIB,
        bytes_per_second: 7672e9,
        l2_bytes: 126 * MIB + MIB / 2,
        boost_mhz: 1965,
        tensor_mhz: 1850,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 64,
        tensor: TensorRates { f64: 64, tf32: 2048, f16: 4096, fp8: 8192, fp4: 16384, int8: 8192 },
    },
    Arch {
        name: "b300",
        product: "NVIDIA B300",
        capability: &CAPABILITIES[5],
        sm_count: 148,
        global_bytes: 268 * GIB,
        bytes_per_second: 8000e9,
        l2_bytes: 126 * MIB + MIB / 2,
        boost_mhz: 1965,
        tensor_mhz: 1850,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 2,
        tensor: TensorRates { f64: 2, tf32: 2048, f16: 4096, fp8: 8192, fp4: 24576, int8: 0 },
    },
    Arch {
        name: "rtx5090",
        product: "NVIDIA GeForce RTX 5090",
        capability: &CAPABILITIES[6],
        sm_count: 170,
        global_bytes: 32 * GIB,
        bytes_per_second: 1792e9,
        l2_bytes: 96 * MIB,
        boost_mhz: 2407,
        tensor_mhz: 2407,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 2,
        tensor: TensorRates { f64: 2, tf32: 128, f16: 256, fp8: 512, fp4: 2048, int8: 1024 },
    },
    Arch {
        name: "v100",
        product: "Tesla V100-SXM2-32GB",
        capability: &OTHER_CAPABILITIES[0],
        sm_count: 80,
        global_bytes: 32 * GIB,
        bytes_per_second: 900e9,
        l2_bytes: 6 * MIB,
        boost_mhz: 1530,
        tensor_mhz: 1530,
        f32_per_sm_clock: 64,
        f64_per_sm_clock: 32,
        tensor: TensorRates { f64: 0, tf32: 0, f16: 512, fp8: 0, fp4: 0, int8: 0 },
    },
    Arch {
        name: "t4",
        product: "Tesla T4",
        capability: &OTHER_CAPABILITIES[2],
        sm_count: 40,
        global_bytes: 16 * GIB,
        bytes_per_second: 320e9,
        l2_bytes: 4 * MIB,
        boost_mhz: 1590,
        tensor_mhz: 1590,
        f32_per_sm_clock: 64,
        f64_per_sm_clock: 2,
        tensor: TensorRates { f64: 0, tf32: 0, f16: 512, fp8: 0, fp4: 0, int8: 1024 },
    },
    Arch {
        name: "thor",
        product: "NVIDIA Thor",
        capability: &OTHER_CAPABILITIES[6],
        sm_count: 20,
        global_bytes: 128 * GIB,
        bytes_per_second: 273e9,
        l2_bytes: 32 * MIB,
        boost_mhz: 1575,
        tensor_mhz: 1575,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 2,
        tensor: TensorRates { f64: 2, tf32: 2048, f16: 4096, fp8: 8192, fp4: 16384, int8: 8192 },
    },
    Arch {
        name: "gb10",
        product: "NVIDIA GB10",
        capability: &OTHER_CAPABILITIES[7],
        sm_count: 48,
        global_bytes: 128 * GIB,
        bytes_per_second: 273e9,
        l2_bytes: 24 * MIB,
        boost_mhz: 2525,
        tensor_mhz: 2525,
        f32_per_sm_clock: 128,
        f64_per_sm_clock: 2,
        tensor: TensorRates { f64: 2, tf32: 128, f16: 256, fp8: 512, fp4: 2048, int8: 1024 },
    },
];

/// No GPU of that name or target is in the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown GPU `{given}`; known GPUs: {}", known())]
pub struct UnknownArch {
    /// The name or target given.
    pub given: String,
}

fn known() -> String {
    let names: Vec<_> =
        ARCHITECTURES.iter().map(|arch| format!("{} ({})", arch.name, arch.capability.target)).collect();
    names.join(", ")
}

impl Arch {
    /// The GPU named `name`, case-insensitive: `h200`.
    pub fn named(name: &str) -> Result<&'static Self, UnknownArch> {
        let found = ARCHITECTURES.iter().find(|arch| arch.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| UnknownArch { given: name.to_owned() })
    }

    /// The GPU used for a `.target` if no product is named: the one of its capability with the most
    /// memory.
    pub fn for_target(target: &str) -> Result<&'static Self, UnknownArch> {
        let unknown = || UnknownArch { given: target.to_owned() };
        let capability = Capability::with_limits_of(target).ok_or_else(unknown)?;
        let rows = ARCHITECTURES.iter().filter(|arch| arch.capability == capability);
        rows.max_by_key(|arch| arch.global_bytes).ok_or_else(unknown)
    }

    /// The peak of the tensor cores for an operand's rate in [`TensorRates`], in operations per
    /// second (two for each multiply-add).
    pub fn tensor_peak(&self, per_sm_clock: u32) -> f64 {
        2.0 * f64::from(per_sm_clock) * f64::from(self.sm_count) * f64::from(self.tensor_mhz) * 1e6
    }

    /// The peak of the CUDA cores for multiply-adds of an SM in a clock, in operations per second.
    pub fn core_peak(&self, per_sm_clock: u32) -> f64 {
        2.0 * f64::from(per_sm_clock) * f64::from(self.sm_count) * f64::from(self.boost_mhz) * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_targets_find_their_row() {
        for arch in &ARCHITECTURES {
            assert_eq!(Arch::named(arch.name), Ok(arch));
            assert_eq!(Arch::named(&arch.name.to_uppercase()), Ok(arch));
            let of_target = Arch::for_target(arch.capability.target).expect("every target has a product");
            assert_eq!(of_target.capability, arch.capability);
        }
        for capability in &CAPABILITIES {
            assert!(Arch::for_target(capability.target).is_ok(), "{} has no product", capability.target);
        }
        assert_eq!(Arch::for_target("sm_90a").map(|arch| arch.name), Ok("h200"));
    }

    #[test]
    fn an_unknown_name_is_told_what_is_known() {
        let message = Arch::named("h300").expect_err("no such GPU").to_string();
        assert!(message.contains("`h300`") && message.contains("h200 (sm_90a)"), "{message}");
        assert_eq!(Arch::for_target("sm_70").map(|arch| arch.name), Ok("v100"));
        assert!(Arch::for_target("sm_62").is_err());
    }

    #[test]
    fn rates_multiply_out_to_the_data_sheets() {
        // (name, f16, tf32, int8, f32) as the vendor states them, in tera-operations per second,
        // dense.
        let stated = [
            ("a100", 312.0, 156.0, 624.0, 19.5),
            ("a10", 125.0, 62.5, 250.0, 31.2),
            ("rtx3090", 71.0, 35.6, 284.0, 35.6),
            ("l40s", 362.0, 183.0, 733.0, 91.6),
            ("rtx4090", 165.2, 82.6, 660.6, 82.6),
            ("h100", 989.4, 494.7, 1978.9, 66.9),
            ("h200", 989.4, 494.7, 1978.9, 66.9),
            ("b200", 2250.0, 1125.0, 4500.0, 74.5),
            ("b300", 2250.0, 1125.0, 0.0, 75.0),
            ("rtx5090", 209.5, 104.8, 838.0, 104.8),
            ("v100", 125.0, 0.0, 0.0, 15.7),
            ("t4", 65.0, 0.0, 130.0, 8.1),
            ("thor", 258.7, 129.4, 517.5, 8.06),
            ("gb10", 62.0, 31.0, 248.2, 31.0),
        ];
        assert_eq!(stated.len(), ARCHITECTURES.len());
        for (arch, (name, f16, tf32, int8, f32)) in ARCHITECTURES.iter().zip(stated) {
            assert_eq!(arch.name, name);
            let cores =
                2.0 * f64::from(arch.f32_per_sm_clock * arch.sm_count) * f64::from(arch.boost_mhz) * 1e6;
            let computed = [
                (arch.tensor_peak(arch.tensor.f16), f16),
                (arch.tensor_peak(arch.tensor.tf32), tf32),
                (arch.tensor_peak(arch.tensor.int8), int8),
                (cores, f32),
            ];
            for (computed, stated) in computed {
                let error = (computed - stated * 1e12).abs();
                assert!(
                    error <= 0.02 * stated * 1e12,
                    "{name}: {} TFLOP/s against {stated} stated",
                    computed / 1e12
                );
            }
        }
    }
}
