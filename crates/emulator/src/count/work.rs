//! What an instruction computes, and on which unit of an SM, told from its opcode.

use serde::Serialize;
use warpwright_ptx::syntax::Type;

/// What a warp's instruction keeps busy.
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
    /// Tensor cores on e4m3 and e5m2.
    TensorFp8,
    /// Tensor cores on 8-bit integers.
    TensorInt8,
    /// Tensor cores on 4-bit integers.
    TensorInt4,
    /// Tensor cores on single bits.
    TensorBinary,
    /// Loads, stores, atomics and copies.
    Memory,
    /// Branches, barriers, fences, moves: what computes nothing.
    Control,
}

impl Unit {
    /// All of them.
    pub const ALL: [Unit; 16] = [
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
            Unit::TensorInt8 => "tensor int8",
            Unit::TensorInt4 => "tensor int4",
            Unit::TensorBinary => "tensor binary",
            Unit::Memory => "memory",
            Unit::Control => "control",
        }
    }

    /// Whether it is the tensor cores.
    pub fn is_tensor(self) -> bool {
        self.name().starts_with("tensor")
    }

    /// Whether its operations are those of floating-point numbers on CUDA cores.
    pub fn is_float(self) -> bool {
        matches!(self, Unit::F16 | Unit::F32 | Unit::F64)
    }

    /// The tensor cores on elements of a type.
    fn tensor(word: &str) -> Option<Self> {
        Some(match word {
            "f64" => Unit::TensorF64,
            "tf32" => Unit::TensorTf32,
            "bf16" => Unit::TensorBf16,
            "f16" => Unit::TensorF16,
            "e4m3" | "e5m2" | "e2m1" | "e3m2" | "e2m3" => Unit::TensorFp8,
            "s8" | "u8" => Unit::TensorInt8,
            "s4" | "u4" => Unit::TensorInt4,
            "b1" => Unit::TensorBinary,
            _ => return None,
        })
    }
}

/// What one execution of an instruction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Work {
    /// The unit it keeps busy.
    pub unit: Unit,
    /// Arithmetic operations of each lane: 2 for a multiply-add.
    pub by_lane: u32,
    /// Arithmetic operations of the whole warp, besides.
    pub by_warp: u32,
}

impl Work {
    const fn lane(unit: Unit, by_lane: u32) -> Self {
        Self { unit, by_lane, by_warp: 0 }
    }

    /// Operations of so many executions, by so many lanes in all.
    pub fn operations(&self, executions: u64, lanes: u64) -> u64 {
        u64::from(self.by_lane) * lanes + u64::from(self.by_warp) * executions
    }

    /// What the instruction of this text computes.
    pub(super) fn of(text: &str) -> Self {
        let opcode = text.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
        let words: Vec<&str> = opcode.trim_end_matches(';').split('.').collect();
        let (base, modifiers) = words.split_first().expect("splitting gives a word");
        match *base {
            "mma" | "wmma" | "wgmma" => multiply(base, modifiers),
            "ld" | "ldu" | "st" | "atom" | "red" | "ldmatrix" | "stmatrix" | "cp" | "prefetch"
            | "prefetchu" => Self::lane(Unit::Memory, 0),
            "cvt" => Self::lane(Unit::Conversion, 1),
            "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" => match element(modifiers) {
                Some(Type::F64) => Self::lane(Unit::F64, 1),
                _ => Self::lane(Unit::Special, 1),
            },
            "add" | "sub" | "mul" | "div" => arithmetic(modifiers, 1),
            "fma" | "mad" => arithmetic(modifiers, 2),
            "madc" | "mad24" => Self::lane(Unit::Integer, 2),
            "dp2a" => Self::lane(Unit::Integer, 4),
            "dp4a" => Self::lane(Unit::Integer, 8),
            "addc" | "subc" | "mul24" | "sad" | "rem" | "abs" | "neg" | "min" | "max" | "and" | "or"
            | "xor" | "not" | "cnot" | "lop3" | "shl" | "shr" | "shf" | "bfe" | "bfi" | "bfind" | "brev"
            | "clz" | "popc" | "fns" | "bmsk" | "szext" | "prmt" | "setp" | "set" | "selp" | "slct"
            | "copysign" | "testp" => Self::lane(Unit::Integer, 1),
            base if base.starts_with('v') && base != "vote" => Self::lane(Unit::Integer, 1),
            _ => Self::lane(Unit::Control, 0),
        }
    }
}

/// The type that an instruction names last.
fn element(modifiers: &[&str]) -> Option<Type> {
    modifiers.iter().rev().find_map(|word| Type::from_word(word))
}

/// Additions and multiplications, by their type.
fn arithmetic(modifiers: &[&str], operations: u32) -> Work {
    match element(modifiers) {
        Some(Type::F32) => Work::lane(Unit::F32, operations),
        Some(Type::F64) => Work::lane(Unit::F64, operations),
        Some(Type::F16 | Type::Bf16) => Work::lane(Unit::F16, operations),
        Some(Type::F16x2 | Type::Bf16x2) => Work::lane(Unit::F16, 2 * operations),
        // Two f32 in one instruction (sm_100).
        None if modifiers.contains(&"f32x2") => Work::lane(Unit::F32, 2 * operations),
        _ => Work::lane(Unit::Integer, operations),
    }
}

/// Multiplies of matrices, by their shape and the type of A. Of a sparse A half the elements are multiplied; a warp does a
/// quarter of what its warpgroup does.
fn multiply(base: &str, modifiers: &[&str]) -> Work {
    let Some(multiply_adds) = modifiers.iter().find_map(|word| multiply_adds(word)) else {
        // wgmma.fence, wgmma.commit_group, wgmma.wait_group.
        return Work::lane(Unit::Control, 0);
    };
    if base == "wmma" && !modifiers.contains(&"mma") {
        return Work::lane(Unit::Memory, 0);
    }
    let types: Vec<&str> = modifiers.iter().copied().filter(|word| is_element(word)).collect();
    // D, A, B, C of mma and of integer wmma; D, A, B of wgmma; D and C of wmma, whose A and B are f16 then.
    let a = if types.len() > 2 { types[1] } else { "f16" };
    let sparse = modifiers.iter().any(|word| *word == "sp" || word.starts_with("sp::"));
    let part = if sparse { 2 } else { 1 } * if base == "wgmma" { 4 } else { 1 };
    Work { unit: Unit::tensor(a).unwrap_or(Unit::TensorF16), by_lane: 0, by_warp: 2 * multiply_adds / part }
}

fn is_element(word: &str) -> bool {
    Unit::tensor(word).is_some() || matches!(word, "f32" | "s32")
}

/// The multiply-adds of a shape such as `m16n8k16`.
fn multiply_adds(word: &str) -> Option<u32> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some(m.parse::<u32>().ok()? * n.parse::<u32>().ok()? * k.parse::<u32>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_name_their_unit_and_their_operations() {
        let cases = [
            ("fma.rn.f32 %f1, %f2, %f3, %f4;", Unit::F32, 2, 0),
            ("@!%p1 add.f64 %fd1, %fd2, %fd3;", Unit::F64, 1, 0),
            ("fma.rn.bf16x2 %r1, %r2, %r3, %r4;", Unit::F16, 4, 0),
            ("mad.lo.s32 %r1, %r2, %r3, %r4;", Unit::Integer, 2, 0),
            ("mul.wide.u32 %rd1, %r2, 4;", Unit::Integer, 1, 0),
            ("max.f32 %f1, %f2, %f3;", Unit::Integer, 1, 0),
            ("ex2.approx.ftz.f32 %f1, %f2;", Unit::Special, 1, 0),
            ("cvt.rn.bf16.f32 %rs1, %f1;", Unit::Conversion, 1, 0),
            ("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];", Unit::Memory, 0, 0),
            (
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {}, {}, {}, {};",
                Unit::TensorBf16,
                0,
                4096,
            ),
            (
                "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 x;",
                Unit::TensorF16,
                0,
                4096,
            ),
            ("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 x;", Unit::TensorInt8, 0, 8192),
            ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 x;", Unit::TensorBf16, 0, 65536),
            ("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 x;", Unit::TensorFp8, 0, 8192),
            ("wgmma.wait_group.sync.aligned 0;", Unit::Control, 0, 0),
            ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 x;", Unit::TensorF16, 0, 8192),
            ("wmma.load.a.sync.aligned.row.m16n16k16.f16 x;", Unit::Memory, 0, 0),
            ("vote.sync.ballot.b32 %r1, %p1, -1;", Unit::Control, 0, 0),
            ("bar.sync 0;", Unit::Control, 0, 0),
        ];
        for (text, unit, by_lane, by_warp) in cases {
            assert_eq!(Work::of(text), Work { unit, by_lane, by_warp }, "{text}");
        }
    }
}
