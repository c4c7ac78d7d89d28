//! Clusters: special registers, distributed shared memory, mbarriers, and what is asynchronous with
//! neither tensor nor bulk.
//!
//! Every case is of two clusters. No case waits for ever where the emulator is wrong: phases are
//! asked for once, behind a barrier of the cluster.

use crate::golden::case::{Case, Width};

/// Threads of a CTA.
const THREADS: usize = 64;
const SYNC: &str = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";

/// Registers that all cases have: the rank, the next rank, the one before, and room for addresses.
const REGISTERS: &str = ".reg .b32 %rank, %ranks, %next, %last, %own, %peer, %local, %x<16>;\n.reg .b64 %generic, %far, %y<16>;\n\
                         .reg .f32 %f<4>;\n.reg .b16 %h<4>;\n.reg .pred %p, %q, %first;\n\
                         mov.u32 %local, %tid.x;\nmov.u32 %rank, %cluster_ctarank;\nmov.u32 %ranks, %cluster_nctarank;\n\
                         add.u32 %next, %rank, 1;\nrem.u32 %next, %next, %ranks;\n\
                         add.u32 %last, %rank, %ranks;\nsub.u32 %last, %last, 1;\nrem.u32 %last, %last, %ranks;\n\
                         setp.eq.u32 %first, %local, 0;\n";

pub(crate) fn cases() -> Vec<Case> {
    [
        registers(),
        addresses(),
        accesses(),
        atomics(),
        barriers(),
        mbarriers(),
        remote_arrivals(),
        asynchronous(),
        others(),
    ]
    .concat()
}

/// A case of two clusters of that many CTAs.
fn case(family: &'static str, name: impl Into<String>, ctas: usize, results: usize, body: &str) -> Case {
    let mut case = Case::new(family, name).target("sm_90a").clusters(ctas).output(Width::B32, results);
    (case.block, case.threads) = (THREADS, 2 * ctas * THREADS);
    case.body(format!("{REGISTERS}{body}"))
}

fn registers() -> Vec<Case> {
    let names = [
        "cluster_ctarank",
        "cluster_nctarank",
        "cluster_ctaid.x",
        "cluster_ctaid.y",
        "cluster_ctaid.z",
        "cluster_nctaid.x",
        "cluster_nctaid.y",
        "cluster_nctaid.z",
        "clusterid.x",
        "clusterid.y",
        "clusterid.z",
        "nclusterid.x",
        "nclusterid.y",
        "nclusterid.z",
        "ctaid.x",
        "nctaid.x",
    ];
    let mut body: String =
        names.iter().enumerate().map(|(d, name)| format!("mov.u32 %d{d}, %{name};\n")).collect();
    body += "mov.pred %p, %is_explicit_cluster;\nselp.b32 %d16, 1, 0, %p;";
    [1, 2, 4, 8].map(|ctas| case("cluster", format!("registers.{ctas}"), ctas, 17, &body)).into()
}

/// Shared memory of 64 words, its own and the next CTA's address, 32 bits and generic; every thread
/// has stored its mark.
fn window() -> String {
    format!(
        ".shared .align 16 .b8 window[2048];\nmov.u32 %own, window;\nmapa.shared::cluster.u32 %peer, %own, %next;\n\
         cvt.u64.u32 %generic, %own;\ncvta.shared.u64 %generic, %generic;\nmapa.u64 %far, %generic, %next;\n\
         mad.lo.u32 %x0, %rank, 1000, %local;\nmad.lo.u32 %x0, %x0, 65537, 77;\nmad.lo.u32 %x1, %local, 16, %own;\n\
         add.u32 %x2, %x0, 111;\nadd.u32 %x3, %x0, 222;\nnot.b32 %x4, %x0;\n\
         st.shared.v4.u32 [%x1], {{%x0, %x2, %x3, %x4}};\nmad.lo.u32 %peer, %local, 16, %peer;\n\
         mul.wide.u32 %y0, %local, 16;\nadd.u64 %far, %far, %y0;\n{SYNC}"
    )
}

fn addresses() -> Vec<Case> {
    let mut cases = Vec::new();
    let window = window();
    for ctas in [1, 2, 4, 8] {
        // A symbol carries its CTA's rank at bit 24; mapa of the own rank changes nothing; generic
        // addresses agree.
        let body = format!(
            "{window}shr.u32 %d0, %own, 24;\nmapa.shared::cluster.u32 %x5, %own, %rank;\nsub.u32 %d1, %x5, %own;\n\
             mapa.shared::cluster.u32 %x6, window, %next;\nmapa.shared::cluster.u32 %x5, %own, %next;\nsub.u32 %d2, %x6, %x5;\n\
             cvt.u64.u32 %y1, %x5;\ncvta.shared::cluster.u64 %y2, %y1;\nsub.u64 %y3, %far, %y2;\nsub.u64 %y3, %y3, %y0;\n\
             cvt.u32.u64 %d3, %y3;\ncvta.to.shared::cluster.u64 %y4, %far;\ncvt.u32.u64 %x7, %y4;\nsub.u32 %d4, %x7, %peer;\n\
             getctarank.shared::cluster.u32 %d5, %peer;\ngetctarank.u64 %d6, %far;\ngetctarank.shared::cluster.u64 %d7, %y1;\n\
             mapa.shared::cluster.u64 %y5, %y1, 0;\ncvt.u32.u64 %x8, %y5;\nshr.u32 %d8, %x8, 24;\n\
             mapa.shared::cluster.u32 %x9, window+16, 0;\nmapa.shared::cluster.u32 %x10, %own, 0;\nsub.u32 %d9, %x9, %x10;\n\
             xor.b32 %x11, %own, %peer;\nshr.u32 %d10, %x11, 24;\n{SYNC}"
        );
        cases.push(case("cluster", format!("addresses.{ctas}"), ctas, 11, &body));
        let mut body = window.clone();
        for (d, (space, address)) in [
            ("shared", "%generic"),
            ("shared::cta", "%generic"),
            ("shared::cluster", "%generic"),
            ("shared", "%far"),
            ("shared::cta", "%far"),
            ("shared::cluster", "%far"),
            ("global", "%far"),
            ("shared::cluster", "%base_d"),
        ]
        .into_iter()
        .enumerate()
        {
            body += &format!("isspacep.{space} %p, {address};\nselp.b32 %d{d}, 1, 0, %p;\n");
        }
        cases.push(case("cluster", format!("isspacep.{ctas}"), ctas, 8, &format!("{body}{SYNC}")));
    }
    // What pairs of CTAs do: the even one of the pair.
    let body = format!(
        "{window}and.b32 %x5, %own, 0xfeffffff;\nld.shared::cluster.u32 %d0, [%x5+32];\ngetctarank.shared::cluster.u32 %d1, %x5;\n{SYNC}"
    );
    cases.push(case("cluster", "addresses.pair", 4, 2, &body));
    cases
}

fn accesses() -> Vec<Case> {
    let window = window();
    let mut cases = Vec::new();
    for (name, load) in [
        ("u32", "ld.shared::cluster.u32 %d0, [%peer+4];"),
        ("s8", "ld.shared::cluster.s8 %d0, [%peer+13];"),
        ("u8", "ld.shared::cluster.u8 %d0, [%peer+3];"),
        ("u16", "ld.shared::cluster.u16 %d0, [%peer+14];"),
        ("s16", "ld.shared::cluster.s16 %d0, [%peer+12];"),
        ("v2.u32", "ld.shared::cluster.v2.u32 {%d0, %d1}, [%peer+8];"),
        ("v4.u32", "ld.shared::cluster.v4.u32 {%d0, %d1, %d2, %d3}, [%peer];"),
        ("u64", "ld.shared::cluster.u64 %y1, [%peer];\nmov.b64 {%d0, %d1}, %y1;"),
        (
            "v2.u64",
            "ld.shared::cluster.v2.u64 {%y1, %y2}, [%peer];\nmov.b64 {%d0, %d1}, %y1;\nmov.b64 {%d2, %d3}, %y2;",
        ),
        ("f32", "ld.shared::cluster.f32 %f0, [%peer+8];\nmov.b32 %d0, %f0;"),
        ("volatile", "ld.volatile.shared::cluster.u32 %d0, [%peer+4];"),
        ("acquire", "ld.acquire.cluster.shared::cluster.u32 %d0, [%peer+4];"),
        ("relaxed", "ld.relaxed.cluster.shared::cluster.u32 %d0, [%peer+4];"),
        ("generic.u32", "ld.u32 %d0, [%far+4];"),
        ("generic.v4", "ld.v4.u32 {%d0, %d1, %d2, %d3}, [%far];"),
        ("generic.acquire", "ld.acquire.cluster.u32 %d0, [%far+4];"),
        (
            "own",
            "ld.shared::cluster.u32 %d0, [%x1+4];\nld.shared.u32 %d1, [window];\nld.shared::cluster.u32 %d2, [window+4];",
        ),
    ] {
        let clear = "mov.b32 %d0, 0;\nmov.b32 %d1, 0;\nmov.b32 %d2, 0;\nmov.b32 %d3, 0;\n";
        cases.push(case("cluster", format!("ld.{name}"), 4, 4, &format!("{window}{clear}{load}\n{SYNC}")));
    }
    for (name, store) in [
        ("u32", "st.shared::cluster.u32 [%peer+4], %x2;"),
        ("u8", "st.shared::cluster.u8 [%peer+13], %x3;"),
        ("u16", "st.shared::cluster.u16 [%peer+2], %x3;"),
        ("v2.u32", "st.shared::cluster.v2.u32 [%peer+8], {%x2, %x0};"),
        ("v4.u32", "st.shared::cluster.v4.u32 [%peer], {%x4, %x3, %x2, %x0};"),
        ("u64", "mov.b64 %y1, {%x3, %x4};\nst.shared::cluster.u64 [%peer+8], %y1;"),
        ("volatile", "st.volatile.shared::cluster.u32 [%peer+4], %x2;"),
        ("release", "st.release.cluster.shared::cluster.u32 [%peer+4], %x2;"),
        ("generic.u32", "st.u32 [%far+4], %x2;"),
        ("generic.v4", "st.v4.u32 [%far], {%x4, %x3, %x2, %x0};"),
        ("generic.release", "st.release.cluster.u32 [%far+4], %x2;"),
    ] {
        let body = format!("{window}{store}\n{SYNC}ld.shared.v4.u32 {{%d0, %d1, %d2, %d3}}, [%x1];");
        cases.push(case("cluster", format!("st.{name}"), 4, 4, &body));
    }
    cases
}

fn atomics() -> Vec<Case> {
    let window = window();
    let mut cases = Vec::new();
    // Each thread has a word of its own in the next CTA.
    for (name, operation) in [
        ("add.u32", "add.u32 %d0, [%peer], %x2"),
        ("min.s32", "min.s32 %d0, [%peer], %x4"),
        ("max.u32", "max.u32 %d0, [%peer], %x4"),
        ("inc.u32", "inc.u32 %d0, [%peer], 5"),
        ("dec.u32", "dec.u32 %d0, [%peer], 5"),
        ("and.b32", "and.b32 %d0, [%peer], %x3"),
        ("or.b32", "or.b32 %d0, [%peer], %x3"),
        ("xor.b32", "xor.b32 %d0, [%peer], %x3"),
        ("exch.b32", "exch.b32 %d0, [%peer], %x3"),
        ("cas.b32", "cas.b32 %d0, [%peer], %x0, %x3"),
    ] {
        let body =
            format!("{window}atom.shared::cluster.{operation};\n{SYNC}ld.shared.v2.u32 {{%d1, %d2}}, [%x1];");
        cases.push(case("cluster", format!("atom.{name}"), 4, 3, &body));
    }
    for (name, operation) in [
        ("generic.add.u32", "atom.add.u32 %d0, [%far], %x2;"),
        ("release.add.u32", "atom.release.cluster.shared::cluster.add.u32 %d0, [%peer], %x2;"),
        (
            "acq_rel.cas.b64",
            "mov.b64 %y1, {%x0, %x2};\natom.acq_rel.cluster.shared::cluster.cas.b64 %y2, [%peer], %y1, %y0;\nmov.b64 {%d0, %x9}, %y2;",
        ),
        (
            "add.u64",
            "mov.b64 %y1, {%x3, %x2};\natom.shared::cluster.add.u64 %y2, [%peer], %y1;\nmov.b64 {%d0, %x9}, %y2;",
        ),
        (
            "add.f32",
            "mov.b32 %f0, 0x3f800000;\ncvt.rn.f32.u32 %f1, %local;\nst.shared.f32 [%x1], %f0;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\natom.shared::cluster.add.f32 %f2, [%peer], %f1;\nmov.b32 %d0, %f2;",
        ),
    ] {
        let body = format!("{window}{operation}\n{SYNC}ld.shared.v2.u32 {{%d1, %d2}}, [%x1];");
        cases.push(case("cluster", format!("atom.{name}"), 4, 3, &body));
    }
    // All threads of the cluster add to one word of the CTA of rank 0.
    for (name, red) in [
        ("one.word", "red.shared::cluster.add.u32 [%x5], %x6;"),
        ("relaxed.one.word", "red.relaxed.cluster.shared::cluster.add.u32 [%x5], %x6;"),
        (
            "generic.one.word",
            "cvt.u64.u32 %y1, %x5;\ncvta.shared::cluster.u64 %y1, %y1;\nred.add.u32 [%y1], %x6;",
        ),
    ] {
        let body = format!(
            "{window}mapa.shared::cluster.u32 %x5, %own, 0;\nadd.u32 %x6, %local, %rank;\n{red}\n{SYNC}ld.shared.u32 %d0, [window];"
        );
        cases.push(case("cluster", format!("red.{name}"), 4, 1, &body));
    }
    cases
}

fn barriers() -> Vec<Case> {
    let window = window();
    let mut cases = Vec::new();
    for (name, arrive, wait) in [
        ("plain", "barrier.cluster.arrive;", "barrier.cluster.wait;"),
        ("aligned", "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"),
        ("release", "barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"),
        (
            "relaxed",
            "fence.acq_rel.cluster;\nbarrier.cluster.arrive.relaxed;",
            "barrier.cluster.wait.acquire;",
        ),
        (
            "relaxed.aligned",
            "fence.sc.cluster;\nbarrier.cluster.arrive.relaxed.aligned;",
            "barrier.cluster.wait.acquire.aligned;",
        ),
    ] {
        let body = format!(
            "{window}st.shared::cluster.u32 [%peer], %local;\n{arrive}\nadd.u32 %d0, %local, %rank;\n{wait}\nld.shared.u32 %d1, [%x1];\n{arrive}\n{wait}"
        );
        cases.push(case("cluster", format!("barrier.{name}"), 4, 2, &body));
    }
    // The second warp is gone: the first does not wait for it.
    let body = format!(
        "mov.b32 %d0, %rank;\nsetp.ge.u32 %p, %local, 32;\nmad.wide.u32 %at, %thread, 4, %base_d;\n@%p st.global.u32 [%at], %local;\n@%p exit;\n{SYNC}"
    );
    cases.push(case("cluster", "barrier.exited", 4, 1, &body));
    cases
}

/// An mbarrier of every CTA for a count of arrivals, ready for the whole cluster.
fn mbarrier(count: u32) -> String {
    format!(
        ".shared .align 8 .b64 bar;\nmov.u32 %own, bar;\nmapa.shared::cluster.u32 %peer, %own, %next;\n\
         cvt.u64.u32 %generic, %own;\ncvta.shared.u64 %generic, %generic;\nmapa.u64 %far, %generic, %next;\n\
         @%first mbarrier.init.shared::cta.b64 [%own], {count};\n@%first fence.mbarrier_init.release.cluster;\n{SYNC}"
    )
}

/// Puts into `%d` whether the phases of parity 0 and 1 have ended, in bits 0 and 1.
fn ended(d: usize) -> String {
    format!(
        "mbarrier.test_wait.parity.shared::cta.b64 %p, [%own], 0;\nselp.b32 %d{d}, 1, 0, %p;\n\
         mbarrier.test_wait.parity.shared::cta.b64 %p, [%own], 1;\nselp.b32 %x15, 2, 0, %p;\nor.b32 %d{d}, %d{d}, %x15;\n"
    )
}

/// Operations of thread 0 one after another, each followed by the state of the phases.
fn sequence(name: &str, count: u32, operations: &[&str]) -> Case {
    let mut body = mbarrier(count);
    for d in 0..=operations.len() {
        body += &format!("mov.b32 %d{d}, 0;\n");
    }
    body += "@!%first bra done;\n";
    body += &ended(0);
    for (index, operation) in operations.iter().enumerate() {
        body += &format!("{operation}\n{}", ended(index + 1));
    }
    body += &format!("done:\n{SYNC}");
    case("mbarrier", name, 1, operations.len() + 1, &body)
}

fn mbarriers() -> Vec<Case> {
    let mut cases = vec![
        sequence("arrive", 3, &["mbarrier.arrive.shared::cta.b64 _, [%own];"; 7]),
        sequence(
            "arrive.count",
            5,
            &[
                "mbarrier.arrive.shared::cta.b64 _, [%own], 2;",
                "mbarrier.arrive.shared::cta.b64 _, [%own], 3;",
                "mbarrier.arrive.shared::cta.b64 _, [%own], 5;",
            ],
        ),
        sequence(
            "arrive.generic",
            1,
            &["mbarrier.arrive.b64 _, [%generic];", "mbarrier.arrive.release.cluster.b64 _, [%generic], 1;"],
        ),
        sequence(
            "arrive.release",
            1,
            &[
                "mbarrier.arrive.release.cta.shared::cta.b64 _, [%own];",
                "mbarrier.arrive.release.cluster.shared::cta.b64 _, [%own];",
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%own];",
            ],
        ),
        sequence(
            "arrive_drop",
            3,
            &[
                "mbarrier.arrive_drop.shared::cta.b64 _, [%own];",
                "mbarrier.arrive.shared::cta.b64 _, [%own], 2;",
                "mbarrier.arrive.shared::cta.b64 _, [%own], 2;",
                "mbarrier.arrive_drop.release.cta.shared::cta.b64 _, [%own], 1;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
            ],
        ),
        sequence(
            "arrive.noComplete",
            3,
            &[
                "mbarrier.arrive.noComplete.shared::cta.b64 %y1, [%own], 2;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
                "mbarrier.arrive_drop.noComplete.shared::cta.b64 %y1, [%own], 1;",
                "mbarrier.arrive.shared::cta.b64 _, [%own], 2;",
                "mbarrier.arrive.shared::cta.b64 _, [%own], 2;",
            ],
        ),
        sequence(
            "expect_tx",
            1,
            &[
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%own], 64;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%own], 32;",
                "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%own], 32;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
            ],
        ),
        sequence(
            "arrive.expect_tx",
            2,
            &[
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%own], 48;",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%own], 48;",
                "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%own], 16;",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%own], 16;",
            ],
        ),
        sequence(
            "arrive_drop.expect_tx",
            2,
            &[
                "mbarrier.arrive_drop.expect_tx.shared::cta.b64 _, [%own], 8;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%own], 8;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
            ],
        ),
        sequence(
            "complete.first",
            1,
            &[
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%own], 16;",
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%own], 16;",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%own], 24;",
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%own], 32;",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%own], 8;",
            ],
        ),
        sequence(
            "expect.last",
            1,
            &[
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%own], 16;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%own], 16;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
            ],
        ),
        sequence(
            "expect.nothing",
            1,
            &[
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%own], 0;",
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%own], 0;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
            ],
        ),
        sequence(
            "most",
            1_048_575,
            &[
                "mbarrier.arrive.shared::cta.b64 _, [%own], 1048574;",
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%own], 1048575;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%own], 1048575;",
                "mbarrier.arrive.shared::cta.b64 _, [%own], 1048575;",
            ],
        ),
        sequence(
            "inval",
            1,
            &[
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
                "mbarrier.inval.shared::cta.b64 [%own];\nmbarrier.init.shared::cta.b64 [%own], 2;",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
                "mbarrier.arrive.shared::cta.b64 _, [%own];",
            ],
        ),
    ];
    // States, and how many arrivals they say are pending.
    let arrivals = [
        "mbarrier.arrive.shared::cta.b64 %y0, [%own];",
        "mbarrier.arrive.shared::cta.b64 %y1, [%own], 2;",
        "mbarrier.arrive.expect_tx.shared::cta.b64 %y2, [%own], 32;",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%own], 32;\nmbarrier.arrive_drop.shared::cta.b64 %y3, [%own];",
        "mbarrier.arrive.noComplete.shared::cta.b64 %y4, [%own], 1;",
        "mbarrier.arrive.b64 %y5, [%generic];",
    ];
    let mut body = mbarrier(4);
    for d in 0..12 {
        body += &format!("mov.b32 %d{d}, 0;\n");
    }
    body += "@!%first bra done;\n";
    for (index, arrive) in arrivals.iter().enumerate() {
        body += &format!(
            "{arrive}\nmbarrier.pending_count.b64 %d{}, %y{index};\nmbarrier.test_wait.shared::cta.b64 %p, [%own], %y{index};\nselp.b32 %d{}, 1, 0, %p;\n",
            2 * index,
            2 * index + 1
        );
    }
    body += &format!("done:\n{SYNC}");
    cases.push(case("mbarrier", "states", 1, 12, &body));
    // Waits by state and parity, with and without a time and an order.
    for (name, wait) in [
        ("state", "try_wait.shared::cta.b64 %p, [%own], %y0"),
        ("state.time", "try_wait.shared::cta.b64 %p, [%own], %y0, 100"),
        ("state.acquire", "try_wait.acquire.cluster.shared::cta.b64 %p, [%own], %y0"),
        ("parity", "try_wait.parity.shared::cta.b64 %p, [%own], 0"),
        ("parity.time", "try_wait.parity.acquire.cta.shared::cta.b64 %p, [%own], 0, 100"),
        ("parity.generic", "try_wait.parity.acquire.cluster.b64 %p, [%generic], 0"),
        ("parity.other", "try_wait.parity.shared::cta.b64 %p, [%own], 1, 20"),
        ("test.state", "test_wait.acquire.cta.shared::cta.b64 %p, [%own], %y0"),
        ("test.parity", "test_wait.parity.acquire.cluster.shared::cta.b64 %p, [%own], 0"),
    ] {
        let body = format!(
            "{}mbarrier.arrive.shared::cta.b64 %y0, [%own];\nbar.sync 0;\nmbarrier.{wait};\nselp.b32 %d0, 1, 0, %p;\n{SYNC}",
            mbarrier(THREADS as u32)
        );
        cases.push(case("mbarrier", format!("wait.{name}"), 1, 1, &body));
    }
    cases
}

fn remote_arrivals() -> Vec<Case> {
    let mut cases = Vec::new();
    let all = THREADS as u32;
    for (name, arrive) in [
        ("arrive", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peer];"),
        (
            "arrive.count",
            "setp.lt.u32 %p, %local, 32;\n@%p mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peer], 2;",
        ),
        ("arrive.generic", "mbarrier.arrive.release.cluster.b64 _, [%far];"),
        (
            "arrive.expect_tx",
            "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%peer], 8;\nmbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%peer], 8;",
        ),
        (
            "arrive.expect_tx.short",
            "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%peer], 8;\nmbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%peer], 4;",
        ),
        (
            "complete.before",
            "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%peer], 4;\nmbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%peer], 4;",
        ),
        (
            "expect_tx",
            "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%peer], 12;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peer];\nmbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%peer], 12;",
        ),
        (
            "drop",
            "setp.lt.u32 %p, %local, 8;\n@%p mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%peer];\n@!%p mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peer];\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n@!%p mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peer];",
        ),
        (
            "spread",
            "rem.u32 %x0, %local, %ranks;\nmapa.shared::cluster.u32 %x1, %own, %x0;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%x1];",
        ),
    ] {
        let body = format!("{}{arrive}\n{SYNC}{}{SYNC}", mbarrier(all), ended(0));
        cases.push(case("mbarrier", format!("remote.{name}"), 4, 1, &body));
    }
    cases
}

fn asynchronous() -> Vec<Case> {
    let mut cases = Vec::new();
    // Every thread sends 16 bytes of room to the next CTA, whose mbarrier expects them; all wait
    // for theirs.
    let around = |store: &str, bytes: u32| {
        format!(
            "{}.shared .align 16 .b8 room[1024];\nmov.u32 %x0, room;\nmad.lo.u32 %x1, %local, 16, %x0;\nmapa.shared::cluster.u32 %x2, %x1, %next;\n\
             mad.lo.u32 %x3, %rank, 1000, %local;\nmad.lo.u32 %x3, %x3, 65537, 77;\nadd.u32 %x4, %x3, 111;\nnot.b32 %x5, %x3;\nadd.u32 %x6, %x3, 222;\n\
             mov.b64 %y0, {{%x3, %x4}};\nmov.b64 %y1, {{%x5, %x6}};\n\
             st.shared.v4.u32 [%x1], {{%x6, %x6, %x6, %x6}};\n@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%own], {};\n{SYNC}{store}\n\
             mov.u32 %x9, 0;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%own], 0;\nadd.u32 %x9, %x9, 1;\n\
             setp.gt.or.u32 %q, %x9, 100000, %p;\n@!%q bra again;\nselp.b32 %d4, 1, 0, %p;\n\
             ld.shared.v4.u32 {{%d0, %d1, %d2, %d3}}, [%x1];\n{SYNC}",
            mbarrier(1),
            bytes * THREADS as u32
        )
    };
    let suffix = "shared::cluster.mbarrier::complete_tx::bytes";
    for (name, values, bytes) in [
        ("b32", "%x3", 4),
        ("u32", "%x4", 4),
        ("s32", "%x5", 4),
        ("b64", "%y0", 8),
        ("u64", "%y1", 8),
        ("v2.b32", "{%x3, %x4}", 8),
        ("v4.b32", "{%x3, %x4, %x5, %x6}", 16),
        ("v4.u32", "{%x6, %x4, %x5, %x3}", 16),
        ("v2.b64", "{%y1, %y0}", 16),
    ] {
        let store = format!("st.async.{suffix}.{name} [%x2], {values}, [%peer];");
        cases.push(case("mbarrier", format!("st.async.{name}"), 4, 5, &around(&store, bytes)));
    }
    let store = format!("st.async.weak.{suffix}.f32 [%x2+4], %f0, [%peer];");
    let body = around(&format!("cvt.rn.f32.u32 %f0, %local;\n{store}"), 4);
    cases.push(case("mbarrier", "st.async.weak.f32", 4, 5, &body));
    for (name, value, bytes) in [
        ("add.u32", "%x4", 4),
        ("add.s32", "%x5", 4),
        ("add.u64", "%y0", 8),
        ("min.u32", "%x4", 4),
        ("min.s32", "%x5", 4),
        ("max.u32", "%x5", 4),
        ("max.s32", "%x4", 4),
        ("inc.u32", "7", 4),
        ("dec.u32", "7", 4),
        ("and.b32", "%x4", 4),
        ("or.b32", "%x4", 4),
        ("xor.b32", "%x4", 4),
    ] {
        let store = format!("red.async.relaxed.cluster.{suffix}.{name} [%x2], {value}, [%peer];");
        cases.push(case("mbarrier", format!("red.async.{name}"), 4, 5, &around(&store, bytes)));
    }
    // All threads add to one word.
    let store = format!(
        "mapa.shared::cluster.u32 %x7, %x0, %next;\nred.async.relaxed.cluster.{suffix}.add.u32 [%x7], %local, [%peer];"
    );
    cases.push(case("mbarrier", "red.async.one.word", 4, 5, &around(&store, 4)));
    cases
}

fn others() -> Vec<Case> {
    let fences = [
        "fence.proxy.async",
        "fence.proxy.async.global",
        "fence.proxy.async.shared::cta",
        "fence.proxy.async.shared::cluster",
        "fence.proxy.alias",
        "fence.acq_rel.cta",
        "fence.acq_rel.cluster",
        "fence.acq_rel.gpu",
        "fence.acq_rel.sys",
        "fence.sc.cta",
        "fence.sc.cluster",
        "fence.sc.gpu",
        "fence.sc.sys",
        "fence.acquire.cluster",
        "fence.release.gpu",
        "fence.mbarrier_init.release.cluster",
        "fence.proxy.tensormap::generic.release.cta",
        "fence.proxy.tensormap::generic.release.gpu",
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "fence.acquire.sync_restrict::shared::cluster.cluster",
        "fence.release.sync_restrict::shared::cta.cluster",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
        "griddepcontrol.launch_dependents",
        "griddepcontrol.wait",
        "nanosleep.u32 100",
    ];
    let body: String = fences.iter().map(|fence| format!("{fence};\n")).collect();
    let mut cases = vec![case("cluster", "fences", 2, 1, &format!("{body}mov.b32 %d0, %local;"))];
    let elect = "mov.b32 %d0, 0;\nmov.b32 %d2, 9;\nelect.sync %d1|%p, 0xffffffff;\n@%p mov.b32 %d0, 1;\n\
                 setp.gt.u32 %q, %lane, 12;\n@%q elect.sync %d2|%p, 0xffffe000;\n@%q selp.b32 %d3, 1, 0, %p;\n@!%q mov.b32 %d3, 5;\nelect.sync _|%p, -1;\nselp.b32 %d4, 1, 0, %p;";
    cases.push(case("cluster", "elect", 1, 5, elect));
    // The named barriers of a CTA, once with all their words.
    let named = "mov.u32 %x0, 0;\nsetp.lt.u32 %p, %local, 32;\nbarrier.cta.sync.aligned 0;\nbarrier.sync 1;\nbarrier.cta.sync 2, 64;\n\
                 @%p barrier.cta.arrive.aligned 3, 64;\n@!%p barrier.cta.sync.aligned 3, 64;\nbarrier.cta.red.popc.aligned.u32 %d0, 4, %p;\n\
                 barrier.red.and.pred %q, 5, 64, %p;\nselp.b32 %d1, 1, 0, %q;\nbarrier.cta.red.or.pred %q, 6, !%p;\nselp.b32 %d2, 1, 0, %q;\nbar.red.popc.u32 %d3, 7, 64, !%p;";
    cases.push(case("cluster", "barrier.cta", 1, 4, named));
    cases
}
