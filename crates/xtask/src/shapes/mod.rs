//! `xtask shapes`: times configurations of the GEMM beside cuBLASLt for many shapes. The constants
//! of the GEMM's heuristic are fitted to what it records.
//!
//! Each shape has buffers that rotate past L2. Its configurations and cuBLASLt take turns in short
//! batches. Other processes assemble the kernels first, on all host threads: the driver keeps them
//! on disk.

pub(crate) mod choices;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use choices::Recorded;
use clap::Args;
use serde_json::{Value, json};
use warpwright::arch::DataType::Bf16;
use warpwright::lang::element::bf16;
use warpwright_harness::{Random, Setup, Work, normal};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::device::schedule::Schedule;
use warpwright_kernels::gemm::host::config::{Algorithm, Configuration, TmaInstruction};
use warpwright_kernels::gemm::host::heuristic::rank;
use warpwright_kernels::gemm::problem::batching::{GemmProblem, Problem};
use warpwright_kernels::gemm::problem::types::GemmTypes;
use warpwright_kernels::operations::Operations;
use warpwright_runtime::cublas::{CublasMatmul, MatmulShape, MatrixLayout};
use warpwright_runtime::{Buffer, Device, Stream};

/// Time configurations of the GEMM beside cuBLASLt for a list of shapes.
#[derive(Debug, Args)]
pub(crate) struct Shapes {
    /// File with `gemm --m M --n N --k K` on each line, as `warpwright bench list` takes it, or with
    /// the configurations too, as this command writes them; bf16.
    list: PathBuf,
    /// File that gets a line of JSON for each shape.
    #[arg(long)]
    out: PathBuf,
    /// Configurations of a shape; with 1, the heuristic's choice.
    #[arg(long, default_value_t = 48)]
    candidates: usize,
    /// Turns of each configuration, whose median is recorded.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Milliseconds of a turn.
    #[arg(long, default_value_t = 3)]
    turn: u64,
    /// Idle milliseconds before each turn, so that the power limit does not lower the clock.
    #[arg(long, default_value_t = 0)]
    rest: u64,
    /// Milliseconds of turns before those that are timed, so that the clock is the one that the power limit
    /// leaves.
    #[arg(long, default_value_t = 0)]
    warm_up: u64,
    /// No shape begins after this many seconds.
    #[arg(long, default_value_t = 420)]
    seconds: u64,
    /// Only assemble every N-th kernel, from kernel I on: `I/N`.
    #[arg(long)]
    assemble: Option<String>,
    /// Processes that assemble.
    #[arg(long, default_value_t = 16)]
    processes: usize,
}

/// SMs of an H200.
const SMS: u32 = 132;

/// Elements that are random; buffers repeat them.
const RANDOM: usize = 1 << 25;

/// Elements of C up to which each configuration's result is compared.
const COMPARED: usize = 1 << 20;

const TYPES: GemmTypes = GemmTypes::new(Bf16, Bf16, Bf16);

type Shape = (u32, u32, u32);

impl Shapes {
    pub(crate) fn run(&self) -> Result<()> {
        let begin = Instant::now();
        let text = fs::read_to_string(&self.list).with_context(|| self.list.display().to_string())?;
        let lines = text.lines().filter(|line| line.starts_with("gemm") || line.starts_with('{'));
        let shapes: Vec<(Shape, Vec<Configuration>)> =
            lines.map(|line| listed(line, self.candidates)).collect::<Result<_>>()?;
        let mut kernels: Vec<Configuration> = Vec::new();
        for configuration in shapes.iter().flat_map(|(_, configurations)| configurations) {
            if !kernels.contains(configuration) {
                kernels.push(*configuration);
            }
        }
        if let Some(part) = &self.assemble {
            let (first, step) = part.split_once('/').context("--assemble I/N")?;
            return assemble(kernels.iter().skip(first.parse()?).step_by(step.parse()?));
        }
        println!("{} shapes, {} kernels", shapes.len(), kernels.len());
        self.assemble_all()?;
        println!("assembled after {:.0} s", begin.elapsed().as_secs_f64());
        let device = Device::cuda(0)?;
        let bench = Bench {
            operations: Operations::new(&device),
            stream: device.stream()?,
            random: normal(1, RANDOM, bf16::from_f32),
            device,
            turns: self.turns,
            turn: Duration::from_millis(self.turn),
            rest: Duration::from_millis(self.rest),
            warm_up: Duration::from_millis(self.warm_up),
        };
        let mut out = File::create(&self.out).with_context(|| self.out.display().to_string())?;
        let mut ratios = Vec::new();
        for (shape, configurations) in &shapes {
            if begin.elapsed().as_secs() > self.seconds {
                println!("out of time");
                break;
            }
            let record = bench.measure(*shape, configurations)?;
            writeln!(out, "{record}")?;
            out.flush()?;
            let seconds = begin.elapsed().as_secs_f64();
            ratios.push(best_ratio(&record));
            println!("{seconds:>5.0} s {shape:?}: best {:.3}", best_ratio(&record));
        }
        ensure!(!ratios.is_empty(), "{} lists no shape", self.list.display());
        println!("{}", choices::summary(ratios));
        Ok(())
    }

    fn assemble_all(&self) -> Result<()> {
        let program = std::env::current_exe()?;
        let start = |part: usize| {
            let mut command = Command::new(&program);
            command.arg("shapes").arg(&self.list).arg("--out").arg(&self.out);
            command.args(["--candidates", &self.candidates.to_string()]);
            command.args(["--assemble", &format!("{part}/{}", self.processes)]).spawn()
        };
        let children: Vec<_> = (0..self.processes).map(start).collect::<Result<_, _>>()?;
        for mut child in children {
            ensure!(child.wait()?.success(), "a process that assembles kernels failed");
        }
        Ok(())
    }
}

/// The shape of a line, and the configurations to be timed: those of the line, or `count`
/// candidates.
fn listed(line: &str, count: usize) -> Result<(Shape, Vec<Configuration>)> {
    if line.starts_with('{') {
        let recorded: Recorded = serde_json::from_str(line)?;
        return Ok((recorded.shape(), recorded.configurations()));
    }
    let shape = shape(line)?;
    Ok((shape, candidates(shape, count)))
}

/// m, n and k of a line.
fn shape(line: &str) -> Result<Shape> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
        at.and_then(|value| value.parse().ok()).ok_or_else(|| anyhow!("`{line}` has no {name}"))
    };
    Ok((value("--m")?, value("--n")?, value("--k")?))
}

fn problem((m, n, k): Shape) -> GemmProblem {
    GemmProblem::new(Problem::new(m, n, k), TYPES)
}

/// Loads kernels, each by a launch on a small problem.
fn assemble<'c>(configurations: impl Iterator<Item = &'c Configuration>) -> Result<()> {
    const EXTENT: u32 = 1024;
    let device = Device::cuda(0)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let elements = (EXTENT * EXTENT) as usize;
    let (a, mut c) = (device.zeros::<bf16>(elements)?, device.zeros::<bf16>(elements)?);
    for &configuration in configurations {
        let gemm = Gemm::new(EXTENT, EXTENT, EXTENT).algorithm(Algorithm::Wgmma(configuration));
        operations.gemm(&stream, &gemm, &a, &a, &mut c)?;
    }
    Ok(stream.synchronize()?)
}

/// Bounds from below, in cycles: of no model that is fitted, so that the records can contradict it.
fn least_cycles(configuration: &Configuration, (m, n, k): Shape) -> f64 {
    let Configuration { tile, cluster, schedule, stream_k, split_k, transposed, k_bytes, .. } =
        *configuration;
    let (rows, columns) = if transposed { (n, m) } else { (m, n) };
    let tiles = rows.div_ceil(tile.0 * cluster.0) * columns.div_ceil(tile.1 * cluster.1);
    let resident = f64::from(SMS / (cluster.0 * cluster.1 * split_k));
    let area = f64::from(tile.0 * tile.1);
    let received = f64::from(tile.0 / cluster.1 + tile.1 / cluster.0);
    let block = f64::from(k_bytes) * (area / 4096.0).max(received / 64.0);
    let even = f64::from(tiles) / resident;
    let waves = if stream_k { even } else { even.ceil() };
    let exchange = f64::from(split_k - 1) / f64::from(split_k);
    let reduction = match (stream_k, split_k) {
        (true, _) => 2500.0 + 0.2 * area,
        (false, 1) => 0.0,
        (false, _) => 1500.0 + 0.2 * area * exchange,
    };
    let epilogue = if schedule == Schedule::Pingpong && waves > 1.0 { 0.03 } else { 0.1 } * area;
    let k_blocks = f64::from(k.div_ceil(k_bytes / 2)) / f64::from(split_k);
    4000.0 + waves * k_blocks * block + waves.ceil() * epilogue + reduction
}

/// The configurations to be timed: half are the first ones of the heuristic, then the most promising
/// ones by the bounds, both of unlike tiles; some others at random, and other rasters of large
/// problems.
fn candidates(shape: Shape, count: usize) -> Vec<Configuration> {
    let problem = problem(shape);
    let ranked: Vec<_> =
        rank(&problem, TmaInstruction::Wgmma, SMS).into_iter().map(|cost| cost.configuration).collect();
    if count == 1 {
        return vec![ranked[0]];
    }
    let mut all = Configuration::searched(&problem, TmaInstruction::Wgmma);
    let wide = |configuration: &Configuration| configuration.tile.1 > 32 && configuration.k_bytes != 128;
    all.retain(|configuration| !wide(configuration));
    // The transpose is as fast, so that it is tried where its tiles fit better.
    let least = |configuration: &Configuration| least_cycles(configuration, shape);
    all.retain(|configuration| {
        let other = Configuration { transposed: false, ..*configuration };
        !configuration.transposed || least(configuration) < 0.97 * least(&other)
    });
    all.sort_by(|one, other| least(one).total_cmp(&least(other)));
    let mut chosen = unlike(Vec::new(), &ranked, count.div_ceil(2), 2);
    chosen = unlike(chosen, &all, count * 5 / 6, 3);
    let promising = all.iter().filter(|configuration| least(configuration) < 1.5 * least(&all[0])).count();
    let mut random = Random::new(u64::from(shape.0) << 40 ^ u64::from(shape.1) << 20 ^ u64::from(shape.2));
    for _ in 0..count {
        let configuration = all[random.below(promising as u64) as usize];
        if chosen.len() < count && !chosen.contains(&configuration) {
            chosen.push(configuration);
        }
    }
    let (m, n, k) = shape;
    if f64::from(m) * f64::from(n) * f64::from(k) > 5e10 {
        let rasters =
            [4, 16].map(|raster| chosen[..2].iter().map(move |best| Configuration { raster, ..*best }));
        let rasters: Vec<_> = rasters.into_iter().flatten().collect();
        chosen.extend(rasters);
    }
    chosen
}

/// `chosen` and the first of others, `count` in all, up to `alike` with the same tile.
fn unlike(
    mut chosen: Vec<Configuration>,
    others: &[Configuration],
    count: usize,
    alike: usize,
) -> Vec<Configuration> {
    for configuration in others {
        let is_alike = |other: &&Configuration| {
            (other.tile, other.schedule) == (configuration.tile, configuration.schedule)
        };
        if chosen.len() < count
            && !chosen.contains(configuration)
            && chosen.iter().filter(is_alike).count() < alike
        {
            chosen.push(*configuration);
        }
    }
    chosen
}

/// The time of cuBLASLt over that of the fastest configuration.
fn best_ratio(record: &Value) -> f64 {
    let times = record["configurations"].as_array().into_iter().flatten();
    let best = times.filter_map(|one| one["us"].as_f64()).fold(f64::INFINITY, f64::min);
    record["cublas_us"].as_f64().unwrap_or_default() / best
}

struct Bench {
    device: Device,
    operations: Operations,
    stream: Stream,
    random: Vec<bf16>,
    turns: usize,
    turn: Duration,
    rest: Duration,
    warm_up: Duration,
}

/// A, B and C.
type Set = (Buffer<bf16>, Buffer<bf16>, Buffer<bf16>);

type Launch<'l> = Box<dyn Fn(&Stream, &mut Set) -> Result<()> + 'l>;

impl Bench {
    fn measure(&self, shape: Shape, configurations: &[Configuration]) -> Result<Value> {
        let (m, n, k) = shape;
        let [a, b, c] = [(m, k), (n, k), (m, n)].map(|(rows, columns)| rows as usize * columns as usize);
        let work = Work { bytes: 2.0 * (a + b + c) as f64, ..Work::default() };
        let set = |_| Ok((self.filled(a)?, self.filled(b)?, self.device.zeros(c)?));
        let mut sets: Vec<Set> =
            (0..Setup::new(&self.device).set_count(work)).map(set).collect::<Result<_>>()?;
        let matmul = MatmulShape {
            m: m as usize,
            n: n as usize,
            k: k as usize,
            a: MatrixLayout::RowMajor,
            b: MatrixLayout::ColumnMajor,
            batch: 1,
        };
        let (a, b, c) = &mut sets[0];
        let cublas = CublasMatmul::new(&self.stream, matmul, a, b, c)?;
        let mut launches: Vec<Launch<'_>> =
            vec![Box::new(move |stream, (a, b, c)| Ok(cublas.launch(stream, a, b, c)?))];
        for &configuration in configurations {
            let gemm = Gemm::new(m, n, k).algorithm(Algorithm::Wgmma(configuration));
            let launch = move |stream: &Stream, (a, b, c): &mut Set| {
                self.operations.gemm(stream, &gemm, &*a, &*b, c)?;
                Ok(())
            };
            launches.push(Box::new(launch));
        }
        let errors = self.errors(&launches, &mut sets[0])?;
        let mut counts = Vec::new();
        for launch in &launches {
            // The first launch loads the kernel.
            self.batch(launch, &mut sets, 1)?;
            let one = self.batch(launch, &mut sets, 2)? / 2;
            counts.push((self.turn.as_secs_f64() / one.as_secs_f64()).ceil().clamp(1.0, 2000.0) as u32);
        }
        let mut warm = Duration::ZERO;
        while warm < self.warm_up {
            for (launch, &count) in launches.iter().zip(&counts) {
                warm += self.batch(launch, &mut sets, count)?;
            }
        }
        let mut times = vec![Vec::new(); launches.len()];
        for _ in 0..self.turns {
            for (index, (launch, &count)) in launches.iter().zip(&counts).enumerate() {
                // cuBLASLt's time divides all others.
                if index % 16 == 15 {
                    times[0].push(self.batch(&launches[0], &mut sets, counts[0])? / counts[0]);
                }
                times[index].push(self.batch(launch, &mut sets, count)? / count);
            }
        }
        let reading = self.device.reading();
        let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
        let timed = configurations
            .iter()
            .zip(&medians[1..])
            .zip(&errors[1..])
            .map(|((one, us), error)| json!({"configuration": one, "us": us, "error": error}));
        Ok(json!({
            "m": m, "n": n, "k": k, "cublas_us": medians[0],
            "sm_mhz": reading.sm_mhz, "watts": reading.watts,
            "configurations": timed.collect::<Vec<_>>(),
        }))
    }

    fn filled(&self, length: usize) -> Result<Buffer<bf16>> {
        let mut buffer = self.device.uninitialized(length)?;
        for start in (0..length).step_by(RANDOM) {
            buffer.write_at(start, &self.random[..RANDOM.min(length - start)])?;
        }
        Ok(buffer)
    }

    /// The largest difference of each result from the first one, relative to its largest element;
    /// of large results none.
    fn errors(&self, launches: &[Launch<'_>], set: &mut Set) -> Result<Vec<Option<f32>>> {
        let mut expected: Vec<f32> = Vec::new();
        let mut errors = Vec::new();
        for launch in launches {
            if set.2.len() > COMPARED {
                errors.push(None);
                continue;
            }
            self.stream.fill(&mut set.2, 0xff)?;
            launch(&self.stream, set)?;
            self.stream.synchronize()?;
            let found: Vec<f32> = set.2.to_vec()?.into_iter().map(bf16::to_f32).collect();
            if expected.is_empty() {
                expected = found.clone();
            }
            let largest = expected.iter().fold(0f32, |largest, value| largest.max(value.abs()));
            let differences = found.iter().zip(&expected).map(|(found, expected)| (found - expected).abs());
            // A NaN counts as the largest difference.
            let error =
                differences.fold(0f32, |most, one| if most.is_nan() || one <= most { most } else { one });
            errors.push(Some(error / largest));
        }
        Ok(errors)
    }

    /// The time of some launches after a rest, on one set after another.
    fn batch(&self, launch: &Launch<'_>, sets: &mut [Set], launches: u32) -> Result<Duration> {
        thread::sleep(self.rest);
        let start = self.stream.record()?;
        let count = sets.len();
        for index in 0..launches as usize {
            launch(&self.stream, &mut sets[index % count])?;
        }
        let end = self.stream.record()?;
        end.synchronize()?;
        Ok(end.since(&start)?)
    }
}

/// The median in microseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}
