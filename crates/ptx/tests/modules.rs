//! What `verify` says of names, variables, directives and operands: each case is what ptxas 13.0 takes
//! (no message) or refuses.

use warpwright_ptx::{parse, verify};
use warpwright_testing::ptxas::Assembler;

const TARGET: &str = "sm_90a";

/// Part of the message, if the case is refused.
type Case = (&'static str, Option<&'static str>);

/// Statements of a kernel.
const STATEMENTS: [Case; 135] = [
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
    ("ld.acq_rel.gpu.global.u32 %r1,[%rd1];", Some("does not exist: `ld` has no modifier `.acq_rel`.")),
    (
        "mma.sync.aligned.m16n9k16.row.col.f32.f16.f16.f32 {%f1,%f1,%f1,%f1},{%r1,%r1,%r1,%r1},{%r1,%r1},{%f1,%f1,%f1,%f1};",
        Some("`mma` has no shape .m16n9k16."),
    ),
    ("st.global.nc.u32 [%rd1],%r1;", Some("`st` has no modifier `.nc`.")),
    ("red.global.exch.b32 [%rd1],%r1;", Some("`red` has no modifier `.exch`.")),
    ("shfl.sync.idx.u32 %r1,%r1,0,31,-1;", Some("`shfl` has no modifier `.u32`.")),
    ("ld.reg.u32 %r1,[%rd1];", Some("`ld` has no modifier `.reg`.")),
    ("bra.sys L; L:", Some("`bra` has no modifier `.sys`.")),
    ("bra.uni L; L:", None),
    ("bra.unj L; L:", Some("`bra` has no modifier `.unj`.")),
    ("selep.b32 %r1,%r1,%r2,%p1;", Some("PTX 9.0 has no instruction `selep`. Did you mean `selp`?")),
    ("frobnicate.sync.b32 %r1,[%rd1],{%r2,3};", Some("PTX 9.0 has no instruction `frobnicate`.")),
    ("fma.arn.f32 %f1,%f1,%f1,%f1;", Some("`fma` has no modifier `.arn`. Did you mean `.rn`?")),
    ("setp.gt.s3 %p1,%r1,2;", Some("`setp` has no modifier `.s3`. Did you mean `.s32`?")),
    ("ld.global.v2.u32.neg {%r1,%r2},[%rd1];", Some("`ld` has no modifier `.neg`.")),
    ("st.param::entry.u32 [%rd1],%r1;", Some("`st` has no modifier `.param::entry`.")),
    ("@%p1 st.param.b32 [p1],%r1;", Some("can only be read.")),
    (".param .b32 x; @%p1 st.param.b32 [x],%r1;", Some("`x` is an argument or a result of calls")),
    (".param .b32 x; @%p1 ld.param.b32 %r1,[x];", Some("takes no guard: branch around it.")),
    (".global .samplerref s;", Some("`s` is a .samplerref, which a module declares")),
    (".global .texref s;", Some("`s` is a .texref, which a module declares")),
    (".tex .u32 t;", Some("`t` is in .tex, whose variables are declared outside of functions.")),
    ("membar.gpu;", Some("`membar` has no modifier `.gpu`.")),
    ("mov .u32 %r1,%r2;", None),
    ("mov.v2.b32 {%r1,_},{%r2,%f3};", None),
    ("mov.v4.u32 {%r1,%r2,%r3,%r4},%tid;", None),
    ("mov.u32 %r1,%gridid;", None),
    (".reg .b8 b<4>; mov.b32 {b0,b1,b2,b3},%r1; mov.b32 %r1,{b0,b1,b2,b3};", None),
    (".reg .b128 q; mov.b128 {%r1,%r2,%r3,%r4},q; mov.b128 q,{%r1,%r2,%r3,%r4};", None),
    ("ret.uni;", None),
    ("vshr.u32.u32.u32.clamp.add %r1,%r2,%r3,%r4;", None),
    ("bfi.b32 %r1,%r2,%r3,%f1,%r4;", Some("`%f1` is a .f32 register, not a register of type .u32")),
    ("bar.sync %f1;", Some("`%f1` is a .f32 register")),
    ("ld.global.v2.u32 {%r1,%rd2},[%rd1];", Some("`%r1` is a .b32 register and `%rd2` a .b64 register")),
    ("ld.global.v2.u16 {%r1,%rd2},[%rd1];", Some("those of a vector have one width")),
    ("ld.global.v2.b32 {%f1,%u2},[%rd1];", Some("`%f1` is a .f32 register and `%u2` a .u32 register")),
    ("ld.global.v2.u32 {%f1,%f2},[%rd1];", Some("`%f1` is a .f32 register")),
    ("ld.global.v2.u32 {%f1,%r2},[%rd1];", None),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r1,[%r1];", Some("`%r1` is not a vector of 1 registers.")),
    (
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%u1,%u2,%u3,%u4},{%r1,%r2},{%r3},{%f1,%f2,%f3,%f4};",
        Some("Operand 1 of `mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32`: `%u1` is a .u32 register"),
    ),
    ("ld.global.u32 %r1,[%r1];", Some("an address of .global and a generic address have 64 bits.")),
    ("ld.global.u32 %r1,[16];", Some("A number is an address in .local only")),
    ("ld.local.u32 %r1,[16];", None),
    (".shared .b64 s; mbarrier.init.shared.b64 [s],1;", None),
    (
        ".shared .b64 s; prefetch.global.L1 [s];",
        Some("`s` is in .shared, and the instruction accesses .global."),
    ),
    (
        ".global .b64 s; mbarrier.init.b64 [s],1;",
        Some("`s` is in .global, and the instruction accesses .shared."),
    ),
    (
        ".shared .b64 s; cp.async.ca.shared.global [s],[s],8;",
        Some("Operand 2 of `cp.async.ca.shared.global`: `s` is in .shared"),
    ),
    (".shared .b64 s; cvta.global.u64 %rd1,s;", Some("`s` is in .shared")),
    (".shared .b64 s; cvta.to.shared.u64 %rd1,s;", Some("`cvta.to` takes a register")),
    (".global .b64 s; mov.u32 %r1,s;", Some("whose addresses have 64 bits: write `mov.u64`")),
    (".shared .b64 s; mov.u32 %r1,s;", None),
    ("st.param.u32 [p1],%r1;", Some("`p1` is a parameter of the function, which can only be read.")),
    ("mov.u64 %rd1,L; L:", Some("`L` is a label")),
    ("bar.sync 16;", Some("Operand 1 of `bar.sync` is 16; it may be 0 to 15.")),
    ("bar.sync 0,33;", Some("a barrier takes a multiple of 32.")),
    ("bar.arrive 0,0;", Some("`bar.arrive` has no threads")),
    ("bfe.u32 %r1,%r2,300,4;", Some("Operand 3 of `bfe.u32` is 300; it may be 0 to 255.")),
    ("pmevent 16;", Some("Operand 1 of `pmevent` is 16")),
    ("pmevent.mask 65535;", None),
    ("discard.global.L2 [%rd1],64;", Some("it may be 128.")),
    ("cp.async.ca.shared.global [%r1],[%rd1],4,5;", Some("it may be 0 to 4.")),
    ("mbarrier.arrive.shared.b64 %rd1,[%r1],0;", Some("it may be 1 or more.")),
    ("mbarrier.arrive.expect_tx.shared.b64 %rd1,[%r1],0;", None),
    (
        "ts: .branchtargets A; brx.idx %rd1, ts; A:",
        Some("`%rd1` is a .b64 register, not an index of 32 bits."),
    ),
    ("brx.idx %r1, ts; ts: .branchtargets A; A:", Some("`ts` is not declared.")),
    (".reg .v2 .pred z;", Some("The predicate `z` is a scalar")),
];

/// Declarations before a kernel.
const DECLARATIONS: [Case; 72] = [
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
    (".global .u64 s = t; .global .u32 t;", Some("Declare it before `s`.")),
    (".global .u64 s = s;", Some("Declare it before `s`.")),
    (".func f() { ret; } .global .u64 s = f;", None),
    (".global .u32 t; .global .b64 s = t;", Some("which variables of .u32 and .u64 hold")),
    (".global .u32 t; .global .u8 s[2] = {0xff(t), 0xff00(t)};", None),
    (".global .b32 s[2][2] = {1, 2, 3, 4};", Some("`s` has more initial values than elements.")),
    (".global .b32 s[2][2] = {{1, 2, 3}, {4}};", Some("`s` has more initial values than elements.")),
    (".global .b32 s[2][2] = {1, {2}};", Some("has fewer braces than it has dimensions.")),
    (".global .b32 s[2] = {{1}, {2}};", Some("has more braces than it has dimensions.")),
    (".global .v2 .f32 s[2] = {{1.0, 2.0}, {3.0, 4.0}};", None),
    (".global .v2 .f32 s = {1.0};", Some("has 1 of 2 elements.")),
    (".global .b32 s[0] = {};", Some("has no elements, and an initial value.")),
    (".global .f16 s = 1.0;", Some("which has no initial value")),
    (".tex .u32 s;", Some("which PTX has before version 1.5")),
    (".const .texref s;", Some("which only .global variables are.")),
    (".global .samplerref s;", Some("texmode_independent")),
    (".const .b8 s[65536]; .const .b8 t;", Some("take 65537 bytes; a module may have 65536.")),
    (".func f(.reg .b32 a); .func f(.reg .b64 a) { ret; }", Some("have different parameters.")),
    (
        ".extern .func f(); .func f() { ret; }",
        Some("`f` is declared as .extern and defined without a linking"),
    ),
    (".weak .func f(); .visible .func f() { ret; }", Some("as .weak and defined as .visible.")),
    (".visible .func f(); .func f() { ret; }", None),
    (".extern .func f() { ret; }", Some("its body stands in another module.")),
    (".entry m();", Some("The kernel `m` is declared and not defined.")),
    (".extern .entry m();", None),
    (".func (.param .b32 a, .param .b32 b) f() { ret; }", Some("`f` has several results")),
    (".entry m(.param .u32 a[]) { ret; }", Some("as only the last parameter of a function may.")),
    (".func f(.const .b32 a) { ret; }", Some("`a` is in .const; parameters are in .param.")),
    (".func f(.param .b8 a[]) { ret; }", None),
    (".entry m(.param .v4 .f32 a) { ret; }", Some("`a` is a vector")),
    (".func f(); .func a(); .alias a, f;", Some("`f` has no body, and the alias `a` stands for it.")),
    (
        ".func f(.param .b32 x) { ret; } .func a(); .alias a, f;",
        Some("`a` and `f` have different parameters."),
    ),
    (
        ".func f(.param .b32 a) { ret; } .entry m() { .param .b64 x; call f, (x); ret; }",
        Some("The argument is `.param .b64 x`: `f` has `.param .b32 a` here."),
    ),
    (".func f(.param .b32 a) { ret; } .entry m() { .param .f32 x; call f, (x); ret; }", None),
    (
        ".func f(.reg .u32 a) { ret; } .entry m() { .reg .f32 x; call f, (x); ret; }",
        Some("`x` is a .f32 register: `f` has `.reg .u32 a` here."),
    ),
    (
        ".func f(.reg .u32 a) { ret; } .entry m() { call f, (1.0); ret; }",
        Some("is a literal of another type"),
    ),
    (".func f(.reg .u32 a) { ret; } .entry m() { call f, (_); ret; }", Some("`_` passes no value")),
    (
        ".func f(.param .align 8 .b8 a[16]) { ret; } .entry m() { .param .align 4 .b8 x[16]; call f, (x); ret; }",
        Some("The argument is `.param .align 4 .b8 x[16]`"),
    ),
    (
        ".entry m() { .reg .u64 a; P: .callprototype _ (.param .b32 _); call a, P; ret; }",
        Some("The call has 0 arguments, and `P` has 1."),
    ),
    (
        ".func f() { ret; } .func g(.reg .b32 a) { ret; } .entry m() { .reg .u64 a; T: .calltargets f, g; call a, T; ret; }",
        Some("The call has 0 arguments, and `T` has 1."),
    ),
];

/// Directives of a kernel.
const DIRECTIVES: [Case; 20] = [
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
    (".maxntid", Some("`.maxntid` takes 1 to 3 numbers, and has 0.")),
    (".maxntid 1, 2, 3, 4", Some("`.maxntid` takes 1 to 3 numbers, and has 4.")),
    (".maxnreg 1, 2", Some("`.maxnreg` takes 1 numbers, and has 2.")),
    (".maxnctapersm 2", Some("write `.minnctapersm`.")),
    (".abi_preserve 10", Some("`.abi_preserve` is a directive of functions, and `k` is a kernel.")),
    (".blocksareclusters .reqntid 32", Some("stands with `.reqntid` and `.reqnctapercluster`.")),
];

/// Heads of modules.
const HEADS: [Case; 17] = [
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
    (".version 9.0\n.target sm_90a\n.target sm_90a\n.address_size 64", None),
    (".version 9.0\n.target sm_90a, texmode_unified, texmode_independent", Some("remove one.")),
    (".version 9.0\n.target sm_90a, map_f64_to_f32", Some("`map_f64_to_f32` is for targets without f64")),
    (".version 9.0\n.target debug", Some("`.target` names no architecture")),
    (".version 2.1\n.target sm_20\n.local .b32 l; .reg .b32 r;", None),
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
    let mut wrong = Vec::new();
    for (text, expected) in cases() {
        let target = text.lines().find_map(|line| line.strip_prefix(".target ")).unwrap_or(TARGET);
        let target = if target.starts_with("sm_9") { TARGET } else { "sm_75" };
        let answer = assembler.assemble(target, &text);
        if answer.is_ok() != expected.is_none() {
            wrong.push(format!("{text}\n{answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Text that does not parse, and what ptxas refuses, too.
const PARSE_ERRORS: [(&str, &str); 11] = [
    (".visible .weak .func f() { ret; }", "`.entry`, `.func` or a state space"),
    (".common .func f() { ret; }", "a variable after `.common`"),
    (".entry m(.param .u32 a = 5) { ret; }", "a parameter without an initial value"),
    (".global .b32 s = {1};", "a value without `{`, for a scalar"),
    (".global .b32 s[2] = 1;", "`{` before the values"),
    (".global .b32 _;", "the name of a variable"),
    (".global .b32 WARP_SZ;", "the name of a variable"),
    (".entry _() { ret; }", "the name of a function"),
    (".entry m() { _: ret; }", "a statement: an instruction, a label"),
    (".global .f64 s = 1e400;", "a number that PTX can write"),
    (".address_size 64", "`.entry`, `.func` or a state space"),
];

#[test]
fn text_that_is_no_ptx_is_refused_with_what_is_expected() {
    for (declaration, expected) in PARSE_ERRORS {
        let text = text(HEADS[1].0, declaration, "", "");
        let said = parse(&text).expect_err(declaration).to_string();
        assert!(said.contains(expected), "{declaration}: {said}");
        if let Some(assembler) = Assembler::from_environment() {
            assert!(assembler.assemble(TARGET, &text).is_err(), "{declaration}");
        }
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
        ("7.4", "sm_88", "", None),
        ("7.8", "sm_90", ".reg .b16 h; cvt.rn.satfinite.e4m3x2.f32 h,%f1,%f2;", None),
        ("8.1", "sm_89", ".reg .b16 h; cvt.rn.satfinite.e4m3x2.f32 h,%f1,%f2;", None),
        (
            "8.0",
            "sm_89",
            ".reg .b16 h; cvt.rn.satfinite.e4m3x2.f32 h,%f1,%f2;",
            Some("exists in PTX 8.1 or later on sm_89 or later"),
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
