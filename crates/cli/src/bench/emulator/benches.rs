//! A fixed set of kernels that tell how fast the emulator is on this machine.

use std::time::{Duration, Instant};

use warpwright_arch::Arch;
use warpwright_check::LaunchChecks;
use warpwright_emulator::{Emulator, Fault, Launch, LaunchObserver, LaunchReport, Program};

use super::{warp_gemm, warpgroup_gemm};

/// Why a bench could not run.
#[derive(Debug, thiserror::Error)]
#[error("the bench `{bench}` could not run: {reason}")]
pub(super) struct BenchError {
    /// The bench.
    pub(super) bench: &'static str,
    /// What went wrong.
    pub(super) reason: String,
}

/// The figures of one bench.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    /// The kernel.
    pub(super) name: &'static str,
    /// Host threads it ran on.
    pub(super) threads: usize,
    /// The best of several runs.
    pub(super) best: Duration,
    /// What one run did.
    pub(super) report: LaunchReport,
}

impl Figures {
    fn per_second_and_thread(&self, count: u64) -> f64 {
        count as f64 / self.best.as_secs_f64() / self.threads as f64
    }

    /// Warp-instructions a second on each thread.
    pub(super) fn warp_instructions(&self) -> f64 {
        self.per_second_and_thread(self.report.warp_instructions)
    }

    /// Lane-operations per second on each thread.
    pub(super) fn lane_operations(&self) -> f64 {
        self.per_second_and_thread(self.report.lane_operations)
    }

    /// Multiply-adds of matrix instructions a second on each thread.
    pub(super) fn mma_multiply_adds(&self) -> f64 {
        self.per_second_and_thread(self.report.mma_multiply_adds)
    }
}

/// One bench: a kernel, its launch, and what its buffers must hold afterwards.
struct Bench {
    text: String,
    grid: [u32; 3],
    block: [u32; 3],
    /// Dynamic shared memory.
    shared_bytes: u32,
    /// Buffers by their initial bytes; their addresses are the first parameters.
    buffers: Vec<Vec<u8>>,
    /// The parameters that follow.
    scalars: Vec<u8>,
    /// The buffer that is looked at, and the bytes expected at its start.
    expected: (usize, Vec<u8>),
}

fn bytes(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

/// Small integers, so that every sum is exact.
fn small(index: usize) -> f32 {
    ((index * 2_654_435_761) >> 7 & 7) as f32 - 3.0
}

fn saxpy() -> Bench {
    let n = 1usize << 20;
    Bench {
        text: include_str!("saxpy.ptx").to_owned(),
        grid: [(n / 256) as u32, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
        buffers: vec![bytes((0..n).map(small)), bytes((0..n).map(|_| 1.0))],
        scalars: [2.0f32.to_le_bytes(), (n as u32).to_le_bytes()].concat(),
        expected: (1, bytes((0..n).map(|index| 2.0 * small(index) + 1.0))),
    }
}

fn transpose() -> Bench {
    let n = 1024usize;
    Bench {
        text: include_str!("transpose.ptx").to_owned(),
        grid: [(n / 32) as u32, (n / 32) as u32, 1],
        block: [32, 8, 1],
        shared_bytes: 0,
        buffers: vec![bytes((0..n * n).map(|index| index as f32)), vec![0; 4 * n * n]],
        scalars: (n as u32).to_le_bytes().to_vec(),
        expected: (1, bytes((0..n * n).map(|index| (index % n * n + index / n) as f32))),
    }
}

fn collatz() -> Bench {
    let n = 1usize << 16;
    let steps = |start: u64| {
        let (mut value, mut steps) = (start, 0u32);
        while value != 1 {
            value = if value % 2 == 0 { value / 2 } else { 3 * value + 1 };
            steps += 1;
        }
        steps
    };
    // Beyond this a value on the way exceeds 32 bits.
    let checked = 1 << 12;
    Bench {
        text: include_str!("collatz.ptx").to_owned(),
        grid: [(n / 128) as u32, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 0,
        buffers: vec![vec![0; 4 * n]],
        scalars: Vec::new(),
        expected: (0, (0..checked).flat_map(|index| steps(index + 1).to_le_bytes()).collect()),
    }
}

fn sgemm() -> Bench {
    let n = 256usize;
    let (a, b): (Vec<f32>, Vec<f32>) =
        ((0..n * n).map(small).collect(), (0..n * n).map(|i| small(i + 7)).collect());
    let mut c = vec![0.0f32; n * n];
    for i in 0..n {
        for k in 0..n {
            for j in 0..n {
                c[i * n + j] += a[i * n + k] * b[k * n + j];
            }
        }
    }
    Bench {
        text: include_str!("sgemm.ptx").to_owned(),
        grid: [(n / 64) as u32, (n / 64) as u32, 1],
        block: [16, 16, 1],
        shared_bytes: 0,
        buffers: vec![bytes(a.into_iter()), bytes(b.into_iter()), vec![0; 4 * n * n]],
        scalars: (n as u32).to_le_bytes().to_vec(),
        expected: (2, bytes(c.into_iter())),
    }
}

/// bf16 of small integers.
fn brief(index: usize) -> u16 {
    (small(index).to_bits() >> 16) as u16
}

/// A GEMM of n cubed, by a kernel `gemm(a, b, c, n, k)` whose CTAs of `threads` threads compute
/// tiles of 128 rows and `columns` columns.
fn gemm_of(n: usize, text: String, threads: u32, columns: usize, shared_bytes: u32) -> Bench {
    let (m, k) = (n, n);
    let b_start = 5;
    let integers = |start: usize, count: usize| -> Vec<i32> {
        (start..start + count).map(|index| small(index) as i32).collect()
    };
    let (a, b) = (integers(0, m.min(128) * k), integers(b_start, n * k));
    let mut expected = Vec::new();
    // The first rows are enough: every warp's and every lane's place is among them.
    for row in a.chunks_exact(k) {
        for column in b.chunks_exact(k) {
            let sum: i32 = row.iter().zip(column).map(|(a, b)| a * b).sum();
            expected.extend((sum as f32).to_le_bytes());
        }
    }
    let halves =
        |start: usize, count: usize| (start..start + count).flat_map(|i| brief(i).to_le_bytes()).collect();
    Bench {
        text,
        grid: [(n / columns) as u32, (m / 128) as u32, 1],
        block: [threads, 1, 1],
        shared_bytes,
        buffers: vec![halves(0, m * k), halves(b_start, n * k), vec![0; 4 * m * n]],
        scalars: [(n as u32).to_le_bytes(), (k as u32).to_le_bytes()].concat(),
        expected: (2, expected),
    }
}

fn mma_gemm(n: usize) -> Bench {
    gemm_of(n, warp_gemm::text(), 128, 128, 0)
}

fn wgmma_gemm(n: usize) -> Bench {
    gemm_of(n, warpgroup_gemm::text(), 256, 256, warpgroup_gemm::SHARED_BYTES)
}

/// The names of the benches, in order. GEMMs of `mma.sync` and of `wgmma` are of the given size
/// cubed.
pub(super) const NAMES: [&str; 8] =
    ["saxpy", "transpose", "collatz", "sgemm", "gemm 256", "wgmma 256", "gemm 1024", "wgmma 1024"];

/// Those that take longer, run when they are asked for by name.
pub(super) const LONG_NAMES: [&str; 2] = ["gemm 4096", "wgmma 4096"];

fn named(name: &str) -> Option<Bench> {
    Some(match name {
        "saxpy" => saxpy(),
        "transpose" => transpose(),
        "collatz" => collatz(),
        "sgemm" => sgemm(),
        "gemm 256" => mma_gemm(256),
        "gemm 1024" => mma_gemm(1024),
        "gemm 4096" => mma_gemm(4096),
        "wgmma 256" => wgmma_gemm(256),
        "wgmma 1024" => wgmma_gemm(1024),
        "wgmma 4096" => wgmma_gemm(4096),
        _ => return None,
    })
}

/// Runs one bench for about half a second, under the checkers if it is `checked`, and checks its
/// result. `threads` of 0 is one a core.
pub(super) fn run(name: &'static str, threads: usize, checked: bool) -> Result<Figures, BenchError> {
    let failed = |reason: String| BenchError { bench: name, reason };
    let bench = named(name).ok_or_else(|| failed("it does not exist".to_owned()))?;
    let arch = Arch::named("h200").map_err(|error| failed(error.to_string()))?;
    let mut device = Emulator::with_threads(arch, threads).map_err(|error| failed(error.to_string()))?;
    let module = warpwright_ptx::parse(&bench.text).map_err(|error| failed(error.to_string()))?;
    let program = device.load(&module).map_err(|error| failed(error.to_string()))?;
    let mut addresses = Vec::new();
    for buffer in &bench.buffers {
        addresses.push(device.allocate(buffer.len() as u64).map_err(|error| failed(error.to_string()))?);
    }
    let mut parameters: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
    parameters.extend(&bench.scalars);
    let mut figures: Option<Figures> = None;
    let begun = Instant::now();
    while figures.is_none() || begun.elapsed() < Duration::from_millis(500) {
        for (address, buffer) in addresses.iter().zip(&bench.buffers) {
            device.write(*address, buffer).map_err(|error| failed(error.to_string()))?;
        }
        let (elapsed, report) = once(&device, &program, &bench, &parameters, checked).map_err(failed)?;
        if figures.as_ref().is_none_or(|figures| elapsed < figures.best) {
            figures = Some(Figures { name, threads: device.threads(), best: elapsed, report });
        }
    }
    let (buffer, expected) = &bench.expected;
    let mut found = vec![0; expected.len()];
    device.read(addresses[*buffer], &mut found).map_err(|error| failed(error.to_string()))?;
    if found != *expected {
        return Err(failed("its result is wrong".to_owned()));
    }
    figures.ok_or_else(|| failed("it did not run".to_owned()))
}

fn once(
    device: &Emulator,
    program: &Program,
    bench: &Bench,
    parameters: &[u8],
    checked: bool,
) -> Result<(Duration, LaunchReport), String> {
    let dynamic_shared_bytes = bench.shared_bytes;
    let launch = Launch {
        grid: bench.grid,
        block: bench.block,
        dynamic_shared_bytes,
        parameters,
        ..Launch::default()
    };
    let kernel = program.kernels().next().unwrap_or_default().to_owned();
    let words = |fault: Box<Fault>| fault.to_string();
    let info = device.describe(program, &kernel, &launch).map_err(words)?;
    let checks = checked.then(|| LaunchChecks::new(&info, None));
    let observers: Vec<&dyn LaunchObserver> = checks.iter().map(|checks| checks as _).collect();
    let begun = Instant::now();
    let launch = Launch { observers: &observers, ..launch };
    let report = device.launch(program, &kernel, &launch).map_err(words)?;
    let elapsed = begun.elapsed();
    match checks.as_ref().and_then(|checks| checks.findings().first()) {
        Some(finding) => Err(finding.to_string()),
        None => Ok((elapsed, report)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_runs_and_is_right() {
        for name in &NAMES[..6] {
            let figures = run(name, 2, false).unwrap_or_else(|error| panic!("{error}"));
            assert!(figures.report.warp_instructions > 0);
        }
    }
}
