//! Copies and stores that Blackwell adds: signals of pairs of CTAs, masks of bytes, zeros in bulk, and
//! asynchronous stores to global memory.

use warpwright_arch::Arch;
use warpwright_arch::tensor_map::{Description, ElementType};
use warpwright_emulator::Emulator;

use crate::common::{Shape, kernel, shape, words};
use crate::tensor_copies::machine::{Case, Copy, run_text};
use crate::tensor_memory::{SCHEDULES, ran};

fn blackwell(pointers: usize, body: &str) -> String {
    kernel(pointers, body).replace("sm_90a", "sm_100a")
}

/// CTA 0 of four copies 64 bytes to the CTAs of a mask. Those of `waiting` expect `bytes` bytes each at
/// their mbarriers, and wait for them. Then those of the mask store the first word that they received.
fn multicast(group: &str, mask: u32, signaled: u32, waiting: u32, bytes: u32) -> String {
    format!(
        ".version 9.0\n.target sm_100a\n.address_size 64
        .visible .entry copy(.param .align 64 .b8 map[128], .param .align 4 .b8 at[48], .param .u64 buffer) {{
        .reg .pred %q<8>; .reg .b32 %r<16>; .reg .b16 %h; .reg .b64 %d<4>;
        .shared .align 128 .b8 tile[64]; .shared .align 8 .b64 barrier;
        mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, barrier; mov.u32 %r3, %cluster_ctarank;
        mov.u32 %r9, 1; shl.b32 %r9, %r9, %r3; and.b32 %r4, %r9, {mask}; and.b32 %r5, %r9, {waiting};
        ld.param.u64 %d0, [buffer]; mov.b64 %d1, map; cvta.param.u64 %d1, %d1;
        setp.eq.u32 %q0, %r0, 0; setp.ne.and.u32 %q1, %r5, 0, %q0; setp.eq.and.u32 %q2, %r3, 0, %q0;
        @%q0 mbarrier.init.shared.b64 [%r2], 1; @%q0 fence.mbarrier_init.release.cluster;
        @%q1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {bytes};
        barrier.cluster.arrive; barrier.cluster.wait;
        mov.u16 %h, {mask}; mov.u32 %r8, 0; mapa.shared::cluster.u32 %r6, %r2, {signaled};
        @%q2 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster{group} \
             [%r1], [%d1, {{%r8}}], [%r6], %h;
        setp.ne.u32 %q3, %r5, 0;
        @!%q3 bra known;
        wait: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %q4, [%r2], 0; @!%q4 bra wait;
        known: barrier.cluster.arrive; barrier.cluster.wait;
        setp.ne.and.u32 %q5, %r4, 0, %q0; mul.wide.u32 %d2, %r3, 4; add.u64 %d2, %d2, %d0;
        @%q5 ld.shared.u32 %r7, [%r1]; @%q5 st.global.u32 [%d2], %r7; ret; }}"
    )
}

/// PTX ISA, "cp.async.bulk.tensor": the signal goes to the mbarrier of each destination, also of a
/// single one that is not the operand's; with `.cta_group::2`, to that of the CTA of its pair whose rank
/// is even or odd as the operand's, which receives the bytes of both.
#[test]
fn a_multicast_signals_the_mbarriers_of_its_destinations() {
    let cases = [
        ("", 0b1111, 0, 0b1111, 64),
        ("", 0b0100, 0, 0b0100, 64),
        (".cta_group::1", 0b1010, 0, 0b1010, 64),
        (".cta_group::2", 0b1111, 0, 0b0101, 128),
        (".cta_group::2", 0b1111, 1, 0b1010, 128),
        (".cta_group::2", 0b1001, 2, 0b0101, 64),
    ];
    let case = Case {
        copy: Copy::Load,
        map: Description::row_major(ElementType::U32, 0, &[16], &[16]),
        coordinates: vec![0],
        offsets: Vec::new(),
        tile_offset: 0,
        expected: None,
    };
    let mut device = Emulator::with_threads(Arch::named("b200").unwrap(), 1).unwrap();
    let global: Vec<u8> = (1..=16u32).flat_map(u32::to_le_bytes).collect();
    for (group, mask, signaled, waiting, bytes) in cases {
        let text = multicast(group, mask, signaled, waiting, bytes);
        for schedule in SCHEDULES {
            let (_, words) = run_text(&mut device, &text, 4, &case, &global, &[0; 16], schedule)
                .unwrap_or_else(|fault| panic!("{group} {mask:#b}: {fault}"));
            let expected: Vec<u8> = (0..4).flat_map(|rank| (mask >> rank & 1u32).to_le_bytes()).collect();
            assert_eq!(words, expected, "{group} {mask:#b} {schedule:?}");
        }
    }
}

/// Of each 16 bytes, those of the mask are stored.
#[test]
fn bytes_of_a_mask_are_stored() {
    let body = "
        .shared .align 16 .b8 tile[64]; mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r2, %r2, %r1;
        mad.lo.u32 %r3, %t, 0x04040404, 0x03020100; setp.lt.u32 %q0, %t, 16; @%q0 st.shared.u32 [%r2], %r3;
        fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 %q1, %t, 0; mov.u16 %h1, 0x90f1;
        @%q1 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%p0], [%r1], 64, %h1;
        @%q1 cp.async.bulk.commit_group; @%q1 cp.async.bulk.wait_group 0;";
    for schedule in SCHEDULES {
        let launch = Shape { schedule, ..shape(1, 32) };
        let finished = ran(&blackwell(1, body), launch, &[words([u32::MAX; 16])]);
        let bytes: Vec<u8> = finished.words(0).into_iter().flat_map(u32::to_le_bytes).collect();
        let expected: Vec<u8> =
            (0..64).map(|at| if 0x90f1 >> (at % 16) & 1 != 0 { at } else { 0xff }).collect();
        assert_eq!(bytes, expected, "{schedule:?}");
    }
}

/// Each warp's first lane clears a range of its own size, by a shared or a generic address.
#[test]
fn a_range_of_shared_memory_is_cleared() {
    let body = "
        .shared .align 8 .b8 tile[128]; mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r2, %r2, %r1;
        setp.lt.u32 %q0, %t, 32; @%q0 st.shared.u32 [%r2], 7; bar.sync 0;
        setp.eq.u32 %q1, %t, 0; mov.u64 %d1, 24; @%q1 st.bulk.weak.shared::cta [%r1+8], %d1, 0;
        setp.eq.u32 %q2, %t, 32; cvta.shared.u64 %d2, tile; @%q2 st.bulk [%d2+64], 16, 0;
        bar.sync 0; @%q0 ld.shared.u32 %r3, [%r2]; mul.wide.u32 %d3, %t, 4; add.u64 %d3, %d3, %p0;
        @%q0 st.global.u32 [%d3], %r3;";
    let finished = ran(&blackwell(1, body), shape(1, 64), &[words([1; 32])]);
    let expected: Vec<u32> = (0..32).map(|word| if matches!(word, 2..8 | 16..20) { 0 } else { 7 }).collect();
    assert_eq!(finished.words(0), expected);
}

#[test]
fn asynchronous_stores_reach_global_memory() {
    let body = "
        mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %p0; st.async.mmio.release.sys.global.u32 [%d1], %t;
        add.u64 %d2, %p0, 128; red.async.release.gpu.global.add.u32 [%d2], %t;
        add.u64 %d3, %p0, 132; red.async.mmio.release.sys.max.s32 [%d3], %t;";
    let finished = ran(&blackwell(1, body), shape(1, 32), &[words([0; 34])]);
    assert_eq!(finished.words(0), (0..32).chain([496, 31]).collect::<Vec<u32>>());
}
