//! The description of an instruction for observers: its class, its registers, and its work.

use smallvec::SmallVec;
use warpwright_arch::instructions::{self, Class as Form};
use warpwright_events::{
    Base, Class, Inlining, Instruction, LoadPath, PredicateLogic, Register, Source, Unit, Work,
};
use warpwright_ptx::syntax::{self, AddressBase, Opcode, Operand, Type};

use super::row::Row;
use crate::tensor::Shape;

/// Describes an instruction of this text and these frames, outermost first, by its row. `named` gives the
/// register or the array that a name is.
pub(crate) fn describe(
    instruction: &syntax::Instruction,
    row: Option<&Row<'_>>,
    text: String,
    frames: Vec<Source>,
    mut named: impl FnMut(&str) -> Base,
) -> Instruction {
    let opcode = &instruction.opcode;
    let written = match (row, opcode.base()) {
        (Some(row), _) => row.signature().destinations,
        (None, "call") => usize::from(matches!(instruction.operands.first(), Some(Operand::List(_)))),
        (None, "bra" | "brx") => 0,
        // Of an instruction that the table does not have: most have one destination.
        (None, _) => 1,
    };
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    let (mut arrays, mut bases) = (SmallVec::<[u32; 2]>::new(), SmallVec::<[Base; 4]>::new());
    for (index, operand) in instruction.operands.iter().enumerate() {
        let mut is_base = match operand {
            Operand::Address(address) => matches!(address.base, AddressBase::Name(_)),
            _ => false,
        };
        for_names(operand, &mut |name, in_address| {
            let named = named(name);
            match named {
                Base::Register(register) => {
                    if index < written && !in_address { &mut writes } else { &mut reads }.push(register);
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
    if row.is_some_and(|row| row.signature().accumulates) {
        reads.extend(&writes);
    }
    let mut register = |name: &str| match named(name) {
        Base::Register(register) => Some(register),
        _ => None,
    };
    let class = row.map_or(Class::Other, |row| {
        class(row, |index| match row.operands.get(index) {
            Some(Operand::Name(name) | Operand::Not(name)) => register(name),
            _ => None,
        })
    });
    let (source, inlining) = Inlining::of(frames).unzip();
    Instruction {
        line: instruction.line,
        text: text.into(),
        source,
        inlining: inlining.unwrap_or_default(),
        form: row.map(Row::form),
        class,
        is_parameter_access: opcode.modifiers().any(|word| word.starts_with("param")),
        work: row.map_or(lane(Unit::Control, 0), |row| work(row.form(), opcode)),
        guard: instruction.guard.as_ref().and_then(|guard| register(&guard.predicate)),
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
        form: None,
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

/// The class of an instruction, as far as observers distinguish them. `operand` gives the register that
/// an operand is.
fn class(row: &Row<'_>, mut operand: impl FnMut(usize) -> Option<Register>) -> Class {
    let aligned = row.base() == "bar" || row.has("aligned");
    match row.form().class {
        Form::Load if row.has("volatile") || row.has("relaxed") => Class::Load(LoadPath::Relaxed),
        Form::Load if row.has("nc") => Class::Load(LoadPath::NonCoherent),
        Form::Load | Form::MatrixLoad => Class::Load(LoadPath::Coherent),
        Form::Store | Form::MatrixStore => Class::Store,
        Form::Atomic => Class::Atomic,
        Form::Reduction => Class::Reduction,
        Form::Compare => Class::Compare(logic(row)),
        Form::Select if row.base() == "selp" => Class::Select([operand(1), operand(2)]),
        _ if matches!(row.base(), "and" | "or") && row.has("pred") => {
            let logic = if row.base() == "and" { PredicateLogic::And } else { PredicateLogic::Or };
            Class::Logic(logic, [operand(1), operand(2)])
        }
        Form::CtaBarrier => Class::CtaBarrier { aligned },
        Form::ClusterBarrier => Class::ClusterBarrier { aligned },
        Form::MbarrierInit => Class::MbarrierInit,
        Form::TensorMemorySync if row.has("fence::after_thread_sync") => Class::TensorMemoryFence,
        _ => Class::Other,
    }
}

/// How a comparison is combined with a predicate, if one value of the predicate decides.
fn logic(row: &Row<'_>) -> Option<PredicateLogic> {
    row.choose(&[("and", PredicateLogic::And), ("or", PredicateLogic::Or)])
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

/// The work of an instruction of a row.
fn work(form: &instructions::Form, opcode: &Opcode) -> Work {
    let element = opcode.modifiers().filter_map(Type::from_word).last();
    let operations = form.operations;
    match form.class {
        Form::Mma | Form::WarpgroupMma => multiply(opcode),
        Form::Load | Form::Store | Form::Atomic | Form::Reduction | Form::Prefetch => lane(Unit::Memory, 0),
        Form::MatrixLoad | Form::MatrixStore | Form::FragmentLoad | Form::FragmentStore => {
            lane(Unit::Memory, 0)
        }
        Form::AsyncCopy | Form::BulkCopy | Form::TensorCopy => lane(Unit::Memory, 0),
        Form::Conversion => lane(Unit::Conversion, operations),
        Form::Special if element != Some(Type::F64) => lane(Unit::Special, operations),
        Form::Special | Form::Float | Form::FloatDivide => match element {
            Some(Type::F64) => lane(Unit::F64, operations),
            Some(Type::F16 | Type::Bf16) => lane(Unit::F16, operations),
            Some(Type::F16x2 | Type::Bf16x2) => lane(Unit::F16, 2 * operations),
            Some(_) => lane(Unit::F32, operations),
            // Two f32 in one instruction (sm_100).
            None => lane(Unit::F32, 2 * operations),
        },
        _ if operations > 0 => lane(Unit::Integer, operations),
        _ => lane(Unit::Control, 0),
    }
}

/// MMAs, by their shape and the type of A. A sparse A has half the multiply-adds; a warp does a
/// quarter of its warpgroup's.
fn multiply(opcode: &Opcode) -> Work {
    let modifiers: Vec<&str> = opcode.modifiers().collect();
    let Some(shape) = modifiers.iter().find_map(|word| Shape::from_word(word)) else {
        return lane(Unit::Control, 0);
    };
    let types: Vec<&str> = modifiers.iter().copied().filter(|word| is_element(word)).collect();
    // D, A, B, C of mma and of integer wmma; D, A, B of wgmma; D and C of wmma, with A and B of
    // f16.
    let a = if types.len() > 2 { types[1] } else { "f16" };
    let sparse = modifiers.iter().any(|word| *word == "sp" || word.starts_with("sp::"));
    let part = if sparse { 2 } else { 1 } * if opcode.base() == "wgmma" { 4 } else { 1 };
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
            let opcode = Opcode::new(opcode(text));
            let (form, _) = instructions::forms_of(opcode.as_str()).remove(0);
            assert_eq!(work(form, &opcode), Work { unit, by_lane, by_warp }, "{text}");
        }
    }
}
