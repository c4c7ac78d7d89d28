//! What all probes share: the device, the buffers of times, and the figures that they yield.

use std::fmt;

use anyhow::Result;
use serde_json::{Map, Value, json};
use warpwright_arch::instructions::Class;
use warpwright_runtime::{Argument, Buffer, Device, Function, Launch, Module, Stream};

/// Launches of a kernel. The fastest counts.
const LAUNCHES: usize = 4;
/// CTAs, or warps, whose times a kernel stores.
const CTAS: usize = 1024;
/// Bytes of the buffer that results go to.
const SINK_BYTES: usize = 64 << 10;

/// One measurement of a GPU: a module of PTX, and how it is launched and read.
pub(super) trait Probe {
    /// The group of probes that it belongs to.
    fn family(&self) -> &'static str;
    /// What it measures, one of a kind in its family.
    fn name(&self) -> String;
    /// The kernels, without the directives before them.
    fn ptx(&self) -> String;
    /// Runs it.
    fn measure(&self, session: &mut Session) -> Result<Vec<Figure>>;
}

/// A figure that was measured.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub family: &'static str,
    pub name: String,
    class: Option<Class>,
    pub quantity: &'static str,
    pub unit: &'static str,
    /// What the figure holds for: warps, bytes, ways.
    pub conditions: Vec<(&'static str, Value)>,
    pub value: f64,
}

impl Figure {
    pub(super) fn new(
        family: &'static str,
        name: impl Into<String>,
        quantity: &'static str,
        unit: &'static str,
        value: f64,
    ) -> Self {
        Self { family, name: name.into(), class: None, quantity, unit, conditions: Vec::new(), value }
    }

    /// The class of the instruction's row in the table of instructions.
    pub(super) fn class(self, class: Class) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Adds a condition.
    pub(super) fn at(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.conditions.push((name, value.into()));
        self
    }

    pub(super) fn as_json(&self) -> Value {
        let conditions: Map<String, Value> =
            self.conditions.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        json!({
            "family": self.family,
            "name": self.name,
            "class": self.class.map(|class| format!("{class:?}")),
            "quantity": self.quantity,
            "unit": self.unit,
            "value": (self.value * 1000.0).round() / 1000.0,
            "conditions": conditions,
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<48} {:<8} {:>10.2} {:<12}", self.name, self.quantity, self.value, self.unit)?;
        for (name, value) in &self.conditions {
            write!(f, " {}={value}", name.replace('_', "-"))?;
        }
        Ok(())
    }
}

/// The device that is measured.
pub(super) struct Session {
    pub device: Device,
    pub stream: Stream,
    times: Buffer<u64>,
    pub sink: Buffer<u64>,
    pub data: Buffer<u64>,
}

/// How long a launch took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    /// Cycles of the slowest CTA.
    pub cycles: f64,
    /// Seconds between two events.
    pub seconds: f64,
}

impl Session {
    pub(super) fn new(device: Device) -> Result<Self> {
        let stream = device.stream()?;
        let times = device.zeros(CTAS * 2)?;
        let sink = device.zeros(SINK_BYTES / 8)?;
        let bytes: usize = if device.properties().is_emulated { 1 << 20 } else { 4 << 30 };
        let data = device.zeros(bytes / 8)?;
        Ok(Self { device, stream, times, sink, data })
    }

    pub(super) fn is_emulated(&self) -> bool {
        self.device.properties().is_emulated
    }

    /// The number of SMs; on an emulator, fewer.
    pub(super) fn sms(&self) -> u32 {
        if self.is_emulated() { 4 } else { self.device.properties().sm_count }
    }

    /// The larger number on a GPU, the smaller on an emulator, which executes in a second what a GPU
    /// does in microseconds.
    pub(super) fn of<T>(&self, on_gpu: T, on_emulator: T) -> T {
        if self.is_emulated() { on_emulator } else { on_gpu }
    }

    /// Loads kernels, with the directives that PTX begins with.
    pub(super) fn load(&self, kernels: &str) -> Result<Module> {
        Ok(self.device.load_ptx(&module(kernels))?)
    }

    /// Cycles from the first warp's start to the last warp's end in one CTA.
    pub(super) fn cycles(
        &mut self,
        entry: &Function,
        threads: u32,
        inputs: &Buffer<u64>,
        trips: u32,
    ) -> Result<f64> {
        let mut fewest = u64::MAX;
        for _ in 0..self.of(LAUNCHES, 1) {
            let arguments = (&mut self.times, inputs, &mut self.sink, trips);
            entry.launch(&self.stream, Launch::new(1, threads), arguments)?;
            let times = self.times.read(0..threads.div_ceil(32) as usize * 2)?;
            let start = times.iter().step_by(2).min().copied().unwrap_or(0);
            let stop = times.iter().skip(1).step_by(2).max().copied().unwrap_or(0);
            fewest = fewest.min(stop.saturating_sub(start));
        }
        Ok(fewest as f64)
    }

    /// The time of one launch of a [`Kernel`] with that data.
    pub(super) fn time_once(
        &self,
        entry: &Function,
        data: &Buffer<u64>,
        launch: Launch,
        count: u32,
        further: &[Argument<'_>],
    ) -> Result<Time> {
        let mut arguments = vec![
            Argument::buffer(&self.times),
            Argument::buffer(data),
            Argument::buffer(&self.sink),
            Argument::scalar(count),
        ];
        arguments.extend_from_slice(further);
        let start = self.stream.record()?;
        entry.launch(&self.stream, launch, &arguments[..])?;
        let stop = self.stream.record()?;
        stop.synchronize()?;
        let times = self.times.read(0..launch.grid.0[0] as usize * 2)?;
        let cycles = times.chunks(2).map(|times| times[1].saturating_sub(times[0])).max().unwrap_or(0);
        Ok(Time { cycles: cycles as f64, seconds: stop.since(&start)?.as_secs_f64() })
    }

    /// The shortest time of some launches of a [`Kernel`], after one that warms the caches. Further
    /// arguments follow the count.
    pub(super) fn time(
        &self,
        entry: &Function,
        launch: Launch,
        count: u32,
        further: &[Argument<'_>],
    ) -> Result<Time> {
        let mut least = Time { cycles: f64::INFINITY, seconds: f64::INFINITY };
        for turn in 0..self.of(LAUNCHES, 1) {
            let time = self.time_once(entry, &self.data, launch, count, further)?;
            if turn > 0 || self.is_emulated() {
                least.cycles = least.cycles.min(time.cycles);
                least.seconds = least.seconds.min(time.seconds);
            }
        }
        Ok(least)
    }
}

/// A kernel whose CTAs store the clock before and after its body.
///
/// Its parameters are the times, the data, the sink, a count, and further ones. A body uses `%data`,
/// `%sink`, `%count`, `%thread`, `%threads`, `%cta` and `%ctas`, and leaves something in `%result`.
pub(super) struct Kernel<'a> {
    pub name: &'a str,
    pub parameters: &'a str,
    pub declarations: &'a str,
    pub setup: &'a str,
    pub body: &'a str,
}

impl Kernel<'_> {
    pub(super) fn entry(&self) -> String {
        let Self { name, parameters, declarations, setup, body } = self;
        format!(
            "
.visible .entry {name}(.param .u64 times_of, .param .u64 data_of, .param .u64 sink_of, .param .u32 count_of{parameters})
{{
    .reg .pred %more, %first;
    .reg .b32 %count, %thread, %threads, %cta, %ctas, %result;
    .reg .b64 %times, %data, %sink, %start, %stop, %offset;
    {declarations}
    ld.param.u64 %times, [times_of];
    ld.param.u64 %data, [data_of];
    ld.param.u64 %sink, [sink_of];
    ld.param.u32 %count, [count_of];
    cvta.to.global.u64 %times, %times;
    cvta.to.global.u64 %data, %data;
    cvta.to.global.u64 %sink, %sink;
    mov.u32 %thread, %tid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %ctas, %nctaid.x;
    mov.u32 %result, 0;
    {setup}
    bar.sync 0;
    mov.u64 %start, %clock64;
    {body}
    bar.sync 0;
    mov.u64 %stop, %clock64;
    mul.wide.u32 %offset, %thread, 4;
    add.s64 %sink, %sink, %offset;
    st.global.b32 [%sink], %result;
    setp.eq.u32 %first, %thread, 0;
    mul.wide.u32 %offset, %cta, 16;
    add.s64 %times, %times, %offset;
    @%first st.global.u64 [%times], %start;
    @%first st.global.u64 [%times+8], %stop;
    ret;
}}
"
        )
    }
}

/// Shared memory of a launch's size, for the kernels of a module.
pub(super) const DYNAMIC_SHARED: &str = ".extern .shared .align 1024 .b8 bytes[];\n";

/// The kernels as a module.
pub(super) fn module(kernels: &str) -> String {
    format!(".version 8.6\n.target sm_90a\n.address_size 64\n{kernels}")
}
