//! How long a launch takes: batches between two events of the device, and their median.

use std::error::Error;
use std::time::Duration;

use anyhow::Result;
use warpwright_harness::{Prepared, Work};
use warpwright_runtime::{Device, Reading, Stream};

use crate::conditions::Conditions;
use crate::interrupt;

/// A batch lasts at least this long, so that the events' resolution and the first launch's latency
/// do not show.
const BATCH: Duration = Duration::from_millis(5);
/// The GPU is kept busy this long before anything is timed, so that its clock is the one it keeps
/// under load.
const WARM_UP: Duration = Duration::from_millis(300);
/// No batch has more launches than this.
const MOST_LAUNCHES: u32 = 10_000;
/// No graph has more: the driver takes microseconds to instantiate each.
const MOST_GRAPH_LAUNCHES: u32 = 2_000;

/// The time of one launch, from several batches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Timing {
    /// Seconds a launch, one for each batch, ascending.
    seconds: Vec<f64>,
    /// Launches of a batch.
    pub(crate) launches: u32,
}

impl Timing {
    fn new(mut seconds: Vec<f64>, launches: u32) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self { seconds, launches }
    }

    /// The middle batch; of an even number, the slower of the two in the middle.
    pub(crate) fn median(&self) -> f64 {
        self.seconds[self.seconds.len() / 2]
    }

    /// The fastest batch.
    pub(crate) fn best(&self) -> f64 {
        self.seconds[0]
    }

    /// The slowest batch.
    pub(crate) fn worst(&self) -> f64 {
        self.seconds[self.seconds.len() - 1]
    }

    /// Operations a second, by the median.
    pub(crate) fn operations_per_second(&self, work: &Work) -> f64 {
        work.operations / self.median()
    }

    /// Bytes a second, by the median.
    pub(crate) fn bytes_per_second(&self, work: &Work) -> f64 {
        work.bytes / self.median()
    }
}

/// Times of kernels that took turns.
#[derive(Clone, Debug)]
pub(crate) struct Timings {
    /// A kernel each, in the order in which they were given; fewer, the first ones, if Ctrl-C ended
    /// the timing.
    pub(crate) kernels: Vec<Timing>,
    /// What the device ran at meanwhile.
    pub(crate) conditions: Conditions,
}

/// How much is timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batches {
    /// Batches of each kernel.
    pub(crate) count: usize,
    /// How long the device rests before each.
    pub(crate) rest: Duration,
    /// Whether a batch is one launch of a graph, which is captured before the time begins.
    pub(crate) as_graph: bool,
}

impl From<usize> for Batches {
    fn from(count: usize) -> Self {
        Self { count, rest: Duration::ZERO, as_graph: false }
    }
}

/// Times prepared kernels in `batches` batches each, in turns (A B A B ..), so that all meet the
/// same clocks, power and heat.
pub(crate) fn time(
    kernels: &mut [&mut dyn Prepared],
    device: &Device,
    stream: &Stream,
    batches: impl Into<Batches>,
) -> Result<Timings> {
    let Batches { count, rest, as_graph } = batches.into();
    let most = if as_graph { MOST_GRAPH_LAUNCHES } else { MOST_LAUNCHES };
    if device.properties().is_emulated {
        return predict(kernels, stream);
    }
    let mut launches = Vec::new();
    let mut firsts = Vec::new();
    for kernel in kernels.iter_mut() {
        if interrupt::is_requested() {
            break;
        }
        let first = batch(*kernel, stream, 1, as_graph)?;
        firsts.push(first);
        // The second launch has no loading to do, so it tells how many make a batch.
        let one = batch(*kernel, stream, 1, as_graph)?.min(first);
        let fitting = BATCH.as_secs_f64() / one.max(Duration::from_nanos(500)).as_secs_f64();
        launches.push(fitting.ceil().clamp(1.0, f64::from(most)) as u32);
    }
    let mut warm = Duration::ZERO;
    while warm < WARM_UP && !interrupt::is_requested() {
        for (kernel, &launches) in kernels.iter_mut().zip(&launches) {
            warm += batch(*kernel, stream, launches, as_graph)?;
        }
    }
    let first = launches.first().copied().unwrap_or(0);
    let before = reading_under_load(kernels, first, device, stream)?;
    let mut seconds = vec![Vec::new(); kernels.len()];
    for _ in 0..count {
        for ((kernel, &launches), seconds) in kernels.iter_mut().zip(&launches).zip(&mut seconds) {
            if interrupt::is_requested() {
                break;
            }
            std::thread::sleep(rest);
            let elapsed = batch(*kernel, stream, launches, as_graph)?;
            seconds.push(elapsed.as_secs_f64() / f64::from(launches));
        }
    }
    let after = reading_under_load(kernels, first, device, stream)?;
    let kernels = seconds.into_iter().zip(launches).zip(firsts).map(|((seconds, launches), first)| {
        // An interrupted timing may have the first launch only.
        if seconds.is_empty() {
            Timing::new(vec![first.as_secs_f64()], 1)
        } else {
            Timing::new(seconds, launches)
        }
    });
    Ok(Timings { kernels: kernels.collect(), conditions: Conditions { before, after } })
}

/// The predicted time of one launch of each kernel, on a device that is timed.
fn predict(kernels: &mut [&mut dyn Prepared], stream: &Stream) -> Result<Timings> {
    let mut timings = Vec::new();
    for kernel in kernels {
        if interrupt::is_requested() {
            break;
        }
        timings.push(Timing::new(vec![batch(*kernel, stream, 1, false)?.as_secs_f64()], 1));
    }
    Ok(Timings { kernels: timings, conditions: Conditions::default() })
}

/// What the device runs at while it does a batch of the first kernel, which nobody times: an idle
/// GPU's clocks would say nothing.
fn reading_under_load(
    kernels: &mut [&mut dyn Prepared],
    launches: u32,
    device: &Device,
    stream: &Stream,
) -> Result<Reading> {
    if let Some(kernel) = kernels.first_mut() {
        for _ in 0..launches {
            kernel.launch(stream).map_err(anyhow::Error::from_boxed)?;
        }
    }
    let reading = device.reading();
    stream.synchronize()?;
    Ok(reading)
}

/// The time between two events around `launches` launches, or around the launch of a graph of them.
fn batch(kernel: &mut dyn Prepared, stream: &Stream, launches: u32, as_graph: bool) -> Result<Duration> {
    let mut launch_all = |stream: &Stream| -> Result<(), Box<dyn Error + Send + Sync>> {
        for _ in 0..launches {
            kernel.launch(stream)?;
        }
        Ok(())
    };
    let failed = anyhow::Error::from_boxed;
    let graph = as_graph.then(|| stream.capture(&mut launch_all)).transpose().map_err(failed)?;
    let start = stream.record()?;
    match graph {
        Some(graph) => drop(graph.launch(stream)?),
        None => launch_all(stream).map_err(failed)?,
    }
    let end = stream.record()?;
    end.synchronize()?;
    Ok(end.since(&start)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let timing = Timing::new(vec![4.0, 1.0, 2.0, 100.0, 3.0], 1);
        assert_eq!((timing.best(), timing.median(), timing.worst()), (1.0, 3.0, 100.0));
        let work = Work { operations: 6.0, bytes: 3.0 };
        assert_eq!((timing.operations_per_second(&work), timing.bytes_per_second(&work)), (2.0, 1.0));
        assert_eq!(Timing::new(vec![2.0, 1.0], 1).median(), 2.0);
    }
}
