//! The instructions, one file per family: their decoding and their execution.
//!
//! To add one: find its family below, and add a line there. An instruction that only touches
//! registers needs a lane function; any other is an [`Effect`](crate::execution::effect::Effect).

mod address;
mod atomic;
mod bits;
mod bulk;
mod cluster_launch;
mod compare;
mod control;
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

use warpwright_ptx::syntax::{Instruction, Type};

use crate::decode::{DecodeError, Decoder, Words};

pub(crate) use mbarrier::settle;
pub(crate) use stack::{allocates, restore, save};
pub(crate) use tensor_memory::complete_loads_to;
pub(crate) use warpgroup_matrix::accumulators;

/// Decodes one instruction.
pub(crate) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    match i.opcode.base() {
        "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "abs" | "neg" | "min" | "max" => {
            arithmetic(d, i, w)
        }
        "addc" | "subc" | "madc" | "mul24" | "mad24" | "sad" | "dp4a" | "dp2a" => integer::decode(d, i, w),
        "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" | "copysign" | "testp" => {
            float::decode(d, i, w)
        }
        "and" | "or" | "xor" | "not" | "cnot" | "lop3" | "shl" | "shr" | "shf" | "bfe" | "bfi" | "bfind"
        | "brev" | "clz" | "popc" | "fns" | "bmsk" | "szext" | "prmt" => bits::decode(d, i, w),
        "setp" | "set" | "selp" | "slct" => compare::decode(d, i, w),
        "mov" | "cvt" => transfer::decode(d, i, w),
        "cvta" | "isspacep" | "mapa" | "getctarank" => address::decode(d, i, w),
        "ld" | "ldu" => load::decode(d, i, w),
        "st" => store::decode(d, i, w),
        "prefetch" | "prefetchu" | "applypriority" | "discard" | "createpolicy" => {
            memory_words::hint(d, i, w)
        }
        "alloca" | "stacksave" | "stackrestore" => stack::decode(d, i, w),
        "cp" => copy::decode(d, i, w),
        "tensormap" => tensor_map::decode(d, i, w),
        "mma" => matrix::decode(d, i, w),
        "wmma" => warp_matrix::decode(d, i, w),
        "wgmma" => warpgroup_matrix::decode(d, i, w),
        "tcgen05" => tensor_memory::decode(d, i, w),
        "clusterlaunchcontrol" => cluster_launch::decode(d, i, w),
        "mbarrier" => mbarrier::decode(d, i, w),
        "ldmatrix" | "stmatrix" | "movmatrix" => matrix_copy::decode(d, i, w),
        "atom" | "red" => atomic::decode(d, i, w),
        "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" | "pmevent"
        | "griddepcontrol" | "setmaxnreg" => control::decode(d, i, w),
        "bar" | "barrier" | "membar" | "fence" | "shfl" | "vote" | "match" | "redux" | "elect"
        | "activemask" => synchronize::decode(d, i, w),
        base if base.starts_with('v') => video::decode(d, i, w),
        base => {
            w.ignore();
            Err(DecodeError::unsupported(unknown(base)))
        }
    }
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

/// Arithmetic is decoded by type.
fn arithmetic(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    match i.opcode.modifiers().filter_map(Type::from_word).last() {
        _ if i.opcode.has("f32x2") => single_pairs::decode(d, i, w),
        Some(Type::F16 | Type::Bf16) if i.opcode.has("f32") => mixed::decode(d, i, w),
        Some(Type::F32 | Type::F64) => float::decode(d, i, w),
        Some(Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => half::decode(d, i, w),
        _ => integer::decode(d, i, w),
    }
}
