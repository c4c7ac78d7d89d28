//! Roofs of the roofline model: measured where a measurement exists, else from the data sheet.

use crate::arch::Arch;

/// What bounds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bound {
    /// DRAM bandwidth, equal parts read and written, as in a copy; bytes per second.
    DeviceMemory,
    /// DRAM bandwidth, read only; bytes per second.
    DeviceMemoryReads,
    /// f32 on CUDA cores. This and the following are operations per second, two per multiply-add.
    F32,
    /// f16 and bf16 on CUDA cores.
    F16,
    /// f64 on CUDA cores.
    F64,
    /// Tensor cores on f64.
    TensorF64,
    /// Tensor cores on tf32.
    TensorTf32,
    /// Tensor cores on bf16.
    TensorBf16,
    /// Tensor cores on f16.
    TensorF16,
    /// Tensor cores on 8-, 6- and 4-bit floats at the rate of 8 bits.
    TensorFp8,
    /// Tensor cores on e2m1 with block scales.
    TensorFp4,
    /// Tensor cores on 8-bit integers.
    TensorInt8,
}

impl Bound {
    /// All bounds.
    pub const ALL: [Bound; 12] = [
        Bound::DeviceMemory,
        Bound::DeviceMemoryReads,
        Bound::F32,
        Bound::F16,
        Bound::F64,
        Bound::TensorF64,
        Bound::TensorTf32,
        Bound::TensorBf16,
        Bound::TensorF16,
        Bound::TensorFp8,
        Bound::TensorFp4,
        Bound::TensorInt8,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Bound::DeviceMemory => "device memory",
            Bound::DeviceMemoryReads => "its reads alone",
            Bound::F32 => "f32",
            Bound::F16 => "f16",
            Bound::F64 => "f64",
            Bound::TensorF64 => "tensor f64",
            Bound::TensorTf32 => "tensor tf32",
            Bound::TensorBf16 => "tensor bf16",
            Bound::TensorF16 => "tensor f16",
            Bound::TensorFp8 => "tensor fp8",
            Bound::TensorFp4 => "tensor fp4",
            Bound::TensorInt8 => "tensor int8",
        }
    }
}

/// A roof of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roof {
    /// What it bounds.
    pub bound: Bound,
    /// Bytes or operations per second.
    pub per_second: f64,
    /// Whether it is measured, not from the data sheet.
    pub is_measured: bool,
    /// The source of the figure.
    pub source: &'static str,
}

/// Measured roofs: GPU, bound, bytes or operations per second, method.
///
/// These are sustained rates, at the clock that the power limit allows; the peak of a data sheet
/// assumes a higher clock. Each is the best rate measured for any kernel. f32 is not measured: the
/// best SGEMM reaches 52.6 of 66.9 TFLOP/s at the full clock, and a kernel that computes only in
/// registers would exceed it.
static MEASURED: [(&str, Bound, f64, &str); 3] = [
    (
        "h200",
        Bound::DeviceMemory,
        4.28e12,
        "a copy of 2^30 bytes by 128 bits an access (docs/results/2026-11-21-memory-bound.md)",
    ),
    (
        "h200",
        Bound::DeviceMemoryReads,
        4.69e12,
        "a sum of 2^30 f32, the fastest of four cards (docs/results/2026-11-21-reduce-scan.md)",
    ),
    (
        "h200",
        Bound::TensorBf16,
        837.1e12,
        "a GEMM of 6144 cubed on a chip that rests before each batch (docs/results/2026-11-21-gemm-against-cublas.md)",
    ),
];

impl Arch {
    /// The roofs of the GPU, in the order of [`Bound::ALL`], without those of units that it lacks.
    ///
    /// ```
    /// use warpwright_arch::{Arch, Bound};
    /// let roofs = Arch::named("h200")?.roofs();
    /// assert_eq!((roofs[0].bound, roofs[0].per_second, roofs[0].is_measured), (Bound::DeviceMemory, 4.28e12, true));
    /// # Ok::<(), warpwright_arch::UnknownArch>(())
    /// ```
    pub fn roofs(&self) -> Vec<Roof> {
        let of_bound = |bound: Bound| {
            let measured = MEASURED.iter().find(|(arch, of, ..)| *arch == self.name && *of == bound);
            match measured {
                Some(&(_, _, per_second, source)) => Roof { bound, per_second, is_measured: true, source },
                None => Roof {
                    bound,
                    per_second: self.stated(bound),
                    is_measured: false,
                    source: match bound {
                        Bound::F32 | Bound::F16 | Bound::F64 => {
                            "issue rate of the cores at the highest clock"
                        }
                        _ => "the data sheet",
                    },
                },
            }
        };
        Bound::ALL.into_iter().map(of_bound).filter(|roof| roof.per_second > 0.0).collect()
    }

    /// f16 multiply-adds per SM and clock, two per instruction (CUDA C++ Programming Guide,
    /// "Throughput of Native Arithmetic Instructions").
    fn f16_per_sm_clock(&self) -> u32 {
        match self.capability.compute_capability {
            (8, 0) | (9 | 10, _) => 256,
            _ => 128,
        }
    }

    /// The figure of the data sheet.
    fn stated(&self, bound: Bound) -> f64 {
        match bound {
            Bound::DeviceMemory | Bound::DeviceMemoryReads => self.bytes_per_second,
            Bound::F32 => self.core_peak(self.f32_per_sm_clock),
            Bound::F16 => self.core_peak(self.f16_per_sm_clock()),
            Bound::F64 => self.core_peak(self.f64_per_sm_clock),
            Bound::TensorF64 => self.tensor_peak(self.tensor.f64),
            Bound::TensorTf32 => self.tensor_peak(self.tensor.tf32),
            Bound::TensorBf16 | Bound::TensorF16 => self.tensor_peak(self.tensor.f16),
            Bound::TensorFp8 => self.tensor_peak(self.tensor.fp8),
            Bound::TensorFp4 => self.tensor_peak(self.tensor.fp4),
            Bound::TensorInt8 => self.tensor_peak(self.tensor.int8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::ARCHITECTURES;

    #[test]
    fn nothing_measured_is_above_the_data_sheet() {
        for (name, bound, per_second, source) in MEASURED {
            let arch = Arch::named(name).expect("a GPU of the table");
            let stated = arch.stated(bound);
            assert!(per_second < stated && per_second > 0.5 * stated, "{name} {}: {source}", bound.name());
        }
    }

    #[test]
    fn every_gpu_has_memory_and_f32_first() {
        let first = [Bound::DeviceMemory, Bound::DeviceMemoryReads, Bound::F32];
        for arch in &ARCHITECTURES {
            let bounds: Vec<Bound> = arch.roofs().iter().map(|roof| roof.bound).collect();
            assert_eq!(bounds[..3], first, "{}", arch.name);
            assert_eq!(bounds.contains(&Bound::TensorFp8), arch.tensor.fp8 > 0, "{}", arch.name);
            assert_eq!(bounds.contains(&Bound::TensorFp4), arch.tensor.fp4 > 0, "{}", arch.name);
        }
    }
}
