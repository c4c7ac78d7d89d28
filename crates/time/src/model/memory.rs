//! The memory behind the SMs: L1 caches, the L2 cache, and device memory.

use warpwright_arch::limits::SMS_PER_GPC;
use warpwright_arch::timing::{Figure, Timing};

use super::bandwidth::Bandwidth;
use super::cache::Cache;
use crate::gpu::Gpu;
use crate::trace::Lines;

/// Cycles that a cached access takes on the way from the L1 cache to the L2 cache and back are part of the
/// L2 latency; those of a copy by the tensor memory accelerator are not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latencies {
    pub(super) l1: u64,
    pub(super) l2: u64,
    pub(super) device: u64,
}

/// The memory of a GPU.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) latencies: Latencies,
    l2: Cache,
    l2_bandwidth: Bandwidth,
    /// The time of a store in the L2 cache, by the time of a load.
    l2_store_weight: f64,
    device_bandwidth: Bandwidth,
    /// The time of a write, by the time of a read.
    write_weight: f64,
    /// The requests of each GPC that are in flight: a request for the same line joins.
    requests: Vec<Vec<(u64, u64)>>,
    /// The cycle from which on the operands of atomic operations on a line are free, by the line's number.
    atomics: Vec<u64>,
    /// Words of a line that they update in a cycle.
    atomic_words: f64,
    /// The cycle at which the L2 cache has the last store, and has written back what it replaces.
    pub(super) stored: u64,
    /// Sectors that device memory has read and written.
    pub(super) device_sectors: u64,
    /// Sectors that the L2 cache has served.
    pub(super) l2_sectors: u64,
}

/// The way of one SM to memory.
#[derive(Debug)]
pub(super) struct Port {
    /// The GPC that the SM is in.
    gpc: usize,
    l1: Cache,
    loads: Bandwidth,
    stores: Bandwidth,
}

impl Port {
    /// With an L1 cache of these bytes.
    pub(super) fn new(sm: usize, l1_bytes: u64, timing: &Timing) -> Self {
        Self {
            gpc: sm / SMS_PER_GPC as usize,
            l1: Cache::new(l1_bytes),
            loads: Bandwidth::new(timing.l2_bytes_per_sm.value),
            stores: Bandwidth::new(timing.store_bytes_per_sm.value),
        }
    }
}

const SECTOR_BYTES: f64 = 32.0;
/// Requests of a GPC that are known at a time.
const REQUESTS: usize = 1 << 12;
/// Lines with atomic operations that the model distinguishes.
const ATOMIC_LINES: usize = 1 << 12;

impl Memory {
    /// At a clock of the SMs, in Hz.
    pub(super) fn new(gpu: &Gpu, clock: f64) -> Self {
        let Gpu { arch, timing, .. } = gpu;
        let cycles = |figure: Figure| figure.value as u64;
        Self {
            latencies: Latencies {
                l1: cycles(timing.l1_latency),
                l2: cycles(timing.l2_latency),
                device: cycles(timing.device_latency),
            },
            l2: Cache::new((arch.l2_bytes as f64 * timing.l2_part.value) as u64),
            l2_store_weight: timing.l2_bytes.value / timing.l2_store_bytes.value,
            l2_bandwidth: Bandwidth::new(timing.l2_bytes.value),
            device_bandwidth: Bandwidth::new(arch.bytes_per_second * timing.device_reads.value / clock),
            write_weight: timing.device_reads.value / timing.device_writes.value,
            requests: vec![vec![(u64::MAX, 0); REQUESTS]; (arch.sm_count / SMS_PER_GPC) as usize + 1],
            atomics: vec![0; ATOMIC_LINES],
            atomic_words: timing.atomic_words.value,
            stored: 0,
            device_sectors: 0,
            l2_sectors: 0,
        }
    }

    /// Loads lines through the L1 cache. Returns the cycle at which the last is there.
    pub(super) fn load(&mut self, port: &mut Port, lines: &[Lines], at: u64) -> u64 {
        let (mut end, mut step) = (at, 0);
        for lines in lines {
            for line in lines.each() {
                let found = port.l1.access(line, lines.sectors);
                let arrives = if found.missing == 0 {
                    found.filled.max(at + step + self.latencies.l1)
                } else {
                    let arrives = self.read(port, line, found.missing, at + step);
                    port.l1.fill(line, arrives);
                    arrives
                };
                end = end.max(arrives);
                step += 1;
            }
        }
        end
    }

    /// Loads lines without the L1 cache, as copies do, one each `interval` cycles. Returns the cycle at which
    /// the last is there.
    pub(super) fn copy(&mut self, port: &mut Port, lines: &[Lines], at: u64, interval: f64) -> u64 {
        let (mut end, mut step) = (at, 0.0);
        for lines in lines {
            for line in lines.each() {
                end = end.max(self.read(port, line, lines.sectors, at + step as u64));
                step += interval;
            }
        }
        end
    }

    /// Reads sectors of a line from the L2 cache. Returns the cycle at which they reach the SM.
    fn read(&mut self, port: &mut Port, line: u64, sectors: u8, at: u64) -> u64 {
        let count = sectors.count_ones();
        let bytes = SECTOR_BYTES * f64::from(count);
        // The request coalescer of a GPC sends one request for a line to the L2 cache.
        let hashed = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % REQUESTS;
        let (same, arrives) = self.requests[port.gpc][hashed];
        if same == line && arrives > at {
            return port.loads.serve(arrives, bytes);
        }
        self.l2_sectors += u64::from(count);
        let served = self.l2_bandwidth.serve(at, bytes);
        let found = self.l2.access(line, sectors);
        let mut arrives = (served + self.latencies.l2).max(found.filled);
        if found.missing != 0 {
            let missing = found.missing.count_ones();
            self.device_sectors += u64::from(missing);
            let read = self.device_bandwidth.serve(served, SECTOR_BYTES * f64::from(missing));
            arrives = arrives.max(read + self.latencies.device);
            self.l2.fill(line, arrives);
        }
        self.requests[port.gpc][hashed] = (line, arrives);
        // The way back to the SM is as wide as its port.
        port.loads.serve(arrives, bytes)
    }

    /// Writes lines. Returns the cycle at which the L2 cache has them.
    pub(super) fn write(&mut self, port: &mut Port, lines: &[Lines], at: u64) -> u64 {
        let (mut end, mut written) = (at, at);
        for lines in lines {
            let bytes = f64::from(lines.bytes_of_line());
            for line in lines.each() {
                let sent = port.stores.serve(at, bytes);
                let served = self.l2_bandwidth.serve(sent, bytes * self.l2_store_weight);
                let found = self.l2.access(line, lines.sectors);
                self.l2_sectors += u64::from(lines.sectors.count_ones());
                if found.missing != 0 {
                    // The cache first writes back what it replaces: in a steady state as much as it takes in.
                    self.device_sectors += u64::from(found.missing.count_ones());
                    let bytes = SECTOR_BYTES * f64::from(found.missing.count_ones());
                    written = written.max(self.device_bandwidth.serve(served, bytes * self.write_weight));
                }
                end = end.max(served);
            }
        }
        self.stored = self.stored.max(end).max(written);
        end
    }

    /// Atomic operations of a warp, of whose lanes so many update one address. Returns the cycle at which they have
    /// happened: operations on one line follow one another.
    pub(super) fn update(&mut self, port: &mut Port, lines: &[Lines], at: u64, conflicts: u8) -> u64 {
        let mut end = self.write(port, lines, at);
        for lines in lines {
            // Lanes with one address are one update.
            let words = (lines.bytes_of_line() / 4).min(32 / u32::from(conflicts.max(1))).max(1);
            let cycles = (f64::from(words) / self.atomic_words).ceil() as u64;
            for line in lines.each() {
                let free = &mut self.atomics[line as usize % ATOMIC_LINES];
                *free = (*free).max(at) + cycles;
                end = end.max(*free);
            }
        }
        self.stored = self.stored.max(end);
        end
    }
}
