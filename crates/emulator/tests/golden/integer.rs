//! Integer, bit and video instructions.

use crate::golden::case::{Case, Width};
use crate::golden::inputs::Kind::{self, U16, U32, U64};
use crate::golden::scalar::{operands, predicates, several, simple};

const TYPES: [(&str, Kind, Width); 6] = [
    ("u16", U16, Width::B16),
    ("s16", U16, Width::B16),
    ("u32", U32, Width::B32),
    ("s32", U32, Width::B32),
    ("u64", U64, Width::B64),
    ("s64", U64, Width::B64),
];

pub(crate) fn cases() -> Vec<Case> {
    [arithmetic(), packed(), carry(), bits(), permute(), video()].concat()
}

fn arithmetic() -> Vec<Case> {
    let mut cases = Vec::new();
    for (ty, kind, width) in TYPES {
        let list =
            |names: &[&str]| -> Vec<String> { names.iter().map(|name| format!("{name}.{ty}")).collect() };
        let two = list(&["add", "sub", "mul.lo", "mul.hi", "min", "max"]);
        cases.push(several("integer", &format!("arithmetic.{ty}"), &two, &[kind; 2], width));
        cases.push(several("integer", &format!("divide.{ty}"), &list(&["div", "rem"]), &[kind; 2], width));
        let three = list(&["mad.lo", "mad.hi", "sad"]);
        cases.push(several("integer", &format!("accumulate.{ty}"), &three, &[kind; 3], width));
        if ty.starts_with('s') {
            cases.push(several("integer", &format!("sign.{ty}"), &list(&["abs", "neg"]), &[kind], width));
        }
        let (comparisons, names): (Vec<&str>, &str) = if ty.starts_with('s') {
            (vec!["eq", "ne", "lt", "le", "gt", "ge"], "signed")
        } else {
            (vec!["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"], "unsigned")
        };
        let tests: Vec<String> = comparisons.iter().map(|name| format!("setp.{name}.{ty}")).collect();
        cases.push(predicates("integer", &format!("setp.{names}.{ty}"), &tests, &[kind; 2]));
    }
    for (ty, kind, wide) in [
        ("u16", U16, Width::B32),
        ("s16", U16, Width::B32),
        ("u32", U32, Width::B64),
        ("s32", U32, Width::B64),
    ] {
        cases.push(simple("integer", &format!("mul.wide.{ty}"), &[kind; 2], wide));
        let wide_kind = if kind == U16 { U32 } else { U64 };
        cases.push(simple("integer", &format!("mad.wide.{ty}"), &[kind, kind, wide_kind], wide));
    }
    for instruction in ["add.sat.s32", "sub.sat.s32"] {
        cases.push(simple("integer", instruction, &[U32; 2], Width::B32));
    }
    cases.push(simple("integer", "mad.hi.sat.s32", &[U32; 3], Width::B32));
    for ty in ["u32", "s32"] {
        for half in ["lo", "hi"] {
            cases.push(simple("integer", &format!("mul24.{half}.{ty}"), &[U32; 2], Width::B32));
            cases.push(simple("integer", &format!("mad24.{half}.{ty}"), &[U32; 3], Width::B32));
        }
    }
    cases.push(simple("integer", "mad24.hi.sat.s32", &[U32; 3], Width::B32));
    for a in ["u32", "s32"] {
        for b in ["u32", "s32"] {
            for operation in ["dp4a", "dp2a.lo", "dp2a.hi"] {
                cases.push(simple("integer", &format!("{operation}.{a}.{b}"), &[U32; 3], Width::B32));
            }
        }
    }
    cases
}

/// The packed 16-bit integers of sm_90.
fn packed() -> Vec<Case> {
    [
        "add.u16x2",
        "add.s16x2",
        "min.u16x2",
        "max.u16x2",
        "min.s16x2",
        "max.s16x2",
        "min.relu.s16x2",
        "max.relu.s16x2",
        "min.relu.s32",
        "max.relu.s32",
    ]
    .map(|instruction| simple("integer", instruction, &[U32; 2], Width::B32).target("sm_90"))
    .to_vec()
}

fn carry() -> Vec<Case> {
    let chain = |name: &str, kinds: &[Kind], width: Width, results: usize, body: &str| {
        operands(Case::new("carry", name), kinds, width, results).body(body)
    };
    vec![
        chain(
            "add.u32",
            &[U32; 3],
            Width::B32,
            3,
            "add.cc.u32 %d0, %a0, %b0;\naddc.cc.u32 %d1, %b0, %c0;\naddc.u32 %d2, %c0, %a0;",
        ),
        chain(
            "add.s32",
            &[U32; 3],
            Width::B32,
            3,
            "add.cc.s32 %d0, %a0, %b0;\naddc.cc.s32 %d1, %b0, %c0;\naddc.s32 %d2, %c0, %a0;",
        ),
        chain(
            "sub.u32",
            &[U32; 3],
            Width::B32,
            3,
            "sub.cc.u32 %d0, %a0, %b0;\nsubc.cc.u32 %d1, %b0, %c0;\nsubc.u32 %d2, %c0, %a0;",
        ),
        chain(
            "add.u64",
            &[U64; 3],
            Width::B64,
            3,
            "add.cc.u64 %d0, %a0, %b0;\naddc.cc.u64 %d1, %b0, %c0;\naddc.u64 %d2, %c0, %a0;",
        ),
        chain(
            "sub.u64",
            &[U64; 3],
            Width::B64,
            3,
            "sub.cc.u64 %d0, %a0, %b0;\nsubc.cc.u64 %d1, %b0, %c0;\nsubc.u64 %d2, %c0, %a0;",
        ),
        chain(
            "mad.u32",
            &[U32; 3],
            Width::B32,
            3,
            "mad.lo.cc.u32 %d0, %a0, %b0, %c0;\nmadc.hi.cc.u32 %d1, %a0, %b0, %c0;\nmadc.lo.u32 %d2, %b0, %c0, %a0;",
        ),
        chain(
            "mad.s32",
            &[U32; 3],
            Width::B32,
            3,
            "mad.hi.cc.s32 %d0, %a0, %b0, %c0;\nmadc.lo.cc.s32 %d1, %a0, %b0, %c0;\nmadc.hi.s32 %d2, %b0, %c0, %a0;",
        ),
        chain(
            "mad.u64",
            &[U64; 3],
            Width::B64,
            3,
            "mad.lo.cc.u64 %d0, %a0, %b0, %c0;\nmadc.hi.cc.u64 %d1, %a0, %b0, %c0;\nmadc.lo.u64 %d2, %b0, %c0, %a0;",
        ),
        chain("sub.then.add", &[U32; 3], Width::B32, 2, "sub.cc.u32 %d0, %a0, %b0;\naddc.u32 %d1, %b0, %c0;"),
        chain("add.then.sub", &[U32; 3], Width::B32, 2, "add.cc.u32 %d0, %a0, %b0;\nsubc.u32 %d1, %b0, %c0;"),
    ]
}

fn bits() -> Vec<Case> {
    let mut cases = Vec::new();
    for (ty, kind, width) in [("b16", U16, Width::B16), ("b32", U32, Width::B32), ("b64", U64, Width::B64)] {
        let list =
            |names: &[&str]| -> Vec<String> { names.iter().map(|name| format!("{name}.{ty}")).collect() };
        cases.push(several("bits", &format!("logic.{ty}"), &list(&["and", "or", "xor"]), &[kind; 2], width));
        cases.push(several("bits", &format!("not.{ty}"), &list(&["not", "cnot"]), &[kind], width));
        let size = &ty[1..];
        let shifts = [format!("shl.b{size}"), format!("shr.u{size}"), format!("shr.s{size}")];
        cases.push(several("bits", &format!("shift.{ty}"), &shifts, &[kind, U32], width));
    }
    for (ty, kind, width) in [("b32", U32, Width::B32), ("b64", U64, Width::B64)] {
        cases.push(several(
            "bits",
            &format!("count.{ty}"),
            &[format!("clz.{ty}"), format!("popc.{ty}")],
            &[kind],
            Width::B32,
        ));
        cases.push(simple("bits", &format!("brev.{ty}"), &[kind], width));
        cases.push(simple("bits", &format!("bfi.{ty}"), &[kind, kind, Kind::Bytes, U32], width));
    }
    for (ty, kind, width) in &TYPES[2..] {
        cases.push(several(
            "bits",
            &format!("bfind.{ty}"),
            &[format!("bfind.{ty}"), format!("bfind.shiftamt.{ty}")],
            &[*kind],
            Width::B32,
        ));
        cases.push(simple("bits", &format!("bfe.{ty}"), &[*kind, U32, U32], *width));
    }
    // Byte positions and lengths are 32-bit registers.
    for case in &mut cases {
        if case.name.starts_with("bfi.") {
            case.body = format!(
                ".reg .b32 %position;\ncvt.u32.u16 %position, %c0;\n{}",
                case.body.replace("%c0", "%position")
            );
        }
    }
    for (ty, kind, width) in &TYPES[2..] {
        let case = Case::new("bits", format!("bfe.short.{ty}"));
        let body = format!(
            ".reg .b32 %position, %length;\nand.b32 %position, %b0, 63;\nand.b32 %length, %c0, 63;\nbfe.{ty} %d0, %a0, %position, %length;"
        );
        cases.push(operands(case, &[*kind, U32, U32], *width, 1).body(body));
    }
    for mode in ["clamp", "wrap"] {
        cases.push(several(
            "bits",
            &format!("shf.{mode}.b32"),
            &[format!("shf.l.{mode}.b32"), format!("shf.r.{mode}.b32")],
            &[U32; 3],
            Width::B32,
        ));
        cases.push(simple("bits", &format!("bmsk.{mode}.b32"), &[U32; 2], Width::B32));
        for ty in ["u32", "s32"] {
            cases.push(simple("bits", &format!("szext.{mode}.{ty}"), &[U32; 2], Width::B32));
        }
    }
    let case = Case::new("bits", "fns.b32");
    let body = ".reg .b32 %at_bit, %count;\nand.b32 %at_bit, %b0, 31;\nbfe.s32 %count, %c0, 0, 6;\nfns.b32 %d0, %a0, %at_bit, %count;";
    cases.push(operands(case, &[U32; 3], Width::B32, 1).body(body));
    let body: String = [0x00, 0x01, 0x1e, 0x2d, 0x78, 0x96, 0xca, 0xe8, 0xb4, 0xff]
        .iter()
        .enumerate()
        .map(|(i, table)| format!("lop3.b32 %d{i}, %a0, %b0, %c0, {table};\n"))
        .collect();
    cases.push(operands(Case::new("bits", "lop3.b32"), &[U32; 3], Width::B32, 10).body(body));
    let body = ".reg .pred %p, %q;\nsetp.lt.u32 %q, %a0, %b0;\nlop3.or.b32 %d0|%p, %a0, %b0, %c0, 0x96, %q;\nselp.b32 %d1, 1, 0, %p;\n\
                lop3.and.b32 %d2|%p, %a0, %b0, %c0, 0x80, %q;\nselp.b32 %d3, 1, 0, %p;";
    cases.push(operands(Case::new("bits", "lop3.predicate.b32"), &[U32; 3], Width::B32, 4).body(body));
    cases
}

fn permute() -> Vec<Case> {
    let mut cases = Vec::new();
    for mode in ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"] {
        let case = simple("bits", &format!("prmt.b32{mode}"), &[U32; 3], Width::B32);
        let body = format!("{}\nadd.u32 %c0, %c0, %thread;\nprmt.b32{mode} %d1, %a0, %b0, %c0;", case.body);
        cases.push(operands(Case::new("bits", case.name.clone()), &[U32; 3], Width::B32, 2).body(body));
    }
    cases
}

fn video() -> Vec<Case> {
    let mut cases = Vec::new();
    let scalar = |name: String, kinds: usize, body: String| {
        operands(Case::new("video", name), &[U32; 4][..kinds], Width::B32, 1).body(body)
    };
    for operation in ["vadd", "vsub", "vabsdiff", "vmin", "vmax"] {
        for types in ["s32.s32.s32", "u32.u32.u32", "s32.u32.s32", "u32.s32.u32"] {
            cases.push(scalar(
                format!("{operation}.{types}"),
                2,
                format!("{operation}.{types} %d0, %a0.b1, %b0.h1;"),
            ));
            cases.push(scalar(
                format!("{operation}.{types}.sat.add"),
                3,
                format!("{operation}.{types}.sat.add %d0, %a0, %b0.h0, %c0;"),
            ));
        }
        cases.push(scalar(
            format!("{operation}.merge"),
            3,
            format!("{operation}.s32.s32.s32.sat %d0.b2, %a0.h1, %b0.b3, %c0;"),
        ));
        cases.push(scalar(
            format!("{operation}.min"),
            3,
            format!("{operation}.s32.s32.s32.min %d0, %a0, %b0, %c0;"),
        ));
    }
    for operation in ["vshl", "vshr"] {
        for mode in ["clamp", "wrap"] {
            for ty in ["u32", "s32"] {
                cases.push(scalar(
                    format!("{operation}.{ty}.{mode}"),
                    2,
                    format!("{operation}.{ty}.{ty}.u32.{mode} %d0, %a0, %b0;"),
                ));
            }
        }
    }
    for (name, modifiers) in
        [("shr7", ".shr7"), ("shr15.sat", ".sat.shr15"), ("po.sat", ".po.sat"), ("plain", "")]
    {
        for types in ["s32.s32.s32", "u32.u32.u32"] {
            if name.starts_with("po") {
                cases.push(scalar(
                    format!("vmad.{types}.{name}"),
                    3,
                    format!("vmad.{types}.po %d0, %a0.h0, %b0.h1, %c0;"),
                ));
            } else {
                cases.push(scalar(
                    format!("vmad.{types}.{name}"),
                    3,
                    format!("vmad.{types}{modifiers} %d0, %a0.h0, %b0.h1, %c0;"),
                ));
            }
        }
    }
    cases.push(scalar("vmad.negated".into(), 3, "vmad.s32.s32.s32 %d0, -%a0.h0, %b0.h1, %c0;".into()));
    for comparison in ["eq", "ne", "lt", "le", "gt", "ge"] {
        cases.push(scalar(
            format!("vset.{comparison}"),
            3,
            format!("vset.s32.u32.{comparison}.add %d0, %a0.h0, %b0.h0, %c0;"),
        ));
    }
    for lanes in ["2", "4"] {
        for operation in ["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"] {
            for types in ["s32.s32.s32", "u32.u32.u32", "s32.u32.s32"] {
                let name = format!("{operation}{lanes}.{types}");
                cases.push(scalar(name.clone(), 3, format!("{name} %d0, %a0, %b0, %c0;")));
            }
            let name = format!("{operation}{lanes}.s32.s32.s32");
            if operation != "vavrg" {
                cases.push(scalar(format!("{name}.sat"), 3, format!("{name}.sat %d0, %a0, %b0, %c0;")));
            }
            cases.push(scalar(format!("{name}.add"), 3, format!("{name}.add %d0, %a0, %b0, %c0;")));
        }
        for comparison in ["lt", "eq", "ge"] {
            let name = format!("vset{lanes}.s32.u32.{comparison}");
            cases.push(scalar(name.clone(), 3, format!("{name} %d0, %a0, %b0, %c0;")));
            cases.push(scalar(format!("{name}.add"), 3, format!("{name}.add %d0, %a0, %b0, %c0;")));
        }
    }
    cases.push(scalar(
        "vadd2.selectors".into(),
        3,
        "vadd2.s32.s32.s32 %d0.h1, %a0.h03, %b0.h21, %c0;".into(),
    ));
    cases.push(scalar(
        "vadd4.selectors".into(),
        3,
        "vadd4.s32.s32.s32 %d0.b310, %a0.b7531, %b0.b0246, %c0;".into(),
    ));
    cases
}
