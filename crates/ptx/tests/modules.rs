//! What `verify` says of names, variables, directives and operands: each case is what ptxas 13.0 takes
//! (no message) or refuses.

use warpwright_ptx::{parse, verify};
use warpwright_testing::ptxas::Assembler;

const TARGET: &str = "sm_90a";

/// Part of the message, if the case is refused.
type Case = (&'static str, Option<&'static str>);

/// Statements of a kernel.
const STATEMENTS: [Case; 70] = [
    ("L: add.u32 %r1,%r1,1; L: bra L;", Some("`L` is declared twice in one scope.")),
    ("L: { L: bra L; }", None),
    (".reg .b32 x; .reg .b64 x;", Some("`x` is declared twice")),
    (".reg .b32 %r1;", Some("`%r1` is declared twice")),
    (".reg .b32 %r<50>;", Some("`%r` is declared twice")),
    ("{ .reg .b64 %r1; mov.u64 %r1, 0; }", None),
    (".reg .b32 x; x: add.u32 %r1,%r1,1;", Some("`x` is declared twice")),
    (".reg .b32 p0;", Some("`p0` is declared twice")),
    (".shared .b32 s = 4;", Some("`s` is in .shared, whose variables have no initial value")),
    (".local .b32 s = 4;", Some("`s` is in .local")),
    (".reg .b32 x[4];", Some("`x` is a register, which cannot be an array")),
    (".reg .v2 .b32 x; mov.b32 x.x, 1;", None),
    ("add.u32 %r1,%r2,%zz;", Some("`%zz` is not declared.")),
    ("bra nowhere;", Some("`nowhere` is not declared.")),
    ("bra %r1;", Some("`%r1` is a .b32 register, not a label.")),
    ("bra L; { L: add.u32 %r1,%r1,1; }", Some("`L` is not declared.")),
    ("{ bra L; } L: add.u32 %r1,%r1,1;", None),
    ("{ .reg .b32 x; } add.u32 x,%r1,1;", Some("`x` is not declared.")),
    ("add.u32 x,%r1,1; .reg .b32 x;", Some("`x` is not declared.")),
    ("@%r1 add.u32 %r1,%r1,1;", Some("`%r1` is not a predicate.")),
    ("@q add.u32 %r1,%r1,1;", Some("`q` is not declared.")),
    ("call k;", Some("`k` is a kernel; only functions are called.")),
    ("mov.u32 %tid.x,%r1;", Some("`%tid.x` is a special register, which can only be read.")),
    ("mov.u32 %r1,%foo;", Some("`%foo` is not declared.")),
    ("mov.u64 %rd1,%tid.x;", Some("`%tid.x` has 32 bits, not 64.")),
    ("mov.u32 %r1,%clock64;", Some("`%clock64` has 64 bits, not 32.")),
    ("add.u32 %r1,%tid.x,1;", Some("`%tid.x` is a special register: move it to a register")),
    ("add.u32 5,%r1,%r2;", Some("`5` is a literal, and the result needs a register.")),
    ("add.u32 %r1,%f1,1;", Some("`%f1` is a .f32 register, not a register of type .u32, .s32 or .b32")),
    ("add.f32 %f1,%u1,%f1;", Some("`%u1` is a .u32 register, not a register of type .f32 or .b32")),
    ("add.f32 %f1,%r1,%f1;", None),
    ("and.b32 %r1,%f1,%u1;", None),
    ("add.f32 %f1,%f1,1;", Some("`1` is not a register of type .f32 or .b32, or a floating-point literal")),
    ("add.u32 %r1,%r1,0f3F800000;", Some("is not a register of type .u32")),
    ("add.u32 %r1,%r1,%rd1;", Some("`%rd1` is a .b64 register")),
    ("add.u32 %r1,%r1;", Some("The instruction takes 3 operands, and has 2.")),
    ("add.u32 %r1,%r1,%r1,%r1;", Some("The instruction takes 3 operands, and has 4.")),
    ("fma.f32 %f1,%f1,%f1,%f1;", Some("PTX has `fma(.rn|.rz|.rm|.rp){.ftz}{.sat}.f32`.")),
    ("div.f32 %f1,%f1,%f1;", Some("`div.f32` does not exist.")),
    ("sqrt.f32 %f1,%f1;", Some("PTX has `sqrt(.approx|.rn|.rz|.rm|.rp){.ftz}.f32`.")),
    ("rcp.f64 %rd1,%rd1;", Some("`rcp.f64` does not exist.")),
    ("mul.u32 %r1,%r1,%r1;", Some("PTX has `mul.lo(.u16|.u32|.u64|.s16|.s32|.s64)`")),
    ("mad.u32 %r1,%r1,%r1,%r1;", Some("`mad.u32` does not exist.")),
    (
        "fence.acq_rel;",
        Some("`fence.acq_rel` does not exist. PTX has `fence{.sc|.acq_rel|.acquire|.release}"),
    ),
    ("membar;", Some("`membar` does not exist.")),
    ("add.sat.u32 %r1,%r1,%r1;", Some("`add.sat.u32` does not exist.")),
    (
        "cvt.f32.s32 %f1,%r1;",
        Some("The conversions from .s32 to .f32: `cvt(.rn|.rz|.rm|.rp){.ftz}{.sat}.f32.s32`."),
    ),
    ("cvt.s32.f32 %r1,%f1;", Some("The conversions from .f32 to .s32")),
    ("setp.lt.f32 %p1,%f1,%f1,%p2;", Some("The instruction takes 3 operands, and has 4.")),
    ("setp.u32 %p1,%r1,%r1;", Some("`setp.u32` does not exist.")),
    ("shfl.idx.b32 %r1,%r1,0,31;", Some("no longer on sm_70 or later from PTX 6.4 on")),
    ("wgmma.fence.sync.aligned;", None),
    (
        "tcgen05.wait::ld.sync.aligned;",
        Some("on sm_100a, sm_103a or sm_110a, and the module is PTX 9.0 for sm_90a."),
    ),
    ("ld.u32.global %r1,[%rd1];", None),
    ("ld.global.u32 [%rd1],%r1;", Some("`[%rd1]` is not a register")),
    ("ld.global.u32 %r1,%rd1;", Some("`%rd1` is not an address: write `[%rd1]`.")),
    ("ld.global.u64 %r1,[%rd1];", Some("`%r1` is a .b32 register")),
    ("ld.global.u8 %r1,[%rd1];", None),
    ("ld.global.u32 %r1,[p0];", Some("`p0` is in .param, and the instruction accesses .global.")),
    ("ld.u32 %r1,[p0];", Some("which generic addresses do not reach: write `.param`.")),
    ("ld.shared.u32 %r1,[%f1];", Some("an address is a register of an integer or bit type")),
    ("ld.global.v2.f32 {%f1,%f2,%f3},[%rd1];", Some("has 3 elements, not 2.")),
    ("ld.global.v2.f32 %f1,[%rd1];", Some("`%f1` is not a vector of 2 registers.")),
    ("selp.b32 %r1,%r1,%r1,%r1;", Some("`%r1` is a .b32 register, not a predicate.")),
    ("mul.wide.u32 %r1,%r1,%r1;", Some("`%r1` is a .b32 register, not a register of type .u64")),
    ("atom.global.add.s64 %rd1,[%rd1],%rd1;", Some("`atom.global.add.s64` does not exist.")),
    ("ts: .branchtargets A, B; brx.idx %r1, ts; A: B: add.u32 %r1,%r1,1;", None),
    ("brx.idx %r1, L; L: add.u32 %r1,%r1,1;", Some("`L` is a label, not a `.branchtargets` list.")),
    ("ts: .branchtargets A, Z; brx.idx %r1, ts; A: add.u32 %r1,%r1,1;", Some("`Z` is not a label.")),
    ("bra E; E:", None),
];

/// Declarations before a kernel.
const DECLARATIONS: [Case; 33] = [
    (".global .b32 g; .global .b32 g;", Some("`g` is declared twice.")),
    (".global .b32 g; .extern .global .b32 g;", None),
    (".extern .global .b32 g; .extern .global .b32 g;", None),
    (".entry k() { ret; }", Some("`k` is defined twice.")),
    (".func k() { ret; }", Some("`k` is both a kernel and a function.")),
    (".func f(); .func f(); .func f() { ret; }", None),
    (".func f() { ret; } .func f() { ret; }", Some("`f` is defined twice.")),
    (".func f(.reg .b32 a); .func f() { ret; }", Some("The declarations of `f` have different parameters.")),
    (".global .b32 k;", Some("`k` is declared twice.")),
    (".shared .b32 s[2] = {1, 2};", Some("`s` is in .shared")),
    (".const .b32 s = 4;", None),
    (".extern .global .b32 s = 4;", Some("`s` is .extern")),
    (".global .f32 s = 4;", Some("`s` has the type .f32, and an integer as initial value.")),
    (".global .u32 s = 0f3F800000;", Some("`s` has the type .u32, and a floating-point literal")),
    (".global .b32 s = 1.5;", None),
    (".global .u64 s = nothing;", Some("names `nothing`, which is not declared.")),
    (".shared .u32 t; .global .u64 s = t;", Some("which is in .shared")),
    (".const .u32 t; .global .u64 s = t;", None),
    (".local .b32 l[4];", Some(".local variables are declared in functions.")),
    (".param .b32 l;", Some("A parameter belongs to a function")),
    (".reg .b32 l;", Some(".reg variables are declared in functions.")),
    (".global .b32 s[];", Some("The array `s` has no extent")),
    (".shared .b32 s[0];", Some("The array `s` has no extent")),
    (".extern .shared .b32 s[];", None),
    (".global .b32 s[][2] = {{1,2},{3,4}};", None),
    (".global .pred s;", Some("The predicate `s` can only be a register.")),
    (".global .bf16 s;", Some(".bf16 is a type of instructions only: declare `s` with .b16.")),
    (".global .v4 .b64 s;", Some("The vector `s` has more than 128 bits or 4 elements.")),
    (".common .shared .b32 s;", Some("`s` is .common, which only .global variables are.")),
    (".shared .attribute(.managed) .b32 s;", Some("`s` is managed, which only .global variables are.")),
    (".func f() .maxntid 32 { ret; }", Some("`.maxntid` is a directive of kernels, and `f` is a function.")),
    (
        ".func f(.reg .b32 a) { ret; } .entry m() { call f; ret; }",
        Some("The call has 0 arguments, and `f` has 1."),
    ),
    (".func f() { L: ret; } .entry m() { bra L; }", Some("`L` is not declared.")),
];

/// Directives of a kernel.
const DIRECTIVES: [Case; 14] = [
    (".maxnreg 0", Some("`.maxnreg` takes numbers from 1 on.")),
    (".maxnreg 300", None),
    (".maxntid 0", Some("`.maxntid` takes numbers from 1 on.")),
    (".maxntid 2048", None),
    (".reqntid 0", Some("`.reqntid` takes numbers from 1 on.")),
    (".reqntid 32 .maxntid 32", Some("`.maxntid` and `.reqntid` cannot both be given")),
    (".maxntid 32 .minnctapersm 0", Some("`.minnctapersm` takes numbers from 1 on.")),
    (".maxntid 32 .maxnreg 32 .minnctapersm 1", None),
    (".minnctapersm 2", None),
    (".reqnctapercluster 2", None),
    (".explicitcluster", None),
    (
        ".maxclusterrank 8 .reqnctapercluster 4",
        Some("`.reqnctapercluster` and `.maxclusterrank` cannot both"),
    ),
    (".noreturn", Some("`.noreturn` is a directive of functions")),
    (".reqntid 32 .reqnctapercluster 2 .blocksareclusters", None),
];

/// Heads of modules.
const HEADS: [Case; 12] = [
    (".version 9.0\n.target sm_90a", None),
    (".version 9.0\n.target sm_90a\n.address_size 64", None),
    (
        ".version 9.0\n.target sm_90a\n.address_size 32",
        Some("devices have addresses of 64 bits, so write 64."),
    ),
    (".version 9.0\n.target sm_90a\n.address_size 16", Some("`.address_size 16` does not exist")),
    (".version 9.0\n.target sm_90a, texmode_independent", None),
    (".version 9.0\n.target sm_90a, frob", Some("`.target frob` names no architecture")),
    (".version 9.0\n.target sm_91", Some("PTX 9.0 has no target `sm_91`.")),
    (
        ".version 7.8\n.target sm_90a",
        Some("`.target sm_90a` needs PTX 8.0 or later, and the module is PTX 7.8"),
    ),
    (".version 7.9\n.target sm_90", Some("PTX has no version 7.9.")),
    (".version 3.3\n.target sm_30", Some("PTX has no version 3.3.")),
    (".version 6.3\n.target sm_75", None),
    (".version 4.0\n.target sm_50", None),
];

/// A kernel between its parts.
fn text(head: &str, declarations: &str, directives: &str, statements: &str) -> String {
    format!(
        "{head}\n{declarations}\n.visible .entry k(.param .u64 p0, .param .u32 p1) {directives} {{\n.reg .b32 %r<9>; \
         .reg .b64 %rd<9>; .reg .pred %p<9>; .reg .f32 %f<9>; .reg .u32 %u<9>;\n{statements}\nret; }}\n"
    )
}

fn cases() -> Vec<(String, Option<&'static str>)> {
    let head = HEADS[1].0;
    let statements = STATEMENTS.into_iter().map(|(case, said)| (text(head, "", "", case), said));
    let declarations = DECLARATIONS.into_iter().map(|(case, said)| (text(head, case, "", ""), said));
    let directives = DIRECTIVES.into_iter().map(|(case, said)| (text(head, "", case, ""), said));
    let heads = HEADS.into_iter().map(|(case, said)| (format!("{case}\n.entry k() {{ ret; }}\n"), said));
    statements.chain(declarations).chain(directives).chain(heads).collect()
}

#[test]
fn wrong_modules_are_refused_with_a_sentence() {
    let mut wrong = Vec::new();
    for (text, expected) in cases() {
        let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let said: Vec<String> = verify(&module).into_iter().map(|error| error.message).collect();
        match (expected, said.as_slice()) {
            (None, []) => {}
            (Some(part), [first, ..]) if first.contains(part) => {}
            _ => wrong.push(format!("{text}\nsaid {said:?}, expected {expected:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_assembler_takes_and_refuses_the_same() {
    let Some(assembler) = Assembler::from_environment() else { return };
    for (text, expected) in cases() {
        let target = text.lines().find_map(|line| line.strip_prefix(".target ")).unwrap_or(TARGET);
        let target = if target.starts_with("sm_9") { TARGET } else { "sm_75" };
        let answer = assembler.assemble(target, &text);
        assert_eq!(answer.is_ok(), expected.is_none(), "{text}\n{answer:?}");
    }
}

#[test]
fn older_targets_and_versions_have_fewer_instructions() {
    for (version, target, statement, expected) in [
        ("6.3", "sm_75", "cvt.rn.f32.s32 %f1,%r1; bar.sync 0; shfl.sync.idx.b32 %r1,%r1,0,31,-1;", None),
        ("6.5", "sm_75", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1},[%rd1];", None),
        (
            "6.3",
            "sm_75",
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1},[%rd1];",
            Some("exists in PTX 6.5 or later"),
        ),
        ("4.0", "sm_50", "shfl.idx.b32 %r1,%r1,0,31; vote.ballot.b32 %r1,%p1;", None),
        (
            "7.0",
            "sm_75",
            "redux.sync.add.u32 %r1,%r1,-1;",
            Some("on sm_80 or later, and the module is PTX 7.0 for sm_75."),
        ),
        (
            "7.7",
            "sm_80",
            "mov.u32 %r1,%clusterid.x;",
            Some("`%clusterid.x` exists in PTX 7.8 or later on sm_90 or later."),
        ),
        ("9.1", "sm_100a", "cvt.rn.satfinite.e4m3x2.bf16x2 %r1,%r1;", None),
    ] {
        let head = format!(".version {version}\n.target {target}\n.address_size 64");
        let module = parse(&text(&head, "", "", statement)).expect("PTX");
        let said = verify(&module).into_iter().next().map(|error| error.message);
        match expected {
            None => assert_eq!(said, None, "{statement}"),
            Some(part) => {
                assert!(said.as_ref().is_some_and(|said| said.contains(part)), "{statement}: {said:?}")
            }
        }
    }
}
