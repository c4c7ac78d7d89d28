//! Bytes a second of loads, stores, copies and atomics, by one SM and by all, from L2 and from DRAM.

use anyhow::Result;
use warpwright_runtime::{Argument, Launch};

use super::session::{DYNAMIC_SHARED, Figure, Kernel, Probe, Session};

const FAMILY: &str = "bandwidth";

const MIB: u64 = 1 << 20;

/// Bytes of one access of a thread.
const ACCESS: u64 = 16;

/// What a thread does with the 16 bytes at `%from`, the `{n}`th of a trip.
struct Access {
    name: &'static str,
    /// Accesses of a trip, all in flight at once.
    flight: usize,
    access: &'static str,
    /// After the accesses of a trip.
    end: &'static str,
}

const ACCESSES: &[Access] = &[
    Access { name: "read", flight: 1, access: READ, end: READ_END },
    Access { name: "read", flight: 4, access: READ, end: READ_END },
    Access { name: "read", flight: 8, access: READ, end: READ_END },
    Access {
        name: "write",
        flight: 4,
        access: "st.global.v4.b32 [%from], {%thread, %cta, %thread, %cta};",
        end: "",
    },
    Access {
        name: "copy",
        flight: 4,
        access: "ld.global.cg.v4.b32 {%v{n}_0, %v{n}_1, %v{n}_2, %v{n}_3}, [%from];",
        end: "st.global.v4.b32 [%to{n}], {%v{n}_0, %v{n}_1, %v{n}_2, %v{n}_3};",
    },
    Access {
        name: "cp.async",
        flight: 4,
        access: "cp.async.cg.shared.global [%slot{n}], [%from], 16;",
        end: "",
    },
];
const READ: &str = "ld.global.cg.v4.b32 {%v{n}_0, %v{n}_1, %v{n}_2, %v{n}_3}, [%from];";
const READ_END: &str = "xor.b32 %result, %result, %v{n}_0; xor.b32 %result, %result, %v{n}_1; \
                        xor.b32 %result, %result, %v{n}_2; xor.b32 %result, %result, %v{n}_3;";

/// The memory that is read, and the CTAs that read it.
struct Site {
    name: &'static str,
    /// Bytes of the region, a power of two.
    bytes: u64,
    /// Whether all SMs take part.
    is_whole: bool,
    threads: &'static [u32],
    /// Bytes that are accessed in all, at most.
    total: u64,
}

const SITES: &[Site] = &[
    Site {
        name: "L2, one SM",
        bytes: 4 * MIB,
        is_whole: false,
        threads: &[32, 64, 128, 256, 512, 1024],
        total: 8 * MIB,
    },
    Site {
        name: "DRAM, one SM",
        bytes: 256 * MIB,
        is_whole: false,
        threads: &[32, 128, 512, 1024],
        total: 256 * MIB,
    },
    Site {
        name: "L2 of 16 MiB, all SMs",
        bytes: 16 * MIB,
        is_whole: true,
        threads: &[256, 1024],
        total: 512 * MIB,
    },
    Site {
        name: "L2 of 32 MiB, all SMs",
        bytes: 32 * MIB,
        is_whole: true,
        threads: &[256, 1024],
        total: 512 * MIB,
    },
    Site {
        name: "DRAM, all SMs",
        bytes: 1024 * MIB,
        is_whole: true,
        threads: &[32, 64, 128, 256, 512, 1024],
        total: 1024 * MIB,
    },
];

impl Access {
    fn each(&self, text: &str) -> String {
        (0..self.flight).map(|n| format!("    {}\n", text.replace("{n}", &n.to_string()))).collect()
    }
}

impl Probe for &'static Access {
    fn family(&self) -> &'static str {
        FAMILY
    }

    fn name(&self) -> String {
        format!("{} {} in flight", self.name, self.flight)
    }

    fn ptx(&self) -> String {
        let registers = (0..self.flight)
            .map(|n| format!(".reg .b32 %v{n}_<4>, %slot{n}; .reg .b64 %to{n}; "))
            .collect::<String>();
        let slots = self.each("mad.lo.u32 %slot{n}, %threads, 16 * {n}, %slot;");
        let accesses = self.each(&format!(
            "and.b64 %from, %at, %mask; add.s64 %from, %from, %data; add.s64 %to{{n}}, %from, %apart; {} \
             add.s64 %at, %at, %step;",
            self.access
        ));
        let (end, group) = match self.name {
            // Two groups are in flight, in two halves: of two copies to one place the GPU drops the first.
            "cp.async" => {
                let swap = self.each("xor.b32 %slot{n}, %slot{n}, %half;");
                (swap, "cp.async.commit_group; cp.async.wait_group 1;")
            }
            _ => (self.each(self.end), ""),
        };
        let kernel = Kernel {
            name: "move",
            parameters: ", .param .u64 mask_of, .param .u64 apart_of",
            declarations: &format!(
                "{registers}.reg .b32 %index, %slot, %half; .reg .b64 %mask, %apart, %at, %step, %from;"
            ),
            setup: &format!(
                "
    ld.param.u64 %mask, [mask_of];
    ld.param.u64 %apart, [apart_of];
    mad.lo.u32 %index, %cta, %threads, %thread;
    mul.wide.u32 %at, %index, 16;
    mul.lo.u32 %index, %ctas, %threads;
    mul.wide.u32 %step, %index, 16;
    mul.lo.u32 %half, %threads, {half};
    mov.u32 %slot, bytes;
    mad.lo.u32 %slot, %thread, 16, %slot;
{slots}",
                half = 16 * self.flight,
            ),
            body: &format!(
                "\nLOOP:
    .pragma \"nounroll\";
{accesses}{end}    {group}
    sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;"
            ),
        };
        format!("{DYNAMIC_SHARED}{}", kernel.entry())
    }

    fn measure(&self, session: &mut Session) -> Result<Vec<Figure>> {
        let module = session.load(&self.ptx())?;
        let entry = module.function("move")?;
        let mut figures = Vec::new();
        for site in SITES {
            let region = session.of(site.bytes, 256 << 10);
            for &threads in site.threads {
                // Two groups of copies are in flight, in two halves of shared memory.
                let groups = if self.name == "cp.async" { 2 } else { 1 };
                let of_cta = groups * threads * ACCESS as u32 * self.flight as u32;
                let shared = if self.name == "cp.async" { of_cta } else { 0 };
                let launch = Launch::new(1, threads).dynamic_shared(shared);
                let ctas_of_sm = match site.is_whole && threads == 1024 {
                    true => entry.occupancy(&launch)?.ctas_per_sm.min(2),
                    false => 1,
                };
                let ctas = ctas_of_sm * if site.is_whole { session.sms() } else { 1 };
                let trip = u64::from(ctas * threads) * ACCESS * self.flight as u64;
                // Few threads get as much time as many.
                let total = site.total.min(u64::from(threads) * site.total / 128);
                let trips = (session.of(total, trip) / trip).max(1);
                let launch = Launch::new(ctas, threads).dynamic_shared(shared);
                // A copy goes to the second half of the data.
                let apart = if self.name == "copy" { session.data.bytes() as u64 / 2 } else { 0 };
                let further = [Argument::scalar(region - 1), Argument::scalar(apart)];
                let time = session.time(&entry, launch, trips as u32, &further)?;
                let bytes = (trip * trips) as f64;
                let figure = |quantity, unit, value| {
                    Figure::new(FAMILY, format!("{}, {}", self.name, site.name), quantity, unit, value)
                        .at("warps", ctas_of_sm * threads / 32)
                        .at("in_flight", ctas_of_sm * of_cta)
                };
                figures.push(figure("rate", "bytes/cycle", bytes / time.cycles));
                if site.is_whole {
                    figures.push(figure("rate", "GB/s", bytes / time.seconds / 1e9));
                }
            }
        }
        Ok(figures)
    }
}

/// Atomics of all SMs, by the address.
struct Atomics {
    name: &'static str,
    /// The index of a thread's word of 32 bits.
    index: &'static str,
    /// At `%at`.
    operation: &'static str,
}

const ATOMICS: &[Atomics] = &[
    Atomics { name: "red.global.add.u32, one address", index: ONE, operation: RED },
    Atomics { name: "red.global.add.u32, an address a warp", index: BY_WARP, operation: RED },
    Atomics { name: "red.global.add.u32, an address a thread", index: BY_THREAD, operation: RED },
    Atomics {
        name: "red.global.add.f32, an address a thread",
        index: BY_THREAD,
        operation: "red.global.add.f32 [%at], 0f3F800000;",
    },
    Atomics { name: "atom.global.add.u32, one address", index: ONE, operation: ATOM },
    Atomics { name: "atom.global.add.u32, an address a thread", index: BY_THREAD, operation: ATOM },
];
const ONE: &str = "mov.u32 %index, 0;";
const BY_WARP: &str = "mad.lo.u32 %index, %cta, %threads, %thread; and.b32 %index, %index, 0xFFFFFFE0;";
const BY_THREAD: &str = "mad.lo.u32 %index, %cta, %threads, %thread;";
const RED: &str = "red.global.add.u32 [%at], %thread;";
const ATOM: &str = "atom.global.add.u32 %value, [%at], %thread; xor.b32 %result, %result, %value;";

impl Probe for &'static Atomics {
    fn family(&self) -> &'static str {
        "atomics"
    }

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn ptx(&self) -> String {
        Kernel {
            name: "atomics",
            parameters: "",
            declarations: ".reg .b32 %index, %value; .reg .b64 %at;",
            setup: &format!("{} mul.wide.u32 %at, %index, 4; add.s64 %at, %at, %data;", self.index),
            body: &format!(
                "\nLOOP:
    .pragma \"nounroll\";
    {}
    sub.u32 %count, %count, 1;
    setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;",
                self.operation.to_owned() + &format!("\n    {}", self.operation).repeat(3)
            ),
        }
        .entry()
    }

    fn measure(&self, session: &mut Session) -> Result<Vec<Figure>> {
        let entry = session.load(&self.ptx())?.function("atomics")?;
        let (ctas, threads, trips) = (session.sms(), 256, session.of(64, 1));
        let time = session.time(&entry, Launch::new(ctas, threads), trips, &[])?;
        let operations = f64::from(ctas * threads) * f64::from(trips * 4);
        Ok(vec![Figure::new("atomics", self.name, "rate", "10^9 lanes/s", operations / time.seconds / 1e9)])
    }
}

/// All of them.
pub(super) fn probes() -> Vec<Box<dyn Probe>> {
    let mut all: Vec<Box<dyn Probe>> = Vec::new();
    for access in ACCESSES {
        all.push(Box::new(access));
    }
    for atomics in ATOMICS {
        all.push(Box::new(atomics));
    }
    all
}
