//! A trace of requests and steps, as JSON trace events: Perfetto (ui.perfetto.dev) draws it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use warpwright_llm_step::{Chunk, Step};

use crate::scheduler::Usage;

/// A file of trace events. Times are microseconds from its creation.
pub struct Trace {
    /// `None` after an error.
    file: Option<BufWriter<File>>,
    created: Instant,
    cost: CostOf,
}

/// What a step costs, if that is known.
type CostOf = Box<dyn Fn(&Step) -> Option<Cost> + Send>;

/// What a step launches and moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Launches of kernels.
    pub launches: usize,
    /// Bytes that have to be read and written.
    pub bytes: u64,
}

/// A step in flight.
pub(crate) struct Traced {
    submitted: Instant,
    args: Value,
    bytes: Option<u64>,
}

/// The tracks of the process, as threads. Requests have a track of their own each.
const STEPS: u32 = 1;
const HOST: u32 = 2;

impl Trace {
    /// Creates the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> io::Result<Trace> {
        let mut file = BufWriter::new(File::create(path)?);
        let process =
            json!({ "ph": "M", "pid": 1, "name": "process_name", "args": { "name": "warpwright-llm" } });
        write!(file, "[\n{process}")?;
        let mut trace = Trace { file: Some(file), created: Instant::now(), cost: Box::new(|_| None) };
        for (track, name) in [(STEPS, "steps"), (HOST, "host")] {
            trace.event(json!({ "ph": "M", "tid": track, "name": "thread_name", "args": { "name": name } }));
        }
        Ok(trace)
    }

    /// Adds to each step what `cost` says of it, and the bandwidth that it achieves.
    pub fn with_costs(mut self, cost: impl Fn(&Step) -> Option<Cost> + Send + 'static) -> Trace {
        self.cost = Box::new(cost);
        self
    }

    /// Describes something at the beginning of the steps, such as the kernels of a decode.
    pub fn describe(&mut self, name: &str, args: &Value) {
        self.event(json!({ "ph": "i", "s": "t", "tid": STEPS, "name": name, "ts": 0, "args": args }));
    }

    /// A step that is submitted now.
    pub(crate) fn submit(&self, step: &Step) -> Traced {
        let tokens: u32 = step.chunks.iter().map(|chunk| chunk.tokens.len()).sum();
        let is_answer = |chunk: &&Chunk| chunk.tokens.len() == 1 && chunk.sampling.is_some();
        let answers = step.chunks.iter().filter(is_answer).count();
        let mut args = json!({ "tokens": tokens, "sequences": step.chunks.len(), "answers": answers });
        let cost = (self.cost)(step);
        if let Some(Cost { launches, bytes }) = cost {
            args["launches"] = launches.into();
            args["bytes"] = bytes.into();
        }
        Traced { submitted: Instant::now(), args, bytes: cost.map(|cost| cost.bytes) }
    }

    /// A step that ended, after the end of the step before it, and what is in use.
    pub(crate) fn step(&mut self, step: Traced, before: Instant, end: Instant, usage: Usage) {
        let Traced { submitted, mut args, bytes } = step;
        let begin = submitted.max(before);
        if let Some(bytes) = bytes {
            args["TB/s"] = (bytes as f64 / 1e12 / (end - begin).as_secs_f64()).into();
        }
        self.span(STEPS, "step", (begin, end), args);
        let ts = self.time(end);
        let pages = json!({ "sequences": usage.used_pages - usage.idle_pages, "prefixes": usage.idle_pages });
        self.event(json!({ "ph": "C", "name": "pages", "ts": ts, "args": pages }));
        let sequences = json!({ "running": usage.running, "waiting": usage.waiting });
        self.event(json!({ "ph": "C", "name": "sequences", "ts": ts, "args": sequences }));
    }

    /// What the host did.
    pub(crate) fn host(&mut self, name: &str, begin: Instant) {
        self.span(HOST, name, (begin, Instant::now()), json!({}));
    }

    /// A request arrived (`b`), had its first token (`n`) or ended (`e`).
    pub(crate) fn request(&mut self, phase: &str, request: u64, name: &str, args: Value) {
        let ts = self.time(Instant::now());
        self.event(
            json!({ "ph": phase, "cat": "request", "id": request, "name": name, "ts": ts, "args": args }),
        );
    }

    fn span(&mut self, track: u32, name: &str, (begin, end): (Instant, Instant), args: Value) {
        let (ts, after) = (self.time(begin), self.time(end));
        self.event(
            json!({ "ph": "X", "tid": track, "name": name, "ts": ts, "dur": after - ts, "args": args }),
        );
    }

    fn time(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.created).as_secs_f64() * 1e6
    }

    fn event(&mut self, mut event: Value) {
        event["pid"] = 1.into();
        self.write(|file| write!(file, ",\n{event}"));
    }

    /// Writes out what is buffered.
    pub(crate) fn flush(&mut self) {
        self.write(Write::flush);
    }

    /// A file that cannot be written ends the trace and nothing else.
    fn write(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if let Some(file) = &mut self.file
            && let Err(error) = write(file)
        {
            eprintln!("the trace ends here: {error}");
            self.file = None;
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.write(|file| file.write_all(b"\n]\n"));
        self.flush();
    }
}
