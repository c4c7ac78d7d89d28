//! The work of an instruction, and the SM unit that does it.

use serde::Serialize;
use warpwright_arch::Arch;

/// The unit that a warp's instruction occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Arithmetic of f16 and bf16 on CUDA cores.
    F16,
    /// Arithmetic of f32 on CUDA cores.
    F32,
    /// Arithmetic of f64 on CUDA cores.
    F64,
    /// Integers, logic, comparisons and selections.
    Integer,
    /// Conversions between types.
    Conversion,
    /// The special function unit: reciprocals, roots, sines, logarithms, powers.
    Special,
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
    /// Tensor cores on e2m1 with block scales (`.kind::mxf4`, `.kind::mxf4nvf4`).
    TensorFp4,
    /// Tensor cores on 8-bit integers.
    TensorInt8,
    /// Tensor cores on 4-bit integers.
    TensorInt4,
    /// Tensor cores on single bits.
    TensorBinary,
    /// Loads, stores, atomics and copies.
    Memory,
    /// Branches, barriers, fences, moves: no arithmetic.
    Control,
}

impl Unit {
    /// All of them.
    pub const ALL: [Unit; 17] = [
        Unit::F16,
        Unit::F32,
        Unit::F64,
        Unit::Integer,
        Unit::Conversion,
        Unit::Special,
        Unit::TensorF64,
        Unit::TensorTf32,
        Unit::TensorBf16,
        Unit::TensorF16,
        Unit::TensorFp8,
        Unit::TensorFp4,
        Unit::TensorInt8,
        Unit::TensorInt4,
        Unit::TensorBinary,
        Unit::Memory,
        Unit::Control,
    ];

    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Unit::F16 => "f16",
            Unit::F32 => "f32",
            Unit::F64 => "f64",
            Unit::Integer => "integer",
            Unit::Conversion => "conversion",
            Unit::Special => "special function",
            Unit::TensorF64 => "tensor f64",
            Unit::TensorTf32 => "tensor tf32",
            Unit::TensorBf16 => "tensor bf16",
            Unit::TensorF16 => "tensor f16",
            Unit::TensorFp8 => "tensor fp8",
            Unit::TensorFp4 => "tensor fp4",
            Unit::TensorInt8 => "tensor int8",
            Unit::TensorInt4 => "tensor int4",
            Unit::TensorBinary => "tensor binary",
            Unit::Memory => "memory",
            Unit::Control => "control",
        }
    }

    /// Dense multiply-adds of an SM of a GPU in a cycle, if it is the tensor cores; 0 if they lack the type.
    pub fn tensor_rate(self, arch: &Arch) -> u32 {
        let rates = &arch.tensor;
        match self {
            Unit::TensorF64 => rates.f64,
            Unit::TensorTf32 => rates.tf32,
            Unit::TensorFp8 => rates.fp8,
            Unit::TensorFp4 => rates.fp4,
            Unit::TensorInt8 | Unit::TensorInt4 | Unit::TensorBinary => rates.int8,
            _ => rates.f16,
        }
    }

    /// Whether it is the tensor cores.
    pub fn is_tensor(self) -> bool {
        self.name().starts_with("tensor")
    }

    /// Whether it does floating-point arithmetic on CUDA cores.
    pub fn is_float(self) -> bool {
        matches!(self, Unit::F16 | Unit::F32 | Unit::F64)
    }
}

/// The work of one execution of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Work {
    /// The unit it keeps busy.
    pub unit: Unit,
    /// Arithmetic operations per lane: 2 for a multiply-add.
    pub by_lane: u32,
    /// Arithmetic operations of the whole warp, besides.
    pub by_warp: u32,
}

impl Work {
    /// Operations of `executions` executions by `lanes` lanes in total.
    pub fn operations(&self, executions: u64, lanes: u64) -> u64 {
        u64::from(self.by_lane) * lanes + u64::from(self.by_warp) * executions
    }
}
