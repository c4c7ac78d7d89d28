//! Cycles of one step, an instruction or a short sequence, from two runs of different numbers of steps, so
//! that what surrounds the steps cancels: of one warp with more steps a trip, of several with more trips,
//! since one warp hides what another has between its trips.
//!
//! A trip is a pass through a loop, which `ptxas` neither unrolls nor moves the clock's reads across. Its
//! number is a parameter, inputs come from memory, and all registers are stored at the end, so that no step
//! can be left out.

use std::fmt::Write;

use anyhow::Result;
use warpwright_arch::instructions::Class;

use super::session::{Figure, Probe, Session};

/// Constants that a step may name.
const CONSTANTS: usize = 6;
/// Words of 64 bits among the inputs from which the chains' registers are initialized.
const CHAIN_INPUTS: usize = 48;
/// Words of 64 bits that a kernel reads: for the chains, then for the constants. Odd lanes read a word
/// further on, so that `ptxas` takes no value for the same in a warp.
const INPUTS: usize = CHAIN_INPUTS + CONSTANTS + 1;

/// What the registers hold before the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inputs {
    Integers,
    F32,
    F16x2,
    Bf16x2,
    F64,
    /// Addresses in shared memory, so many bytes from one thread to the next; each address holds itself.
    Shared {
        stride: u32,
    },
    /// Addresses of the inputs in global memory, the same for all threads.
    Global,
}

impl Inputs {
    pub(super) fn words(self) -> Vec<u64> {
        let word = |index: usize| {
            let small = 1.0 + index as f32 / 64.0;
            match self {
                Self::Integers => 0x9E37_79B9_u64.wrapping_mul(index as u64 + 1) & 0xFFFF_FFFF | 1,
                Self::F32 => u64::from(small.to_bits()),
                Self::F16x2 => 0x3C00_3C00 + 0x0010_0010 * (index as u64 % 32),
                Self::Bf16x2 => 0x3F80_3F80 + 0x0001_0001 * (index as u64 % 64),
                Self::F64 => f64::from(small).to_bits(),
                Self::Shared { .. } | Self::Global => 0,
            }
        };
        let mut words: Vec<u64> = (0..INPUTS).map(word).collect();
        if self == Self::Integers {
            words[CHAIN_INPUTS..].copy_from_slice(&[3, 5, 0x5410_3276, 7, 11, 13, 17]);
        }
        words
    }
}

/// Which of the two costs of a step is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Cycles from one step to the next that uses its result.
    Latency,
    /// Cycles between independent steps of one sub-core. Of one warp where less than four run.
    Interval,
}

/// A step, and the kernels around it.
///
/// In `step`, `$a` and `$b` are a chain's first two registers, exchanged after each step; `$0` to `$9` its
/// registers by number; `$c` to `$h` constants; `$r` each constant in turn; `$j` the chain's number.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub family: &'static str,
    pub name: String,
    pub class: Class,
    pub quantity: Quantity,
    pub step: String,
    /// Bits of a register.
    pub width: u32,
    /// Registers of a chain.
    pub registers: usize,
    pub inputs: Inputs,
    pub declarations: String,
    pub setup: String,
    /// Before and after the steps of a trip.
    pub begin: &'static str,
    pub end: &'static str,
    /// Bytes of shared memory.
    pub shared_bytes: u32,
    /// Independent chains.
    pub chains: usize,
    /// Steps of a trip in the two runs.
    pub counts: [usize; 2],
    /// Trips of the two runs.
    pub trips: [u32; 2],
    /// Threads of a CTA, one after another.
    pub threads: Vec<u32>,
}

impl Steps {
    /// A step of one register of 32 bits.
    pub(super) fn new(family: &'static str, name: &str, class: Class, step: &str) -> Self {
        Self {
            family,
            name: name.to_owned(),
            class,
            quantity: Quantity::Latency,
            step: step.to_owned(),
            width: 32,
            registers: 2,
            inputs: Inputs::Integers,
            declarations: String::new(),
            setup: String::new(),
            begin: "",
            end: "",
            shared_bytes: 0,
            chains: 1,
            counts: [16, 48],
            trips: [64, 64],
            threads: vec![32],
        }
    }

    /// The same step in independent chains, by 1 and 4 warps, and by 8 and 16.
    pub(super) fn interval(&self) -> [Self; 2] {
        let chains = if self.registers <= 2 { 8 } else { 4 };
        let few = Self { quantity: Quantity::Interval, chains, threads: vec![32, 128], ..self.clone() };
        let many = Self { counts: [128, 128], trips: [32, 64], threads: vec![256, 512], ..few.clone() };
        [few, many]
    }

    fn register(&self, chain: usize, number: usize) -> String {
        format!("%x{}", chain * self.registers + number)
    }

    /// A step with its registers.
    fn filled(&self, index: usize) -> String {
        let chain = index % self.chains;
        // Without the other register a step depends on the one before it in the same register.
        let swap = if self.step.contains("$b") { index / self.chains % 2 } else { 0 };
        let mut text = String::new();
        let mut letters = self.step.chars();
        while let Some(letter) = letters.next() {
            if letter != '$' {
                text.push(letter);
                continue;
            }
            match letters.next() {
                Some('a') => text += &self.register(chain, swap),
                Some('b') => text += &self.register(chain, 1 - swap),
                Some('r') => text += &format!("%c{}", index % CONSTANTS),
                Some('j') => text += &chain.to_string(),
                Some(digit @ '0'..='9') => text += &self.register(chain, digit as usize - '0' as usize),
                Some(constant @ 'c'..='h') => text += &format!("%c{}", constant as usize - 'c' as usize),
                other => unreachable!("the step of {} has ${other:?}", self.name),
            }
        }
        text
    }

    /// The kernel with `count` steps a trip.
    fn entry(&self, name: &str, count: usize) -> String {
        let (width, all) = (self.width, self.chains * self.registers);
        let mut body = String::new();
        for index in 0..count {
            let _ = writeln!(body, "    {}", self.filled(index));
        }
        let mut loads = String::new();
        let mut results = String::new();
        for number in 0..all {
            let at = number % CHAIN_INPUTS * 8;
            let _ = writeln!(loads, "    ld.global.b{width} %x{number}, [%words+{at}];");
            if number > 0 {
                let _ = writeln!(results, "    xor.b{width} %x0, %x0, %x{number};");
            }
        }
        for number in 0..CONSTANTS {
            let at = (CHAIN_INPUTS + number) * 8;
            let _ = writeln!(loads, "    ld.global.b{width} %c{number}, [%words+{at}];");
        }
        let sum = |loads: &mut String, address: &str| {
            for register in (0..all).map(|n| format!("%x{n}")).chain((0..CONSTANTS).map(|n| format!("%c{n}")))
            {
                let _ = writeln!(loads, "    add.s{width} {register}, {register}, {address};");
            }
        };
        match self.inputs {
            Inputs::Shared { stride } => {
                let _ = writeln!(
                    loads,
                    "    mov.u32 %address, bytes;\n    mad.lo.u32 %address, %thread, {stride}, %address;\n    \
                     st.shared.b32 [%address], %address;"
                );
                if width == 32 {
                    sum(&mut loads, "%address");
                }
            }
            Inputs::Global => sum(&mut loads, "%inputs"),
            _ => {}
        }
        let shared = match self.shared_bytes {
            0 => String::new(),
            bytes => format!("    .shared .align 1024 .b8 bytes[{bytes}];\n"),
        };
        let Self { declarations, setup, begin, end, .. } = self;
        format!(
            "
.visible .entry {name}(.param .u64 times_of, .param .u64 inputs_of, .param .u64 sink_of, .param .u32 trips_of)
{{
{shared}    .reg .pred %more, %first;
    .reg .b32 %trip, %trips, %thread, %lane, %pass, %address;
    .reg .b64 %times, %inputs, %sink, %start, %stop, %offset, %words;
    .reg .b{width} %x<{all}>, %c<{CONSTANTS}>;
    {declarations}
    ld.param.u64 %times, [times_of];
    ld.param.u64 %inputs, [inputs_of];
    ld.param.u64 %sink, [sink_of];
    ld.param.u32 %trips, [trips_of];
    cvta.to.global.u64 %times, %times;
    cvta.to.global.u64 %inputs, %inputs;
    cvta.to.global.u64 %sink, %sink;
    mov.u32 %thread, %tid.x;
    and.b32 %lane, %thread, 1;
    mul.wide.u32 %words, %lane, 8;
    add.s64 %words, %words, %inputs;
{loads}
    {setup}
    mov.u32 %pass, 2;
PASS:
    bar.sync 0;
    mov.u64 %start, %clock64;
    mov.u32 %trip, %trips;
TRIP:
    .pragma \"nounroll\";
    {begin}
{body}
    {end}
    sub.u32 %trip, %trip, 1;
    setp.ne.u32 %more, %trip, 0;
    @%more bra TRIP;
    mov.u64 %stop, %clock64;
    sub.u32 %pass, %pass, 1;
    setp.ne.u32 %more, %pass, 0;
    @%more bra PASS;
{results}
    mul.wide.u32 %offset, %thread, 8;
    add.s64 %sink, %sink, %offset;
    st.global.b{width} [%sink], %x0;
    and.b32 %lane, %thread, 31;
    setp.eq.u32 %first, %lane, 0;
    shr.u32 %thread, %thread, 5;
    mul.wide.u32 %offset, %thread, 16;
    add.s64 %times, %times, %offset;
    @%first st.global.u64 [%times], %start;
    @%first st.global.u64 [%times+8], %stop;
    ret;
}}
"
        )
    }
}

impl Probe for Steps {
    fn family(&self) -> &'static str {
        self.family
    }

    fn name(&self) -> String {
        let warps = self.threads[0].div_ceil(32);
        format!("{} {:?} of {warps} warps", self.name, self.quantity).to_lowercase()
    }

    fn ptx(&self) -> String {
        match self.counts {
            [short, long] if short == long => self.entry("steps", long),
            [short, long] => self.entry("few", short) + &self.entry("steps", long),
        }
    }

    fn measure(&self, session: &mut Session) -> Result<Vec<Figure>> {
        let module = session.load(&self.ptx())?;
        let more = module.function("steps")?;
        let few = if self.counts[0] == self.counts[1] { more.clone() } else { module.function("few")? };
        let inputs = session.device.buffer_from(&self.inputs.words())?;
        let trips = session.of(self.trips, if self.trips[0] == self.trips[1] { [1, 1] } else { [1, 2] });
        let all = |run: usize| self.counts[run] as f64 * f64::from(trips[run]);
        let steps = all(1) - all(0);
        let mut figures = Vec::new();
        for &threads in &self.threads {
            let before = session.cycles(&few, threads, &inputs, trips[0])?;
            let cycles = session.cycles(&more, threads, &inputs, trips[1])? - before;
            let warps = threads.div_ceil(32);
            let (quantity, turns) = match self.quantity {
                Quantity::Latency => ("latency", 1.0),
                Quantity::Interval => ("interval", f64::from(warps.div_ceil(4))),
            };
            figures.push(
                Figure::new(self.family, &self.name, quantity, "cycles", cycles / steps / turns)
                    .class(self.class)
                    .at("warps", warps),
            );
        }
        Ok(figures)
    }
}
