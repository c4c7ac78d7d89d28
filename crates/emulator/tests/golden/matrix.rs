//! `mma`, sparse `mma` and `wmma`: small integers, whose sums are exact and so prove which lane and
//! register own which element; wide magnitudes, which show how sums are rounded; and special
//! values.

use crate::golden::case::{Buffer, Case, Width};
use crate::golden::inputs::{Element, Input, Kind};

/// Warps in a case: each multiplies other matrices.
const WARPS: usize = 8;

#[derive(Clone, Copy)]
struct Multiply {
    shape: &'static str,
    /// `.d.a.b.c`
    types: &'static str,
    a: Registers,
    b: Registers,
    c: Registers,
    /// What follows the layouts: `.satfinite`, `.xor.popc`.
    suffix: &'static str,
    layouts: &'static str,
}

const fn dense(
    shape: &'static str,
    types: &'static str,
    a: Registers,
    b: Registers,
    c: Registers,
) -> Multiply {
    Multiply { shape, types, a, b, c, suffix: "", layouts: "row.col" }
}

/// What the registers of an operand hold, and how many there are.
type Registers = (Element, usize);

use Element::{Bf16, E4m3, E5m2, F16, F32, F64, S32, Tf32, Word};

const MULTIPLIES: &[Multiply] = &[
    dense("m16n8k8", "f16.f16.f16.f16", (F16, 2), (F16, 1), (F16, 2)),
    dense("m16n8k8", "f32.f16.f16.f32", (F16, 2), (F16, 1), (F32, 4)),
    dense("m16n8k16", "f16.f16.f16.f16", (F16, 4), (F16, 2), (F16, 2)),
    dense("m16n8k16", "f32.f16.f16.f32", (F16, 4), (F16, 2), (F32, 4)),
    dense("m16n8k8", "f32.bf16.bf16.f32", (Bf16, 2), (Bf16, 1), (F32, 4)),
    dense("m16n8k16", "f32.bf16.bf16.f32", (Bf16, 4), (Bf16, 2), (F32, 4)),
    dense("m16n8k4", "f32.tf32.tf32.f32", (Tf32, 2), (Tf32, 1), (F32, 4)),
    dense("m16n8k8", "f32.tf32.tf32.f32", (Tf32, 4), (Tf32, 2), (F32, 4)),
    dense("m8n8k4", "f64.f64.f64.f64", (F64, 1), (F64, 1), (F64, 2)),
    dense("m16n8k4", "f64.f64.f64.f64", (F64, 2), (F64, 1), (F64, 4)),
    dense("m16n8k8", "f64.f64.f64.f64", (F64, 4), (F64, 2), (F64, 4)),
    dense("m16n8k16", "f64.f64.f64.f64", (F64, 8), (F64, 4), (F64, 4)),
    dense("m16n8k32", "f32.e4m3.e4m3.f32", (E4m3, 4), (E4m3, 2), (F32, 4)),
    dense("m16n8k32", "f32.e4m3.e5m2.f32", (E4m3, 4), (E5m2, 2), (F32, 4)),
    dense("m16n8k32", "f32.e5m2.e4m3.f32", (E5m2, 4), (E4m3, 2), (F32, 4)),
    dense("m16n8k32", "f32.e5m2.e5m2.f32", (E5m2, 4), (E5m2, 2), (F32, 4)),
    dense("m16n8k16", "f32.e4m3.e4m3.f32", (E4m3, 2), (E4m3, 1), (F32, 4)),
    dense("m16n8k32", "f16.e4m3.e4m3.f16", (E4m3, 4), (E4m3, 2), (F16, 2)),
    dense("m16n8k16", "f16.e5m2.e4m3.f16", (E5m2, 2), (E4m3, 1), (F16, 2)),
];

/// m8n8k4 is of f16, in all layouts: four matrices at once, one to each quarter of the warp's
/// lanes.
const QUADS: &[(&str, usize, Element)] =
    &[("f16.f16.f16.f16", 4, F16), ("f32.f16.f16.f32", 8, F32), ("f32.f16.f16.f16", 4, F16)];

const INTEGERS: &[(&str, &str, usize, usize, usize)] = &[
    ("m8n8k16", "8", 1, 1, 2),
    ("m16n8k16", "8", 2, 1, 4),
    ("m16n8k32", "8", 4, 2, 4),
    ("m8n8k32", "4", 1, 1, 2),
    ("m16n8k32", "4", 2, 1, 4),
    ("m16n8k64", "4", 4, 2, 4),
];

const BITS: &[(&str, usize, usize, usize)] =
    &[("m8n8k128", 1, 1, 2), ("m16n8k128", 2, 1, 4), ("m16n8k256", 4, 2, 4)];

/// Sparse shapes: types, elements of a, b and c, and the selectors that are legal.
const SPARSE: &[(&str, &str, Registers, Registers, Registers, u32)] = &[
    ("m16n8k16", "f16.f16.f16.f16", (F16, 2), (F16, 2), (F16, 2), 4),
    ("m16n8k16", "f32.f16.f16.f32", (F16, 2), (F16, 2), (F32, 4), 4),
    ("m16n8k32", "f16.f16.f16.f16", (F16, 4), (F16, 4), (F16, 2), 2),
    ("m16n8k32", "f32.f16.f16.f32", (F16, 4), (F16, 4), (F32, 4), 2),
    ("m16n8k16", "f32.bf16.bf16.f32", (Bf16, 2), (Bf16, 2), (F32, 4), 4),
    ("m16n8k32", "f32.bf16.bf16.f32", (Bf16, 4), (Bf16, 4), (F32, 4), 2),
    ("m16n8k8", "f32.tf32.tf32.f32", (Tf32, 2), (Tf32, 2), (F32, 4), 4),
    ("m16n8k16", "f32.tf32.tf32.f32", (Tf32, 4), (Tf32, 4), (F32, 4), 2),
    ("m16n8k32", "s32.s8.s8.s32", (Word, 2), (Word, 2), (S32, 4), 2),
    ("m16n8k64", "s32.s8.u8.s32", (Word, 4), (Word, 4), (S32, 4), 1),
    ("m16n8k64", "s32.u4.s4.s32", (Word, 2), (Word, 2), (S32, 4), 2),
    ("m16n8k128", "s32.s4.s4.s32", (Word, 4), (Word, 4), (S32, 4), 1),
    ("m16n8k64", "f32.e4m3.e4m3.f32", (E4m3, 4), (E4m3, 4), (F32, 4), 1),
    ("m16n8k64", "f32.e5m2.e4m3.f32", (E5m2, 4), (E4m3, 4), (F32, 4), 1),
];

pub(crate) fn cases() -> Vec<Case> {
    [dense_cases(), quads(), integers(), sparse(), wmma()].concat()
}

fn list(name: char, registers: usize) -> String {
    let names: Vec<String> = (0..registers).map(|i| format!("%{name}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

fn width(element: Element) -> Width {
    if element == F64 { Width::B64 } else { Width::B32 }
}

fn operand(case: Case, name: char, (element, registers): Registers, kind: fn(Element) -> Kind) -> Case {
    let position = (name as u8 - b'a') as usize;
    let input = Input { kind: kind(element), arity: 3, position, elements: 32 * WARPS * registers };
    case.operand(name, width(element), registers, Buffer::Input(input))
}

/// A name, and the numbers it stands for.
type Values = (&'static str, fn(Element) -> Kind);

/// The three sets of values that every floating multiply is tried with.
const VALUES: [Values; 3] = [("exact", Kind::Small), ("wide", Kind::Wide), ("special", Kind::Special)];

fn multiply(family: &'static str, operation: Multiply, values: Values) -> Case {
    let Multiply { shape, types, a, b, c, suffix, layouts } = operation;
    let name = format!("{shape}.{layouts}.{types}{suffix}.{}", values.0);
    let d = if types.starts_with("f32") && c.0 == F16 { 2 * c.1 } else { c.1 };
    let case = [('a', a), ('b', b), ('c', c)]
        .into_iter()
        .fold(Case::new(family, name).target("sm_90").warps(WARPS), |case, (name, part)| {
            operand(case, name, part, values.1)
        });
    let suffix_first = if suffix == ".satfinite" { suffix } else { "" };
    let suffix_last = if suffix == ".satfinite" { "" } else { suffix };
    case.output(width(c.0), d).body(format!(
        "mma.sync.aligned.{shape}.{layouts}{suffix_first}.{types}{suffix_last} {}, {}, {}, {};",
        list('d', d),
        list('a', a.1),
        list('b', b.1),
        list('c', c.1)
    ))
}

fn dense_cases() -> Vec<Case> {
    MULTIPLIES.iter().flat_map(|&operation| VALUES.map(|values| multiply("mma", operation, values))).collect()
}

fn quads() -> Vec<Case> {
    let mut cases = Vec::new();
    for layouts in ["row.col", "row.row", "col.row", "col.col"] {
        for &(types, registers, c) in QUADS {
            let operation =
                Multiply { layouts, ..dense("m8n8k4", types, (F16, 2), (F16, 2), (c, registers)) };
            let values = if layouts == "row.col" { &VALUES[..2] } else { &VALUES[..1] };
            cases.extend(values.iter().map(|&values| multiply("mma", operation, values)));
        }
    }
    cases
}

fn integers() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(shape, width, a, b, c) in INTEGERS {
        for (x, y) in [("s", "s"), ("u", "u"), ("s", "u"), ("u", "s")] {
            for suffix in ["", ".satfinite"] {
                let types = format!("s32.{x}{width}.{y}{width}.s32").leak();
                let operation = Multiply { suffix, ..dense(shape, types, (Word, a), (Word, b), (S32, c)) };
                let values = if suffix.is_empty() { VALUES[0] } else { VALUES[1] };
                cases.push(multiply("mma_integer", operation, values));
            }
        }
    }
    for &(shape, a, b, c) in BITS {
        for suffix in [".xor.popc", ".and.popc"] {
            let operation =
                Multiply { suffix, ..dense(shape, "s32.b1.b1.s32", (Word, a), (Word, b), (S32, c)) };
            cases.push(multiply("mma_integer", operation, VALUES[0]));
        }
    }
    cases
}

fn sparse() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(shape, types, a, b, c, selectors) in SPARSE {
        for selector in 0..selectors {
            let kind = if a.0 == Tf32 { Kind::OneOfTwo } else { Kind::TwoOfFour };
            let metadata = Input { kind, arity: 1, position: 0, elements: 32 * WARPS };
            let name = format!("sp.{shape}.{types}.{selector}");
            let case = [('a', a), ('b', b), ('c', c)]
                .into_iter()
                .fold(Case::new("mma_sparse", name).target("sm_90").warps(WARPS), |case, (name, part)| {
                    operand(case, name, part, Kind::Small)
                });
            cases.push(case.operand('e', Width::B32, 1, Buffer::Input(metadata)).output(Width::B32, c.1).body(format!(
                "mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.{types} {}, {}, {}, {}, %e0, {selector};",
                list('d', c.1),
                list('a', a.1),
                list('b', b.1),
                list('c', c.1)
            )));
        }
    }
    cases
}

/// A wmma type: its shapes with the registers of a, b and an accumulator.
struct Warp {
    shape: &'static str,
    element: &'static str,
    accumulator: &'static str,
    registers: (usize, usize, usize),
    /// Rows, columns and depth.
    size: (usize, usize, usize),
    /// Bits of an element of a and b, and of the accumulator.
    bits: (usize, usize),
    layouts: &'static [(&'static str, &'static str)],
    kind: (Element, Element),
}

const ALL: &[(&str, &str)] = &[("row", "col"), ("row", "row"), ("col", "row"), ("col", "col")];
const ROW_COLUMN: &[(&str, &str)] = &[("row", "col")];

const WARPS_TABLE: &[Warp] = &[
    Warp {
        shape: "m16n16k16",
        element: "f16",
        accumulator: "f32",
        registers: (8, 8, 8),
        size: (16, 16, 16),
        bits: (16, 32),
        layouts: ALL,
        kind: (F16, F32),
    },
    Warp {
        shape: "m32n8k16",
        element: "f16",
        accumulator: "f32",
        registers: (8, 8, 8),
        size: (32, 8, 16),
        bits: (16, 32),
        layouts: ALL,
        kind: (F16, F32),
    },
    Warp {
        shape: "m8n32k16",
        element: "f16",
        accumulator: "f32",
        registers: (8, 8, 8),
        size: (8, 32, 16),
        bits: (16, 32),
        layouts: ALL,
        kind: (F16, F32),
    },
    Warp {
        shape: "m16n16k16",
        element: "f16",
        accumulator: "f16",
        registers: (8, 8, 4),
        size: (16, 16, 16),
        bits: (16, 16),
        layouts: ALL,
        kind: (F16, F16),
    },
    Warp {
        shape: "m32n8k16",
        element: "f16",
        accumulator: "f16",
        registers: (8, 8, 4),
        size: (32, 8, 16),
        bits: (16, 16),
        layouts: ROW_COLUMN,
        kind: (F16, F16),
    },
    Warp {
        shape: "m8n32k16",
        element: "f16",
        accumulator: "f16",
        registers: (8, 8, 4),
        size: (8, 32, 16),
        bits: (16, 16),
        layouts: ROW_COLUMN,
        kind: (F16, F16),
    },
    Warp {
        shape: "m16n16k16",
        element: "bf16",
        accumulator: "f32",
        registers: (4, 4, 8),
        size: (16, 16, 16),
        bits: (16, 32),
        layouts: ALL,
        kind: (Bf16, F32),
    },
    Warp {
        shape: "m32n8k16",
        element: "bf16",
        accumulator: "f32",
        registers: (8, 2, 8),
        size: (32, 8, 16),
        bits: (16, 32),
        layouts: ALL,
        kind: (Bf16, F32),
    },
    Warp {
        shape: "m8n32k16",
        element: "bf16",
        accumulator: "f32",
        registers: (2, 8, 8),
        size: (8, 32, 16),
        bits: (16, 32),
        layouts: ALL,
        kind: (Bf16, F32),
    },
    Warp {
        shape: "m16n16k8",
        element: "tf32",
        accumulator: "f32",
        registers: (4, 4, 8),
        size: (16, 16, 8),
        bits: (32, 32),
        layouts: ALL,
        kind: (Tf32, F32),
    },
    Warp {
        shape: "m8n8k4",
        element: "f64",
        accumulator: "f64",
        registers: (1, 1, 2),
        size: (8, 8, 4),
        bits: (64, 64),
        layouts: ALL,
        kind: (F64, F64),
    },
    Warp {
        shape: "m16n16k16",
        element: "s8",
        accumulator: "s32",
        registers: (2, 2, 8),
        size: (16, 16, 16),
        bits: (8, 32),
        layouts: ALL,
        kind: (Word, S32),
    },
    Warp {
        shape: "m32n8k16",
        element: "u8",
        accumulator: "s32",
        registers: (4, 1, 8),
        size: (32, 8, 16),
        bits: (8, 32),
        layouts: ALL,
        kind: (Word, S32),
    },
    Warp {
        shape: "m8n32k16",
        element: "s8",
        accumulator: "s32",
        registers: (1, 4, 8),
        size: (8, 32, 16),
        bits: (8, 32),
        layouts: ALL,
        kind: (Word, S32),
    },
    Warp {
        shape: "m8n8k32",
        element: "s4",
        accumulator: "s32",
        registers: (1, 1, 2),
        size: (8, 8, 32),
        bits: (4, 32),
        layouts: ROW_COLUMN,
        kind: (Word, S32),
    },
    Warp {
        shape: "m8n8k128",
        element: "b1",
        accumulator: "s32",
        registers: (1, 1, 2),
        size: (8, 8, 128),
        bits: (1, 32),
        layouts: ROW_COLUMN,
        kind: (Word, S32),
    },
];

/// Load, multiply and store; and beside the product, the registers of fragments loaded from
/// numbered elements, which name their owners.
fn wmma() -> Vec<Case> {
    WARPS_TABLE.iter().flat_map(|warp| warp.layouts.iter().map(|&layouts| wmma_case(warp, layouts))).collect()
}

fn wmma_case(warp: &Warp, (left, right): (&'static str, &'static str)) -> Case {
    let Warp { shape, element, accumulator, registers, size: (m, n, k), bits, kind, .. } = warp;
    let words = |rows: usize, columns: usize, bits: usize| rows * columns * bits / width(kind.0).bytes() / 8;
    let input = |element: Element, position: usize, elements: usize| {
        Buffer::RawInput(Input { kind: Kind::Small(element), arity: 3, position, elements })
    };
    let stride = |layout: &str, rows: usize, columns: usize| if layout == "row" { columns } else { rows };
    // The accumulator is read by rows and written by columns where A's layout is by columns, so
    // both are seen.
    let store = if left == "col" { "col" } else { "row" };
    let operation = if *element == "b1" { ".xor.popc" } else { "" };
    let declared = if *element == "f64" { "b64" } else { "b32" };
    let types = match *element {
        "f16" => format!("{accumulator}.{accumulator}"),
        _ => format!("{accumulator}.{element}.{element}.{accumulator}"),
    };
    let name = format!("wmma.{shape}.{left}.{right}.{element}.{accumulator}");
    let width = width(kind.0);
    let fragments = |prefix: char, fragment: char, count: usize| {
        let names: Vec<String> = (0..count).map(|i| format!("%{prefix}{fragment}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    // Loads a fragment of numbered elements and writes its registers to a buffer.
    let numbered = |fragment: char,
                    count: usize,
                    layout: &str,
                    ty: &str,
                    stride: usize,
                    from: char,
                    to: char| {
        let stores: String = (0..count)
            .map(|i| format!("st.global.{declared} [%at+{}], %g{fragment}{i};\n", i * 32 * width.bytes()))
            .collect();
        format!(
            "wmma.load.{fragment}.sync.aligned.{layout}.{shape}.global.{ty} {}, [%base_{from}], {stride};\n\
             mad.wide.u32 %at, %lane, {}, %base_{to};\n{stores}",
            fragments('g', fragment, count),
            width.bytes()
        )
    };
    let (a, b, c) = *registers;
    let (left_stride, right_stride) = (stride(left, *m, *k), stride(right, *k, *n));
    let body = format!(
        ".reg .{declared} %fa<{a}>, %fb<{b}>, %fc<{c}>, %fd<{c}>, %ga<{a}>, %gb<{b}>, %gc<{c}>;\n\
         wmma.load.a.sync.aligned.{left}.{shape}.global.{element} {}, [%base_a], {left_stride};\n\
         wmma.load.b.sync.aligned.{right}.{shape}.global.{element} {}, [%base_b], {right_stride};\n\
         wmma.load.c.sync.aligned.row.{shape}.global.{accumulator} {}, [%base_c], {n};\n\
         wmma.mma{operation}.sync.aligned.{left}.{right}.{shape}.{types} {}, {}, {}, {};\n\
         wmma.store.d.sync.aligned.{store}.{shape}.global.{accumulator} [%base_d], {}, {};\n{}{}{}",
        fragments('f', 'a', a),
        fragments('f', 'b', b),
        fragments('f', 'c', c),
        fragments('f', 'd', c),
        fragments('f', 'a', a),
        fragments('f', 'b', b),
        fragments('f', 'c', c),
        fragments('f', 'd', c),
        stride(store, *m, *n),
        numbered('a', a, left, element, left_stride, 'n', 'x'),
        numbered('b', b, right, element, right_stride, 'n', 'y'),
        numbered('c', c, "row", accumulator, *n, 'm', 'z'),
    );
    let iota = |bits: usize, elements: usize| {
        Buffer::RawInput(Input { kind: Kind::Iota(bits), arity: 1, position: 0, elements })
    };
    Case::new("wmma", name)
        .warps(1)
        .operand('a', width, 0, input(kind.0, 0, words(*m, *k, bits.0)))
        .operand('b', width, 0, input(kind.0, 1, words(*k, *n, bits.0)))
        .operand('c', width, 0, input(kind.1, 2, words(*m, *n, bits.1)))
        .operand('n', width, 0, iota(bits.0, words(*k, (*m).max(*n), bits.0)))
        .operand('m', width, 0, iota(bits.1, words(*m, *n, bits.1)))
        .operand('d', width, 0, Buffer::RawOutput(words(*m, *n, bits.1)))
        .operand('x', width, 0, Buffer::RawOutput(32 * a))
        .operand('y', width, 0, Buffer::RawOutput(32 * b))
        .operand('z', width, 0, Buffer::RawOutput(32 * c))
        .body(body)
}
