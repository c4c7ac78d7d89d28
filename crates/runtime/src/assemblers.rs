//! Other processes that assemble kernels, where this one's driver does not have them in its cache.

use std::io::{self, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpwright_ptx::syntax;

use crate::backend::{LoadedModule, Loader};
use crate::device::Device;
use crate::error::Result;
use crate::module::Module;
use crate::signature;

impl Device {
    /// A [rehearsal](Self::rehearsal) whose kernels other processes assemble before they are loaded here.
    pub fn rehearsal_with(&self, assemblers: Arc<Assemblers>) -> Self {
        let loader = self.backend.loader.clone();
        self.rehearsal_loading_by(Arc::new(AssembledBefore { assemblers, loader }))
    }
}

/// Loads modules after other processes have assembled their kernels.
struct AssembledBefore {
    assemblers: Arc<Assemblers>,
    loader: Arc<dyn Loader>,
}

impl Loader for AssembledBefore {
    fn load(self: Arc<Self>, ptx: &str, parsed: Option<&syntax::Module>) -> Result<Arc<dyn LoadedModule>> {
        self.assemblers.load(ptx, || {
            let module = self.loader.clone().load(ptx, parsed)?;
            // A driver may assemble a kernel when it is needed first.
            let mut entries = parsed.into_iter().flat_map(signature::entries);
            entries.try_for_each(|entry| module.clone().kernel(&entry.name).map(drop))?;
            Ok(module)
        })
    }
}

/// Processes that assemble the kernels of a [rehearsal](Device::rehearsal_with).
///
/// CUDA's driver assembles the kernels of a process one by one, and other calls of the process wait. What it
/// assembles is in a cache on disk, which processes share. So when a kernel takes long to load, further ones are first
/// sent to other processes, one for each thread that loads. If those fail, kernels are assembled here.
pub struct Assemblers {
    program: Box<dyn Fn() -> Command + Send + Sync>,
    /// A load that takes longer has assembled a kernel.
    most: Duration,
    /// Whether a load has taken longer.
    is_slow: AtomicBool,
    has_failed: AtomicBool,
    /// Only one load is timed at once: the driver would let others wait.
    loading: Mutex<()>,
    idle: Mutex<Vec<Assembler>>,
}

/// How long the driver takes at most to load a kernel that is in its cache: some milliseconds, by measurement on an
/// H200. It takes 0.3 s on average to assemble one.
const CACHED_AT_MOST: Duration = Duration::from_millis(100);

impl Assemblers {
    /// Processes of a program that calls [`serve`](Self::serve) with its standard input and output.
    pub fn new(program: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        Self {
            program: Box::new(program),
            most: CACHED_AT_MOST,
            is_slow: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            loading: Mutex::default(),
            idle: Mutex::default(),
        }
    }

    /// The same, used when a load takes longer than `most`, 100 ms by default.
    #[must_use]
    pub fn after_loads_of(self, most: Duration) -> Self {
        Self { most, ..self }
    }

    /// Loads each kernel of `requests` on a device, so that its driver has it in its cache, until the end of the
    /// requests.
    ///
    /// # Errors
    /// Requests or replies cannot be read or written.
    pub fn serve(device: &Device, mut requests: impl Read, mut replies: impl Write) -> io::Result<()> {
        let mut bytes = [0; 8];
        while requests.read_exact(&mut bytes).is_ok() {
            let mut text = String::new();
            requests.by_ref().take(u64::from_le_bytes(bytes)).read_to_string(&mut text)?;
            // The process that asks loads the kernel, too, and reports what is wrong with it.
            let load =
                |module: Module| module.kernels().iter().try_for_each(|name| module.function(name).map(drop));
            drop(device.load_ptx(&text).and_then(load));
            replies.write_all(&[DONE])?;
            replies.flush()?;
        }
        Ok(())
    }

    /// Loads a kernel by `load`, which is assembled elsewhere before if loads take long.
    pub(crate) fn load<M>(&self, ptx: &str, load: impl FnOnce() -> Result<M>) -> Result<M> {
        let mut is_assembled = false;
        loop {
            if self.is_slow.load(Ordering::Relaxed) && !is_assembled {
                self.assemble(ptx);
                is_assembled = true;
            }
            let loading = lock(&self.loading);
            // The load in front was slow.
            if self.is_slow.load(Ordering::Relaxed) && !is_assembled {
                continue;
            }
            let begin = Instant::now();
            let loaded = load();
            if begin.elapsed() > self.most {
                self.is_slow.store(true, Ordering::Relaxed);
            }
            drop(loading);
            return loaded;
        }
    }

    /// Lets another process assemble a kernel.
    fn assemble(&self, ptx: &str) {
        if self.has_failed.load(Ordering::Relaxed) {
            return;
        }
        let idle = lock(&self.idle).pop();
        let assembler = idle.map_or_else(|| Assembler::start((self.program)()), Ok);
        match assembler.and_then(|mut assembler| assembler.assemble(ptx).map(|()| assembler)) {
            Ok(assembler) => lock(&self.idle).push(assembler),
            Err(_) => self.has_failed.store(true, Ordering::Relaxed),
        }
    }
}

impl std::fmt::Debug for Assemblers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Assemblers({:?})", (self.program)())
    }
}

/// The reply to a kernel.
const DONE: u8 = b'.';

/// A process.
struct Assembler {
    process: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Assembler {
    fn start(mut program: Command) -> io::Result<Self> {
        let mut process =
            program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (requests, replies) = (process.stdin.take(), process.stdout.take());
        let (Some(requests), Some(replies)) = (requests, replies) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Self { process, requests, replies: BufReader::new(replies) })
    }

    fn assemble(&mut self, ptx: &str) -> io::Result<()> {
        self.requests.write_all(&(ptx.len() as u64).to_le_bytes())?;
        self.requests.write_all(ptx.as_bytes())?;
        self.requests.flush()?;
        let mut reply = [0];
        self.replies.read_exact(&mut reply)?;
        if reply == [DONE] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

impl Drop for Assembler {
    fn drop(&mut self) {
        // It has nothing to finish.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const PTX: &str = include_str!("../tests/ptx/vector.ptx");

    /// The number of processes that are started when kernels are loaded that take longer than `most`.
    fn started(program: &str, script: &str, most: Duration) -> usize {
        let started = Arc::new(AtomicUsize::new(0));
        let (program, script, count) = (program.to_owned(), script.to_owned(), started.clone());
        let assemblers = Assemblers::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let mut command = Command::new(&program);
            command.args(["-c", &script]);
            command
        });
        let device = Device::named("emu:h200").expect("an emulator");
        let rehearsal = device.rehearsal_with(Arc::new(assemblers.after_loads_of(most)));
        for _ in 0..4 {
            rehearsal.load_ptx(PTX).expect("a module").function("add").expect("a kernel");
        }
        started.load(Ordering::Relaxed)
    }

    /// A process that replies to as many requests.
    fn replies(number: usize, reply: &str) -> String {
        let bytes = PTX.len() + 8;
        format!(
            "for request in $(seq {number}); do head -c {bytes} | wc -c | grep -q {bytes} && printf {reply}; done"
        )
    }

    #[test]
    fn kernels_are_sent_to_a_process_after_a_slow_load() {
        assert_eq!(started("sh", &replies(3, "."), Duration::ZERO), 1);
        assert_eq!(started("sh", &replies(3, "."), Duration::MAX), 0);
    }

    #[test]
    fn kernels_are_loaded_without_processes_that_fail() {
        assert_eq!(started("sh", &replies(2, "."), Duration::ZERO), 1, "one that ends early");
        assert_eq!(started("sh", &replies(3, "x"), Duration::ZERO), 1, "one with another reply");
        assert_eq!(started("true", "", Duration::ZERO), 1, "one that reads nothing");
        assert_eq!(started("/nonexistent", "", Duration::ZERO), 1);
    }

    #[test]
    fn each_request_has_a_reply() {
        let mut bytes = vec![];
        for text in [PTX, "not PTX", PTX] {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        let (device, mut replies) = (Device::named("emu:h200").expect("an emulator"), vec![]);
        Assemblers::serve(&device, &bytes[..], &mut replies).expect("all is read");
        assert_eq!(replies, [DONE; 3]);
    }
}
