//! Latencies of global memory: chains of addresses through the caches, pages and DRAM, and each line of L2.

use anyhow::Result;
use warpwright_arch::instructions::Class;
use warpwright_runtime::{Argument, Buffer, Launch, Module};

use super::session::{Figure, Kernel, Probe, Session};
use super::steps::{Inputs, Steps};

const FAMILY: &str = "global memory";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Bytes of a cache line.
const LINE: u64 = 128;
/// Bytes of a page.
const PAGE: u64 = 2 * MIB;

/// Loads of a trip of the chase.
const LOADS: u32 = 4;
/// The most loads that are timed.
const MOST_LOADS: u64 = 1 << 15;

/// A chain of addresses: one load after another.
struct Chase {
    name: &'static str,
    /// Cached in L1 (`ca`) or not (`cg`).
    cache: &'static str,
    /// Bytes from one address to the next.
    stride: u64,
    /// Bytes that the addresses are spread over.
    sizes: &'static [u64],
    /// Whether the chain is followed once before.
    is_warm: bool,
}

const CHASES: &[Chase] = &[
    Chase {
        name: "L1 hit",
        cache: "ca",
        stride: LINE,
        sizes: &[16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB],
        is_warm: true,
    },
    Chase {
        name: "L2 hit",
        cache: "cg",
        stride: LINE,
        sizes: &[256 * KIB, MIB, 4 * MIB, 16 * MIB, 32 * MIB, 64 * MIB],
        is_warm: true,
    },
    Chase { name: "DRAM", cache: "cg", stride: 512, sizes: &[GIB, 4 * GIB], is_warm: false },
    Chase {
        name: "L2 hit, one line a page",
        cache: "cg",
        stride: PAGE,
        sizes: &[
            32 * MIB,
            128 * MIB,
            512 * MIB,
            GIB,
            2 * GIB,
            4 * GIB,
            8 * GIB,
            16 * GIB,
            32 * GIB,
            64 * GIB,
        ],
        is_warm: true,
    },
];

impl Chase {
    /// Follows the chain from the first address.
    fn chase(&self) -> String {
        let load = format!("    ld.global.{}.b64 %data, [%data];\n", self.cache).repeat(LOADS as usize);
        Kernel {
            name: "chase",
            parameters: ", .param .u32 before_of",
            declarations: ".reg .b32 %before;",
            // L1 keeps nothing from one launch to the next.
            setup: &format!(
                "
    ld.param.u32 %before, [before_of];
    setp.eq.u32 %more, %before, 0;
    @%more bra READY;
BEFORE:
    .pragma \"nounroll\";
{load}    sub.u32 %before, %before, 1;
    setp.ne.u32 %more, %before, 0;
    @%more bra BEFORE;
READY:"
            ),
            body: &format!(
                "\nLOOP:
    .pragma \"nounroll\";
{load}    sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;
    cvt.u32.u64 %result, %data;"
            ),
        }
        .entry()
    }
}

/// Writes a cycle through `count` addresses, a power of two: a full-period congruential sequence. In pages
/// the lines are spread, so that they differ in their set of the cache.
const LINK: Kernel<'_> = Kernel {
    name: "link",
    parameters: ", .param .u32 stride_of, .param .u32 spread_of",
    declarations: ".reg .b32 %stride, %spread, %index, %next, %mask; .reg .b64 %from, %to;",
    setup: "
    ld.param.u32 %stride, [stride_of];
    ld.param.u32 %spread, [spread_of];",
    body: "
    mad.lo.u32 %index, %cta, %threads, %thread;
    sub.u32 %mask, %count, 1;
    mad.lo.u32 %next, %index, 1664525, 1013904223;
    and.b32 %next, %next, %mask;
    mul.wide.u32 %from, %index, %stride;
    add.s64 %from, %from, %data;
    mul.wide.u32 %to, %next, %stride;
    add.s64 %to, %to, %data;
    mul.lo.u32 %index, %index, %spread;
    and.b32 %index, %index, 0x1FFF80;
    cvt.u64.u32 %offset, %index;
    add.s64 %from, %from, %offset;
    mul.lo.u32 %next, %next, %spread;
    and.b32 %next, %next, 0x1FFF80;
    cvt.u64.u32 %offset, %next;
    add.s64 %to, %to, %offset;
    st.global.b64 [%from], %to;
    mov.u32 %cta, 0;",
};

impl Probe for &'static Chase {
    fn family(&self) -> &'static str {
        FAMILY
    }

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn ptx(&self) -> String {
        self.chase() + &LINK.entry()
    }

    fn measure(&self, session: &mut Session) -> Result<Vec<Figure>> {
        let module = session.load(&self.ptx())?;
        let mut figures = Vec::new();
        let sizes = session.of(self.sizes, &[128 * KIB]);
        let most = sizes.iter().max().copied().unwrap_or(0);
        let data: &Buffer<u64> = match most > session.data.bytes() as u64 {
            true => &session.device.uninitialized((most / 8) as usize)?,
            false => &session.data,
        };
        for &size in sizes {
            let cycles = self.cycles(session, &module, data, size)?;
            figures.push(Figure::new(FAMILY, self.name, "latency", "cycles", cycles).at("bytes", size));
        }
        Ok(figures)
    }
}

impl Chase {
    /// Cycles of one load, of a chain over `size` bytes of the session's data.
    fn cycles(&self, session: &Session, module: &Module, data: &Buffer<u64>, size: u64) -> Result<f64> {
        let stride = session.of(self.stride, LINE);
        let count = size / stride;
        let spread: u32 = if stride == PAGE { 1664 * 128 + 128 } else { 0 };
        let threads = count.min(128);
        let link = Launch::new((count / threads) as u32, threads as u32);
        let arguments = (&session.sink, data, &session.sink, count as u32, stride as u32, spread);
        // The times of this kernel are not read, and go where results go.
        module.function("link")?.launch(&session.stream, link, arguments)?;
        let chase = module.function("chase")?;
        let loads = if self.is_warm { count.max(1024) } else { count };
        let trips = (loads.min(session.of(MOST_LOADS, 64)) / u64::from(LOADS)) as u32;
        let before = if self.is_warm { session.of(count, 64).div_ceil(u64::from(LOADS)) as u32 } else { 0 };
        if !self.is_warm {
            // The addresses that were written are in L2 until something else takes their place.
            session.device.zeros::<u64>(session.of(256 * MIB as usize / 8, 8))?;
            session.device.synchronize()?;
        }
        let further = [Argument::scalar(before)];
        let time = session.time_once(&chase, data, Launch::new(1, 1), trips, &further)?;
        Ok(time.cycles / f64::from(trips * LOADS))
    }
}

/// The latency of each of many lines that are in L2, seen from one SM: near and far slices.
struct Lines;

/// Lines that are timed.
const LINES: u32 = 4096;
/// Where in the results their cycles begin.
const LINES_AT: usize = 4096;
/// Width of a class of the histogram, in cycles.
const BUCKET: u32 = 10;

impl Probe for Lines {
    fn family(&self) -> &'static str {
        FAMILY
    }

    fn name(&self) -> String {
        "L2 hit by line".to_owned()
    }

    fn ptx(&self) -> String {
        Kernel {
            name: "lines",
            parameters: "",
            declarations: ".reg .pred %stops; .reg .b32 %value, %before, %after; .reg .b64 %to;",
            setup: "",
            body: &format!(
                "
    add.s64 %to, %sink, {LINES_AT};
LOOP:
    .pragma \"nounroll\";
    ld.volatile.global.b32 %value, [%data];
    setp.eq.u32 %stops, %value, 0x7FFFFFFF;
    @%stops bra DONE;
    mov.u32 %before, %clock;
    ld.volatile.global.b32 %value, [%data];
    setp.eq.u32 %stops, %value, 0x7FFFFFFF;
    @%stops bra DONE;
    mov.u32 %after, %clock;
    sub.u32 %after, %after, %before;
    st.global.b32 [%to], %after;
    add.s64 %to, %to, 4;
    add.s64 %data, %data, {LINE};
    sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;
DONE:"
            ),
        }
        .entry()
    }

    fn measure(&self, session: &mut Session) -> Result<Vec<Figure>> {
        let module = session.load(&self.ptx())?;
        let count = session.of(LINES, 32);
        session.time(&module.function("lines")?, Launch::new(1, 1), count, &[])?;
        let words = session.sink.read(LINES_AT / 8..LINES_AT / 8 + count as usize / 2)?;
        let mut cycles: Vec<u32> =
            words.into_iter().flat_map(|word| [word as u32, (word >> 32) as u32]).collect();
        cycles.sort_unstable();
        let at = |percent: usize| f64::from(cycles[(cycles.len() - 1) * percent / 100]);
        let percentile = |percent: usize| {
            Figure::new(FAMILY, self.name(), "latency", "cycles", at(percent)).at("percentile", percent)
        };
        let mut figures: Vec<Figure> = [0, 5, 25, 50, 75, 95, 100].map(percentile).to_vec();
        if !session.is_emulated() {
            for bucket in cycles.chunk_by(|one, other| one / BUCKET == other / BUCKET) {
                figures.push(
                    Figure::new(FAMILY, self.name(), "share", "lines", bucket.len() as f64)
                        .at("cycles", bucket[0] / BUCKET * BUCKET),
                );
            }
        }
        Ok(figures)
    }
}

/// Atomics, copies and loads of one warp, with the address at `$0`, the same for all lanes.
const STEPS: &[(&str, Class, u32, &str)] = &[
    ("ld.global.ca.b64", Class::Load, 64, "ld.global.ca.b64 $1, [$0]; add.s64 $0, $0, $1;"),
    ("ld.global.cg.b64", Class::Load, 64, "ld.global.cg.b64 $1, [$0]; add.s64 $0, $0, $1;"),
    ("atom.global.add.u64", Class::Atomic, 64, "atom.global.add.u64 $1, [%mine], $1;"),
    (
        "cp.async.cg.shared.global 16 wait_all",
        Class::AsyncCopy,
        64,
        "cp.async.cg.shared.global [%address], [$0], 16; cp.async.wait_all;",
    ),
    (
        "cp.async.ca.shared.global 4 wait_all",
        Class::AsyncCopy,
        64,
        "cp.async.ca.shared.global [%address], [$0], 4; cp.async.wait_all;",
    ),
];

/// All of them.
pub(super) fn probes() -> Vec<Box<dyn Probe>> {
    let mut all: Vec<Box<dyn Probe>> = Vec::new();
    for &(name, class, width, step) in STEPS {
        all.push(Box::new(Steps {
            width,
            inputs: Inputs::Global,
            declarations: ".reg .b64 %mine;".to_owned(),
            setup: "
    mov.u32 %address, bytes;
    mad.lo.u32 %address, %thread, 16, %address;
    mul.wide.u32 %mine, %thread, 8;
    add.s64 %mine, %mine, %sink;"
                .to_owned(),
            shared_bytes: 1024,
            ..Steps::new(FAMILY, name, class, step)
        }));
    }
    for chase in CHASES {
        all.push(Box::new(chase));
    }
    all.push(Box::new(Lines));
    all
}
