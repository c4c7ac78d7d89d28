//! Integer, bit and logic instructions, comparison and selection (PTX ISA, "Integer Arithmetic
//! Instructions", "Comparison and Selection Instructions", "Logic and Shift Instructions").

use super::Class::*;
use super::{Form, form};

pub(super) const FORMS: &[Form] = &[
    form(Integer, "add|sub .T:$integers16", "T = T, T"),
    form(Integer, "add|sub .sat .s32", "s32 = s32, s32"),
    form(Integer, "add .T:u16x2|s16x2", "T = T, T").since((8, 0), 90),
    form(Integer, "add|sub|addc|subc .cc .T:u32|s32", "T = T, T"),
    form(Integer, "add|sub|addc|subc .cc .T:u64|s64", "T = T, T").since((4, 3), 20),
    form(Integer, "addc|subc .T:u32|s32|u64|s64", "T = T, T"),
    form(IntegerMultiply, "mul.lo|mul.hi .T:$integers16", "T = T, T"),
    form(IntegerMultiply, "mul.wide .T:u16|s16|u32|s32", "2T = T, T"),
    form(IntegerMultiply, "mad.lo|mad.hi .T:$integers16", "T = T, T, T").operations(2),
    form(IntegerMultiply, "mad.hi .sat .s32", "s32 = s32, s32, s32").operations(2),
    form(IntegerMultiply, "mad.wide .T:u16|s16|u32|s32", "2T = T, T, 2T").operations(2),
    form(IntegerMultiply, "mad.lo|mad.hi .cc .T:u32|s32|u64|s64", "T = T, T, T")
        .operations(2)
        .since((3, 0), 20),
    form(IntegerMultiply, "madc.lo|madc.hi .cc? .T:u32|s32|u64|s64", "T = T, T, T")
        .operations(2)
        .since((3, 0), 20),
    form(IntegerMultiply, "mul24.lo|mul24.hi .T:u32|s32", "T = T, T"),
    form(IntegerMultiply, "mad24.lo|mad24.hi .T:u32|s32", "T = T, T, T").operations(2),
    form(IntegerMultiply, "mad24.hi .sat .s32", "s32 = s32, s32, s32").operations(2),
    form(Integer, "sad .T:$integers16", "T = T, T, T"),
    form(IntegerDivide, "div|rem .T:$integers16", "T = T, T"),
    form(Integer, "abs|neg .T:s16|s32|s64", "T = T"),
    form(Integer, "min|max .T:$integers16", "T = T, T"),
    form(Integer, "min|max .T:u16x2|s16x2", "T = T, T").since((8, 0), 90),
    form(Integer, "min|max .relu .T:s32|s16x2", "T = T, T").since((8, 0), 90),
    form(BitCount, "popc|clz .T:b32|b64", "u32 = T"),
    form(BitCount, "bfind .shiftamt? .T:u32|u64|s32|s64", "u32 = T"),
    form(BitCount, "brev .T:b32|b64", "T = T"),
    form(Logic, "bfe .T:u32|u64|s32|s64", "T = T, u32, u32"),
    form(Logic, "bfi .T:b32|b64", "T = T, T, u32, u32"),
    form(BitCount, "fns .b32", "b32 = b32, b32, s32").since((5, 1), 30),
    form(Logic, "bmsk .clamp|wrap .b32", "u32 = u32, u32").since((7, 6), 70),
    form(Logic, "szext .clamp|wrap .T:u32|s32", "T = T, u32").since((7, 6), 70),
    form(IntegerMultiply, "dp4a .u32|s32 .u32|s32", "u32 = u32, u32, u32").operations(8).since((5, 0), 61),
    form(IntegerMultiply, "dp2a.lo|dp2a.hi .u32|s32 .u32|s32", "u32 = u32, u32, u32")
        .operations(4)
        .since((5, 0), 61),
    form(Logic, "and|or|xor .T:b16|b32|b64", "T = T, T"),
    form(Logic, "and|or|xor .pred", "pred = pred, pred"),
    form(Logic, "not .T:pred|b16|b32|b64", "T = T"),
    form(Logic, "cnot .T:b16|b32|b64", "T = T"),
    form(Logic, "lop3 .b32", "b32 = b32, b32, b32, #").since((4, 3), 50),
    form(Logic, "lop3 .or|and .b32", "b32_|pred = b32, b32, b32, #, ~pred").since((8, 2), 70),
    form(Logic, "shf.l|shf.r .clamp|wrap .b32", "b32 = b32, b32, u32").since((3, 1), 32),
    form(Logic, "shl .T:b16|b32|b64", "T = T, u32"),
    form(Logic, "shr .T:b16|b32|b64|u16|u32|u64|s16|s32|s64", "T = T, u32"),
    form(Logic, "prmt .b32", "b32 = b32, b32, b32"),
    form(Logic, "prmt .b32 .f4e|b4e|rc8|ecl|ecr|rc16", "b32 = b32, b32, b32"),
    form(Compare, "setp .eq|ne .T:b16|b32|b64", "pred/pred = T, T"),
    form(Compare, "setp .$signed_order .T:s16|s32|s64", "pred/pred = T, T"),
    form(Compare, "setp .$unsigned_order .T:u16|u32|u64", "pred/pred = T, T"),
    form(Compare, "setp .eq|ne .and|or|xor .T:b16|b32|b64", "pred/pred = T, T, ~pred"),
    form(Compare, "setp .$signed_order .and|or|xor .T:s16|s32|s64", "pred/pred = T, T, ~pred"),
    form(Compare, "setp .$unsigned_order .and|or|xor .T:u16|u32|u64", "pred/pred = T, T, ~pred"),
    form(Compare, "set .eq|ne .D:u32|s32|f32 .T:b16|b32|b64", "D = T, T"),
    form(Compare, "set .$signed_order .D:u32|s32|f32 .T:s16|s32|s64", "D = T, T"),
    form(Compare, "set .$unsigned_order .D:u32|s32|f32 .T:u16|u32|u64", "D = T, T"),
    form(Compare, "set .eq|ne .and|or|xor .D:u32|s32|f32 .T:b16|b32|b64", "D = T, T, ~pred"),
    form(Compare, "set .$signed_order .and|or|xor .D:u32|s32|f32 .T:s16|s32|s64", "D = T, T, ~pred"),
    form(Compare, "set .$unsigned_order .and|or|xor .D:u32|s32|f32 .T:u16|u32|u64", "D = T, T, ~pred"),
    form(Select, "selp .T:$registers", "T = T, T, pred"),
    form(Select, "slct .T:$registers .s32", "T = T, T, s32"),
    form(Select, "slct .ftz? .T:$registers .f32", "T = T, T, f32"),
    // The last operand is the register that a part of the destination is merged into.
    form(Integer, "vadd|vsub|vabsdiff|vmin|vmax .u32|s32 .u32|s32 .u32|s32 .sat?", "u32 = u32!, u32!, u32!?"),
    form(
        Integer,
        "vadd|vsub|vabsdiff|vmin|vmax .u32|s32 .u32|s32 .u32|s32 .sat? .add|min|max",
        "u32 = u32!, u32!, u32!",
    ),
    form(Integer, "vshl|vshr .u32|s32 .u32|s32 .u32 .sat? .clamp|wrap", "u32 = u32!, u32!, u32!?"),
    form(
        Integer,
        "vshl|vshr .u32|s32 .u32|s32 .u32 .sat? .clamp|wrap .add|min|max",
        "u32 = u32!, u32!, u32!",
    ),
    form(IntegerMultiply, "vmad .u32 .u32 .u32 .po? .sat? .shr7|shr15?", "u32 = u32!, u32!, u32!"),
    form(IntegerMultiply, "vmad .s32 .u32|s32 .u32|s32 .po? .sat? .shr7|shr15?", "u32 = u32!, u32!, u32!"),
    form(Integer, "vset .u32|s32 .u32|s32 .$signed_order", "u32 = u32!, u32!, u32!?"),
    form(Integer, "vset .u32|s32 .u32|s32 .$signed_order .add|min|max", "u32 = u32!, u32!, u32!"),
    form(
        Integer,
        "vadd2|vsub2|vavrg2|vabsdiff2|vmin2|vmax2 .u32|s32 .u32|s32 .u32|s32 .sat|add?",
        "u32 = u32!, u32!, u32!",
    )
    .since((3, 0), 30),
    form(
        Integer,
        "vadd4|vsub4|vavrg4|vabsdiff4|vmin4|vmax4 .u32|s32 .u32|s32 .u32|s32 .sat|add?",
        "u32 = u32!, u32!, u32!",
    )
    .since((3, 0), 30),
    form(Integer, "vset2|vset4 .u32|s32 .u32|s32 .$signed_order .add?", "u32 = u32!, u32!, u32!")
        .since((3, 0), 30),
];
