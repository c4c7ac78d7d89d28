//! The description of an instruction for observers: its class, its registers, and its work.

use smallvec::SmallVec;
use warpwright_events::{Base, Class, Inlining, Instruction, LoadPath, Source, Unit, Work};
use warpwright_ptx::syntax::{self, AddressBase, Opcode, Operand, Type};

use crate::tensor::Shape;

/// Describes an instruction of this text and these frames, outermost first. `named` gives the
/// register or the array that a name is.
pub(crate) fn describe(
    instruction: &syntax::Instruction,
    text: String,
    frames: Vec<Source>,
    mut named: impl FnMut(&str) -> Base,
) -> Instruction {
    let opcode = &instruction.opcode;
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    let (mut arrays, mut bases) = (SmallVec::<[u32; 2]>::new(), SmallVec::<[Base; 4]>::new());
    for (index, operand) in instruction.operands.iter().enumerate() {
        let is_written = index == 0 && writes_first_operand(opcode);
        let mut is_base = match operand {
            Operand::Address(address) => matches!(address.base, AddressBase::Name(_)),
            _ => false,
        };
        for_names(operand, &mut |name, in_address| {
            let named = named(name);
            match named {
                Base::Register(register) => {
                    if is_written && !in_address { &mut writes } else { &mut reads }.push(register);
                }
                Base::Array(array) => arrays.push(array),
                Base::Other => {}
            }
            // The base is the first name in the brackets.
            if std::mem::take(&mut is_base) {
                bases.push(named);
            }
        });
    }
    if opcode.base() == "wgmma" {
        reads.extend(&writes);
    }
    let mut operand = |index: usize| match instruction.operands.get(index) {
        Some(Operand::Name(name)) => match named(name) {
            Base::Register(register) => Some(register),
            _ => None,
        },
        _ => None,
    };
    let class = match opcode.base() {
        "selp" => Class::Select([operand(1), operand(2)]),
        _ => class(opcode),
    };
    let guard = instruction.guard.as_ref().and_then(|guard| match named(&guard.predicate) {
        Base::Register(register) => Some(register),
        _ => None,
    });
    let (source, inlining) = Inlining::of(frames).unzip();
    Instruction {
        line: instruction.line,
        text: text.into(),
        source,
        inlining: inlining.unwrap_or_default(),
        class,
        is_parameter_access: opcode.modifiers().any(|word| word.starts_with("param")),
        work: work(opcode),
        guard,
        writes: writes.into(),
        reads: reads.into(),
        arrays: arrays.as_slice().into(),
        bases: bases.as_slice().into(),
    }
}

/// The placeholder for an instruction where a function has none.
pub(crate) fn nothing(line: u32) -> Instruction {
    Instruction {
        line,
        text: "".into(),
        source: None,
        inlining: Inlining::default(),
        class: Class::Other,
        is_parameter_access: false,
        work: lane(Unit::Control, 0),
        guard: None,
        writes: Box::default(),
        reads: Box::default(),
        arrays: Box::default(),
        bases: Box::default(),
    }
}

/// Whether registers of the first operand are written, unless they are those of an address.
fn writes_first_operand(opcode: &Opcode) -> bool {
    match opcode.base() {
        "bar" | "barrier" | "nanosleep" | "brx" => false,
        "tcgen05" => opcode.has("ld"),
        _ => true,
    }
}

/// Visits the names in an operand, and whether each is part of an address.
pub(crate) fn for_names(operand: &Operand, visit: &mut dyn FnMut(&str, bool)) {
    match operand {
        Operand::Name(name) | Operand::Not(name) | Operand::Offset(name, _) => visit(name, false),
        Operand::Pair(a, b) => {
            for_names(a, visit);
            for_names(b, visit);
        }
        Operand::Vector(elements) | Operand::List(elements) => {
            elements.iter().for_each(|element| for_names(element, visit));
        }
        Operand::Address(address) => {
            if let AddressBase::Name(name) = &address.base {
                visit(name, true);
            }
            address.rest.iter().for_each(|operand| for_names(operand, &mut |name, _| visit(name, true)));
        }
        Operand::Number(_) | Operand::Sink => {}
    }
}

/// The class of an instruction, as far as observers distinguish them.
fn class(opcode: &Opcode) -> Class {
    match opcode.base() {
        "ld" if opcode.has("volatile") || opcode.has("relaxed") => Class::Load(LoadPath::Relaxed),
        "ld" if opcode.has("nc") => Class::Load(LoadPath::NonCoherent),
        "ld" | "ldu" | "ldmatrix" => Class::Load(LoadPath::Coherent),
        "st" | "stmatrix" => Class::Store,
        "atom" => Class::Atomic,
        "red" => Class::Reduction,
        "set" | "setp" => Class::Compare,
        "bar" if !opcode.has("warp") => Class::CtaBarrier { aligned: true },
        "barrier" if opcode.has("cluster") => Class::ClusterBarrier { aligned: opcode.has("aligned") },
        "barrier" => Class::CtaBarrier { aligned: opcode.has("aligned") },
        "mbarrier" if opcode.has("init") => Class::MbarrierInit,
        "tcgen05" if opcode.has("fence::after_thread_sync") => Class::TensorMemoryFence,
        _ => Class::Other,
    }
}

const fn lane(unit: Unit, by_lane: u32) -> Work {
    Work { unit, by_lane, by_warp: 0 }
}

/// The tensor cores on elements of a type.
pub(crate) fn tensor(word: &str) -> Option<Unit> {
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

/// The work of an instruction, by its opcode.
fn work(opcode: &Opcode) -> Work {
    let modifiers: Vec<&str> = opcode.modifiers().collect();
    let modifiers = modifiers.as_slice();
    match opcode.base() {
        base @ ("mma" | "wmma" | "wgmma") => multiply(base, modifiers),
        "ld" | "ldu" | "st" | "atom" | "red" | "ldmatrix" | "stmatrix" | "cp" | "prefetch" | "prefetchu" => {
            lane(Unit::Memory, 0)
        }
        "cvt" => lane(Unit::Conversion, 1),
        "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" => match element(modifiers) {
            Some(Type::F64) => lane(Unit::F64, 1),
            _ => lane(Unit::Special, 1),
        },
        "add" | "sub" | "mul" | "div" => arithmetic(modifiers, 1),
        "fma" | "mad" => arithmetic(modifiers, 2),
        "madc" | "mad24" => lane(Unit::Integer, 2),
        "dp2a" => lane(Unit::Integer, 4),
        "dp4a" => lane(Unit::Integer, 8),
        "addc" | "subc" | "mul24" | "sad" | "rem" | "abs" | "neg" | "min" | "max" | "and" | "or" | "xor"
        | "not" | "cnot" | "lop3" | "shl" | "shr" | "shf" | "bfe" | "bfi" | "bfind" | "brev" | "clz"
        | "popc" | "fns" | "bmsk" | "szext" | "prmt" | "setp" | "set" | "selp" | "slct" | "copysign"
        | "testp" => lane(Unit::Integer, 1),
        base if base.starts_with('v') && base != "vote" => lane(Unit::Integer, 1),
        _ => lane(Unit::Control, 0),
    }
}

/// The type that an instruction names last.
fn element(modifiers: &[&str]) -> Option<Type> {
    modifiers.iter().rev().find_map(|word| Type::from_word(word))
}

/// Additions and multiplications, by their type.
fn arithmetic(modifiers: &[&str], operations: u32) -> Work {
    match element(modifiers) {
        Some(Type::F32) => lane(Unit::F32, operations),
        Some(Type::F64) => lane(Unit::F64, operations),
        Some(Type::F16 | Type::Bf16) => lane(Unit::F16, operations),
        Some(Type::F16x2 | Type::Bf16x2) => lane(Unit::F16, 2 * operations),
        // Two f32 in one instruction (sm_100).
        None if modifiers.contains(&"f32x2") => lane(Unit::F32, 2 * operations),
        _ => lane(Unit::Integer, operations),
    }
}

/// MMAs, by their shape and the type of A. A sparse A has half the multiply-adds; a warp does a
/// quarter of its warpgroup's.
fn multiply(base: &str, modifiers: &[&str]) -> Work {
    let Some(shape) = modifiers.iter().find_map(|word| Shape::from_word(word)) else {
        // wgmma.fence, wgmma.commit_group, wgmma.wait_group.
        return lane(Unit::Control, 0);
    };
    if base == "wmma" && !modifiers.contains(&"mma") {
        return lane(Unit::Memory, 0);
    }
    let types: Vec<&str> = modifiers.iter().copied().filter(|word| is_element(word)).collect();
    // D, A, B, C of mma and of integer wmma; D, A, B of wgmma; D and C of wmma, with A and B of
    // f16.
    let a = if types.len() > 2 { types[1] } else { "f16" };
    let sparse = modifiers.iter().any(|word| *word == "sp" || word.starts_with("sp::"));
    let part = if sparse { 2 } else { 1 } * if base == "wgmma" { 4 } else { 1 };
    let unit = if modifiers.iter().any(|word| word.starts_with("kind::mxf4")) {
        Unit::TensorFp4
    } else {
        tensor(a).unwrap_or(Unit::TensorF16)
    };
    Work { unit, by_lane: 0, by_warp: 2 * shape.multiply_adds() as u32 / part }
}

fn is_element(word: &str) -> bool {
    tensor(word).is_some() || matches!(word, "f32" | "s32")
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
            (
                "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 x;",
                Unit::TensorFp4,
                0,
                16384,
            ),
            (
                "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m1.e2m1.f32.ue8m0 x;",
                Unit::TensorFp8,
                0,
                8192,
            ),
            ("wgmma.wait_group.sync.aligned 0;", Unit::Control, 0, 0),
            ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 x;", Unit::TensorF16, 0, 8192),
            ("wmma.load.a.sync.aligned.row.m16n16k16.f16 x;", Unit::Memory, 0, 0),
            ("vote.sync.ballot.b32 %r1, %p1, -1;", Unit::Control, 0, 0),
            ("bar.sync 0;", Unit::Control, 0, 0),
        ];
        let opcode = |text: &str| text.split(' ').find(|word| !word.starts_with('@')).unwrap().to_owned();
        for (text, unit, by_lane, by_warp) in cases {
            assert_eq!(work(&Opcode::new(opcode(text))), Work { unit, by_lane, by_warp }, "{text}");
        }
    }
}
