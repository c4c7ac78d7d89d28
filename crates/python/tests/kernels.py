"""Kernels of the tests, in PTX."""

HEADER = """
.version 8.0
.target sm_80
.address_size 64
"""

# sum[i] = a * x[i] + y[i]
AXPY = (
    HEADER
    + """
.visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u64 sum, .param .u32 length)
{
    .reg .pred %p<1>;
    .reg .b32 %r<5>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<7>;
    ld.param.f32 %f0, [a];
    ld.param.u64 %rd0, [x];
    ld.param.u64 %rd1, [y];
    ld.param.u64 %rd2, [sum];
    ld.param.u32 %r0, [length];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p0, %r4, %r0;
    @%p0 bra DONE;
    mul.wide.u32 %rd3, %r4, 4;
    add.u64 %rd4, %rd0, %rd3;
    add.u64 %rd5, %rd1, %rd3;
    add.u64 %rd6, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd5];
    fma.rn.f32 %f3, %f0, %f1, %f2;
    st.global.f32 [%rd6], %f3;
DONE:
    ret;
}
"""
)

# The first warp writes a tile of shared memory, and the second reads it.
HAND_OVER = (
    HEADER
    + """
.visible .entry hand_over(.param .u64 x, .param .u64 y)
{
    .reg .pred %p<1>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    .shared .align 4 .b8 tile[128];
    ld.param.u64 %rd0, [x];
    ld.param.u64 %rd1, [y];
    mov.u32 %r0, %tid.x;
    and.b32 %r1, %r0, 31;
    shl.b32 %r1, %r1, 2;
    mov.u32 %r2, tile;
    add.u32 %r2, %r2, %r1;
    cvt.u64.u32 %rd2, %r1;
    setp.ge.u32 %p0, %r0, 32;
    @%p0 bra READ;
    add.u64 %rd3, %rd0, %rd2;
    ld.global.u32 %r3, [%rd3];
    st.shared.u32 [%r2], %r3;
READ:
    bar.sync 0;
    @!%p0 bra DONE;
    ld.shared.u32 %r3, [%r2];
    add.u64 %rd4, %rd1, %rd2;
    st.global.u32 [%rd4], %r3;
DONE:
    ret;
}
"""
)
RACE = HAND_OVER.replace("    bar.sync 0;\n", "")

ENDLESS = (
    HEADER
    + """
.visible .entry endless()
{
    .reg .b64 %rd<1>;
    mov.u64 %rd0, 0;
COUNT:
    add.u64 %rd0, %rd0, 1;
    bra COUNT;
}
"""
)

# Parameters of every kind: pair is a structure, half is 16 bits.
KINDS = (
    HEADER
    + """
.visible .entry kinds(.param .u64 .ptr .global .align 4 out, .param .s32 count,
    .param .f64 scale, .param .b16 half, .param .align 8 .b8 pair[16])
{
    .reg .b32 %r<3>;
    .reg .b16 %h<1>;
    .reg .f64 %d<1>;
    .reg .b64 %rd<1>;
    ld.param.u64 %rd0, [out];
    ld.param.s32 %r0, [count];
    ld.param.f64 %d0, [scale];
    ld.param.b16 %h0, [half];
    ld.param.u32 %r1, [pair+8];
    st.global.u32 [%rd0], %r0;
    st.global.f64 [%rd0+8], %d0;
    cvt.u32.u16 %r2, %h0;
    st.global.u32 [%rd0+16], %r2;
    st.global.u32 [%rd0+20], %r1;
    ret;
}
"""
)
