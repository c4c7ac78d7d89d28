//! Matrix instructions: fragments through shared memory, and the MMAs of [`MMA_TABLE`] (PTX ISA,
//! "Warp Level Matrix Multiply-Accumulate Instructions", "Asynchronous Warpgroup Level Matrix
//! Instructions").

use std::collections::BTreeSet;

use super::Class::*;
use super::availability::{BLACKWELL, GEFORCE, GEFORCE_SCALES, HOPPER};
use super::{Form, form};
use crate::DataType::{self, *};
use crate::mma::{Family, MMA_TABLE, MmaRow, Operand, Shape};

pub(super) const FORMS: &[Form] = &[
    form(MatrixLoad, "ldmatrix .sync .aligned .m8n8 .N:x1|x2|x4 .trans? .shared|shared::cta? .b16", "{b32*N} = []").since((6, 5), 75),
    form(MatrixStore, "stmatrix .sync .aligned .m8n8 .N:x1|x2|x4 .trans? .shared|shared::cta? .b16", "[], {b32*N}").since((7, 8), 90),
    form(MatrixLoad, "ldmatrix .sync .aligned .m16n16 .N:x1|x2 .trans .shared|shared::cta? .b8|$decompression", "{b32*N.x*2} = []").only_on((8, 6), BLACKWELL),
    form(MatrixLoad, "ldmatrix .sync .aligned .m8n16 .N:x1|x2|x4 .shared|shared::cta? .$decompression", "{b32*N} = []").only_on((8, 6), BLACKWELL),
    form(MatrixStore, "stmatrix .sync .aligned .N:x1|x2|x4 .trans .m16n8 .shared|shared::cta? .b8", "[], {b32*N}").only_on((8, 6), BLACKWELL),
    form(Exchange, "movmatrix .sync .aligned .m8n8 .trans .b16", "b32 = b32!").since((7, 8), 75),
    // MMAs of small floats, and with scales of blocks.
    form(Mma, "mma .sync .aligned .m16n8k32 .row .col .kind::f8f6f4 .f32 .e4m3|e5m2 .e4m3|e5m2 .f32", "{f32*4} = {b32*4}, {b32*2}, {f32*4}").only_on((8, 6), BLACKWELL),
    form(Mma, "mma .sync .aligned .m16n8k32 .row .col .kind::f8f6f4 .f32 .$small_floats .$small_floats .f32", "{f32*4} = {b32*4}, {b32*2}, {f32*4}").only_on((8, 7), GEFORCE),
    form(Mma, "mma .sync .aligned .m16n8k32 .row .col .kind::f8f6f4 .f16 .e4m3|e5m2 .e4m3|e5m2 .f16", "{b32*2} = {b32*4}, {b32*2}, {b32*2}").only_on((8, 7), BLACKWELL),
    form(Mma, "mma .sync .aligned .m16n8k32 .row .col .kind::f8f6f4 .f16 .$small_floats .$small_floats .f16", "{b32*2} = {b32*4}, {b32*2}, {b32*2}").only_on((8, 7), GEFORCE),
    form(Mma, "mma .sync .aligned .m16n8k32 .row .col .kind::mxf8f6f4.block_scale .scale_vec::1X? .f32 .$small_floats .$small_floats .f32 .ue8m0", "{f32*4} = {b32*4}, {b32*2}, {f32*4}, b32!, {b16*2}, b32!, {b16*2}").only_on((8, 7), GEFORCE),
    form(Mma, "mma .sync .aligned .m16n8k64 .row .col .kind::mxf4.block_scale .scale_vec::2X? .f32 .e2m1 .e2m1 .f32 .ue8m0", "{f32*4} = {b32*4}, {b32*2}, {f32*4}, b32!, {b16*2}, b32!, {b16*2}").only_on((8, 7), GEFORCE),
    form(Mma, "mma .sync .aligned .m16n8k64 .row .col .kind::mxf4nvf4.block_scale .scale_vec::2X .f32 .e2m1 .e2m1 .f32 .ue8m0", "{f32*4} = {b32*4}, {b32*2}, {f32*4}, b32!, {b16*2}, b32!, {b16*2}").only_on((8, 7), GEFORCE),
    form(Mma, "mma .sync .aligned .m16n8k64 .row .col .kind::mxf4nvf4.block_scale .scale_vec::4X .f32 .e2m1 .e2m1 .f32 .ue4m3", "{f32*4} = {b32*4}, {b32*2}, {f32*4}, b32!, {b16*2}, b32!, {b16*2}").only_on((8, 7), GEFORCE),
    // A sparse one.
    form(Mma, "mma .sp::ordered_metadata .sync .aligned .m16n8k64 .row .col .kind::f8f6f4 .f32 .e4m3|e5m2 .e4m3|e5m2 .f32", "{f32*4} = {b32*4}, {b32*4}, {f32*4}, b32!, #").only_on((8, 6), BLACKWELL),
    form(Mma, "mma .sp::ordered_metadata .sync .aligned .m16n8k64 .row .col .kind::f8f6f4 .f32 .$small_floats .$small_floats .f32", "{f32*4} = {b32*4}, {b32*4}, {f32*4}, b32!, #").only_on((8, 7), GEFORCE),
    form(Mma, "mma .sp::ordered_metadata .sync .aligned .m16n8k64 .row .col .kind::f8f6f4 .f16 .$small_floats .$small_floats .f16", "{b32*2} = {b32*4}, {b32*4}, {b32*2}, b32!, #").only_on((8, 7), GEFORCE),
    form(Mma, "mma .sp::ordered_metadata .sync .aligned .m16n8k64 .row .col .kind::mxf8f6f4.block_scale .scale_vec::1X? .f32 .$small_floats .$small_floats .f32 .ue8m0", "{f32*4} = {b32*4}, {b32*4}, {f32*4}, b32!, #, b32!, {b16*2}, b32!, {b16*2}").only_on((8, 7), GEFORCE),
    form(Mma, "mma .sp::ordered_metadata .sync .aligned .m16n8k128 .row .col .kind::mxf4.block_scale .scale_vec::2X? .f32 .e2m1 .e2m1 .f32 .ue8m0", "{f32*4} = {b32*4}, {b32*4}, {f32*4}, b32!, #, b32!, {b16*2}, b32!, {b16*2}").only_on((8, 7), GEFORCE_SCALES),
    form(Mma, "mma .sp::ordered_metadata .sync .aligned .m16n8k128 .row .col .kind::mxf4nvf4.block_scale .scale_vec::2X .f32 .e2m1 .e2m1 .f32 .ue8m0", "{f32*4} = {b32*4}, {b32*4}, {f32*4}, b32!, #, b32!, {b16*2}, b32!, {b16*2}").only_on((8, 7), GEFORCE_SCALES),
    form(Mma, "mma .sp::ordered_metadata .sync .aligned .m16n8k128 .row .col .kind::mxf4nvf4.block_scale .scale_vec::4X .f32 .e2m1 .e2m1 .f32 .ue4m3", "{f32*4} = {b32*4}, {b32*4}, {f32*4}, b32!, #, b32!, {b16*2}, b32!, {b16*2}").only_on((8, 7), GEFORCE_SCALES),
    form(WarpgroupSync, "wgmma.fence .sync .aligned?", "").only_on((8, 0), HOPPER),
    form(WarpgroupSync, "wgmma.commit_group .sync .aligned?", "").only_on((8, 0), HOPPER),
    form(WarpgroupSync, "wgmma.wait_group .sync .aligned?", "#").only_on((8, 0), HOPPER),
];

/// The forms of every MMA in [`MMA_TABLE`], and of the loads and stores of `wmma` fragments. Their
/// text is allocated once and never freed.
pub(super) fn mma_forms() -> Vec<Form> {
    let mut forms = BTreeSet::new();
    for row in MMA_TABLE {
        for &accumulators in row.accumulators {
            match row.family {
                Family::Quadpair | Family::Warp | Family::SparseWarp => {
                    forms.extend([warp(row, accumulators)])
                }
                Family::Wmma => forms.extend(wmma(row, accumulators)),
                Family::Warpgroup | Family::SparseWarpgroup => forms.extend(warpgroup(row, accumulators)),
            }
        }
    }
    let leaked = |text: String| -> &'static str { text.leak() };
    // Rows share the loads of accumulators; the oldest sorts first.
    let forms: Vec<Text> = forms.into_iter().collect();
    let forms = forms.chunk_by(|a, b| (&a.name, &a.operands) == (&b.name, &b.operands));
    forms
        .map(|same| {
            let Text { name, operands, since } = same[0].clone();
            let only_on = if name.starts_with("wgmma") { HOPPER } else { &[] };
            let class = class_of(&name);
            let base = form(class, leaked(name), leaked(operands));
            Form { only_on, ..base.since(since.0, since.1) }
        })
        .flat_map(|form| [Some(form), unaligned(&form)].into_iter().flatten())
        .collect()
}

fn class_of(name: &str) -> super::Class {
    match name.split(['.', ' ']).take(2).collect::<Vec<_>>()[..] {
        ["wmma", "load"] => FragmentLoad,
        ["wmma", "store"] => FragmentStore,
        ["wgmma", _] => WarpgroupMma,
        _ => Mma,
    }
}

/// A `wmma` as PTX before 6.3 has it: without `.aligned`, and of f16 only.
fn unaligned(form: &Form) -> Option<Form> {
    let is_first = form.name.starts_with("wmma") && form.since.sm == 70;
    let name = is_first.then(|| form.name.replace(" .aligned", ""))?;
    let first = if name.contains("m16n16k16") { (6, 0) } else { (6, 1) };
    Some(Form { name: name.leak(), ..form.since(first, 70).until((6, 3), 70) })
}

/// A form before its text is leaked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Text {
    name: String,
    operands: String,
    since: ((u32, u32), u32),
}

impl Text {
    fn of(row: &MmaRow, name: String, operands: String) -> Text {
        Text { name, operands, since: (row.ptx_version, row.sm) }
    }
}

/// The alternatives for the types of A and B: `.s8.s8|s8.u8`.
fn inputs(row: &MmaRow) -> String {
    let pairs: Vec<String> = row.inputs.iter().map(|(a, b)| format!("{a}.{b}")).collect();
    format!(".{}", pairs.join("|"))
}

/// The type of a register that holds elements of `data_type`.
fn register(data_type: DataType) -> &'static str {
    match data_type {
        F32 => "f32",
        F64 => "f64",
        _ => "b32",
    }
}

/// The vector of an operand's registers: `{b32*4}`.
fn vector(row: &MmaRow, operand: Operand, shape: Shape, data_type: DataType) -> String {
    format!("{{{}*{}}}", register(data_type), row.registers(operand, shape, data_type))
}

/// The words after the types: what integers and bits allow.
fn modifiers(a: DataType) -> (&'static str, &'static str) {
    match a {
        B1 => ("", " .xor.popc|and.popc"),
        S8 | U8 | S4 | U4 => (" .satfinite?", ""),
        _ => ("", ""),
    }
}

/// `mma` and `mma.sp`.
fn warp(row: &MmaRow, (c, d): (DataType, DataType)) -> Text {
    let (input, shape) = (row.inputs[0].0, row.shape);
    let orders = if row.family == Family::Quadpair { ".row|col .row|col" } else { ".row .col" };
    let (saturation, combination) = modifiers(input);
    let (sparse, metadata) =
        if row.family.is_sparse() { (" .sp|sp::ordered_metadata", ", b32!, #") } else { ("", "") };
    let [a, b] = [Operand::A, Operand::B].map(|operand| vector(row, operand, shape, input));
    let (old, new) = (vector(row, Operand::C, shape, c), vector(row, Operand::D, shape, d));
    let types = format!(".{d} {} .{c}", inputs(row));
    Text::of(
        row,
        format!("mma{sparse} .sync .aligned .{shape} {orders}{saturation} {types}{combination}"),
        format!("{new} = {a}, {b}, {old}{metadata}"),
    )
}

/// `wmma.mma`, and the loads and stores of its fragments.
fn wmma(row: &MmaRow, (c, d): (DataType, DataType)) -> Vec<Text> {
    let (input, shape) = (row.inputs[0].0, row.shape);
    // Matrices of elements narrower than a byte are contiguous along k.
    let orders = if input.bits() < 8 { ["row", "col"] } else { ["row|col", "row|col"] };
    let vector = |operand, data_type| vector(row, operand, shape, data_type);
    let [a, b] = [Operand::A, Operand::B].map(|operand| vector(operand, input));
    let (saturation, combination) = modifiers(input);
    let types = match input {
        F16 => format!(".{d} .{c}"),
        _ => format!(".{d} {} .{c}", inputs(row)),
    };
    let (old, new) = (vector(Operand::C, c), vector(Operand::D, d));
    let operands = format!("{new} = {a}, {b}, {old}");
    let orders_of_both = format!(".{} .{}", orders[0], orders[1]);
    let name = format!("wmma.mma{combination} .sync .aligned {orders_of_both} .{shape} {types}{saturation}");
    let mut forms = vec![Text::of(row, name, operands.clone())];
    if input == F64 {
        // PTX ISA writes the rounding before the types, compilers after them.
        let name =
            |first, last| format!("wmma.mma .sync .aligned {orders_of_both} .{shape}{first} {types}{last}");
        forms = vec![
            Text::of(row, name(" .rn?", ""), operands.clone()),
            Text::of(row, name("", " .rn"), operands),
        ];
    }
    let mut memory = |verb: &str, letter: &str, order: &str, data_type: DataType, operands: String| {
        let name =
            format!("wmma.{verb}.{letter} .sync .aligned .{order} .{shape} .shared|global? .{data_type}");
        forms.push(Text { name, operands, since: (row.ptx_version, row.sm) });
    };
    for &(a_type, b_type) in row.inputs {
        memory("load", "a", orders[0], a_type, format!("{a} = [], b32?"));
        memory("load", "b", orders[1], b_type, format!("{b} = [], b32?"));
    }
    memory("load", "c", "row|col", c, format!("{old} = [], b32?"));
    memory("store", "d", "row|col", d, format!("[], {new}, b32?"));
    forms
}

/// `wgmma.mma_async` with A in shared memory and in registers.
fn warpgroup(row: &MmaRow, (_, d): (DataType, DataType)) -> [Text; 2] {
    let input = row.inputs[0].0;
    let shapes: Vec<String> = row.shapes().map(|shape| shape.to_string()).collect();
    let sparse = if row.family.is_sparse() { " .sp" } else { "" };
    let modifier = match input {
        B1 => " .and.popc",
        S8 | U8 => " .satfinite?",
        _ => "",
    };
    let name = format!(
        "wgmma.mma_async{sparse} .sync .aligned? .M:{} .{d} {}{modifier}",
        shapes.join("|"),
        inputs(row)
    );
    // D has 64 x n elements in 128 threads.
    let accumulator = format!("{{{}*M.n/{}}}", register(d), 64 / d.bits());
    let metadata = if row.family.is_sparse() { " b32!, #," } else { "" };
    let scales = if input.is_float() { ", #, #" } else { "" };
    // Only 16-bit elements may be transposed in shared memory.
    let transposes =
        |in_shared: usize| if input.bits() == 16 { ", #".repeat(in_shared) } else { String::new() };
    let a_registers = vector(row, Operand::A, row.shape, input);
    [("b64!", 2), (a_registers.as_str(), 1)].map(|(a, in_shared)| {
        let operands = format!("{accumulator} += {a}, b64!,{metadata} pred{scales}{}", transposes(in_shared));
        Text::of(row, name.clone(), operands)
    })
}
