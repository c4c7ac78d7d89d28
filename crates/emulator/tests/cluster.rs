//! Clusters: their special registers, the addresses of distributed shared memory, and their
//! barrier.

use crate::common::{Shape, cluster_shape, kernel, load, run, shape, try_run, words};
use warpwright_arch::Arch;
use warpwright_emulator::{Emulator, FaultKind, Launch, Schedule};

/// Waits until the whole cluster is here.
const SYNC: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";

/// Stores `count` registers from `%r0` on, for each thread, in the order of clusters, ranks and
/// threads.
fn store_results(count: usize) -> String {
    let stores: String = (0..count).map(|r| format!("st.global.u32 [%d100+{}], %r{r};", 4 * r)).collect();
    format!(
        "mov.u32 %r100, %ctaid.x; mov.u32 %r101, %ntid.x; mad.lo.u32 %r100, %r100, %r101, %t;
         mad.wide.u32 %d100, %r100, {}, %p0; {stores}",
        4 * count
    )
}

#[test]
fn special_registers_tell_the_place_in_the_cluster() {
    let names = [
        "clusterid.x",
        "clusterid.y",
        "clusterid.z",
        "nclusterid.x",
        "nclusterid.y",
        "nclusterid.z",
        "cluster_ctaid.x",
        "cluster_ctaid.y",
        "cluster_ctaid.z",
        "cluster_nctaid.x",
        "cluster_nctaid.y",
        "cluster_nctaid.z",
        "cluster_ctarank",
        "cluster_nctarank",
        "ctaid.x",
        "ctaid.y",
        "ctaid.z",
    ];
    let moves: String =
        names.iter().enumerate().map(|(r, name)| format!("mov.u32 %r{r}, %{name};")).collect();
    let text = kernel(
        1,
        &format!(
            "{moves} mov.pred %q0, %is_explicit_cluster; selp.u32 %r17, 1, 0, %q0;
             mov.u32 %r100, %nctaid.x; mov.u32 %r101, %nctaid.y;
             mad.lo.u32 %r102, %r16, %r101, %r15; mad.lo.u32 %r102, %r102, %r100, %r14;
             mad.wide.u32 %d100, %r102, 72, %p0; {}",
            (0..18).map(|r| format!("st.global.u32 [%d100+{}], %r{r};", 4 * r)).collect::<String>()
        ),
    );
    let (grid, cluster) = ([6, 4, 3], [3, 2, 1]);
    let done = run(&text, Shape { grid, cluster, ..shape(1, 1) }, &[words(vec![0; 72 * 18])]);
    for (linear, row) in done.words(0).chunks(18).enumerate() {
        let linear = linear as u32;
        let cta = [linear % 6, linear / 6 % 4, linear / 24];
        let id = [cta[0] / 3, cta[1] / 2, cta[2]];
        let within = [cta[0] % 3, cta[1] % 2, 0];
        let rank = within[0] + 3 * within[1];
        let expected = [
            id[0], id[1], id[2], 2, 2, 3, within[0], within[1], within[2], 3, 2, 1, rank, 6, cta[0], cta[1],
            cta[2], 1,
        ];
        assert_eq!(row, expected);
    }
    let alone = run(&text, shape(1, 1), &[words(vec![0; 18])]);
    assert_eq!(alone.words(0), [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn every_cta_reads_what_every_other_wrote() {
    // Each thread stores in its own CTA, then reads the same place of the next CTA of the cluster.
    let text = kernel(
        1,
        &format!(
            ".shared .align 16 .b8 s[256];
             mov.u32 %r20, %ctaid.x; mad.lo.u32 %r21, %r20, 1000, %t;
             mov.u32 %r22, s; mad.lo.u32 %r23, %t, 4, %r22; st.shared.u32 [%r23], %r21;
             {SYNC}
             mov.u32 %r24, %cluster_ctarank; mov.u32 %r25, %cluster_nctarank;
             add.u32 %r26, %r24, 1; rem.u32 %r26, %r26, %r25;
             mapa.shared::cluster.u32 %r27, %r23, %r26;
             ld.shared::cluster.u32 %r0, [%r27];
             cvt.u64.u32 %d0, %r23; cvta.shared.u64 %d1, %d0; mapa.u64 %d2, %d1, %r26; ld.u32 %r1, [%d2];
             getctarank.shared::cluster.u32 %r2, %r27; getctarank.u64 %r3, %d2;
             isspacep.shared::cta %q1, %d2; selp.u32 %r4, 1, 0, %q1;
             isspacep.shared::cluster %q1, %d2; selp.u32 %r5, 1, 0, %q1;
             isspacep.shared %q1, %d1; selp.u32 %r6, 1, 0, %q1;
             cvta.to.shared::cluster.u64 %d3, %d2; cvt.u32.u64 %r7, %d3; sub.u32 %r7, %r7, %r27;
             mapa.shared::cluster.u32 %r28, s, %r24; sub.u32 %r8, %r28, %r22;
             shr.u32 %r9, %r22, 24;
             {SYNC} {}",
            store_results(10)
        ),
    );
    for ctas in [1, 2, 3, 8, 16] {
        let done = run(&text, cluster_shape(3, ctas, 48), &[words(vec![0; (3 * ctas * 48 * 10) as usize])]);
        for (thread, row) in done.words(0).chunks(10).enumerate() {
            let (cta, lane) = (thread as u32 / 48, thread as u32 % 48);
            let rank = cta % ctas;
            let next = (rank + 1) % ctas;
            let value = (cta - rank + next) * 1000 + lane;
            let own = u32::from(next == rank);
            assert_eq!(row, [value, value, next, next, own, 1, 1, 0, 0, rank], "cluster of {ctas}");
        }
    }
}

#[test]
fn stores_vectors_and_atomics_reach_peers() {
    // Rank r adds r + 1 to a counter of CTA 0 from every thread, and thread 0 leaves a vector in
    // the next CTA.
    let text = kernel(
        1,
        &format!(
            ".shared .align 16 .b32 v[4]; .shared .b32 counter; .shared .b64 wide;
             setp.ne.u32 %q0, %t, 0; @%q0 bra ready; st.shared.u32 [counter], 0; st.shared.u64 [wide], 0;
             ready: {SYNC}
             mov.u32 %r20, %cluster_ctarank; add.u32 %r21, %r20, 1;
             mov.u32 %r22, counter; mapa.shared::cluster.u32 %r23, %r22, 0;
             red.shared::cluster.add.u32 [%r23], %r21;
             mov.u32 %r24, wide; mapa.shared::cluster.u32 %r25, %r24, 0;
             cvt.u64.u32 %d0, %r21; atom.release.cluster.shared::cluster.add.u64 %d1, [%r25], %d0;
             @%q0 bra done;
             mov.u32 %r26, %cluster_nctarank; rem.u32 %r27, %r21, %r26; mov.u32 %r28, v;
             cvt.u64.u32 %d2, %r28; cvta.shared.u64 %d2, %d2; mapa.u64 %d3, %d2, %r27;
             add.u32 %r29, %r20, 10; st.v4.u32 [%d3], {{%r20, %r21, %r26, %r29}};
             done: {SYNC}
             ld.shared.v4.u32 {{%r0, %r1, %r2, %r3}}, [v]; ld.shared.u32 %r4, [counter]; ld.shared.u32 %r5, [wide];
             {}",
            store_results(6)
        ),
    );
    let done = run(&text, cluster_shape(2, 4, 33), &[words(vec![0; 2 * 4 * 33 * 6])]);
    for (thread, row) in done.words(0).chunks(6).enumerate() {
        let rank = thread as u32 / 33 % 4;
        let before = (rank + 3) % 4;
        let total = if rank == 0 { 33 * (1 + 2 + 3 + 4) } else { 0 };
        assert_eq!(row, [before, before + 1, 4, before + 10, total, total]);
    }
}

#[test]
fn lanes_may_each_name_another_cta() {
    let text = kernel(
        1,
        &format!(
            ".shared .b32 s; mov.u32 %r20, %cluster_ctarank; mul.lo.u32 %r21, %r20, 7; st.shared.u32 [s], %r21;
             {SYNC}
             and.b32 %r22, %t, 3; mov.u32 %r23, s; mapa.shared::cluster.u32 %r24, %r23, %r22;
             ld.shared::cluster.u32 %r0, [%r24];
             and.b32 %r25, %r23, 0xFEFFFFFF; ld.shared::cluster.u32 %r1, [%r25];
             {SYNC} {}",
            store_results(2)
        ),
    );
    let done = run(&text, cluster_shape(1, 4, 32), &[words(vec![0; 4 * 32 * 2])]);
    for (thread, row) in done.words(0).chunks(2).enumerate() {
        let (rank, lane) = (thread as u32 / 32, thread as u32 % 32);
        assert_eq!(row, [lane % 4 * 7, (rank & !1) * 7], "masking bit 24 gives the even CTA of the pair");
    }
}

#[test]
fn the_cluster_barrier_may_be_split_and_waits_for_the_slowest() {
    // Rank 0 writes late; the others arrive early, do something, and wait.
    for (arrive, wait) in [
        ("barrier.cluster.arrive;", "barrier.cluster.wait;"),
        ("barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;"),
        ("fence.acq_rel.cluster; barrier.cluster.arrive.relaxed;", "barrier.cluster.wait.acquire;"),
    ] {
        let text = kernel(
            1,
            &format!(
                ".shared .b32 s; mov.u32 %r20, %cluster_ctarank; mov.u32 %r10, 0;
                 mov.u32 %r21, 0; setp.ne.u32 %q0, %r20, 0; @%q0 bra early;
                 slow: add.u32 %r21, %r21, 1; setp.lt.u32 %q1, %r21, 200000; @%q1 bra slow;
                 early:
                 st.shared.u32 [s], %r21; {arrive} add.u32 %r10, %r10, 5; {wait}
                 mov.u32 %r22, s; mapa.shared::cluster.u32 %r23, %r22, 0; ld.shared::cluster.u32 %r0, [%r23];
                 {arrive} add.u32 %r1, %r10, %r20; {wait} {}",
                store_results(2)
            ),
        );
        for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(3)] {
            let shape = Shape { schedule, ..cluster_shape(2, 4, 40) };
            let done = run(&text, shape, &[words(vec![0; 2 * 4 * 40 * 2])]);
            for (thread, row) in done.words(0).chunks(2).enumerate() {
                assert_eq!(row, [200_000, 5 + thread as u32 / 40 % 4]);
            }
        }
    }
}

#[test]
fn exited_threads_do_not_hold_the_cluster_barrier() {
    let text = kernel(
        1,
        &format!(
            "mov.u32 %r20, %cluster_ctarank; setp.eq.u32 %q0, %r20, 1; @%q0 exit;
             setp.gt.u32 %q1, %t, 7; @%q1 exit; barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r0, 1; {}",
            store_results(1)
        ),
    );
    let done = run(&text, cluster_shape(1, 3, 64), &[words(vec![0; 3 * 64])]);
    for (thread, &value) in done.words(0).iter().enumerate() {
        assert_eq!(value, u32::from(thread / 64 != 1 && thread % 64 <= 7));
    }
}

/// What the fault says, notes included.
fn fault_of(body: &str, shape: Shape) -> (FaultKind, String) {
    let fault = try_run(&kernel(0, body), shape, &[]).err().expect("a fault");
    (fault.kind, fault.to_string())
}

#[test]
fn wrong_accesses_to_peers_are_reported() {
    let touch = |rank: &str, then: &str| {
        format!(
            ".shared .b32 s[4]; mov.u32 %r0, s; mapa.shared::cluster.u32 %r1, %r0, {rank};
             mov.u32 %r2, %cluster_ctarank; setp.ne.u32 %q0, %r2, 0; {then}"
        )
    };
    let shape = cluster_shape(1, 2, 32);
    let (kind, text) = fault_of(&touch("1", "@!%q0 ld.shared::cluster.u32 %r3, [%r1];"), shape);
    assert_eq!(kind, FaultKind::PeerNotResident);
    assert!(text.contains("the CTA of rank 1, which has not started"), "{text}");
    let late = format!(
        "{SYNC} @%q0 exit; nanosleep.u32 10; bar.sync 0; wait: add.u32 %r9, %r9, 1;
         setp.lt.u32 %q1, %r9, 1000000; @%q1 bra wait; ld.shared::cluster.u32 %r3, [%r1];"
    );
    let (kind, text) = fault_of(&touch("1", &late), shape);
    assert_eq!(kind, FaultKind::PeerNotResident);
    assert!(text.contains("the CTA of rank 1, which has exited"), "{text}");
    let (kind, text) =
        fault_of(&touch("2", &format!("{SYNC} ld.shared::cluster.u32 %r3, [%r1]; {SYNC}")), shape);
    assert_eq!(kind, FaultKind::OutOfBounds);
    assert!(text.contains("names the CTA of rank 2, which the cluster does not have"), "{text}");
    let (kind, text) =
        fault_of(&touch("1", &format!("{SYNC} st.shared::cluster.u32 [%r1+16], 1; {SYNC}")), shape);
    assert_eq!(kind, FaultKind::OutOfBounds);
    assert!(text.contains("outside the shared memory of the CTA of rank 1"), "{text}");
    let (kind, text) =
        fault_of(&touch("1", &format!("{SYNC} @!%q0 ld.shared.u32 %r3, [%r1]; {SYNC}")), shape);
    assert_eq!(kind, FaultKind::OutOfBounds);
    assert!(text.contains("use .shared::cluster to access another CTA"), "{text}");
}

#[test]
fn misuse_of_the_cluster_barrier_is_reported() {
    let shape = cluster_shape(1, 2, 32);
    let (kind, text) = fault_of("barrier.cluster.wait;", shape);
    assert_eq!(kind, FaultKind::Barrier);
    assert!(text.contains("without having arrived"), "{text}");
    let (kind, text) = fault_of("barrier.cluster.arrive; barrier.cluster.arrive;", shape);
    assert_eq!(kind, FaultKind::Barrier);
    assert!(text.contains("a second time without a wait"), "{text}");
}

#[test]
fn a_deadlock_of_the_cluster_tells_who_waits_where() {
    // Rank 0 waits for the cluster; the two warps of rank 1 wait at different barriers.
    let (kind, text) = fault_of(
        "mov.u32 %r0, %cluster_ctarank; setp.eq.u32 %q0, %r0, 1; @%q0 bra other;
         barrier.cluster.arrive; barrier.cluster.wait; ret;
         other: shr.u32 %r1, %t, 5; add.u32 %r1, %r1, 1; bar.sync %r1, 64;",
        cluster_shape(2, 2, 64),
    );
    assert_eq!(kind, FaultKind::Deadlock);
    for part in [
        "every thread of the cluster that has not exited waits",
        "CTA of rank 0, warps 0-1 at",
        "waiting at the barrier of the cluster, where 64 threads of the CTA of rank 1 have not arrived",
        "CTA of rank 1, warp 0",
        "waiting at barrier 2, where 32 of 64 threads have arrived",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn launches_ask_for_whole_clusters_the_device_allows() {
    let refused = |text: &str, shape: Shape| try_run(text, shape, &[]).err().expect("refused").message;
    let plain = kernel(0, "");
    let message = refused(&plain, cluster_shape(1, 17, 32));
    assert!(message.contains("The launch has clusters of 17 CTAs; NVIDIA H200 allows 16"), "{message}");
    let message = refused(&plain, Shape { cluster: [2, 1, 1], ..shape(3, 32) });
    assert!(message.contains("not made of whole clusters"), "{message}");
    let message = refused(&plain, Shape { cluster: [0, 1, 1], ..shape(3, 32) });
    assert!(message.contains("has no CTAs"), "{message}");
    let required = plain.replace("k() {", "k() .reqnctapercluster 2, 1, 1 {");
    assert!(refused(&required, cluster_shape(1, 4, 32)).contains(".reqnctapercluster"));
    run(&required, cluster_shape(1, 2, 32), &[]);
    let most = plain.replace("k() {", "k() .maxclusterrank 4 {");
    assert!(refused(&most, cluster_shape(1, 8, 32)).contains(".maxclusterrank"));
    run(&most, cluster_shape(1, 4, 32), &[]);
}

#[test]
fn a_kernel_that_requires_clusters_gets_them_unasked() {
    let text = kernel(1, &format!("mov.u32 %r0, %cluster_nctarank; {}", store_results(1)))
        .replace(") {", ") .reqnctapercluster 2, 1, 1 {");
    assert_eq!(run(&text, shape(4, 1), &[words(vec![0; 4])]).words(0), [2; 4]);
}

/// Each CTA draws a number, and after some barriers stores how many have been drawn.
#[test]
fn ctas_begin_before_earlier_ones_have_ended_under_a_random_schedule() {
    let text = kernel(
        1,
        "setp.ne.u32 %q0, %t, 0; @!%q0 atom.global.add.u32 %r1, [%p0], 1; bar.sync 0; bar.sync 0; bar.sync 0; @%q0 exit;
         ld.relaxed.gpu.global.u32 %r2, [%p0]; mad.wide.u32 %d0, %r1, 4, %p0; st.global.u32 [%d0+4], %r2;",
    );
    let drawn = |schedule| {
        let mut device = Emulator::with_threads(Arch::named("h200").unwrap(), 1).unwrap();
        let program = load(&mut device, &text);
        let name = program.kernels().next().unwrap().to_owned();
        let buffer = device.allocate(4 * 17).unwrap();
        device.fill(buffer, 0, 4 * 17).unwrap();
        let parameters = buffer.to_le_bytes();
        let launch = Launch {
            grid: [16, 1, 1],
            block: [64, 1, 1],
            schedule,
            parameters: &parameters,
            ..Launch::default()
        };
        device.launch(&program, &name, &launch).unwrap();
        let mut bytes = [0; 4 * 17];
        device.read(buffer, &mut bytes).unwrap();
        bytes
            .chunks_exact(4)
            .skip(1)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(drawn(Schedule::Eager), Vec::from_iter(1..=16), "one after another");
    for seed in 1..5 {
        let drawn = drawn(Schedule::Random(seed));
        assert!(drawn.iter().zip(1..).any(|(&all, own)| all > own), "{seed}: {drawn:?}");
    }
}
