//! A trace of requests and steps, as JSON trace events: Perfetto (ui.perfetto.dev) draws it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::scheduler::Usage;

/// A file of trace events. Times are microseconds from its creation.
pub struct Trace {
    /// `None` after an error.
    file: Option<BufWriter<File>>,
    created: Instant,
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
        let mut trace = Trace { file: Some(file), created: Instant::now() };
        for (track, name) in [(STEPS, "steps"), (HOST, "host")] {
            trace.event(json!({ "ph": "M", "tid": track, "name": "thread_name", "args": { "name": name } }));
        }
        Ok(trace)
    }

    /// A step that ran, with what was in use then.
    pub(crate) fn step(&mut self, times: (Instant, Instant), (tokens, chunks): (u32, usize), usage: Usage) {
        self.span(STEPS, "step", times, json!({ "tokens": tokens, "sequences": chunks }));
        let ts = self.time(times.1);
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
