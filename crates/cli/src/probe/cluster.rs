//! Clusters: shared memory of another CTA, and the cluster's barrier.

use anyhow::Result;
use warpwright_runtime::{Argument, Launch};

use super::session::{DYNAMIC_SHARED, Figure, Kernel, Probe, Session};

const FAMILY: &str = "cluster";

/// Bytes of shared memory of a CTA.
const SHARED_BYTES: u32 = 64 << 10;
/// CTAs of a cluster.
const SIZES: [u32; 3] = [2, 4, 8];

struct Cluster;

/// Follows addresses in the shared memory of a CTA of the cluster. Each address holds itself.
const CHASE: Kernel<'_> = Kernel {
    name: "chase",
    parameters: ", .param .u32 rank_of",
    declarations: ".reg .b32 %rank, %ranks, %own, %other;",
    setup: "
    ld.param.u32 %rank, [rank_of];
    mov.u32 %own, bytes;
    mad.lo.u32 %own, %thread, 4, %own;
    mov.u32 %other, %cluster_ctarank;
    add.u32 %other, %other, %rank;
    mov.u32 %ranks, %cluster_nctarank;
    rem.u32 %other, %other, %ranks;
    mapa.shared::cluster.u32 %other, %own, %other;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    st.shared::cluster.b32 [%other], %other;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;",
    body: "
LOOP:
    .pragma \"nounroll\";
    ld.volatile.shared::cluster.b32 %other, [%other];
    ld.volatile.shared::cluster.b32 %other, [%other];
    ld.volatile.shared::cluster.b32 %other, [%other];
    ld.volatile.shared::cluster.b32 %other, [%other];
    sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;
    mov.u32 %result, %other;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;",
};

/// Loads or stores 16 bytes of each thread in the shared memory of the next CTA.
fn traffic(name: &str, access: &str) -> String {
    let accesses: String =
        (0..4).map(|n| format!("    {}\n", access.replace("{n}", &n.to_string()))).collect();
    Kernel {
        name,
        parameters: "",
        declarations: ".reg .b32 %own, %other, %ranks; .reg .b32 %v0_<4>, %v1_<4>, %v2_<4>, %v3_<4>;",
        setup: "
    mov.u32 %own, bytes;
    mad.lo.u32 %own, %thread, 16, %own;
    mov.u32 %other, %cluster_ctarank;
    add.u32 %other, %other, 1;
    mov.u32 %ranks, %cluster_nctarank;
    rem.u32 %other, %other, %ranks;
    mapa.shared::cluster.u32 %other, %own, %other;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;",
        body: &format!(
            "\nLOOP:
    .pragma \"nounroll\";
{accesses}    sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;"
        ),
    }
    .entry()
}

const LOAD: &str =
    "ld.volatile.shared::cluster.v4.b32 {%v{n}_0, %v{n}_1, %v{n}_2, %v{n}_3}, [%other+{n}*16384];";
const STORE: &str = "st.volatile.shared::cluster.v4.b32 [%other+{n}*16384], {%thread, %cta, %thread, %cta};";

/// The cluster's barrier, with the ordering of memory or without.
fn barrier(name: &str, ordering: &str) -> String {
    let barrier =
        format!("barrier.cluster.arrive{ordering}.aligned;\n    barrier.cluster.wait.aligned;\n    ");
    Kernel {
        name,
        parameters: "",
        declarations: "",
        setup: "",
        body: &format!(
            "
LOOP:
    .pragma \"nounroll\";
    {barrier}{barrier}sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;"
        ),
    }
    .entry()
}

/// CTAs arrive at an mbarrier of each other in turns, of a cluster of two.
fn ping_pong(name: &str, ordering: &str) -> String {
    let arrive = format!("mbarrier.arrive.{ordering}.cluster.shared::cluster.b64 _, [%other];");
    Kernel {
        name,
        parameters: "",
        declarations: ".reg .pred %done, %second; .reg .b32 %own, %other, %phase;",
        setup: "
    mov.u32 %own, bytes;
    mbarrier.init.shared.b64 [%own], 1;
    fence.mbarrier_init.release.cluster;
    mov.u32 %other, %cluster_ctarank;
    setp.eq.u32 %second, %other, 1;
    xor.b32 %other, %other, 1;
    mapa.shared::cluster.u32 %other, %own, %other;
    mov.u32 %phase, 0;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;",
        body: &format!(
            "
LOOP:
    .pragma \"nounroll\";
    @%second bra WAIT;
    {arrive}
WAIT:
    mbarrier.try_wait.parity.shared.b64 %done, [%own], %phase;
    @!%done bra WAIT;
    xor.b32 %phase, %phase, 1;
    @!%second bra NEXT;
    {arrive}
NEXT:
    sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;"
        ),
    }
    .entry()
}

impl Probe for Cluster {
    fn family(&self) -> &'static str {
        FAMILY
    }

    fn name(&self) -> String {
        "shared memory and barriers".to_owned()
    }

    fn ptx(&self) -> String {
        let kernels = [
            CHASE.entry(),
            traffic("load", LOAD),
            traffic("store", STORE),
            barrier("barrier", ""),
            barrier("barrier_relaxed", ".relaxed"),
            ping_pong("ping_pong", "release"),
            ping_pong("ping_pong_relaxed", "relaxed"),
        ];
        format!("{DYNAMIC_SHARED}{}", kernels.concat())
    }

    fn measure(&self, session: &mut Session) -> Result<Vec<Figure>> {
        let module = session.load(&self.ptx())?;
        let mut figures = Vec::new();
        let count = session.of(64u32, 1);
        let shared = |launch: Launch, size: u32| launch.cluster(size).dynamic_shared(SHARED_BYTES);
        for size in SIZES {
            let chase = module.function("chase")?;
            for rank in [0, 1, size - 1] {
                let launch = shared(Launch::new(size, 32), size);
                let time = session.time(&chase, launch, count, &[Argument::scalar(rank)])?;
                // The last barrier of the cluster is the same for many loads as for few.
                let few = session.time(&chase, launch, count / 2 + 1, &[Argument::scalar(rank)])?;
                let loads = f64::from(4 * (count - (count / 2 + 1)).max(1));
                let name = if rank == 0 { "ld.shared::cluster, own" } else { "ld.shared::cluster, other" };
                figures.push(
                    Figure::new(FAMILY, name, "latency", "cycles", (time.cycles - few.cycles) / loads)
                        .at("cluster", size)
                        .at("distance", rank),
                );
            }
            for name in ["load", "store"] {
                let entry = module.function(name)?;
                for threads in [128, 512, 1024] {
                    let launch = shared(Launch::new(size, threads), size);
                    let time = session.time(&entry, launch, count, &[])?;
                    let bytes = f64::from(threads * 64) * f64::from(count);
                    figures.push(
                        Figure::new(
                            FAMILY,
                            format!("{name} of the next CTA"),
                            "rate",
                            "bytes/cycle",
                            bytes / time.cycles,
                        )
                        .at("cluster", size)
                        .at("warps", threads / 32),
                    );
                }
            }
            for (name, kernel) in
                [("barrier.cluster", "barrier"), ("barrier.cluster, relaxed", "barrier_relaxed")]
            {
                let entry = module.function(kernel)?;
                for threads in [32, 128, 512] {
                    let time = session.time(&entry, shared(Launch::new(size, threads), size), count, &[])?;
                    let cycles = time.cycles / f64::from(count * 2);
                    figures.push(
                        Figure::new(FAMILY, name, "latency", "cycles", cycles)
                            .at("cluster", size)
                            .at("warps", threads / 32),
                    );
                }
            }
        }
        for (ordering, kernel) in [("release", "ping_pong"), ("relaxed", "ping_pong_relaxed")] {
            let entry = module.function(kernel)?;
            let time = session.time(&entry, shared(Launch::new(2, 1), 2), count, &[])?;
            let cycles = time.cycles / f64::from(count * 2);
            let name = format!("mbarrier.arrive.{ordering} of another CTA until its wait ends");
            figures.push(Figure::new(FAMILY, name, "latency", "cycles", cycles).at("cluster", 2));
        }
        Ok(figures)
    }
}

/// All of them.
pub(super) fn probes() -> Vec<Box<dyn Probe>> {
    vec![Box::new(Cluster)]
}
