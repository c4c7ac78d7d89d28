/* Kernels of the test programs. `add`: z = x + y. `wait`: waits until a word of mapped memory is 1. */
static const char vector_ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 4 .u32 launches;\n.visible .const .align 4 .b8 table[80];\n"
    ".visible .entry add(.param .u64 px, .param .u64 py, .param .u64 pz, .param .u32 pn)\n"
    "{ .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<4>;\n"
    "ld.param.u64 %d1, [px]; ld.param.u64 %d2, [py]; ld.param.u64 %d3, [pz]; ld.param.u32 %r1, [pn];\n"
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "setp.ge.u32 %p, %r5, %r1; @%p bra done;\n"
    "mul.wide.u32 %d4, %r5, 4; add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d4;\n"
    "ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d2]; add.f32 %f3, %f1, %f2; st.global.f32 [%d3], %f3;\n"
    "setp.ne.u32 %p, %r5, 0; @%p bra done; mov.u64 %d5, launches; atom.global.add.u32 %r6, [%d5], 1;\n"
    "done: ret; }\n"
    ".visible .entry spin(.param .u64 pflag)\n"
    "{ .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    "ld.param.u64 %d1, [pflag];\n"
    "again: ld.acquire.sys.global.u32 %r1, [%d1]; setp.ne.u32 %p, %r1, 1; @%p bra again; ret; }\n"
    ".visible .entry fault(.param .u64 paddress)\n"
    "{ .local .align 16 .b8 depot[400]; .reg .b64 %d<4>; ld.param.u64 %d1, [paddress]; st.global.u32 [%d1], 1; ret; }\n";
