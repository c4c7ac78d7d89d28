//! The instructions, one file per family: their decoding and their execution.
//!
//! A row of the instruction table names its class, and each class is decoded in one file: to add an
//! instruction, add a line there. One that only touches registers needs a lane function; any other is an
//! [`Effect`](crate::execution::effect::Effect).

/// Decodes an instruction for the first of some lane types that holds values of a type. `T` is that type in
/// the expression.
macro_rules! by_type {
    ($i:expr, $ty:expr, [$($lane:ty),+], $decoded:expr) => {
        match $ty {
            $(ty if <$lane as crate::instructions::LaneType>::TYPES.contains(&ty) => {
                type T = $lane;
                $decoded
            })+
            _ => Err($i.unsupported()),
        }
    };
}

mod access;
mod address;
mod atomic;
mod bits;
mod bulk;
mod cluster_launch;
mod compare;
mod control;
mod convert;
mod copy;
mod fill;
mod float;
mod half;
mod integer;
mod load;
mod matrix;
mod matrix_copy;
mod mbarrier;
mod memory_words;
mod mixed;
mod passed;
mod print;
mod provided;
mod remote;
mod single_pairs;
mod small_matrix;
mod stack;
mod store;
mod synchronize;
mod tensor_copy;
mod tensor_map;
mod tensor_memory;
mod transfer;
mod video;
mod warp_matrix;
mod warpgroup_matrix;

use warpwright_arch::instructions::{self as table, Class};
use warpwright_ptx::syntax::{Instruction, Type};

use crate::decode::{DecodeError, Decoded, Decoder, Row};

pub(crate) use mbarrier::settle;
pub(crate) use stack::{allocates, restore, save};
pub(crate) use tensor_memory::complete_loads_to;
pub(crate) use warpgroup_matrix::accumulators;

/// Decodes one instruction.
pub(crate) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    match i.form().class {
        Class::Integer | Class::IntegerMultiply | Class::IntegerDivide => match i.base().starts_with('v') {
            true => video::decode(d, i),
            false => integer::decode(d, i),
        },
        Class::Float | Class::FloatDivide | Class::FloatCompare | Class::Special => floats(d, i),
        Class::Logic | Class::BitCount => bits::decode(d, i),
        Class::Compare | Class::Select => compare::decode(d, i),
        Class::Move => match i.base() {
            "mov" => transfer::decode(d, i),
            _ => stack::decode(d, i),
        },
        Class::Conversion => convert::decode(d, i),
        Class::Address => address::decode(d, i),
        _ if i.base() == "multimem" => Err(DecodeError::unsupported(unknown(i.base()))),
        Class::Load => load::decode(d, i),
        Class::Store => store::decode(d, i),
        Class::Atomic | Class::Reduction => atomic::decode(d, i),
        Class::Prefetch | Class::CacheControl => memory_words::hint(d, i),
        Class::MatrixLoad | Class::MatrixStore => matrix_copy::decode(d, i),
        Class::AsyncCopy => copy::decode(d, i),
        Class::BulkCopy => bulk::decode(d, i),
        Class::TensorCopy => tensor_copy::decode(d, i),
        Class::TensorMap => tensor_map::decode(d, i),
        Class::FragmentLoad | Class::FragmentStore => warp_matrix::decode_memory(d, i),
        Class::Mma => match i.base() {
            "wmma" => warp_matrix::decode(d, i),
            _ => matrix::decode(d, i),
        },
        Class::WarpgroupMma | Class::WarpgroupSync => warpgroup_matrix::decode(d, i),
        Class::TensorMemoryMma
        | Class::TensorMemoryCopy
        | Class::TensorMemoryLoad
        | Class::TensorMemoryStore
        | Class::TensorMemorySync
        | Class::TensorMemoryControl => tensor_memory::decode(d, i),
        Class::Exchange if i.base() == "movmatrix" => matrix_copy::transpose(d, i),
        Class::Exchange
        | Class::Vote
        | Class::Match
        | Class::WarpReduction
        | Class::WarpBarrier
        | Class::CtaBarrier
        | Class::ClusterBarrier
        | Class::Fence => synchronize::decode(d, i),
        Class::MbarrierInit | Class::Mbarrier => mbarrier::decode(d, i),
        Class::ClusterLaunch => cluster_launch::decode(d, i),
        Class::Branch | Class::Control => control::decode(d, i),
    }
}

/// Decodes an instruction that the table does not have: one that names labels or functions, or one of a
/// later version of PTX.
pub(crate) fn decode_without_row(d: Decoder<'_, '_, '_>, i: &Instruction) -> Decoded {
    let base = i.opcode.base();
    let is_flow = matches!(base, "bra" | "brx" | "call");
    let is_known =
        |word: &&str| if is_flow { *word == "uni" || *word == "idx" } else { table::has_word(base, word) };
    let error = match i.opcode.modifiers().find(|word| !is_known(word)) {
        _ if !is_flow && !table::is_known(base) => unknown(base),
        Some(word) => format!("The emulator does not know the modifier `.{word}` of `{base}`."),
        None if is_flow => return control::flow(d, i),
        None => format!("The emulator does not support `{}`.", i.opcode.as_str()),
    };
    Err(DecodeError::unsupported(error))
}

/// The error for an unsupported instruction.
fn unknown(base: &str) -> String {
    let reason = match base {
        "tex" | "tld4" | "txq" | "suld" | "sust" | "sured" | "suq" | "istypep" => {
            "it has no textures and surfaces"
        }
        "multimem" => "it shares no memory between GPUs",
        _ => return format!("The emulator does not know the instruction `{base}`."),
    };
    format!("The emulator does not support the instruction `{base}`: {reason}.")
}

/// Arithmetic of floats is decoded by type.
fn floats(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    match i.types().last() {
        _ if i.has("f32x2") => single_pairs::decode(d, i),
        Some(Type::F16 | Type::Bf16) if i.has("f32") => mixed::decode(d, i),
        Some(Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => half::decode(d, i),
        _ => float::decode(d, i),
    }
}

/// A type of Rust whose values some PTX types hold.
trait LaneType {
    const TYPES: &'static [Type];
}

macro_rules! lane_types {
    ($($lane:ty: $($ty:ident),+;)*) => {$(
        impl LaneType for $lane {
            const TYPES: &'static [Type] = &[$(Type::$ty),+];
        }
    )*};
}

// A signed type comes before its unsigned one where the sign matters.
lane_types! {
    bool: Pred;
    u8: B8, U8, S8, E4m3, E5m2;
    i8: S8;
    u16: B16, U16, S16, F16, Bf16;
    i16: S16;
    u32: B32, U32, S32, F32, F16x2, Bf16x2, Tf32;
    i32: S32;
    u64: B64, U64, S64, F64;
    i64: S64;
    u128: B128;
}
